"""Tables as rows people read: Python dictionaries and JSON lines, and tables made from dictionaries."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias, cast

import pyarrow as pa

from tideglass.core.columns import settle
from tideglass.core.iso import flat, texts_of_ticks
from tideglass.core.json_sql import double_json_sql, literal_sql, variant_json_sql
from tideglass.core.sql import query
from tideglass.core.time import (
    format_ticks,
    parse_ticks,
    ticks_of_datetime,
)
from tideglass.core.types import ARRIVAL, PAYLOAD, SYSTEM_TIMESTAMP, TAG, TYPE_OF_TAG, Type, field, types_of

#: What a row holds for people: JSON's values; a datetime is ISO text with seven digits and Z.
Value: TypeAlias = Any

_READERS: Mapping[Type, Callable[[Any], Value]] = {
    Type.DATETIME: format_ticks,
    Type.RECORD: json.loads,
    Type.ARRAY: json.loads,
}
_READERS_OF_TEXT: Mapping[Type, Callable[[str], Value]] = {
    Type.BIGINT: int,
    Type.FLOAT: float,
    Type.NVARCHAR: str,
    Type.DATETIME: lambda text: format_ticks(int(text)),
    Type.BIT: lambda text: text == "1",
    Type.RECORD: json.loads,
    Type.ARRAY: json.loads,
}


def _values(column: pa.ChunkedArray, type_: Type) -> list[Value]:
    held = cast("list[Any]", column.to_pylist())
    if type_ is Type.VARIANT:
        return [None if v is None else _READERS_OF_TEXT[TYPE_OF_TAG[v[0]]](v[1:]) for v in held]
    reader = _READERS.get(type_)
    return held if reader is None else [None if v is None else reader(v) for v in held]


def rows_of(table: pa.Table) -> list[dict[str, Value]]:
    """The rows as dictionaries: listed columns first, then the payload's fields they do not shadow.

    Columns of the engine (`$...`) are left out; a datetime is ISO text, a record a dict, a bit a bool.
    """
    types = types_of(table)
    names = [name for name in table.column_names if not name.startswith("$")]
    columns = [_values(table[name], types[name]) for name in names]
    rows: list[dict[str, Value]] = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    if not names:
        rows = [{} for _ in range(table.num_rows)]
    if PAYLOAD in types:
        for row, payload in zip(rows, _values(table[PAYLOAD], types[PAYLOAD]), strict=True):
            for name, value in (payload or {}).items():
                row.setdefault(name, value)
    return rows


# ---------------------------------------------------------------- JSON lines


def json_lines(table: pa.Table) -> pa.Array:
    """The JSON text of each row, with the content `rows_of` shows.

    A bigint is written as an integer, a float always with a fraction or exponent, NULL and what JSON
    cannot hold (NaN, infinity) as null; records and arrays keep their text.
    """
    types = types_of(table)
    names = [name for name in table.column_names if not name.startswith("$")]
    columns: list[pa.Array] = []
    parts: list[str] = []
    for place, name in enumerate(names):
        column, type_, value = flat(table[name]), types[name], f'"c{place}"'
        if type_ is Type.DATETIME:
            column = texts_of_ticks(column)
        columns.append(column)
        parts.append(
            f"{literal_sql(json.dumps(name, ensure_ascii=False) + ':')} || {_json_sql(value, type_)}"
        )
    listed = " || ',' || ".join(parts) if parts else "''"
    if PAYLOAD in types:
        columns.append(flat(table[PAYLOAD]))
        listed = _with_payload(listed if parts else "", names, f'"c{len(names)}"')
    if not columns:
        return pa.repeat("{}", table.num_rows)
    source = pa.table(columns, names=[f"c{place}" for place in range(len(columns))])
    return flat(query(f"SELECT '{{' || {listed} || '}}' AS y FROM t", t=source)["y"])


def _json_sql(value: str, type_: Type) -> str:
    match type_:
        case Type.NULL:
            return "'null'"
        case Type.BIGINT:
            text = f"CAST({value} AS VARCHAR)"
        case Type.FLOAT:
            text = double_json_sql(value)
        case Type.NVARCHAR:
            text = f"CAST(to_json({value}) AS VARCHAR)"
        case Type.DATETIME:
            text = f"'\"' || {value} || '\"'"
        case Type.BIT:
            text = f"CASE WHEN {value} THEN 'true' WHEN NOT {value} THEN 'false' END"
        case Type.RECORD | Type.ARRAY:
            text = value
        case Type.VARIANT:
            text = variant_json_sql(value)
    return f"coalesce({text}, 'null')"


def members_sql(record: str, without: Sequence[str]) -> str:
    """SQL of the `"name":value` list of a record's text, less the named fields; '' when none is left."""
    inner = f"coalesce({record}[2:-2], '')"
    if not without:
        return inner
    names = ", ".join(literal_sql(name) for name in without)
    shadowed = " OR ".join(f"contains({record}, {literal_sql(json_key(name))})" for name in without)
    pairs = f"list_zip(json_keys({record}), json_extract({record}, '$.*'))"
    kept = f"list_filter({pairs}, lambda p: p[1] NOT IN ({names}))"
    written = (
        f"list_transform({kept}, lambda p: CAST(to_json(p[1]) AS VARCHAR) || ':' || CAST(p[2] AS VARCHAR))"
    )
    return f"CASE WHEN {shadowed} THEN coalesce(array_to_string({written}, ','), '') ELSE {inner} END"


