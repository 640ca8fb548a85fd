"""The aggregates of `asa.md` 4.1 over the complete list of a group's values, in row order.

Sums are exact and rounded once, so that no order of addition matters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cmp_to_key

from .values import (
    Instant,
    OracleError,
    Value,
    bigint,
    compare,
    finite,
    float_of_text,
    identity,
    instant_of_text,
    number_argument,
)


def present(values: Sequence[Value]) -> list[Value]:
    return [value for value in values if value is not None]


def numbers(values: Sequence[Value]) -> list[int | float]:
    return [number_argument(value) for value in present(values)]


def total(values: Sequence[int | float]) -> int | float:
    """Exact when all are bigint, else the exact sum rounded to the nearest float."""
    if all(isinstance(value, int) for value in values):
        return sum(values)
    return finite(float(sum(Fraction(value) for value in values)))


def sum_(values: Sequence[Value]) -> Value:
    found = numbers(values)
    if not found:
        return None
    result = total(found)
    return bigint(result) if isinstance(result, int) else result


def avg(values: Sequence[Value]) -> Value:
    """A float, also of bigints (A-18)."""
    found = numbers(values)
    return total(found) / len(found) if found else None


def extreme(values: Sequence[Value], as_text: bool, wanted: int) -> Value:
    """MIN (`wanted` -1) or MAX (1). Text is read as float unless it was cast to nvarchar on purpose."""
    best: Value = None
    for value in present(values):
        if isinstance(value, dict | list) or (isinstance(value, str) and not as_text):
            value = number_argument(value)
        if best is None:
            best = value
            continue
        order = compare(value, best)
        if order == wanted:
            best = value
    return best


def variance(values: Sequence[Value], sample: bool) -> float | None:
    """Exact rational (n*sum(x*x) - sum(x)**2) / (n*(n-1) or n*n), rounded once."""
    found = [Fraction(value) for value in numbers(values)]
    n = len(found)
    if n == 0 or (sample and n == 1):
        return None
    squares = n * sum(x * x for x in found) - sum(found) ** 2
    return finite(float(squares / (n * (n - 1) if sample else n * n)))


def deviation(values: Sequence[Value], sample: bool) -> float | None:
    squared = variance(values, sample)
    return None if squared is None else math.sqrt(squared)


def percentile_cont(values: Sequence[Value], p: float, descending: bool) -> float | None:
    """Linear interpolation at rank p * (n - 1)."""
    ordered = sorted(map(float, numbers(values)), reverse=descending)
    if not ordered:
        return None
    rank = Fraction(str(p)) * (len(ordered) - 1)
    low = math.floor(rank)
    high = min(low + 1, len(ordered) - 1)
    exact = Fraction(ordered[low]) + (Fraction(ordered[high]) - Fraction(ordered[low])) * (rank - low)
    return float(exact)


def percentile_disc(values: Sequence[Value], p: float, descending: bool) -> Value:
    """The first value whose cumulative share is at least p."""
    ordered = sorted(numbers(values), reverse=descending)
    if not ordered:
        return None
    return ordered[max(math.ceil(Fraction(str(p)) * len(ordered)) - 1, 0)]


def distinct(values: Sequence[Value]) -> list[Value]:
    return list({identity(value): value for value in reversed(present(values))}.values())


def ordered_rows(keys: Sequence[Sequence[Value]], descending: Sequence[bool]) -> list[int]:
    """Positions in ORDER BY order; NULL is smallest, equal rows keep their order.

    Text is read as a float or as a datetime; numbers and datetimes in one column have no order, wherever
    they would stand.
    """
    keys = [[_sort_key(value) for value in row] for row in keys]
    for column in zip(*keys, strict=True):
        if len({isinstance(value, Instant) for value in column if value is not None}) > 1:
            raise OracleError("ORDER BY meets numbers and datetimes")

    def order(a: int, b: int) -> int:
        for left, right, down in zip(keys[a], keys[b], descending, strict=True):
            result = _compare_sort_keys(left, right)
            if result:
                return -result if down else result
        return 0

    return sorted(range(len(keys)), key=cmp_to_key(order))


def _sort_key(value: Value) -> Value:
    if isinstance(value, str):
        value = float_of_text(value) if float_of_text(value) is not None else instant_of_text(value)
        if value is None:
            raise OracleError("ORDER BY takes bigint, float and datetime")
    if not isinstance(value, int | float | Instant | None):
        raise OracleError("ORDER BY takes bigint, float and datetime")
    return value


def _compare_sort_keys(left: Value, right: Value) -> int:
    if left is None or right is None:
        return (left is not None) - (right is not None)
    return compare(left, right)


SIMPLE: dict[str, Callable[[Sequence[Value]], Value]] = {
    "count": lambda values: len(present(values)),
    "sum": sum_,
    "avg": avg,
    "stdev": lambda values: deviation(values, sample=True),
    "stdevp": lambda values: deviation(values, sample=False),
    "var": lambda values: variance(values, sample=True),
    "varp": lambda values: variance(values, sample=False),
    "collect": lambda values: present(values) or None,
}
NAMES = {*SIMPLE, "min", "max", "percentile_cont", "percentile_disc", "collecttop", "topone"}
