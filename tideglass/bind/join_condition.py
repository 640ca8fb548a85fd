"""ON of a join, taken apart: keys, bounds of time, and the rest (`asa.md` 2.8)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tideglass.core.time import ORIGIN_TICKS, TICKS_PER_DAY
from tideglass.core.types import SYSTEM_TIMESTAMP, Type
from tideglass.functions.dates import PART_TICKS
from tideglass.plan.expressions import Call, Cast, Expr, Literal, Ref, conjuncts, references
from tideglass.plan.nodes import TimeBound

_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "="}
_MAKES_DATETIME = frozenset(("dateadd", "datetimefromparts"))


@dataclass(frozen=True, slots=True)
class OnParts:
    """What ON asks for.

    keys: values of left and right that are equal.
    bounds: how far apart in time rows of a pair may be; all hold.
    rest: the other conjuncts.
    odd_unit: a date part of a DATEDIFF that bounds nothing; None if there is none.
    """

    keys: tuple[tuple[Expr, Expr], ...]
    bounds: tuple[TimeBound, ...]
    rest: tuple[Expr, ...]
    odd_unit: str | None


def on_parts(condition: Expr, right_prefix: str) -> OnParts:
    """The condition of ON, taken apart. right_prefix: of the columns of the joined source."""
    keys: list[tuple[Expr, Expr]] = []
    limits: list[TimeBound] = []
    rest: list[Expr] = []
    odd_unit: str | None = None
    for part in conjuncts(condition):
        comparisons = list(_comparisons(part))
        found = [_limit(*comparison, right_prefix) for comparison in comparisons]
        bounds = [bound for bound in found if isinstance(bound, TimeBound)]
        odd_unit = next((unit for unit in found if isinstance(unit, str)), odd_unit)
        limits += bounds
        if bounds and len(bounds) == len(found):
            continue
        key = _key(part, right_prefix)
        if key is None:
            rest.append(part)
        else:
            keys.append(key)
    return OnParts(tuple(keys), _merged(limits), tuple(rest), odd_unit)


def _comparisons(part: Expr) -> Iterator[tuple[Expr, str, Expr]]:
    """A condition as comparisons of a DATEDIFF with something, if it is one."""
    match part:
        case Call(function="between", args=(value, low, high)):
            yield value, ">=", low
            yield value, "<=", high
        case Call(function="=" | "<" | "<=" | ">" | ">=" as operator, args=(left, right)):
            if isinstance(right, Call) and right.function == "datediff":
                left, operator, right = right, _MIRRORED[operator], left
            yield left, operator, right
        case _:
            return


def _limit(difference: Expr, operator: str, limit: Expr, right_prefix: str) -> TimeBound | str | None:
    """The bound a comparison sets to the time between a source and the right one; a unit that cannot."""
    number = _number(limit)
    match difference:
        case Call(
            function="datediff", args=(Literal(value=str() as unit), Ref(name=first), Ref(name=second))
        ):
            pass
        case _:
            return None
    time = right_prefix + SYSTEM_TIMESTAMP
    if number is None or (first == time) == (second == time):
        return None
    base = second if first == time else first
    if not base.endswith("." + SYSTEM_TIMESTAMP):
        return None
    if unit not in PART_TICKS:
        return unit
    if first == time:
        number, operator = -number, _MIRRORED[operator]
    lowest = {">=": math.ceil(number), ">": math.floor(number) + 1, "=": math.ceil(number)}.get(operator)
    highest = {"<=": math.floor(number), "<": math.ceil(number) - 1, "=": math.floor(number)}.get(operator)
    origin_ticks = ORIGIN_TICKS - TICKS_PER_DAY if unit == "week" else ORIGIN_TICKS
    return TimeBound(base, PART_TICKS[unit], origin_ticks, lowest, highest)


def has_datediff(part: Expr) -> bool:
    compared = [side for left, _, right in _comparisons(part) for side in (left, right)]
    return any(isinstance(side, Call) and side.function == "datediff" for side in compared)


def _number(expr: Expr) -> int | float | None:
    match expr:
        case Literal(value=int() | float() as value) if not isinstance(value, bool):
            return value
        case Call(function="neg" | "pos" as sign, args=(inner,)):
            value = _number(inner)
            return None if value is None else -value if sign == "neg" else value
        case _:
            return None


def _merged(limits: Sequence[TimeBound]) -> tuple[TimeBound, ...]:
    """One bound for each source and unit."""
    merged: dict[tuple[str, int, int], TimeBound] = {}
    for bound in limits:
        where = (bound.base, bound.unit_ticks, bound.origin_ticks)
        other = merged.get(where, replace(bound, lowest=None, highest=None))
        lowest = [n for n in (bound.lowest, other.lowest) if n is not None]
        highest = [n for n in (bound.highest, other.highest) if n is not None]
        merged[where] = replace(bound, lowest=max(lowest, default=None), highest=min(highest, default=None))
    return tuple(merged.values())


def _key(part: Expr, right_prefix: str) -> tuple[Expr, Expr] | None:
    """Left and right of an equation between the sides, if rows can be brought together by its values.

    A text may equal a datetime without looking like it, so an equation with a datetime is no key.
    """
    match part:
        case Call(function="=", args=(one, other)):
            pass
        case _:
            return None
    sides = [{name.startswith(right_prefix) for name in references(side)} for side in (one, other)]
    if any(SYSTEM_TIMESTAMP in references(side) or _is_datetime(side) for side in (one, other)):
        return None
    if sides == [{False}, {True}]:
        return one, other
    return (other, one) if sides == [{True}, {False}] else None


def _is_datetime(expr: Expr) -> bool:
    """Whether the value is a datetime by the text of the query alone."""
    match expr:
        case Ref(name=name):
            return name.rpartition(".")[2] in (SYSTEM_TIMESTAMP, "$arrival")
        case Cast(type=type_):
            return type_ is Type.DATETIME
        case Call(function=function):
            return function in _MAKES_DATETIME
        case _:
            return False
