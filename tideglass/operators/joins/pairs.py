"""Pairs of rows with equal keys whose times fit: the inner loop of a join, without a loop over rows.

Right rows are sorted by (key, time); the partners of a left row, those of its key from one instant to
another, then stand side by side and are found by bisection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Ints, Mask, Words, pc
from tideglass.core.columns import canonical_text
from tideglass.core.errors import EvaluationError
from tideglass.core.failing_rows import OnFailure
from tideglass.core.iso import flat
from tideglass.core.sql import query
from tideglass.core.types import Type, type_of

#: Pairs made at a time: what is looked at of a pair may take some hundred bytes.
PAIRS_AT_ONCE = 2_000_000

#: Types whose values are one key exactly if Arrow holds them for equal.
AS_THEY_ARE = frozenset((Type.BIGINT, Type.DATETIME, Type.NVARCHAR, Type.RECORD, Type.ARRAY))
#: Types whose values are numbers that identify a key by themselves.
WHOLE = frozenset((Type.BIGINT, Type.DATETIME))

#: For which pairs, the rows of a table, the rest of ON holds; it does not hold for one on which it fails.
Condition = Callable[[pa.Table, OnFailure | None], Mask]


@dataclass(frozen=True, slots=True)
class Coded:
    """Key values of two tables as numbers: equal keys have equal numbers.

    left: a number for each row of the left table
    right: a number for each row of the right table
    left_known: left rows none of whose keys is NULL
    right_known: right rows none of whose keys is NULL
    texts: per key that is no number, the values of both sides, as two different ones may share a number
    """

    left: Words
    right: Words
    left_known: Mask
    right_known: Mask
    texts: tuple[tuple[pa.Array, pa.Array], ...]

    def equal(self, left: Ints, right: Ints) -> Mask | None:
        """Which of the pairs have keys that are equal indeed; None if all have."""
        result: Mask | None = None
        for ours, theirs in self.texts:
            same = np.asarray(pc.equal(ours.take(pa.array(left)), theirs.take(pa.array(right))))
            result = same if result is None else result & same
        return None if result is None or result.all() else result


def coded(left: pa.Table, right: pa.Table, keys: Sequence[str]) -> Coded | None:
    """The keys of both tables as numbers; None if no row can match.

    Equality is that of the operator `=`: 1 equals 1.0 and true, a text equals no number (A-30), NULL
    nothing. Raises EvaluationError where a text meets a datetime, which rows cannot be brought together by.
    """
    columns: list[tuple[pa.Array, pa.Array]] = []
    texts: list[tuple[pa.Array, pa.Array]] = []
    for key in keys:
        types = [type_of(side.schema.field(key)) for side in (left, right)]
        if Type.NULL in types:
            return None
        if set(types) == {Type.DATETIME, Type.NVARCHAR}:
            raise EvaluationError(
                "A join cannot bring together a datetime and a text: CAST one of them to the other's type."
            )
        if types[0] is types[1] and types[0] in AS_THEY_ARE:
            pair = flat(left[key]), flat(right[key])
        else:
            pair = number_text(left, key), number_text(right, key)
        columns.append(pair)
        if types[0] is not types[1] or types[0] not in WHOLE:
            texts.append(pair)
    return Coded(
        codes_of([ours for ours, _ in columns], left.num_rows),
        codes_of([theirs for _, theirs in columns], right.num_rows),
        known_keys(left, keys),
        known_keys(right, keys),
        # numbers of several columns are one hash, so they may be wrong as well
        tuple(columns if len(columns) > 1 else texts),
    )


def number_text(table: pa.Table, key: str) -> pa.Array:
    """Canonical text in which a bit is the number it equals."""
    text = canonical_text(table.select([key]), [key])
    return pc.replace_with_mask(
        text,
        pc.is_in(text, value_set=pa.array(["b0", "b1"])),
        pc.if_else(
            pc.equal(text.filter(pc.is_in(text, value_set=pa.array(["b0", "b1"]))), "b1"), "i1,", "i0,"
        ),
    )


def known_keys(table: pa.Table, keys: Sequence[str]) -> Mask:
    """Rows none of whose keys is NULL."""
    known = np.ones(table.num_rows, np.bool_)
    for key in keys:
        known &= np.asarray(table[key].is_valid())
    return known


def codes_of(columns: Sequence[pa.Array], rows: int) -> Words:
    """A number for the values of each row: equal ones for equal values; of a whole number, the number."""
    if not columns:
        return np.zeros(rows, np.uint64)
    if len(columns) == 1 and pa.types.is_int64(columns[0].type):
        return columns[0].fill_null(0).to_numpy().view(np.uint64)
    names = [f"c{n}" for n in range(len(columns))]
    hashed = query(f"SELECT hash({', '.join(names)}) AS h FROM t", t=pa.table(list(columns), names=names))
    return flat(hashed["h"]).to_numpy()


def pairs(
    coded: Coded, first_ticks: Ints, last_ticks: Ints, right_ticks: Ints
) -> Iterator[tuple[Ints, Ints]]:
    """Row numbers (left, right) of all pairs with equal keys and first <= right time <= last.

    `first_ticks` and `last_ticks` are those of each left row. At most about PAIRS_AT_ONCE are yielded at a
    time.
    """
    left = np.flatnonzero(coded.left_known & (first_ticks <= last_ticks))
    right = np.flatnonzero(coded.right_known)
    if len(left) == 0 or len(right) == 0:
        return
    # rows of the larger side whose key the other one does not have need no sorting
    if 8 * len(left) < len(right):
        right = right[_is_among(coded.right[right], coded.left[left])]
    elif 8 * len(right) < len(left):
        left = left[_is_among(coded.left[left], coded.right[right])]
    order = np.lexsort((right_ticks[right], coded.right[right]))
    right = right[order]
    codes, times = coded.right[right], right_ticks[right]
    starts = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1]))) if len(codes) else np.arange(0)
    distinct = codes[starts]
    ends = np.concatenate((starts[1:], [len(codes)]))
    group = np.searchsorted(distinct, coded.left[left])
    found = group < len(distinct)
    found[found] = distinct[group[found]] == coded.left[left[found]]
    left, group = left[found], group[found]
    low = _bisect(times, starts[group], ends[group], first_ticks[left])
    high = _bisect(times, low, ends[group], last_ticks[left] + 1)
    counts = high - low
    some = counts > 0
    left, low, counts = left[some], low[some], counts[some]
    cuts = np.concatenate(([0], np.cumsum(counts)))
    at = 0
    while at < len(left):
        until = max(at + 1, int(np.searchsorted(cuts, cuts[at] + PAIRS_AT_ONCE, side="right")) - 1)
        here = counts[at:until]
        within = np.arange(int(here.sum())) - np.repeat(cuts[at:until] - cuts[at], here)
        ours, theirs = np.repeat(left[at:until], here), right[np.repeat(low[at:until], here) + within]
        at = until
        equal = coded.equal(ours, theirs)
        yield (ours, theirs) if equal is None else (ours[equal], theirs[equal])


def _is_among(codes: Words, wanted: Words) -> Mask:
    distinct = np.unique(wanted)
    places = np.minimum(np.searchsorted(distinct, codes), len(distinct) - 1)
    return distinct[places] == codes


def _bisect(times: Ints, low: Ints, high: Ints, limit: Ints) -> Ints:
    """Per row, the first place from `low` to `high`, where `times` ascend, that is not before `limit`."""
    low, high = low.copy(), high.copy()
    active = np.flatnonzero(low < high)
    while len(active):
        middle = (low[active] + high[active]) >> 1
        before = times[middle] < limit[active]
        low[active[before]] = middle[before] + 1
        high[active[~before]] = middle[~before]
        active = active[low[active] < high[active]]
    return low
