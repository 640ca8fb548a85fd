"""The twelve events of `asa.md` 1.9 in all three scenarios, cell by cell, and how they are shown."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from tideglass.core.time import TICKS_PER_MINUTE, TICKS_PER_SECOND, format_ticks
from tideglass.ingress.decisions import Decision
from tideglass.plan.policy_settings import Policies
from tideglass.simulate.simulation import (
    EXAMPLE,
    EXAMPLE_POLICIES,
    SimulatedEvent,
    duration,
    in_words,
    simulate,
    table,
)

# number: W before by events alone, System.Timestamp, decision, W after by events alone, W after
SCENARIO_1 = """
    1  -     12:07 accepted              12:05 12:05
    2  12:05 12:08 accepted              12:06 12:06
    3  12:06 -     dropped_early         12:06 12:06
    4  12:06 12:08 accepted              12:06 12:08
    5  12:06 12:19 accepted              12:17 12:17
    6  12:17 12:17 adjusted_out_of_order 12:17 12:17
    7  12:17 12:17 accepted              12:17 12:17
    8  12:17 12:20 accepted              12:18 12:18
    9  12:18 12:18 adjusted_out_of_order 12:18 12:18
    10 12:18 12:23 accepted              12:21 12:21
    11 12:21 12:22 accepted              12:21 12:21
    12 12:21 12:22 adjusted_late         12:21 12:22
"""
# As above but for three rows, for which 1.9 gives one W after; the floor is below it there.
SCENARIO_2 = """
    1  -     12:07 accepted              12:05 12:05
    2  12:05 12:08 accepted              12:06 12:06
    3  12:06 12:17 accepted              12:15 12:15
    4  12:15 12:15 adjusted_out_of_order 12:15 12:15
    5  12:15 12:19 accepted              12:17 12:17
    6  12:17 12:17 adjusted_out_of_order 12:17 12:17
    7  12:17 12:17 accepted              12:17 12:17
    8  12:17 12:20 accepted              12:18 12:18
    9  12:18 12:18 adjusted_out_of_order 12:18 12:18
    10 12:18 12:23 accepted              12:21 12:21
    11 12:21 12:22 accepted              12:21 12:21
    12 12:21 12:22 adjusted_late         12:21 12:22
"""
SCENARIO_3 = """
    1  -     12:07 accepted      12:05 12:05
    2  -     12:08 accepted      12:06 12:06
    3  12:05 -     dropped_early 12:05 12:06
    4  -     12:08 accepted      12:06 12:08
    5  12:05 12:19 accepted      12:17 12:17
    6  12:06 12:12 accepted      12:10 12:12
    7  12:06 12:17 accepted      12:15 12:15
    8  12:15 12:20 accepted      12:18 12:18
    9  12:10 12:16 accepted      12:14 12:16
    10 12:18 12:23 accepted      12:21 12:21
    11 12:21 12:22 accepted      12:21 12:21
    12 12:14 12:22 adjusted_late 12:20 12:22
