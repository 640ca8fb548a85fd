"""Reading one piece of a file inside a task: blocks of whole rows, decoded one after the other."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from tideglass.connect.files.capture import read_capture
from tideglass.connect.files.file_format import Packing, packing_of
from tideglass.connect.files.file_marks import FileMark, check_unchanged
from tideglass.connect.files.piece_ends import HEAD_BYTES
from tideglass.connect.files.unpacking import ByteReader, Unpacked
from tideglass.connect.formats.arrival import arrival_ticks
from tideglass.connect.formats.avro import container_blocks, decode_records
from tideglass.connect.formats.csv import decode_csv, read_header, row_bounds
from tideglass.connect.formats.decoded import (
    INVALID_COMPRESSION,
    INVALID_DATA,
    INVALID_HEADER,
    LINE,
    Decoded,
    Refusals,
    column_name,
)
from tideglass.connect.formats.json.decode import decode_json
from tideglass.connect.formats.json.document import next_beginning, parts_of
from tideglass.connect.formats.json.framing import is_document, newlines, texts_between
from tideglass.connect.formats.json.mixed import decode_lines
from tideglass.connect.formats.parquet import decode_parquet, wanted_columns
from tideglass.connect.formats.payloads import Payload
from tideglass.connect.formats.table import FORMATS, function
from tideglass.connect.spec import Arrival
from tideglass.core import profile
from tideglass.core.arrays import Bytes, Ints
from tideglass.core.errors import InputError
from tideglass.core.events import Chunk, Fields
from tideglass.core.types import ARRIVAL, OFFSET, Type, field
from tideglass.storage import storage_path

#: Bytes read at once, about: some 100 000 events of a usual size, so that what a block costs is little of it,
#: and little enough to stay in the cache.
BLOCK_BYTES = 1 << 24
#: Events decoded at once, about.
BLOCK_EVENTS = 1 << 17
#: A row longer than this is refused; the service takes events of up to 1 MB.
LONGEST_ROW_BYTES = 1 << 28
#: Of an offset, the bits that count bytes (or rows) within a file; those above count files.
OFFSET_BITS = 40


#: Reads a part of a file: piece, file (unpacked), fields that are asked for, compatibility level. Returns the
#: events block by block, each with the bytes it has read; `$line` of an event is its place in the file.
Read: TypeAlias = Callable[["FilePiece", ByteReader, Fields, str], Iterator[tuple[Decoded, int]]]
#: Decodes lines: texts, the place of each in its file, fields that are asked for, compatibility level.
DecodeLines: TypeAlias = Callable[[pa.Array, Ints, Fields, str], Decoded]


@dataclass(frozen=True, slots=True)
class FilePiece:
    """A part of a file.

    path: where the file is, as a path or URI.
    format: a name of FORMATS.
    begin, end: the part, `end` excluded: in bytes, or in groups of rows.
    ordinal: counts the pieces of the partition.
    arrival_time_ticks: when the events arrived, where no event has a time of its own.
    delimiter: of CSV.
    arrival: the field with the time of arrival; None: see `arrival_time_ticks`.
    file: the path below that of the input's partition, the same wherever the input lies.
    input: whose file it is.
    mark: by what the file is known again; None where it need not be.
    may_be_copied: the content of the file alone counts.
    packing: how the file is compressed; None: as its name shows.
    captured: how the messages of Event Hubs Capture in it hold their events; None: it holds events.
    partition: the name of the input's partition.
    """

    path: str
    format: str
    begin: int
    end: int
    ordinal: int
    arrival_time_ticks: int
    delimiter: str = ","
    arrival: Arrival | None = None
    file: str = ""
    input: str = ""
    mark: FileMark | None = None
    may_be_copied: bool = True
    packing: Packing | None = None
    captured: Payload | None = None
    partition: str = "0"

    @property
    def packed_as(self) -> Packing:
        return packing_of(self.path) if self.packing is None else self.packing

    def check(self) -> None:
        """Raises InputError if the file is no longer the one the position was taken of."""
        if self.mark is None:
            return
        path = storage_path(self.path)
        status = path.status()
        if status is None:
            raise FileNotFoundError(self.path)
        check_unchanged(self.input, path, status, self.mark, finished=self.may_be_copied)


def read_piece(piece: FilePiece, fields: Fields, level: str = "1.2") -> Iterator[Chunk]:
    """The events of a piece. Raises InputError if the file is gone, or not the one it was."""
    wanted = fields
    if piece.arrival is not None and piece.arrival.path not in fields.paths:
        wanted = replace(fields, paths=(*fields.paths, piece.arrival.path))
    try:
        piece.check()
        sources = 1 if piece.begin == 0 else 0
        for decoded, bytes_read in _decoded(piece, wanted, level):
            yield replace(_chunk(decoded, bytes_read, piece, fields), sources=sources)
            sources = 0
        piece.check()  # it may have been rewritten meanwhile
    except FileNotFoundError as error:
        raise InputError(f"{piece.path} was there when its position was taken, but is gone") from error


def _chunk(decoded: Decoded, bytes_read: int, piece: FilePiece, fields: Fields) -> Chunk:
    table, rejected = decoded.table, decoded.rejected
    offsets = table[LINE].to_numpy() | (piece.ordinal << OFFSET_BITS)
    if piece.captured is not None:
        arrival: Ints = table[ARRIVAL].to_numpy()
        table = table.drop_columns([ARRIVAL])
    elif piece.arrival is None:
        arrival = np.full(table.num_rows, piece.arrival_time_ticks, np.int64)
    else:
        name = column_name(piece.arrival.path)
        arrival, readable = arrival_ticks(table, name, piece.arrival.format)
        if not readable.all():
            refusals = Refusals()
            shown = table[name].filter(pa.array(~readable)).slice(0, 3).to_pylist()
            message = f"the arrival field {'.'.join(piece.arrival.path)} is missing or holds no time"
            refusals.add(INVALID_DATA, message, table[LINE].to_numpy()[~readable], shown)
            rejected = (*rejected, *refusals.all())
            table, arrival, offsets = table.filter(pa.array(readable)), arrival[readable], offsets[readable]
        if piece.arrival.path not in fields.paths:
            table = table.drop_columns([name])
    table = table.drop_columns([LINE])
    table = table.append_column(field(ARRIVAL, Type.DATETIME), pa.array(arrival, pa.int64()))
    table = table.append_column(field(OFFSET, Type.BIGINT), pa.array(offsets, pa.int64()))
    return Chunk(table, rejected, bytes_read, piece.file)


def _decoded(piece: FilePiece, fields: Fields, level: str) -> Iterator[tuple[Decoded, int]]:
    read = cast("Read", function(FORMATS[piece.format].read))
    with storage_path(piece.path).open() as raw:
        if piece.captured is not None:
            yield from _captured(piece, piece.captured, raw, fields, level)
            return
        packing = piece.packed_as
        packed = Unpacked(raw, piece.end, packing) if packing else None
        yield from read(piece, cast("ByteReader", raw) if packed is None else packed, fields, level)
        if packed is not None and packed.broken is not None:
            refusals = Refusals()
            message = f"the file is not valid {packing}: {packed.broken}"
            refusals.add(INVALID_COMPRESSION, message, [0], [piece.path])
            yield decode_nothing(fields, level, refusals), 0


def _captured(
    piece: FilePiece, payload: Payload, raw: object, fields: Fields, level: str
) -> Iterator[tuple[Decoded, int]]:
    size = piece.end
    for decoded in read_capture(raw, piece.path, piece.partition, payload, fields, level):
        yield decoded, size
        size = 0


def decode_nothing(fields: Fields, level: str, refusals: Refusals) -> Decoded:
    """No events, but refusals."""
    return Decoded(decode_json(pa.array([], pa.string()), fields, level).table, refusals.all())


# ---------------------------------------------------------------- lines


def read_lines(
    piece: FilePiece, file: ByteReader, fields: Fields, level: str, decode: DecodeLines
) -> Iterator[tuple[Decoded, int]]:
    """The events of a piece whose lines are events each, or several, by `decode`."""
    file.seek(piece.begin)
    for data, bounds, offset in _blocks(file, piece.begin, _end(piece), _line_bounds, piece.path):
        if len(bounds) == 0:
            yield decode_nothing(fields, level, _too_long(offset)), 0
        for part in _even_parts(bounds):
            texts = texts_between(data, part)
            yield decode(texts, part[:-1] + offset, fields, level), int(part[-1] - part[0])


def _end(piece: FilePiece) -> int | None:
    """Where the piece ends; None for a compressed file, which is read to its end."""
    return None if piece.packed_as else piece.end


# ---------------------------------------------------------------- JSON


def read_json(
    piece: FilePiece, file: ByteReader, fields: Fields, level: str
) -> Iterator[tuple[Decoded, int]]:
    """The events of lines, or of a document."""
    end = _end(piece)
    if piece.begin == 0 and is_document(file.read(min(HEAD_BYTES, HEAD_BYTES if end is None else end))):
        file.seek(0)
        yield from _document(piece, file, end, fields, level)
    else:
        yield from read_lines(piece, file, fields, level, decode_lines)


def _document(
    piece: FilePiece, file: ByteReader, end: int | None, fields: Fields, level: str
) -> Iterator[tuple[Decoded, int]]:
    """The events of a document, block by block; what of a block is not whole goes to the next one."""
    data, place, inside, skipping, size = np.zeros(0, np.uint8), 0, False, False, 0
    last = False
    while not last:
        wanted = BLOCK_BYTES if end is None else min(BLOCK_BYTES, end - place - len(data))
        with profile.part("reading inputs"):
            block = np.frombuffer(file.read(wanted), np.uint8)
        if len(block) < wanted and end is not None:
            raise _shorter(piece.path, place + len(data) + len(block), end)
        data, size = np.concatenate((data, block)), size + len(block)
        last = len(block) == 0 if end is None else place + len(data) == end
        if skipping:  # the rest of an event that is too long
            beginning = next_beginning(data)
            skipping = beginning is None
            done = beginning if beginning is not None else len(data) - int(data[-1:].tobytes() == b"\n")
            data, place = data[done:], place + done
        found = parts_of(data, inside, last and not _breaks_off(file))
        texts, starts = found.texts(data)
        rest = np.array([found.done, len(data)])
        if last and found.done < len(data) and _is_whole(file, data[found.done :]):
            texts, starts = pa.concat_arrays([texts, texts_between(data, rest)]), np.append(starts, rest[:1])
        for start in range(0, len(texts), BLOCK_EVENTS):
            part = slice(start, start + BLOCK_EVENTS)
            yield decode_json(texts[part], fields, level, starts[part] + place), size
            size = 0
        data, place, inside = data[found.done :], place + found.done, found.inside
        if len(data) >= LONGEST_ROW_BYTES and not last:
            yield decode_nothing(fields, level, _too_long(place)), 0
            data, place, skipping, inside = data[len(data) :], place + len(data), True, False


def _even_parts(bounds: Ints) -> Iterator[Ints]:
    """The bounds of about BLOCK_EVENTS rows at a time, equally many each."""
    rows = len(bounds) - 1
    step = _even(rows, BLOCK_EVENTS)
    for start in range(0, rows, step):
        yield bounds[start : start + step + 1]


def _even(whole: int, wanted: int) -> int:
    """The size of equal parts near `wanted`: a small rest would cost nearly as much as a full part."""
    parts = max(1, (whole + wanted // 2) // wanted)
    return max(1, -(-whole // parts))


def _line_bounds(data: Bytes) -> Ints:
    return np.concatenate(([0], newlines(data) + 1)).astype(np.int64)


def _shorter(path: str, remaining: int, end: int) -> InputError:
    return InputError(f"{path} has become shorter: {remaining} bytes of {end} are left")


def _too_long(place: int) -> Refusals:
    refusals = Refusals()
    refusals.add(INVALID_DATA, f"the event is longer than {LONGEST_ROW_BYTES >> 20} MB", [place])
    return refusals


def _blocks(
    file: ByteReader, begin: int, end: int | None, bounds_of: Any, path: str
) -> Iterator[tuple[Bytes, Ints, int]]:
    """Blocks of whole rows: bytes, the bounds of the rows in them, and the place of the first byte.

    A row longer than allowed is left out; empty bounds stand for it. The last row may lack its line end.
    The bytes are overwritten by the next block.
    """
    # The last block takes what the rows that were cut by the others' ends have left over.
    room = BLOCK_BYTES if end is None else _even(end - begin, BLOCK_BYTES) + BLOCK_BYTES // 64
    buffer = np.empty(room, np.uint8)
    filled, place, skipping = 0, begin, False
    while True:
        wanted = len(buffer) - filled if end is None else min(len(buffer) - filled, end - place - filled)
        with profile.part("reading inputs"):
            room = memoryview(cast("Any", buffer))[filled : filled + wanted]
            got = (file.readinto(room) or 0) if wanted else 0
        if got == 0 and end is not None and place + filled < end:
            raise _shorter(path, place + filled, end)
        filled += got
        last = got == 0 if end is None else place + filled == end
        with profile.part("decoding events"):
            bounds = bounds_of(buffer[:filled])
        if last and bounds[-1] < filled and _is_whole(file, buffer[bounds[-1] : filled]):
            bounds = np.append(bounds, filled)
        if skipping and len(bounds) > 1:  # the rest of a row that is too long
            bounds, skipping = bounds[1:], False
        if not skipping and len(bounds) > 1:
            yield buffer[:filled], bounds, place
        if last:
            return
        done = filled if skipping else int(bounds[-1])
        if done == 0 and filled == len(buffer):
            if len(buffer) >= LONGEST_ROW_BYTES:
                yield buffer[:0], np.zeros(0, np.int64), place
                done, skipping = filled, True
            else:
                buffer = np.concatenate((buffer, np.empty_like(buffer)))
        buffer[: filled - done] = buffer[done:filled].copy()
        filled -= done
        place += done


def _breaks_off(file: ByteReader) -> bool:
    """Whether what was read ends in the middle of a compressed file that is broken there."""
    return isinstance(file, Unpacked) and file.broken is not None and not file.whole


def _is_whole(file: ByteReader, row: Bytes) -> bool:
    """Whether a last row without its line end is whole: unless it ends where a compressed file breaks.

    There it still is if it is a JSON object, since no object begins with another.
    """
    if not _breaks_off(file):
        return True
    try:
        return isinstance(json.loads(row.tobytes()), dict)
    except (ValueError, RecursionError):
        return False


# ---------------------------------------------------------------- CSV


def read_csv(piece: FilePiece, file: ByteReader, fields: Fields, level: str) -> Iterator[tuple[Decoded, int]]:
    """The events of rows below a header."""
    end = _end(piece)
    head, header, reason, length = b"", None, "", HEAD_BYTES
    while header is None and not reason:
        more = file.read(length)
        head += more
        complete = head if more or head.endswith(b"\n") else head + b"\n"
        try:
            header = read_header(np.frombuffer(complete, np.uint8), piece.delimiter)
        except ValueError as error:
            reason = str(error)
        if header is None and not more:
            reason = reason or "the file has no header"
        length *= 2
    names, rows_begin = header if header is not None else (cast("list[str]", []), 0)
    begin = max(piece.begin, min(rows_begin, piece.end) if end is not None else rows_begin)
    file.seek(begin)

    def bounds_of(data: Bytes) -> Ints:
        return row_bounds(data, piece.delimiter)

    if reason:
        yield decode_nothing(fields, level, _refused_rows(piece, file, end, bounds_of, reason)), 0
        return
    for data, bounds, offset in _blocks(file, begin, end, bounds_of, piece.path):
        if len(bounds) == 0:
            yield decode_nothing(fields, level, _too_long(offset)), 0
        for part in _even_parts(bounds):
            lines = part[:-1] + offset
            yield (
                decode_csv(data, part, names, piece.delimiter, fields, level, lines),
                int(part[-1] - part[0]),
            )


def _refused_rows(
    piece: FilePiece, file: ByteReader, end: int | None, bounds_of: Any, reason: str
) -> Refusals:
    """All rows of a piece whose header cannot be used; at least one, so that the file is seen."""
    refusals = Refusals()
    count = -1 if piece.begin == 0 else 0  # the header itself is no event
    first: Sequence[bytes] = ()
    for data, bounds, _ in _blocks(file, piece.begin, end, bounds_of, piece.path):
        count += max(1, len(bounds) - 1)
        first = first or [data[: int(bounds[1])].tobytes()] if len(bounds) > 1 else first
    refusals.add(INVALID_HEADER, reason, np.full(max(1, count), piece.begin), first)
    return refusals


# ---------------------------------------------------------------- Avro


def read_avro(
    piece: FilePiece, file: ByteReader, fields: Fields, level: str
) -> Iterator[tuple[Decoded, int]]:
    """The events of an object container; where it breaks off, what follows counts as one refusal."""
    place = 0
    blocks = container_blocks(cast("Any", file))
    while True:
        try:
            with profile.part("reading inputs"):
                block = next(blocks, None)
        except ValueError as error:
            if _breaks_off(file):  # which is counted by itself, and once
                return
            refusals = Refusals()
            refusals.add(INVALID_DATA, f"the file cannot be read as Avro: {error}", [place], [piece.path])
            yield decode_nothing(fields, level, refusals), 0
            return
        if block is None:
            return
        lines = np.arange(place, place + len(block.records))
        with profile.part("decoding events"):
            decoded = decode_records(block.records, block.names, fields, level, lines)
        yield decoded, piece.end if place == 0 else 0
        place += len(block.records)


# ---------------------------------------------------------------- Parquet


def read_parquet(
    piece: FilePiece, raw: ByteReader, fields: Fields, level: str
) -> Iterator[tuple[Decoded, int]]:
    """The events of row groups; Arrow opens a file of this machine itself."""
    try:
        source = piece.path if storage_path(piece.path).is_local else raw
        file = cast("Any", pyarrow.parquet).ParquetFile(source)
        columns = wanted_columns(file.schema_arrow.names, fields)
        rows = sum(file.metadata.row_group(place).num_rows for place in range(piece.begin))
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        yield _no_parquet("the file", error, np.zeros(1, np.int64), piece, fields, level), 0
        return
    for group in range(piece.begin, piece.end):
        count = file.metadata.row_group(group).num_rows
        try:
            # A table without columns forgets how many rows it has.
            nothing = pa.table({"$nothing": pa.nulls(count)})
            with profile.part("reading inputs"):
                table = file.read_row_group(group, columns=columns) if columns else nothing
        except (pa.ArrowException, OSError) as error:  # the other groups may be whole
            count = max(count, 1)  # where even the count is broken, the group is one event
            broken = np.arange(rows, rows + count)
            yield _no_parquet(f"row group {group}", error, broken, piece, fields, level), 0
        else:
            for start in range(0, count, BLOCK_EVENTS):
                part = table.slice(start, BLOCK_EVENTS)
                size = file.metadata.row_group(group).total_byte_size if start == 0 else 0
                lines = np.arange(start, min(count, start + BLOCK_EVENTS)) + rows
                yield decode_parquet(part, fields, level, lines), size
        rows += count


def _no_parquet(
    what: str, error: Exception, lines: Ints, piece: FilePiece, fields: Fields, level: str
) -> Decoded:
    """The refusal of the events at `lines`, which `what` of the file holds."""
    refusals = Refusals()
    reason = str(error).split("\n", 1)[0]
    refusals.add(INVALID_DATA, f"{what} cannot be read as Parquet: {reason}", lines, [piece.path])
    return decode_nothing(fields, level, refusals)
