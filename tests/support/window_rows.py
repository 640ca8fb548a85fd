"""Rows for the window tests: dictionaries to kernel tables, and results back to dictionaries."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tideglass.core.time import AFTER_ALL_TICKS, TICKS_PER_SECOND
from tideglass.core.types import TAG, TYPE_OF_TAG, Type, arrow_type, field, types_of
from tideglass.operators.progress import Progress
from tideglass.operators.state.store import MemoryState
from tideglass.operators.windows.aggregate import WindowAggregate
from tideglass.plan.specs import AggregateSpec, GroupBySpec
from tideglass.plan.windows import Window

S = TICKS_PER_SECOND
ENGINE = ("$ts", "$arrival", "$input", "$partition", "$offset")


class Instant(int):
    """A datetime value in ticks, to tell it from a bigint."""


def tagged(value: Any) -> str | None:
    """A value as VARIANT text."""
    match value:
        case None:
            return None
        case bool():
            return "b1" if value else "b0"
        case Instant():
            return f"d{int(value)}"
        case int():
            return f"i{value}"
        case float():
            return f"f{value!r}"
        case _:
            return f"s{value}"


def column(values: Sequence[Any], natural: bool = True) -> tuple[Type, pa.Array]:
    """Values as a column of their natural type if they agree, else VARIANT."""
    texts = [tagged(value) for value in values]
    tags = {text[0] for text in texts if text is not None}
    if not tags:
        return Type.NULL, pa.nulls(len(values))
    if natural and len(tags) == 1:
        type_ = TYPE_OF_TAG[tags.pop()]
        return type_, pa.array(values, arrow_type(type_))
    return Type.VARIANT, pa.array(texts, pa.string())


def table(rows: Sequence[dict[str, Any]], natural: bool = True) -> pa.Table:
    """Rows with `$ts` and any other columns; the rest of the order columns is filled in."""
    fields: list[pa.Field] = []
    columns: list[Any] = []
    for place, name in enumerate(ENGINE):
        type_ = Type.DATETIME if place < 2 else Type.BIGINT
        default = {"$arrival": lambda row, _: row["$ts"], "$offset": lambda _, number: number}
        values = [
            row.get(name, default.get(name, lambda *_: 0)(row, number)) for number, row in enumerate(rows)
        ]
        fields.append(field(name, type_))
        columns.append(pa.array(values, pa.int64()))
    for name in [name for name in rows[0] if name not in ENGINE] if rows else []:
        type_, array = column([row[name] for row in rows], natural or name == "$substream")
        fields.append(field(name, type_))
        columns.append(array)
    return pa.table(columns, schema=pa.schema(fields))


def values_of(result: pa.Table) -> list[dict[str, Any]]:
    """Rows of a result as Python values."""
    columns: dict[str, list[Any]] = {}
    for name, type_ in types_of(result).items():
        held = result[name].to_pylist()
        columns[name] = [untagged(value) for value in held] if type_ is Type.VARIANT else held
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def untagged(text: str | None) -> Any:
    if text is None:
        return None
    rest = text[1:]
    for type_, read in (
        (Type.BIGINT, int),
        (Type.FLOAT, float),
        (Type.DATETIME, lambda digits: Instant(int(digits))),
        (Type.BIT, lambda bit: bit == "1"),
    ):
        if text[0] == TAG[type_]:
            return read(rest)
    return rest


def group_by(
    windows: Sequence[Window],
    keys: Sequence[str],
    aggregates: Sequence[AggregateSpec],
    substreams: bool = False,
    session_keys: Sequence[Sequence[str] | None] = (),
) -> WindowAggregate:
    """The kernel of a GROUP BY; without `session_keys` no window is partitioned."""
    scopes = tuple(None if names is None else tuple(names) for names in session_keys)
    return WindowAggregate(
        GroupBySpec(
            windows=tuple(windows),
            keys=tuple(keys),
            aggregates=tuple(aggregates),
            session_keys=scopes or (None,) * len(windows),
            substreams=substreams,
        )
    )


def at_once(
    windows: Sequence[Window],
    rows: Sequence[dict[str, Any]],
    aggregates: Sequence[AggregateSpec],
    keys: Sequence[str] = (),
    **more: Any,
) -> list[dict[str, Any]]:
    """All results of the rows in one chunk and one batch, up to the end of input."""
    kernel = group_by(windows, keys, aggregates, **more)
    return values_of(kernel.advance([kernel.partial(table(rows))], Progress(AFTER_ALL_TICKS), MemoryState()))


def one(function: str, values: Sequence[Any], **more: Any) -> Any:
    """One aggregate over one group."""
    from tideglass.plan.windows import Hopping

    rows = [{"$ts": place + 1, "$x": value} for place, value in enumerate(values)]
    spec = AggregateSpec("$a0", function, "$x", **more)
    (row,) = at_once([Hopping(1000 * S, 1000 * S)], rows, [spec])
    return row["$a0"]


def same(left: Any, right: Any) -> bool:
    """Equal to the bit and in type; NaN is NaN."""
    if isinstance(left, float) and isinstance(right, float):
        return (math.isnan(left) and math.isnan(right)) or struct.pack("d", left) == struct.pack("d", right)
    return type(left) is type(right) and left == right
