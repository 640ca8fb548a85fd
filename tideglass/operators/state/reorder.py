"""The reorder buffer: rows wait until the watermark has passed them (`asa.md` 1.4, 1.5)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Ints, pc
from tideglass.core.columns import unify
from tideglass.core.types import ARRIVAL, INPUT, OFFSET, ORDER_COLUMNS, PARTITION, SUBSTREAM, SYSTEM_TIMESTAMP
from tideglass.operators.progress import Progress


def release(held: pa.Table | None, rows: pa.Table, progress: Progress) -> tuple[pa.Table, pa.Table | None]:
    """The rows held and the new ones: those at or before the watermark, in order, and those to hold.

    The order is the total one of `ORDER_COLUMNS`. Rows of one partition, none before the watermark of
    the call before, are released in that order over all calls; with substreams (rows with a `$substream`)
    those of each substream do. Rows that are held keep the order in which they arrived.
    """
    every = rows if held is None else unify([held, rows])
    if every.num_rows == 0:
        return every, None
    timestamp_ticks = every[SYSTEM_TIMESTAMP].to_numpy()
    if progress.substreams is not None and SUBSTREAM in every.column_names:
        due = timestamp_ticks <= progress.of(every[SUBSTREAM])
    else:
        due = timestamp_ticks <= progress.watermark_ticks
    if due.all():
        return in_order(every), None
    if not due.any():
        return every.slice(0, 0), every
    return in_order(every.filter(pa.array(due))), every.filter(pa.array(~due))


def in_order(rows: pa.Table) -> pa.Table:
    """The rows in the total order of the system (`design.md` 1)."""
    if rows.num_rows < 2:
        return rows
    timestamp_ticks = rows[SYSTEM_TIMESTAMP].to_numpy()
    minor = [rows[name].to_numpy() for name in (ARRIVAL, INPUT, PARTITION, OFFSET)]
    if _ascending(minor):  # rows of one partition as they arrived: a stable sort by time is enough
        if (timestamp_ticks[1:] >= timestamp_ticks[:-1]).all():
            return rows
        return rows.take(pa.array(np.argsort(timestamp_ticks, kind="stable")))
    return rows.take(pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in ORDER_COLUMNS]))


def _ascending(columns: list[Ints]) -> bool:
    """Whether the rows never descend, compared by the first column, then the next."""
    tied = np.ones(len(columns[0]) - 1, dtype=np.bool_)
    for column in columns:
        if (tied & (column[1:] < column[:-1])).any():
            return False
        tied &= column[1:] == column[:-1]
    return True
