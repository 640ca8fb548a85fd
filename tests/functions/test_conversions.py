"""Conversions (asa.md 5.2) and comparisons (2.6, A-29, A-30)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.depth import depth
from support.evaluating import by_column, call, cast, column, value, values
from tideglass.core.errors import EvaluationError
from tideglass.core.types import Type
from tideglass.plan.expressions import Ref

B, F, S, D, T = Type.BIGINT, Type.FLOAT, Type.NVARCHAR, Type.DATETIME, Type.BIT
FAILS = object()
DAY = "2020-01-01T00:00:00.0000000Z"


@pytest.mark.parametrize(
    ("given_", "target", "expected"),
    [
        (17, B, 17),
        (2.9, B, 2),
        (-2.9, B, -2),
        (1e19, B, FAILS),
        ("17", B, 17),
        (" -17 ", B, -17),
        ("1.5", B, FAILS),
        ("1_0", B, FAILS),
        ("0x10", B, FAILS),
        ("", B, FAILS),
        ("9223372036854775808", B, FAILS),
        (True, B, 1),
        ({"a": 1}, B, FAILS),
        ([1], B, FAILS),
        (17, F, 17.0),
        (2.5, F, 2.5),
        ("2.5e3", F, 2500.0),
        (".5", F, 0.5),
        ("nan", F, FAILS),
        ("1e999", F, FAILS),
        ("x", F, FAILS),
        (True, F, 1.0),
        (False, F, 0.0),
        (17, S, "17"),
        (2.5, S, "2.5"),
        (2.0, S, "2"),
        (1e300, S, "1e+300"),
        ("x", S, "x"),
        (True, S, "1"),
        ({"a": 1}, S, '{"a":1}'),
        ([1, 2], S, "[1,2]"),
        ("2020-01-01", D, DAY),
        ("2020-01-01T02:00:00+02:00", D, DAY),
        ("2020-01-01T00:00:00.1234567Z", D, "2020-01-01T00:00:00.1234567Z"),
        ("noon", D, FAILS),
        (17, D, FAILS),
        (0, T, False),
        (-3, T, True),
        (0.0, T, False),
        (0.1, T, True),
        ("true", T, True),
        ("False", T, False),
        ("1", T, True),
        ("0", T, False),
        ("maybe", T, FAILS),
        (True, T, True),
        (None, B, None),
        (None, D, None),
    ],
)
def test_cast_and_try_cast(given_: Any, target: Type, expected: Any) -> None:
    for expr, columns in (
        (cast(given_, target, lenient=True), {}),
        (cast(Ref("x"), target, lenient=True), {"x": given_}),
    ):
        if isinstance(given_, dict | list) and not columns:
            continue
        found = value(expr, **columns)
        assert (type(found), found) == (type(None), None) if expected is FAILS else (type(expected), expected)
    strict = cast(Ref("x"), target)
    if expected is FAILS:
        with pytest.raises(EvaluationError, match=f"Cannot cast value .* to type '{target.value[:4]}"):
            value(strict, x=given_)
    else:
        assert value(strict, x=given_) == expected


def test_a_datetime_becomes_text_but_no_number() -> None:
    table = column([DAY], Type.DATETIME)
    assert values(cast(Ref("x"), S), table) == [DAY]
    assert values(cast(Ref("x"), D), table) == [DAY]
    assert values(cast(Ref("x"), B, lenient=True), table) == [None]


OPERATORS = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
edges = st.sampled_from([2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 0, 2**62 + 1])
float_edges = st.sampled_from([2.0**53, 2.0**63, -(2.0**63), 2.0**62, 1e300, -1e300, 0.5])


@given(
    st.one_of(st.integers(-(2**63), 2**63 - 1), edges, st.booleans()),
    st.one_of(st.floats(allow_nan=False, allow_infinity=False), float_edges, edges),
)
@settings(max_examples=depth(60), deadline=None)
def test_numbers_compare_exactly(a: Any, b: Any) -> None:
    for operator, expected in OPERATORS.items():
        assert by_column(operator, a, b) is expected(a, b)
        assert by_column(operator, b, a) is expected(b, a)
        assert value(call(operator, Ref("x"), b), x=a) is expected(a, b)


@given(st.text("aAzé😀 ", max_size=4), st.text("aAzé😀 ", max_size=4))
@settings(max_examples=depth(40), deadline=None)
def test_texts_compare_by_code_point(a: str, b: str) -> None:
    for operator, expected in OPERATORS.items():
        assert by_column(operator, a, b) is expected(a, b)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("x", [1, 1.5, "x", True, {"a": 1}, [1]])
def test_a_comparison_with_null_is_false_and_its_negation_true(operator: str, x: Any) -> None:
    for expr in (
        call(operator, Ref("x"), None),
        call(operator, None, Ref("x")),
        call(operator, Ref("x"), Ref("n")),
    ):
        assert value(expr, x=x, n=None) is False
        assert value(call("not", expr), x=x, n=None) is True


@pytest.mark.parametrize(
    ("a", "b"), [("1", 1), ("1.0", 1.0), (True, "1"), ({"a": 1}, "x"), ([1], 1), ({"a": 1}, [1])]
)
def test_values_of_types_that_do_not_compare_are_not_equal(a: Any, b: Any) -> None:
    assert by_column("=", a, b) is False
    assert by_column("<>", a, b) is True
    assert by_column("in", a, b) is False


def test_records_and_arrays_are_equal_by_content() -> None:
    assert by_column("=", {"a": [1]}, {"a": [1]}) is True
    assert by_column("<>", [1], [2]) is True
    with pytest.raises(EvaluationError, match="have no order"):
        by_column("<", [1], [2])


def test_text_is_ordered_against_a_number_as_a_number() -> None:
    assert by_column(">", "10", 9) is True
    with pytest.raises(EvaluationError, match="invalid type 'nvarchar"):
        by_column(">", "ten", 9)


def test_datetimes_compare_with_iso_text_as_times() -> None:
    table = column([DAY], Type.DATETIME)
    assert values(call("=", Ref("x"), "2020-01-01T01:00:00+01:00"), table) == [True]
    assert values(call("<", Ref("x"), "2020-01-01T00:00:00.0000001Z"), table) == [True]
    assert values(call("between", Ref("x"), "2020-01-01", "2020-01-02"), table) == [True]


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (call("between", 2, 2, 3), True),
        (call("between", 3, 2, 3), True),
        (call("between", 4, 2, 3), False),
        (call("between", None, 2, 3), False),
        (call("between", 2, None, 3), False),
        (call("in", 2, 1, 2), True),
        (call("in", 2, 1, None), False),
        (call("in", None, 1, None), False),
        (call("in", 2, 2.0), True),
        (call("isnull", None), True),
        (call("isnull", 1), False),
        (call("nullif", 1, 1), None),
        (call("nullif", 1, 2), 1),
        (call("nullif", 1, None), 1),
        (call("nullif", None, 1), None),
        (call("coalesce", None, 2, 3), 2),
        (call("coalesce", None, None), None),
        (call("coalesce", None, "x", 3), "x"),
    ],
)
def test_predicates_and_choices(expr: Any, expected: Any) -> None:
    found = value(expr)
    assert (type(found), found) == (type(expected), expected)
