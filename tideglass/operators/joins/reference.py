"""Joins with reference data: rows of a stream looked up in a table whose keys are indexed (`asa.md` 2.9).

The table is indexed once; a chunk then costs what its own rows cost, however large the table is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Ints, Mask, Words, pc
from tideglass.core.errors import EvaluationError
from tideglass.core.failing_rows import OnFailure
from tideglass.core.iso import flat
from tideglass.core.types import ORDER_COLUMNS, SUBSTREAM, SYSTEM_TIMESTAMP, Type, type_of
from tideglass.operators.joins.pairs import (
    AS_THEY_ARE,
    PAIRS_AT_ONCE,
    WHOLE,
    Condition,
    codes_of,
    known_keys,
    number_text,
)
from tideglass.plan.expressions import references
from tideglass.plan.specs import ReferenceJoinSpec

_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # an odd number, so multiplying by it loses nothing


class _Form(StrEnum):
    """How a key's values are compared: as they are, or as texts in which equal numbers are equal."""

    PLAIN = "plain"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class _Index:
    """Places of the table's rows by the number their key has; found without looking at other keys.

    distinct: the numbers, ascending; the rows of the n-th are order[starts[n]:starts[n + 1]]
    buckets: for the leading bits of a number, the first place in `distinct` that has them
    """

    distinct: Words
    starts: Ints
    order: Ints
    buckets: Ints
    shift: np.uint64

    @classmethod
    def of(cls, codes: Words, rows: Ints) -> _Index:
        codes = _spread(codes)
        by_code = np.argsort(codes, kind="stable")
        ordered = codes[by_code]
        starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))[: len(ordered)]
        distinct = ordered[starts]
        bits = max(1, len(distinct).bit_length())
        shift = np.uint64(64 - bits)
        counts = np.bincount((distinct >> shift).astype(np.int64), minlength=1 << bits)
        buckets = np.concatenate(([0], np.cumsum(counts)))
        return cls(distinct, np.concatenate((starts, [len(ordered)])), rows[by_code], buckets, shift)

    def find(self, codes: Words) -> Ints:
        """The place in `distinct` of each number, -1 if it is not there."""
        codes = _spread(codes)
        bucket = (codes >> self.shift).astype(np.int64)
        at, end = self.buckets[bucket], self.buckets[bucket + 1]
        found = np.full(len(codes), -1, np.int64)
        active = np.flatnonzero(at < end)
        while len(active):
            hit = self.distinct[at[active]] == codes[active]
            found[active[hit]] = at[active[hit]]
            active = active[~hit]
            at[active] += 1
            active = active[at[active] < end[active]]
        return found


@dataclass(slots=True, eq=False)
class ReferenceTable:
    """Rows of reference data with an index of their keys, made when a first lookup asks for it.

    rows: the columns of keys and whatever else is wanted. Equality is that of the operator `=`: 1 equals
    1.0 and true, a text equals no number (A-30), NULL nothing.
    """

    rows: pa.Table
    keys: tuple[str, ...]
    _indexes: dict[tuple[_Form, ...], _Index] = field(default_factory=dict[Any, _Index])
    _columns: dict[tuple[str, _Form], pa.Array] = field(default_factory=dict[Any, pa.Array])

    def pairs(self, left: pa.Table) -> Iterator[tuple[Ints, Ints]]:
        """Row numbers (left, reference) of all pairs with equal keys, ascending; all pairs without keys.

        Raises EvaluationError where a text meets a datetime.
        """
        if not self.keys:
            yield from self._all_pairs(left.num_rows)
            return
        forms = self._forms(left)
        if forms is None or self.rows.num_rows == 0:
            return
        index = self._index(forms)
        ours = [_in_form(left, key, form) for key, form in zip(self.keys, forms, strict=True)]
        numbers = np.flatnonzero(known_keys(left, self.keys))
        found = index.find(codes_of(ours, left.num_rows)[numbers])
        numbers, found = numbers[found >= 0], found[found >= 0]
        low, counts = index.starts[found], index.starts[found + 1] - index.starts[found]
        for first, after in _blocks(counts):
            lefts, places, here = numbers[first:after], low[first:after], counts[first:after]
            if int(here.max(initial=1)) > 1:
                lefts = np.repeat(lefts, here)
                within = np.arange(len(lefts)) - np.repeat(np.cumsum(here) - here, here)
                places = np.repeat(places, here) + within
            rights = index.order[places]
            equal = self._equal(ours, forms, left, lefts, rights)
            yield (lefts, rights) if equal is None else (lefts[equal], rights[equal])

    def _all_pairs(self, left_rows: int) -> Iterator[tuple[Ints, Ints]]:
        count = self.rows.num_rows
        for first, after in _blocks(np.full(left_rows, count)) if count else ():
            lefts = np.repeat(np.arange(first, after), count)
            yield lefts, np.tile(np.arange(count), after - first)

    def _forms(self, left: pa.Table) -> tuple[_Form, ...] | None:
        """How each key is compared with those of `left`; None if a key is NULL on one side throughout."""
        forms: list[_Form] = []
        for key in self.keys:
            types = [type_of(side.schema.field(key)) for side in (left, self.rows)]
            if Type.NULL in types:
                return None
            if set(types) == {Type.DATETIME, Type.NVARCHAR}:
                raise EvaluationError(
                    f"[KEY_TYPES] A join with reference data compares a {types[0]} of the stream with a "
                    f"{types[1]} of the reference data: CAST one of them to the other's type."
                )
            plain = types[0] is types[1] and types[0] in AS_THEY_ARE
            forms.append(_Form.PLAIN if plain else _Form.TEXT)
        return tuple(forms)

    def _index(self, forms: tuple[_Form, ...]) -> _Index:
        if forms not in self._indexes:
            columns = [self._column(key, form) for key, form in zip(self.keys, forms, strict=True)]
            rows = np.flatnonzero(known_keys(self.rows, self.keys))
            self._indexes[forms] = _Index.of(codes_of(columns, self.rows.num_rows)[rows], rows)
        return self._indexes[forms]

    def _column(self, key: str, form: _Form) -> pa.Array:
        if (key, form) not in self._columns:
            self._columns[key, form] = _in_form(self.rows, key, form)
        return self._columns[key, form]

    def _equal(
        self,
        ours: Sequence[pa.Array],
        forms: Sequence[_Form],
        left: pa.Table,
        lefts: Ints,
        rights: Ints,
    ) -> Mask | None:
        """Which pairs have equal keys indeed: different texts may share a number. None if all have."""
        single = len(self.keys) == 1
        if single and forms[0] is _Form.PLAIN and type_of(left.schema.field(self.keys[0])) in WHOLE:
            return None
        result = np.ones(len(lefts), np.bool_)
        for key, form, column in zip(self.keys, forms, ours, strict=True):
            theirs = self._column(key, form).take(pa.array(rights))
            mine = column if _is_all(lefts, len(column)) else column.take(pa.array(lefts))
            result &= np.asarray(pc.equal(mine, theirs))
        return None if result.all() else result


