"""Percentiles of the events in flight, from lists of events (`asa.md` 11.6, 11.10; decision 30).

An event is a pair of its event time and its arrival time in ticks, in the order of arrival. The event time is
None where none counts (early, no time, without a key).
"""

from __future__ import annotations

from collections.abc import Sequence

from .values import SECOND

BAND = 10
MOST = 128

Timed = tuple[int | None, int]


def rounded(times: Sequence[int]) -> list[int]:
    """Times rounded down to the least power of two of ticks that leaves at most `MOST` different ones."""
    width = 1
    while len({time // width for time in times}) > MOST:
        width *= 2
    return [time // width * width for time in times]


def in_flight(events: Sequence[Timed], until: int | None = None) -> list[int]:
    """The times of the events of the ten seconds of arrival up to one, rounded with those of their second.

    until: the number of the last second; None: that of the newest event.
    """
    if not events:
        return []
    last = max(arrival for _, arrival in events) // SECOND if until is None else until
    found: list[int] = []
    for second in range(last - BAND + 1, last + 1):
        found += rounded([t for t, arrival in events if t is not None and arrival // SECOND == second])
    return found


def at_percent(times: Sequence[int], percent: int) -> int:
    """The latest of these times that so many percent of all are not older than."""
    newest_first = sorted(times, reverse=True)
    return next(time for n, time in enumerate(newest_first, 1) if 100 * n >= percent * len(times))


def at_percentile(events: Sequence[Timed], percent: int) -> int:
    """The watermark at a percentile that the last of these events meets.

    Each second of arrival before its own sets it to the percentile of what is in flight at its end, if that
    is later than before and at least ten are in flight.
    """
    found = -(10**30)
    this_second = events[-1][1] // SECOND
    for second in {arrival // SECOND for _, arrival in events}:
        times = in_flight(events, second)
        if second < this_second and len(times) >= 10:
            found = max(found, at_percent(times, percent))
    return found
