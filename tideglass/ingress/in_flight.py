"""The events in flight of an input partition, and how their times are spread (`asa.md` 11.6, 11.10).

In flight are the events that arrived in the newest ten seconds of arrival time, of which that of the newest
event is the last (`docs/decisions/0030`). This depends on events and their arrivals only, not on batches or a
clock. Times are those of TIMESTAMP BY, before any policy has moved them.

    at p percent = the k-th newest of n times in flight, k = p * n / 100, rounded up

The times of a second are counted in a sketch, so what a partition keeps is bounded whatever the rate is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tideglass.core.arrays import Ints, Mask
from tideglass.core.time import ORIGIN_TICKS, TICKS_PER_SECOND
from tideglass.plan.policy_settings import IN_FLIGHT_SECONDS

#: Percentages that are reported.
PERCENTS = (33, 50, 66, 90, 95, 99, 100)
#: Buckets of one second: a time is off by at most 1/64 of the spread of its second's times.
BUCKETS = 128

#: Up to so many times, sorting them is cheaper than a sample and a dense count.
_FEW = 4096
_SAMPLE = 1024
#: Places of a dense count: 1 MiB of counters.
_DENSE = 1 << 17


@dataclass(frozen=True, slots=True, eq=False)
class TimeSketch:
    """Times, counted in aligned buckets: [b * 2**shift, (b + 1) * 2**shift).

    A width of one tick holds the times as they are. It doubles while more than `BUCKETS` buckets hold a time,
    so it depends on the times alone. A part of the times never has wider buckets than all of them. Hence the
    sketches of parts, merged in any order, are the sketch of the whole.

    shift: the width of a bucket is 2**shift ticks.
    buckets: the numbers of the buckets that hold a time, ascending.
    counts: how many times each holds.
    """

    shift: int
    buckets: Ints
    counts: Ints

    @classmethod
    def of(cls, times_ticks: Ints) -> TimeSketch:
        """The sketch of times, in any order."""
        if len(times_ticks) <= _FEW:
            return _narrowed(0, *_distinct(np.sort(times_ticks)))
        return _of_many(times_ticks)

    @classmethod
    def merged(cls, parts: Iterable[TimeSketch]) -> TimeSketch:
        """The sketch of the times of all parts, at least one."""
        found = list(parts)
        shift = max(each.shift for each in found)
        buckets = np.concatenate([each.buckets >> (shift - each.shift) for each in found])
        counts = np.concatenate([each.counts for each in found])
        order = buckets.argsort()
        starts = _starts(buckets[order])
        return _narrowed(shift, buckets[order][starts], np.add.reduceat(counts[order], starts))

    @property
    def count(self) -> int:
        """How many times there are."""
        return int(self.counts.sum())

    @property
    def least_ticks(self) -> Ints:
        """The least time each bucket may hold."""
        return np.maximum(self.buckets << self.shift, ORIGIN_TICKS)


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """The events of a chunk, in the order of arrival.

    arrival_time_ticks: ascending, none before those of earlier chunks.
    event_time_ticks: of TIMESTAMP BY.
    usable: False for events without a time that counts; they arrive, but are not in flight.
    """

    arrival_time_ticks: Ints
    event_time_ticks: Ints
    usable: Mask


@dataclass(frozen=True, slots=True, eq=False)
class InFlight:
    """The events in flight of a partition, by second of arrival.

    seconds: since 1970, ascending, each with an event; all within `IN_FLIGHT_SECONDS` of the newest arrival.
    sketches: of the event times of each.
    """

    seconds: tuple[int, ...] = ()
    sketches: tuple[TimeSketch, ...] = ()

    def after(self, chunk: Arrivals) -> InFlight:
        """The events in flight after a chunk."""
        arrival_time_ticks = chunk.arrival_time_ticks
        if not len(arrival_time_ticks):
            return self
        newest = int(arrival_time_ticks[-1]) // TICKS_PER_SECOND
        oldest = newest - IN_FLIGHT_SECONDS + 1
        found = {s: each for s, each in zip(self.seconds, self.sketches, strict=True) if s >= oldest}
        edges = arrival_time_ticks.searchsorted(np.arange(oldest, newest + 2) * TICKS_PER_SECOND).tolist()
        for second, start, end in zip(range(oldest, newest + 1), edges[:-1], edges[1:], strict=True):
            if end > start:
                sketch = sketch_of_part(chunk, start, end)
                if sketch is not None:
                    earlier = found.get(second)
                    found[second] = sketch if earlier is None else TimeSketch.merged([earlier, sketch])
        return InFlight(tuple(sorted(found)), tuple(found[s] for s in sorted(found)))

    def at_percents(self, percents: Sequence[int] = PERCENTS) -> dict[int, int]:
        """By p, the latest time in ticks that p percent of the events in flight are not older than.

        Empty without events. At 100 it is the oldest.
        """
        return at_percents(self.sketches, percents) if self.sketches else {}

    def to_bytes(self) -> bytes:
        """A byte with the size of a number in the body, the number of sketches, their heads, the body.

        A head is second, shift, number of buckets and first bucket, in int64. The body holds how far each
        bucket is from the one before, then each count.
        """
        if not self.seconds:
            return b""
        heads = [
            (second, each.shift, len(each.buckets), int(each.buckets[0]))
            for second, each in zip(self.seconds, self.sketches, strict=True)
        ]
        buckets = np.concatenate([each.buckets for each in self.sketches])
        steps = np.empty_like(buckets)
        np.subtract(buckets[1:], buckets[:-1], out=steps[1:])
        steps[np.array([0] + [head[2] for head in heads[:-1]]).cumsum()] = 0
        body = np.concatenate([steps, *(each.counts for each in self.sketches)])
        size = 4 if int(body.max()) < 2**32 else 8
        head = np.array([len(heads), *(number for each in heads for number in each)], dtype="<i8")
        return bytes([size]) + head.tobytes() + body.astype(f"<u{size}").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> InFlight:
        """What `to_bytes` wrote. Raises ValueError for anything else."""
        if not data:
            return cls()
        sketches = int.from_bytes(data[1:9], "little")
        if data[0] not in (4, 8) or not 0 < sketches <= IN_FLIGHT_SECONDS or len(data) < 9 + 32 * sketches:
            raise ValueError("the sketches of times are damaged")
        heads = np.frombuffer(data, "<i8", 4 * sketches, 9).reshape(-1, 4).tolist()
        body = np.frombuffer(data, f"<u{data[0]}", offset=9 + 32 * sketches).astype(np.int64)
        sizes = [size for _, _, size, _ in heads]
        seconds = tuple(second for second, *_ in heads)
        if (
            any(not 0 < size <= BUCKETS or not 0 <= shift < 64 for _, shift, size, _ in heads)
            or list(seconds) != sorted(set(seconds))
            or len(body) != 2 * sum(sizes)
        ):
            raise ValueError("the sketches of times are damaged")
        steps, counts = body[: len(body) // 2], body[len(body) // 2 :]
        parts: list[TimeSketch] = []
        start = 0
        for _, shift, size, first in heads:
            end = start + size
            parts.append(TimeSketch(shift, first + steps[start:end].cumsum(), counts[start:end]))
            start = end
        return cls(seconds, tuple(parts))


def at_percents(sketches: Sequence[TimeSketch], percents: Sequence[int]) -> dict[int, int]:
    """By p, the k-th newest of n times, k = p * n / 100 rounded up; those of a bucket count as its least.

    >>> at_percents([TimeSketch.of(np.array([10, 20, 30]))], [33, 34, 100])
    {33: 30, 34: 20, 100: 10}
    """
    times = np.concatenate([each.least_ticks for each in sketches])
    counts = np.concatenate([each.counts for each in sketches])
    newest_first = times.argsort()[::-1]
    reached = counts[newest_first].cumsum()
    wanted = [max(1, -(-p * int(reached[-1]) // 100)) for p in percents]
    found = times[newest_first][reached.searchsorted(wanted)]
    return dict(zip(percents, found.tolist(), strict=True))


def sketch_of_part(chunk: Arrivals, start: int, end: int) -> TimeSketch | None:
    """The sketch of the usable times from one place to another; None if there are none."""
    times, flags = chunk.event_time_ticks[start:end], chunk.usable[start:end]
    if not flags.all():
        times = times[flags]
    return TimeSketch.of(times) if len(times) else None


def _narrowed(shift: int, buckets: Ints, counts: Ints) -> TimeSketch:
    """The sketch with the least width, from this one on, at which `BUCKETS` buckets are enough."""
    if len(buckets) <= BUCKETS:
        return TimeSketch(shift, buckets, counts)
    low, high = 1, 63
    while low < high:
        middle = (low + high) // 2
        wider = buckets >> middle
        if np.count_nonzero(wider[1:] != wider[:-1]) < BUCKETS:
            high = middle
        else:
            low = middle + 1
    wider = buckets >> low
    starts = _starts(wider)
    return TimeSketch(shift + low, wider[starts], np.add.reduceat(counts, starts))


def _starts(ascending: Ints) -> Ints:
    """Where each distinct value of an ascending, not empty array starts."""
    first = np.ones(len(ascending), dtype=np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=first[1:])
    return first.nonzero()[0]


def _distinct(ascending: Ints) -> tuple[Ints, Ints]:
    """The distinct values of an ascending array, and how often each is in it."""
    starts = _starts(ascending)
    ends = np.empty_like(starts)
    ends[:-1] = starts[1:]
    ends[-1:] = len(ascending)
    return ascending[starts], ends - starts


def _of_many(times_ticks: Ints) -> TimeSketch:
    """The sketch of more times than one wants to sort.

    A sample has no wider buckets than all times, so all are counted in its width. Where that is one tick, the
    times are mostly whole seconds or the like: they are counted in steps of what those of the sample share.
    """
    sample = times_ticks[:: len(times_ticks) // _SAMPLE + 1]
    shift = TimeSketch.of(sample).shift
    first = int(times_ticks.min())
    if shift:
        first >>= shift
        places = (times_ticks >> shift) - first
        step = 1
    else:
        step = max(1, int(np.gcd.reduce(sample - first)))
        places = (times_ticks - first) // step
        if step > 1 and not np.array_equal(places * step + first, times_ticks):
            return _narrowed(0, *_distinct(np.sort(times_ticks)))
    if int(places.max()) < _DENSE:
        dense = np.bincount(places)
        held = np.flatnonzero(dense)
        return _narrowed(shift, held * step + first, dense[held])
    distinct, counts = _distinct(np.sort(places))
    return _narrowed(shift, distinct * step + first, counts)
