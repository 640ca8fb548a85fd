"""Mathematical functions and arithmetic (asa.md 4.6, 2.2, A-19)."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.depth import depth
from support.evaluating import by_column, call, value
from tideglass.core.errors import EvaluationError

BIG = 2**63 - 1


def same(found: Any, expected: Any) -> bool:
    return type(found) is type(expected) and found == expected


@pytest.mark.parametrize(
    ("x", "places", "expected"),
    [
        (1, 0, 1),
        (0.5, 0, 1.0),
        (-0.5, 0, -1.0),
        (1.234, 2, 1.23),
        (1.234, 10, 1.234),
        (123.4, -1, 120.0),
        (123.4, -10, 0.0),
        (501.0101, -3, 1000.0),
        (123.9995, 3, 124.0),
        (1.234, 400, 1.234),
        ("1.25", 1, 1.3),
        (15, -1, 20),
        (-15, -1, -20),
        (14, -1, 10),
        (17, 5, 17),
        (5 * 10**17, -18, 10**18),
        (17, -19, 0),
        (17, -400, 0),
    ],
)
def test_round(x: Any, places: int, expected: Any) -> None:
    assert same(value(call("round", x, places)), expected)
    assert same(by_column("round", x, places), expected)


@pytest.mark.parametrize(
    ("function", "args", "expected"),
    [
        ("abs", (-5,), 5),
        ("abs", (-5.5,), 5.5),
        ("ceiling", (1.2,), 2.0),
        ("ceiling", (7,), 7),
        ("floor", (-1.2,), -2.0),
        ("floor", (7,), 7),
        ("sign", (-3,), -1),
        ("sign", (2.5,), 1.0),
        ("sign", (0.0,), 0.0),
        ("power", (2, 10), 1024),
        ("power", (2, -1), 0),
        ("power", (2.0, 3), 8.0),
        ("power", (4, 0.5), 2),
        ("power", (3, 39), 3**39),
        ("exp", (0,), 1.0),
        ("exp", (1.0,), math.e),
        ("sqrt", (16,), 4.0),
        ("square", (-3,), 9.0),
        ("abs", ("-2.5",), 2.5),
        ("abs", (True,), 1),
    ],
)
def test_functions(function: str, args: tuple[Any, ...], expected: Any) -> None:
    assert same(value(call(function, *args)), expected)
    assert same(by_column(function, *args), expected)


@pytest.mark.parametrize(
    ("function", "args"),
    [
        ("abs", (-(2**63),)),
        ("power", (10, 19)),
        ("power", (0, -1)),
        ("power", (1e300, 2)),
        ("exp", (1000,)),
        ("square", (1e200,)),
        ("round", (BIG, -1)),
        ("neg", (-(2**63),)),
        ("+", (BIG, 1)),
        ("-", (-BIG, 2)),
        ("*", (2**40, 2**40)),
        ("/", (-(2**63), -1)),
        ("*", (1e300, 1e300)),
    ],
)
def test_overflow_stops_the_job(function: str, args: tuple[Any, ...]) -> None:
    with pytest.raises(EvaluationError, match="overflow"):
        by_column(function, *args)


def test_the_root_of_a_negative_number_stops_the_job() -> None:
    with pytest.raises(EvaluationError, match="not negative"):
        by_column("sqrt", -1)


@pytest.mark.parametrize(
    ("operator", "a", "b", "expected"),
    [
        ("+", 1, 2, 3),
        ("+", 1, 2.0, 3.0),
        ("-", 1, 2, -1),
        ("*", 3, 2.5, 7.5),
        ("/", 7, 2, 3),
        ("/", -7, 2, -3),
        ("/", 7, -2, -3),
        ("/", 7, 2.0, 3.5),
        ("%", 7, 3, 1),
        ("%", -7, 3, -1),
        ("%", 7.5, 2, 1.5),
        ("+", "a", "b", "ab"),
        ("+", "1.5", 1, 2.5),
        ("&", 170, 75, 10),
        ("|", 170, 75, 235),
        ("^", 170, 75, 225),
        ("&", True, False, False),
        ("|", True, False, True),
        ("^", True, True, False),
        ("&", True, 3, 1),
        ("+", True, True, 2),
    ],
)
def test_operators(operator: str, a: Any, b: Any, expected: Any) -> None:
    assert same(value(call(operator, a, b)), expected)
    assert same(by_column(operator, a, b), expected)
    assert by_column(operator, a, None) is None
    assert by_column(operator, None, b) is None


@pytest.mark.parametrize(
    ("function", "x", "expected"),
    [
        ("~", 170, -171),
        ("~", True, False),
        ("neg", 5, -5),
        ("neg", 1.5, -1.5),
        ("pos", 5, 5),
        ("neg", "2", -2.0),
    ],
)
def test_unary_operators(function: str, x: Any, expected: Any) -> None:
    assert same(value(call(function, x)), expected)
    assert same(by_column(function, x), expected)
    assert by_column(function, None) is None


@pytest.mark.parametrize("operator", ["/", "%"])
@pytest.mark.parametrize(("a", "b"), [(1, 0), (1.0, 0), (1, 0.0)])
def test_division_by_zero_stops_the_job(operator: str, a: Any, b: Any) -> None:
    with pytest.raises(EvaluationError, match="division by zero"):
        by_column(operator, a, b)
    with pytest.raises(EvaluationError, match="division by zero"):
        value(call(operator, a, b))


@pytest.mark.parametrize(
    ("expr", "message"),
    [
        (
            call("round", "abc", 1),
            "The 1st argument of function round has invalid type 'nvarchar.*'. "
            "Only 'bigint', 'float' is allowed.",
        ),
        (
            call("round", 1.5, 1.5),
            "The 2nd argument of function round has invalid type 'float'. Only 'bigint' is allowed.",
        ),
        (call("+", "a", 1), r"The 1st argument of function \+ has invalid type"),
        (call("&", 1.5, 1), "The 1st argument of function & has invalid type 'float'"),
    ],
)
def test_a_wrong_type_stops_the_job_with_the_services_message(expr: Any, message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        value(expr)


@given(st.integers(-(2**63), BIG), st.integers(-(2**63), BIG).filter(bool))
@settings(max_examples=depth(60), deadline=None)
def test_integer_division_truncates(a: int, b: int) -> None:
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    if quotient <= BIG:
        assert by_column("/", a, b) == quotient
        assert by_column("%", a, b) == a - quotient * b


@given(st.integers(-(10**18), 10**18), st.integers(-18, 3))
@settings(max_examples=depth(60), deadline=None)
def test_bigints_round_half_away_from_zero(x: int, places: int) -> None:
    step = 10 ** max(-places, 0)
    expected = (abs(x) + step // 2) // step * step * (1 if x >= 0 else -1)
    assert by_column("round", x, places) == expected
