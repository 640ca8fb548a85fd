"""Joins with reference data: engine and oracle agree, whatever way events arrive, over any snapshots."""

from __future__ import annotations

from typing import Any

import pytest
from against_oracle import check_event_by_event, reproducible
from cases import Case, case_paths, compare_outputs, load
from harness import Manner, exact, manners, play
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from oracle import OracleError
from oracle import run as oracle_run
from oracle.strategies import Rows, Trial, events, iso, windows, without_mixed_text
from oracle.strategies import settings as time_settings

from tideglass.core.errors import EvaluationError, InputError
from tideglass.testing import run

AT = "System.Timestamp() AS at"
CASES = [case for path in case_paths("reference") if (case := load(path)).expected]

KEYS = ["a", "a", "b", "c", "żółć", None, "absent", 1, 1.0, True, 2.5, "1"]
ONS = [
    "{0}.k = {1}.k",
    "{1}.k = {0}.k AND {0}.b = {1}.b",
    "{0}.m = {1}.k",
    "{0}.v = {1}.w",
    "{0}.k = {1}.k AND {1}.w > {0}.v",
    "{0}.k = {1}.k OR {1}.w IS NULL",
    "{1}.w > 1",
    "{0}.k = {1}.k AND {1}.k = 'a'",
    "UPPER({0}.k) = UPPER({1}.s)",
]


@st.composite
def tables(draw: st.DrawFn) -> Rows:
    rows: Rows = []
    for number in range(draw(st.integers(0, 6))):
        row = {
            "id": number,
            "k": draw(st.sampled_from(KEYS)),
            "w": draw(st.sampled_from([0, 1, 2.5, -3, None])),
            "s": draw(st.sampled_from(["a", "B", "x", None])),
            "b": draw(st.sampled_from([True, False, None])),
        }
        rows.append({name: value for name, value in row.items() if value != "absent"})
    return rows


@st.composite
def references(draw: st.DrawFn) -> Any:
    """One snapshot for all times, or several; with the earliest before everything, nearly always."""
    if draw(st.booleans()):
        return draw(tables())
    first = draw(st.sampled_from([-100, -100, -100, -100, 3]))
    times = {first, *draw(st.lists(st.integers(0, 40), max_size=3))}
    return {iso(time): draw(tables()) for time in draw(st.permutations(sorted(times)))}


@st.composite
def joined(draw: st.DrawFn) -> Trial:
    """A stream with one reference input or two: plain, before or behind a window, with another stream."""
    kinds = [draw(st.sampled_from(["JOIN", "LEFT JOIN", "LEFT OUTER JOIN"])) for _ in range(2)]
    on = draw(st.sampled_from(ONS)).format("a", "r")
    clock = draw(st.sampled_from([" TIMESTAMP BY t", ""]))
    shape = draw(st.integers(0, 4))
    inputs = {"x": [without_mixed_text(row) for row in draw(events(most=10))]}
    if shape == 0:
        query = (
            f"SELECT a.v, a.k, r.id, r.w, a.PartitionId AS p, {AT} INTO one FROM x a{clock} "
            f"{kinds[0]} r ON {on} SELECT *, {AT} INTO star FROM x a{clock} {kinds[0]} r ON {on}"
        )
    elif shape == 1:
        other = draw(st.sampled_from(["q.k = r.k", "a.k = q.k AND q.w = r.w", "r.id = q.id"]))
        query = (
            f"SELECT a.v, r.id, q.id AS other, q.w, {AT} FROM x a{clock} {kinds[0]} r ON {on} "
            f"{kinds[1]} q ON {other} WHERE r.id IS NULL OR q.id IS NOT NULL"
        )
    elif shape == 2:
        query = (
            f"SELECT r.s, COUNT(*) AS n, MAX(a.v) AS v, MIN(r.w) AS w, {AT} FROM x a TIMESTAMP BY t "
            f"{kinds[0]} r ON {on} GROUP BY r.s, {draw(windows())}"
        )
    elif shape == 3:
        query = (
            "WITH n AS (SELECT k, b, m, COUNT(*) AS v FROM x TIMESTAMP BY t "
            f"GROUP BY k, b, m, {draw(windows(session_over='k'))}), "
            f"j AS (SELECT a.k AS k, a.v AS v, r.w AS w FROM n a {kinds[0]} r ON {on}) "
            f"SELECT k, SUM(v) AS v, COUNT(w) AS c, {AT} FROM j GROUP BY k, TumblingWindow(second, 7)"
        )
    else:
        inputs["y"] = [without_mixed_text(row) for row in draw(events(most=6))]
        bound = "DATEDIFF(second, a, y) BETWEEN -2 AND 4 AND a.k = y.k"
        parts = draw(st.permutations([f"{kinds[0]} r ON {on}", f"{kinds[1]} y TIMESTAMP BY t ON {bound}"]))
        query = f"SELECT a.v, y.v AS yv, r.id, {AT} FROM x a TIMESTAMP BY t {' '.join(parts)}"
    reference = {"r": draw(references()), "q": draw(references())}
    if shape != 1:
        del reference["q"]
    return Trial(query, inputs, draw(time_settings()), reference=reference)


def rows_in(trial: Trial, manner: Manner) -> dict[str, Rows] | None:
    """What came of it; None if the job stopped."""
    try:
        played = play(trial.query, trial.inputs, trial.settings, manner, reference=trial.reference)
    except (EvaluationError, InputError):
        return None
    assert played.watched.breaches == []
    return played.rows


@given(joined(), manners())
@examples(reproducible, max_examples=40)
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


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
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
