"""Where the events are in JSON bytes: one per line, or the elements of a document (`asa.md` 5.3, 10.1).

A line may hold several: an array, or objects one after the other; brackets and commas around objects are
layout. A document is an array over several lines, objects joined by commas (result files of local runs), or
objects one after the other, each over as many lines as it likes; whatever follows belongs to it.
`json.document` separates the events of both.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, cast

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Bytes, Ints, Mask
from tideglass.core.profile import measured

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BLANKS = b" \t\r\n"
_BLOCK = 1 << 18


def newlines(data: Bytes) -> Ints:
    """Places of all line feeds."""
    found = [np.flatnonzero(data[at : at + _BLOCK] == 10) + at for at in range(0, len(data), _BLOCK)]
    return np.concatenate(found) if found else np.zeros(0, np.int64)


@measured("decoding events")
def texts_between(data: Bytes, bounds: Ints) -> pa.Array:
    """The pieces [bounds[i], bounds[i+1]) as an Arrow string array over the same memory, unvalidated."""
    buffers = [None, pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(cast("Any", data))]
    return pa.Array.from_buffers(pa.string(), len(bounds) - 1, cast("Any", buffers))


Layout: TypeAlias = Literal["lines", "document"]


def layout_of(head: bytes) -> Layout | None:
    """Whether a file that begins with `head` has its events on lines; None while that is not known.

    It has if the first of them, or the first array, ends on its line. An object that does not is one bad
    event if the next line begins an object too, else the file is a document of objects over several lines.
    So is what joins its objects by commas, or has several on its first line.

    >>> layout_of(b'{"a": 1}\n{"a": 2}'), layout_of(b'[{"a": 1}, {"a": 2}]\n'), layout_of(b'{"a": 1},\n')
    ('lines', 'lines', 'document')
    """
    start = head.removeprefix(BYTE_ORDER_MARK).lstrip(BLANKS)
    if start[:1] not in (b"[", b"{"):
        return "lines" if start else None
    line_end = start.find(b"\n")
    if start[:1] == b"[":
        return "lines" if line_end >= 0 and _matches(start[:line_end]) else "document"
    tokens = Tokens(np.frombuffer(start, np.uint8))
    closes = np.flatnonzero((tokens.depth == 0) & ((tokens.kinds & 0xDF) == 0x5D))
    end = int(tokens.places[closes[0]]) + 1 if len(closes) else len(start)
    if len(closes) == 0 or -1 < line_end < end:
        following = start[line_end:].lstrip(BLANKS) if line_end >= 0 else b""
        if not following:
            return None
        return "lines" if following.startswith(b"{") else "document"
    rest = start[end:]
    joined = rest.lstrip(BLANKS).startswith(b",") or rest.lstrip(b" \t\r").startswith(b"{")
    return "document" if joined else "lines"


def is_document(head: bytes) -> bool:
    """Whether a file that begins with `head` is read as a whole, not line by line."""
    return layout_of(head) == "document"


def _matches(line: bytes) -> bool:
    """Whether every bracket of a line is closed on it."""
    depth = Tokens(np.frombuffer(line, np.uint8)).depth
    return int(depth[-1]) == 0 and bool((depth >= 0).all())


class Tokens:
    """Brackets, commas and line ends outside strings, with the depth after each.

    A string ends with its line at the latest, so that a quote which is missing spoils one line only.
    """

    def __init__(self, data: Bytes) -> None:
        folded = data & 0xDF  # { and } fold on [ and ]
        marks = (folded == 0x5B) | (folded == 0x5D) | (data == ord(",")) | (data == ord('"'))
        marks |= data == ord("\n")
        places = np.flatnonzero(marks)
        kinds = data[places]
        quotes = kinds == ord('"')
        if quotes.any():
            quotes[quotes] = ~_escaped(data, places[quotes])
        seen = np.cumsum(quotes)
        line_ends = kinds == ord("\n")
        seen -= np.maximum.accumulate(np.where(line_ends, seen, 0))
        bare = ((seen & 1) == 0) & (kinds != ord('"'))
        self.places: Ints = cast("Ints", places[bare])
        self.kinds: Bytes = kinds[bare]
        folded_kinds = self.kinds & 0xDF
        steps = (folded_kinds == 0x5B).astype(np.int64) - (folded_kinds == 0x5D)
        self.depth: Ints = np.cumsum(steps)


def _escaped(data: Bytes, places: Ints) -> Mask:
    """Which of the bytes at `places` follow an odd number of backslashes."""
    slashes = np.flatnonzero(data == ord("\\"))
    if len(slashes) == 0:
        return np.zeros(len(places), np.bool_)
    starts = np.flatnonzero(np.diff(slashes, prepend=-2) != 1)
    ends = slashes[np.append(starts[1:], len(slashes)) - 1] + 1
    lengths = np.diff(np.append(starts, len(slashes)))
    odd_ends = ends[lengths % 2 == 1]
    return np.isin(places, odd_ends, assume_unique=True)
