"""Times of tests: seconds after the start of 2026, as text or as ticks."""

from __future__ import annotations

from tideglass.core.time import TICKS_PER_SECOND, format_ticks, parse_ticks


def ticks_of(text: str) -> int:
    found = parse_ticks(text)
    assert found is not None
    return found


START_TICKS = ticks_of("2026-01-01T00:00:00Z")


def ticks_at(second: float) -> int:
    return START_TICKS + round(second * TICKS_PER_SECOND)


def at(second: float) -> str:
    return format_ticks(ticks_at(second))
