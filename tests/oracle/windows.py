"""Windows as the text defines them (`asa.md` 3): from all timestamps to (end, members) at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: A window instance: its end, and the positions of the rows it holds.
Instance = tuple[int, list[int]]


@dataclass(frozen=True)
class Window:
    """`kind` and its lengths in ticks, 0 where they do not apply; `id` is the text of Window('id', ...)."""

    kind: str
    size: int = 0
    hop: int = 0
    offset: int = 0
    timeout: int = 0
    max_duration: int = 0
    id: str | None = None


def instances(window: Window, times: Sequence[int]) -> list[Instance]:
    """Every non-empty instance over rows at `times` (ascending)."""
    match window.kind:
        case "tumbling" | "hopping":
            ends = grid_ends(window, times)
            return holding(times, ends, window.size)
        case "sliding":
            ends = set(times) | {t + window.size for t in times}
            return holding(times, ends, window.size)
        case "session":
            return sessions(window.timeout, window.max_duration, times)
        case _:  # snapshot
            return [(end, [i for i, t in enumerate(times) if t == end]) for end in sorted(set(times))]


def holding(times: Sequence[int], ends: set[int], size: int) -> list[Instance]:
    """The windows (end - size, end] that hold a row."""
    found = [(end, [i for i, t in enumerate(times) if end - size < t <= end]) for end in sorted(ends)]
    return [(end, rows) for end, rows in found if rows]


def grid_ends(window: Window, times: Sequence[int]) -> set[int]:
    """Multiples of the hop (plus offset) from 0001-01-01 that may hold a row."""
    ends: set[int] = set()
    for t in times:
        end = (t - window.offset) // window.hop * window.hop + window.offset
        while end < t + window.size:
            if end >= t:
                ends.add(end)
            end += window.hop
    return ends


def sessions(timeout: int, max_duration: int, times: Sequence[int]) -> list[Instance]:
    """A session ends at the first t with t - last > timeout, or t a multiple of maxDuration and
    t - opened >= maxDuration; an event exactly there still belongs (3.5, A-17)."""

    def cut_after(opened: int) -> int:
        return -(-(opened + max_duration) // max_duration) * max_duration

    found: list[Instance] = []
    opened, members = 0, list[int]()
    for i, t in enumerate(times):
        if members:
            last = times[members[-1]]
            cut = cut_after(opened)
            if t > min(cut, last + timeout):
                found.append((min(cut, last + timeout), members))
                members = []
                # Reopened at the cut, and cut again while nothing comes, as long as the timeout lasts.
                opened = t if t > last + timeout else (t - 1) // max_duration * max_duration
        else:
            opened = t
        members.append(i)
    if members:
        found.append((min(cut_after(opened), times[members[-1]] + timeout), members))
    return found


def stamped(stamp: str, window: Window, end: int, times: Sequence[int]) -> int:
    """The time of the result of a window with rows at `times` (11.4, 11.5)."""
    if stamp in ("", "end of window"):
        return end
    first = min(times)
    if stamp == "first element" or window.kind not in ("tumbling", "hopping"):
        return first
    assert stamp == "first element after the window before"
    end_of_window_before = end - window.hop
    return max(first, end_of_window_before + 1)
