"""GROUP BY: windows, keys, aggregates, HAVING."""

import pytest

from support.binding import (
    CLOSED,
    PAYLOAD,
    TIME,
    aggregate,
    columns,
    errors,
    field,
    found,
    project,
    warned,
)
from tideglass.core.time import TICKS_PER_DAY, TICKS_PER_MINUTE, TICKS_PER_SECOND
from tideglass.core.types import Type
from tideglass.plan.calls import AggregateCall
from tideglass.plan.expressions import Call, Cast, Literal, Path, Ref
from tideglass.plan.nodes import Filter, InputScan, Named
from tideglass.plan.windows import Hopping, Session, Sliding, Snapshot, Window

M, S = TICKS_PER_MINUTE, TICKS_PER_SECOND
MINUTE = "GROUP BY TumblingWindow(minute, 1)"


def windows(group_by: str) -> tuple[Window, ...]:
    return aggregate(f"SELECT COUNT(*) AS n FROM s GROUP BY {group_by}").windows


def call(text: str, inputs=None) -> AggregateCall:
    """The only aggregate of `SELECT text`."""
    ((name, bound),) = aggregate(f"SELECT {text} AS v FROM s {MINUTE}", inputs).aggregates
    assert name == "$a0"
    return bound


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("TumblingWindow(minute, 5)", Hopping(5 * M, 5 * M)),
        ("Tumbling(Duration(minute, 5))", Hopping(5 * M, 5 * M)),
        ("TumblingWindow(second, 5, -1)", Hopping(5 * S, 5 * S, -S)),
        ("TumblingWindow(Duration(minute, 5), Offset(millisecond, -1))", Hopping(5 * M, 5 * M, -10_000)),
        ("HoppingWindow(second, 10, 5)", Hopping(10 * S, 5 * S)),
        ("HoppingWindow(second, 5, 10)", Hopping(5 * S, 10 * S)),
        ("HoppingWindow(Duration(minute, 1), Hop(second, 5), Offset(second, 2))", Hopping(M, 5 * S, 2 * S)),
        ("SlidingWindow(ss, 10)", Sliding(10 * S)),
        ("SessionWindow(minute, 5, 10)", Session(5 * M, 10 * M)),
        ("SessionWindow(Timeout(second, 30), MaxDuration(minutes, 10))", Session(30 * S, 10 * M)),
        ("System.Timestamp()", Snapshot()),
        ("TumblingWindow(minute, 1.5)", Hopping(90 * S, 90 * S)),
        ("TumblingWindow(mcs, 0.1)", Hopping(1, 1)),
        ("TumblingWindow(day, 7)", Hopping(7 * TICKS_PER_DAY, 7 * TICKS_PER_DAY)),
    ],
)
def test_windows_are_bound_in_ticks(text: str, window: Window):
    assert windows(text) == (window,)


def test_a_session_may_be_partitioned_by_expressions():
    session = "SessionWindow(second, 5, 10) OVER (PARTITION BY a.b)"
    assert windows(session) == (Session(5 * S, 10 * S, (field("a", "b"),)),)


def test_several_windows_may_have_ids():
    text = "Windows(Window('a', TumblingWindow(minute, 1)), Window('b', System.Timestamp()))"
    assert windows(text) == (Hopping(M, M, 0, "a"), Snapshot("b"))


@pytest.mark.parametrize(
    ("group_by", "code", "words"),
    [
        ("TumblingWindow(minute, 0)", "WINDOW_SIZE", "0"),
        ("TumblingWindow(minute, -1)", "WINDOW_SIZE", "-1"),
        ("TumblingWindow(mcs, 0.01)", "WINDOW_SIZE", "0.01"),
        ("HoppingWindow(minute, 1, 0)", "WINDOW_SIZE", "0"),
        ("TumblingWindow(day, 8)", "WINDOW_TOO_LONG", "8"),
        ("SessionWindow(hour, 1, 169)", "WINDOW_TOO_LONG", "169"),
        ("TumblingWindow(fortnight, 1)", "UNKNOWN_UNIT", "fortnight"),
        ("TumblingWindow(minute, a)", "NOT_A_CONSTANT", "a"),
        ("a", "WINDOW_MISSING", "a"),
        (
            "a, DATEPART(minute, System.Timestamp())",
            "WINDOW_MISSING",
            "a, DATEPART(minute, System.Timestamp())",
        ),
        ("TumblingWindow(minute, 1), SlidingWindow(minute, 1)", "TWO_WINDOWS", "SlidingWindow(minute, 1)"),
        ("SUM(a), TumblingWindow(minute, 1)", "AGGREGATE_IN_GROUP_BY", "SUM(a)"),
    ],
)
def test_what_is_wrong_with_a_window_is_reported_at_its_place(group_by: str, code: str, words: str):
    assert found(f"SELECT COUNT(*) AS n FROM s GROUP BY {group_by}") == [(code, words)]


