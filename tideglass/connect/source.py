"""What a driver asks of a stream input, whatever stands behind it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from tideglass.core.events import Chunk, Fields

#: How far a partition is read: plain JSON, a list of pieces `[where, begin, end, arrival]` that only grows.
PartitionPosition: TypeAlias = Sequence[Sequence[Any]]


class StreamInput(Protocol):
    """An input of partitions and positions. Picklable: it is asked in several processes."""

    @property
    def name(self) -> str:
        """The input's name in the query."""
        ...

    def latest(
        self, position: Mapping[str, PartitionPosition], limit_bytes: int | None = None
    ) -> Mapping[str, PartitionPosition]:
        """`position` of every partition and what is there beyond it, up to about `limit_bytes`."""
        ...

    def read(
        self,
        partition: str,
        start: PartitionPosition,
        end: PartitionPosition,
        fields: Fields,
        level: str = "1.2",
    ) -> Iterator[Chunk]:
        """The events of a partition between two of its positions; the same at every call."""
        ...

    def is_replayed(self, position: Mapping[str, PartitionPosition]) -> bool:
        """Whether what an earlier run has read, as far as it is to be read again, is read."""
        ...

    def ended(self, position: Mapping[str, PartitionPosition]) -> frozenset[str]:
        """The partitions that will give nothing beyond `position`; none while the input is not finished."""
        ...
