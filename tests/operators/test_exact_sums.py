"""Sums of floats are exact and rounded once, whatever the values and their order."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.depth import depth
from support.window_rows import one, same
from tideglass.core.errors import EvaluationError

floats = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300),
    st.floats(min_value=-1e6, max_value=1e6),
    st.sampled_from(
        [0.1, 1e16, -1e16, 1.0, 2.0**-1074, -(2.0**-1074), 2.0**62, 2.0**20, 2.0**-22, -0.0, 1e-9]
    ),
)


@settings(max_examples=depth(60), deadline=None)
@given(st.lists(floats, min_size=1, max_size=12))
def test_a_sum_of_floats_is_fsum(values: list[float]) -> None:
    assert same(one("sum", values), math.fsum(values) + 0.0)
    assert same(one("avg", values), (math.fsum(values) + 0.0) / len(values))


@settings(max_examples=depth(25), deadline=None)
@given(st.lists(floats, min_size=1, max_size=8))
def test_a_variance_is_the_exact_quotient_rounded_once(values: list[float]) -> None:
    count, exact = len(values), [Fraction(value) for value in values]
    numerator = count * sum(value * value for value in exact) - sum(exact) ** 2
    population = rounded(numerator / (count * count))
    assert same(one("varp", values), population)
    assert same(one("stdevp", values), math.sqrt(population))
    if count == 1:
        assert one("var", values) is None
        assert one("stdev", values) is None
    else:
        sample = rounded(numerator / (count * (count - 1)))
        assert same(one("var", values), sample)
        assert same(one("stdev", values), math.sqrt(sample))


def rounded(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf


def test_ties_are_rounded_to_even_after_all_lanes_are_added() -> None:
    half = 2.0**-53
    assert one("sum", [1.0, half]) == 1.0
    assert one("sum", [1.0, half, 2.0**-80]) == 1.0 + 2.0**-52
    assert one("sum", [2.0**53, 1.0, 2.0**-60]) == 2.0**53 + 2.0
    assert one("sum", [2.0**70, 1.0, -(2.0**70)]) == 1.0


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_bit_lost_far_below_still_breaks_a_tie(sign: float) -> None:
    # both in the main lane; the half unit of 2**19 is 2**-34, and 2**-72 is past 64 bits
    values = [sign * 2.0**19, sign * (2.0**-20 + 2.0**-34 + 2.0**-72)]
    assert one("sum", values) == sign * (2.0**19 + 2.0**-20 + 2.0**-33)
    assert one("sum", [values[0], sign * (2.0**-20 + 2.0**-34)]) == sign * (2.0**19 + 2.0**-20)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([math.inf, 1.0], math.inf),
        ([-math.inf, 1e308], -math.inf),
        ([math.inf, -math.inf], math.nan),
        ([math.nan, 1.0], math.nan),
        ([1.7e308, 1.7e308], math.inf),
        ([1.7e308, 1.7e308, -1.7e308], 1.7e308),
    ],
)
def test_sums_that_are_no_number_say_so(values: list[float], expected: float) -> None:
    assert same(one("sum", values), expected)


def test_a_variance_with_an_infinity_or_nan_is_nan() -> None:
    assert math.isnan(one("var", [1.0, math.inf]))
    assert math.isnan(one("stdevp", [math.nan]))


@settings(max_examples=depth(25), deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=6))
def test_a_sum_of_bigints_is_exact_or_an_error(values: list[int]) -> None:
    if -(2**63) <= sum(values) < 2**63:
        assert same(one("sum", values), sum(values))
    else:
        with pytest.raises(EvaluationError, match="sum is out of the range"):
            one("sum", values)
    assert same(one("avg", values), float(sum(values)) / len(values))


@settings(max_examples=depth(25), deadline=None)
@given(st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), floats), min_size=1, max_size=8))
def test_a_float_among_bigints_makes_the_sum_a_float(values: list[Any]) -> None:
    total = sum((Fraction(value) for value in values), Fraction(0))
    if any(isinstance(value, float) for value in values):
        assert same(one("sum", values), float(total))
