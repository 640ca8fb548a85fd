"""Expressions, functions and conditions; several errors at once."""

import pytest

from support.binding import PAYLOAD, TIME, bound, errors, field, found, value, warned, where
from tideglass.core.errors import QueryError
from tideglass.core.types import Type
from tideglass.plan.expressions import Call, Case, Cast, Literal, Path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", Literal(1)),
        ("1.5", Literal(1.5)),
        ("'x'", Literal("x")),
        ("NULL", Literal(None)),
        ("a + 1", Call("+", (field("a"), Literal(1)))),
        ("-a", Call("neg", (field("a"),))),
        ("~a", Call("~", (field("a"),))),
        ("a & b | c", Call("|", (Call("&", (field("a"), field("b"))), field("c")))),
        ("CAST(a AS bigint)", Cast(field("a"), Type.BIGINT)),
        ("TRY_CAST(a AS datetime)", Cast(field("a"), Type.DATETIME, lenient=True)),
        ("Abs(a)", Call("abs", (field("a"),))),
        ("COALESCE(a, b, 0)", Call("coalesce", (field("a"), field("b"), Literal(0)))),
        ("NULLIF(a, 0)", Call("nullif", (field("a"), Literal(0)))),
        ("DATEADD(mi, 1, a)", Call("dateadd", (Literal("minute"), Literal(1), field("a")))),
        ("DATEDIFF(hours, a, b)", Call("datediff", (Literal("hour"), field("a"), field("b")))),
        ("DATEPART(dw, a)", Call("datepart", (Literal("weekday"), field("a")))),
        ("UDF.Score(a, 1)", Call("udf.Score", (field("a"), Literal(1)))),
        ("udf.f(s)", Call("udf.f", (PAYLOAD,))),
        ("GetArrayElement(a, 0).b", Path(Call("getarrayelement", (field("a"), Literal(0))), ("b",))),
        ("DATEDIFF(second, a, System.Timestamp())", Call("datediff", (Literal("second"), field("a"), TIME))),
    ],
)
def test_values_are_bound(text: str, expected: object):
    assert value(text) == expected


def test_integer_and_float_literals_stay_apart():
    assert type(value("1").value) is int
    assert type(value("1.0").value) is float


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1", Call("=", (field("a"), Literal(1)))),
        ("a != 1", Call("<>", (field("a"), Literal(1)))),
        ("NOT a = 1", Call("not", (Call("=", (field("a"), Literal(1))),))),
        ("a LIKE 'x%'", Call("like", (field("a"), Literal("x%")))),
        ("a NOT LIKE 'x%'", Call("not like", (field("a"), Literal("x%")))),
        ("NOT (a LIKE 'x%')", Call("not", (Call("like", (field("a"), Literal("x%"))),))),
        ("a BETWEEN 1 AND 2", Call("between", (field("a"), Literal(1), Literal(2)))),
        ("a NOT BETWEEN 1 AND 2", Call("not between", (field("a"), Literal(1), Literal(2)))),
        ("a NOT IN (1, 2)", Call("not in", (field("a"), Literal(1), Literal(2)))),
        ("a IS NULL", Call("isnull", (field("a"),))),
        ("a IS NOT NULL", Call("not", (Call("isnull", (field("a"),)),))),
        (
            "a = 1 AND b = 2 OR c = 3",
            Call(
                "or",
                (
                    Call("and", (Call("=", (field("a"), Literal(1))), Call("=", (field("b"), Literal(2))))),
                    Call("=", (field("c"), Literal(3))),
                ),
            ),
        ),
    ],
)
def test_conditions_are_bound(text: str, expected: object):
    assert where(text) == expected


def test_the_simple_case_becomes_comparisons():
    searched = Case(((Call("=", (field("a"), Literal(1))), Literal("x")),), Literal("y"))
    assert value("CASE a WHEN 1 THEN 'x' ELSE 'y' END") == searched
    assert value("CASE WHEN a = 1 THEN 'x' ELSE 'y' END") == searched


@pytest.mark.parametrize(
    ("expression", "code", "words"),
    [
        ("CASE WHEN a = 1 THEN 2 END", "CASE_WITHOUT_ELSE", "CASE WHEN a = 1 THEN 2 END"),
        ("CASE WHEN a THEN 2 ELSE 3 END", "NOT_A_CONDITION", "a"),
        ("1 + (a = 2)", "CONDITION_AS_VALUE", "a = 2"),
        ("ROUND(a)", "ARGUMENT_COUNT", "ROUND(a)"),
        ("LEN(a, b)", "ARGUMENT_COUNT", "LEN(a, b)"),
        ("NULLIF(a)", "ARGUMENT_COUNT", "NULLIF(a)"),
        ("DATEADD(fortnight, 1, a)", "UNKNOWN_DATE_PART", "fortnight"),
        ("DATEADD('day', 1, a)", "UNKNOWN_DATE_PART", "'day'"),
        ("x.ABS(a)", "PREFIXED_FUNCTION", "x.ABS(a)"),
        ("x.Foo(a)", "UNKNOWN_FUNCTION", "x.Foo(a)"),
        ("System.Now()", "UNKNOWN_FUNCTION", "System.Now()"),
        ("ABS(*)", "STAR_ARGUMENT", "*"),
        ("GetArrayElements(a)", "TABLE_FUNCTION_HERE", "GetArrayElements(a)"),
        ("ST_DISTANCE(a)", "ARGUMENT_COUNT", "ST_DISTANCE(a)"),
    ],
)
def test_what_is_wrong_with_an_expression_is_reported_at_its_place(expression: str, code: str, words: str):
    assert found(f"SELECT {expression} AS v FROM s") == [(code, words)]


