"""Inputs whose events are numbered: rows of a table by a growing id, entries of a log, items of a list.

A class of such an input knows which partitions there are, how far each goes, and reads rows by their
numbers. From that follow batches, a restart to the event, and a start in the middle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from tideglass.connect.dataframes.input import ALONE, EVENTS_OF_A_MESSAGE, FrameSpec, chunk_of_frame
from tideglass.connect.source import SeekResult, StreamInput
from tideglass.core.events import Chunk, Fields
from tideglass.core.positions import Piece, Position, Positions
from tideglass.storage import StoragePath


class NumberedInput(StreamInput, Protocol):
    """An input whose events have numbers from 0, which grow within a partition and may leave some out.

    An event keeps its number and its content. A number that is less than the greatest one of the partition
    must not appear later: tables whose transactions end in another order than they number their rows must
    only be read up to where none is open.
    """

    def columns(self) -> FrameSpec:
        """The columns of `rows` with the number (`offset`, required), arrival and payload of an event."""
        ...

    def partitions(self) -> Sequence[str]:
        """Names of the partitions that exist now; one unless a class overrides it."""
        return [ALONE]

    def end(self, partition: str) -> int:
        """The number after that of the last event that is there now; 0 for none. Called on the driver."""
        ...

    def rows(self, partition: str, begin: int, end: int) -> pa.Table:
        """The events with numbers from `begin` to before `end`, ascending; the same at every call.

        Called in the tasks. Raises InputError for events that are no longer held.
        """
        ...

    def most_numbers(self) -> int:
        """How many numbers a batch takes at most, over all partitions."""
        return 1 << 20

    # ------------------------------------------------------------ what follows from these

    def latest(self, position: Positions, limit_bytes: int | None = None) -> dict[str, list[Piece]]:
        """All that is there beyond `position`, or with a limit at most `most_numbers` of it."""
        ends = {name: self.end(name) for name in dict.fromkeys((*self.partitions(), *position))}
        return _up_to(ends, position, None if limit_bytes is None else self.most_numbers())

    def read(
        self,
        partition: str,
        start: Position,
        end: Position,
        fields: Fields,
        level: str = "1.2",
    ) -> Iterator[Chunk]:
        columns, stop, step = self.columns(), _number(end), self.most_numbers()
        for begin in range(_number(start), stop, step):
            rows = self.rows(partition, begin, min(stop, begin + step))
            if rows.num_rows:
                yield chunk_of_frame(rows, columns, fields, level)

    def ended(self, position: Positions) -> frozenset[str]:
        return frozenset(
            name for name in self.partitions() if self.end(name) <= _number(position.get(name, ()))
        )

    def reading_again(self, recorded: Positions) -> StreamInput:
        return ReadAgain(self.name, self, recorded) if recorded else self

    def place_of(self, partition: str, pieces: Position, offset: int) -> SeekResult:
        spread = 1 if self.columns().payload is None else EVENTS_OF_A_MESSAGE
        return SeekResult(_position(offset // spread), offset // spread * spread)


@dataclass(frozen=True, slots=True)
class ReadAgain(StreamInput):
    """A numbered input that first reads what an earlier run has read.

    recorded: how far that run had read each partition.
    """

    name: str
    source: NumberedInput
    recorded: Positions

    def identity(self, directory: StoragePath) -> Mapping[str, Any]:
        return self.source.identity(directory)

    def partitions(self) -> Sequence[str]:
        return self.source.partitions()

    def is_replayed(self, position: Positions) -> bool:
        return all(_number(position.get(name, ())) >= _number(end) for name, end in self.recorded.items())

    def latest(self, position: Positions, limit_bytes: int | None = None) -> Positions:
        if self.is_replayed(position):
            return self.source.latest(position, limit_bytes)
        ends = {name: _number(self.recorded.get(name, ())) for name in (*position, *self.recorded)}
        return _up_to(ends, position, None if limit_bytes is None else self.source.most_numbers())

    def read(
        self,
        partition: str,
        start: Position,
        end: Position,
        fields: Fields,
        level: str = "1.2",
    ) -> Iterator[Chunk]:
        return self.source.read(partition, start, end, fields, level)

    def ended(self, position: Positions) -> frozenset[str]:
        return self.source.ended(position)

    def place_of(self, partition: str, pieces: Position, offset: int) -> SeekResult:
        return self.source.place_of(partition, pieces, offset)


def _up_to(ends: Mapping[str, int], position: Positions, most: int | None) -> dict[str, list[Piece]]:
    """Positions at `ends`, or after `most` numbers beyond `position` in all."""
    read = {name: _number(position.get(name, ())) for name in ends}
    found = {name: max(read[name], end) for name, end in ends.items()}
    if most is not None:
        # Partitions with least to read first: what they leave of their share goes to the others.
        by_size = sorted(found, key=lambda name: found[name] - read[name])
        for place, name in enumerate(by_size):
            found[name] = min(found[name], read[name] + max(1, most // (len(by_size) - place)))
            most -= found[name] - read[name]
    return {name: _position(end) for name, end in found.items()}


def _number(position: Position) -> int:
    """The first number that is not read."""
    return position[0].end if position else 0


def _position(number: int) -> list[Piece]:
    """All events before a number, as one piece that grows."""
    return [Piece("", 0, number, 0)] if number else []
