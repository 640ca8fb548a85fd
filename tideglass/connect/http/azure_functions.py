"""Azure Functions as an output: rows in JSON arrays, each array a call of a function (`asa.md` 6.4).

The function answers 200 once it has done what it does with all rows of an array; 413 asks for smaller ones.
It gets rows at least once: again where its answer was lost, and after a crash. The same array has the same
header `Idempotency-Key`; a row has its id in the column the project names as `RowIdColumn`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tideglass.connect.azure.endpoints import endpoint
from tideglass.connect.environment import resolved_secret
from tideglass.connect.http.sending import AcceptedRows, OutgoingRow, RequestLimits, send
from tideglass.connect.output import Batch, OutputConnector
from tideglass.core.errors import OutputError

if TYPE_CHECKING:
    import pyarrow as pa

    from tideglass.connect.http.client import HttpAnswer
    from tideglass.storage import StoragePath

#: Of a request, where the project names none (`asa.md` 6.4).
MOST_ROWS, MOST_BYTES = 100, 262_144
#: After which a call is made again (`asa.md` 6.4).
TIMEOUT_SECONDS = 100.0


@dataclass(frozen=True, slots=True)
class AzureFunctionOutput(OutputConnector):
    """A function that is called with rows.

    name: of the output in the query.
    app: the function app, as a name or as a host.
    function: its name in the app.
    key: what lets in, or a reference to the environment; empty for a function that asks for none.
    limits: what a call holds.
    row_id_column: the column a row's id is added as; None: rows have none.
    accepted: which rows of the current batch the function has taken.
    """

    name: str
    app: str
    function: str
    key: str = field(default="", repr=False)
    limits: RequestLimits = RequestLimits(MOST_ROWS, MOST_BYTES)
    row_id_column: str | None = None
    accepted: AcceptedRows = field(default_factory=AcceptedRows, compare=False, repr=False)

    def prepare(self) -> None:
        """Call the function with an empty array, as the service does to test a connection."""
        self._call(b"[]", "")

    def publish(self, batch: Batch, staged: Sequence[pa.Table]) -> Sequence[pa.Table]:
        """Call the function until it has taken all rows of the batch."""
        send(self._rows(batch, staged), self.limits, self.accepted.of(batch), self._send, self.describe())
        return ()

    def identity(self, directory: StoragePath) -> Mapping[str, Any]:
        """The key and the sizes of calls may change."""
        words = {"app": self.app, "function": self.function, "row_id_column": self.row_id_column}
        return {"type": "azure function", **words, "path": None}

    def describe(self) -> str:
        return f"the function {self.function} of {self.app}"

    def _rows(self, batch: Batch, staged: Sequence[pa.Table]) -> list[OutgoingRow]:
        from tideglass.connect.row_ids import row_ids
        from tideglass.core.json_rows import json_lines

        ids = iter(row_ids(self.name, batch, staged))
        return [
            OutgoingRow(id_, self._with_id(text, id_).encode("utf-8", "surrogatepass"), part, row)
            for part, table in enumerate(staged)
            for row, (text, id_) in enumerate(zip(json_lines(table).to_pylist(), ids, strict=False))
        ]

    def _with_id(self, text: str, id_: str) -> str:
        """The row's JSON with its id as the first member, before one of that name."""
        if self.row_id_column is None:
            return text
        comma = "" if text == "{}" else ","
        return f"{{{json.dumps(self.row_id_column)}:{json.dumps(id_)}{comma}{text[1:]}"

    def _send(self, rows: Sequence[OutgoingRow]) -> bool:
        digest = hashlib.blake2b("".join(row.id for row in rows).encode(), digest_size=16).hexdigest()
        answer = self._call(b"[" + b",".join(row.data for row in rows) + b"]", digest)
        return answer.status == 200

    def _call(self, body: bytes, digest: str) -> HttpAnswer:
        """The answer, whose status is 200 or 413. Raises OutputError for any other."""
        from tideglass.connect.http.client import post, raise_for

        headers = {"Content-Type": "application/json"}
        if digest:
            headers["Idempotency-Key"] = digest
        key = resolved_secret(self.key, os.environ, f"the output {self.name!r}")
        if key:
            headers["x-functions-key"] = key
        answer = post(self.url, body, headers, TIMEOUT_SECONDS)
        raise_for(
            answer, self.describe(), refused="look at the output's ApiKey, which is a key of the function"
        )
        if answer.status not in (200, 413):
            raise OutputError(
                f"{self.describe()} has answered {answer.status} where 200 is expected: {answer.excerpt}"
            )
        return answer

    @property
    def url(self) -> str:
        """Where the function is called."""
        host = self.app if "." in self.app else f"{self.app}.azurewebsites.net"
        return f"{endpoint(host) or f'https://{host}'}/api/{quote(self.function)}"
