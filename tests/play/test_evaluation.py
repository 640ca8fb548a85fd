"""The playground's engine: decisions, watermarks, windows and rows of an attempt, and its mistakes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.depth import depth
from support.times import at, ticks_at
from tideglass.core.time import TICKS_PER_MINUTE, parse_ticks
from tideglass.play.attempt import (
    MOST_EVENTS,
    OUTCOME,
    PLAYGROUND,
    Attempt,
    Outcome,
    PlayedWindow,
    Playground,
    Tolerances,
)
from tideglass.play.evaluation import play
from tideglass.play.playgrounds import example, of_project
from tideglass.project.project import load_project
from tideglass.project.settings import from_options
from tideglass.simulate.simulation import EXAMPLE, EXAMPLE_POLICIES, simulate
from tideglass.testing import run

COUNTS = "SELECT COUNT(*) AS n, System.Timestamp() AS at INTO o FROM i TIMESTAMP BY t GROUP BY {}"


EMPTY = Playground("empty", Attempt("", ""))


def played(
    query: str, rows: list[dict[str, object]], tolerances: Tolerances | None = None, **more: object
) -> Outcome:
    playground = Playground("test", Attempt("", ""), **more)  # type: ignore[arg-type]
    events = "\n".join(map(json.dumps, rows))
    return play(playground, Attempt(query, events, tolerances or Tolerances()))


def minute(text: str) -> int:
    found = parse_ticks(f"2026-01-01T{text}:00Z")
    assert found is not None
    return found


def test_the_worked_example_is_decided_as_the_article_has_it():
    start = example()
    outcome = play(start, start.attempt)
    assert outcome.problems == ()
    expected = simulate(EXAMPLE, EXAMPLE_POLICIES)
    assert [each.words for each in outcome.events] == [each.words for each in expected.rows]
    assert [each.watermark_after_ticks for each in outcome.events] == [
        each.watermark_after_ticks for each in expected.rows
    ]
    assert [each.outcome for each in outcome.events].count("dropped") == 1
    assert outcome.events[2].system_timestamp_ticks is None
    assert [each.line for each in outcome.events] == list(range(1, 13))
    assert outcome.watermarks[-1].input_ticks == outcome.events[-1].watermark_after_ticks


def test_windows_open_with_their_first_event_and_close_once_the_watermark_is_past_their_end():
    start = example()
    outcome = play(start, start.attempt)
    five = 5 * TICKS_PER_MINUTE
    assert outcome.windows == tuple(
        PlayedWindow(5, "tumbling 5m", minute(end) - five, minute(end), events, opened, closed)
        for end, events, opened, closed in (("12:10", 3, 1, 5), ("12:20", 5, 5, 10), ("12:25", 3, 10, None))
    )
    closing = {(row.at_ticks, row.line) for row in outcome.rows}
    assert closing == {(each.end_ticks, each.closed_line) for each in outcome.windows}


def test_rows_are_those_of_the_job():
    rows = [{"t": at(n * 7 % 50), "_arrival": at(60 + n), "k": n % 3, "v": 2**60 + n} for n in range(40)]
    query = "SELECT k, MAX(v) AS v INTO o FROM i TIMESTAMP BY t GROUP BY k, HoppingWindow(second, 20, 10)"
    tolerances = Tolerances(late_seconds=100, out_of_order_seconds=9, early_seconds=None)
    outcome = played(query, rows, tolerances)
    expected = run(
        query, {"i": rows}, settings={"late_arrival": "100s", "out_of_order": "9s", "early_arrival": "none"}
    )["o"]
    assert sorted((row.values["k"], row.values["v"]) for row in outcome.rows) == sorted(
        (str(row["k"]), str(row["v"])) for row in expected
    )
    assert {row.line for row in outcome.rows} > {None}


def test_a_tolerance_changes_the_decision():
    rows = [{"t": at(0), "_arrival": at(100)}]
    late = played(COUNTS.format("TumblingWindow(second, 10)"), rows, Tolerances(late_seconds=5))
    (event,) = late.events
    assert (event.decision, event.outcome, event.system_timestamp_ticks) == (
        "adjusted_late",
        "adjusted",
        ticks_at(95),
    )
    dropped = played(COUNTS.format("TumblingWindow(second, 10)"), rows, Tolerances(late_seconds=5, drop=True))
    assert (dropped.events[0].outcome, dropped.rows, dropped.windows) == ("dropped", (), ())
    kept = played(COUNTS.format("TumblingWindow(second, 10)"), rows)
    assert (kept.events[0].outcome, kept.events[0].system_timestamp_ticks) == ("accepted", ticks_at(0))


def test_an_event_without_an_arrival_arrives_at_its_time_and_lines_may_be_empty_or_comments():
    events = '\n# a comment\n{"t": "2026-01-01T00:00:01Z"}\n\n{"t": "2026-01-01T00:00:02Z"}\n'
    outcome = play(EMPTY, Attempt("SELECT t INTO o FROM i TIMESTAMP BY t", events))
    assert [(each.line, each.arrival_time_ticks) for each in outcome.events] == [
        (3, ticks_at(1)),
        (5, ticks_at(2)),
    ]
    assert [row.line for row in outcome.rows] == [3, 5]


def test_partitions_and_inputs_have_watermarks_of_their_own():
    rows = [
        {"_input": "a", "t": at(1), "_partition": 1},
        {"_input": "b", "t": at(5)},
        {"_input": "a", "t": at(9), "_partition": 0},
    ]
    query = "SELECT t INTO o FROM a TIMESTAMP BY t SELECT t INTO p FROM b TIMESTAMP BY t"
    outcome = played(query, rows)
    assert [(each.input, each.partition) for each in outcome.events] == [("a", 1), ("a", 0), ("b", 0)]
    assert [each.input_ticks for each in outcome.watermarks] == [None, None, ticks_at(1)]
    unnamed = played(query, [{"t": at(1)}, {"_input": "c", "t": at(1)}])
    assert [(each.code, each.line) for each in unnamed.problems] == [("NO_INPUT", 1), ("NO_INPUT", 2)]


def test_substreams_show_their_key():
    query = "SELECT t INTO o FROM i TIMESTAMP BY t OVER k"
    outcome = played(query, [{"t": at(9), "k": "x"}, {"t": at(1), "k": "y"}])
    assert [(each.key, each.outcome) for each in outcome.events] == [("x", "accepted"), ("y", "accepted")]


def test_more_events_than_batches_are_decided_one_by_one_all_the_same():
    rows = [{"t": at(n)} for n in range(130)]
    outcome = played(COUNTS.format("TumblingWindow(second, 10)"), rows)
    assert len(outcome.events) == 130
    assert sum(int(row.values["n"] or 0) for row in outcome.rows) == 130
    assert len(outcome.watermarks) <= 60


@pytest.mark.parametrize(
    ("query", "code", "place"),
    [
        ("SELEC t INTO o FROM i", None, (1, 1)),
        ("SELECT t INTO o FROM i\nWHERE nothing(t) > 1", "UNKNOWN_FUNCTION", (2, 7)),
        ("SELECT t INTO o FROM nowhere", "UNKNOWN_INPUT", (1, 22)),
    ],
)
def test_an_error_of_the_query_has_its_place(query: str, code: str | None, place: tuple[int, int]):
    outcome = played(query, [{"t": 1}], inputs=("i",))
    problem = outcome.problems[0]
    assert (problem.severity, problem.where) == ("error", "query")
    assert (problem.line, problem.column) == place
    assert code in (None, problem.code)
    assert problem.message
    assert outcome.events == ()


def test_a_row_that_fails_the_query_is_named():
    outcome = played("SELECT CAST(t AS bigint) AS n INTO o FROM i", [{"t": "1"}, {"t": "x"}])
    (problem,) = outcome.problems
    assert (problem.code, problem.severity) == ("ROW_FAILED", "error")
    assert len(outcome.events) == 2
    assert [row.values for row in outcome.rows] == [{"n": "1"}]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("{]", "NOT_JSON"),
        ("NaN", "NOT_JSON"),
        ('{"a": NaN}', "NOT_JSON"),
        ("[1]", "NOT_AN_OBJECT"),
        ('{"_arrival": "noon"}', "NO_PLACE"),
        ('{"_arrival": 5}', "NO_PLACE"),
        ('{"_partition": -1}', "NO_PLACE"),
        ('{"_partition": 1e9}', "NO_PLACE"),
        ('{"_partition": true}', "NO_PLACE"),
        ('{"_input": 5}', "NO_PLACE"),
        ("[" * 100_000, "NOT_JSON"),
    ],
)
def test_an_event_that_is_none_is_named_by_its_line(line: str, code: str):
    outcome = play(EMPTY, Attempt("SELECT * INTO o FROM i", f'{{"a": 1}}\n{line}'))
    assert [(each.code, each.line, each.where) for each in outcome.problems] == [(code, 2, "events")]


def test_what_the_deserializer_refuses_is_a_warning_with_its_line():
    query = "CREATE TABLE i (n bigint) SELECT n INTO o FROM i"
    outcome = played(query, [{"n": 1}, {"n": "x"}, {"n": 3}])
    assert [(each.code, each.line, each.severity) for each in outcome.problems] == [("REFUSED", 2, "warning")]
    assert [each.line for each in outcome.events] == [1, 3]


def test_more_than_a_playground_takes_is_refused():
    many = played("SELECT * INTO o FROM i", [{"a": 1}] * (MOST_EVENTS + 1))
    assert [each.code for each in many.problems] == ["TOO_MANY_EVENTS"]
    long = play(EMPTY, Attempt("SELECT 1" * 10_000, ""))
    assert [each.code for each in long.problems] == ["TOO_LONG"]
    for seconds in (-1.0, float("nan"), float("inf"), 1e300):
        odd = played("SELECT * INTO o FROM i", [], Tolerances(late_seconds=seconds))
        assert [(each.code, each.where) for each in odd.problems] == [("NO_TOLERANCE", "tolerances")]


def test_reference_data_without_a_local_file_is_named():
    query = "SELECT i.a INTO o FROM i JOIN r ON i.a = r.a"
    outcome = played(query, [{"a": 1}], inputs=("i",), references=("r",))
    assert [each.code for each in outcome.problems] == ["NO_REFERENCE_HERE"]


def test_reference_data_is_that_of_the_projects_files(tmp_path: Path):
    (tmp_path / "job.asaql").write_text("SELECT i.a, r.b INTO o FROM i JOIN r ON i.a = r.a")
    (tmp_path / "Inputs").mkdir()
    for name, type_, rows in (
        ("i", "Data Stream", [{"a": 1}, {"a": 2}, {"a": 3}]),
        ("r", "Reference data", [{"a": 1, "b": "x"}, {"a": 3, "b": "y"}]),
    ):
        mock = {"InputAlias": name, "Type": type_, "Format": "Json", "FilePath": f"{name}.rows.json"}
        (tmp_path / "Inputs" / f"{name}.json").write_text(json.dumps({**mock, "ScriptType": "InputMock"}))
        (tmp_path / "Inputs" / f"{name}.rows.json").write_text(
            "".join(f"{json.dumps(row)}\n" for row in rows)
        )
    start = PLAYGROUND.of_body(PLAYGROUND.body(of_project(load_project(tmp_path), {})))
    outcome = play(start, start.attempt)
    assert outcome.problems == ()
    assert [row.values for row in outcome.rows] == [{"a": "1", "b": "x"}, {"a": "3", "b": "y"}]


def test_functions_of_the_project_are_there():
    twice = {"twice": "function main(x) { return 2 * x; }"}
    outcome = played("SELECT UDF.twice(a) AS b INTO o FROM i", [{"a": 21}], functions=twice)
    assert [row.values for row in outcome.rows] == [{"b": "42"}]


def test_a_project_begins_with_its_query_settings_and_first_events(tmp_path: Path):
    (tmp_path / "job.asaql").write_text("SELECT v INTO o FROM i TIMESTAMP BY t")
    (tmp_path / "JobConfig.json").write_text(
        json.dumps({"EventsLateArrivalMaxDelayInSeconds": 7, "EventsOutOfOrderMaxDelayInSeconds": 3})
    )
    (tmp_path / "Inputs").mkdir()
    mock = {"InputAlias": "i", "Type": "Data Stream", "Format": "Json", "FilePath": "rows.json"}
    (tmp_path / "Inputs" / "i.json").write_text(json.dumps({**mock, "ScriptType": "InputMock"}))
    (tmp_path / "Inputs" / "rows.json").write_text('{"t": "2026-01-01T00:00:01Z", "v": 1}\n' * 50)
    start = of_project(load_project(tmp_path), {})
    assert start.attempt.tolerances == Tolerances(7.0, 300.0, 3.0)
    lines = start.attempt.events.splitlines()
    assert (len(lines), json.loads(lines[0])) == (40, {"t": "2026-01-01T00:00:01Z", "v": 1})
    outcome = play(start, start.attempt)
    assert (outcome.problems, len(outcome.rows)) == ((), 40)
    mended = play(start, replace(start.attempt, query="SELECT nothing INTO o FROM elsewhere"))
    assert mended.problems[0].code == "UNKNOWN_INPUT"


QUERIES = (
    "SELECT * INTO o FROM i TIMESTAMP BY t",
    "SELECT k, COUNT(*) AS n INTO o FROM i TIMESTAMP BY t OVER k GROUP BY k, TumblingWindow(second, 7)",
    "WITH s AS (SELECT k FROM i TIMESTAMP BY t) "
    "SELECT a.k INTO o FROM s a JOIN s b ON DATEDIFF(second, a, b) BETWEEN 0 AND 5",
)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=5),
    st.integers(0, 60).map(at),
    st.just({"a": [1]}),
)
FIELDS = st.sampled_from(("t", "k", "_arrival", "_partition", "_input"))
TYPED = st.one_of(
    st.dictionaries(FIELDS, VALUES, max_size=4).map(json.dumps),
    st.integers(0, 60).map(lambda second: json.dumps({"t": at(second), "k": "a"})),
    st.text(max_size=20),
)


@settings(deadline=None, max_examples=depth(200))
@given(query=st.sampled_from(QUERIES), lines=st.lists(TYPED, max_size=5), late=st.none() | st.floats())
def test_whatever_is_typed_has_an_outcome_that_json_holds(query: str, lines: list[str], late: float | None):
    outcome = play(EMPTY, Attempt(query, "\n".join(lines), Tolerances(late_seconds=late)))
    text = OUTCOME.body(outcome).decode()
    assert OUTCOME.of_body(text.encode()) == outcome
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no value of JSON"))
    if not any(each.severity == "error" for each in outcome.problems):
        refused = sum(each.code == "REFUSED" for each in outcome.problems)
        typed = [line.strip() for line in "\n".join(lines).split("\n")]
        events = sum(bool(line) and not line.startswith("#") for line in typed)
        assert len({(each.reader, each.line) for each in outcome.events}) == len(outcome.events)
        assert len({each.line for each in outcome.events}) + refused == events


def test_the_watermark_policy_of_a_project_holds_in_its_playground():
    rows = [{"t": at(n), "_arrival": at(n)} for n in range(10)] + [{"t": at(2), "_arrival": at(10)}]
    query = COUNTS.format("TumblingWindow(second, 5)")
    plain = played(query, rows, Tolerances(late_seconds=60, out_of_order_seconds=30))
    chosen = from_options({"watermarks": "at percentile 50"})
    ahead = played(query, rows, Tolerances(late_seconds=60, out_of_order_seconds=30), settings=chosen)
    assert [each.outcome for each in plain.events] == ["accepted"] * 11
    assert ahead.events[-1].outcome == "adjusted"
    expected = run(
        query,
        {"i": rows},
        settings=replace(chosen, late_arrival_ticks=60 * 10**7, out_of_order_ticks=30 * 10**7),
    )
    assert [row.values["n"] for row in ahead.rows] == [str(row["n"]) for row in expected["o"]]