def json_key(name: str) -> str:
    """The key as compact JSON text has it in front of a value."""
    return json.dumps(name, ensure_ascii=False)


def _with_payload(listed: str, names: Sequence[str], payload: str) -> str:
    rest = members_sql(payload, names)
    if not listed:
        return rest
    return f"{listed} || CASE WHEN ({rest}) = '' THEN '' ELSE ',' || ({rest}) END"


# ---------------------------------------------------------------- tables from rows


def table_of(rows: Sequence[Mapping[str, Value]], types: Mapping[str, Type] | None = None) -> pa.Table:
    """A table of Python values, each column in its natural type or as VARIANT.

    `types` declares the types of columns: the datetime columns above all, whose values may be ISO
    texts, ticks or datetime objects. `$ts` and `$arrival` are datetimes, `$payload` is a record.
    """
    declared = {
        SYSTEM_TIMESTAMP: Type.DATETIME,
        ARRIVAL: Type.DATETIME,
        PAYLOAD: Type.RECORD,
        **(types or {}),
    }
    names = list(dict.fromkeys(name for row in rows for name in row))
    names += [name for name in types or {} if name not in names]
    columns: list[pa.Array] = []
    fields: list[pa.Field] = []
    for name in names:
        tagged = pa.array([_tagged(row.get(name), declared.get(name)) for row in rows], pa.string())
        column, type_ = settle(tagged, Type.VARIANT)
        columns.append(column)
        fields.append(field(name, type_))
    return pa.table(columns, schema=pa.schema(fields))


def _tagged(value: Value, type_: Type | None) -> str | None:
    if value is None:
        return None
    if isinstance(value, datetime):
        return f"d{ticks_of_datetime(value)}"
    if type_ is Type.DATETIME:
        ticks = parse_ticks(value) if isinstance(value, str) else int(value)
        if ticks is None:
            raise ValueError(f"{value!r} names no instant")
        return f"d{ticks}"
    if isinstance(value, bool):
        return f"b{int(value)}"
    if isinstance(value, int) and type_ is not Type.FLOAT:
        return f"i{value}"
    if isinstance(value, int | float):
        return f"f{float(value)!r}"
    if isinstance(value, str):
        is_json = type_ is not None and type_ in (Type.RECORD, Type.ARRAY)
        return f"{TAG[type_ if is_json and type_ else Type.NVARCHAR]}{value}"
    if isinstance(value, Mapping | Sequence):
        return ("r" if isinstance(value, Mapping) else "a") + compact_json(value)
    raise TypeError(f"{value!r} is no value of the language")


def compact_json(value: Value) -> str:
    """The compact JSON text of a Python value; NaN and infinity, which JSON lacks, become null."""

    def plain(part: Value) -> Value:
        if isinstance(part, Mapping):
            return {key: plain(item) for key, item in cast("Mapping[str, Any]", part).items()}
        if isinstance(part, list | tuple):
            return [plain(item) for item in cast("Sequence[Any]", part)]
        return None if isinstance(part, float) and not math.isfinite(part) else part

    return json.dumps(plain(value), separators=(",", ":"), ensure_ascii=False)
