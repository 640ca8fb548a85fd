"""Analytic functions and APPLY in the plan, and what is wrong with them (`asa.md` 2.11, 4.2)."""

from __future__ import annotations

import pytest

from support.binding import bound, columns, field, found, node, plan, project
from tideglass.bind.catalog import InputInfo
from tideglass.core.time import TICKS_PER_DAY, TICKS_PER_MINUTE
from tideglass.core.types import Type
from tideglass.plan.calls import AggregateCall, AnalyticCall, AnomalyModel
from tideglass.plan.expressions import Call, Cast, Literal, Path, Ref
from tideglass.plan.nodes import Aggregate, Analytic, Apply, Filter, InputScan, Node
from tideglass.plan.spans import input_spans_ticks

MINUTE = "LIMIT DURATION(minute, 1)"


def analytic(text: str) -> Analytic:
    """The only Analytic of the only statement."""
    below: Node = node(text)
    while not isinstance(below, Analytic):
        below = below.child  # type: ignore[union-attr]
    return below


def the_call(expression: str) -> AnalyticCall:
    ((_, call),) = analytic(f"SELECT {expression} AS v FROM s").calls
    return call


def test_an_analytic_function_is_a_column_made_right_above_its_source():
    top = project(f"SELECT a, LAG(v) OVER (PARTITION BY k {MINUTE}) AS p FROM s WHERE a > 1")
    assert [item.expr for item in top.items] == [field("a"), Ref("$l0")]
    assert isinstance(top.child, Filter)
    made = top.child.child
    assert isinstance(made, Analytic)
    assert isinstance(made.child, InputScan)
    call = AnalyticCall("lag", TICKS_PER_MINUTE, field("v"), partition_by=(field("k"),))
    assert made.calls == (("$l0", call),)


def test_equal_functions_are_computed_once_wherever_they_stand():
    lag = f"LAG(v) OVER ({MINUTE})"
    made = analytic(f"SELECT {lag} AS p, {lag.lower()} + 1 AS q FROM s WHERE {lag} <> v")
    assert len(made.calls) == 1
    assert len(analytic(f"SELECT {lag} AS p, LAG(v, 2) OVER ({MINUTE}) AS q FROM s").calls) == 2


def test_offset_default_and_when():
    call = the_call("LAG(v, 3, -1) OVER (LIMIT DURATION(day, 7) WHEN v > 0)")
    assert (call.offset, call.length_ticks) == (3, 7 * TICKS_PER_DAY)
    assert call.default == Call("neg", (Literal(1),))
    assert call.when == Call(">", (field("v"), Literal(0)))
    assert the_call(f"LAST(v, 'none') OVER ({MINUTE})").default == Literal("none")


def test_a_detector_of_anomalies_has_its_constants_and_a_change_point_looks_back_twice():
    call = the_call(f"AnomalyDetection_SpikeAndDip(v, 95, 120, 'Dips') OVER (PARTITION BY k {MINUTE})")
    assert (call.arg, call.model) == (field("v"), AnomalyModel(95.0, 120, "dips"))
    assert call.span_ticks == TICKS_PER_MINUTE
    call = the_call(f"AnomalyDetection_ChangePoint(v, 80.5, 20) OVER ({MINUTE})")
    assert call.model == AnomalyModel(80.5, 20, change_point=True)
    assert max(
        input_spans_ticks(
            plan(f"SELECT AnomalyDetection_ChangePoint(v, 80, 9) OVER ({MINUTE}) FROM s")
        ).values()
    ) == (2 * TICKS_PER_MINUTE)


def test_a_star_is_the_whole_event():
    assert the_call(f"LAG(*) OVER ({MINUTE})").arg == Ref("$payload")
    assert the_call(f"LAG(s) OVER ({MINUTE})").arg == Ref("$payload")


