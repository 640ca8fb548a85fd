"""The engine gives the oracle's rows, whatever way its events arrive."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from oracle.strategies import (
    ORDERS,
    UNORDERED_VALUES,
    Trial,
    aggregations,
    events,
    iso,
    projections,
    trials,
    users_aggregations,
)
from oracle.strategies import settings as time_settings
from support.against_oracle import check_event_by_event, check_rows, played, reproducible, the_oracle
from support.cases import Case, case_paths, load
from support.depth import depth, some
from support.harness import Manner, exact, manners, play
from support.queries import chained, substreams_of_two_steps, unions_of_levels

CASES = [
    case
    for area in ("time", "windows", "aggregates", "uda", "regressions")
    for path in case_paths(area)
    if (case := load(path)).expected and not case.reference
]


@given(trials(), manners())
@examples(reproducible, max_examples=depth(30))
def test_random_queries_give_the_oracles_rows_in_any_batches_and_restarts(
    trial: Trial, manner: Manner
) -> None:
    check_rows(trial, manner)


@st.composite
def orders_of_text(draw: st.DrawFn) -> Trial:
    """TopOne and CollectTop by text of which some may have no order, in windows and over recent rows."""
    order = draw(st.sampled_from(["i", "i DESC", "v, i", "k DESC, i"])).replace("k DESC", "LEN(k) DESC")
    function = draw(st.sampled_from(["TopOne()", "TopOne(i)", "CollectTop(2, k)"]))
    if draw(st.booleans()):
        limit = draw(st.sampled_from(["LIMIT DURATION(second, 4)", "LIMIT DURATION(minute, 2) WHEN v > 0"]))
        over = f"OVER (PARTITION BY k ORDER BY {order} {limit})"
        query = f"SELECT {function} {over} AS top FROM events TIMESTAMP BY t"
    else:
        window = draw(st.sampled_from(["Tumbling", "Sliding"]))
        query = (
            f"SELECT k, {function} OVER (ORDER BY {order}) AS top FROM events TIMESTAMP BY t "
            f"GROUP BY k, {window}Window(second, 3)"
        )
    return Trial(
        query, {"events": draw(events(most=8, orders=UNORDERED_VALUES + ORDERS))}, draw(time_settings())
    )


@given(orders_of_text(), manners())
@examples(reproducible, max_examples=depth(30))
def test_text_without_an_order_stops_the_job_in_any_batches_and_restarts(
    trial: Trial, manner: Manner
) -> None:
    check_rows(trial, manner)


@given(users_aggregations(), manners())
@examples(reproducible, max_examples=depth(30))
def test_users_aggregates_give_the_oracles_rows_in_any_batches_and_restarts(
    trial: Trial, manner: Manner
) -> None:
    check_rows(trial, manner)


@given(chained(), manners())
@examples(reproducible, max_examples=depth(14))
def test_steps_over_steps_give_the_oracles_rows_in_any_batches_and_restarts(
    trial: Trial, manner: Manner
) -> None:
    check_rows(trial, manner)


@pytest.mark.parametrize("case", some(CASES), ids=lambda case: case.name)
def test_a_case_holds_event_by_event_with_a_restart_after_each(case: Case) -> None:
    check_event_by_event(case)


# ---------------------------------------------------------------- accounts


@given(events(), time_settings(), manners(), st.sampled_from(["", " OVER k, PartitionId"]))
@examples(reproducible, max_examples=depth(12))
def test_every_event_is_accepted_adjusted_dropped_or_rejected_and_counted_once(
    rows: list[dict[str, Any]], settings: dict[str, Any], manner: Manner, over: str
) -> None:
    rows = [*rows, {"_arrival": iso(90), "_partition": 1, "t": iso(90), "k": "a", "v": 2**63}]
    source = f"events TIMESTAMP BY t{over}" + (" PARTITION BY PartitionId" if over else "")
    trial = Trial(f"SELECT PartitionId, v FROM {source}", {"events": rows}, settings)
    came = play(trial.query, trial.inputs, settings, manner)
    expected = the_oracle(trial)
    assert expected is not None
    for (_, partition, _), facts in came.metrics.partitions.items():
        counters = facts.counters
        inline_rows = sum(str(row["_partition"]) == partition for row in rows)
        kept = sum(str(row["PartitionId"]) == partition for row in expected["output"])
        assert counters.accepted + counters.adjusted + counters.dropped + facts.rejected == inline_rows
        assert counters.accepted + counters.adjusted == kept
        assert facts.rejected == (partition == "1")
        assert facts.final
    assert came.metrics.events == len(rows)


# ---------------------------------------------------------------- silence


@given(
    st.one_of(aggregations(), projections(), substreams_of_two_steps(), unions_of_levels()),
    st.sampled_from(["0s", "2s", "5s"]),
    manners(),
    st.lists(st.sampled_from([0.0, 0.5, 0.999, 1.0]), min_size=1, max_size=4).map(tuple),
)
@examples(reproducible, max_examples=depth(12))
def test_silence_up_to_the_next_arrival_changes_no_row_and_no_watermark_runs_backwards(
    trial: Trial, late: str, manner: Manner, idle_periods: tuple[float, ...]
) -> None:
    trial = Trial(trial.query, trial.inputs, {**trial.settings, "late_arrival": late})
    quiet, talking = played(trial, manner, idle_periods), played(trial)
    assert (quiet is None) == (talking is None)
    if quiet is not None and talking is not None:
        assert exact(quiet.rows) == exact(talking.rows)
        assert quiet.watched.breaches == []


def test_silence_lets_the_windows_of_other_partitions_close() -> None:
    rows = [
        {"_arrival": iso(1), "_partition": 0, "t": iso(1)},
        {"_arrival": iso(1), "_partition": 1, "t": iso(1)},
        {"_arrival": iso(60), "_partition": 1, "t": iso(60)},
        {"_arrival": iso(60), "_partition": 0, "t": iso(60)},
    ]
    query = "SELECT COUNT(*) AS n FROM events TIMESTAMP BY t GROUP BY TumblingWindow(second, 2)"
    manner = Manner(takes=(1, 2), key_groups=1)  # partition 1 gives all it has at once, partition 0 waits
    settings = {"late_arrival": "5s"}

    def first_marks(idle_periods: tuple[float, ...]) -> int:
        came = play(query, {"events": rows}, settings, manner, idle_periods, partitions=2)
        return next(iter(came.watched.history.values()))[0]

    assert first_marks(()) < first_marks((0.999,))


# ---------------------------------------------------------------- floats

NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300),
    st.sampled_from([1e16, -1e16, 1.0, 1e-16, 5e-324, -0.0, 0.1, 1e300, -1e300, 2.0**53 + 2]),
    st.integers(-(10**15), 10**15),
)


@given(st.lists(st.tuples(NUMBERS, st.integers(0, 2), st.integers(0, 3)), max_size=16), manners())
@examples(reproducible, max_examples=depth(12))
def test_sums_of_floats_of_any_magnitude_are_the_same_to_the_bit_in_any_batches(
    numbers: list[tuple[float, int, int]], manner: Manner
) -> None:
    rows = [
        {"_arrival": iso(n), "_partition": partition, "t": iso(n - back), "v": v}
        for n, (v, partition, back) in enumerate(numbers)
    ]
    query = (
        "WITH fine AS (SELECT SUM(v) AS s FROM events TIMESTAMP BY t GROUP BY TumblingWindow(second, 3)) "
        "SELECT SUM(v) AS s, AVG(v) AS a, VAR(v) AS d INTO all_in_one FROM events TIMESTAMP BY t "
        "GROUP BY TumblingWindow(day, 7) "
        "SELECT SUM(v) AS s, COUNT(*) AS n, System.Timestamp() AS at INTO hops FROM events TIMESTAMP BY t "
        "GROUP BY HoppingWindow(second, 5, 2) "
        "SELECT SUM(s) AS s INTO sums FROM fine GROUP BY HoppingWindow(second, 9, 3)"
    )
    settings = {"out_of_order": "5s"}
    at_once = play(query, {"events": rows}, settings)
    assert exact(play(query, {"events": rows}, settings, manner).rows) == exact(at_once.rows)
    values = [row["v"] for row in rows]
    if any(isinstance(v, float) for v in values):
        (whole,) = at_once.rows["all_in_one"]
        assert whole["s"] == math.fsum(values)
        assert whole["a"] == math.fsum(values) / len(values)
