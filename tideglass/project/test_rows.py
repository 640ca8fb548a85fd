"""Rows of test data: the small JSON and CSV files that stand in for inputs and hold expected outputs.

The service's tools have written results in several shapes over the years; all are read: an array,
one object a line, and objects joined by commas without brackets (`asa.md` 10.1).
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from tideglass.connect.formats.avro import container_blocks
from tideglass.connect.formats.parquet import json_text
from tideglass.connect.formats.table import FORMATS
from tideglass.core.errors import ProjectError
from tideglass.core.events import Fields
from tideglass.core.types import PAYLOAD
from tideglass.project.file_reader import json_kind

Row = dict[str, Any]


def read_rows(path: Path, file_format: str | None = None, delimiter: str = ",") -> list[Row]:
    """The rows of a JSON or CSV file, of a Parquet or Avro one; by default by its name, else JSON.

    Raises ProjectError with the file, the place in it and what was expected there.
    """
    chosen = file_format or path.suffix.lower().removeprefix(".")
    if chosen in _READERS:
        return _READERS[chosen](path)
    if chosen in FORMATS and chosen not in ("json", "csv"):
        return _decoded_rows(path, chosen, delimiter)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ProjectError(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8") from error
    except OSError as error:
        raise ProjectError(f"{path}: cannot be read: {error.strerror}") from error
    return parse_csv_rows(text, str(path), delimiter) if chosen == "csv" else parse_json_rows(text, str(path))


def parse_json_rows(text: str, place: str = "rows") -> list[Row]:
    """Objects of an array, of lines, or joined by commas; an empty text holds no rows.

    >>> parse_json_rows('{"a": 1},{"a": 2}') == parse_json_rows('[{"a": 1}, {"a": 2}]')
    True
    """
    decoder = json.JSONDecoder()
    rows: list[Row] = []
    position = 0
    while (position := _skip(text, position)) < len(text):
        try:
            value, position = cast("tuple[object, int]", decoder.raw_decode(text, position))
        except json.JSONDecodeError as error:
            raise ProjectError(
                f"{place}: line {error.lineno}, column {error.colno}: not JSON: {error.msg}"
            ) from error
        values = cast("list[object]", value) if isinstance(value, list) else [value]
        for each in values:
            if not isinstance(each, dict):
                raise ProjectError(f"{place}: holds {json_kind(each)} where a row {{...}} is expected")
            rows.append(cast("Row", each))
    return rows


def _skip(text: str, position: int) -> int:
    """Past white space and the commas between objects."""
    while position < len(text) and text[position] in " \t\r\n,":
        position += 1
    return position


def parse_csv_rows(text: str, place: str = "rows", delimiter: str = ",") -> list[Row]:
    """Rows of a CSV text with a header; every value is text, as untyped CSV is (`asa.md` 5.3)."""
    lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=False))
    if not lines:
        return []
    header = lines[0]
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise ProjectError(f"{place}: the header names {twice[0]!r} twice")
    rows: list[Row] = []
    for number, line in enumerate(lines[1:], 2):
        if not line:
            continue
        if len(line) != len(header):
            raise ProjectError(
                f"{place}: row {number} has {len(line)} values, the header names {len(header)}"
            )
        rows.append(dict(zip(header, line, strict=True)))
    return rows


def _parquet_rows(path: Path) -> list[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return [_plain(row) for row in cast("list[Row]", pq.read_table(path).to_pylist())]
    except (OSError, pa.ArrowInvalid) as error:
        raise ProjectError(f"{path}: not a Parquet file: {error}") from error


def _avro_rows(path: Path) -> list[Row]:
    try:
        with path.open("rb") as file:
            return [_plain(row) for block in container_blocks(file) for row in block.records]
    except (OSError, ValueError) as error:
        raise ProjectError(f"{path}: not an Avro file: {error}") from error


def _decoded_rows(path: Path, file_format: str, delimiter: str) -> list[Row]:
    """The events that a job would read in a file of a format."""
    from tideglass.connect.files.reading import FilePiece, read_piece

    rows: list[Row] = []
    piece = FilePiece(str(path), file_format, 0, path.stat().st_size, 0, 0, delimiter)
    for chunk in read_piece(piece, Fields(whole=True)):
        for refused in chunk.rejected:
            raise ProjectError(f"{path}: {refused.message}")
        rows += [cast("Row", json.loads(text)) for text in chunk.table[PAYLOAD].to_pylist()]
    return rows


def _plain(row: Row) -> Row:
    """The row with values that JSON has: times as ISO text, bytes as base64."""
    return cast("Row", json.loads(json_text(row)))


#: Formats whose columns have types that test data keeps.
_READERS: Mapping[str, Callable[[Path], list[Row]]] = {"parquet": _parquet_rows, "avro": _avro_rows}
