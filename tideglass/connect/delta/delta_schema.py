"""Rows as the columns of a Delta table: a schema from the first rows, later ones in it (`asa.md` 6.5).

value            a column that is made   a column that is there takes it if it is
BIGINT           long                    an integer it fits, float or double that hold it exactly, string
FLOAT            double                  double, float (rounded), an integer if it is whole, string
NVARCHAR         string                  string
DATETIME         timestamp               timestamp: microseconds, the seventh digit is cut; string: ISO text
BIT              boolean                 boolean, an integer, string
RECORD, ARRAY    string, their JSON      string; struct or map, array, of the same shape
only NULL        string                  any that may be NULL

A column with numbers of both kinds is made double, one of other mixed types string. Names are matched
whatever their case. A further column of the rows is left out; one that the rows do not have is NULL.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pyarrow as pa

from tideglass.connect.refused_rows import RefusalKind, RefusedRow, RowsRefused
from tideglass.core.arrays import Mask, pc
from tideglass.core.columns import from_variant, tags_of, unify
from tideglass.core.iso import flat, texts_of_ticks
from tideglass.core.sql import query
from tideglass.core.types import TAG, Type, types_of

#: What a column's name must not hold in a table whose columns are not mapped to other names.
_NOT_IN_NAMES = set(" ,;{}()\n\t=")

_MADE: dict[Type, pa.DataType] = {
    Type.BIGINT: pa.int64(),
    Type.FLOAT: pa.float64(),
    Type.DATETIME: pa.timestamp("us", "UTC"),
    Type.BIT: pa.bool_(),
}
_NUMBERS = {ord(TAG[Type.BIGINT]), ord(TAG[Type.FLOAT])}
#: Schema metadata of staged rows: the columns that all of them list, as JSON.
LISTED = b"tideglass.listed"


def first_schema(staged: Sequence[pa.Table], partition_column: str | None) -> pa.Schema:
    """The schema of a table that is made for these rows: their columns in the order first seen.

    The partition column is a string, and there whether the rows have it or not.
    """
    rows = unify(staged)
    fields: dict[str, pa.Field] = {}
    for name, type_ in types_of(rows).items():
        if name.startswith("$") or _NOT_IN_NAMES & set(name) or name.casefold() in fields:
            continue
        fields[name.casefold()] = pa.field(name, _made_type(flat(rows[name]), type_))
    if partition_column is not None:
        found = fields.get(partition_column.casefold())
        name = partition_column if found is None else found.name
        fields[partition_column.casefold()] = pa.field(name, pa.string())
    return pa.schema(list(fields.values()))


def _made_type(column: pa.Array, type_: Type) -> pa.DataType:
    if type_ is Type.VARIANT and set(np.unique(tags_of(column)).tolist()) - {0} <= _NUMBERS:
        return pa.float64()
    return _MADE.get(type_, pa.string())


@dataclass
class _Refusals:
    """Rows that do not fit, numbered through all parts; the first reason of each counts."""

    found: dict[int, tuple[RefusalKind, str]] = field(default_factory=dict[int, tuple[RefusalKind, str]])

    def add(self, rows: Mask, kind: RefusalKind, reason: str | Callable[[int], str]) -> None:
        for row in np.flatnonzero(rows).tolist():
            if row not in self.found:
                self.found[row] = (kind, reason if isinstance(reason, str) else reason(row))

    def check(self, staged: Sequence[pa.Table]) -> None:
        """Raises RowsRefused where there are any."""
        if not self.found:
            return
        ends = np.cumsum([part.num_rows for part in staged])
        refused: list[RefusedRow] = []
        for row, (kind, reason) in sorted(self.found.items()):
            part = int(np.searchsorted(ends, row, side="right"))
            refused.append(RefusedRow(part, row - int(ends[part]) + staged[part].num_rows, kind, reason))
        raise RowsRefused(refused)


def projected(staged: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """The rows as the table's columns, one part after the other.

    Raises RowsRefused for rows whose values do not fit, and for those that have no column of the table.
    """
    rows, refusals = unify(staged), _Refusals()
    types = {name: type_ for name, type_ in types_of(rows).items() if not name.startswith("$")}
    columns: list[pa.Array] = []
    common: list[str] = []
    for target in schema:
        name = _matching(target.name, types)
        if name is None:
            column = pa.nulls(rows.num_rows, target.type)
        else:
            common.append(name)
            own = flat(rows[name])
            column, unfit = _converted(own, types[name], target.type)
            _refuse_values(refusals, unfit, own, types[name], target)
        if not target.nullable and column.null_count:
            missing = np.asarray(column.is_null())
            reason = f"the table's column {target.name!r} must have a value"
            refusals.add(missing, RefusalKind.REQUIRED_COLUMN_MISSING, reason)
        columns.append(column)
    _refuse_strangers(refusals, staged, rows, common)
    _refuse_names(refusals, rows, types, common)
    refusals.check(staged)
    return pa.table(columns, schema=schema)


def _matching(name: str, types: dict[str, Type]) -> str | None:
    if name in types:
        return name
    return next((each for each in types if each.casefold() == name.casefold()), None)


def _refuse_values(refusals: _Refusals, unfit: Mask, own: pa.Array, type_: Type, target: pa.Field) -> None:
    def reason(row: int) -> str:
        shown = str(own[row].as_py())[:60]
        return (
            f"the column {target.name!r} of the table is {target.type}; {type_.value} {shown!r} does not fit"
        )

    refusals.add(unfit, RefusalKind.TYPE_CONVERSION_ERROR, reason)


def _refuse_strangers(
    refusals: _Refusals, staged: Sequence[pa.Table], rows: pa.Table, common: Sequence[str]
) -> None:
    """Rows that have no column of the table: none they list, and no value in another.

    Whether a field of the payload is there at all is seen by its value.
    """
    if common and rows.num_rows:
        valued = np.logical_or.reduce([np.asarray(flat(rows[name]).is_valid()) for name in common])
    else:
        valued = np.zeros(rows.num_rows, np.bool_)
    start = 0
    shared = set(common)
    for part in staged:
        end = start + part.num_rows
        if shared & set(_listed(part)):
            valued[start:end] = True
        start = end
    refusals.add(~valued, RefusalKind.TYPE_CONVERSION_ERROR, "the row has no column that the table has")


def _refuse_names(refusals: _Refusals, rows: pa.Table, types: dict[str, Type], common: Sequence[str]) -> None:
    """Rows with a value in a column whose name no table can have, unless this one has it."""
    for name in types:
        if name not in common and _NOT_IN_NAMES & set(name):
            valued = np.asarray(flat(rows[name]).is_valid())
            reason = f"a table cannot have a column {name!r}; name it otherwise with AS"
            refusals.add(valued, RefusalKind.COLUMN_NAME_INVALID, reason)


def _listed(part: pa.Table) -> list[str]:
    metadata = cast("dict[bytes, bytes]", part.schema.metadata or {})
    return json.loads(metadata.get(LISTED, b"[]"))


# ---------------------------------------------------------------- values


def _converted(column: pa.Array, type_: Type, target: pa.DataType) -> tuple[pa.Array, Mask]:
    """The column in the table's type, and which of its values do not fit."""
    if type_ is Type.NULL:
        return pa.nulls(len(column), target), np.zeros(len(column), np.bool_)
    if type_ is not Type.VARIANT:
        found = _of_one_type(column, type_, target)
        return found, np.asarray(found.is_null()) & np.asarray(column.is_valid())
    whole = pa.nulls(len(column), target)
    tags = tags_of(column)
    for own, tag in TAG.items():
        if (tags == ord(tag)).any():
            part = _of_one_type(from_variant(column, own), own, target)
            whole = _coalesced(whole, part, tags == ord(tag))
    return whole, np.asarray(whole.is_null()) & np.asarray(column.is_valid())


