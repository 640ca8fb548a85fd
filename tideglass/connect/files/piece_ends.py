"""How far a file can be read now: whole rows only, and about as many bytes as asked for.

Lines are cut after a line end, CSV after a row, Parquet after a row group. What cannot be read from its
middle (compressed files, Avro, JSON documents) is taken as a whole and once, as the service does with blobs
(`asa.md` 6.1); while it may grow, a document is taken when it ends as one does.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from tideglass.connect.files.file_format import FileFormat
from tideglass.connect.formats.csv import row_bounds
from tideglass.connect.formats.json.framing import BLANKS, BYTE_ORDER_MARK, is_document, layout_of
from tideglass.connect.formats.table import FORMATS
from tideglass.storage import FileStatus, StoragePath

HEAD_BYTES = 1 << 16
_BLOCK = 1 << 16
_CSV_BLOCK = 1 << 22


def may_hold_document(path: StoragePath, file_format: FileFormat, size: int) -> bool:
    """Whether a file is a document rather than lines, judged by its first `size` bytes only."""
    return FORMATS[file_format.name].documents and is_document(_head(path, size))


def is_taken_whole(path: StoragePath, file_format: FileFormat, size: int) -> bool:
    """Whether a file is read as a whole and once, judged by its first `size` bytes only."""
    return file_format.has_groups or file_format.is_whole or may_hold_document(path, file_format, size)


def _head(path: StoragePath, size: int) -> bytes:
    with path.open() as file:
        return file.read(min(HEAD_BYTES, size))


def _is_closed(path: StoragePath, size: int) -> bool:
    """Whether a JSON document ends as one does: with a bracket of the kind it begins with, or a comma."""
    begin = _head(path, size).removeprefix(BYTE_ORDER_MARK).lstrip(BLANKS)[:1]
    with path.open() as file:
        file.seek(max(0, size - HEAD_BYTES))
        return file.read(HEAD_BYTES).rstrip(BLANKS).endswith(b"]" if begin == b"[" else (b"}", b","))


def unread_bytes_of(
    path: StoragePath, file_format: FileFormat, read_to: int | None, status: FileStatus
) -> int:
    """Bytes of a file after `read_to` (None: never read) that may hold rows. status: of the file now."""
    if file_format.has_groups:
        return sum(row_group_bytes(path, status)[read_to or 0 :])
    if read_to is None or status.size == read_to:
        return status.size - (read_to or 0)
    if file_format.is_whole or may_hold_document(path, file_format, status.size):
        return 0
    return max(0, status.size - read_to)


def next_stop(
    path: StoragePath,
    status: FileStatus,
    file_format: FileFormat,
    begin: int,
    room: int | None,
    delimiter: str,
    finished: bool,
) -> tuple[int, int]:
    """Where to stop in a file read to `begin`, and the bytes up to there.

    status: of the file now.
    room: bytes wanted, at least one row is taken. finished: the last row may lack its line end.
    """
    size = status.size
    if file_format.has_groups:
        groups = row_group_bytes(path, status)
        stop, used = begin, 0
        while stop < len(groups) and (room is None or used == 0 or used < room):
            used += groups[stop]
            stop += 1
        return stop, used
    if file_format.is_whole:
        return size, size - begin
    if FORMATS[file_format.name].documents and begin == 0:
        layout = layout_of(_head(path, size))
        if layout is None and not finished:
            return 0, 0
        if layout == "document":
            return (size, size) if finished or _is_closed(path, size) else (0, 0)
    target = size if room is None else min(size, begin + room)
    if target == size and finished:
        return size, size - begin
    with path.open() as file:
        if FORMATS[file_format.name].parts == "rows":
            stop = _last_row_end(file, begin, target, size, delimiter)
        else:
            stop = _line_end_before(file, begin, target) or _line_end_after(file, target, size)
    if stop is None:
        stop = size if finished else begin
    return stop, stop - begin


@lru_cache(maxsize=65536)
def row_group_bytes(path: StoragePath, status: FileStatus) -> tuple[int, ...]:
    """Size of each row group; a file that is no Parquet counts as one, to be refused by the reader."""
    if status.size == 0:
        return ()
    try:
        with path.open() as file:
            metadata = cast("Any", pyarrow.parquet).read_metadata(file)
    except (pa.ArrowException, OSError):
        return (status.size,)
    groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
    return tuple(
        max(1, sum(group.column(column).total_compressed_size for column in range(group.num_columns)))
        for group in groups
    )


def _line_end_before(file: Any, begin: int, target: int) -> int | None:
    """The place after the last line end in [begin, target)."""
    stop = target
    while stop > begin:
        start = max(begin, stop - _BLOCK)
        file.seek(start)
        found = file.read(stop - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        stop = start
    return None


def _line_end_after(file: Any, target: int, size: int) -> int | None:
    start = target
    while start < size:
        file.seek(start)
        found = file.read(min(_BLOCK, size - start)).find(b"\n")
        if found >= 0:
            return start + found + 1
        start += _BLOCK
    return None


def _last_row_end(file: Any, begin: int, target: int, size: int, delimiter: str) -> int | None:
    """The end of the last whole CSV row before `target`, or of the first one if it is longer."""
    start, stop = begin, None
    length = _CSV_BLOCK
    while start < size and (stop is None or stop < target):
        file.seek(start)
        block = file.read(min(length, (target if target > start else size) - start))
        bounds = row_bounds(np.frombuffer(block, np.uint8), delimiter)
        if len(bounds) > 1:
            stop = start = start + int(bounds[-1])
            length = _CSV_BLOCK
        elif start + len(block) >= size:
            break
        elif start + len(block) >= target:
            if stop is not None:
                break
            target = min(size, target + length)
        else:
            length *= 2
    return stop
