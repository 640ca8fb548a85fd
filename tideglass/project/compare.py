"""Comparison of the rows a query made with the rows a test expects (A-24).

Rows are compared as multisets: order does not count, number of times does. Numbers are equal within
a relative 1e-9, which is more than two runtimes differ by and less than a wrong formula does.
Datetimes are compared as texts, but without regard to trailing zeros of the fraction.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from tideglass.project.test_rows import Row

RELATIVE_TOLERANCE = 1e-9
#: Rows looked at to find the one most like a missing row; keeps two long, wholly different outputs quick.
PAIRING_REACH = 200

_ISO_FRACTION = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)?$")


@dataclass(frozen=True, slots=True)
class Difference:
    """An expected row and the row found in its place; None where there is no counterpart."""

    expected: Row | None
    found: Row | None


def same_value(expected: object, found: object) -> bool:
    """Whether two values of rows count as equal; a truth value equals no number.

    >>> same_value(0.3, 0.1 + 0.2), same_value(1, 1.0), same_value(True, 1), same_value("1", 1)
    (True, True, False, False)
    """
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    if isinstance(expected, int | float) and isinstance(found, int | float):
        if isinstance(expected, int) and isinstance(found, int):
            return expected == found
        if math.isnan(expected) or math.isnan(found):
            return math.isnan(expected) and math.isnan(found)
        return math.isclose(expected, found, rel_tol=RELATIVE_TOLERANCE)
    if isinstance(expected, str) and isinstance(found, str):
        return expected == found or _instant(expected) == _instant(found)
    if isinstance(expected, dict) and isinstance(found, dict):
        return same_row(cast("Row", expected), cast("Row", found))
    if isinstance(expected, list) and isinstance(found, list):
        left, right = cast("list[object]", expected), cast("list[object]", found)
        return len(left) == len(right) and all(map(same_value, left, right))
    return expected is None and found is None


def _instant(text: str) -> str:
    match = _ISO_FRACTION.match(text)
    if match is None:
        return text
    seconds, fraction, zone = match.groups()
    return f"{seconds}.{(fraction or '').rstrip('0')}{zone or ''}"


def same_row(expected: Row, found: Row) -> bool:
    """Whether two rows have the same names with equal values."""
    return expected.keys() == found.keys() and all(
        same_value(expected[name], found[name]) for name in expected
    )


def without(rows: Iterable[Row], ignore_fields: Sequence[str]) -> list[Row]:
    """The rows without the columns to be ignored."""
    return [{name: value for name, value in row.items() if name not in ignore_fields} for row in rows]


def differences(
    expected: Iterable[Row], found: Iterable[Row], ignore_fields: Sequence[str] = ()
) -> list[Difference]:
    """What differs between two multisets of rows; empty when they are equal.

    Rows left over on both sides are paired with the row most like them, so that a person sees the
    one value that is wrong.

    >>> differences([{"n": 1}, {"n": 2}], [{"n": 2}, {"n": 1}])
    []
    """
    missing, extra = _unmatched(without(expected, ignore_fields), without(found, ignore_fields))
    result: list[Difference] = []
    for row in missing:
        nearest = max(extra[:PAIRING_REACH], key=lambda other: _likeness(row, other), default=None)
        if nearest is not None and _likeness(row, nearest) > (0, 0):
            extra.remove(nearest)
            result.append(Difference(row, nearest))
        else:
            result.append(Difference(row, None))
    return result + [Difference(None, row) for row in extra]


def _unmatched(expected: list[Row], found: list[Row]) -> tuple[list[Row], list[Row]]:
    """Rows of either side without a counterpart. Rows are looked up by a coarse key, compared exactly."""
    waiting: dict[Any, list[Row]] = {}
    for row in found:
        waiting.setdefault(_coarse(row), []).append(row)
    missing: list[Row] = []
    for row in expected:
        candidates = waiting.get(_coarse(row), [])
        place = next((i for i, other in enumerate(candidates) if same_row(row, other)), None)
        if place is None:
            missing.append(row)
        else:
            del candidates[place]
    return missing, [row for rows in waiting.values() for row in rows]


def _coarse(row: Row) -> Any:
    """A key equal for all rows that could be equal: texts exactly, any number as just a number."""
    return tuple(sorted((name, _coarse_value(value)) for name, value in row.items()))


def _coarse_value(value: object) -> str:
    if isinstance(value, str):
        return "s" + _instant(value)
    return "n" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def _likeness(left: Row, right: Row) -> tuple[int, int]:
    """How many values two rows share, then how many names."""
    shared = left.keys() & right.keys()
    return sum(same_value(left[name], right[name]) for name in shared), len(shared)