def test_window_ids_are_given_to_all_or_none_and_are_unique():
    text = "SELECT COUNT(*) AS n FROM s GROUP BY Windows({}, {})"
    one, two = "Window('a', TumblingWindow(minute, 1))", "TumblingWindow(minute, 2)"
    assert found(text.format(one, two)) == [("WINDOW_ID_MISSING", two)]
    again = "Window('A', TumblingWindow(minute, 2))"
    assert found(text.format(one, again)) == [("WINDOW_ID_TWICE", "'A'")]


def test_the_window_id_is_a_column_of_the_groups():
    ids = "GROUP BY Windows(Window('a', TumblingWindow(minute, 1)), Window('b', SlidingWindow(minute, 1)))"
    assert columns(f"SELECT System.Window().Id FROM s {ids}") == {"Id": Ref("$window")}
    whole = Call("record.of", (Literal("Id"), Ref("$window")))
    assert columns(f"SELECT System.Window() AS w FROM s {ids}") == {"w": whole}


def test_the_window_id_is_null_without_ids():
    assert columns(f"SELECT System.Window().Id FROM s {MINUTE}") == {"Id": Literal(None)}


def test_the_window_id_belongs_into_the_list_of_a_grouped_select():
    assert found("SELECT System.Window().Id FROM s") == [("WINDOW_ID_HERE", "System.Window()")]
    text = f"SELECT COUNT(*) AS n FROM s {MINUTE} HAVING System.Window().Id = 'a'"
    assert found(text) == [("WINDOW_ID_HERE", "System.Window()")]


def test_keys_are_numbered_and_stand_for_their_expressions():
    text = "SELECT UPPER(c) AS u, b.x AS x, b.x + 1 AS y FROM s "
    text += "GROUP BY UPPER(c), TumblingWindow(minute, 1), b.x"
    assert aggregate(text).keys == (Named("$k0", Call("upper", (field("c"),))), Named("$k1", field("b", "x")))
    assert columns(text) == {
        "u": Ref("$k0"),
        "x": Ref("$k1"),
        "y": Call("+", (Ref("$k1"), Literal(1))),
    }


def test_a_field_of_a_record_that_is_a_key_may_be_used():
    text = "SELECT r.a AS v FROM s GROUP BY r, TumblingWindow(minute, 1)"
    assert columns(text) == {"v": Path(Ref("$k0"), ("a",))}


def test_a_key_written_in_another_case_is_the_same_key():
    text = "SELECT TollId FROM s GROUP BY TollID, TumblingWindow(minute, 1)"
    assert columns(text) == {"TollId": Ref("$k0")}


def test_a_column_that_is_no_key_is_reported():
    text = f"SELECT a, b.c + 1 AS d, COUNT(*) AS n FROM s {MINUTE}"
    assert found(text) == [("NOT_GROUPED", "a"), ("NOT_GROUPED", "b.c")]
    assert "GROUP BY" in errors(text)[0].hint
    assert found(f"SELECT * FROM s {MINUTE}") == [("STAR_WITH_GROUP_BY", "*")]


def test_the_timestamp_of_a_group_is_the_window_end_even_when_it_is_also_a_key():
    text = "SELECT System.Timestamp() AS t FROM s GROUP BY TumblingWindow(minute, 1), System.Timestamp()"
    assert columns(text) == {"t": TIME}
    assert aggregate(text).keys == (Named("$k0", TIME),)


