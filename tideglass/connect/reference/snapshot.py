"""One snapshot of reference data: the rows that hold from one instant on (`asa.md` 6.3).

A snapshot is a small value that names its rows; they are read where they are needed. Unlike an event, a
row that cannot be read is no small loss, since every later lookup would miss it: it stops the job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from tideglass.connect.files.file_format import FileFormat, packing_of
from tideglass.connect.files.reading import FilePiece, read_piece
from tideglass.connect.files.unpacking import Unpacked
from tideglass.connect.formats.decoded import LINE, Decoded
from tideglass.connect.formats.json.decode import decode_json
from tideglass.connect.formats.table import FORMATS
from tideglass.core.columns import unify
from tideglass.core.errors import InputError
from tideglass.core.events import Fields, Rejected
from tideglass.core.json_rows import compact_json
from tideglass.core.time import BEFORE_ALL_TICKS, format_ticks
from tideglass.core.types import ARRIVAL, OFFSET
from tideglass.storage import StoragePath, storage_path

#: What the service holds in memory at most (`asa.md` 6.3).
MOST_BYTES = 5 * 1024**3


class ReferenceSnapshot(Protocol):
    """The rows of a reference input from `effective_ticks` on. Hashable, equal if the rows are the same."""

    @property
    def effective_ticks(self) -> int: ...

    def read(self, name: str, fields: Fields, level: str) -> pa.Table:
        """The rows as the decoder of a stream returns them. Raises InputError that names a broken row."""
        ...


@dataclass(frozen=True, slots=True)
class RowsSnapshot:
    """Rows in memory, as JSON texts."""

    effective_ticks: int
    rows: tuple[str, ...]

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]], effective_ticks: int = BEFORE_ALL_TICKS) -> RowsSnapshot:
        return cls(effective_ticks, tuple(compact_json(row) for row in rows))

    def read(self, name: str, fields: Fields, level: str) -> pa.Table:
        decoded = decode_json(pa.array(self.rows, pa.string()), fields, level)
        for refused in decoded.rejected:
            raise broken_row(name, f"row {refused.first_line + 1}", refused)
        return decoded.table.drop_columns([LINE])


@dataclass(frozen=True, slots=True)
class FileSnapshot:
    """Rows of one file, as it was when it was found: it may not change afterwards.

    effective_ticks: from when the rows hold; BEFORE_ALL_TICKS if they hold for all times.
    path: where the file is, as a path or URI.
    format: a name of FORMATS.
    delimiter: of CSV.
    size, modified_ns: of the file, to know it by.
    """

    effective_ticks: int
    path: str
    format: str
    delimiter: str
    size: int
    modified_ns: int

    @classmethod
    def found(
        cls,
        name: str,
        path: StoragePath | Path,
        file_format: str,
        delimiter: str = ",",
        effective_ticks: int | None = None,
    ) -> FileSnapshot:
        """The file as it is now. Raises InputError if it is not there or is too large to be held."""
        status = storage_path(path).status()
        if status is None:
            raise InputError(
                f"[REFERENCE_NOT_FOUND] the reference input {name!r} reads {path}, which does not exist\n"
                f"  hint: put the file there, or name another one with --input {name}=PATH"
            )
        if status.size > MOST_BYTES:
            raise InputError(
                f"[REFERENCE_TOO_LARGE] {path} of the reference input {name!r} has {status.size:,} bytes; "
                f"every worker holds all of it in memory, so at most {MOST_BYTES:,} are read\n"
                "  hint: leave out columns and rows the query does not need, or read it as a stream"
            )
        effective = BEFORE_ALL_TICKS if effective_ticks is None else effective_ticks
        return cls(effective, str(path), file_format, delimiter, status.size, status.modified_ns)

    def read(self, name: str, fields: Fields, level: str) -> pa.Table:
        path = storage_path(self.path)
        now = FileSnapshot.found(name, path, self.format, self.delimiter, self.effective_ticks)
        if now != self:
            raise InputError(
                f"[REFERENCE_CHANGED] {self.path} of the reference input {name!r} has changed since the run "
                "found it, so results already written would no longer be repeatable\n"
                "  hint: write changed rows to a new file whose path says from when they hold "
                "({date}/{time}), or start a new run with --fresh"
            )
        tables: list[pa.Table] = []
        for chunk in read_piece(self._piece(), fields, level):
            for refused in chunk.rejected:
                raise broken_row(name, self._place(refused), refused)
            tables.append(chunk.table.drop_columns([ARRIVAL, OFFSET]))
        return unify(tables) if tables else _nothing(fields, level).table.drop_columns([LINE])

    def _piece(self) -> FilePiece:
        groups = self.size
        if FileFormat(self.format).has_groups:
            import pyarrow.parquet as pq

            try:
                with storage_path(self.path).open() as file:
                    groups = int(pq.read_metadata(file).num_row_groups)
            except (pa.ArrowInvalid, OSError):
                groups = 1  # reading it shows what is wrong
        return FilePiece(self.path, self.format, 0, groups, 0, 0, self.delimiter)

    def _place(self, refused: Rejected) -> str:
        """Where the first refused row is: its line, or its number in a Parquet or Avro file."""
        if FORMATS[self.format].parts in ("groups", "whole"):
            return f"{self.path}, row {refused.first_line + 1}"
        with storage_path(self.path).open() as raw:
            file = Unpacked(raw, self.size) if packing_of(self.path) else raw
            before = file.read(refused.first_line)
        line = before.count(b"\n") + 1
        return f"{self.path}:{line}"


def broken_row(name: str, place: str, refused: Rejected) -> InputError:
    """The error of a row that cannot be read."""
    example = f": {refused.examples[0]}" if refused.examples else ""
    return InputError(
        f"[BROKEN_REFERENCE_ROW] {place}: a row of the reference input {name!r} cannot be read: "
        f"{refused.message.replace('the event', 'the row')}{example}\n"
        "  hint: correct the row; a lookup must not miss it silently"
    )


def _nothing(fields: Fields, level: str) -> Decoded:
    return decode_json(pa.array([], pa.string()), fields, level)


def no_snapshot(name: str, snapshots: Sequence[ReferenceSnapshot], time_ticks: int) -> InputError:
    """The error of a row that is older than all snapshots."""
    known = (
        f"the first snapshot holds from {format_ticks(snapshots[0].effective_ticks)} on"
        if snapshots
        else "there is no snapshot yet"
    )
    return InputError(
        f"[NO_SNAPSHOT] the reference input {name!r} has no snapshot for a row at "
        f"{format_ticks(time_ticks)}: {known}\n"
        "  hint: add a snapshot for that time or an earlier one, or start the job at a later time"
    )
