"""Which of two events has the smaller value: Min and Max of a pattern's variables (`asa.md` 2.14, 4.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tideglass.core.arrays import Ints
from tideglass.core.errors import EvaluationError, FailedRow, Span
from tideglass.core.iso import flat
from tideglass.core.sql import query, quoted
from tideglass.core.types import ORDER_COLUMNS, Type, type_of
from tideglass.operators.aggregates.arguments import ORDERED, json_sql, refuse, sort_key_sql, split
from tideglass.operators.aggregates.results import finish
from tideglass.plan.specs import AggregateSpec

#: No event with a value yet. What is less is `failure(place)`: there is none, because of an event.
NONE = -1

_NOTHING, _NUMBER, _DATETIME, _REFUSED = range(4)


def failure(places: Ints) -> Ints:
    """What stands for a comparison that fails because of the events at these places; its own inverse."""
    return -2 - places


@dataclass(frozen=True, slots=True)
class Ranked:
    """A column as Min and Max see it: text that looks like a number is one, NULL is nothing.

    rows: the events
    column: the column
    values: the values Min and Max return
    type: their type
    kinds: what each value can be compared with
    ranks: the order of values of one kind
    """

    rows: pa.Table
    column: str
    values: pa.Array
    type: Type
    kinds: npt.NDArray[np.int8]
    ranks: Ints

    @classmethod
    def of(cls, rows: pa.Table, column: str) -> Ranked:
        type_ = type_of(rows.schema.field(column))
        families = split(quoted(column), type_, ORDERED)
        key = sort_key_sql(quoted(column), type_, descending=False)
        spec = AggregateSpec("value", "min", column)
        cells = {
            spec.cell(f"min.{name}"): sql
            for name in ("whole", "float", "datetime", "bit")
            if (sql := getattr(families, name)) is not None
        }
        known = f"CASE WHEN k.k = 3 THEN {_DATETIME} WHEN k.k > 0 THEN {_NUMBER} ELSE {_NOTHING} END"
        chosen = [f"{sql} AS {quoted(name)}" for name, sql in cells.items()]
        chosen += ["dense_rank() OVER (ORDER BY k) AS rank"]
        chosen += [
            f"CASE WHEN ({key.refused or 'NULL'}) IS NOT NULL THEN {_REFUSED} ELSE {known} END AS kind"
        ]
        numbered = rows.select([column]).append_column("$place", pa.array(np.arange(rows.num_rows)))
        found = query(
            f'SELECT {", ".join(chosen)} FROM (SELECT *, {key.struct} AS k FROM numbered) ORDER BY "$place"',
            numbered=numbered,
        )
        values, value_type = (
            finish(spec, found.drop_columns(["rank", "kind"])) if cells else (None, Type.NULL)
        )
        return cls(
            rows,
            column,
            pa.nulls(rows.num_rows) if values is None else flat(values),
            value_type,
            found["kind"].to_numpy().astype(np.int8),
            found["rank"].to_numpy(),
        )

    def best(self, function: str, before: Ints, places: Ints) -> Ints:
        """The place of the smallest (or greatest) value so far, with further ones; of equals the first."""
        result = before.copy()
        kinds = self.kinds[places]
        going = (before >= NONE) & (kinds != _NOTHING)
        first = going & (before == NONE)
        held = np.maximum(before, 0)
        ranks, best = self.ranks[places], self.ranks[held]
        better = ranks < best if function == "min" else ranks > best
        unlike = (kinds == _REFUSED) | (~first & (kinds != self.kinds[held]))
        result[going & (first | better)] = places[going & (first | better)]
        result[going & unlike] = failure(places[going & unlike])
        return result

    def error(self, function: str, place: int, span: Span) -> EvaluationError:
        """Why the event at a place cannot be compared with those before it."""
        row = self.rows.slice(place, 1)
        type_ = type_of(row.schema.field(self.column))
        refused = split(quoted(self.column), type_, ORDERED).refused
        if refused is not None:
            value = json_sql(quoted(self.column), type_)
            try:
                refuse(row, refused, value, f"1st argument of function {function}", ORDERED, span)
            except EvaluationError as error:
                return error
        ts, arrival, input_, partition, offset = (row[name][0].as_py() for name in ORDER_COLUMNS)
        message = f"Values of types that have no order cannot be compared by function {function}."
        return EvaluationError(message, span, FailedRow(place=(ts, arrival, input_, partition, offset)))
