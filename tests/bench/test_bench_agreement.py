"""Rows of engines are compared where their rules are the same, and nowhere is a wrong row let through."""

from __future__ import annotations

import duckdb
import pytest

from agreement import Agreement, Compared, Disagreement, compare
from data import GROUPS_START_MS as START
from data import Data

DATA = Data("toll", "json")
WINDOWS = Agreement(
    {"device": "VARCHAR", "window_end": "TIMESTAMPTZ", "n": "BIGINT"},
    ("device", "window_end"),
    "windows",
    size_ms=60_000,
    hop_ms=60_000,
)
SESSIONS = Agreement(
    {"device": "VARCHAR", "window_end": "TIMESTAMPTZ", "n": "BIGINT"},
    ("device", "window_end"),
    "sessions",
    size_ms=30_000,
)
PREVIOUS = Agreement({"seq": "BIGINT", "previous": "BIGINT"}, ("seq",), "neighbours")
#: device, event time and arrival time in seconds from the start
EVENTS = [
    ("a", 10, 10),
    ("a", 70, 70),
    ("a", 130, 400),  # late: re-timed to 280
    ("b", 60, 61),  # exactly on an end
    ("b", 200, 200),
    ("b", 900, 900),
    ("b", 2_000, 1_000),  # early
]


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "toll" / "0"
    folder.mkdir(parents=True)
    values = ", ".join(
        f"({number}, 0, '{device}', {START + at * 1000}, {START + arrived * 1000}, 1, 1.0, 'P')"
        for number, (device, at, arrived) in enumerate(EVENTS)
    )
    names = "seq, partition, device, event_time, arrival_time, tolls, amount, plate"
    duckdb.sql(f"COPY (FROM (VALUES {values}) AS made({names})) TO '{folder}/0.json' (FORMAT JSON)")
    return tmp_path


def counts(*rows):
    """A table of SQL: device, end of the window in seconds from the start, count."""
    values = ", ".join(
        f"('{device}', make_timestamptz({1000 * (START + end * 1000)}), {n})" for device, end, n in rows
    )
    return f"(FROM (VALUES {values}) AS made(device, window_end, n))"


FLOOR = counts(("a", 60, 1), ("a", 120, 1), ("a", 300, 1), ("b", 60, 1), ("b", 240, 1), ("b", 900, 1))


def compared(agreement, root, floor, theirs, exact=False, flushes=True):
    return compare(agreement, DATA, root, floor, theirs, exact=exact, flushes=flushes)


def test_the_same_rows_agree_to_the_last(root):
    assert compared(WINDOWS, root, FLOOR, FLOOR, exact=True) == Compared(6, 6, 0, 0)


def test_windows_with_late_and_boundary_events_are_left_aside_and_counted(root):
    theirs = counts(("a", 60, 1), ("a", 120, 1), ("a", 180, 1), ("b", 120, 1), ("b", 240, 1), ("b", 960, 1))
    assert compared(WINDOWS, root, FLOOR, theirs) == Compared(9, 3, 6, 0)


def test_of_an_exact_entrant_no_row_is_left_aside(root):
    theirs = counts(("a", 60, 1), ("a", 120, 1), ("a", 180, 1), ("b", 60, 1), ("b", 240, 1), ("b", 900, 1))
    with pytest.raises(Disagreement, match="rows differ"):
        compared(WINDOWS, root, FLOOR, theirs, exact=True)


@pytest.mark.parametrize(
    "theirs",
    [
        pytest.param(counts(("a", 60, 2), ("a", 120, 1), ("b", 240, 1)), id="another value"),
        pytest.param(counts(("a", 60, 1), ("b", 240, 1)), id="a row is missing"),
        pytest.param(counts(("a", 60, 1), ("a", 120, 1), ("b", 240, 1), ("c", 60, 1)), id="a row too many"),
    ],
)
def test_any_other_difference_is_a_disagreement(root, theirs):
    with pytest.raises(Disagreement, match="rows differ"):
        compared(WINDOWS, root, FLOOR, theirs)


def test_a_key_that_comes_twice_is_a_disagreement(root):
    with pytest.raises(Disagreement, match="more than one row"):
        compared(WINDOWS, root, FLOOR, counts(("a", 60, 1), ("a", 60, 1)))


def test_windows_behind_the_last_watermark_are_asked_only_of_who_is_told_of_the_end(root):
    floor = counts(("a", 60, 1), ("a", 120, 1), ("b", 240, 1), ("b", 840, 1))
    theirs = counts(("a", 60, 1), ("a", 120, 1), ("b", 240, 1))
    # the last watermark is at 900 - 120 s
    assert compared(WINDOWS, root, floor, theirs, flushes=False) == Compared(4, 3, 0, 1)
    with pytest.raises(Disagreement):
        compared(WINDOWS, root, floor, theirs, flushes=True)


def test_sessions_that_a_late_event_may_have_met_are_left_aside(root):
    floor = counts(("a", 40, 1), ("a", 100, 1), ("a", 310, 1), ("b", 90, 1), ("b", 230, 1))
    theirs = counts(("a", 40, 1), ("a", 100, 1), ("a", 160, 1), ("b", 90, 1), ("b", 230, 1))
    assert compared(SESSIONS, root, floor, theirs) == Compared(6, 4, 2, 0)
    with pytest.raises(Disagreement):
        compared(SESSIONS, root, floor, counts(("a", 40, 1), ("a", 100, 2), ("b", 90, 1), ("b", 230, 1)))


def test_the_row_behind_a_late_event_may_have_another_previous_one(tmp_path, root):
    floor = "(FROM (VALUES (0, NULL), (1, 1), (2, 1), (3, NULL), (4, 3), (5, 3)) AS made(seq, previous))"
    without_the_late_one = (
        "(FROM (VALUES (0, NULL), (1, 1), (3, NULL), (4, 3), (5, 3)) AS made(seq, previous))"
    )
    assert compared(PREVIOUS, root, floor, without_the_late_one) == Compared(6, 5, 1, 0)


def test_floats_may_differ_in_their_last_digits_only(root):
    amounts = Agreement({"seq": "BIGINT", "amount": "DOUBLE"}, ("seq",), "nothing")
    floor, close, far = (
        f"(SELECT 1 AS seq, CAST({x} AS DOUBLE) AS amount)" for x in ("0.3", "0.1+0.2", "0.31")
    )
    assert compared(amounts, root, floor, close, exact=True).compared == 1
    with pytest.raises(Disagreement):
        compared(amounts, root, floor, far, exact=True)
