"""Result rows as columns of fixed types, for sinks that cannot take a type with each value.

type                        Arrow                        value
BIGINT, FLOAT, BIT          int64, double, bool          as it is
NVARCHAR                    string                       as it is
DATETIME                    timestamp[us, UTC]           the seventh digit of the second is cut
RECORD, ARRAY               string                       JSON text, unless the column keeps a type of Spark
VARIANT, NULL               string                       JSON text of the value; a text stands in quotes
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from tideglass.connect.dataframes.exact_values import column_of
from tideglass.core.arrays import pc
from tideglass.core.columns import from_variant, settle, to_variant
from tideglass.core.errors import OutputError
from tideglass.core.iso import flat
from tideglass.core.json_sql import variant_json_sql
from tideglass.core.sql import query
from tideglass.core.types import Type, types_of

TICKS_PER_MICROSECOND = 10

_ARROW: Mapping[Type, pa.DataType] = {
    Type.BIGINT: pa.int64(),
    Type.FLOAT: pa.float64(),
    Type.BIT: pa.bool_(),
    Type.DATETIME: pa.timestamp("us", "UTC"),
}


def column_type(type_: Type) -> pa.DataType:
    """The Arrow type of a column whose values have the type."""
    return _ARROW.get(type_, pa.string())


def fixed_columns(
    table: pa.Table, types: Mapping[str, Type], kept: Mapping[str, pa.DataType] | None = None
) -> pa.Table:
    """The named columns of the rows, each with its type. Raises OutputError for a value of another type.

    kept: Arrow's types of columns that are passed through, as `exact_values` reads them.
    """
    have = types_of(table)
    arrow = {name: column_type(type_) for name, type_ in types.items()} | dict(kept or {})
    columns: list[pa.Array] = []
    for name, type_ in types.items():
        if name not in have:
            columns.append(pa.nulls(table.num_rows, arrow[name]))
        elif kept is not None and name in kept:
            columns.append(_kept(name, flat(table[name]), have[name], kept[name]))
        else:
            columns.append(_fixed(name, flat(table[name]), have[name], type_))
    return pa.table(columns, schema=pa.schema(list(arrow.items())))


def _kept(name: str, column: pa.Array, have: Type, kind: pa.DataType) -> pa.Array:
    column, have = settle(column, have)
    if have is Type.NULL:
        return pa.nulls(len(column), kind)
    if have in (Type.NVARCHAR, Type.RECORD, Type.ARRAY):
        try:
            return column_of(column, kind)
        except (ValueError, TypeError, LookupError, ArithmeticError, pa.ArrowException) as error:
            raise OutputError(f"the column {name!r} is {kind}, but holds another value: {error}") from error
    raise OutputError(f"the column {name!r} is {kind}, but holds a value of type {have.value}")


def _fixed(name: str, column: pa.Array, have: Type, wanted: Type) -> pa.Array:
    column, have = settle(column, have)
    if have is Type.NULL:
        return pa.nulls(len(column), column_type(wanted))
    if wanted in (Type.VARIANT, Type.NULL):
        return _json_texts(column, have)
    if have is Type.BIGINT and wanted is Type.FLOAT:
        return pc.cast(column, pa.float64())
    if have is Type.VARIANT and wanted is Type.FLOAT:
        whole, fractions = from_variant(column, Type.BIGINT), from_variant(column, Type.FLOAT)
        joined = pc.coalesce(fractions, pc.cast(whole, pa.float64()))
        if joined.null_count == column.null_count:
            return joined
    if have is not wanted:
        raise OutputError(
            f"the column {name!r} is of type {wanted.value}, as far as the query tells, but holds a value "
            f"of type {have.value}\n  hint: give it a type with CAST({name} AS {wanted.value})"
        )
    return _microseconds(column) if wanted is Type.DATETIME else column


def _microseconds(ticks: pa.Array) -> pa.Array:
    known = np.asarray(ticks.is_valid())
    # Python's //, unlike Arrow's division, cuts times before 1970 downwards too.
    whole = ticks.fill_null(0).to_numpy() // TICKS_PER_MICROSECOND
    return pa.array(whole, mask=~known).cast(column_type(Type.DATETIME))


def _json_texts(column: pa.Array, type_: Type) -> pa.Array:
    if type_ in (Type.RECORD, Type.ARRAY):
        return column
    tagged = pa.table({"x": to_variant(column, type_)})
    return flat(query(f"SELECT {variant_json_sql('x')} AS y FROM t", t=tagged)["y"])
