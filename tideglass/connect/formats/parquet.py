"""Parquet events: typed columns, read one row group at a time (`asa.md` 5.3).

Parquet                          value
integers                         BIGINT; an unsigned one past int64 refuses the event
floats, decimals                 FLOAT (a decimal's nearest double)
booleans                         BIT, BIGINT 0 or 1 below level 1.2
texts, enums; binary             NVARCHAR; binary as base64 text
timestamps, dates                DATETIME, what is finer than 100 ns is cut; outside 0001..9999 refused
times, durations                 NVARCHAR; BIGINT in the column's own unit
lists, structs, maps             ARRAY, RECORD, ARRAY of {"key", "value"}
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from tideglass.connect.formats.columnar import decode_columns, match_name
from tideglass.connect.formats.decoded import INVALID_DATA, Decoded, Refusals
from tideglass.core.arrays import Ints, Mask, pc
from tideglass.core.events import Fields
from tideglass.core.iso import flat
from tideglass.core.profile import measured
from tideglass.core.time import (
    LAST_TICKS,
    ORIGIN_TICKS,
    TICKS_PER_DAY,
    TICKS_PER_MILLISECOND,
    TICKS_PER_SECOND,
    format_ticks,
    ticks_of_datetime,
)
from tideglass.core.types import Type

#: Makes an Arrow column into values: the column, its type, and which rows cannot be values.
ColumnValues: TypeAlias = "Callable[[pa.Array, str], tuple[pa.Array, Type, Mask | None]]"

ParquetFile = cast("Any", pyarrow.parquet).ParquetFile

_TICKS_OF_UNIT = {"s": TICKS_PER_SECOND, "ms": TICKS_PER_MILLISECOND, "us": 10}


def wanted_columns(names: Sequence[str], fields: Fields) -> list[str]:
    """The columns of a file that must be read."""
    if fields.whole:
        return list(names)
    wanted = [path[0] for path in fields.paths] + [name for name, _ in fields.payload_types]
    return list(dict.fromkeys(name for name in (match_name(names, w) for w in wanted) if name is not None))


@measured("decoding events")
def decode_parquet(
    table: pa.Table,
    fields: Fields,
    level: str = "1.2",
    lines: Ints | None = None,
    values: ColumnValues | None = None,
) -> Decoded:
    """Events from the rows of a table as Parquet holds it (at least its `wanted_columns`).

    values: makes values of a column; None: `value_column`.
    """
    lines = np.arange(table.num_rows) if lines is None else lines
    refusals = Refusals()
    keep = np.ones(table.num_rows, np.bool_)
    columns: dict[str, tuple[pa.Array, Type]] = {}
    for name in table.column_names:
        array, type_, unreadable = (values or value_column)(flat(table[name]), level)
        columns[name] = (array, type_)
        if unreadable is not None:
            places = np.flatnonzero(unreadable & keep)
            message = f"the column {name} holds a value outside the range of {type_.value}"
            examples = table[name].take(pa.array(places[:3])).cast(pa.string()).to_pylist()
            refusals.add(INVALID_DATA, message, lines[places], examples)
            keep &= ~unreadable
    return decode_columns(columns, fields, level, lines, refusals, keep)


def value_column(array: pa.Array, level: str = "1.2") -> tuple[pa.Array, Type, Mask | None]:
    """An Arrow column as values, and which rows cannot be (None when all can)."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return value_column(cast("Any", array).dictionary_decode(), level)
    if isinstance(array, pa.ExtensionArray):
        return value_column(array.storage, level)
    column, type_, unreadable = _natural(array, kind)
    if type_ is Type.BIT and level < "1.2":
        column, type_ = pc.cast(column, pa.int64()), Type.BIGINT
    if column.null_count == len(column) and unreadable is None:
        return pa.nulls(len(column)), Type.NULL, None
    return column, type_, unreadable


