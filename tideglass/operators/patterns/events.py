"""The events a pattern is looked for in, and the tests of its variables (`asa.md` 2.14)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tideglass.core.arrays import Ints, Mask
from tideglass.core.columns import settle
from tideglass.core.errors import EvaluationError
from tideglass.core.failing_rows import OnFailure
from tideglass.core.iso import flat
from tideglass.core.types import Type, type_of
from tideglass.operators.patterns.extremes import Ranked
from tideglass.plan.expressions import Ref
from tideglass.plan.patterns import MatchedValue

Codes = npt.NDArray[np.int8]
Column = tuple[pa.Array, Type]

#: The result of a test of an event.
FALSE, TRUE, FAILS = 0, 1, 2


class Condition(Protocol):
    """For which rows of a table a condition holds, and for which it fails."""

    def __call__(self, rows: pa.Table, on_failure: OnFailure | None) -> Mask: ...
    def failing(self, rows: pa.Table) -> Ints: ...


@dataclass(frozen=True, slots=True)
class EventTest:
    """A condition and the matched values it reads, by name; it may read the columns of the order too."""

    condition: Condition
    reads: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Definition:
    """A variable.

    alone: what the event alone decides of its condition
    further: the rest, in this order
    """

    alone: EventTest | None
    further: tuple[EventTest, ...]


class Events:
    """Events sorted by key, those of a key in the total order; a place is one's number there."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows
        self.times_ticks: Ints = rows["$ts"].to_numpy()
        self._ranked: dict[str, Ranked] = {}

    def ranked(self, column: str) -> Ranked:
        if column not in self._ranked:
            self._ranked[column] = Ranked.of(self.rows, column)
        return self._ranked[column]

    def values(self, value: MatchedValue, places: Ints) -> Column:
        """A value for each of the places; NULL where there is none."""
        column = column_of(value)
        if value.function in ("min", "max"):
            ranked = self.ranked(column)
            found, type_ = ranked.values, ranked.type
        else:
            found, type_ = flat(self.rows[column]), type_of(self.rows.schema.field(column))
        return settle(found.take(pa.array(places, mask=places < 0)), type_)


def column_of(value: MatchedValue) -> str:
    """The column of the events that holds the argument."""
    assert isinstance(value.arg, Ref)
    return value.arg.name


def codes(test: EventTest, rows: pa.Table) -> Codes:
    """The result of a test for every row."""
    try:
        return test.condition(rows, None).astype(np.int8)
    except EvaluationError:
        failing = test.condition.failing(rows)
    result = np.full(rows.num_rows, TRUE, np.int8)
    result[failing] = FAILS
    sound = np.flatnonzero(result == TRUE)
    result[sound] = test.condition(rows.take(pa.array(sound)), None).astype(np.int8)
    return result
