"""Logs of rows by time in an operator's state: appended, read by bucket, dropped bucket by bucket.

Several logs share one `State`: log `number` of `count` has every n-th bucket number. A bucket is rewritten
only to merge it, when it has many chunks and the rows added since the last time outweigh those merged then
(so that every row is rewritten a bounded number of times), or to leave out rows that are done.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Ints
from tideglass.core.columns import unify
from tideglass.core.time import AFTER_ALL_TICKS, BEFORE_ALL_TICKS
from tideglass.core.types import SYSTEM_TIMESTAMP
from tideglass.operators.state.store import State


@dataclass(slots=True)
class BucketLog:
    """Rows in buckets that the caller numbers.

    number, count: which of the logs of the state this is
    stack: the rows of several chunks of a bucket as one table
    merge: what is left of the rows of a bucket when it is rewritten
    chunks_to_merge: below so many chunks merging a bucket costs more than reading them
    """

    state: State
    number: int
    count: int
    stack: Callable[[Sequence[pa.Table]], pa.Table]
    merge: Callable[[pa.Table], pa.Table]
    chunks_to_merge: int
    #: By the text of the bucket's number: chunks and rows since the last merge, rows of that merge.
    _sizes: dict[str, list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self._sizes = json.loads(self.state.get(self._sizes_name) or b"{}")

    def buckets(self) -> list[int]:
        """Numbers of the buckets that hold rows, ascending."""
        return sorted(int(bucket) for bucket in self._sizes)

    @property
    def first_bucket(self) -> int | None:
        """The least number of a bucket that holds rows; None without rows."""
        return min(map(int, self._sizes), default=None)

    @property
    def rows_held(self) -> int:
        """How many rows all buckets hold."""
        return sum(added + merged for _, added, merged in self._sizes.values())

    def append(self, rows: pa.Table, buckets: Ints) -> None:
        """Adds each row to its bucket; rows of a bucket stay in the order they are added in."""
        if rows.num_rows == 0:
            return
        if (buckets[1:] < buckets[:-1]).any():
            order = np.argsort(buckets, kind="stable")
            rows, buckets = rows.take(pa.array(order)), buckets[order]
        starts = np.flatnonzero(np.diff(buckets, prepend=buckets[0] - 1))
        for start, stop in zip(starts, [*starts[1:], len(buckets)], strict=True):
            self._append_one(int(buckets[start]), rows.slice(int(start), int(stop - start)))

    def _append_one(self, bucket: int, chunk: pa.Table) -> None:
        self.state.append(self._place(bucket), chunk.combine_chunks())
        sizes = self._sizes.setdefault(str(bucket), [0, 0, 0])
        sizes[0] += 1
        sizes[1] += chunk.num_rows
        if sizes[0] >= self.chunks_to_merge and sizes[1] >= sizes[2]:
            self.replace(bucket, self.merge(self.read(bucket)))

    def read(self, bucket: int) -> pa.Table:
        """All rows of a bucket."""
        return self.stack(self.state.read(self._place(bucket)))

    def replace(self, bucket: int, rows: pa.Table) -> None:
        """The bucket holds these rows and nothing else."""
        self.drop([bucket])
        if rows.num_rows:
            self.state.append(self._place(bucket), rows.combine_chunks())
            self._sizes[str(bucket)] = [0, 0, rows.num_rows]

    def drop(self, buckets: Iterable[int]) -> None:
        for bucket in buckets:
            del self._sizes[str(bucket)]
            self.state.take(self._place(bucket))

    def save(self) -> None:
        """Writes what is known of the buckets; call it once at the end of a batch."""
        sizes = json.dumps(self._sizes, separators=(",", ":")).encode()
        if (self.state.get(self._sizes_name) or b"{}") != sizes:
            self.state.put(self._sizes_name, sizes)

    def get_ticks(self, name: str) -> int | None:
        """A named instant of this log; None if it was never put."""
        held = self.state.get(f"{name}{self.number}")
        return int.from_bytes(held, "little", signed=True) if held else None

    def put_ticks(self, name: str, ticks: int) -> None:
        if self.get_ticks(name) != ticks:
            self.state.put(f"{name}{self.number}", ticks.to_bytes(8, "little", signed=True))

    @property
    def _sizes_name(self) -> str:
        return f"sizes{self.number}"

    def _place(self, bucket: int) -> int:
        return bucket * self.count + self.number


def _all_of(rows: pa.Table) -> pa.Table:
    return rows


class RowLog(BucketLog):
    """Rows by `$ts`: a bucket holds those of `width_ticks`.

    shed: of the rows of a bucket those that still matter, asked when it is rewritten.
    """

    def __init__(
        self,
        state: State,
        number: int,
        count: int,
        width_ticks: int,
        shed: Callable[[pa.Table], pa.Table] = _all_of,
    ) -> None:
        super().__init__(state, number, count, unify, shed, chunks_to_merge=16)
        self.width_ticks = width_ticks

    def add(self, rows: pa.Table) -> None:
        """Adds each row to the bucket of its time."""
        self.append(rows, rows[SYSTEM_TIMESTAMP].to_numpy() // self.width_ticks)

    def start_ticks(self, bucket: int) -> int:
        """The first instant of a bucket."""
        return bucket * self.width_ticks

    @property
    def oldest_ticks(self) -> int | None:
        """The start of the first bucket that holds rows; None without rows."""
        bucket = self.first_bucket
        return None if bucket is None else self.start_ticks(bucket)

    def read_all(
        self, first_ticks: int = BEFORE_ALL_TICKS, last_ticks: int = AFTER_ALL_TICKS
    ) -> list[pa.Table]:
        """The rows of every bucket that may hold one from `first_ticks` to `last_ticks`, by bucket."""
        first, last = first_ticks // self.width_ticks, last_ticks // self.width_ticks
        return [self.read(bucket) for bucket in self.buckets() if first <= bucket <= last]

    def drop_until(self, ticks: int) -> None:
        """Drops the buckets all of whose rows are at or before an instant."""
        self.drop([bucket for bucket in self.buckets() if self.start_ticks(bucket + 1) - 1 <= ticks])