def test_a_field_of_the_whole_event_is_a_function_of_that_field_alone():
    text = f"SELECT LAG(*) OVER ({MINUTE}).speed AS v FROM s"
    assert columns(text) == {"v": Ref("$l1")}
    assert analytic(text).calls[1][1].arg == field("speed")
    mixed = "WITH w AS (SELECT a AS b, * FROM s) " + text.replace("FROM s", "FROM w")
    assert analytic(mixed.replace("speed", "b")).calls[1][1].arg == Ref("b")
    assert analytic(mixed).calls[1][1].arg == field("speed")
    assert columns(mixed.replace("speed", "B")) == {"v": Path(Ref("$l0"), ("B",))}
    closed = "WITH w AS (SELECT a AS b FROM s) " + text.replace("FROM s", "FROM w")
    assert analytic(closed).calls[1][1].arg == Literal(None)


def test_aggregates_over_a_duration():
    call = the_call(f"SUM(v) OVER (PARTITION BY k {MINUTE} WHEN v > 0)")
    assert call.aggregate == AggregateCall("sum", field("v"))
    top = the_call(f"TopOne(v) OVER (ORDER BY w DESC {MINUTE})").aggregate
    assert top == AggregateCall("topone", field("v"), order_by=((field("w"), True),))


def test_isfirst_needs_no_over():
    assert the_call("ISFIRST(minute, 5)").length_ticks == 5 * TICKS_PER_MINUTE


def test_analytic_functions_in_groups_are_keys_and_arguments():
    lag = f"LAG(v) OVER ({MINUTE})"
    made = node(f"SELECT {lag} AS k, MAX({lag}) AS m FROM s GROUP BY {lag}, TumblingWindow(minute, 1)")
    below = made.child  # type: ignore[union-attr]
    assert isinstance(below, Aggregate)
    assert isinstance(below.child, Analytic)
    assert [key.expr for key in below.keys] == [Ref("$l0")]
    assert below.aggregates[0][1].arg == Ref("$l0")


def test_the_duration_is_part_of_the_span():
    text = (
        "WITH a AS (SELECT *, LAG(v) OVER (LIMIT DURATION(minute, 3)) AS p FROM s) "
        "SELECT ISFIRST(minute, 5) AS f FROM a"
    )
    assert max(input_spans_ticks(plan(text)).values()) == 8 * TICKS_PER_MINUTE


@pytest.mark.parametrize(
    ("expression", "code", "words"),
    [
        ("LAG(a)", "LIMIT_DURATION_MISSING", "LAG(a)"),
        ("LAST(a) OVER (PARTITION BY k)", "LIMIT_DURATION_MISSING", "LAST(a) OVER (PARTITION BY k)"),
        (f"LAG(a, 0) OVER ({MINUTE})", "LAG_OFFSET", "0"),
        (f"LAG(a, b) OVER ({MINUTE})", "LAG_OFFSET", "b"),
        (f"LAG() OVER ({MINUTE})", "ARGUMENT_COUNT", f"LAG() OVER ({MINUTE})"),
        (f"LAST(a, b, c) OVER ({MINUTE})", "ARGUMENT_COUNT", f"LAST(a, b, c) OVER ({MINUTE})"),
        ("LAG(a) OVER (LIMIT DURATION(day, 8))", "WINDOW_TOO_LONG", "8"),
        ("LAG(a) OVER (LIMIT DURATION(fortnight, 1))", "UNKNOWN_UNIT", "fortnight"),
        (f"LAG(a) OVER (ORDER BY b {MINUTE})", "ORDER_BY_HERE", "b"),
        (f"LAG(LAG(a) OVER ({MINUTE})) OVER ({MINUTE})", "NESTED_ANALYTIC", f"LAG(a) OVER ({MINUTE})"),
        (f"LAG(UDF.f(a)) OVER ({MINUTE})", "FUNCTION_IN_ANALYTIC", "UDF.f(a)"),
        (f"LAG(a, 1, UDF.f(a)) OVER ({MINUTE})", "FUNCTION_IN_ANALYTIC", "UDF.f(a)"),
        (f"LAG(MAX(a)) OVER ({MINUTE})", "AGGREGATE_IN_ANALYTIC", "MAX(a)"),
        (f"STDEV(a) OVER ({MINUTE})", "OVER_HERE", f"OVER ({MINUTE})"),
        (f"COUNT(DISTINCT a) OVER ({MINUTE})", "OVER_HERE", f"OVER ({MINUTE})"),
        ("ISFIRST(minute)", "ARGUMENT_COUNT", "ISFIRST(minute)"),
        ("ISFIRST(minute, 0)", "WINDOW_SIZE", "0"),
        (f"ISFIRST(minute, 1) OVER ({MINUTE})", "LIMIT_DURATION_HERE", "DURATION(minute, 1)"),
    ],
)
def test_what_is_wrong_with_an_analytic_function_is_reported_at_its_place(
    expression: str, code: str, words: str
):
    assert found(f"SELECT {expression} AS v FROM s") == [(code, words)]


