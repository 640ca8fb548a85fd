"""MATCH_RECOGNIZE: the oracle's rows, whatever way the events arrive; state that is freed."""

from __future__ import annotations

from typing import Any

import pytest
from against_oracle import ONE_BY_ONE, check_event_by_event, check_rows, reproducible
from cases import Case, case_paths, load
from harness import AT_ONCE, Manner, compiled_for, manners, play
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from oracle.strategies import Trial, clocks, events, filters, iso, settings, windows

from tideglass.plan.topology import RowsOp, SendOp

CASES = [case for path in case_paths("patterns") if (case := load(path)).expected]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_holds_event_by_event_with_a_restart_after_each(case: Case) -> None:
    check_event_by_event(case)


# ---------------------------------------------------------------- random patterns

QUANTIFIERS = ["*", "+", "?", "{2}", "{1,}", "{1,2}", "{0,3}", "{2,}"]
DEFINITIONS = {
    "A": [
        "A.v > 0",
        "A.k = 'a'",
        "A.v IS NOT NULL",
        "A.v >= First(A.v) OR A.v IS NULL",
        "A.v < Max(A.v) + 3 AND A.k <> 'b'",
        "Last(A.s) LIKE '%a%'",
        "A.PartitionId = 0",
        "System.Timestamp() > '2026-01-01T00:00:04Z'",
        "A.m = 1 OR A.m.a = 1",
    ],
    "B": [
        "B.v < A.v",
        "B.v <> First(A.v) AND B.k = A.k",
        "B.k IS NOT NULL AND Min(A.v) < B.v",
        "B.k = 'b'",
        "1 = 1",
        "NOT (B.v = Last(A.v))",
        "A.m IS NULL OR B.v > 1",
        "B.v >= Max(B.v)",
    ],
    "C": [
        "C.v > A.v OR C.v > B.v",
        "C.k = First(B.k)",
        "C.v IS NULL",
        "Max(A.v) >= C.v AND Min(B.v) <= C.v",
        "GetType(C.m) = 'bigint'",
        "C.PartitionId <> A.PartitionId",
    ],
}
#: What stops the job on the way that counts, and only there.
FAILING = {
    "A": ["CAST(A.m AS bigint) > 0", "A.k = 'a' AND A.m < 5"],
    "B": ["CAST(B.s AS float) > A.v", "B.v > First(A.v) AND Min(A.m) < B.v"],
    "C": ["C.m > First(A.m)"],
}
MEASURES = [
    "First(A.v) AS f",
    "A.v AS v",
    "Last(B.m) AS m",
    "Min(A.v) AS lo",
    "Max(B.v) AS hi",
    "Classifier() AS c",
    "B.k AS bk",
    "First(C.s) AS s",
    "Last(A.m).a AS a",
    "A.v + Last(B.v) AS total",
    "GetArrayLength(Classifier()) AS n",
    "COALESCE(A.k, B.k, C.k) AS first_key",
    "GetType(Max(A.v)) AS y",
]