def _coalesced(whole: pa.Array, part: pa.Array, rows: Mask) -> pa.Array:
    if pa.types.is_nested(whole.type):
        both = [p if here else w for w, p, here in zip(whole, part, rows.tolist(), strict=True)]
        return pa.array([each.as_py() for each in both], whole.type)
    return pc.if_else(pa.array(rows), part, whole)


def _of_one_type(column: pa.Array, type_: Type, target: pa.DataType) -> pa.Array:
    """The values in the table's type; NULL where one does not fit."""
    if pa.types.is_string(target) or pa.types.is_large_string(target):
        return _texts(column, type_).cast(target)
    if pa.types.is_integer(target):
        return _integers(column, type_, target)
    if pa.types.is_floating(target):
        return _floats(column, type_, target)
    if pa.types.is_boolean(target) and type_ is Type.BIT:
        return column
    if pa.types.is_boolean(target) and type_ is Type.BIGINT:
        fits = pc.is_in(column, value_set=pa.array([0, 1], pa.int64()))
        return pc.if_else(fits, pc.equal(column, 1), pa.scalar(None, pa.bool_()))
    if pa.types.is_timestamp(target) and type_ is Type.DATETIME:
        microseconds = np.asarray(column.fill_null(0)) // 10
        return pa.array(microseconds, mask=np.asarray(column.is_null())).cast(target)
    if pa.types.is_nested(target) and type_ in (Type.RECORD, Type.ARRAY):
        return _nested(column, target)
    return pa.nulls(len(column), target)


