"""Every case file holds on the oracle; what the loader and the comparison promise is true."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from oracle import OracleError, run
from oracle.strategies import Trial, aggregations, events, later_trials, trials
from support.cases import Case, case_paths, compare, compare_outputs, load, parameters
from support.depth import depth

CASES = [load(path) for path in case_paths()]


def named(case: Case) -> str:
    return case.name


@pytest.mark.parametrize("case", parameters(c for c in CASES if c.expected or c.runtime_error))
def test_the_oracle_gives_the_rows_of_the_case(case: Case) -> None:
    if case.runtime_error:
        with pytest.raises(OracleError):
            run(case.query, case.inputs, case.reference, case.settings, case.functions)
    else:
        actual = run(case.query, case.inputs, case.reference, case.settings, case.functions)
        assert compare_outputs(actual, case.expected) == []


def test_each_case_says_another_sentence() -> None:
    sentences = [case.sentence for case in CASES]
    assert sorted(set(sentences)) == sorted(sentences)


@pytest.mark.parametrize("case", [c for c in CASES if c.fails_to_compile], ids=named)
def test_a_refusal_has_a_code_a_place_a_reason_and_a_remedy(case: Case) -> None:
    assert case.error_code
    assert case.error_place
    assert any(line.startswith("hint: ") for line in case.told)
    assert any(not line.startswith("hint: ") for line in case.told)


def test_rows_compare_as_multisets() -> None:
    assert compare([{"a": 1}, {"a": 2}], [{"a": 2}, {"a": 1}]) == []
    assert compare([{"a": 1}, {"a": 1}], [{"a": 1}]) == ['unexpected {"a": 1}']
    assert compare([], [{"a": 1}]) == ['missing    {"a": 1}']


def test_floats_agree_within_a_billionth_and_types_must_agree() -> None:
    assert compare([{"a": 0.1 + 0.2}], [{"a": 0.3}]) == []
    assert compare([{"a": 0.3001}], [{"a": 0.3}]) != []
    assert compare([{"a": 1.0}], [{"a": 1}]) != []
    assert compare([{"a": True}], [{"a": 1}]) != []
    assert compare([{"a": None}], [{}]) != []


def test_a_case_without_a_sentence_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "nameless.case"
    path.write_text("--- query\nSELECT 1 AS a FROM b\n")
    with pytest.raises(ValueError, match="first line"):
        load(path)


@given(st.one_of(trials(), later_trials()))
@examples(max_examples=depth(100), deadline=None)
def test_partitions_may_be_read_in_any_interleaving(trial: Trial) -> None:
    regrouped = {
        name: sorted(rows, key=lambda row: -row["_partition"]) for name, rows in trial.inputs.items()
    }
    expected = run(trial.query, trial.inputs, settings=trial.settings)
    assert compare_outputs(run(trial.query, regrouped, settings=trial.settings), expected) == []


@given(aggregations())
@examples(max_examples=depth(60), deadline=None)
def test_a_tumbling_window_is_a_hopping_window_with_hop_equal_to_size(trial: Trial) -> None:
    query = "SELECT COUNT(*) AS n, System.Timestamp() AS at FROM events TIMESTAMP BY t GROUP BY {}"
    tumbling = run(query.format("TumblingWindow(second, 7)"), trial.inputs, settings=trial.settings)
    hopping = run(query.format("HoppingWindow(second, 7, 7)"), trial.inputs, settings=trial.settings)
    assert tumbling == hopping


@given(events())
@examples(max_examples=depth(60), deadline=None)
def test_every_accepted_row_is_counted_once_by_tumbling_session_and_snapshot(
    rows: list[dict[str, object]],
) -> None:
    inputs = {"events": rows}
    accepted = len(run("SELECT 1 AS one FROM events TIMESTAMP BY t", inputs)["output"])
    for window in ("TumblingWindow(second, 3)", "SessionWindow(second, 2, 7)", "System.Timestamp()"):
        counted = run(f"SELECT COUNT(*) AS n FROM events TIMESTAMP BY t GROUP BY {window}", inputs)["output"]
        assert sum(row["n"] for row in counted) == accepted
