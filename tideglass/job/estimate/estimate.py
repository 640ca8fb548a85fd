"""What a restart would cost: events to read again, time and memory, per input partition (`asa.md` 7.3).

    events  = rate x (span of the query + early limit)     none for a query without temporal operators
    seconds = start-up + events of all partitions / speed of the job
    memory <= rate x span x bytes of an event               what windows, joins and look-backs may hold

After a failure a job goes on from its checkpoint, so only the gap is caught up: start-up + rate x gap / speed
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow.compute as compute

from tideglass.connect.source import StreamInput
from tideglass.core.events import Fields
from tideglass.core.time import TICKS_PER_SECOND
from tideglass.core.types import ARRIVAL
from tideglass.plan.read_back import ReadBack

#: So much of a partition is looked at to find the rate of its events.
SAMPLE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class PartitionRate:
    """The rate of a partition's events, per second of arrival time, and their size.

    held_ticks: from the oldest event there is to the newest one looked at; None when it was not looked at.
    newest_ticks: arrival of that one.
    """

    input: str
    partition: str
    events_per_second: float
    bytes_per_event: float
    held_ticks: int | None = None
    newest_ticks: int | None = None


@dataclass(frozen=True, slots=True)
class Replay:
    """What a restart reads again of a partition.

    read_back_ticks: how far back; None for everything there is. retention_ticks: how long the source keeps
    events, if that is known. state_bytes: an upper bound.
    """

    stream: PartitionRate
    read_back_ticks: int | None
    events: int
    state_bytes: int
    retention_ticks: int | None = None

    @property
    def is_short(self) -> bool:
        """Whether the source forgets events before a restart would read them."""
        if self.retention_ticks is None:
            return False
        return self.read_back_ticks is None or self.retention_ticks < self.read_back_ticks


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a job is. speed: events a second, once it reads; start_seconds: until it does."""

    speed: float
    start_seconds: float = 0.0

    def seconds(self, events: float) -> float:
        """How long a run takes that reads so many.

        >>> Pace(100_000.0, 6.0).seconds(500_000)
        11.0
        """
        return self.start_seconds + events / self.speed


def pace_of(read: Sequence[tuple[int, float]]) -> Pace:
    """The pace of a run that had read so many events, so many seconds after its start, when a batch was done.

    The batches after the first show the speed; the time the first took beyond its events was the start.
    One batch shows both together, which is the pace of restarts as long as this one.

    >>> pace_of([(100, 7.0), (100, 8.0), (300, 9.0)])
    Pace(speed=100.0, start_seconds=6.0)
    >>> pace_of([(100, 5.0)])
    Pace(speed=20.0, start_seconds=0.0)
    """
    (first, first_seconds), (last, last_seconds) = read[0], read[-1]
    if last == first or last_seconds <= first_seconds:
        return Pace(max(last, 1) / last_seconds)
    speed = (last - first) / (last_seconds - first_seconds)
    start_seconds = first_seconds - first / speed
    return Pace(speed, start_seconds) if start_seconds >= 0 else Pace(last / last_seconds)


@dataclass(frozen=True, slots=True)
class Estimate:
    """The cost of a restart. pace: of the job; None when nobody knows."""

    replays: tuple[Replay, ...]
    pace: Pace | None

    @property
    def events(self) -> int:
        return sum(each.events for each in self.replays)

    @property
    def seconds(self) -> float | None:
        """How long it takes until everything is read again."""
        return None if self.pace is None else self.pace.seconds(self.events)

    def catch_up_seconds(self, gap_ticks: int) -> float | None:
        """How long it takes to catch up after a failure that lasted for `gap_ticks`."""
        if self.pace is None:
            return None
        rate = sum(each.stream.events_per_second for each in self.replays)
        return self.pace.seconds(rate * gap_ticks / TICKS_PER_SECOND)


def estimate(
    streams: Sequence[PartitionRate],
    backs: Mapping[str, ReadBack],
    pace: Pace | None,
    retention_ticks: Mapping[str, int],
) -> Estimate:
    """The cost of a restart of a job that reads these streams.

    >>> back = ReadBack(3600 * TICKS_PER_SECOND, 300 * TICKS_PER_SECOND, None)
    >>> estimate([PartitionRate("in", "0", 1000.0, 100.0)], {"in": back}, Pace(500_000.0, 6.0), {}).seconds
    13.8
    """
    return Estimate(tuple(_replay(each, backs[each.input], retention_ticks) for each in streams), pace)


def _replay(stream: PartitionRate, back: ReadBack, retention_ticks: Mapping[str, int]) -> Replay:
    start_ticks = back.read_from_ticks(0)
    read_back_ticks = None if start_ticks is None else -start_ticks
    read_ticks = stream.held_ticks or 0 if read_back_ticks is None else read_back_ticks
    held = stream.events_per_second * back.span_ticks / TICKS_PER_SECOND
    return Replay(
        stream,
        read_back_ticks,
        round(stream.events_per_second * read_ticks / TICKS_PER_SECOND),
        round(held * stream.bytes_per_event),
        retention_ticks.get(stream.input),
    )


def measured(source: StreamInput) -> list[PartitionRate]:
    """The streams of an input as its files show them: by the arrival times of the first events there are."""
    result: list[PartitionRate] = []
    for partition, pieces in source.latest({}, SAMPLE_BYTES).items():
        first_ticks, last_ticks, count, size = None, 0, 0, 0
        for chunk in source.read(partition, [], pieces, Fields((), False)):
            size += chunk.bytes_read
            if chunk.table.num_rows:
                bounds = compute.min_max(chunk.table[ARRIVAL])  # pyright: ignore
                least, most = bounds["min"].as_py(), bounds["max"].as_py()
                first_ticks = least if first_ticks is None else min(first_ticks, least)
                last_ticks = max(last_ticks, most)
                count += chunk.table.num_rows
        if first_ticks is None:
            result.append(PartitionRate(source.name, partition, 0.0, 0.0))
            continue
        held_ticks = last_ticks - first_ticks
        seconds = max(held_ticks / TICKS_PER_SECOND, 1.0)
        result.append(
            PartitionRate(source.name, partition, count / seconds, size / count, held_ticks, last_ticks)
        )
    return result
