"""What the JSON parser lets through although JSON forbids it: NaN, Infinity, trailing commas, huge integers.

The parser in use is lenient and has no setting for that. So the bytes are searched for what such an event
must contain, a few operations a byte; the few lines found are then judged by their text without strings.
"""

from __future__ import annotations

from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa

from tideglass.connect.formats.json.framing import newlines
from tideglass.core.arrays import Bytes, Ints, Mask, pc

Words: TypeAlias = np.ndarray[Any, np.dtype[np.uint16]]

#: Bytes looked at together: the temporary arrays of this size stay in the cache of one core.
_BLOCK = 1 << 19

_STRINGS = r'"(?:[^"\\]|\\.)*"'
_NOT_JSON = r"(?i)nan|inf|,\s*[}\]]"
_LONGEST_INTEGER = "9223372036854775807"
_FEWEST_DIGITS = 16  # four aligned words of four digits lie in any run of 19 digits


def lines_beyond_json(texts: pa.Array, one_line_each: bool = False) -> tuple[Mask, Mask] | None:
    """Which texts the parser wrongly accepts, and which hold an integer outside int64 (`asa.md` 5.1).

    texts: strings whose bytes lie one after the other. one_line_each: no text has a line feed but at its
    end. None when there is no such text. A text that is no JSON at all may or may not be marked.
    """
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.frombuffer(texts.buffers()[2], np.uint8)[first:last]
    places = _suspicious(data) + first
    if not one_line_each:
        places = np.concatenate((places, _closed_on_a_new_line(data) + first))
    if len(places) == 0:
        return None
    lines = np.unique(np.searchsorted(offsets, places, side="right") - 1)
    bare = pc.replace_substring_regex(texts.take(pa.array(lines)), pattern=_STRINGS, replacement='""')
    return _mask(bare, _NOT_JSON, lines, len(texts)), _mask(bare, _OUTSIDE_INT64, lines, len(texts))


def _mask(bare: pa.Array, pattern: str, lines: Ints, count: int) -> Mask:
    mask = np.zeros(count, np.bool_)
    mask[lines] = np.asarray(pc.match_substring_regex(bare, pattern))
    return cast("Mask", mask)


def _suspicious(data: Bytes) -> Ints:
    """Places in or beside all that may be forbidden (and some that is not)."""
    pairs: list[Ints] = []
    digits: list[Ints] = []
    room = _Room(min(len(data), _BLOCK))
    for start in range(0, len(data), _BLOCK):
        block = data[start : start + _BLOCK + _FEWEST_DIGITS + 4]
        for phase in (0, 1):
            words = block[phase : phase + (len(block) - phase) // 2 * 2].view(np.uint16)
            places = _pairs(words, room)
            if len(places):
                pairs.append(places * 2 + (phase + start))
        places = _digit_runs(block[: len(block) // 4 * 4].view(np.uint32), room)
        if len(places):
            digits.append(places * 4 + start)
    found = [_real_pairs(data, np.concatenate(pairs)), *digits] if pairs else digits
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _closed_on_a_new_line(data: Bytes) -> Ints:
    """Places of line feeds right before } or ], which a comma may precede."""
    feeds = newlines(data)
    feeds = feeds[feeds < len(data) - 1]
    return feeds[(data[feeds + 1] & 0xDF) == 0x5D]


class _Room:
    """Memory for the temporary arrays of a block, used again for the next."""

    def __init__(self, block_bytes: int) -> None:
        count = block_bytes // 2 + _FEWEST_DIGITS
        self.pairs: Words = np.empty(count, np.uint16)
        self.closing: Mask = np.empty(count, np.bool_)
        self.letters: Mask = np.empty(count, np.bool_)
        self.fours: np.ndarray[Any, np.dtype[np.uint32]] = np.empty(count // 2, np.uint32)


def _pairs(words: Words, room: _Room) -> Ints:
    """Two bytes that can be a comma or blank before } or ], or the NA of NaN, or the NF of Infinity.

    Little-endian: the first byte is the low one. The masks fold bytes that may be taken together: } on ],
    comma and blanks on 0 (with !$%() and -), small letters on capitals, A to G on 0x40.
    """
    count = len(words)
    folded, closing, letters = room.pairs[:count], room.closing[:count], room.letters[:count]
    np.equal(np.bitwise_and(words, 0xDFD2, out=folded), 0x5D00, out=closing)
    np.equal(np.bitwise_and(words, 0xD8DF, out=folded), 0x404E, out=letters)
    return cast("Ints", np.logical_or(closing, letters, out=closing).nonzero()[0])


def _real_pairs(block: Bytes, places: Ints) -> Ints:
    """Of the pairs, those that can be what they look like: a literal does not follow a letter or a quote."""
    first, second = block[places] | 0x20, block[places + 1] | 0x20
    before = block[np.maximum(places - 1, 0)]
    two_before = block[np.maximum(places - 2, 0)]
    nan = (second == ord("a")) & (_ends_no_word(before) | (places < 1))
    inf = (second == ord("f")) & ((before | 0x20) == ord("i")) & (_ends_no_word(two_before) | (places < 2))
    return places[(first != ord("n")) | nan | inf | (places < 1)]


def _ends_no_word(bytes_: Bytes) -> Mask:
    return (bytes_ != ord('"')) & ((bytes_ < ord("A")) | (bytes_ == ord("[")))


def _digit_runs(words: np.ndarray[Any, np.dtype[np.uint32]], room: _Room) -> Ints:
    """Four aligned words in a row that hold nothing but digits (and :;<=>?)."""
    count = len(words)
    if count < 4:
        return np.zeros(0, np.int64)
    folded, digits, two = room.fours[:count], room.closing[:count], room.letters[: count - 1]
    np.equal(np.bitwise_and(words, 0xF0F0F0F0, out=folded), 0x30303030, out=digits)
    np.logical_and(digits[:-1], digits[1:], out=two)
    return cast("Ints", np.logical_and(two[:-2], two[2:]).nonzero()[0])


def _greater_than(digits: str) -> str:
    """Pattern of the whole numbers without leading zeros that are greater than `digits`."""
    choices = [rf"[1-9]\d{{{len(digits)},}}"]
    for place, digit in enumerate(digits):
        if digit != "9":
            rest = len(digits) - place - 1
            choices.append(f"{digits[:place]}[{int(digit) + 1}-9]" + (rf"\d{{{rest}}}" if rest else ""))
    return "(?:" + "|".join(choices) + ")"


_OUTSIDE_INT64 = (
    rf"(?:^|[:,\[\s])(?:-{_greater_than(_LONGEST_INTEGER[:-1] + '8')}|{_greater_than(_LONGEST_INTEGER)})"
    r"(?:[,}\]\s]|$)"
)
