"""Figures of the benchmark: start-up taken out, medians over rounds, bars judged."""

from __future__ import annotations

import os
import sys

import pytest

from figures import Round, counted_batches, figures_of, ratio, verdicts
from measure import Batch, Measured, RunFailed, measure
from scenarios import SCENARIOS, Bar, BatchWindow


def a_round(small, large, peak=100.0):
    return Round(1_000_000, Measured(large, 2 * large, peak), Measured(small, 2 * small, peak / 2))


def test_a_rate_has_no_start_up_in_it():
    figures = figures_of([a_round(10.0, 12.0), a_round(10.0, 15.0)], None)
    assert figures.rates == (500_000, 200_000)
    assert figures.cpu_seconds_per_million == (4, 10)


def test_ratios_compare_a_round_with_itself_before_the_median():
    ours = figures_of([a_round(10, 11), a_round(10, 14), a_round(10, 12)], None)
    theirs = figures_of([a_round(10, 12), a_round(10, 18), a_round(10, 18)], None)
    assert ratio(Bar("rate", 1, "them"), ours, theirs) == 2
    assert ratio(Bar("cost", 1, "them"), ours, theirs) == 0.5
    assert ratio(Bar("memory", 1, "them"), ours, theirs) == 1


@pytest.mark.parametrize(
    ("bar", "enough", "too_little"),
    [
        (Bar("rate", 2.5, "x"), 2.5, 2.49),
        (Bar("cost", 1.5, "x"), 1.5, 1.51),
        (Bar("memory", 1.0, "x"), 0.9, 1.1),
        (Bar("batch", 0.5), 0.49, 0.5),
        (Bar("evenness", 0.2, "x"), 0.85, 0.79),
        (Bar("evenness", 0.2, "x"), 1.15, 1.21),
    ],
)
def test_a_bar_is_reached_or_missed(bar, enough, too_little):
    assert bar.reached(enough)
    assert not bar.reached(too_little)


def test_only_batches_between_the_first_ones_and_the_end_count():
    run = Measured(9, 9, 9, batches=tuple(Batch(100 * n, float(n)) for n in range(1, 8)))
    assert counted_batches(run, BatchWindow(events=100, skipped=2, counted=3)) == [3, 4, 5]
    figures = figures_of([Round(700, run)], BatchWindow(100, 2, 3))
    assert ratio(Bar("batch", 0.5), figures, None) == 4


def test_a_run_that_was_stopped_gives_a_bound():
    figures = figures_of([Round(1_000_000, Measured(100, 5, 5, finished=False))], None)
    assert figures.rates == (10_000,)
    assert not figures.finished


def test_bars_against_who_was_not_measured_are_not_judged():
    scenario = SCENARIOS["tumbling"]
    figures = {name: figures_of([a_round(10, 12)], None) for name in ("tideglass", "flink heap")}
    judged = verdicts(scenario, figures)
    assert [(each.bar.against, each.value, each.reached) for each in judged] == [("flink heap", 1.0, False)]


def test_every_bar_is_against_an_entrant_of_its_scenario():
    for scenario in SCENARIOS.values():
        names = {entrant.name for entrant in scenario.entrants}
        assert {bar.against for bar in scenario.bars if bar.against} <= names
        assert len(names) == len(scenario.entrants)


WORKS = """
import subprocess, sys
child = subprocess.run([sys.executable, "-c", "import time; held = bytearray(60_000_000); time.sleep(1.5)"])
print('measured {"seconds": 1.25, "batches": [[10, 0.5]]}')
"""


def test_a_run_is_measured_with_all_it_starts(tmp_path):
    run = measure([sys.executable, "-c", WORKS], os.environ, tmp_path / "log", 60)
    assert run.seconds == 1.25
    assert run.batches == (Batch(10, 0.5),)
    assert run.peak_mib > 57
    assert run.cpu_seconds > 0


def test_a_run_beyond_its_limit_is_stopped_with_all_it_started(tmp_path):
    sleeps = "import subprocess; subprocess.run(['sleep', '600'])"
    run = measure([sys.executable, "-c", sleeps], os.environ, tmp_path / "log", 1.0)
    assert not run.finished
    assert run.seconds == 1.0


def test_a_program_that_says_nothing_or_fails_is_an_error(tmp_path):
    for program in ("print('done')", "print('measured {\"seconds\": 1}'); raise SystemExit(3)"):
        with pytest.raises(RunFailed):
            measure([sys.executable, "-c", program], os.environ, tmp_path / "log", 60)
