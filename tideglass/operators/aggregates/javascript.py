"""The value of a user's aggregate from the events of each group, in JavaScript (`asa.md` 4.11)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import pc
from tideglass.core.columns import settle
from tideglass.core.errors import EvaluationError, FailedRow
from tideglass.core.iso import flat
from tideglass.core.json_rows import compact_json, rows_of
from tideglass.core.sql import query, quoted
from tideglass.core.time import format_ticks
from tideglass.core.types import ORDER_COLUMNS, Type, field
from tideglass.functions.javascript import GroupFailure, aggregate
from tideglass.operators.windows.hopping import END
from tideglass.plan.calls import USERS

if TYPE_CHECKING:
    from tideglass.plan.specs import AggregateSpec


#: Groups are handed over together up to so many events, which bounds the text that is held of them.
EVENTS_AT_ONCE = 50_000

#: A failing value is shown up to so many characters.
_LONGEST_SHOWN = 300


def user_defined(spec: AggregateSpec, closed: pa.Table) -> tuple[pa.Array, Type]:
    """The result column of a user's aggregate over merged cells, and its type.

    The events of a group go in by their total order, NULL too, each with its System.Timestamp. Raises
    EvaluationError for a group on which the script fails, with the last event it got.
    """
    name, cell = spec.function.removeprefix(USERS), spec.cell("list.events")
    results: list[str | None] = []
    for part in _loads(closed, cell):
        listed = f"list_transform(list_sort({quoted(cell)}), lambda x: [x.v, 'd' || x.p0])"
        groups = query(f"SELECT to_json({listed})::VARCHAR AS events FROM part", part=part)
        answer = aggregate(name, groups["events"].to_pylist())
        if isinstance(answer, GroupFailure):
            raise _failed(spec, answer, part.slice(answer.group, 1))
        results += answer
    return settle(pa.array(results, pa.string()), Type.VARIANT)


def _loads(closed: pa.Table, cell: str) -> Iterator[pa.Table]:
    """The groups in their order, in tables of about EVENTS_AT_ONCE events or of one group."""
    if closed.num_rows == 0:
        return
    counts = pc.list_value_length(flat(closed[cell])).to_numpy().astype(np.int64)
    loads = (np.cumsum(counts) - counts) // EVENTS_AT_ONCE
    starts = np.flatnonzero(np.diff(loads, prepend=-1))
    for start, end in zip(starts, [*starts[1:], closed.num_rows], strict=True):
        yield closed.slice(int(start), int(end - start))


def _failed(spec: AggregateSpec, failure: GroupFailure, group: pa.Table) -> EvaluationError:
    """The error of one group: the method that failed, the window, and the last event it got."""
    end = format_ticks(int(group[END][0].as_py()))
    message = f"The function {spec.function} failed in {failure.method}, in the window that ends at {end}"
    row = None
    if failure.event is not None:
        chosen = f"list_sort({quoted(spec.cell('list.events'))})[{failure.event + 1}]"
        event = query(f"SELECT {chosen} AS event FROM part", part=group)["event"][0].as_py()
        ts, arrival, input_, partition, offset = (event[f"p{place}"] for place in range(len(ORDER_COLUMNS)))
        column, type_ = settle(pa.array([event["v"]], pa.string()), Type.VARIANT)
        values = rows_of(pa.table([column], schema=pa.schema([field("value", type_)])))
        shown = compact_json(values[0])[:_LONGEST_SHOWN]
        row = FailedRow(shown, (ts, arrival, input_, partition, offset))
    return EvaluationError(f"{message}: {failure.error}.", spec.span, row)
