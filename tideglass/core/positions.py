"""How far inputs are read: positions, made of pieces.

A position only grows, at its end, so the pieces of an earlier position never change. It is written as JSON,
into Spark's log of offsets and beside the state, as an array of pieces; a piece is an array too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias


class Piece(NamedTuple):
    """A part of a partition that is read from its begin to its end.

    where: the file, below the folder of the partition; of other inputs what they call it.
    begin, end: [begin, end) in the input's unit: bytes, row groups of Parquet, rows, messages.
    arrival_ticks: when its events arrived; 0 where each event has an arrival time of its own.
    mark: by what the file is known again (`connect.files.file_marks`); None where there is no file, or where
        an earlier version has read it.
    """

    where: str
    begin: int
    end: int
    arrival_ticks: int
    mark: str | None = None

    @property
    def size(self) -> int:
        return self.end - self.begin

    @property
    def emptied(self) -> Piece:
        """The piece without its content: its place among the others is kept."""
        return self._replace(begin=self.end)


#: How far a partition is read: its pieces in the order in which they are read.
Position: TypeAlias = Sequence[Piece]
#: How far an input is read, by partition.
Positions: TypeAlias = Mapping[str, Position]
#: How far all inputs are read, by input and partition.
InputPositions: TypeAlias = Mapping[str, Positions]


def size_of(position: Position) -> int:
    """How much lies before a position, in the input's unit.

    >>> size_of([Piece("a.json", 0, 10, 5), Piece("b.json", 4, 6, 5)])
    12
    """
    return sum(piece.size for piece in position)
