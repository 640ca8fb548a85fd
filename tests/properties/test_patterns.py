"""MATCH_RECOGNIZE: the oracle's rows, whatever way the events arrive; state that is freed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from oracle.strategies import Trial, iso
from support.against_oracle import ONE_BY_ONE, check_event_by_event, check_rows, reproducible
from support.cases import Case, case_paths, load
from support.depth import depth, some
from support.harness import AT_ONCE, Manner, compiled_for, manners, play
from support.matching import matchings, of_steps, of_substreams
from tideglass.plan.topology import RowsOp, SendOp

CASES = [case for path in case_paths("patterns") if (case := load(path)).expected]


@pytest.mark.parametrize("case", some(CASES), ids=lambda case: case.name)
def test_a_case_holds_event_by_event_with_a_restart_after_each(case: Case) -> None:
    check_event_by_event(case)


# ---------------------------------------------------------------- random patterns


@given(matchings(), manners())
@examples(reproducible, max_examples=depth(60))
def test_patterns_give_the_oracles_rows_in_any_batches_and_restarts(trial: Trial, manner: Manner) -> None:
    check_rows(trial, manner)


@given(st.one_of(of_substreams(), of_steps()), manners())
@examples(reproducible, max_examples=depth(40))
def test_patterns_among_steps_give_the_oracles_rows_in_any_batches_and_restarts(
    trial: Trial, manner: Manner
) -> None:
    check_rows(trial, manner)


# ---------------------------------------------------------------- what crosses between stages


def match(measures: str, by: str = "PARTITION BY k") -> str:
    return (
        f"MATCH_RECOGNIZE (LIMIT DURATION(minute, 1) {by} MEASURES {measures} AFTER MATCH SKIP TO NEXT ROW "
        "PATTERN (A B? C*) DEFINE A AS A.v > 1, B AS B.w.x > First(A.v), C AS C.v < 0) AS m"
    )


def test_only_columns_a_condition_or_a_measure_that_is_read_looks_at_are_sent() -> None:
    step = f"WITH p AS (SELECT * FROM x {match('First(A.r) AS r, Max(B.q) AS q')}) SELECT r FROM p"
    topology = compiled_for(step, {"x": []}, None).topology
    sent = [topology.op(op.source) for op in topology.ops if isinstance(op, SendOp)]
    assert [{item.name for item in op.rows.items} for op in sent if isinstance(op, RowsOp)] == [
        {"$payload.k", "$payload.v", "$payload.w.x", "$payload.r"}
    ]


def test_a_window_by_the_key_of_a_surely_matched_event_needs_no_second_exchange() -> None:
    query = (
        "WITH p AS (SELECT * FROM x {0}) SELECT k, COUNT(*) AS n FROM p GROUP BY k, TumblingWindow(minute, 1)"
    )
    sure, unsure = (query.format(match(f"Last({variable}.k) AS k")) for variable in "AB")
    assert compiled_for(sure, {"x": []}, None).topology.levels == 1
    assert compiled_for(unsure, {"x": []}, None).topology.levels == 2


# ---------------------------------------------------------------- what fails


@pytest.mark.parametrize("manner", [AT_ONCE, ONE_BY_ONE], ids=["at once", "one by one"])
def test_what_fails_is_counted_alike_however_the_events_come(manner: Manner) -> None:
    query = (
        "SELECT * FROM events TIMESTAMP BY t MATCH_RECOGNIZE (LIMIT DURATION(second, 9) PARTITION BY k "
        "MEASURES Max(A.m) AS m AFTER MATCH SKIP TO NEXT ROW PATTERN (A+ B?) "
        "DEFINE A AS A.v > 0, B AS CAST(B.m AS bigint) > First(A.v)) AS p"
    )
    values = [(1, 1), (2, "x"), (0, "y"), (1, 5), (0, "9")]
    rows = [{"_arrival": iso(n), "t": iso(n), "k": "a", "v": v, "m": m} for n, (v, m) in enumerate(values)]
    came = play(query, {"events": rows}, {"on_error": "drop"}, manner)
    assert [row["m"] for row in came.rows["output"]] == [5]
    # from the first event on "x" and "y" are no bigint, from the second "y"; and "x" is no number for Max
    assert came.metrics.by_api_name()["Errors"] == 3 + 2
