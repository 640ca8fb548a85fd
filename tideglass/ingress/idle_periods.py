"""Idle periods as they were seen, so that whoever reads the same events again sees the same ones.

In silence the watermark follows an estimated arrival time (`asa.md` 1.5). The estimate comes from a clock,
and the next event may prove it wrong: it then meets a watermark ahead of its own arrival, and is raised to
it. So a replay must apply the estimates the first reading made, at the places where it made them; those of
its own clock would not do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tideglass.core.types import OFFSET


@dataclass(frozen=True, slots=True)
class IdlePeriod:
    """Behind all events of a partition before `offset`, arrival was estimated at `until_ticks`."""

    offset: int
    until_ticks: int


def between_idle_periods(
    table: pa.Table, idle_periods: Sequence[IdlePeriod]
) -> Iterator[tuple[tuple[IdlePeriod, ...], pa.Table]]:
    """The events of a chunk, cut wherever there was silence: the silences before each part, and the part.

    idle_periods: those not yet applied, ascending by offset. Those behind the last event are in no answer.
    """
    offsets = table[OFFSET].to_numpy()
    inside = [each for each in idle_periods if len(offsets) and each.offset <= offsets[-1]]
    cuts = sorted({int(np.searchsorted(offsets, each.offset)) for each in inside} | {0})
    for start, end in zip(cuts, [*cuts[1:], table.num_rows], strict=True):
        before = tuple(each for each in inside if int(np.searchsorted(offsets, each.offset)) == start)
        yield before, table.slice(start, end - start)


def first_reaching(idle_periods: Sequence[IdlePeriod], until_ticks: int) -> int | None:
    """The place from which on arrival was estimated at `until_ticks` or later, if it ever was.

    Events behind it that arrived earlier than that were raised all the same.
    """
    return next((each.offset for each in idle_periods if each.until_ticks >= until_ticks), None)
