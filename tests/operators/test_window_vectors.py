"""The published examples of windows and aggregates (`asa.md` 3, 4.1), each as it is printed there."""

from __future__ import annotations

from typing import Any

import pytest

from support.times import ticks_of
from support.window_rows import S, at_once, one
from tideglass.core.time import TICKS_PER_HOUR, TICKS_PER_MILLISECOND, TICKS_PER_MINUTE
from tideglass.plan.specs import AggregateSpec
from tideglass.plan.windows import Hopping, Session, Sliding, Snapshot, Window

COUNT = AggregateSpec("$a0", "count")


def counts(window: Window, seconds: list[float]) -> list[tuple[float, int]]:
    rows = [{"$ts": round(second * S)} for second in seconds]
    return [(row["$ts"] / S, row["$a0"]) for row in at_once([window], rows, [COUNT])]


def test_a_row_exactly_on_a_window_end_is_in_the_window_that_ends_there() -> None:
    assert counts(Hopping(10 * S, 5 * S), [5, 10]) == [(5, 1), (10, 2), (15, 1)]
    assert counts(Hopping(5 * S, 5 * S), [0, 0.0000001, 5, 5.0000001]) == [(0, 1), (5, 2), (10, 1)]


def test_an_offset_of_minus_one_millisecond_moves_both_ends() -> None:
    window = Hopping(TICKS_PER_HOUR, TICKS_PER_HOUR, -TICKS_PER_MILLISECOND)
    rows = [{"$ts": ticks_of("2026-01-01T12:00:00Z")}, {"$ts": ticks_of("2026-01-01T13:00:00Z")}]
    found = at_once([window], rows, [COUNT])
    assert [row["$ts"] for row in found] == [
        ticks_of("2026-01-01T12:59:59.999Z"),
        ticks_of("2026-01-01T13:59:59.999Z"),
    ]


def test_hopping_windows_end_at_every_multiple_of_the_hop() -> None:
    found = at_once([Hopping(60 * S, 5 * S)], [{"$ts": ticks_of("2026-01-01T00:03:54Z")}], [COUNT])
    assert [row["$ts"] for row in found[:2]] == [
        ticks_of("2026-01-01T00:03:55Z"),
        ticks_of("2026-01-01T00:04:00Z"),
    ]
    assert len(found) == 12
    found = at_once([Hopping(300 * S, 5 * S)], [{"$ts": ticks_of("2026-01-01T06:01:00Z")}], [COUNT])
    assert found[0]["$ts"] == ticks_of("2026-01-01T06:01:00Z")


def test_weeks_start_on_monday() -> None:
    week = 7 * 24 * TICKS_PER_HOUR
    (found,) = at_once([Hopping(week, week)], [{"$ts": ticks_of("2026-11-21T08:00:00Z")}], [COUNT])
    assert found["$ts"] == ticks_of("2026-11-23T00:00:00Z")  # a Monday


def test_a_hop_longer_than_the_size_leaves_gaps() -> None:
    assert counts(Hopping(2 * S, 5 * S), [1, 3, 3.1, 5, 6]) == [(5, 2)]


def test_sliding_windows_report_entries_and_exits() -> None:
    rows: list[dict[str, Any]] = [{"$ts": s * S, "$x": x} for s, x in ((34, "A"), (38, "B"), (42, "C"))]
    found = at_once([Sliding(5 * S)], rows, [AggregateSpec("$a0", "collect", "$x")])
    assert [(row["$ts"] / S, row["$a0"]) for row in found] == [
        (34, '["A"]'),
        (38, '["A","B"]'),
        (39, '["B"]'),
        (42, '["B","C"]'),
        (43, '["C"]'),
    ]
    assert counts(Sliding(10 * S), [10, 12, 15, 15, 26]) == [
        (10, 1),
        (12, 2),
        (15, 4),
        (20, 3),
        (22, 2),
        (26, 1),
    ]


def test_a_session_is_cut_at_the_second_check_it_is_open_at() -> None:
    assert counts(Session(5 * S, 10 * S), [12.5, 15, 19.5, 24, 26]) == [(30, 5)]


def test_a_row_exactly_timeout_after_the_last_belongs_to_the_session() -> None:
    assert counts(Session(5 * S, 100 * S), [1, 6, 11.0000001]) == [(11, 2), (16.0000001, 1)]


