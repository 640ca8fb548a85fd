"""Rows as entities: typed properties under a partition key and a row key, and transactions of them.

BIGINT Int64, FLOAT Double, BIT Boolean, NVARCHAR String, DATETIME DateTime with all seven digits, RECORD and
ARRAY the text of their JSON. NULL is no property. Limits are the service's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from azure.data.tables import EdmType, EntityProperty

from tideglass.connect.formats.layout import spread
from tideglass.connect.refused_rows import RefusalKind, RefusedRow, RowsRefused
from tideglass.core.columns import from_variant, tags_of
from tideglass.core.iso import flat
from tideglass.core.time import format_ticks, parse_ticks
from tideglass.core.types import SYSTEM_TIMESTAMP, TAG, Type, types_of

if TYPE_CHECKING:
    from tideglass.connect.tables.output import EntityColumns

#: Of a key, and of a property that is a text; the service counts two bytes for each unit of UTF-16.
_MOST_KEY_BYTES, _MOST_TEXT_BYTES = 1024, 64 * 1024
_MOST_ENTITY_BYTES, _MOST_TRANSACTION_BYTES = 1024 * 1024, 4 * 1024 * 1024
#: Beside the two keys and the time of the service.
_MOST_PROPERTIES = 252
#: Around an entity in the text of a transaction.
_AROUND_BYTES = 1024
_NOT_IN_KEYS = re.compile(r"[/\\#?\x00-\x1f\x7f-\x9f]")
_NAME = re.compile(r"[^\W\d]\w{0,254}")
#: What the service sets itself.
_TIMESTAMP = "Timestamp"
_EARLIEST_TICKS = parse_ticks("1601-01-01T00:00:00Z") or 0

_EDM: Mapping[Type, EdmType] = {
    Type.BIGINT: EdmType.INT64,
    Type.FLOAT: EdmType.DOUBLE,
    Type.BIT: EdmType.BOOLEAN,
    Type.DATETIME: EdmType.DATETIME,
}


@dataclass(frozen=True, slots=True)
class RowEntity:
    """A row as an entity.

    part, row: where the row is in the staged tables.
    ticks: its time.
    bytes: about what it takes in a transaction.
    body: its properties, keys among them.
    """

    part: int
    row: int
    ticks: int
    bytes: int
    body: dict[str, Any]

    @property
    def keys(self) -> tuple[str, str]:
        return self.body["PartitionKey"], self.body["RowKey"]


class _Unfit(Exception):
    """A row that no entity can be made of: its kind of refusal, and why."""

    def __init__(self, kind: RefusalKind, reason: str) -> None:
        super().__init__(reason)
        self.kind, self.reason = kind, reason


def entities(staged: Sequence[pa.Table], columns: EntityColumns) -> list[RowEntity]:
    """An entity for every row. Raises RowsRefused for rows that none can be made of."""
    made: list[RowEntity] = []
    refused: list[RefusedRow] = []
    for part, table in enumerate(staged):
        has_times = SYSTEM_TIMESTAMP in table.column_names
        ticks = flat(table[SYSTEM_TIMESTAMP]).to_pylist() if has_times else [0] * table.num_rows
        for row, values in enumerate(_rows(spread(table))):
            try:
                body, size = _body(values, columns)
            except _Unfit as error:
                refused.append(RefusedRow(part, row, error.kind, error.reason))
            else:
                made.append(RowEntity(part, row, cast("int", ticks[row]), size, body))
    if refused:
        raise RowsRefused(refused)
    return made


def transactions(rows: Sequence[RowEntity], most: int) -> list[list[RowEntity]]:
    """Entities of one partition key each, at most so many; of rows with the same keys the last in time."""
    newest = {each.keys: each for each in sorted(rows, key=lambda row: row.ticks)}
    partitions: dict[str, list[RowEntity]] = {}
    for each in newest.values():
        partitions.setdefault(each.keys[0], []).append(each)
    found: list[list[RowEntity]] = []
    for members in partitions.values():
        current: list[RowEntity] = []
        size = 0
        for each in members:
            if current and (len(current) == most or size + each.bytes > _MOST_TRANSACTION_BYTES):
                found.append(current)
                current, size = [], 0
            current.append(each)
            size += each.bytes
        found.append(current)
    return found


def _rows(table: pa.Table) -> Iterator[dict[str, tuple[Type, Any]]]:
    """The values of each row that are not NULL, with their types."""
    columns: list[tuple[str, list[tuple[Type, Any] | None]]] = []
    for name, type_ in types_of(table).items():
        if not name.startswith("$"):
            columns.append((name, _typed(flat(table[name]), type_)))
    for row in range(table.num_rows):
        yield {name: found for name, values in columns if (found := values[row]) is not None}


def _typed(column: pa.Array, type_: Type) -> list[tuple[Type, Any] | None]:
    if type_ is not Type.VARIANT:
        return [None if value is None else (type_, value) for value in cast("list[Any]", column.to_pylist())]
    found: list[tuple[Type, Any] | None] = [None] * len(column)
    tags = tags_of(column)
    for own, tag in TAG.items():
        if (tags == ord(tag)).any():
            for row, value in enumerate(cast("list[Any]", from_variant(column, own).to_pylist())):
                if value is not None:
                    found[row] = (own, value)
    return found


def _body(values: dict[str, tuple[Type, Any]], columns: EntityColumns) -> tuple[dict[str, Any], int]:
    """The entity of a row, and about how many bytes it takes. Raises _Unfit."""
    keys = {
        "PartitionKey": _key(values, columns.partition_key),
        "RowKey": _key(values, columns.row_key),
    }
    left_out = {name.casefold() for name in (*columns.removed, *keys, _TIMESTAMP)}
    body: dict[str, Any] = dict(keys)
    size = sum(_text_bytes(each) for each in keys.values())
    for name, (type_, value) in values.items():
        if name.casefold() in left_out:
            continue
        if not _NAME.fullmatch(name):
            raise _Unfit(
                RefusalKind.COLUMN_NAME_INVALID,
                f"an entity cannot have a property {name!r}: only letters, digits and _; name it with AS",
            )
        body[name] = _property(name, type_, value)
        size += _text_bytes(name) + (_text_bytes(value) if isinstance(value, str) else 8)
    if len(body) > _MOST_PROPERTIES + len(keys):
        raise _too_large(f"the row has {len(body) - len(keys)} columns, an entity {_MOST_PROPERTIES} at most")
    if size > _MOST_ENTITY_BYTES:
        raise _too_large(f"the row takes {size:,} bytes, an entity {_MOST_ENTITY_BYTES:,} at most")
    return body, size + _AROUND_BYTES


def _key(values: dict[str, tuple[Type, Any]], column: str) -> str:
    name = column if column in values else next((e for e in values if e.lower() == column.lower()), None)
    if name is None:
        raise _Unfit(RefusalKind.REQUIRED_COLUMN_MISSING, f"the row has no value in {column!r}, a key")
    type_, value = values[name]
    if type_ in (Type.RECORD, Type.ARRAY):
        raise _Unfit(RefusalKind.TYPE_CONVERSION_ERROR, f"{column!r} is a key, and no {type_.value}")
    if type_ is Type.DATETIME:
        text = format_ticks(value)
    else:
        text = ("true" if value else "false") if type_ is Type.BIT else str(value)
    if _text_bytes(text) > _MOST_KEY_BYTES:
        raise _too_large(
            f"the key in {column!r} takes {_text_bytes(text):,} bytes, {_MOST_KEY_BYTES:,} at most"
        )
    if _NOT_IN_KEYS.search(text):
        raise _Unfit(
            RefusalKind.TYPE_CONVERSION_ERROR,
            f"the key {text[:60]!r} in {column!r} holds one of / \\ # ? or a control character",
        )
    return text


def _property(name: str, type_: Type, value: Any) -> Any:
    if type_ is Type.DATETIME:
        if value < _EARLIEST_TICKS:
            raise _Unfit(
                RefusalKind.TYPE_CONVERSION_ERROR, f"{name!r} is {format_ticks(value)}, before the year 1601"
            )
        value = format_ticks(value)
    if type_ in _EDM:
        return EntityProperty(value, _EDM[type_])
    if _text_bytes(value) > _MOST_TEXT_BYTES:
        raise _too_large(
            f"the text in {name!r} takes {_text_bytes(value):,} bytes, {_MOST_TEXT_BYTES:,} at most"
        )
    return value


def _too_large(reason: str) -> _Unfit:
    return _Unfit(RefusalKind.RECORD_EXCEEDED_SIZE_LIMIT, reason)


def _text_bytes(text: str) -> int:
    """As the service counts: UTF-16."""
    return len(text.encode("utf-16-le", "surrogatepass"))
