"""Aggregates over the recent rows of a key: f(e) OVER (... LIMIT DURATION ...) (`asa.md` 4.1, A-26, A-27).

The rows of a frame are those in (t - length, t] up to and including the current one. Cells are those of
the windows (`aggregates`), so a sum is exact until it is rounded once, and each frame's result depends
on its own rows only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import pc
from tideglass.core.iso import flat
from tideglass.core.sql import query, quoted
from tideglass.core.types import Type, type_of
from tideglass.operators.aggregates.cells import COUNT_OF_ROWS, Cells
from tideglass.operators.aggregates.results import finish
from tideglass.operators.analytic.lookback import Sorted
from tideglass.plan.specs import AggregateSpec

_PLACE, _BACK = "$place", "$back"


def moving(
    specs: Sequence[AggregateSpec], rows: pa.Table, ordered: Sorted, length_ticks: int, before: int
) -> dict[str, tuple[pa.Array, Type]]:
    """The value of each aggregate for the rows from `before` on, by its name.

    rows: in the total order, as `ordered` has sorted them. Raises EvaluationError for a value an
    aggregate refuses, and for a sum of bigints outside int64.
    """
    starts = ordered.frame_starts(length_ticks)
    places = np.arange(len(ordered.order))
    wanted = np.flatnonzero(ordered.order >= before)
    columns = {spec.arg: _of_matching(rows, spec.arg, ordered) for spec in specs if spec.arg is not None}
    ranks_before = np.concatenate([[0], ordered.ranks])
    counts = pa.array((ordered.ranks - ranks_before[starts])[wanted])
    rest = [spec for spec in specs if spec.arg is not None]
    closed = pa.table({COUNT_OF_ROWS: counts})
    if rest:
        sorted_rows = rows.take(pa.array(ordered.order))
        for name, column in columns.items():
            place = sorted_rows.column_names.index(name)
            column = column.take(pa.array(ordered.order))
            sorted_rows = sorted_rows.set_column(place, rows.schema.field(name), column)
        cells = Cells(sorted_rows, rest, over="OVER frame")
        table = cells.rows.append_column(_PLACE, pa.array(places))
        table = table.append_column(_BACK, pa.array(places - starts))
        if cells.sql:
            chosen = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in cells.sql.items())
            found = query(
                f"SELECT {quoted(_PLACE)}, {chosen} FROM t WINDOW frame AS (ORDER BY {quoted(_PLACE)} "
                f"ROWS BETWEEN {quoted(_BACK)} PRECEDING AND CURRENT ROW) ORDER BY {quoted(_PLACE)}",
                t=table,
            )
            found = found.take(pa.array(wanted)).drop_columns([_PLACE])
            for name in found.column_names:
                closed = closed.append_column(name, found[name])
    back = pa.array(np.argsort(ordered.order[wanted], kind="stable"))
    results = {spec.name: finish(spec, closed) for spec in specs}
    return {name: (flat(column).take(back), type_) for name, (column, type_) in results.items()}


def _of_matching(rows: pa.Table, name: str, ordered: Sorted) -> pa.Array:
    """A column in which rows that do not match are NULL, and so are ignored by every aggregate."""
    column = flat(rows[name])
    if ordered.matching.all() or type_of(rows.schema.field(name)) is Type.NULL:
        return column
    return pc.if_else(pa.array(ordered.matching), column, pa.scalar(None, column.type))
