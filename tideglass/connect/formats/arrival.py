"""Arrival times that events carry themselves, so that a recorded stream replays with its true ones."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Ints, Mask, pc
from tideglass.core.columns import from_variant
from tideglass.core.iso import flat, ticks_of_texts
from tideglass.core.time import LAST_TICKS, ORIGIN_TICKS, TICKS_PER_MILLISECOND, TICKS_PER_SECOND
from tideglass.core.types import Type, type_of

_TICKS_OF_NUMBER = {"epoch_seconds": TICKS_PER_SECOND, "epoch_milliseconds": TICKS_PER_MILLISECOND}


def arrival_ticks(table: pa.Table, name: str, form: str) -> tuple[Ints, Mask]:
    """The times in a column, and where there is one.

    A datetime is what it is. Texts are ISO 8601; with an epoch form, numbers and texts of numbers count
    seconds or milliseconds since 1970.
    """
    type_ = type_of(table.schema.field(name))
    column = flat(table[name])
    ticks: pa.Array = pa.nulls(len(column), pa.int64())
    kinds = [type_] if type_ is not Type.VARIANT else [Type.BIGINT, Type.FLOAT, Type.NVARCHAR, Type.DATETIME]
    for kind in kinds:
        values = from_variant(column, kind) if type_ is Type.VARIANT else column
        ticks = pc.coalesce(ticks, _ticks(values, kind, form))
    inside = pc.and_(pc.greater_equal(ticks, ORIGIN_TICKS), pc.less_equal(ticks, LAST_TICKS))
    readable = np.asarray(pc.fill_null(inside, False))
    return pc.fill_null(ticks, 0).to_numpy(), readable


def _ticks(values: pa.Array, kind: Type, form: str) -> pa.Array:
    nothing: pa.Array = pa.nulls(len(values), pa.int64())
    if kind is Type.DATETIME:
        return values
    if form == "iso":
        return ticks_of_texts(values) if kind is Type.NVARCHAR else nothing
    each = _TICKS_OF_NUMBER[form]
    if kind is Type.NVARCHAR:
        numeric = pc.match_substring_regex(values, r"^-?[0-9]+(?:\.[0-9]+)?$")
        values = pc.cast(pc.if_else(numeric, values, pa.scalar(None, pa.string())), pa.float64())
        kind = Type.FLOAT
    if kind is Type.FLOAT:
        sane = pc.less(pc.abs(values), 2.0**62 / each)
        values = pc.if_else(sane, values, pa.scalar(None, pa.float64()))
        return pc.cast(pc.round(pc.multiply(values, float(each))), pa.int64(), safe=False)
    if kind is Type.BIGINT:
        sane = pc.less(pc.abs(values), 2**62 // each)
        return pc.multiply(pc.if_else(sane, values, pa.scalar(None, pa.int64())), each)
    return nothing