def _natural(array: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Type, Mask | None]:
    is_ = pa.types
    if is_.is_null(kind):
        return pa.nulls(len(array)), Type.NULL, None
    if is_.is_uint64(kind):
        too_large = np.asarray(pc.fill_null(pc.greater(array, pa.scalar(2**63 - 1, kind)), False))
        fitting = pc.if_else(pa.array(~too_large), array, pa.scalar(None, kind)) if too_large.any() else array
        return pc.cast(fitting, pa.int64()), Type.BIGINT, too_large if too_large.any() else None
    if is_.is_integer(kind):
        return pc.cast(array, pa.int64()), Type.BIGINT, None
    if is_.is_floating(kind) or is_.is_decimal(kind):
        return pc.cast(array, pa.float64()), Type.FLOAT, None
    if is_.is_boolean(kind):
        return array, Type.BIT, None
    if is_.is_timestamp(kind) or is_.is_date(kind):
        return _datetimes(array, kind)
    if is_.is_duration(kind):
        return pc.cast(array, pa.int64()), Type.BIGINT, None
    if is_.is_binary(kind) or is_.is_large_binary(kind) or is_.is_fixed_size_binary(kind):
        texts = [None if v is None else base64.b64encode(v).decode() for v in array.to_pylist()]
        return pa.array(texts, pa.string()), Type.NVARCHAR, None
    if is_.is_nested(kind):
        texts = [None if value is None else json_text(value) for value in _plain_maps(array)]
        return pa.array(texts, pa.string()), Type.RECORD if is_.is_struct(kind) else Type.ARRAY, None
    return pc.cast(array, pa.string()), Type.NVARCHAR, None


def _datetimes(array: pa.Array, kind: Any) -> tuple[pa.Array, Type, Mask | None]:
    if pa.types.is_date(kind):
        counts, ticks_each = pc.cast(pc.cast(array, pa.date32()), pa.int32()), TICKS_PER_DAY
    elif kind.unit == "ns":
        values = pc.cast(array, pa.int64())
        return pc.subtract(pc.divide(values, 100), _rounds_up(values)), Type.DATETIME, None
    else:
        counts, ticks_each = pc.cast(array, pa.int64()), _TICKS_OF_UNIT[kind.unit]
    first, last = -(-ORIGIN_TICKS // ticks_each), LAST_TICKS // ticks_each
    outside = pc.fill_null(pc.or_(pc.less(counts, first), pc.greater(counts, last)), False)
    mask = np.asarray(outside)
    if mask.any():
        counts = pc.if_else(outside, pa.scalar(None, counts.type), counts)
    return pc.multiply(pc.cast(counts, pa.int64()), ticks_each), Type.DATETIME, mask if mask.any() else None


def _rounds_up(nanoseconds: pa.Array) -> pa.Array:
    """1 where dividing by 100 rounds towards zero, and so up: before 1970."""
    remainder = pc.subtract(nanoseconds, pc.multiply(pc.divide(nanoseconds, 100), 100))
    return pc.cast(pc.less(remainder, 0), pa.int64())


def _plain_maps(array: pa.Array) -> list[Any]:
    """Python values; a map is the list of its pairs."""
    if pa.types.is_map(array.type):
        return [
            None if pairs is None else [{"key": key, "value": value} for key, value in pairs]
            for pairs in cast("list[Any]", array.to_pylist())
        ]
    return cast("list[Any]", array.to_pylist())


def json_text(value: Any) -> str:
    """The JSON text of a nested value; what JSON lacks is text: times in ISO, bytes in base64."""
    return json.dumps(_finite(value), default=_json_value, ensure_ascii=False, separators=(",", ":"))


def _finite(value: Any) -> Any:
    """The value with NaN and infinities, which JSON cannot hold, as null."""
    match value:
        case float():
            return value if np.isfinite(value) else None
        case dict():
            return {name: _finite(inner) for name, inner in cast("dict[str, Any]", value).items()}
        case list() | tuple():
            return [_finite(inner) for inner in cast("list[Any]", value)]
        case _:
            return value


def _json_value(value: Any) -> Any:
    match value:
        case datetime():
            return format_ticks(ticks_of_datetime(value))
        case date():
            return f"{value.isoformat()}T00:00:00.0000000Z"
        case Decimal():
            return float(value)
        case bytes():
            return base64.b64encode(value).decode()
        case _:
            return str(value)
