"""The state of one window of a step: partial aggregates in time buckets, appended and dropped whole.

Several windows of one step share one `State`; each has every n-th bucket number. A bucket is rewritten
only to merge it, when it has many chunks and the rows added since the last time outweigh those merged
then (so that every row is rewritten a bounded number of times), or to shed rows that are done.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Ints
from tideglass.operators.aggregates.grouping import GroupKeys, stack
from tideglass.operators.state.store import State

#: Chunks of a bucket that are worth merging: below this the merge costs more than reading them.
CHUNKS_TO_MERGE = 32


@dataclass(slots=True)
class WindowLog:
    """Buckets of window `number` out of `count` in a state; `grouping` says which rows merge."""

    state: State
    number: int
    count: int
    grouping: GroupKeys
    _sizes: dict[str, list[int]] = field(default_factory=dict[str, list[int]])

    def __post_init__(self) -> None:
        self._sizes = json.loads(self.state.get(f"sizes{self.number}") or b"{}")

    def buckets(self) -> list[int]:
        """Numbers of this window's buckets that hold rows, ascending."""
        return [bucket // self.count for bucket in self.state.buckets() if bucket % self.count == self.number]

    def read(self, bucket: int) -> pa.Table:
        """All rows of a bucket."""
        return stack(self.state.read(self._place(bucket)), self.grouping.keys)

    def append(self, buckets: Ints, rows: pa.Table) -> None:
        """Adds each row to its bucket."""
        if rows.num_rows == 0:
            return
        order = np.argsort(buckets, kind="stable")
        ordered = buckets[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=ordered[0] - 1))
        sorted_rows = rows if len(starts) == 1 else rows.take(pa.array(order))
        for start, stop in zip(starts, [*starts[1:], len(ordered)], strict=True):
            self._append_one(int(ordered[start]), sorted_rows.slice(int(start), int(stop - start)))

    def _append_one(self, bucket: int, chunk: pa.Table) -> None:
        self.state.append(self._place(bucket), chunk)
        # chunks and rows since the last merge, rows of that merge
        sizes = self._sizes.setdefault(str(bucket), [0, 0, 0])
        sizes[0] += 1
        sizes[1] += chunk.num_rows
        if sizes[0] >= CHUNKS_TO_MERGE and sizes[1] >= sizes[2]:
            self.replace(bucket, self.grouping.merge(self.read(bucket)))

    def replace(self, bucket: int, rows: pa.Table) -> None:
        """The bucket holds these rows and nothing else."""
        self.state.take(self._place(bucket))
        self._sizes.pop(str(bucket), None)
        if rows.num_rows:
            self.state.append(self._place(bucket), rows)
            self._sizes[str(bucket)] = [0, 0, rows.num_rows]

    def drop(self, buckets: Sequence[int]) -> None:
        for bucket in buckets:
            self.state.take(self._place(bucket))
            self._sizes.pop(str(bucket), None)

    def get_ticks(self, name: str) -> int | None:
        """A named instant of this window."""
        held = self.state.get(f"{name}{self.number}")
        return int.from_bytes(held, "little", signed=True) if held else None

    def put_ticks(self, name: str, ticks: int) -> None:
        if self.get_ticks(name) != ticks:
            self.state.put(f"{name}{self.number}", ticks.to_bytes(8, "little", signed=True))

    def save(self) -> None:
        """Writes what is known of the buckets' sizes; call it once at the end of a batch."""
        sizes: Any = json.dumps(self._sizes, separators=(",", ":")).encode()
        if self.state.get(f"sizes{self.number}") != sizes:
            self.state.put(f"sizes{self.number}", sizes)

    def _place(self, bucket: int) -> int:
        return bucket * self.count + self.number
