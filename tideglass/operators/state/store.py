"""State of an operator: an append-only log of Arrow chunks per time bucket, and small named values.

The interface is what Spark's MapState and ValueState can serve cheaply: append a chunk, read or drop
a whole bucket. Nothing is rewritten except to compact. `MemoryState` serves the in-process driver.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Ints


class State(Protocol):
    """What a kernel may do with its state."""

    def append(self, bucket: int, chunk: pa.Table) -> None:
        """Add a chunk to the end of a bucket's log."""
        ...

    def buckets(self) -> list[int]:
        """Buckets that hold at least one chunk, ascending."""
        ...

    def read(self, bucket: int) -> list[pa.Table]:
        """The bucket's chunks in the order they were appended; empty if there are none."""
        ...

    def take(self, bucket: int) -> list[pa.Table]:
        """Read the bucket and drop it."""
        ...

    def get(self, name: str) -> bytes | None:
        """A small named value, None if it was never put."""
        ...

    def put(self, name: str, value: bytes) -> None:
        """Set a small named value."""
        ...


def next_numbers(state: State, count: int) -> Ints:
    """So many numbers that no row of the state has had before; they name rows inside of it."""
    held = state.get("next")
    first = 0 if held is None else int.from_bytes(held, "little")
    state.put("next", (first + count).to_bytes(8, "little"))
    return np.arange(first, first + count, dtype=np.int64)


class MemoryState:
    """State in this process's memory."""

    def __init__(self) -> None:
        self._chunks: dict[int, list[pa.Table]] = {}
        self._values: dict[str, bytes] = {}

    def append(self, bucket: int, chunk: pa.Table) -> None:
        self._chunks.setdefault(bucket, []).append(chunk)

    def buckets(self) -> list[int]:
        return sorted(self._chunks)

    def read(self, bucket: int) -> list[pa.Table]:
        return list(self._chunks.get(bucket, ()))

    def take(self, bucket: int) -> list[pa.Table]:
        return self._chunks.pop(bucket, [])

    def get(self, name: str) -> bytes | None:
        return self._values.get(name)

    def put(self, name: str, value: bytes) -> None:
        self._values[name] = value


class CachedState:
    """A state whose named values are read once: for one batch, in which nobody else writes them.

    A named value is read several times in a batch, and a store outside of the process answers each time.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._values: dict[str, bytes | None] = {}

    def append(self, bucket: int, chunk: pa.Table) -> None:
        self._state.append(bucket, chunk)

    def buckets(self) -> list[int]:
        return self._state.buckets()

    def read(self, bucket: int) -> list[pa.Table]:
        return self._state.read(bucket)

    def take(self, bucket: int) -> list[pa.Table]:
        return self._state.take(bucket)

    def get(self, name: str) -> bytes | None:
        if name not in self._values:
            self._values[name] = self._state.get(name)
        return self._values[name]

    def put(self, name: str, value: bytes) -> None:
        self._values[name] = value
        self._state.put(name, value)