@st.composite
def close_events(draw: st.DrawFn, most: int = 12, partitions: int = 3) -> list[dict[str, Any]]:
    """Events of few keys and values close in time, so that there is much to match; some odd ones before."""
    rows = draw(events(most=3, partitions=partitions))
    arrival = max((float(row["_arrival"][17:26]) for row in rows), default=0.0)
    for _ in range(draw(st.integers(most // 2, most))):
        arrival += draw(st.sampled_from([0, 0.5, 0.5, 1, 1, 2]))
        time = arrival - draw(st.sampled_from([0, 0, 0, 0.5, 1, 3]))
        rows.append(
            {
                "_arrival": iso(arrival),
                "_partition": draw(st.integers(0, partitions - 1)),
                "t": iso(time),
                "k": draw(st.sampled_from(["a", "a", "b"])),
                "v": draw(st.sampled_from([1, 2, 3, 2.5, -1, "7.5"])),
                "m": draw(st.sampled_from([1, 7, "1", {"a": 1}, None])),
                "s": draw(st.sampled_from(["alpha", "Beta", "2"])),
            }
        )
    return rows


@st.composite
def patterns(draw: st.DrawFn, depth: int = 2) -> str:
    """A pattern of A, B, C and the dot; not too many ways, as the oracle tries them one by one."""
    parts: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        if depth and draw(st.integers(0, 2)) == 0:
            inner = [draw(patterns(depth - 1)) for _ in range(draw(st.integers(1, 2)))]
            part = f"({' | '.join(inner)})"
        else:
            part = draw(st.sampled_from(["A", "A", "B", "B", "C", "."]))
        parts.append(part + draw(st.sampled_from(["", "", *QUANTIFIERS])))
    return " ".join(parts)


@st.composite
def clauses(draw: st.DrawFn, by: str = "", *, failing: bool = False, more: str = "") -> str:
    """All that stands in the parentheses of MATCH_RECOGNIZE."""
    defined = [
        f"{name} AS {draw(st.sampled_from(DEFINITIONS[name] + (FAILING[name] if failing else [])))}"
        for name in "ABC"
    ]
    measures = draw(st.lists(st.sampled_from(MEASURES), min_size=1, max_size=4, unique=True))
    measures = [*measures, *([more] if more else [])]
    pattern = " | ".join(draw(st.lists(patterns(), min_size=1, max_size=2)))
    limit = f"LIMIT DURATION(second, {draw(st.sampled_from([1, 2, 5, 12, 100]))})"
    return (
        f"MATCH_RECOGNIZE ({limit} {by} MEASURES {', '.join(measures)} AFTER MATCH SKIP TO NEXT ROW "
        f"PATTERN ({pattern}) DEFINE {', '.join(defined)}) AS m"
    )


@st.composite
def matchings(draw: st.DrawFn) -> Trial:
    """One pattern over the events of an input."""
    by = draw(st.sampled_from(["", "PARTITION BY k", "PARTITION BY k", "PARTITION BY k, PartitionId"]))
    failing = draw(st.integers(0, 2)) == 0
    query = f"SELECT * FROM {draw(clocks())} {draw(clauses(by, failing=failing))}"
    times = draw(settings())
    if failing and draw(st.booleans()):
        times = {**times, "on_error": "drop"}
    return Trial(query, {"events": draw(close_events())}, times)


@given(matchings(), manners())
@examples(reproducible, max_examples=60)
def test_patterns_give_the_oracles_rows_in_any_batches_and_restarts(trial: Trial, manner: Manner) -> None:
    check_rows(trial, manner)


@st.composite
def of_substreams(draw: st.DrawFn) -> Trial:
    """Every substream by its own watermark."""
    if draw(st.booleans()):
        source, by, rows = "events TIMESTAMP BY t OVER k", "PARTITION BY k", close_events(partitions=1)
    else:
        source = "events TIMESTAMP BY t OVER k, PartitionId PARTITION BY PartitionId"
        by, rows = "PARTITION BY k, PartitionId", close_events()
    return Trial(f"SELECT * FROM {source} {draw(clauses(by))}", {"events": draw(rows)}, draw(settings()))


@st.composite
def of_steps(draw: st.DrawFn) -> Trial:
    """Patterns behind steps and before them: filters, unions, windows, analytic functions, joins."""
    clock = draw(st.sampled_from([" TIMESTAMP BY t", ""]))
    at = "System.Timestamp() AS at"
    whole = "SELECT k, v, m, s, PartitionId FROM events"
    step = draw(
        st.sampled_from(
            [
                f"SELECT * FROM events{clock}{draw(filters())}",
                f"{whole}{clock}{draw(filters())} UNION {whole}{clock} WHERE v > 1",
                "SELECT k, SUM(v) AS v, COUNT(*) AS m, MIN(v) AS s, 0 AS PartitionId "
                f"FROM events{clock} GROUP BY k, TumblingWindow(second, 2)",
            ]
        )
    )
    by = "" if "SUM" not in step and draw(st.booleans()) else "PARTITION BY k"
    match = draw(clauses(by, more="Last(A.k) AS ak, Last(A.v) AS av"))
    over = f"OVER (PARTITION BY ak LIMIT DURATION(second, {draw(st.integers(1, 9))}))"
    reading = draw(
        st.sampled_from(
            [
                f"SELECT *, {at} FROM p",
                f"SELECT ak, COUNT(*) AS n, COUNT(av) AS v, {at} FROM p GROUP BY ak, "
                f"{draw(windows(session_over='ak'))}",
                f"SELECT ak, LAG(av) {over} AS l, COUNT(*) {over} AS n, {at} FROM p",
                f"SELECT Collect(av) AS c, {at} FROM p GROUP BY TumblingWindow(second, 4)",
                "SELECT a.ak AS k, b.av AS v FROM p a JOIN p b ON a.ak = b.ak "
                "AND DATEDIFF(second, a, b) BETWEEN 0 AND 3",
            ]
        )
    )
    query = f"WITH e AS ({step}), p AS (SELECT * FROM e {match}) {reading}"
    return Trial(query, {"events": draw(close_events(most=9))}, draw(settings()))


@given(st.one_of(of_substreams(), of_steps()), manners())
@examples(reproducible, max_examples=40)
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