def test_an_expression_over_the_timestamp_is_a_key():
    text = "SELECT DATEPART(minute, System.Timestamp()) AS m FROM s GROUP BY TumblingWindow(minute, 1), "
    text += "DATEPART(mi, System.Timestamp())"
    assert columns(text) == {"m": Ref("$k0")}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("COUNT(*)", AggregateCall("count")),
        ("COUNT(s)", AggregateCall("count")),
        ("COUNT(a)", AggregateCall("count", field("a"))),
        ("COUNT(1)", AggregateCall("count", Literal(1))),
        ("COUNT(DISTINCT a)", AggregateCall("count", field("a"), distinct=True)),
        ("COUNT(DISTINCT s)", AggregateCall("count", PAYLOAD, distinct=True)),
        ("Sum(a + b)", AggregateCall("sum", Call("+", (field("a"), field("b"))))),
        ("MAX(a)", AggregateCall("max", field("a"))),
        (
            "MIN(CAST(a AS nvarchar(max)))",
            AggregateCall("min", Cast(field("a"), Type.NVARCHAR), as_text=True),
        ),
        ("MIN(CAST(a AS float))", AggregateCall("min", Cast(field("a"), Type.FLOAT))),
        ("Collect()", AggregateCall("collect", PAYLOAD)),
        ("Collect(a)", AggregateCall("collect", field("a"))),
        ("TopOne() OVER (ORDER BY a DESC)", AggregateCall("topone", PAYLOAD, order_by=((field("a"), True),))),
        (
            "CollectTop(2, b) OVER (ORDER BY a, c DESC)",
            AggregateCall(
                "collecttop", field("b"), order_by=((field("a"), False), (field("c"), True)), constant=2
            ),
        ),
        (
            "PERCENTILE_CONT(0.9) OVER (ORDER BY a)",
            AggregateCall("percentile_cont", field("a"), order_by=((field("a"), False),), constant=0.9),
        ),
        ("SUM(DATEDIFF(second, a, System.Timestamp()))", None),
    ],
)
def test_aggregates_are_bound_with_their_arguments(text: str, expected: AggregateCall | None):
    if expected is None:
        expected = AggregateCall("sum", Call("datediff", (Literal("second"), field("a"), TIME)))
    assert call(text) == expected


def test_a_field_of_an_aggregate_may_be_used():
    text = f"SELECT TopOne() OVER (ORDER BY a).r.x AS v FROM s {MINUTE}"
    assert columns(text) == {"v": Path(Ref("$a0"), ("r", "x"))}


def test_the_whole_event_of_a_closed_relation_is_a_record_of_its_columns():
    parts = (Literal("Id"), Ref("Id"), Literal("name"), Ref("name"), Literal("pos"), Ref("pos"))
    assert call("Collect()", CLOSED).arg == Call("record.of", parts)


def test_the_whole_event_beside_listed_columns_keeps_the_payload():
    text = f"WITH t AS (SELECT 1 AS a, * FROM s) SELECT Collect() AS v FROM t {MINUTE}"
    ((_, bound),) = aggregate(text).aggregates
    assert bound.arg == Call("record.merge", (Call("record.of", (Literal("a"), Ref("a"))), PAYLOAD))


def test_equal_aggregates_are_computed_once_and_unequal_literals_are_not_equal():
    text = f"SELECT SUM(a) AS x, SUM(a) + COUNT(1) AS y, COUNT(1.0) AS z FROM s {MINUTE}"
    assert [name for name, _ in aggregate(text).aggregates] == ["$a0", "$a1", "$a2"]
    assert columns(text)["y"] == Call("+", (Ref("$a0"), Ref("$a1")))


def test_having_is_a_filter_over_the_groups_and_knows_aliases():
    text = "SELECT a, COUNT(*) AS n FROM s GROUP BY a, TumblingWindow(minute, 1) HAVING n > 1 AND SUM(b) < a"
    below = project(text).child
    assert isinstance(below, Filter)
    more = Call(">", (Ref("$a0"), Literal(1)))
    assert below.condition == Call("and", (more, Call("<", (Ref("$a1"), Ref("$k0")))))


