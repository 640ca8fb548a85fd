"""Tables of Azure Data Explorer (Kusto) as outputs, by streaming ingestion (`asa.md` 6.4, 5.4).

A request holds lines of JSON, whose names are those of the table's columns, and is answered once its rows are
in the table. Rows arrive at least once. Streaming ingestion knows no `ingest-by` tags, so a row that may be
told from its repetition has its id in a column of the table, `RowIdColumn` (`docs/decisions/0052`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tideglass.connect.azure.endpoints import endpoint
from tideglass.connect.http.sending import AcceptedRows, OutgoingRow, RequestLimits, send
from tideglass.connect.output import Batch, OutputConnector
from tideglass.connect.refused_rows import RefusalKind, RefusedRow, RowsRefused
from tideglass.core.errors import OutputError, OutputUnavailable
from tideglass.core.types import Type, types_of

if TYPE_CHECKING:
    import pyarrow as pa

    from tideglass.connect.http.client import HttpAnswer
    from tideglass.storage import StoragePath

#: Of a request: what streaming ingestion takes.
MOST_BYTES = 4 << 20
MOST_ROWS = 10_000
_TIMEOUT_SECONDS = 600.0
_INT = range(-(2**31), 2**31)

#: Types of values -> types of columns that take them (`asa.md` 5.4); `guid` takes a text that is one.
COLUMN_TYPES: Mapping[Type, frozenset[str]] = {
    Type.BIGINT: frozenset({"int", "long", "dynamic"}),
    Type.FLOAT: frozenset({"real", "double", "dynamic"}),
    Type.NVARCHAR: frozenset({"string", "guid", "dynamic"}),
    Type.DATETIME: frozenset({"datetime", "date", "string", "dynamic"}),
    Type.BIT: frozenset({"bool", "boolean", "dynamic"}),
    Type.RECORD: frozenset({"dynamic", "string"}),
    Type.ARRAY: frozenset({"dynamic", "string"}),
}
_OF_JSON: Mapping[type, Type] = {
    bool: Type.BIT,
    int: Type.BIGINT,
    float: Type.FLOAT,
    str: Type.NVARCHAR,
    dict: Type.RECORD,
    list: Type.ARRAY,
}


@dataclass(slots=True)
class TableColumns:
    """The columns of the table, once the service was asked. Of the driver's process only."""

    types: Mapping[str, str] | None = None

    def __reduce__(self) -> tuple[type[TableColumns], tuple[()]]:
        return TableColumns, ()


