"""Transactions into a table, by the library azure-data-tables."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

from azure.core.credentials import AccessToken, AzureNamedKeyCredential
from azure.core.exceptions import AzureError, HttpResponseError, ServiceRequestError, ServiceResponseError
from azure.data.tables import TableServiceClient, TableTransactionError, UpdateMode

from tideglass.connect.azure.endpoints import endpoint
from tideglass.connect.azure.entra import entra_token
from tideglass.connect.environment import resolved
from tideglass.connect.refused_rows import RefusalKind, RefusedRow, RowsRefused
from tideglass.connect.tables.entities import RowEntity
from tideglass.core.at_once import at_once
from tideglass.core.errors import OutputError, OutputUnavailable

#: Transactions at once, each of a partition of its own or of another piece of one.
_AT_ONCE = 8
_PASSING = (408, 429)


@dataclass(frozen=True, slots=True)
class TableService:
    """A table of a storage account.

    output: the output's name, for messages.
    host: of the account's tables.
    key: a reference to its key, or the key; empty: an identity of Entra ID.
    """

    output: str
    host: str
    table: str
    key: str = field(repr=False)

    def make_table(self) -> None:
        """Make the table unless it is there. Raises OutputError, OutputUnavailable."""
        with self._translated():
            self._client().create_table_if_not_exists(self.table)

    def write(self, transactions: Sequence[Sequence[RowEntity]]) -> None:
        """Insert or replace the entities.

        Raises RowsRefused once all other transactions are written, OutputUnavailable.
        """
        client = self._client()
        refused = at_once(lambda each: self._submit(client, each), transactions, _AT_ONCE)
        found = sorted((row for each in refused for row in each), key=lambda row: (row.part, row.row))
        if found:
            raise RowsRefused(found)

    def _submit(self, client: TableServiceClient, rows: Sequence[RowEntity]) -> list[RefusedRow]:
        """One transaction; one that is too large is halved. Returns what the service refuses."""
        operations: Any = [("upsert", each.body, {"mode": UpdateMode.REPLACE}) for each in rows]
        try:
            with self._translated():
                client.get_table_client(self.table).submit_transaction(operations)
        except _RefusedTransaction as error:
            if error.too_large and len(rows) > 1:
                half = len(rows) // 2
                return [*self._submit(client, rows[:half]), *self._submit(client, rows[half:])]
            row = rows[min(error.index, len(rows) - 1)]
            large = error.too_large or "TooLarge" in error.reason
            kind = RefusalKind.RECORD_EXCEEDED_SIZE_LIMIT if large else RefusalKind.TYPE_CONVERSION_ERROR
            return [RefusedRow(row.part, row.row, kind, f"the service refuses the entity: {error.reason}")]
        return []

    def _client(self) -> TableServiceClient:
        return _client(self.host, self.key and resolved(self.key, os.environ, f"the output {self.output!r}"))

    @contextmanager
    def _translated(self) -> Generator[None]:
        """Errors of the library as ours, without keys."""
        what = f"the table {self.table} of {self.host}"
        try:
            yield
        except (ServiceRequestError, ServiceResponseError) as error:
            raise OutputUnavailable(f"{what} does not answer: {error.message}") from None
        except HttpResponseError as error:
            status = error.status_code or 0
            code = str(getattr(error, "error_code", None) or "").rpartition(".")[2]
            reason = f"{code} {str(error.message).partition(chr(10))[0]}".strip()
            if status == 413:
                raise _RefusedTransaction(0, reason, too_large=True) from None
            if status == 400 and isinstance(error, TableTransactionError):
                raise _RefusedTransaction(error.index, reason) from None
            if status in _PASSING or status >= 500:
                raise OutputUnavailable(f"{what} answers {status}: {reason}", _retry_after(error)) from None
            hints = {
                401: "\n  hint: look at the account's key",
                403: "\n  hint: look at the account's key, its role assignments and its firewall",
                404: "\n  hint: the table was deleted while the job ran; start the job again",
            }
            raise OutputError(
                f"the output {self.output!r}: {what} answers {status}: {reason}{hints.get(status, '')}"
            ) from None
        except (AzureError, ValueError) as error:
            raise OutputError(f"the output {self.output!r}: {what}: {error}") from None


class _RefusedTransaction(OutputError):
    """The service refuses a transaction for what the entity with that number in it holds, or as a whole."""

    def __init__(self, index: int, reason: str, *, too_large: bool = False) -> None:
        super().__init__(reason)
        self.index, self.reason, self.too_large = index, reason, too_large


def _retry_after(error: HttpResponseError) -> float | None:
    headers = cast("Any", error.response).headers if error.response is not None else {}
    text = str(headers.get("Retry-After") or "")
    return float(text) if text.isdigit() else None


class _TableCredential:
    """Tokens of Entra ID as the library asks for them."""

    def get_token(self, *scopes: str, **_: Any) -> AccessToken:
        found = entra_token(scopes[0])
        return AccessToken(found.text, int(found.expires_seconds))


@lru_cache(maxsize=16)
def _client(host: str, key: str) -> TableServiceClient:
    """The client of an account; it keeps its connections. key: empty for an identity of Entra ID."""
    account = host.partition(".")[0]
    credential: Any = AzureNamedKeyCredential(account, key) if key else _TableCredential()
    return TableServiceClient(
        endpoint(host) or f"https://{host}",
        credential=credential,
        retry_total=1,
        connection_timeout=10,
        read_timeout=60,
    )
