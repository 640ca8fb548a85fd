"""Rows as the columns of CSV and Parquet files: the payload spread, each value as the format holds it."""

from __future__ import annotations

import csv
import io
from typing import cast

import numpy as np
import pyarrow as pa

from tideglass.connect.formats.json.decode import extract_from_records
from tideglass.core import sql, types
from tideglass.core.arrays import pc
from tideglass.core.iso import flat, texts_of_ticks
from tideglass.core.json_rows import rows_of
from tideglass.core.json_sql import variant_json_sql
from tideglass.core.types import PAYLOAD, Type, types_of

# What timestamp[ns] can hold: 1677-09-21 to 2262-04-11.
_FIRST_NANOSECOND_TICKS = -(2**63) // 100 + 1
_LAST_NANOSECOND_TICKS = (2**63 - 1) // 100


def spread(table: pa.Table, level: str = "1.2") -> pa.Table:
    """The listed columns, then a column per further field of the payloads, in the order first seen."""
    own = types_of(table)
    listed = [name for name in table.column_names if not name.startswith("$")]
    columns: list[pa.Array] = [flat(table[name]) for name in listed]
    fields = [types.field(name, own[name]) for name in listed]
    if PAYLOAD in own and own[PAYLOAD] is not Type.NULL:
        payload = flat(table[PAYLOAD])
        keys = sql.query(
            "SELECT key FROM (SELECT r, unnest(k) AS key, generate_subscripts(k, 1) AS i FROM "
            "(SELECT r, json_keys(p) AS k FROM t)) GROUP BY key ORDER BY min((r, i))",
            t=pa.table({"p": payload, "r": np.arange(len(payload))}),
        )["key"].to_pylist()
        for name in cast("list[str]", keys):
            if name not in listed:
                array, type_ = extract_from_records(payload, (name,), level)
                columns.append(array)
                fields.append(types.field(name, type_))
    if not columns:
        return pa.table({"$nothing": pa.nulls(table.num_rows)})
    return pa.table(columns, schema=pa.schema(fields))


def csv_bytes(table: pa.Table, delimiter: str) -> bytes:
    """A header and one line per row; NULL is empty, a record or array is its type's name (`asa.md` 5.3)."""
    shown = spread(table)
    names = [name for name in shown.column_names if not name.startswith("$")]
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(names)
    for row in rows_of(shown):
        writer.writerow([_csv_text(row[name]) for name in names])
    return text.getvalue().encode()


def _csv_text(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float() if not np.isfinite(value):
            return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case dict():
            return "Record"
        case list():
            return "Array"
        case _:
            return str(value)


def parquet_table(table: pa.Table) -> pa.Table:
    """The rows as Parquet columns.

    BIGINT int64, FLOAT double (NaN stays), BIT boolean, NVARCHAR string, RECORD and ARRAY their JSON text.
    DATETIME is timestamp[ns, UTC], which keeps all seven digits; where a file holds an instant before 1677
    or after 2262 the column is ISO text. A column of mixed types is the JSON text of each value; a column
    without values is string.
    """
    shown = spread(table)
    columns: dict[str, pa.Array] = {}
    for name, type_ in types_of(shown).items():
        if name.startswith("$"):
            continue
        column = flat(shown[name])
        match type_:
            case Type.DATETIME:
                columns[name] = _timestamps(column)
            case Type.VARIANT:
                columns[name] = _json_texts(column)
            case Type.NULL:
                columns[name] = pa.nulls(len(column), pa.string())
            case _:
                columns[name] = column
    return pa.table(columns)


def _timestamps(ticks: pa.Array) -> pa.Array:
    bounds = pc.min_max(ticks)
    first, last = bounds["min"].as_py(), bounds["max"].as_py()
    if first is not None and (first < _FIRST_NANOSECOND_TICKS or last > _LAST_NANOSECOND_TICKS):
        return texts_of_ticks(ticks)
    return pc.cast(pc.multiply(ticks, 100), pa.timestamp("ns", "UTC"))


def _json_texts(column: pa.Array) -> pa.Array:
    text = f"SELECT {variant_json_sql('x')} AS y FROM t"
    return flat(sql.query(text, t=pa.table({"x": column}))["y"])
