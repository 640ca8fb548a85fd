"""Documents into a container, by the library azure-cosmos."""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from azure.core import MatchConditions
from azure.core.credentials import AccessToken
from azure.core.exceptions import AzureError, ServiceRequestError, ServiceResponseError
from azure.cosmos import CosmosClient
from azure.cosmos.exceptions import (
    CosmosAccessConditionFailedError,
    CosmosHttpResponseError,
    CosmosResourceExistsError,
)
from azure.cosmos.partition_key import NonePartitionKeyValue

from tideglass.connect.azure.endpoints import endpoint
from tideglass.connect.azure.entra import entra_token
from tideglass.connect.cosmos.row_documents import RowDocument
from tideglass.connect.environment import resolved
from tideglass.connect.refused_rows import RefusalKind, RefusedRow, RowsRefused
from tideglass.core.at_once import at_once
from tideglass.core.errors import OutputError, OutputUnavailable

if TYPE_CHECKING:
    from azure.cosmos import ContainerProxy

#: Requests at once; a container has at least 400 request units a second, a small document takes some 6.
_AT_ONCE = 16
#: Answers that pass: timed out, throttled, to be tried again, and whatever a server has.
_PASSING = (408, 410, 429, 449)
#: How often a document is merged anew while others write it.
_ATTEMPTS = 10
#: What the service adds to a document.
_OF_THE_SERVICE = ("_rid", "_self", "_etag", "_ts", "_attachments")