def test_a_prefix_is_ignored_below_level_1_2():
    assert value("x.ABS(a)", level="1.1") == Call("abs", (field("a"),))
    assert warned("SELECT x.ABS(a) AS v FROM s", level="1.1") == [("PREFIXED_FUNCTION", "x.ABS(a)")]


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("GETDATE()", "System.Timestamp()"),
        ("ISNULL(a, 1)", "COALESCE"),
        ("IIF(a = 1, 2, 3)", "CASE WHEN"),
        ("CONVERT(bigint, a)", "CAST"),
        ("LOG(a)", "write one in JavaScript and call it as UDF.name(...)"),
        ("CIELING(a)", "did you mean 'ceiling'?"),
    ],
)
def test_an_unknown_function_is_reported_with_what_to_use_instead(expression: str, hint: str):
    (error,) = errors(f"SELECT {expression} AS v FROM s")
    assert error.code == "UNKNOWN_FUNCTION"
    assert hint in error.hint


def test_where_wants_a_condition():
    assert found("SELECT a FROM s WHERE b") == [("NOT_A_CONDITION", "b")]


def test_bit_exists_from_level_1_2_on():
    assert value("CAST(a AS bit)") == Cast(field("a"), Type.BIT)
    assert found("SELECT CAST(a AS bit) AS v FROM s", level="1.1") == [("UNKNOWN_TYPE", "CAST(a AS bit)")]


def test_all_errors_of_a_query_are_reported_at_once_in_the_order_of_their_place():
    text = """
WITH step AS (SELECT speed, GETDATE() AS now FROM events TIMESTAMP BY System.Timestamp())
SELECT sped, COUNT(*) AS n, ROUND(speed) AS r
FROM step
WHERE SUM(speed) > 1
GROUP BY speed
"""
    assert found(text) == [
        ("UNKNOWN_FUNCTION", "GETDATE"),
        ("SYSTEM_TIMESTAMP_HERE", "System.Timestamp()"),
        ("UNKNOWN_COLUMN", "sped"),
        ("ARGUMENT_COUNT", "ROUND(speed)"),
        ("AGGREGATE_IN_WHERE", "SUM(speed)"),
        ("WINDOW_MISSING", "speed"),
    ]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            "SELECT a FROM s WHERE a = NULL OR NOT NULL <> b",
            [("COMPARED_WITH_NULL", "a = NULL"), ("COMPARED_WITH_NULL", "NULL <> b")],
        ),
        ("SELECT CASE a WHEN NULL THEN 1 ELSE 2 END AS v FROM s", [("COMPARED_WITH_NULL", "NULL")]),
        ("SELECT a FROM s WHERE a IS NULL OR a = NULLIF(a, 0)", []),
        (
            "SELECT a FROM s WHERE a = true AND b = FALSE",
            [("TRUTH_AS_FIELD", "true"), ("TRUTH_AS_FIELD", "FALSE")],
        ),
        ("SELECT [true], s.false FROM s", []),
        ("WITH t AS (SELECT 1 AS true FROM s) SELECT true FROM t", []),
        ("SELECT a[0] FROM s", [("INDEX_AS_ALIAS", "a[0]")]),
        ("SELECT a [0], b AS[c] FROM s", []),
    ],
)
def test_what_is_read_otherwise_than_probably_meant_is_warned_of(
    query: str, expected: list[tuple[str, str]]
) -> None:
    assert warned(query) == expected


@pytest.mark.parametrize(
    ("call", "usage"),
    [
        ("ROUND(a)", "ROUND(number, integer)"),
        ("SUBSTRING(a, 1)", "SUBSTRING(text, integer, integer)"),
        ("CHARINDEX(a)", "CHARINDEX(text, text [, integer])"),
        ("CONCAT()", "CONCAT(value, ...)"),
        ("DATEADD(second, 1)", "DATEADD(datepart, number, date)"),
    ],
)
def test_a_call_with_too_few_arguments_is_answered_with_how_it_is_written(call: str, usage: str) -> None:
    (error,) = errors(f"SELECT {call} AS v FROM s")
    assert (error.code, error.hint) == ("ARGUMENT_COUNT", f"write {usage}")


def test_warnings_are_shown_behind_the_errors() -> None:
    text = "SELECT a AS b, COUNT(*) AS n FROM s GROUP BY b, TumblingWindow(minute, 1)"
    with pytest.raises(QueryError) as caught:
        bound(text)
    assert [found.code for found in caught.value.diagnostics] == ["NOT_GROUPED"]
    assert [line for line in str(caught.value).splitlines() if line.startswith("query:")] == [
        "query:1:8: [NOT_GROUPED] 'a' is neither a grouping key nor inside an aggregate",
        "query:1:46: warning [ALIAS_NOT_VISIBLE] 'b' in GROUP BY is read as a field of the event, "
        "not as the SELECT alias",
    ]
