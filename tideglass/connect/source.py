"""What a job asks of an input, of whatever kind; an input of a new kind is one class.

on the driver    partitions, latest ──▶ positions of the next batch; seek, place_of, gone ──▶ a start
in the tasks     read(partition, from, to) ──▶ chunks of events

Who has numbered events need not write these: see `connect.numbered`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, Self, cast

from tideglass.core.events import Chunk, Fields
from tideglass.core.positions import Piece, Position, Positions
from tideglass.core.types import ARRIVAL, OFFSET, PARTITION

if TYPE_CHECKING:
    from tideglass.connect.kafka.topic import TopicInput
    from tideglass.storage import StoragePath


@dataclass(frozen=True, slots=True)
class SeekResult:
    """A place in a partition: the position before it, and the least offset an event after it can have."""

    position: list[Piece]
    next_offset: int


class InputConnector(Protocol):
    """An input: one that Spark's own connector reads, or a stream of ours. A frozen dataclass."""

    #: The input's name in the query.
    name: str

    def as_topic(self) -> TopicInput | None:
        """The input itself if Spark's connector for Kafka reads it; else None."""
        return None

    def as_stream(self) -> StreamInput | None:
        """The input itself if tideglass reads it; else None."""
        return None

    @property
    def known_columns(self) -> tuple[str, ...]:
        """Columns of the engine that the input itself knows of every event (`asa.md` 4.9)."""
        return (PARTITION,)

    def named(self, name: str) -> Self:
        """The same under the name a query has for it, which may differ in case."""
        return cast("Self", replace(cast("Any", self), name=name))

    def storage_settings(self) -> Mapping[str, str]:
        """What lets processes of the run into the object store it reads from, as Hadoop's settings.

        They may hold secrets. Raises ProjectError for one that the environment has not.
        """
        return {}

    def identity(self, directory: StoragePath) -> Mapping[str, Any]:
        """What identifies this input, as JSON, for the manifest in `directory`. Holds no secrets."""
        ...


class StreamInput(InputConnector, Protocol):
    """An input of partitions and positions. Picklable: it is asked in several processes.

    A class that names this one as its base need write only what its input does otherwise.
    """

    def as_stream(self) -> StreamInput:
        return self

    @property
    def arrives_with_piece(self) -> bool:
        """Whether all events of a piece arrive at the time of the piece; else each has its own."""
        return False

    def until_its_end(self) -> StreamInput:
        """The same input for a run that ends with what is there."""
        return self

    def partitions(self) -> Sequence[str]:
        """Names of the partitions that exist now. Raises InputError for an input that is not there."""
        ...

    def latest(self, position: Positions, limit_bytes: int | None = None) -> Positions:
        """`position` of every partition and what is there beyond it, up to about `limit_bytes`.

        Called on the driver. What an earlier run has read, see `reading_again`, is read before all else.
        """
        ...

    def read(
        self,
        partition: str,
        start: Position,
        end: Position,
        fields: Fields,
        level: str = "1.2",
    ) -> Iterator[Chunk]:
        """The events of a partition between two of its positions; the same at every call.

        Called in the tasks. Raises InputError for events that are gone.
        """
        ...

    def ended(self, position: Positions) -> frozenset[str]:
        """The partitions that hold nothing beyond `position`. Asked in a run to the end of its inputs."""
        ...

    def is_replayed(self, position: Positions) -> bool:
        """Whether what an earlier run has read, as far as it is to be read again, is read."""
        return True

    def reading_again(self, recorded: Positions) -> StreamInput:
        """The same input, which first reads what an earlier run has read, in that order."""
        return self

    def gone(self, partition: str, pieces: Position) -> list[int]:
        """Which of the pieces, by their places in the list, can no longer be read."""
        return []

    def seek(self, partition: str, pieces: Position, from_ticks: int | None) -> SeekResult:
        """The place of the first event of `pieces` that arrived at `from_ticks` or later; None: of the first.

        Raises InputError for events that are gone.
        """
        if from_ticks is None:
            return SeekResult([], 0)
        next_offset = 0
        for chunk in self.read(partition, [], pieces, Fields()):
            arrived = chunk.table[ARRIVAL].to_numpy() >= from_ticks
            offsets = chunk.table[OFFSET].to_numpy()
            if arrived.any():
                return self.place_of(partition, pieces, int(offsets[arrived.argmax()]))
            next_offset = int(offsets[-1]) + 1 if len(offsets) else next_offset
        return SeekResult(list(pieces), next_offset)

    def place_of(self, partition: str, pieces: Position, offset: int) -> SeekResult:
        """A place from which reading begins with the event at `offset` at the latest."""
        return SeekResult([], 0)
