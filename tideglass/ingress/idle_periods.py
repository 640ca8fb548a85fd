"""Idle periods as a run saw them, so that a run that reads the same events again sees the same ones.

While a partition is idle, its watermark follows an estimated arrival time (`asa.md` 1.5). The estimate is
taken from a clock, and the next event may prove it wrong: that event is then raised to a watermark ahead of
its own arrival. So a replay must apply the estimates of the first reading, at the places where they were
made; those of its own clock would change rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tideglass.core.types import OFFSET


@dataclass(frozen=True, slots=True)
class IdlePeriod:
    """After all events of a partition before `offset`, the arrival time was estimated at `until_ticks`."""

    offset: int
    until_ticks: int


def between_idle_periods(
    table: pa.Table, idle_periods: Sequence[IdlePeriod]
) -> Iterator[tuple[tuple[IdlePeriod, ...], pa.Table]]:
    """The events of a chunk, cut at every idle period: the periods before each part, and the part.

    idle_periods: those not yet applied, ascending by offset. Those after the last event are left out.
    """
    offsets = table[OFFSET].to_numpy()
    inside = [each for each in idle_periods if len(offsets) and each.offset <= offsets[-1]]
    cuts = sorted({int(np.searchsorted(offsets, each.offset)) for each in inside} | {0})
    for start, end in zip(cuts, [*cuts[1:], table.num_rows], strict=True):
        before = tuple(each for each in inside if int(np.searchsorted(offsets, each.offset)) == start)
        yield before, table.slice(start, end - start)


def first_reaching(idle_periods: Sequence[IdlePeriod], until_ticks: int) -> int | None:
    """The offset from which on arrival was estimated at `until_ticks` or later; None if it never was.

    Later events were raised to that time even if they arrived earlier.
    """
    return next((each.offset for each in idle_periods if each.until_ticks >= until_ticks), None)