def test_after_a_cut_the_session_opens_at_the_cut() -> None:
    # (10, 20] and (20, 30] are the chain's first two intervals; 30 is on the cut; then each interval alone
    seconds = [12.0, 16.0, 20.0, 24.0, 28.0, 30.0, 34.0, 38.0, 42.0, 46.0]
    assert counts(Session(5 * S, 10 * S), seconds) == [(30, 6), (40, 2), (50, 2)]
    # more than the timeout after the last row: a session of its own, with two intervals again
    assert counts(Session(5 * S, 10 * S), [12.0, 16.0, 20.0, 25.0, 30.0, 36.0, 41.0, 46.0]) == [
        (30, 5),
        (50, 3),
    ]


def test_sessions_without_partition_by_are_formed_by_all_rows() -> None:
    rows = [{"$ts": s * S, "$k0": k} for s, k in ((1, "a"), (5, "b"), (9, "a"), (20, "b"))]
    window = Session(5 * S, 1000 * S)
    found = at_once([window], rows, [COUNT], ["$k0"])
    assert [(row["$ts"] / S, row["$k0"], row["$a0"]) for row in found] == [
        (14, "a", 2),
        (14, "b", 1),
        (25, "b", 1),
    ]
    found = at_once([window], rows, [COUNT], ["$k0"], session_keys=[("$k0",)])
    assert [(row["$ts"] / S, row["$k0"], row["$a0"]) for row in found] == [
        (6, "a", 1),
        (10, "b", 1),
        (14, "a", 1),
        (25, "b", 1),
    ]


def test_a_snapshot_groups_rows_of_one_instant() -> None:
    assert counts(Snapshot(), [1, 2, 2, 2.0000001]) == [(1, 1), (2, 2), (2.0000001, 1)]


def test_several_windows_are_the_union_and_each_row_tells_its_window() -> None:
    windows = [Hopping(5 * S, 5 * S, id="five"), Hopping(10 * S, 10 * S, id="ten"), Snapshot(id="now")]
    found = at_once(windows, [{"$ts": 4 * S}, {"$ts": 10 * S}], [COUNT])
    assert [(row["$ts"] / S, row["$window"], row["$a0"]) for row in found] == [
        (4, "now", 1),
        (5, "five", 1),
        (10, "five", 1),
        (10, "ten", 2),
        (10, "now", 1),
    ]
    assert len({row["$offset"] for row in found}) == 3, "a hash per window, as the key is the same"


def test_a_window_without_id_has_no_window_column() -> None:
    assert "$window" not in at_once([Snapshot()], [{"$ts": 1}], [COUNT])[0]


def test_the_documented_sample_of_substreams() -> None:
    arrivals = [(1, "1"), (5, "1"), (1, "2"), (4, "2"), (10, "1"), (3, "3"), (11, "2"), (7, "3")]
    rows = [{"$ts": s * S, "$substream": k, "$k0": k} for s, k in arrivals]
    found = at_once([Hopping(5 * S, 5 * S)], rows, [COUNT], ["$k0"], substreams=True)
    assert {(row["$k0"], row["$ts"] // S, row["$a0"]) for row in found} == {
        ("1", 5, 2),
        ("2", 5, 2),
        ("1", 10, 1),
        ("3", 5, 1),
        ("2", 15, 1),
        ("3", 10, 1),
    }
    assert all(row["$substream"] == row["$k0"] for row in found)


@pytest.mark.parametrize(("function", "expected"), [("percentile_cont", 0.988), ("percentile_disc", 0.99)])
def test_the_documented_percentiles(function: str, expected: float) -> None:
    values = [0.78, 0.89, 0.93, 0.98, 0.99]
    assert one(function, values, constant=0.95, order_by=(("$x", False),)) == expected


def test_a_window_result_is_stamped_with_its_end_and_ordered_by_time_and_key() -> None:
    rows = [{"$ts": s * TICKS_PER_MINUTE, "$k0": k} for s, k in ((3, "b"), (1, "c"), (1, "a"))]
    window = Hopping(2 * TICKS_PER_MINUTE, 2 * TICKS_PER_MINUTE)
    found = at_once([window], rows, [COUNT], ["$k0"])
    assert [(row["$ts"] // TICKS_PER_MINUTE, row["$k0"]) for row in found] == [(2, "a"), (2, "c"), (4, "b")]
    assert all(row["$arrival"] == row["$ts"] and row["$input"] == row["$partition"] == 0 for row in found)
    assert found[0]["$offset"] != found[1]["$offset"]
