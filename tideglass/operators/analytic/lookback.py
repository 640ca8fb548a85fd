"""Rows sorted by key, so that the rows before a row are found by counting (`asa.md` 4.2).

Rows are in the total order. A stable sort by key keeps that order within each key; the n-th matching
row before another is then n places further up the list of matching rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Ints, Mask, pc
from tideglass.core.types import SYSTEM_TIMESTAMP, Type, type_of
from tideglass.operators.aggregates.grouping import group_codes

#: Types whose values are one key exactly if Arrow holds them for equal.
_COMPARED_AS_THEY_ARE = frozenset((Type.BIGINT, Type.DATETIME, Type.NVARCHAR, Type.BIT))


def rows_of_keys(held: pa.Table, rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The held rows of keys that `rows` have, and maybe some others: what is sorted follows the batch."""
    for key in keys:
        types = {type_of(table.schema.field(key)) for table in (held, rows)}
        if len(types) == 1 and types <= _COMPARED_AS_THEY_ARE:
            held = held.filter(pc.is_in(held[key], value_set=pc.unique(rows[key])))
    return held


@dataclass(frozen=True, slots=True)
class Sorted:
    """Rows by key.

    times_ticks: `$ts` of the rows, in their order
    matching: whether a row counts, in the order of the rows
    order: positions of the rows, sorted by key
    codes: number of the key of each, in the order by key
    ranks: number of matching rows up to and including each, over all keys, in the order by key
    """

    times_ticks: Ints
    matching: Mask
    order: Ints
    codes: Ints
    ranks: Ints

    @staticmethod
    def of(rows: pa.Table, keys: Sequence[str], matching: Mask) -> Sorted:
        """Sorts rows that are in the total order, or at least those of each key."""
        times = rows[SYSTEM_TIMESTAMP].to_numpy()
        if not keys:
            order = np.arange(rows.num_rows)
            return Sorted(
                times, matching, order, np.zeros(rows.num_rows, np.int64), np.cumsum(matching, dtype=np.int64)
            )
        codes = group_codes(rows, (), keys)
        # numpy sorts 16-bit numbers by radix, which is many times faster
        few = rows.num_rows == 0 or int(codes.max()) < 1 << 16
        order = np.argsort(codes.astype(np.uint16) if few else codes, kind="stable")
        return Sorted(times, matching, order, codes[order], np.cumsum(matching[order], dtype=np.int64))

    @property
    def starts(self) -> Ints:
        """For each sorted row the first sorted place of its key."""
        first = np.flatnonzero(np.diff(self.codes, prepend=-1))
        return np.repeat(first, np.diff(first, append=len(self.codes)))

    @property
    def ranks_before_key(self) -> Ints:
        """For each sorted row, how many matching rows of other keys have a key before its key."""
        starts = self.starts
        own = self.matching[self.order]
        return (self.ranks - own)[starts]

    def earlier(self, offset: int, with_current: bool = False) -> tuple[Ints, Mask]:
        """The place of the offset-th matching row before each row, and whether there is one.

        with_current: the row itself counts as the first, if it matches.
        """
        own = self.matching[self.order]
        ranks = self.ranks - offset if with_current else self.ranks - own - offset
        found_sorted = ranks >= self.ranks_before_key
        matching_places = self.order[own]
        places = np.zeros(len(self.order), np.int64)
        found = np.zeros(len(self.order), np.bool_)
        found[self.order] = found_sorted
        places[self.order[found_sorted]] = matching_places[ranks[found_sorted]]
        return places, found

    def latest(self, depth: int) -> Any:
        """Which rows are among the last `depth` matching ones of their key."""
        own = self.matching[self.order]
        ends = np.append(np.flatnonzero(np.diff(self.codes)), len(self.codes) - 1)
        sizes = np.diff(ends, prepend=-1)
        after = np.repeat(self.ranks[ends], sizes) - self.ranks
        result = np.zeros(len(self.order), np.bool_)
        result[self.order] = own & (after < depth)
        return result

    def frame_starts(self, length_ticks: int) -> Ints:
        """For each sorted row the first sorted place of its key after its timestamp - length."""
        times = self.times_ticks[self.order]
        instants, ranks = np.unique(times, return_inverse=True)
        # the first instant inside of the frame of each instant
        firsts = np.searchsorted(instants, instants - length_ticks, side="right")
        width = len(instants) + 1
        return np.searchsorted(self.codes * width + ranks, self.codes * width + firsts[ranks])
