"""Rows that make the query fail: with `on_error: drop` left out and counted, whatever way they arrive."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from oracle.strategies import Trial, clocks, events, grid_windows
from oracle.strategies import settings as time_settings
from support.against_oracle import ONE_BY_ONE, check_rows, reproducible
from support.depth import depth
from support.harness import AT_ONCE, Manner, manners, play
from tideglass.core import sql
from tideglass.core.errors import ProjectError
from tideglass.project.settings import from_job_config, from_options

AT = "System.Timestamp() AS at"
#: Expressions that fail on some of the values of `oracle.strategies.events`, each on others.
FRAGILE = [
    "CAST(m AS bigint)",
    "10 / (v - 1)",
    "v - 0.25",
    "LEFT(s, v)",
    "CASE WHEN v > 1 THEN m + 1 ELSE 0 END",
    "DATEPART(hour, m)",
    "m.a + 1",
    "9223372036854775807 + v",
]


@st.composite
def failing(draw: st.DrawFn) -> Trial:
    """Projections, filters, windows and windows over them, of expressions that fail now and then."""
    one, two, three = (draw(st.sampled_from(FRAGILE)) for _ in range(3))
    clock = draw(clocks())
    query = draw(
        st.sampled_from(
            [
                f"SELECT k, {one} AS a, {two} AS b, {AT} FROM {clock} WHERE {three} IS NOT NULL",
                f"SELECT {one} AS a, COUNT(*) AS n, MAX({two}) AS b, SUM(v) AS c, {AT} FROM {clock} "
                f"GROUP BY {one}, {draw(grid_windows())} HAVING 10 / (COUNT(*) - 1) >= 0",
                f"WITH w AS (SELECT k, COUNT({one}) AS n, MIN(v) AS v FROM {clock} "
                f"GROUP BY k, {draw(grid_windows())}) "
                f"SELECT k, 6 / n AS a, v / (n - 1) AS b, {AT} FROM w",
                f"SELECT k, SUM({one}) OVER (PARTITION BY k LIMIT DURATION(second, 5)) AS a, {AT} "
                f"FROM {clock}",
            ]
        )
    )
    return Trial(query, {"events": draw(events(most=14))}, {**draw(time_settings()), "on_error": "drop"})


@given(failing(), manners())
@examples(reproducible, max_examples=depth(25))
def test_rows_that_fail_are_left_out_in_any_batches_and_restarts(trial: Trial, manner: Manner) -> None:
    check_rows(trial, manner)


@given(events(most=14), st.sampled_from(FRAGILE), manners())
@examples(reproducible, max_examples=depth(15))
def test_rows_out_and_rows_left_out_add_up_to_the_events_kept(
    rows: list[dict[str, Any]], fragile: str, manner: Manner
) -> None:
    came = play(
        f"SELECT {fragile} AS a FROM events TIMESTAMP BY t", {"events": rows}, {"on_error": "drop"}, manner
    )
    kept = sum(facts.counters.kept for facts in came.metrics.partitions.values())
    assert len(came.rows["output"]) + came.metrics.by_api_name()["Errors"] == kept


@pytest.mark.parametrize("manner", [AT_ONCE, ONE_BY_ONE], ids=["at once", "with restarts"])
def test_rows_left_out_are_counted_by_operator_with_an_example(manner: Manner) -> None:
    rows = [{"t": f"2026-01-01T00:00:0{n}Z", "k": "a", "v": v} for n, v in enumerate([1, "x", 2, "y", 0])]
    query = (
        "WITH w AS (SELECT k, SUM(v) AS s FROM events TIMESTAMP BY t GROUP BY k, TumblingWindow(second, 1)) "
        "SELECT 10 / s AS q FROM w"
    )
    came = play(query, {"events": rows}, {"on_error": "drop"}, manner, partitions=1)
    assert [row["q"] for row in came.rows["output"]] == [10, 5]
    assert came.metrics.by_api_name()["Errors"] == 3
    found = sorted((failed.rows, failed.message) for failed in came.metrics.failed_rows.values())
    assert [count for count, _ in found] == [1, 2]
    assert "query:1:107: [DIVISION_BY_ZERO]" in found[0][1]
    assert 'The value is "x".' in found[1][1]


def test_an_event_whose_timestamp_fails_is_counted_as_one_without_a_timestamp() -> None:
    rows = [{"s": s, "_arrival": "2026-01-01T00:00:00Z"} for s in (1, "soon", None, 2)]
    query = "SELECT s FROM events TIMESTAMP BY DATEADD(second, s, '2026-01-01T00:00:00Z')"
    came = play(query, {"events": rows}, {"on_error": "drop"}, partitions=1)
    (facts,) = came.metrics.partitions.values()
    assert (facts.counters.kept, facts.counters.dropped_bad_timestamp) == (2, 2)
    assert came.metrics.by_api_name()["Errors"] == 0


def test_the_option_is_a_setting_of_the_test_kit_and_of_a_project() -> None:
    assert from_options({"on_error": "Drop"}).on_error == "drop"
    assert from_job_config({"RowErrorPolicy": "Drop"}).on_error == "drop"
    assert from_job_config({"OutputErrorPolicy": "Drop"}).on_error == "stop"
    with pytest.raises(ProjectError, match="on_error is 'ignore', it must be 'stop' or 'drop'"):
        from_options({"on_error": "ignore"})


@pytest.mark.parametrize(
    "query",
    [
        "SELECT SUM(v) AS s, MAX(v) AS m FROM i TIMESTAMP BY t GROUP BY TumblingWindow(hour, 1)",
        "SELECT TopOne(v) OVER (ORDER BY v) AS s FROM i TIMESTAMP BY t GROUP BY TumblingWindow(hour, 1)",
        "SELECT SUM(v) OVER (LIMIT DURATION(second, 1)) AS s FROM i TIMESTAMP BY t",
        "SELECT AnomalyDetection_ChangePoint(v, 80, 3) OVER (LIMIT DURATION(second, 1)) AS s "
        "FROM i TIMESTAMP BY t",
    ],
)
def test_many_values_that_are_refused_take_as_many_statements_as_few(
    query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    query_by = sql.query_by

    def counted(duck: Any, statement: str, **tables: Any) -> Any:
        asked.append(statement)
        return query_by(duck, statement, **tables)

    monkeypatch.setattr(sql, "query_by", counted)

    def left_out(every: int) -> tuple[int, int]:
        """How many of 600 rows are left out where each so-manieth is refused, and by how many statements."""
        rows: list[dict[str, Any]] = [{"t": "2026-01-01T00:00:01Z", "v": n} for n in range(600)]
        for row in rows[every - 1 :: every]:
            row["v"] = "word"
        asked.clear()
        came = play(query, {"i": rows}, {"on_error": "drop"}, partitions=1)
        return came.metrics.by_api_name()["Errors"], len(asked)

    few, many = left_out(300), left_out(3)
    assert (few[0], many[0]) == (2, 200)
    assert abs(few[1] - many[1]) <= 8
