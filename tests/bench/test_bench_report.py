"""The report shows every entrant with its figures and the bars beside them; its JSON can be read anywhere."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from figures import Round, figures_of, verdicts
from measure import Batch, Measured
from report import Outcome, table, write
from scenarios import SCENARIOS


def outcome_of(name, seconds):
    scenario = SCENARIOS[name]
    outcome = Outcome(scenario, 3_000_000, 1_000_000)
    for entrant, (small, large, peak) in seconds.items():
        runs = [Round(2_000_000, Measured(large, large, peak), Measured(small, small, peak))] * 3
        outcome.rounds[entrant] = runs
        outcome.figures[entrant] = figures_of(runs, scenario.batches)
    outcome.verdicts = verdicts(scenario, outcome.figures)
    return outcome


def shown(outcome):
    console = Console(width=200)
    with console.capture() as captured:
        console.print(table(outcome))
    return captured.get()


def line_of(text, entrant):
    return next(line for line in text.splitlines() if line.startswith(f"│ {entrant} "))


@pytest.fixture
def tumbling():
    return outcome_of(
        "tumbling",
        {"tideglass": (5, 7, 900), "flink heap": (5, 11, 700), "structured streaming": (5, 9, 800)},
    )


def test_rates_ratios_and_bars_stand_beside_each_other(tumbling):
    text = shown(tumbling)
    assert "3,000,000 events less 1,000,000, medians of 3" in text
    assert "1,000,000" in line_of(text, "tideglass")
    flink = line_of(text, "flink heap")
    assert "333,333" in flink
    assert "rate 3.00 (bar ≥ 2.5) met" in flink
    assert "rate 2.00 (bar ≥ 2.5) missed" in line_of(text, "structured streaming")
    assert "memory 1.12 (bar ≤ 1) missed" in text


def test_too_few_events_give_no_rate_and_no_verdict(tumbling):
    outcome = outcome_of("tumbling", {"tideglass": (5, 5, 900), "flink heap": (5, 11, 700)})
    assert "too few events" in line_of(shown(outcome), "tideglass")
    assert outcome.verdicts == []


def test_batches_are_shown_by_their_median():
    scenario = SCENARIOS["small-batch"]
    run = Measured(50, 50, 700, batches=tuple(Batch(1_000 * n, 0.3) for n in range(1, 102)))
    outcome = Outcome(scenario, 101_000, rounds={"tideglass": [Round(101_000, run)]})
    outcome.figures = {"tideglass": figures_of(outcome.rounds["tideglass"], scenario.batches)}
    outcome.verdicts = verdicts(scenario, outcome.figures)
    assert "batch 0.30 (bar < 0.5) met" in line_of(shown(outcome), "tideglass")


def test_the_results_hold_every_run_and_no_number_that_json_does_not_know(tumbling, tmp_path):
    nothing = outcome_of("tumbling", {"tideglass": (5, 5, 900)})
    write(tmp_path / "results.json", {"rounds": 3}, [tumbling, nothing])
    said = json.loads((tmp_path / "results.json").read_text(), parse_constant=pytest.fail)
    first, second = said["scenarios"]
    assert [each["reached"] for each in first["bars"]] == [True, False, False]
    assert first["runs"]["flink heap"][2]["large"]["seconds"] == 11
    assert second["figures"]["tideglass"]["rates"] == [None, None, None]