def _in_form(table: pa.Table, key: str, form: _Form) -> pa.Array:
    return flat(table[key]) if form is _Form.PLAIN else number_text(table, key)


def _spread(codes: Words) -> Words:
    """The same numbers, each another one, with leading bits that differ even where small numbers do."""
    mixed = codes ^ (codes >> np.uint64(32))
    return mixed * _SPREAD


def _blocks(counts: Ints) -> Iterator[tuple[int, int]]:
    """Cuts rows into blocks of about PAIRS_AT_ONCE pairs, at least one row each."""
    cuts = np.concatenate(([0], np.cumsum(counts)))
    first = 0
    while first < len(counts):
        after = int(np.searchsorted(cuts, cuts[first] + PAIRS_AT_ONCE, side="right")) - 1
        after = max(first + 1, after)
        yield first, after
        first = after


@dataclass(frozen=True)
class ReferenceJoin:
    """The rows of a stream with their matches; a row keeps its time and place, each of its matches does.

    condition: finds the pairs that fulfil `spec.condition`, of its columns; None without one.
    """

    spec: ReferenceJoinSpec
    condition: Condition | None = None

    @cached_property
    def _condition_columns(self) -> set[str]:
        return set() if self.spec.condition is None else references(self.spec.condition)

    def join(self, rows: pa.Table, table: ReferenceTable, on_failure: OnFailure | None = None) -> pa.Table:
        """The joined rows: in the order of `rows`, the matches of one in the order of the table.

        Raises EvaluationError for a pair on which the condition fails; with `on_failure` such pairs are
        reported of there and do not match.
        """
        lefts: list[Ints] = []
        rights: list[Ints] = []
        for ours, theirs in table.pairs(rows):
            if self.condition is not None and len(ours):
                holds = self.condition(self._candidates(rows, table.rows, ours, theirs), on_failure)
                ours, theirs = ours[holds], theirs[holds]
            lefts.append(ours)
            rights.append(theirs)
        if self.spec.kind == "left":
            alone = np.ones(rows.num_rows, np.bool_)
            for ours in lefts:
                alone[ours] = False
            lefts.append(np.flatnonzero(alone))
            rights.append(np.full(int(alone.sum()), -1, np.int64))
        left = np.concatenate([np.zeros(0, np.int64), *lefts])
        right = np.concatenate([np.zeros(0, np.int64), *rights])
        if self.spec.kind == "left":
            order = np.argsort(left, kind="stable")
            left, right = left[order], right[order]
        return self._result(rows, table.rows, left, right)

    def _candidates(self, rows: pa.Table, table: pa.Table, ours: Ints, theirs: Ints) -> pa.Table:
        columns = self._condition_columns
        own = [name for name in (*self.spec.left_columns, *ORDER_COLUMNS) if name in columns]
        own = list(dict.fromkeys((*own, SYSTEM_TIMESTAMP)))
        other = [name for name in self.spec.right_columns if name in columns]
        return _side_by_side(
            rows.select(own).take(pa.array(ours)), table.select(other).take(pa.array(theirs))
        )

    def _result(self, rows: pa.Table, table: pa.Table, left: Ints, right: Ints) -> pa.Table:
        kept = [*ORDER_COLUMNS, *([SUBSTREAM] if self.spec.substreams else []), *self.spec.left_columns]
        own = rows.select(kept)
        if not _is_all(left, rows.num_rows):
            own = own.take(pa.array(left))
        places = pa.array(right, mask=right < 0)
        return _side_by_side(own, table.select(list(self.spec.right_columns)).take(places))


def _is_all(numbers: Ints, count: int) -> bool:
    """Whether the numbers are those of all rows, each once and in their order."""
    return len(numbers) == count and np.array_equal(numbers, np.arange(count))


def _side_by_side(left: pa.Table, right: pa.Table) -> pa.Table:
    return pa.table([*left.columns, *right.columns], schema=pa.schema([*left.schema, *right.schema]))


def by_snapshot(times_ticks: Ints, effective_ticks: Sequence[int]) -> Mapping[int, Ints]:
    """Per snapshot, the numbers of the rows it holds for: the latest that is effective by then (A-21).

    effective_ticks: ascending. -1 stands for rows before the first snapshot.
    """
    chosen = np.searchsorted(np.asarray(effective_ticks, np.int64), times_ticks, side="right") - 1
    return {int(number): np.flatnonzero(chosen == number) for number in np.unique(chosen)}