def test_a_key_wins_over_an_alias_of_its_name_in_having():
    text = "SELECT SUM(b) AS a FROM s GROUP BY a, TumblingWindow(minute, 1) HAVING a > 1"
    below = project(text).child
    assert isinstance(below, Filter)
    assert below.condition == Call(">", (Ref("$k0"), Literal(1)))


def test_where_filters_rows_before_the_groups():
    text = f"SELECT COUNT(*) AS n FROM s WHERE a = 1 {MINUTE}"
    assert aggregate(text).child == Filter(InputScan("s"), Call("=", (field("a"), Literal(1))))


def test_unaliased_aggregates_have_their_names():
    text = f"SELECT COUNT(*), AVG(a), COUNT(b) FROM s {MINUTE}"
    assert project(text).columns == ("count", "avg", "count2")


def test_a_window_over_a_window_reads_the_columns_of_the_step():
    text = f"WITH w AS (SELECT COUNT(*) AS n FROM s {MINUTE}) "
    text += "SELECT MAX(n) AS m FROM w GROUP BY System.Timestamp()"
    assert aggregate(text).aggregates == (("$a0", AggregateCall("max", Ref("n"))),)


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("SELECT COUNT(*) FROM s", "AGGREGATE_WITHOUT_WINDOW", "COUNT(*)"),
        ("SELECT a FROM s HAVING SUM(a) > 1", "AGGREGATE_WITHOUT_WINDOW", "SUM(a)"),
        ("SELECT a FROM s WHERE SUM(a) > 1", "AGGREGATE_IN_WHERE", "SUM(a)"),
        (f"SELECT SUM(MAX(a)) FROM s {MINUTE}", "NESTED_AGGREGATE", "MAX(a)"),
        (f"SELECT SUM(*) FROM s {MINUTE}", "STAR_ARGUMENT", "*"),
        (f"SELECT SUM(a, b) FROM s {MINUTE}", "ARGUMENT_COUNT", "SUM(a, b)"),
        (f"SELECT COUNT() FROM s {MINUTE}", "ARGUMENT_COUNT", "COUNT()"),
        (f"SELECT SUM(DISTINCT a) FROM s {MINUTE}", "DISTINCT_HERE", "SUM(DISTINCT a)"),
        (f"SELECT TopOne() FROM s {MINUTE}", "ORDER_BY_MISSING", "TopOne()"),
        (f"SELECT PERCENTILE_CONT(2) OVER (ORDER BY a) FROM s {MINUTE}", "NOT_A_CONSTANT", "2"),
        (f"SELECT CollectTop(a) OVER (ORDER BY a) FROM s {MINUTE}", "NOT_A_CONSTANT", "a"),
        (
            f"SELECT SUM(a) OVER (PARTITION BY b) FROM s {MINUTE}",
            "LIMIT_DURATION_MISSING",
            "OVER (PARTITION BY b)",
        ),
        (f"SELECT uda.f() FROM s {MINUTE}", "ARGUMENT_COUNT", "uda.f()"),
        (f"SELECT MAX(uda.f(a)) FROM s {MINUTE}", "NESTED_AGGREGATE", "uda.f(a)"),
        (f"SELECT uda.f(a) OVER (ORDER BY b) FROM s {MINUTE}", "OVER_HERE", "OVER (ORDER BY b)"),
        (f"SELECT COUNT(*) FROM s {MINUTE}, uda.f(a)", "AGGREGATE_IN_GROUP_BY", "uda.f(a)"),
        (
            "SELECT LAG(uda.f(a)) OVER (LIMIT DURATION(minute, 1)) FROM s",
            "AGGREGATE_IN_ANALYTIC",
            "uda.f(a)",
        ),
    ],
)
def test_what_is_wrong_with_an_aggregate_is_reported_at_its_place(text: str, code: str, words: str):
    assert found(text) == [(code, words)]


def test_an_alias_is_not_visible_in_group_by():
    text = "SELECT UPPER(a) AS u FROM s GROUP BY u, TumblingWindow(minute, 1)"
    assert found(text) == [("NOT_GROUPED", "a")]
    named = "SELECT COUNT(*) AS n FROM s GROUP BY n, TumblingWindow(minute, 1)"
    assert warned(named) == [("ALIAS_NOT_VISIBLE", "n")]
