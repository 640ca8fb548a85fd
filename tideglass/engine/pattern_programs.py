"""MATCH_RECOGNIZE as it runs: the conditions of its variables as programs over events (`asa.md` 2.14)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from tideglass.core.types import ORDER_COLUMNS
from tideglass.evaluate.program import RowCondition
from tideglass.operators.patterns.events import Definition, EventTest
from tideglass.operators.patterns.operator import Patterns
from tideglass.plan.expressions import Expr, conjunction, conjuncts, references
from tideglass.plan.specs import PatternSpec


def patterns_of(spec: PatternSpec, level: str) -> Patterns:
    """The kernel of a pattern.

    The conjuncts that read the event alone are evaluated once per event, the others once per NFA thread that
    reaches it. Conditions are evaluated from the left, so only the conjuncts before the first of the others
    count as the former.
    """
    definitions: list[Definition] = []
    extremes = {value.name for value in spec.values if value.function in ("min", "max")}
    for number, variable in enumerate(spec.variables):
        own = {v.name for v in spec.values if (v.function, v.variable) == ("last", number)}
        own |= set(ORDER_COLUMNS)
        parts = list(conjuncts(variable.condition))
        alone = list(takewhile(lambda part, own=own: references(part) <= own, parts))
        further = _one_by_one(parts[len(alone) :], extremes)
        definitions.append(
            Definition(_test(alone, level) if alone else None, tuple(_test(each, level) for each in further))
        )
    return Patterns(spec, tuple(definitions))


def _one_by_one(parts: list[Expr], extremes: set[str]) -> Iterator[list[Expr]]:
    """The conditions in groups; one that reads Min or Max may fail, so it begins a new group."""
    together: list[Expr] = []
    for part in parts:
        if together and references(part) & extremes:
            yield together
            together = []
        together.append(part)
    if together:
        yield together


def _test(parts: list[Expr], level: str) -> EventTest:
    whole = conjunction(parts)
    assert whole is not None
    return EventTest(RowCondition(whole, level), tuple(sorted(references(whole) - set(ORDER_COLUMNS))))