@dataclass(frozen=True, slots=True)
class DataExplorerOutput(OutputConnector):
    """A table that takes rows; an identity of Entra ID lets in.

    name: of the output in the query.
    host: of the cluster.
    database: its name.
    table: its name; it must be there, with a column for each of a row.
    row_id_column: the column a row's id goes to; None: to none.
    limits: what a request holds.
    columns: of the table.
    accepted: which rows of the current batch the service has taken.
    """

    name: str
    host: str
    database: str
    table: str
    row_id_column: str | None = None
    limits: RequestLimits = RequestLimits(MOST_ROWS, MOST_BYTES)
    columns: TableColumns = field(default_factory=TableColumns, compare=False, repr=False)
    accepted: AcceptedRows = field(default_factory=AcceptedRows, compare=False, repr=False)

    def prepare(self) -> None:
        """Ask for the columns of the table. Raises OutputError where it is not there or refuses."""
        command = f".show table {_quoted(self.table)} schema as json"
        body = json.dumps({"db": self.database, "csl": command}).encode()
        answer = self._post("/v1/rest/mgmt", body, "application/json; charset=utf-8")
        if answer.status != 200:
            raise OutputError(f"{self.describe()} cannot be looked at ({answer.status}): {answer.excerpt}")
        self.columns.types = columns_in(answer.body, self.describe())
        if self.row_id_column is not None and self.columns.types.get(self.row_id_column) != "string":
            raise OutputError(
                f"{self.describe()} has no column {self.row_id_column!r} of the type string, as RowIdColumn "
                f"says; it has {', '.join(self.columns.types)}"
            )

    def publish(self, batch: Batch, staged: Sequence[pa.Table]) -> Sequence[pa.Table]:
        """Send the rows of the batch that the service has not accepted yet."""
        if self.columns.types is None:
            self.prepare()
        send(self._rows(batch, staged), self.limits, self.accepted.of(batch), self._send, self.describe())
        return ()

    def identity(self, directory: StoragePath) -> Mapping[str, Any]:
        words = {"cluster": self.host, "database": self.database, "table": self.table}
        return {"type": "data explorer", **words, "row_id_column": self.row_id_column, "path": None}

    def describe(self) -> str:
        return f"the table {self.table} of {self.database} in {self.host}"

    def _rows(self, batch: Batch, staged: Sequence[pa.Table]) -> list[OutgoingRow]:
        """The rows as lines of JSON. Raises RowsRefused for those the table has no place for."""
        from tideglass.connect.row_ids import row_ids
        from tideglass.core.json_rows import json_lines

        ids, taken = iter(row_ids(self.name, batch, staged)), self.columns.types or {}
        found: list[OutgoingRow] = []
        refused: list[RefusedRow] = []
        for part, table in enumerate(staged):
            declared = types_of(table)
            for row, text in enumerate(json_lines(table).to_pylist()):
                id_, values = next(ids), json.loads(text)
                problem = _problem(values, declared, taken)
                if problem is not None:
                    refused.append(RefusedRow(part, row, *problem))
                    continue
                if self.row_id_column is not None:
                    text = json.dumps({**values, self.row_id_column: id_}, ensure_ascii=False)
                found.append(OutgoingRow(id_, text.encode("utf-8", "surrogatepass"), part, row))
        if refused:
            raise RowsRefused(refused)
        return found

    def _send(self, rows: Sequence[OutgoingRow]) -> bool:
        path = (
            f"/v1/rest/ingest/{quote(self.database, safe='')}/{quote(self.table, safe='')}?streamFormat=json"
        )
        answer = self._post(path, b"\n".join(row.data for row in rows), "application/json; charset=utf-8")
        if answer.status == 413:
            return False
        if answer.status != 200:
            if not _is_permanent(answer.body):
                raise OutputUnavailable(f"{self.describe()} cannot take rows now: {answer.excerpt}")
            raise OutputError(f"{self.describe()} has refused rows ({answer.status}): {answer.excerpt}")
        return True

    def _post(self, path: str, body: bytes, content_type: str) -> HttpAnswer:
        from tideglass.connect.http.client import bearer, post, raise_for

        base = f"https://{self.host}"
        headers = {"Authorization": bearer(f"{base}/.default"), "Content-Type": content_type}
        answer = post((endpoint(self.host) or base) + path, body, headers, _TIMEOUT_SECONDS)
        raise_for(
            answer,
            self.describe(),
            refused="the identity needs the roles Database Ingestor and Table Viewer in the database",
        )
        return answer


def columns_in(body: bytes, table: str) -> dict[str, str]:
    """Name -> type of the columns in the answer to `.show table … schema as json`. Raises OutputError."""
    try:
        first = json.loads(body)["Tables"][0]
        place = [column["ColumnName"] for column in first["Columns"]].index("Schema")
        schema = json.loads(first["Rows"][0][place])
        return {each["Name"]: str(each["CslType"]).lower() for each in schema["OrderedColumns"]}
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise OutputError(f"what Data Explorer says of {table} is no schema: {error}") from error


def _problem(
    values: Mapping[str, Any], declared: Mapping[str, Type], taken: Mapping[str, str]
) -> tuple[RefusalKind, str] | None:
    """Why the table has no place for a row; None where it has one."""
    for name, value in values.items():
        column_type = taken.get(name)
        if column_type is None:
            return (
                RefusalKind.COLUMN_NAME_INVALID,
                f"the table has no column {name!r} (capital letters count); it has {', '.join(taken)}",
            )
        if value is None:
            continue
        type_ = declared.get(name, Type.RECORD)
        type_ = Type.DATETIME if type_ is Type.DATETIME else _OF_JSON[type(value)]
        if column_type not in COLUMN_TYPES[type_] or (column_type == "int" and value not in _INT):
            return (
                RefusalKind.TYPE_CONVERSION_ERROR,
                f"the column {name!r} of the table is {column_type}, the row holds {type_.value}",
            )
    return None


def _is_permanent(body: bytes) -> bool:
    """Whether an error will be the same when asked again, as Data Explorer itself says."""
    try:
        error = json.loads(body)["error"]
        return bool(error["@permanent"])
    except (ValueError, KeyError, TypeError):
        return True


def _quoted(name: str) -> str:
    """A name in a command of Kusto."""
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"['{escaped}']"
