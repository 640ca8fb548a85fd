"""The watermark at p percent of the events in flight (`asa.md` 11.6, `docs/decisions/0030`).

It moves when a second of arrival time is complete: with the first event of a later second, which is judged by
it already. It is then at p percent of the events in flight at the end of that second, if that is later than
before and at least ten events are in flight. Fewer say nothing of how times are spread.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tideglass.core.arrays import Ints, Mask
from tideglass.core.time import BEFORE_ALL_TICKS, TICKS_PER_SECOND
from tideglass.ingress.in_flight import BUCKETS, Arrivals, InFlight, TimeSketch, at_percents, sketch_of_part
from tideglass.ingress.partition_time import Ingress
from tideglass.plan.policy_settings import IN_FLIGHT_SECONDS

#: With fewer events in flight the watermark stays: the least sample of Beam's reader of Pub/Sub (11.10).
LEAST_EVENTS = 10

#: Times that are sorted at once: 2 MiB.
_TIMES_AT_ONCE = 1 << 18


def watermark_at_percentile(percentile: int, ingress: Ingress, chunk: Arrivals) -> Ints:
    """The watermark at a percentage that each event of a chunk meets.

    ingress: the state before the chunk.
    """
    before_ticks = [ingress.percentile_watermark_ticks]
    return watermarks_at_percents(
        [percentile], before_ticks, ingress.in_flight, ingress.last_arrival_ticks, chunk
    )[0]


def early_watermarks(percents: Sequence[int], ingress: Ingress, chunk: Arrivals) -> Ints:
    """The watermark at each percentage of early panes that each event of a chunk meets.

    ingress: the state before the chunk. A row a percentage, a column an event.
    """
    before_ticks = ingress.early_watermarks_ticks or (BEFORE_ALL_TICKS,) * len(percents)
    return watermarks_at_percents(
        percents, before_ticks, ingress.in_flight, ingress.last_arrival_ticks, chunk
    )


def watermarks_at_percents(
    percents: Sequence[int],
    before_ticks: Sequence[int],
    in_flight: InFlight,
    last_arrival_ticks: int,
    chunk: Arrivals,
) -> Ints:
    """The watermark that each event of a chunk meets: a row a percentage, a column an event.

    before_ticks: by percentage, that of the event before the chunk; BEFORE_ALL_TICKS for none.
    in_flight: the events in flight before the chunk.
    last_arrival_ticks: of the event before the chunk; BEFORE_ALL_TICKS for none.
    """
    seconds = chunk.arrival_time_ticks // TICKS_PER_SECOND
    starts = np.flatnonzero(np.append(True, seconds[1:] != seconds[:-1]))
    groups = _Seconds(in_flight, chunk, seconds[starts], np.append(starts, len(seconds)))
    last_second = last_arrival_ticks // TICKS_PER_SECOND
    completed = np.append(last_second, groups.numbers[:-1])  # by the first event of each group
    found = np.full((len(percents), len(starts)), BEFORE_ALL_TICKS, dtype=np.int64)
    enough = groups.in_flight_at(completed) >= LEAST_EVENTS
    if groups.numbers[0] == last_second or last_arrival_ticks == BEFORE_ALL_TICKS:
        enough[0] = False  # the chunk goes on within a second
    places = np.flatnonzero(enough)
    sparse = groups.are_sparse(completed[places])
    found[:, places[sparse]] = groups.at_percents_of_sparse(completed[places[sparse]], percents)
    for place in places[~sparse].tolist():
        sketches = groups.sketches(int(completed[place]))
        found[:, place] = list(at_percents(sketches, percents).values())
    found[:, 0] = np.maximum(found[:, 0], np.array(before_ticks, dtype=np.int64))
    return np.repeat(np.maximum.accumulate(found, axis=1), np.diff(groups.edges), axis=1)


class _Seconds:
    """The seconds of a chunk and those in flight before it: how many events each has, and the sketch of each.

    numbers: the seconds of the chunk.
    edges: where their events start in the chunk, and its end.
    """

    def __init__(self, in_flight: InFlight, chunk: Arrivals, numbers: Ints, edges: Ints) -> None:
        self.numbers, self.edges = numbers, edges
        self._chunk = chunk
        self._earlier = dict(zip(in_flight.seconds, in_flight.sketches, strict=True))
        self._sketches: dict[int, TimeSketch | None] = {}
        self._places = {number: place for place, number in enumerate(numbers.tolist())}
        earlier = np.array(in_flight.seconds, dtype=np.int64)
        counts = np.array([each.count for each in in_flight.sketches], dtype=np.int64)
        own = np.add.reduceat(chunk.usable.astype(np.int64), edges[:-1])
        self._all = np.append(earlier, numbers)  # ascending; one second may be there twice
        self._until = np.append(0, np.cumsum(np.append(counts, own)))
        dense = np.append(counts, own) > BUCKETS
        if len(earlier) and earlier[-1] == numbers[0]:
            dense[len(earlier) - 1 : len(earlier) + 1] |= counts[-1] + own[0] > BUCKETS
        self._dense_until = np.append(0, np.cumsum(dense))
        known = [
            each for each, wide in zip(in_flight.sketches, dense[: len(earlier)], strict=True) if not wide
        ]
        self._times = np.concatenate(
            [*(each.least_ticks.repeat(each.counts) for each in known), chunk.event_time_ticks[chunk.usable]]
        )
        sizes = np.append(np.where(dense[: len(earlier)], 0, counts), own)
        self._times_until = np.append(0, np.cumsum(sizes))

    def in_flight_at(self, ends: Ints) -> Ints:
        """How many events are in flight at the end of each of these seconds."""
        before, after = self._range(ends)
        return self._until[after] - self._until[before]

    def are_sparse(self, ends: Ints) -> Mask:
        """Whether no second in flight at these ends has more events than a sketch has buckets.

        Its sketch then holds the times as they are.
        """
        before, after = self._range(ends)
        return self._dense_until[after] == self._dense_until[before]

    def at_percents_of_sparse(self, ends: Ints, percents: Sequence[int]) -> Ints:
        """A row a percentage: the times at it of the events in flight at the end of these sparse seconds.

        All at once, since where a second has few events there are many seconds.
        """
        before, after = self._range(ends)
        starts, counts = self._times_until[before], self._times_until[after] - self._times_until[before]
        found = np.empty((len(percents), len(ends)), dtype=np.int64)
        width = int(counts.max(initial=1))
        rows = max(1, _TIMES_AT_ONCE // width)
        for first in range(0, len(ends), rows):
            part = slice(first, first + rows)
            places = starts[part, None] + np.arange(width)
            inside = np.arange(width) < counts[part, None]
            times = np.where(inside, self._times.take(places, mode="clip"), BEFORE_ALL_TICKS)
            times.sort(axis=1)
            for row, percent in zip(found, percents, strict=True):
                k = np.maximum(1, -(-percent * counts[part] // 100))
                row[part] = np.take_along_axis(times, (width - k)[:, None], axis=1)[:, 0]
        return found

    def _range(self, ends: Ints) -> tuple[Ints, Ints]:
        """The first place in flight at the end of each of these seconds, and the one after the last."""
        before = np.searchsorted(self._all, ends - IN_FLIGHT_SECONDS, side="right")
        return before, np.searchsorted(self._all, ends, side="right")

    def sketches(self, end: int) -> list[TimeSketch]:
        """The sketches of the events in flight at the end of a second."""
        found = (self._sketch(second) for second in range(end - IN_FLIGHT_SECONDS + 1, end + 1))
        return [each for each in found if each is not None]

    def _sketch(self, second: int) -> TimeSketch | None:
        if second not in self._sketches:
            parts = [self._earlier.get(second), self._own_sketch(second)]
            known = [part for part in parts if part is not None]
            self._sketches[second] = TimeSketch.merged(known) if len(known) > 1 else next(iter(known), None)
        return self._sketches[second]

    def _own_sketch(self, second: int) -> TimeSketch | None:
        place = self._places.get(second)
        if place is None:
            return None
        start, end = int(self.edges[place]), int(self.edges[place + 1])
        return sketch_of_part(self._chunk, start, end)
