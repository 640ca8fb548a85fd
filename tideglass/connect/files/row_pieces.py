"""Rows that are written in pieces and become one file: what a piece holds, and how pieces are joined.

format         a piece                        joined where
json           lines                          always
csv            a header and rows              the headers are the same
avro, parquet  the columns as an Arrow table  they have the same names, and the same types or NULL
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, cast

import pyarrow as pa

from tideglass.connect.files.output import Write, write_json
from tideglass.connect.formats.layout import csv_bytes, spread
from tideglass.connect.formats.table import FORMATS, function
from tideglass.core import types
from tideglass.core.ipc import from_bytes, to_bytes
from tideglass.core.types import Type, types_of

#: Rows of a file of Avro or Parquet that is made of pieces: it is made in the memory of the driver.
MOST_ROWS = 1_000_000
_COPIED_BYTES = 1 << 20
_TEXTS = ("json", "csv")

#: A piece to read.
OpenPiece = Callable[[], BinaryIO]


@dataclass(frozen=True, slots=True)
class RowFiles:
    """How rows are written to files.

    format: one of FORMATS that is written.
    delimiter: of CSV.
    array: of JSON: a file is an array, and not lines.
    """

    format: str
    delimiter: str = ","
    array: bool = False

    def write(self, rows: pa.Table, file: BinaryIO) -> None:
        """A file of its own."""
        if self.format == "json" and self.array:
            body = io.BytesIO()
            write_json(rows, self.delimiter, body)
            file.write(_array_of([body.getvalue()]))
            return
        cast("Write", function(FORMATS[self.format].write or ""))(rows, self.delimiter, file)

    def write_piece(self, rows: pa.Table, file: BinaryIO) -> str:
        """A piece of a file; returns what it must have in common with other pieces."""
        if self.format in _TEXTS:
            cast("Write", function(FORMATS[self.format].write or ""))(rows, self.delimiter, file)
            return "" if self.format == "json" else _header(rows, self.delimiter)
        shown = _shown(rows)
        file.write(to_bytes(shown))
        return json.dumps({name: type_.value for name, type_ in types_of(shown).items()})

    def joins(self, pieces: Sequence[str], other: str) -> bool:
        """Whether a piece may be in the file of others. All are what `write_piece` has returned."""
        if self.format in _TEXTS:
            return all(each == other for each in pieces)
        found = _merged(pieces)
        more = json.loads(other)
        return found.keys() == more.keys() and all(
            Type.NULL.value in (found[name], more[name]) or found[name] == more[name] for name in found
        )

    def join(self, pieces: Sequence[tuple[str, OpenPiece]], file: BinaryIO) -> None:
        """Write the pieces of one file in their order, each with what `write_piece` has returned."""
        if self.format == "json" and not self.array:
            for _, opened in pieces:
                _copy(opened, file, skipped=0)
        elif self.format == "json":
            file.write(_array_of(_bodies(opened for _, opened in pieces)))
        elif self.format == "csv":
            for number, (header, opened) in enumerate(pieces):
                _copy(opened, file, skipped=len(header.encode()) if number else 0)
        else:
            wanted = {name: Type(text) for name, text in _merged([columns for columns, _ in pieces]).items()}
            tables = [_as(wanted, from_bytes(body)) for body in _bodies(opened for _, opened in pieces)]
            self.write(pa.concat_tables(tables), file)


def _bodies(opened: Iterable[OpenPiece]) -> Iterator[bytes]:
    for each in opened:
        with each() as file:
            yield file.read()


def _copy(opened: OpenPiece, file: BinaryIO, skipped: int) -> None:
    with opened() as piece:
        piece.seek(skipped)
        while body := piece.read(_COPIED_BYTES):
            file.write(body)


def _array_of(lines: Iterable[bytes]) -> bytes:
    """An array of the objects that stand one in a line; no line holds an end of a line within."""
    inner = b",\n".join(body.removesuffix(b"\n").replace(b"\n", b",\n") for body in lines)
    return b"[\n" + inner + b"\n]\n"


def _header(rows: pa.Table, delimiter: str) -> str:
    """The first line of rows as CSV, with its end."""
    shown = spread(rows).slice(0, 0)
    return csv_bytes(shown, delimiter).decode()


def _shown(rows: pa.Table) -> pa.Table:
    found = spread(rows)
    return found.select([name for name in found.column_names if not name.startswith("$")])


def _merged(pieces: Sequence[str]) -> dict[str, str]:
    """The columns of a file with the type of each: NULL where no piece has another one."""
    found: dict[str, str] = {}
    for each in pieces:
        for name, type_ in json.loads(each).items():
            if found.get(name, Type.NULL.value) == Type.NULL.value:
                found[name] = type_
    return found


def _as(wanted: dict[str, Type], table: pa.Table) -> pa.Table:
    """The table with columns in another order, and of another type where all of a column is NULL."""
    own = types_of(table)
    columns = [
        table[name]
        if own[name] is type_
        else pa.chunked_array([pa.nulls(table.num_rows, types.arrow_type(type_))])
        for name, type_ in wanted.items()
    ]
    return pa.table(columns, schema=pa.schema([types.field(name, type_) for name, type_ in wanted.items()]))
