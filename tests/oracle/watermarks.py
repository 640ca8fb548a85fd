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
    return max(time for time in times if 100 * sum(each >= time for each in times) >= percent * len(times))
