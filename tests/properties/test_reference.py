"""Joins with reference data: engine and oracle agree, whatever way events arrive, over any snapshots."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples

from oracle import OracleError
from oracle import run as oracle_run
from oracle.strategies import Rows, Trial
from support.against_oracle import check_event_by_event, reproducible
from support.cases import Case, case_paths, compare_outputs, load
from support.depth import depth, some
from support.harness import Manner, exact, manners, play
from support.lookups import joined
from tideglass.core.errors import EvaluationError, InputError
from tideglass.testing import run

CASES = [case for path in case_paths("reference") if (case := load(path)).expected]


def rows_in(trial: Trial, manner: Manner) -> dict[str, Rows] | None:
    """What came of it; None if the job stopped."""
    try:
        played = play(trial.query, trial.inputs, trial.settings, manner, reference=trial.reference)
    except (EvaluationError, InputError):
        return None
    assert played.watched.breaches == []
    return played.rows


@given(joined(), manners())
@examples(reproducible, max_examples=depth(40))
def test_reference_joins_give_the_oracles_rows_in_any_batches_and_restarts(
    trial: Trial, manner: Manner
) -> None:
    try:
        expected = oracle_run(trial.query, trial.inputs, trial.reference, trial.settings)
    except OracleError:
        expected = None
    at_once, otherwise = rows_in(trial, Manner()), rows_in(trial, manner)
    assert (expected is None) == (at_once is None) == (otherwise is None)
    if expected is not None and at_once is not None and otherwise is not None:
        assert compare_outputs(at_once, expected) == []
        assert exact(otherwise) == exact(at_once)


@pytest.mark.parametrize("case", some(CASES), ids=lambda case: case.name)
def test_a_reference_join_holds_event_by_event_with_a_restart_after_each(case: Case) -> None:
    check_event_by_event(case)


ROW = {"_arrival": "2026-01-01T00:00:05Z", "k": "a"}


def test_a_row_before_the_first_snapshot_is_named_with_its_time_and_a_remedy() -> None:
    reference = {"r": {"2026-01-01T00:01:00Z": [{"k": "a"}]}}
    with pytest.raises(InputError) as raised:
        run("SELECT r.k FROM x JOIN r ON x.k = r.k", {"x": [ROW]}, reference)
    for words in ("NO_SNAPSHOT", "'r'", "2026-01-01T00:00:05", "2026-01-01T00:01:00", "hint"):
        assert words in str(raised.value)


def test_a_broken_reference_row_is_named() -> None:
    with pytest.raises(InputError, match=r"BROKEN_REFERENCE_ROW.* row 2: .*'r'.*64-bit"):
        run("SELECT r.k FROM x JOIN r ON x.k = r.k", {"x": [ROW]}, {"r": [{"k": "a"}, {"k": 2**63}]})


def test_a_datetime_and_a_text_are_no_keys_of_one_join() -> None:
    query = "CREATE TABLE r (d datetime); SELECT r.d FROM x JOIN r ON x.k = r.d"
    with pytest.raises(EvaluationError, match=r"KEY_TYPES.*nvarchar.*datetime.*CAST"):
        run(query, {"x": [ROW]}, {"r": [{"d": "2026-01-01"}]})


def test_a_reference_input_without_rows_and_a_time_that_is_none_are_refused() -> None:
    query = "SELECT r.k FROM x JOIN r ON x.k = r.k"
    with pytest.raises(InputError, match="2026-01-01T00:00:00Z"):
        run(query, {"x": [ROW]}, {"r": {"noon": []}})
    with pytest.raises(InputError, match=r"'r'.*given: q"):
        run(query, {"x": [ROW]}, {"q": []}, known_inputs=_known("x", "r"))


def _known(stream: str, reference: str) -> dict[str, Any]:
    from tideglass.bind.catalog import InputInfo

    return {stream: InputInfo(stream), reference: InputInfo(reference, "reference")}
