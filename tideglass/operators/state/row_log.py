"""A log of rows by time in an operator's state: appended, read by bucket, dropped bucket by bucket.

Several logs share one `State`: each has every n-th bucket number. A bucket of many small chunks is
rewritten as one when the rows added since the last time outweigh those of then, so that every row is
rewritten a bounded number of times; `shed` may leave out rows that no longer matter.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tideglass.core.columns import unify
from tideglass.core.types import SYSTEM_TIMESTAMP
from tideglass.operators.state.store import State

#: Chunks of a bucket that are worth merging: below this the merge costs more than reading them.
CHUNKS_TO_MERGE = 16


def _all_of(rows: pa.Table) -> pa.Table:
    return rows


@dataclass(slots=True)
class RowLog:
    """Log `number` of `count` in a state; a bucket holds the rows of `width_ticks` by `$ts`."""

    state: State
    number: int
    count: int
    width_ticks: int
    shed: Callable[[pa.Table], pa.Table] = _all_of
    _sizes: dict[str, list[int]] = field(default_factory=dict[str, list[int]])

    def __post_init__(self) -> None:
        self._sizes = json.loads(self.state.get(f"sizes{self.number}") or b"{}")

    def buckets(self) -> list[int]:
        """Numbers of the buckets that hold rows, ascending."""
        return sorted(int(bucket) for bucket in self._sizes)

    def start_ticks(self, bucket: int) -> int:
        """The first instant of a bucket."""
        return bucket * self.width_ticks

    def append(self, rows: pa.Table) -> None:
        """Adds each row to its bucket; rows of a bucket stay in the order they are added in."""
        if rows.num_rows == 0:
            return
        buckets = rows[SYSTEM_TIMESTAMP].to_numpy() // self.width_ticks
        if (buckets[1:] < buckets[:-1]).any():
            order = np.argsort(buckets, kind="stable")
            rows, buckets = rows.take(pa.array(order)), buckets[order]
        starts = np.flatnonzero(np.diff(buckets, prepend=buckets[0] - 1))
        for start, stop in zip(starts, [*starts[1:], len(buckets)], strict=True):
            self._append_one(int(buckets[start]), rows.slice(int(start), int(stop - start)))

    def _append_one(self, bucket: int, chunk: pa.Table) -> None:
        self.state.append(self._place(bucket), chunk.combine_chunks())
        # chunks and rows since the last merge, rows of that merge
        sizes = self._sizes.setdefault(str(bucket), [0, 0, 0])
        sizes[0] += 1
        sizes[1] += chunk.num_rows
        if sizes[0] >= CHUNKS_TO_MERGE and sizes[1] >= sizes[2]:
            merged = self.shed(self.take(bucket)).combine_chunks()
            if merged.num_rows:
                self.state.append(self._place(bucket), merged)
                self._sizes[str(bucket)] = [0, 0, merged.num_rows]

    def read(self, bucket: int) -> pa.Table:
        """All rows of a bucket."""
        return unify(self.state.read(self._place(bucket)))

    def take(self, bucket: int) -> pa.Table:
        """All rows of a bucket, which is dropped."""
        del self._sizes[str(bucket)]
        return unify(self.state.take(self._place(bucket)))

    def drop_until(self, ticks: int) -> None:
        """Drops the buckets all of whose rows are at or before an instant."""
        for bucket in self.buckets():
            if self.start_ticks(bucket + 1) - 1 <= ticks:
                del self._sizes[str(bucket)]
                self.state.take(self._place(bucket))

    def save(self) -> None:
        """Writes what is known of the buckets; call it once at the end of a batch."""
        sizes = json.dumps(self._sizes, separators=(",", ":")).encode()
        if (self.state.get(f"sizes{self.number}") or b"{}") != sizes:
            self.state.put(f"sizes{self.number}", sizes)

    def _place(self, bucket: int) -> int:
        return bucket * self.count + self.number
