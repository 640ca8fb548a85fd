"""The windows that events fall into: those with ends on a grid, over rows that have the time of an event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tideglass.core.time import ORIGIN_TICKS
from tideglass.plan.topology import (
    AnalyticOp,
    ApplyOp,
    LookupOp,
    PartialOp,
    ReceiveOp,
    RowsOp,
    ScanOp,
    SendOp,
    Topology,
    WindowOp,
)
from tideglass.plan.windows import Hopping
from tideglass.play.attempt import MOST_WINDOWS, PlayedEvent, PlayedWindow


def readers_of(topology: Topology, operator: int) -> frozenset[int] | None:
    """The readers whose events reach an operator at their own time; None where something changes the time.

    A window below stamps its rows with its end, a join with the later of two times, a pattern with its last.
    """
    op = topology.op(operator)
    match op:
        case ScanOp(reader=reader):
            return frozenset((reader,))
        case WindowOp(sources=sources) | AnalyticOp(sources=sources):
            below: Sequence[int] = sources
        case RowsOp(source=source) | PartialOp(source=source) | SendOp(source=source):
            below = (source,)
        case ApplyOp(source=source) | LookupOp(source=source):
            below = (source,)
        case ReceiveOp(send=send):
            below = (send,)
        case _:
            return None
    found = frozenset[int]()
    for each in below:
        readers = None if isinstance(topology.op(each), WindowOp) else readers_of(topology, each)
        if readers is None:
            return None
        found |= readers
    return found


def windows_of(
    topology: Topology,
    events: Sequence[PlayedEvent],
    watermarks_ticks: Sequence[Mapping[int, int]],
    lines: Sequence[int],
) -> tuple[list[PlayedWindow], int]:
    """Every tumbling and hopping window that has an event, by their ends, and how many were left out.

    watermarks_ticks: behind the event of each of `lines`, the input watermark of each window operator.
    """
    found: list[PlayedWindow] = []
    left_out = 0
    for op in topology.ops:
        readers = readers_of(topology, op.id) if isinstance(op, WindowOp) else None
        if not isinstance(op, WindowOp) or readers is None:
            continue
        for window in op.spec.windows:
            if isinstance(window, Hopping):
                held = _held(window, [each for each in events if each.reader in readers])
                left_out += max(0, len(held) - MOST_WINDOWS)
                for end_ticks, within in sorted(held.items())[:MOST_WINDOWS]:
                    found.append(
                        PlayedWindow(
                            op.id,
                            window.text,
                            end_ticks - window.size_ticks,
                            end_ticks,
                            len(within),
                            min(within),
                            _closed(op.id, end_ticks, watermarks_ticks, lines),
                        )
                    )
    return sorted(found, key=lambda each: (each.end_ticks, each.operator, each.start_ticks)), left_out


def _held(window: Hopping, events: Sequence[PlayedEvent]) -> dict[int, list[int]]:
    """The lines of the events in each window, by its end."""
    found: dict[int, list[int]] = {}
    if window.windows_per_event > MOST_WINDOWS:
        return found
    for event in events:
        at_ticks = event.system_timestamp_ticks
        if at_ticks is None:
            continue
        aligned_ticks = ORIGIN_TICKS + window.offset_ticks
        end_ticks = aligned_ticks - (aligned_ticks - at_ticks) // window.hop_ticks * window.hop_ticks
        while end_ticks - window.size_ticks < at_ticks:
            found.setdefault(end_ticks, []).append(event.line)
            end_ticks += window.hop_ticks
    return found


def _closed(
    operator: int, end_ticks: int, watermarks_ticks: Sequence[Mapping[int, int]], lines: Sequence[int]
) -> int | None:
    """The first event whose watermark is past the end: a row exactly on it would still be in the window."""
    for line, known in zip(lines, watermarks_ticks, strict=False):
        if known.get(operator, end_ticks) > end_ticks:
            return line
    return None