def _texts(column: pa.Array, type_: Type) -> pa.Array:
    match type_:
        case Type.BIGINT:
            return column.cast(pa.string())
        case Type.FLOAT:
            return flat(query("SELECT CAST(x AS VARCHAR) AS y FROM t", t=pa.table({"x": column}))["y"])
        case Type.DATETIME:
            return texts_of_ticks(column)
        case Type.BIT:
            return pc.if_else(column, "true", "false")
        case _:
            return column


def _integers(column: pa.Array, type_: Type, target: pa.DataType) -> pa.Array:
    if type_ is Type.BIT:
        return column.cast(target)
    if type_ not in (Type.BIGINT, Type.FLOAT):
        return pa.nulls(len(column), target)
    known = np.asarray(column.is_valid())
    values = np.asarray(column.fill_null(0))
    if type_ is Type.FLOAT:
        # 2**63 itself is a double, and no int64.
        known = known & np.isfinite(values) & (np.trunc(values) == values) & (np.abs(values) < 2.0**63)
        values = np.where(known, values, 0).astype(np.int64)
    limits = np.iinfo(cast("Any", target.to_pandas_dtype()))
    known = known & (values >= limits.min) & (values <= limits.max)
    return pa.array(np.where(known, values, 0), pa.int64(), mask=~known).cast(target)


def _floats(column: pa.Array, type_: Type, target: pa.DataType) -> pa.Array:
    if type_ not in (Type.BIGINT, Type.FLOAT):
        return pa.nulls(len(column), target)
    known = np.asarray(column.is_valid())
    values = np.asarray(column.fill_null(0))
    with np.errstate(over="ignore"):
        made = values.astype(cast("Any", target.to_pandas_dtype()))
    if type_ is Type.BIGINT:
        with np.errstate(invalid="ignore"):
            known = known & (np.abs(made) < 2.0**63) & (made.astype(np.int64) == values)
    else:
        known = known & (np.isfinite(made) | ~np.isfinite(values))
    return pa.array(made, target, mask=~known)


def _nested(column: pa.Array, target: pa.DataType) -> pa.Array:
    values = [None if text is None else json.loads(text) for text in cast("list[Any]", column.to_pylist())]
    try:
        return pa.array(values, target)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([value if _fits(value, target) else None for value in values], target)


def _fits(value: Any, target: pa.DataType) -> bool:
    try:
        pa.array([value], target)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return False
    return True
