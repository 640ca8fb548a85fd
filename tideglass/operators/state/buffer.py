"""Rows that wait for the watermark to pass them, so that no row can get a place before or beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tideglass.core.columns import unify
from tideglass.core.types import SUBSTREAM, SYSTEM_TIMESTAMP
from tideglass.operators.progress import Progress
from tideglass.operators.state.bucket_log import RowLog
from tideglass.operators.state.reorder import in_order


def released(log: RowLog, rows: Sequence[pa.Table], progress: Progress, substreams: bool) -> pa.Table | None:
    """The rows that the watermark has passed, in the total order; the others wait in the log.

    rows: new ones, in any order, none before an earlier watermark. substreams: a row is passed by the
    watermark of its own substream, and the order is that of each. None if no row is passed.
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
