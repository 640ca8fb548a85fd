"""CSV events: a header line, then a row each; fields are text until CREATE TABLE types them (`asa.md` 5.3).

A quoted field may hold delimiters, line ends and doubled quotes; a quote elsewhere is an ordinary character
of its field.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.csv

from tideglass.connect.formats.columnar import decode_columns
from tideglass.connect.formats.decoded import INVALID_DATA, Decoded, Refusals
from tideglass.connect.formats.json.framing import BYTE_ORDER_MARK, newlines, texts_between
from tideglass.core.arrays import Bytes, Ints, Mask
from tideglass.core.events import Fields
from tideglass.core.iso import flat
from tideglass.core.profile import measured
from tideglass.core.types import Type

arrow_csv = cast("Any", pyarrow.csv)

_LONGEST_BLOCK = 1 << 30
# The reader bounds rows; Python's own limit of 128 KB would refuse fields the fast parser takes.
csv.field_size_limit(_LONGEST_BLOCK)


def row_bounds(data: Bytes, delimiter: str) -> Ints:
    """Where the complete rows of `data` begin and end: bounds[i] to bounds[i + 1], line end included.

    What follows the last bound is an incomplete row. `data` begins at the start of a row.
    """
    ends = newlines(data) + 1
    bounds = np.concatenate(([0], ends)).astype(np.int64)
    quotes = np.flatnonzero(data == ord('"'))
    if len(quotes) == 0:
        return bounds
    before = np.searchsorted(quotes, bounds)  # quotes before each line start
    if (np.diff(before) % 2 == 0).all():
        return bounds  # every line has its quotes in pairs, so none continues on the next
    return _bounds_by_rule(data.tobytes(), bounds, delimiter)


def _bounds_by_rule(text: bytes, line_starts: Ints, delimiter: str) -> Ints:
    """The same by the rule: a quote opens only where a field begins. Reads lines with unpaired quotes."""
    mark = re.escape(delimiter.encode())
    # Possessive: two quotes are one character, also where the text ends before the field does.
    field = rb'(?:"(?:[^"]|"")*+"[^' + mark + rb"\n]*|[^\"" + mark + rb"\n][^" + mark + rb"\n]*|)"
    row = re.compile(field + rb"(?:" + mark + field + rb")*(?:\n|\Z)")
    bounds = [0]
    starts = cast("list[int]", line_starts.tolist())
    next_line = dict(pairwise(starts))
    at = 0
    while at in next_line:
        end = next_line[at]
        if text.count(b'"', at, end) % 2:
            found = row.match(text, at)
            if found is None and not _opens_to_the_end(text, at, mark):
                at = end  # a stray quote: the row ends with its line
                bounds.append(at)
                continue
            if found is None or not found.group().endswith(b"\n"):
                break  # a quote is still open, or the line end is missing: an incomplete row
            end = found.end()
        at = end
        bounds.append(at)
    return np.array(bounds, np.int64)


def _opens_to_the_end(text: bytes, at: int, mark: bytes) -> bool:
    """Whether a field that begins with a quote on this row is never closed."""
    closed = re.sub(rb"(^|" + mark + rb')"(?:[^"]|"")*+"', rb"\1", text[at:])
    return re.search(rb"(?:^|" + mark + rb')"', closed.split(b"\n")[0]) is not None


def read_header(data: Bytes, delimiter: str) -> tuple[list[str], int] | None:
    """The column names of a file and where its rows begin; None while the header line is incomplete.

    Raises ValueError if there are no names, two columns have one, or they are no UTF-8 (`InvalidHeader`).
    """
    begin = len(BYTE_ORDER_MARK) if data[:3].tobytes() == BYTE_ORDER_MARK else 0
    bounds = row_bounds(data[begin:], delimiter)
    if len(bounds) < 2:
        return None
    end = begin + int(bounds[1])
    try:
        text = data[begin:end].tobytes().decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("the header is not valid UTF-8") from None
    names = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
    if not any(names):
        raise ValueError("the header names no column")
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ValueError(f"the header names the column {doubled[0]!r} twice")
    return names, end


@measured("decoding events")
def decode_csv(
    data: Bytes,
    bounds: Ints,
    names: Sequence[str],
    delimiter: str,
    fields: Fields,
    level: str = "1.2",
    lines: Ints | None = None,
) -> Decoded:
    """Events from the rows [bounds[i], bounds[i + 1]) of `data`, without header; blank rows are skipped.

    A row with too many or too few fields, or bytes that are no UTF-8, is refused. lines: `$line` of each
    row, by default its index.
    """
    refusals = Refusals()
    lines = np.arange(len(bounds) - 1) if lines is None else lines
    if len(bounds) < 2:
        return decode_columns({}, fields, level, lines[:0], refusals, np.zeros(0, np.bool_))
    wrong: list[int] = []
    block = data[int(bounds[0]) : int(bounds[-1])].tobytes()
    table = _parse(block, len(names), delimiter, wrong)
    if table is None or table.num_rows + len(wrong) != len(bounds) - 1:
        # A carriage return inside a field: the fast parser took it for a line end.
        wrong.clear()
        rows = [data[start:stop].tobytes() for start, stop in pairwise(bounds.tolist())]
        table = _parse_each(rows, len(names), delimiter, wrong)
    complete = np.ones(len(bounds) - 1, np.bool_)
    complete[wrong] = False
    blank = _blank_rows(data, bounds)
    refused = np.flatnonzero(~complete & ~blank)
    examples = [data[int(bounds[place]) : int(bounds[place + 1])].tobytes() for place in refused[:3].tolist()]
    message = f"the row does not have {len(names)} fields, as the header has"
    refusals.add(INVALID_DATA, message, lines[refused], examples)
    if blank.any():
        table = table.filter(pa.array(~blank[complete]))
    kept = lines[complete & ~blank]
    keep = np.ones(len(kept), np.bool_)
    columns: dict[str, tuple[pa.Array, Type]] = {}
    for name, column in zip(names, table.columns, strict=True):
        columns[name] = (_as_text(flat(column), keep), Type.NVARCHAR)
    if not keep.all():
        places = np.flatnonzero(~keep)
        examples = [b",".join(row.values()) for row in table.take(pa.array(places[:3])).to_pylist()]
        refusals.add(INVALID_DATA, "the row is not valid UTF-8", kept[places], examples)
    return decode_columns(columns, fields, level, kept, refusals, keep)


def _blank_rows(data: Bytes, bounds: Ints) -> Mask:
    lengths = np.diff(bounds)
    first = data[bounds[:-1]]
    alone = (first == 10) | (first == 13)  # a line end may be cut in its middle where a file ends
    return (lengths == 1) & alone | (lengths == 2) & (first == 13)


def _parse(block: bytes, columns: int, delimiter: str, wrong: list[int]) -> pa.Table | None:
    """The rows as binary columns; the indexes of rows with another number of fields go to `wrong`.

    None where the fast parser stops: over rows of another length in bytes that are no UTF-8.
    """

    def skip(row: Any) -> str:
        wrong.append(int(row.number) - 1)
        return "skip"

    names = [f"c{place}" for place in range(columns)]
    try:
        return arrow_csv.read_csv(
            io.BytesIO(block),
            read_options=arrow_csv.ReadOptions(
                use_threads=False, column_names=names, block_size=min(_LONGEST_BLOCK, len(block) + 1)
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=delimiter,
                newlines_in_values=b'"' in block,
                ignore_empty_lines=False,
                # Arrow makes text of a row before it asks the handler, and complains where it cannot.
                invalid_row_handler=skip if _is_utf8(block) else None,
            ),
            convert_options=arrow_csv.ConvertOptions(
                check_utf8=False, column_types=dict.fromkeys(names, pa.binary()), strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid:
        return None


def _is_utf8(block: bytes) -> bool:
    if block.isascii():
        return True
    try:
        texts_between(np.frombuffer(block, np.uint8), np.array([0, len(block)])).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _parse_each(rows: Sequence[bytes], columns: int, delimiter: str, wrong: list[int]) -> pa.Table:
    """The same one row after the other."""
    read: list[list[bytes]] = []
    for place, row in enumerate(rows):
        text = row.decode("utf-8", "surrogateescape")
        try:
            values = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
        except csv.Error:
            values = []
        if len(values) == columns or not text.strip("\r\n"):
            values = values or [""] * columns
            read.append([value.encode("utf-8", "surrogateescape") for value in values])
        else:
            wrong.append(place)
    listed = [pa.array([row[place] for row in read], pa.binary()) for place in range(columns)]
    return pa.table(listed, names=[f"c{place}" for place in range(columns)])


def _as_text(column: pa.Array, keep: Mask) -> pa.Array:
    """The column as text; rows that are no UTF-8 lose `keep` and become empty."""
    text = pa.Array.from_buffers(pa.string(), len(column), column.buffers(), offset=column.offset)
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        values: list[str] = []
        for place, value in enumerate(cast("list[bytes]", column.to_pylist())):
            try:
                values.append(value.decode("utf-8"))
            except UnicodeDecodeError:
                values.append("")
                keep[place] = False
        return pa.array(values, pa.string())
    return text
