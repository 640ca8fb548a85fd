"""CREATE TABLE as a filter: events whose values do not fit the declared types are refused (`asa.md` 2.13).

A value fits when it has the type already or converts to it without loss: 7 and 7.0 and "7" fit BIGINT,
7.5 does not. NULL fits everything; a column that is absent fits nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tideglass.connect.formats.decoded import MISSING_COLUMNS, TYPE_CONVERSION, Refusals
from tideglass.core.arrays import Ints, Mask, pc
from tideglass.core.columns import from_variant, to_variant
from tideglass.core.iso import flat, texts_of_ticks, ticks_of_texts
from tideglass.core.sql import query
from tideglass.core.types import Type, arrow_type

_INTEGER = r"^\s*[+-]?[0-9]{1,19}\s*$"
_NUMBER = r"^\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*$"
_NO_NUMBER = r"(?i)^\s*[+-]?(?:nan|inf|infinity)\s*$"


@dataclass(slots=True)
class Declared:
    """A column of CREATE TABLE, and its values.

    name: of the column.
    wanted: its declared type.
    array: its values.
    type: what the values are.
    absent: the events that have no such field.
    blank_is_null: the format has no other way to write NULL, as CSV.
    """

    name: str
    wanted: Type
    array: pa.Array
    type: Type
    absent: Mask
    blank_is_null: bool = False


def apply_types(
    found: Sequence[Declared],
    values: dict[tuple[str, ...], tuple[pa.Array, Type]],
    payload: pa.Array | None,
    level: str,
    keep: Mask,
    refusals: Refusals,
    lines: Ints,
    texts: pa.Array,
) -> pa.Array | None:
    """Convert the columns in `values`, clear `keep` where an event does not fit; the payload as converted."""
    for column in found:
        absent = column.absent & keep
        refusals.add_rows(MISSING_COLUMNS, f"the column {column.name} is absent", absent, lines, texts)
        keep &= ~absent
        array, unfit = convert(
            column.array, column.type, column.wanted, level, blank_is_null=column.blank_is_null
        )
        unfit &= keep
        message = f"a value of the column {column.name} is no {column.wanted.value}"
        refusals.add_rows(TYPE_CONVERSION, message, unfit, lines, texts)
        keep &= ~unfit
        type_ = Type.NULL if array.null_count == len(array) else column.wanted
        values[(column.name,)] = (pa.nulls(len(array)) if type_ is Type.NULL else array, type_)
        # a record or an array is never made of anything else
        changed = type_ is not column.type and type_ not in (Type.NULL, Type.RECORD, Type.ARRAY)
        if payload is not None and changed:
            payload = _patched(payload, column.name, array, type_)
    return payload


def convert(
    array: pa.Array, type_: Type, wanted: Type, level: str = "1.2", *, blank_is_null: bool = False
) -> tuple[pa.Array, Mask]:
    """The values as `wanted`, and which of them do not fit (NULL in the result).

    FLOAT takes no NaN or infinity from level 1.1 on. A text is that of CAST; a record or array has none.
    """
    if type_ is Type.NULL:
        return pa.nulls(len(array), arrow_type(wanted)), np.zeros(len(array), np.bool_)
    if type_ is not Type.VARIANT:
        result = _convert_uniform(array, type_, wanted, level)
    else:
        result = pa.nulls(len(array), arrow_type(wanted))
        variant = to_variant(array, type_)
        for own in (Type.BIGINT, Type.FLOAT, Type.NVARCHAR, Type.DATETIME, Type.BIT, Type.RECORD, Type.ARRAY):
            part = from_variant(variant, own)
            if part.null_count < len(part):
                result = pc.coalesce(result, _convert_uniform(part, own, wanted, level))
    unfit = np.asarray(result.is_null()) & np.asarray(array.is_valid())
    if blank_is_null and type_ is Type.NVARCHAR and wanted is not Type.NVARCHAR:
        blank = pc.equal(pc.utf8_trim_whitespace(array), "")
        unfit &= ~np.asarray(pc.fill_null(blank, False))
    return result, unfit


def _convert_uniform(array: pa.Array, type_: Type, wanted: Type, level: str) -> pa.Array:
    nothing = pa.nulls(len(array), arrow_type(wanted))
    match wanted, type_:
        case (Type.FLOAT, Type.FLOAT):
            return array if level < "1.1" else pc.if_else(pc.is_finite(array), array, nothing)
        case _ if wanted is type_:
            return array
        case (Type.BIGINT, Type.FLOAT):
            return _asked("CASE WHEN x = trunc(x) THEN TRY_CAST(x AS BIGINT) END", array)
        case (Type.BIGINT, Type.NVARCHAR):
            return _asked(
                f"CASE WHEN regexp_matches(x, '{_INTEGER}') THEN TRY_CAST(trim(x) AS BIGINT) END", array
            )
        case (Type.FLOAT, Type.BIGINT | Type.BIT):
            return pc.cast(array.cast(pa.int64()), pa.float64(), safe=False)
        case (Type.FLOAT, Type.NVARCHAR):
            number = f"CASE WHEN regexp_matches(x, '{_NUMBER}') THEN TRY_CAST(trim(x) AS DOUBLE) END"
            if level < "1.1":
                special = f"WHEN regexp_matches(x, '{_NO_NUMBER}') THEN TRY_CAST(trim(x) AS DOUBLE)"
                return _asked(f"CASE {special} ELSE {number} END", array)
            read = _asked(number, array)
            return pc.if_else(pc.is_finite(read), read, nothing)
        case (Type.NVARCHAR, Type.BIGINT):
            return _asked("CAST(x AS VARCHAR)", array)
        case (Type.NVARCHAR, Type.BIT):
            return _asked("CASE WHEN x THEN '1' WHEN NOT x THEN '0' END", array)
        case (Type.NVARCHAR, Type.FLOAT):
            whole = "CAST(CAST(x AS BIGINT) AS VARCHAR)"
            return _asked(
                f"CASE WHEN x = trunc(x) AND abs(x) < 1e15 THEN {whole} ELSE CAST(x AS VARCHAR) END", array
            )
        case (Type.NVARCHAR, Type.DATETIME):
            return texts_of_ticks(array)
        case (Type.DATETIME, Type.NVARCHAR):
            return ticks_of_texts(array)
        case (Type.BIT, Type.BIGINT | Type.FLOAT):
            return _asked("CASE x WHEN 1 THEN true WHEN 0 THEN false END", array)
        case (Type.BIT, Type.NVARCHAR):
            return _asked(
                "CASE lower(trim(x)) WHEN 'true' THEN true WHEN 'false' THEN false "
                "WHEN '1' THEN true WHEN '0' THEN false END",
                array,
            )
        case (Type.BIGINT, Type.BIT):
            return pc.cast(array, pa.int64())
        case _:
            return nothing


def _asked(expression: str, array: pa.Array) -> pa.Array:
    return flat(query(f"SELECT {expression} AS y FROM t", t=pa.table({"x": array}))["y"])


def _patched(payload: pa.Array, name: str, array: pa.Array, type_: Type) -> pa.Array:
    """The events with the converted values in place of the original ones."""
    shown = texts_of_ticks(array) if type_ is Type.DATETIME else array
    key = "'" + name.replace("'", "''") + "'"
    patched = f"CAST(json_merge_patch(CAST(p AS JSON), json_object({key}, x)) AS VARCHAR)"
    table = pa.table({"p": payload, "x": shown})
    return flat(query(f"SELECT CASE WHEN x IS NULL THEN p ELSE {patched} END AS y FROM t", t=table)["y"])
