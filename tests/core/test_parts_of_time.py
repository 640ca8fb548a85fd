"""Parts of a recording: exclusive, adding up to the whole, and nothing at all when nobody records."""

from __future__ import annotations

import time

import pytest

from tideglass.core.profile import REST, WAITING, awaited, measured, part, recording


def spin(milliseconds: float) -> None:
    """Pass time on the clock."""
    end = time.perf_counter() + milliseconds / 1000
    while time.perf_counter() < end:
        time.sleep(0)


def test_parts_hold_their_own_time_and_add_up_to_the_whole():
    began = time.perf_counter_ns()
    with recording() as recorder:
        with part("outer"):
            spin(4)
            with part("inner"):
                spin(8)
            spin(4)
        spin(2)
    whole = time.perf_counter_ns() - began
    times = recorder.nanoseconds
    assert times.keys() == {"outer", "inner", REST}
    assert min(times["outer"], times["inner"]) >= 8e6
    assert times[REST] >= 2e6
    assert sum(times.values()) <= whole
    assert sum(times.values()) > 0.9 * whole - 5e6
    assert recorder.calls == {"outer": 1, "inner": 1}
    assert recorder.cpu_nanoseconds > 0


def test_a_part_ends_when_it_is_left_by_an_error():
    with recording() as recorder:
        for _ in range(2):
            with pytest.raises(ValueError, match="no"), part("broken"):
                raise ValueError("no")
        with part("after"):
            spin(1)
    assert recorder.calls == {"broken": 2, "after": 1}
    assert recorder.nanoseconds["broken"] < recorder.nanoseconds["after"]


def test_functions_and_iterators_are_parts_too():
    @measured("working")
    def work(n: int) -> int:
        return n + 1

    with recording() as recorder:
        assert [work(n) for n in awaited(iter(range(3)))] == [1, 2, 3]
    assert recorder.calls == {"working": 3, WAITING: 4}
    assert work(1) == 2


def test_outside_of_a_recording_nothing_is_made_per_part():
    assert part("a") is part("b")
    with recording() as outer:
        with recording() as inner, part("inner"):
            spin(1)
        with part("outer"):
            spin(1)
    assert "inner" not in outer.calls
    assert "outer" not in inner.calls
    assert part("a") is part("b")
