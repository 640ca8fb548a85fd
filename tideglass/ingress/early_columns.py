"""What windows with early panes need of a partition: the watermarks each event met, and those of now.

Which early panes an event is in follows from the watermarks it met when it arrived, of its own partition
(`asa.md` 11.6, decision 32). Those of now, sent beside the watermark, say when a pane can be emitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Ints
from tideglass.core.time import BEFORE_ALL_TICKS
from tideglass.core.types import Type, field
from tideglass.ingress.partition_time import Ingress
from tideglass.operators.progress import Progress
from tideglass.plan.early_panes import early_column


def with_early_columns(rows: pa.Table, percents: Sequence[int], met_ticks: Ints | None) -> pa.Table:
    """Rows with a column for each percentage.

    met_ticks: a row a percentage, a column an event: the watermark it met; None for no events or percentages.
    """
    if met_ticks is None and percents:
        met_ticks = np.full((len(percents), rows.num_rows), BEFORE_ALL_TICKS, np.int64)
    for percent, ticks in zip(percents, () if met_ticks is None else met_ticks, strict=True):
        rows = rows.append_column(field(early_column(percent), Type.DATETIME), pa.array(ticks))
    return rows


def with_early_watermarks(progress: Progress, percents: Sequence[int], ingress: Ingress) -> Progress:
    """The progress of a partition with its watermark at each percentage, never before that of all events."""
    if not percents:
        return progress
    known = ingress.early_watermarks_ticks or (BEFORE_ALL_TICKS,) * len(percents)
    pairs = zip(percents, known, strict=True)
    early_ticks = tuple((percent, max(ticks, progress.watermark_ticks)) for percent, ticks in pairs)
    return replace(progress, early_ticks=early_ticks)
