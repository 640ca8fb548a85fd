"""JSON texts (lines of a file, payloads of messages) that may hold several events, or a part of an array.

Nearly always each holds one, so they are decoded as if all did; only where events are refused are the texts
in question taken apart.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import duckdb
import numpy as np
import pyarrow as pa

from tideglass.connect.formats.decoded import Decoded
from tideglass.connect.formats.json.decode import as_binary, decode_json, valid_json
from tideglass.connect.formats.json.document import parts_of
from tideglass.connect.formats.json.framing import BLANKS, Tokens
from tideglass.core.arrays import Bytes, Ints, Mask, pc
from tideglass.core.events import Fields

#: What only texts look like that hold more or less than one object.
_NOT_ONE = r"^(?:\xEF\xBB\xBF)?[\s,\]]*\[|^\s*[,\]]|[,\]\[]\s*$|\}[\s,\[\]]*\{"
#: A message that is right to hold no event: blank, or arrays of nothing.
_NO_EVENT = re.compile(rb"(?:\xEF\xBB\xBF)?\s*(?:\[\s*\]\s*)*")


def decode_lines(texts: pa.Array, begins: Ints, fields: Fields, level: str = "1.2") -> Decoded:
    """The events on lines that begin at `begins`; `$line` of an event is where it begins on its line.

    Each line is taken by itself: brackets of an array, and commas, may stand before and after the events on
    it. Of a line that holds nothing but an object, or nothing one can read, `$line` is where it begins.
    """
    decoded = decode_json(texts, fields, level, begins, one_line_each=True)
    found = _apart(as_binary(texts), one_line_each=True) if decoded.rejected else None
    if found is None:
        return decoded
    parts, line_of, places = found
    return decode_json(parts, fields, level, begins[line_of] + places, one_line_each=True)


def decode_payloads(payloads: pa.Array, fields: Fields, level: str = "1.2") -> tuple[Decoded, Ints]:
    """The events of messages, and the message of each by its `$line`. A message that is NULL holds none."""
    texts, message_of = explode_payloads(payloads)
    decoded = decode_json(texts, fields, level)
    found = _apart(as_binary(texts), one_line_each=False) if decoded.rejected else None
    if found is None:
        return decoded, message_of
    return decode_json(found[0], fields, level), message_of[found[1]]


def explode_payloads(payloads: pa.Array) -> tuple[pa.Array, Ints]:
    """Messages whose payload may be an array of events, as single events and the message of each."""
    texts = payloads.cast(pa.binary())
    arrays = pc.match_substring_regex(texts, r"^(?:\xEF\xBB\xBF)?\s*\[").fill_null(False)
    found = np.flatnonzero(np.asarray(arrays))
    if not len(found):
        return texts, np.arange(len(texts))
    exploded, source_of, _ = _with_parts(
        texts, found, [_parts_of_message(texts, place) for place in found.tolist()]
    )
    return exploded, source_of


@dataclass(frozen=True, slots=True)
class _Parts:
    """Parts of some of the texts: which text each is of, and where in it it begins."""

    texts: pa.Array
    source_of: Ints
    places: Ints


def _apart(texts: pa.Array, *, one_line_each: bool) -> tuple[pa.Array, Ints, Ints] | None:
    """The texts with those taken apart that are not one object; the text of each, and where in it it begins.

    None if there is nothing to take apart.
    """
    chosen = np.flatnonzero(np.asarray(pc.match_substring_regex(texts, _NOT_ONE).fill_null(False)))
    chosen = chosen[~_are_objects(texts.take(pa.array(chosen)))]
    if not len(chosen):
        return None
    if not one_line_each:
        return _with_parts(texts, chosen, [_parts_of_message(texts, place) for place in chosen.tolist()])
    match = _Lines.of(texts, chosen).match()
    found = [_parts_of_one(texts, place) for place in chosen[~match].tolist()]
    if match.any():
        found.append(_Lines.of(texts, chosen[match]).parts())
    return _with_parts(texts, chosen, found)


def _with_parts(texts: pa.Array, replaced: Ints, found: Sequence[_Parts]) -> tuple[pa.Array, Ints, Ints]:
    """The texts, the parts in place of those they are of: with the text of each, and its place in it."""
    kept = np.setdiff1d(np.arange(len(texts)), replaced)
    every = [_Parts(texts.take(pa.array(kept)), kept, np.zeros(len(kept), np.int64)), *found]
    source_of = np.concatenate([each.source_of for each in every])
    places = np.concatenate([each.places for each in every])
    order = np.lexsort((places, source_of))
    joined = pa.concat_arrays([each.texts for each in every]).take(pa.array(order))
    return joined, source_of[order], places[order]


def _parts_of_one(texts: pa.Array, source: int) -> _Parts:
    data = np.frombuffer(texts[source].as_py(), np.uint8)
    found, starts = parts_of(data).texts(data)
    return _Parts(as_binary(found), np.full(len(found), source), starts)


def _parts_of_message(texts: pa.Array, source: int) -> _Parts:
    """The parts of a message; all of it is one, to be refused, if it holds none and should."""
    found = _parts_of_one(texts, source)
    if len(found.texts) or _NO_EVENT.fullmatch(texts[source].as_py()):
        return found
    return _Parts(texts.slice(source, 1), np.array([source]), np.zeros(1, np.int64))


def _are_objects(texts: pa.Array) -> Mask:
    """Which texts are one JSON object."""
    objects = np.asarray(pc.match_substring_regex(texts, r"^\s*\{"), np.bool_)
    try:
        return objects & valid_json(texts.cast(pa.string()))
    except (pa.ArrowInvalid, duckdb.Error, UnicodeDecodeError):  # not UTF-8
        return np.array([_is_object(text) for text in cast("list[bytes]", texts.to_pylist())], np.bool_)


def _is_object(text: bytes) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


@dataclass(frozen=True, slots=True)
class _Lines:
    """Lines as bytes, each with its end: bounds[i] to bounds[i + 1]; blanks around a line are left out.

    indents: how many blanks were before each. source_of: which text each line is.
    """

    data: Bytes
    bounds: Ints
    indents: Ints
    source_of: Ints

    @classmethod
    def of(cls, texts: pa.Array, chosen: Ints) -> _Lines:
        lines = cast("list[bytes]", texts.take(pa.array(chosen)).to_pylist())
        ended = [line.strip(BLANKS) + b"\n" for line in lines]
        indents = [len(line) - len(line.lstrip(BLANKS)) for line in lines]
        data = np.frombuffer(b"".join(ended), np.uint8)
        return cls(data, np.cumsum([0, *map(len, ended)], dtype=np.int64), np.array(indents), chosen)

    def match(self) -> Mask:
        """On which lines every bracket is closed that is opened there, by one of its kind."""
        tokens = Tokens(self.data)
        depth = np.concatenate(([0], tokens.depth))
        before = depth[np.searchsorted(tokens.places, self.bounds)]  # where each line begins, and at the end
        line_of = np.searchsorted(self.bounds, tokens.places, side="right") - 1
        match = before[1:] == before[:-1]
        match[line_of[tokens.depth < before[line_of]]] = False
        curly = (tokens.kinds == ord("{")).astype(np.int64) - (tokens.kinds == ord("}"))
        return match & (np.bincount(line_of, curly, minlength=len(match)) == 0)

    def parts(self) -> _Parts:
        """The parts of lines on which every bracket is closed, so that they can be separated at once."""
        found = parts_of(self.data)
        texts, starts = found.texts(self.data)
        line_of = np.searchsorted(self.bounds, starts, side="right") - 1
        return _Parts(
            as_binary(texts), self.source_of[line_of], starts - self.bounds[line_of] + self.indents[line_of]
        )
