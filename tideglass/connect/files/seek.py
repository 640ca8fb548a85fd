"""Finding where in a partition of files the events that arrived from some time on begin.

By an arrival field the events themselves are looked at, that one field of them, up to the first that
arrived late enough; without one the files' modification times decide. What cannot be read from its middle
(compressed files, JSON documents, row groups of Parquet) is read from its beginning: to read more than is
needed changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pyarrow.parquet

from tideglass.connect.files.piece_ends import HEAD_BYTES, may_hold_document
from tideglass.connect.files.reading import OFFSET_BITS
from tideglass.connect.formats.table import FORMATS
from tideglass.connect.source import SeekResult
from tideglass.core.events import Fields
from tideglass.core.positions import Piece, Position
from tideglass.core.types import ARRIVAL, OFFSET
from tideglass.storage import StoragePath

if TYPE_CHECKING:
    from tideglass.connect.files.input import FileInput


def seek(source: FileInput, partition: str, pieces: Position, from_ticks: int | None) -> SeekResult:
    """The place of the first event of `pieces` that arrived at `from_ticks` or later; None: of the first.

    Raises InputError for a file that is gone.
    """
    if from_ticks is None:
        return SeekResult([], 0)
    if not source.spec.has_arrivals:
        ordinal = next(
            (n for n, piece in enumerate(pieces) if piece.arrival_ticks >= from_ticks), len(pieces)
        )
        return SeekResult(list(pieces[:ordinal]), ordinal << OFFSET_BITS)
    for chunk in source.read(partition, [], pieces, Fields((), False)):
        arrived = chunk.table[ARRIVAL].to_numpy() >= from_ticks
        if arrived.any():
            offset = int(chunk.table[OFFSET].to_numpy()[arrived.argmax()])
            return place_of(source, partition, pieces, offset)
    return SeekResult(list(pieces), len(pieces) << OFFSET_BITS)


def place_of(source: FileInput, partition: str, pieces: Position, offset: int) -> SeekResult:
    """A place from which reading begins with the event at `offset` at the latest."""
    ordinal, place = offset >> OFFSET_BITS, offset & ((1 << OFFSET_BITS) - 1)
    before = list(pieces[:ordinal])
    if ordinal < len(pieces):
        piece = pieces[ordinal]
        cut, first = _cut(source, partition, piece, place)
        if piece.begin < cut <= piece.end:
            return SeekResult([*before, piece._replace(end=cut)], (ordinal << OFFSET_BITS) | first)
    return SeekResult(before, ordinal << OFFSET_BITS)


def _cut(source: FileInput, partition: str, piece: Piece, place: int) -> tuple[int, int]:
    """Where to begin in a file so that the event at `place` is read, and the place that is then first."""
    file_format = source.format_of(source.path_of(partition, piece.where))
    path = source.file_of(partition, piece)
    if file_format.has_groups:
        return _row_group(path, place)
    status = path.status()
    if status is None:
        raise FileNotFoundError(str(path))
    if file_format.is_whole or may_hold_document(path, file_format, status.size):
        return 0, 0
    begin = _line_begin(path, place) if FORMATS[file_format.name].parts == "lines" else place
    return begin, begin


def _line_begin(path: StoragePath, place: int) -> int:
    """Where the line begins that a place is on: a line may hold several events."""
    with path.open() as file:
        begin = place
        while begin > 0:
            start = max(0, begin - HEAD_BYTES)
            file.seek(start)
            found = file.read(begin - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            begin = start
    return 0


def _row_group(path: StoragePath, row: int) -> tuple[int, int]:
    """The row group a row is in, and its first row."""
    with path.open() as file:
        metadata = cast("Any", pyarrow.parquet).read_metadata(file)
    first = 0
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group).num_rows
        if row < first + rows:
            return group, first
        first += rows
    return metadata.num_row_groups, first
