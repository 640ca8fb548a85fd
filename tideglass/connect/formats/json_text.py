"""Where the events are in JSON bytes: one per line, or the elements of a document (`asa.md` 5.3, 10.1).

A document is an array of objects, objects joined by commas (result files of local runs), or objects one
after the other, each over as many lines as it likes.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, cast

import numpy as np
import pyarrow as pa

from tideglass.connect.formats.decoded import Bytes, Ints, Mask
from tideglass.core.profile import measured

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANKS = b" \t\r\n"
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


def is_document(head: bytes) -> bool:
    """Whether a file that begins with `head` holds a document, not one event per line.

    `head` should hold the first event. An object that does not end on its line is one bad event if the
    next line begins an object too, else the file is a document of objects over several lines.

    >>> is_document(b'{"a": 1}\\n{"a": 2}'), is_document(b'{"a": 1},\\n{"a": 2}'), is_document(b'[{')
    (False, True, True)
    """
    start = head.removeprefix(BYTE_ORDER_MARK).lstrip(_BLANKS)
    if start[:1] == b"[":
        return True
    if start[:1] != b"{":
        return False
    tokens = Tokens(np.frombuffer(start, np.uint8))
    closes = np.flatnonzero((tokens.depth == 0) & ((tokens.kinds & 0xDF) == 0x5D))
    line_end = start.find(b"\n")
    end = int(tokens.places[closes[0]]) + 1 if len(closes) else len(start)
    if len(closes) == 0 or -1 < line_end < end:
        following = start[line_end:].lstrip(_BLANKS) if line_end >= 0 else b""
        return following != b"" and not following.startswith(b"{")
    rest = start[end:]
    return rest.lstrip(_BLANKS).startswith(b",") or rest.lstrip(b" \t\r").startswith(b"{")


class Tokens:
    """Brackets and commas outside strings, with the depth after each."""

    def __init__(self, data: Bytes) -> None:
        folded = data & 0xDF  # { and } fold on [ and ]
        marks = (folded == 0x5B) | (folded == 0x5D) | (data == ord(",")) | (data == ord('"'))
        places = np.flatnonzero(marks)
        kinds = data[places]
        quotes = kinds == ord('"')
        if quotes.any():
            quotes[quotes] = ~_escaped(data, places[quotes])
        inside = (np.cumsum(quotes) & 1).astype(np.bool_)
        bare = ~inside & (kinds != ord('"'))
        self.places: Ints = cast("Ints", places[bare])
        self.kinds: Bytes = kinds[bare]
        folded_kinds = self.kinds & 0xDF
        steps = (folded_kinds == 0x5B).astype(np.int64) - (folded_kinds == 0x5D)
        self.depth: Ints = np.cumsum(steps)

    @property
    def final_depth(self) -> int:
        return int(self.depth[-1]) if len(self.depth) else 0


def _escaped(data: Bytes, places: Ints) -> Mask:
    """Which of the bytes at `places` come after an odd number of backslashes."""
    slashes = np.flatnonzero(data == ord("\\"))
    if len(slashes) == 0:
        return np.zeros(len(places), np.bool_)
    starts = np.flatnonzero(np.diff(slashes, prepend=-2) != 1)
    ends = slashes[np.append(starts[1:], len(slashes)) - 1] + 1
    lengths = np.diff(np.append(starts, len(slashes)))
    odd_ends = ends[lengths % 2 == 1]
    return np.isin(places, odd_ends, assume_unique=True)


@measured("decoding events")
def events_of_document(data: Bytes) -> tuple[pa.Array, Ints]:
    """Texts of the document's elements in order, and the place of each; the texts are unvalidated.

    Elements are told apart by brackets, so a broken element does not take others along unless its
    brackets do not match: then all from there on is one element. A missing ] at the end is no error.
    """
    text = data.tobytes()
    begin = len(BYTE_ORDER_MARK) if text.startswith(BYTE_ORDER_MARK) else 0
    tokens = Tokens(data)
    array = text[begin:].lstrip(_BLANKS)[:1] == b"["
    base = 1 if array else 0
    commas = (tokens.kinds == ord(",")) & (tokens.depth == base)
    if array:
        begin = int(tokens.places[0]) + 1
        closing = np.flatnonzero(tokens.depth == 0)
        end = int(tokens.places[closing[0]]) if len(closing) else len(data)
        bounds = [begin, *(tokens.places[commas & (tokens.places < end)] + 1).tolist(), end]
        tail = text[end + 1 :].strip(_BLANKS)
        if len(closing) and tail:
            bounds.append(len(data))
    else:
        closes = (tokens.depth == 0) & ((tokens.kinds & 0xDF) == 0x5D)
        bounds = [begin, *(tokens.places[closes | commas] + 1).tolist(), len(data)]
    pieces: list[bytes] = []
    starts: list[int] = []
    for start, stop in pairwise(bounds):
        piece = text[start:stop].strip(_BLANKS)
        if array:
            piece = piece.removesuffix(b",").rstrip(_BLANKS)
        elif piece == b",":
            continue
        if piece:
            pieces.append(piece)
            starts.append(start)
    lengths = np.array([0, *map(len, pieces)], np.int64)
    joined = np.frombuffer(b"".join(pieces), np.uint8)
    return texts_between(joined, np.cumsum(lengths)), np.array(starts, np.int64)
