"""Partitions that appear while a job runs: where their watermarks start (decisions 17 and 27 in `docs`).

A partition nobody knew of is there from its first event on. It starts at the watermark its input has by then:
the least of the partitions that were there before, each after its events that arrived earlier. What they let
pass is settled, so an older event of the new partition is out of order. As long as events are read in the
order in which they arrived, this does not depend on where batches end.

The rule is the same for every input. The ingress of a topic cannot read what others get in the same batch; it
has no events of earlier partitions, so that their watermarks are those of the batch before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Ints
from tideglass.core.errors import EvaluationError
from tideglass.core.events import Chunk
from tideglass.core.time import AFTER_ALL_TICKS
from tideglass.core.types import ARRIVAL
from tideglass.ingress.idle_periods import IdlePeriod
from tideglass.ingress.partition_time import Ingress
from tideglass.ingress.scan import Scan, ScanState
from tideglass.plan.policy_settings import SourceKind


@dataclass(frozen=True, slots=True)
class PartitionShare:
    """A partition in a batch.

    number: its place among the partitions of the input.
    chunks: its events of the batch; empty if the task cannot read them.
    state: that of its scan before the batch.
    idle_periods: as in `Scan.run`.
    """

    number: int
    chunks: Sequence[Chunk]
    state: ScanState
    idle_periods: Sequence[IdlePeriod] = ()


def late_partition_states(
    scan: Scan,
    earlier_partitions: Sequence[PartitionShare],
    fresh: Mapping[str, tuple[int, Sequence[Chunk]]],
) -> dict[str, ScanState]:
    """The states in which the partitions `fresh` begin, of which nothing was known before this batch.

    earlier_partitions: those that were known; without any, all are there from the beginning.
    fresh: by name, the number and the events of each. Of events that arrive at one time, those of the lesser
        number are first.
    Raises EvaluationError for any where the settings promise a static set of logs.
    """
    if not earlier_partitions:
        return {name: ScanState() for name in fresh}
    if fresh and any(reader.policies.source is SourceKind.STATIC_LOGS for reader in scan.readers):
        name = min(fresh, key=lambda each: fresh[each][0])
        raise EvaluationError(
            f"[NEW_LOG] {scan.input_name!r} is read as a {SourceKind.STATIC_LOGS}, but the partition "
            f"{name!r} has appeared\n  hint: have all partitions there when the job starts, or choose "
            f"'{SourceKind.DYNAMIC_LOGS}'"
        )
    there = [_Followed(scan, earlier) for earlier in earlier_partitions]
    states: dict[str, ScanState] = {}
    for at_ticks, number, name in sorted(
        (_first_arrival_ticks(chunks), number, name) for name, (number, chunks) in fresh.items()
    ):
        for each in there:
            each.follow(at_ticks, number)
        watermarks = [{id_: i.watermark_ticks for id_, i in each.ingress.items()} for each in there]
        states[name] = ScanState.above(watermarks)
        there.append(_Followed(scan, PartitionShare(number, fresh[name][1], states[name])))
    return states


class _Followed:
    """A partition followed through its events of a batch, from one partition that appears to the next."""

    def __init__(self, scan: Scan, share: PartitionShare) -> None:
        self.ingress = {r.id: share.state.ingress.get(r.id, Ingress()) for r in scan.readers}
        self._scan = scan
        self._share = share
        self._waiting = [chunk.table for chunk in share.chunks if chunk.table.num_rows]

    def follow(self, at_ticks: int, number: int) -> None:
        """Take all events before the first of another partition, in the order of arrival."""
        side = "right" if self._share.number < number else "left"
        newest_ticks = max(each.last_arrival_ticks for each in self.ingress.values())
        while self._waiting:
            table = self._waiting[0]
            arrived = np.maximum(np.maximum.accumulate(_arrivals(table)), newest_ticks)
            count = int(np.searchsorted(arrived, at_ticks, side))
            if count:
                part = table.slice(0, count)
                self.ingress = self._scan.state_after(
                    self._share.number, part, self.ingress, self._share.idle_periods
                )
            if count < table.num_rows:
                self._waiting[0] = table.slice(count)
                return
            del self._waiting[0]


def _first_arrival_ticks(chunks: Sequence[Chunk]) -> int:
    """When a partition's first event arrived; it is last if it has no such event."""
    tables = (chunk.table for chunk in chunks if chunk.table.num_rows)
    return next((int(_arrivals(table)[0]) for table in tables), AFTER_ALL_TICKS)


def _arrivals(table: pa.Table) -> Ints:
    return table[ARRIVAL].fill_null(AFTER_ALL_TICKS).to_numpy()