"""


def minute(ticks):
    return "-" if ticks is None else format_ticks(ticks)[11:16]


@pytest.mark.parametrize(
    ("expected", "early_ticks", "substreams"),
    [
        (SCENARIO_1, 5 * TICKS_PER_MINUTE, False),
        (SCENARIO_2, None, False),
        (SCENARIO_3, 5 * TICKS_PER_MINUTE, True),
    ],
)
def test_the_twelve_events_of_the_article_go_as_its_tables_say(expected, early_ticks, substreams):
    simulation = simulate(EXAMPLE, replace(EXAMPLE_POLICIES, early_ticks=early_ticks), substreams)
    shown = [
        [
            row.event.label,
            minute(row.event_watermark_before_ticks),
            minute(row.system_timestamp_ticks),
            row.decision.name.lower(),
            minute(row.event_watermark_after_ticks),
            minute(row.watermark_after_ticks),
        ]
        for row in simulation.rows
    ]
    assert shown == [line.split() for line in expected.strip().splitlines()]


def test_with_drop_the_first_scenario_loses_its_four_disturbed_events():
    simulation = simulate(EXAMPLE, replace(EXAMPLE_POLICIES, drop=True))
    lost = {row.event.label: row.words for row in simulation.rows if not row.decision.kept}
    assert lost == {
        "3": "dropped, 6 min early",
        "6": "dropped, out of order, 5 min behind W",
        "9": "dropped, out of order, 2 min behind W",
        "12": "dropped, 6 min late",
    }


def test_without_the_early_rule_substreams_change_only_their_own_event_three():
    simulation = simulate(EXAMPLE, replace(EXAMPLE_POLICIES, early_ticks=None), substreams=True)
    usual = simulate(EXAMPLE, EXAMPLE_POLICIES, substreams=True)
    third = simulation.rows[2]
    assert (minute(third.system_timestamp_ticks), minute(third.watermark_after_ticks)) == ("12:17", "12:15")
    for row, other in zip(simulation.rows, usual.rows, strict=True):
        if row.event.label != "3":
            assert (row.decision, row.system_timestamp_ticks) == (
                other.decision,
                other.system_timestamp_ticks,
            )


def test_decisions_are_told_in_words():
    policies = Policies(late_ticks=10 * TICKS_PER_SECOND)
    s = TICKS_PER_SECOND
    events = [
        SimulatedEvent("a", 100 * s, 100 * s, "k"),
        SimulatedEvent("b", 80 * s, 105 * s, "k"),
        SimulatedEvent("c", None, 105 * s, "k"),
        SimulatedEvent("d", 104 * s, 105 * s),
        SimulatedEvent("e", 200 * s, 1000 * s, "k"),
    ]
    assert [row.words for row in simulate(events, policies, substreams=True).rows] == [
        "as is",
        "25 s late, out of order, raised 20 s to W",
        "dropped, no timestamp",
        "dropped, no key",
        "13 min 20 s late, raised by 13 min 10 s",
    ]
    assert simulate(events, policies).rows[3].decision == Decision.ACCEPTED


def test_by_arrival_time_every_event_is_as_is():
    simulation = simulate(EXAMPLE, Policies(application_time=False))
    assert {row.words for row in simulation.rows} == {"as is"}
    assert [row.system_timestamp_ticks for row in simulation.rows] == [e.arrival_time_ticks for e in EXAMPLE]


def test_no_events_make_an_empty_simulation():
    simulation = simulate([], EXAMPLE_POLICIES)
    assert simulation.rows == ()
    assert "0 as is, 0 adjusted, 0 dropped" in rendered(simulation)


@pytest.mark.parametrize(
    ("ticks", "words"),
    [
        (0, "0 s"),
        (1, "100 ns"),
        (10_000, "1 ms"),
        (15, "1500 ns"),
        (25_000_000, "2.5 s"),
        (7 * TICKS_PER_MINUTE, "7 min"),
        (TICKS_PER_MINUTE + 1, "1 min 0.0000001 s"),
        (26 * 60 * TICKS_PER_MINUTE + 61 * TICKS_PER_SECOND, "1 d 2 h"),
    ],
)
def test_a_duration_is_told_in_its_two_largest_units(ticks, words):
    assert duration(ticks) == words


def test_the_settings_are_told_in_words():
    assert in_words(Policies(early_ticks=None, drop=True)) == (
        "Early off, late unlimited, out of order 0 s, drop"
    )
    assert in_words(Policies(application_time=False)).startswith("By arrival time")


def rendered(simulation, width=100):
    console = Console(width=width, file=io.StringIO())
    console.print(table(simulation))
    return console.file.getvalue()


def test_the_table_shows_an_event_a_line_within_100_columns():
    lines = rendered(simulate(EXAMPLE, EXAMPLE_POLICIES)).splitlines()
    assert max(map(len, lines)) <= 100
    squeezed = [" ".join(line.split()) for line in lines]
    assert "6 12:12 12:17 device3 12:17 12:17 out of order, raised 5 min to W 12:17 12:17" in squeezed
    assert "12 12:21 12:27 device3 12:21 12:22 6 min late, raised by 1 min 12:22 12:21" in squeezed
    assert sum("device" in line for line in lines) == 12
    assert "8 as is, 3 adjusted, 1 dropped." in lines[-2]


@pytest.mark.parametrize("shift", [1, 10_000, 10_000_000])
def test_times_finer_than_a_minute_and_several_days_are_shown_in_full_within_100_columns(shift):
    day = 24 * 60 * TICKS_PER_MINUTE
    events = [
        SimulatedEvent(e.label, e.event_time_ticks + i * day + shift, e.arrival_time_ticks + i * day, e.key)
        for i, e in enumerate(EXAMPLE)
    ]
    text = rendered(simulate(events, EXAMPLE_POLICIES, substreams=True))
    assert max(map(len, text.splitlines())) <= 100
    assert "2026-01-12" in text
    assert {1: ".0000001", 10_000: ":00.001", 10_000_000: ":07:01"}[shift] in text
    assert "…" not in text


def test_text_in_labels_and_keys_is_not_taken_for_markup():
    text = rendered(simulate([SimulatedEvent("[red]", 0, 0, "[bold]x")], EXAMPLE_POLICIES))
    assert "[red]" in text
    assert "[bold]x" in text


def test_an_event_before_a_watermark_at_a_percentile_is_late_in_words():
    second = TICKS_PER_SECOND
    start = EXAMPLE[0].arrival_time_ticks
    times = [(n, n) for n in range(11)] + [(4, 10)]
    events = [
        SimulatedEvent(str(n), start + t * second, start + at * second) for n, (t, at) in enumerate(times)
    ]
    policies = Policies(late_ticks=60 * second, out_of_order_ticks=30 * second, percentile=50)
    shown = simulate(events, policies)
    assert shown.rows[-1].words == "late, 1 s behind W at 50 %, raised by 1 s"
    dropped = simulate(events, replace(policies, drop=True))
    assert dropped.rows[-1].words == "dropped, late, 1 s behind W at 50 %"
    assert dropped.counters.metrics()["LateInputEvents"] == 1
