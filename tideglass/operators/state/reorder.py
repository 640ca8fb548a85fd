"""Rows wait for the watermark and are released in the total order (`asa.md` 1.4, 1.5).

Results leave the scan as soon as the watermark reaches them: a later row of the same time has a later place,
as its partition's events come in order. An operator that looks at earlier rows waits until the watermark is
past them: other partitions may have rows of the same time with an earlier place (A-16).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Ints, pc
from tideglass.core.columns import unify
from tideglass.core.types import ARRIVAL, INPUT, OFFSET, ORDER_COLUMNS, PARTITION, SUBSTREAM, SYSTEM_TIMESTAMP
from tideglass.operators.holds import Component, Hold
from tideglass.operators.progress import Progress
from tideglass.operators.state.bucket_log import RowLog


def released_up_to(rows: pa.Table, progress: Progress) -> tuple[pa.Table, pa.Table | None]:
    """The rows at or before the watermark, in the total order, and those that wait, in theirs; None for none.

    With `$substream` the watermark of its own counts for each, and the order is that of each.
    """
    if rows.num_rows == 0:
        return rows, None
    due = rows[SYSTEM_TIMESTAMP].to_numpy() <= progress.of_rows(rows)
    if due.all():
        return in_order(rows), None
    if not due.any():
        return rows.slice(0, 0), rows
    return in_order(rows.filter(pa.array(due))), rows.filter(pa.array(~due))


def released_before(
    log: RowLog, rows: Sequence[pa.Table], progress: Progress, substreams: bool
) -> pa.Table | None:
    """The rows before the watermark, in the total order; the others wait in the log.

    rows: new ones, in any order, none before an earlier watermark.
    substreams: rows have `$substream`: the watermark of its own counts for each, the order is that of each.

    None if there is no such row.
    """
    due: list[pa.Table] = []

    def passed(table: pa.Table) -> Any:
        times = table[SYSTEM_TIMESTAMP].to_numpy()
        if substreams and progress.substreams is not None:
            return times < progress.of(table[SUBSTREAM])
        return times < progress.watermark_ticks

    for bucket in log.buckets():
        if log.start_ticks(bucket) >= progress.furthest_ticks:
            break
        held = log.read(bucket)
        over = passed(held)
        if over.any():
            due.append(held.filter(pa.array(over)))
            log.replace(bucket, held.filter(pa.array(~over)))
    if rows:
        fresh = unify(rows)
        over = passed(fresh)
        if over.all():
            due.append(fresh)
        else:
            due.append(fresh.filter(pa.array(over)))
            log.add(fresh.filter(pa.array(~over)))
    log.save()
    due = [table for table in due if table.num_rows]
    return in_order(unify(due)) if due else None


def waiting_for_order(log: RowLog, progress: Progress) -> Hold | None:
    """What `released_before` keeps in its log; None for nothing."""
    oldest_ticks = log.oldest_ticks
    if oldest_ticks is None:
        return None
    oldest_ticks = max(oldest_ticks, progress.watermark_ticks)
    return Hold(Component.STATE, "rows that wait for their order", oldest_ticks, log.rows_held, oldest_ticks)


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
