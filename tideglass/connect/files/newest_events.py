"""The newest events of files, for people to look at: read beside a job, which knows nothing of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

from tideglass.connect.files.found_files import FoundFiles
from tideglass.connect.files.input import FileInput
from tideglass.connect.files.piece_ends import may_hold_document, next_stop, row_group_bytes
from tideglass.core.events import Chunk, Fields
from tideglass.core.positions import Piece
from tideglass.storage import FileStatus, StoragePath

#: Of a partition so many files are looked into, the newest first.
_MOST_FILES = 5


def newest_chunks(
    source: FileInput, fields: Fields, level: str, most_events: int, most_bytes: int, until: float
) -> Iterator[tuple[str, Chunk]]:
    """Events near the end of each partition, in its order, each chunk with the name of the partition.

    Of a file that can only be read from its start the events there are taken.
    most_events, most_bytes: of a partition, about. until: of `time.monotonic`.
    """
    source = replace(source, spec=source.spec.model_copy(update={"rotation": "none"}))
    files = FoundFiles.of(source.spec)
    for partition in files.partitions():
        found: list[list[Chunk]] = []
        left_bytes, left_events = most_bytes, most_events
        for name in reversed(files.names(partition)[-_MOST_FILES:]):
            if left_bytes <= 0 or left_events <= 0 or time.monotonic() >= until:
                break
            path = files.folder(partition) / name
            status = path.status()
            piece = None if status is None else _end_of(source, name, path, status, left_bytes)
            if piece is None:
                continue
            chunks: list[Chunk] = []
            for chunk in source.read(partition, [], [piece], fields, level):
                chunks.append(chunk)
                left_events -= chunk.table.num_rows
                left_bytes -= max(1, chunk.bytes_read)
                if left_bytes <= 0:
                    break
            found.append(chunks)
        for chunks in reversed(found):
            for chunk in chunks:
                yield partition, chunk


def _end_of(
    source: FileInput, name: str, path: StoragePath, status: FileStatus, most_bytes: int
) -> Piece | None:
    """The end of a file as a piece; None where nothing of it can be read yet."""
    file_format = source.format_of(path)
    begin, arrival_ticks = 0, status.modified_ns // 100
    if file_format.has_groups:
        groups = len(row_group_bytes(path, status))
        return Piece(name, max(0, groups - 1), groups, arrival_ticks) if groups else None
    in_parts = not file_format.is_whole and status.size > most_bytes
    if in_parts and not may_hold_document(path, file_format, status.size):
        begin = _line_begin(path, status.size - most_bytes, most_bytes)
    delimiter, finished = source.spec.delimiter, source.spec.finished
    end, _ = next_stop(path, status, file_format, begin, None, delimiter, finished)
    return Piece(name, begin, end, arrival_ticks) if end > begin else None


def _line_begin(path: StoragePath, place: int, most_bytes: int) -> int:
    """The beginning of the first line after a place; the place itself where the rest is one line."""
    with path.open() as file:
        file.seek(place)
        return place + file.read(most_bytes).find(b"\n") + 1