def test_user_functions_may_stand_in_over():
    assert the_call(f"LAG(a) OVER (PARTITION BY UDF.f(a) {MINUTE})").partition_by


def test_analytic_functions_do_not_stand_in_front_of_the_rows():
    text = f"SELECT a FROM s TIMESTAMP BY LAG(a) OVER ({MINUTE})"
    assert found(text) == [("ANALYTIC_HERE", f"LAG(a) OVER ({MINUTE})")]


def test_an_analytic_function_stays_within_one_substream():
    text = "SELECT LAG(a) OVER ({}LIMIT DURATION(minute, 1)) AS p FROM s TIMESTAMP BY t OVER k"
    assert [code for code, _ in found(text.format(""))] == ["SUBSTREAM_KEY_NOT_PARTITIONED"]
    assert bound(text.format("PARTITION BY k, a "))


# ---------------------------------------------------------------- APPLY


def test_apply_adds_two_columns():
    top = project(
        "SELECT a, e.ArrayIndex AS i, e.ArrayValue.x AS v FROM s CROSS APPLY GetArrayElements(l) AS e"
    )
    assert [item.expr for item in top.items] == [
        field("a"),
        Ref("e.ArrayIndex"),
        Path(Ref("e.ArrayValue"), ("x",)),
    ]
    made = top.child
    assert isinstance(made, Apply)
    assert (made.function, made.outer, made.alias) == ("getarrayelements", False, "e")
    assert made.argument == Cast(field("l"), Type.ARRAY)


def test_a_star_has_the_alias_of_apply_as_a_record():
    closed = {"s": InputInfo("s", columns=("a", "r"))}
    top = project("SELECT * FROM s OUTER APPLY GetRecordProperties(r) AS p", closed)
    assert [item.name for item in top.items] == ["a", "r", "p"]
    assert isinstance(top.child, Apply)
    assert top.child.outer
    of_alias = project("SELECT p.* FROM s OUTER APPLY GetRecordProperties(r) AS p", closed)
    assert [item.name for item in of_alias.items] == ["PropertyName", "PropertyValue"]


def test_apply_after_apply_reads_the_alias_before():
    text = (
        "SELECT f.PropertyName AS n FROM s CROSS APPLY GetArrayElements(l) AS e "
        "CROSS APPLY GetRecordProperties(e.ArrayValue) AS f"
    )
    outer = project(text).child
    assert isinstance(outer, Apply)
    assert isinstance(outer.child, Apply)
    assert outer.argument == Cast(Ref("e.ArrayValue"), Type.RECORD)


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (
            "SELECT e.Value FROM s CROSS APPLY GetArrayElements(l) AS e",
            "UNKNOWN_COLUMN",
            "e.Value",
        ),
        (
            f"SELECT LAG(e.ArrayValue) OVER ({MINUTE}) AS v FROM s CROSS APPLY GetArrayElements(l) AS e",
            "ANALYTIC_OF_APPLY",
            "e.ArrayValue",
        ),
        (
            "SELECT 1 AS x FROM s CROSS APPLY GetArrayElements(l) AS s",
            "DUPLICATE_SOURCE",
            "CROSS APPLY GetArrayElements(l) AS s",
        ),
    ],
)
def test_what_is_wrong_with_apply_is_reported_at_its_place(text: str, code: str, words: str):
    assert found(text) == [(code, words)]
