"""Rows as documents: JSON with an id, and which of them are one document."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from tideglass.connect.output import Batch
from tideglass.connect.refused_rows import RefusalKind, RefusedRow, RowsRefused
from tideglass.connect.row_ids import row_ids
from tideglass.core.iso import flat
from tideglass.core.json_rows import json_lines
from tideglass.core.types import SYSTEM_TIMESTAMP

if TYPE_CHECKING:
    from tideglass.connect.cosmos.output import CosmosOutput

#: Of a document's JSON in UTF-8.
MOST_BYTES = 2 * 1024 * 1024
_MOST_BYTES_OF_ID = 1023
_NOT_IN_IDS = set("/\\?#")


@dataclass(frozen=True, slots=True)
class RowDocument:
    """A row as a document.

    part, row: where the row is in the staged tables.
    ticks: its time.
    partition: the value of the partition key, as JSON; empty where the row has none.
    body: the document, with its id.
    own_id: whether its id is that of the row in its batch, which no other row has.
    """

    part: int
    row: int
    ticks: int
    partition: str
    body: dict[str, Any]
    own_id: bool

    def refused(self, kind: RefusalKind, reason: str) -> RefusedRow:
        return RefusedRow(self.part, self.row, kind, reason)


def documents(
    output: CosmosOutput, batch: Batch, staged: Sequence[pa.Table], partition_key: str
) -> list[RowDocument]:
    """A document for every row. Raises RowsRefused for rows that none can be made of."""
    made: list[RowDocument] = []
    refused: list[RefusedRow] = []
    ids = iter(row_ids(output.name, batch, staged))
    for part, table in enumerate(staged):
        has_times = SYSTEM_TIMESTAMP in table.column_names
        ticks = flat(table[SYSTEM_TIMESTAMP]).to_pylist() if has_times else [0] * table.num_rows
        for row, text in enumerate(cast("list[str]", json_lines(table).to_pylist())):
            own_id, body = next(ids), cast("dict[str, Any]", json.loads(text))
            problem = _with_id(body, output.document_id, own_id)
            if problem is None and len(text) * 4 > MOST_BYTES and len(text.encode()) > MOST_BYTES:
                problem = (
                    RefusalKind.RECORD_EXCEEDED_SIZE_LIMIT,
                    f"a document takes {MOST_BYTES:,} bytes at most, and the row has {len(text.encode()):,}",
                )
            if problem is not None:
                refused.append(RefusedRow(part, row, *problem))
                continue
            partition = json.dumps(body[partition_key]) if partition_key in body else ""
            made.append(RowDocument(part, row, ticks[row], partition, body, body["id"] == own_id))
    if refused:
        raise RowsRefused(refused)
    return made


def of_one_id(rows: Sequence[RowDocument]) -> list[list[RowDocument]]:
    """The rows of each document, the earliest first."""
    found: dict[tuple[str, str], list[RowDocument]] = {}
    for each in sorted(rows, key=lambda row: row.ticks):
        found.setdefault((each.partition, each.body["id"]), []).append(each)
    return list(found.values())


def _with_id(body: dict[str, Any], document_id: str | None, own_id: str) -> tuple[RefusalKind, str] | None:
    """Give a document its id; what is wrong with it, or None."""
    if document_id is None and "id" not in body:
        body["id"] = own_id
        return None
    column = document_id or "id"
    name = column if column in body else next((e for e in body if e.lower() == column.lower()), column)
    value = body.get(name)
    if value is None:
        return (
            RefusalKind.REQUIRED_COLUMN_MISSING,
            f"the row has no value in {column!r}, which is the document's id",
        )
    if isinstance(value, (dict, list)):
        return RefusalKind.TYPE_CONVERSION_ERROR, f"{column!r} is the document's id, and no record or array"
    text = value if isinstance(value, str) else json.dumps(value)
    if not text or _NOT_IN_IDS & set(text) or len(text.encode()) > _MOST_BYTES_OF_ID:
        return (
            RefusalKind.TYPE_CONVERSION_ERROR,
            f"{text[:60]!r} in {column!r} is no id of a document: 1 to {_MOST_BYTES_OF_ID} bytes without any "
            "of / \\ ? #",
        )
    body["id"] = text
    return None