@dataclass(frozen=True, slots=True)
class CosmosContainer:
    """A container of a database.

    output: the output's name, for messages.
    host: of the account.
    key: a reference to its key, or the key; empty: an identity of Entra ID.
    """

    output: str
    host: str
    database: str
    container: str
    key: str = field(repr=False)

    def partition_paths(self) -> tuple[str, ...]:
        """The paths of the partition key, such as `/device`.

        Raises OutputError for a container that is not there, OutputUnavailable.
        """
        with self._translated():
            return tuple(cast("Any", self._proxy().read())["partitionKey"]["paths"])

    def partition_key(self) -> str:
        """The property that is the partition key; asked for once in a process."""
        return _partition_key(self)

    def write(self, rows: Sequence[Sequence[RowDocument]], update: str) -> None:
        """Write documents, each made of one or more rows, the earliest first.

        update: of a document that is there: `replace`, `merge`, or `keep`, which refuses another one.
        Raises RowsRefused once all others are written, OutputUnavailable.
        """
        proxy = self._proxy()
        writes = {"replace": self._replaced, "merge": self._merged, "keep": self._kept}
        call = writes[update]
        refused = at_once(lambda each: call(proxy, each), rows, _AT_ONCE)
        found = sorted((row for each in refused for row in each), key=lambda row: (row.part, row.row))
        if found:
            raise RowsRefused(found)

    def _replaced(self, proxy: ContainerProxy, rows: Sequence[RowDocument]) -> list[RefusedRow]:
        """The last row is the document."""
        with self._refusals(rows) as refused:
            proxy.upsert_item(rows[-1].body, no_response=True)
        return refused

    def _merged(self, proxy: ContainerProxy, rows: Sequence[RowDocument]) -> list[RefusedRow]:
        """Fields of all rows, a later one's first, over those that are there; an array is replaced whole."""
        body: dict[str, Any] = {}
        for each in rows:
            body |= each.body
        with self._refusals(rows) as refused:
            for _ in range(_ATTEMPTS):
                try:
                    proxy.create_item(body)
                    return refused
                except CosmosResourceExistsError:
                    there = self._read(proxy, rows[-1])
                merged = {**there, **body}
                try:
                    proxy.replace_item(
                        rows[-1].body["id"],
                        merged,
                        etag=there["_etag"],
                        match_condition=MatchConditions.IfNotModified,
                    )
                    return refused
                except CosmosAccessConditionFailedError:
                    continue
            raise OutputUnavailable(
                f"a document of {self.container} is written by others all the time: {body['id']}"
            )
        return refused

    def _kept(self, proxy: ContainerProxy, rows: Sequence[RowDocument]) -> list[RefusedRow]:
        """Each row is the document, if there is no other; the same one may be there."""
        if rows[0].own_id:
            return self._replaced(proxy, rows)
        found: list[RefusedRow] = []
        for each in rows:
            with self._refusals([each]) as refused:
                try:
                    proxy.create_item(each.body, no_response=True)
                except CosmosResourceExistsError:
                    there = self._read(proxy, each)
                    if {name: there[name] for name in there if name not in _OF_THE_SERVICE} != each.body:
                        reason = f"another document has the id {each.body['id']!r}"
                        hint = "; name a DocumentId to replace it"
                        refused.append(each.refused(RefusalKind.DUPLICATE_KEY, reason + hint))
            found += refused
        return found

    def _read(self, proxy: ContainerProxy, row: RowDocument) -> dict[str, Any]:
        partition: Any = json.loads(row.partition) if row.partition else NonePartitionKeyValue
        return dict(proxy.read_item(row.body["id"], partition))

    @contextmanager
    def _refusals(self, rows: Sequence[RowDocument]) -> Generator[list[RefusedRow]]:
        """Takes up rows that the service refuses for what they hold; other errors are raised as ours."""
        refused: list[RefusedRow] = []
        try:
            with self._translated():
                yield refused
        except _RefusedDocument as error:
            refused += [each.refused(error.kind, error.reason) for each in rows]

    def _proxy(self) -> ContainerProxy:
        client = _client(
            self.host, self.key and resolved(self.key, os.environ, f"the output {self.output!r}")
        )
        return client.get_database_client(self.database).get_container_client(self.container)

    @contextmanager
    def _translated(self) -> Generator[None]:
        """Errors of the library as ours, without keys."""
        what = f"the container {self.container} of the database {self.database} in {self.host}"
        try:
            yield
        except CosmosHttpResponseError as error:
            status, reason = error.status_code or 0, str(error.http_error_message).strip().partition("\n")[0]
            if status == 413:
                raise _RefusedDocument(
                    RefusalKind.RECORD_EXCEEDED_SIZE_LIMIT, "the service takes no document of this size"
                ) from None
            if status == 400:
                raise _RefusedDocument(
                    RefusalKind.TYPE_CONVERSION_ERROR, f"the service refuses the document: {reason}"
                ) from None
            if status in _PASSING or status >= 500:
                wait = cast("Any", error.headers).get("x-ms-retry-after-ms")
                raise OutputUnavailable(
                    f"{what} answers {status}: {reason}", None if wait is None else float(wait) / 1000
                ) from None
            hints = {
                401: "\n  hint: look at the account's key",
                403: "\n  hint: look at the account's key, its role assignments and its firewall",
                404: "\n  hint: make the database and the container first, with their partition key",
            }
            raise OutputError(
                f"the output {self.output!r}: {what} answers {status}: {reason}{hints.get(status, '')}"
            ) from None
        except (ServiceRequestError, ServiceResponseError) as error:
            raise OutputUnavailable(f"{what} does not answer: {error.message}") from None
        except AzureError as error:
            raise OutputError(f"the output {self.output!r}: {what}: {error.message}") from error


class _RefusedDocument(OutputError):
    """The service refuses a document for what it holds."""

    def __init__(self, kind: RefusalKind, reason: str) -> None:
        super().__init__(reason)
        self.kind, self.reason = kind, reason


class _EntraCredential:
    """Tokens of Entra ID as the library asks for them."""

    def get_token(self, *scopes: str, **_: Any) -> AccessToken:
        found = entra_token(scopes[0])
        return AccessToken(found.text, int(found.expires_seconds))


@lru_cache(maxsize=64)
def _partition_key(container: CosmosContainer) -> str:
    return container.partition_paths()[0].removeprefix("/")


@lru_cache(maxsize=16)
def _client(host: str, key: str) -> CosmosClient:
    """The client of an account; it keeps its connections. key: empty for an identity of Entra ID."""
    stand_in = endpoint(host)
    return CosmosClient(
        stand_in or f"https://{host}:443/",
        key or cast("Any", _EntraCredential()),
        enable_endpoint_discovery=stand_in is None,
        retry_total=1,
        connection_timeout=10,
        read_timeout=60,
    )
