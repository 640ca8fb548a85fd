"""Telling apart the events of a JSON document: arrays, objects and broken parts, in any order and layout.

An event is an object, alone or as an element of an array. Brackets of arrays, commas, line ends and blanks
between events are layout. What is neither is a broken part, to be refused: it goes to the next comma, line
end or array bracket between events, and to the next object if it follows one.

    [{"n":1}, oops, {"n":2}]      three parts
    {"n":3}{"n":4} {"n":5} oops   three parts, the last of them broken

An object that is never closed is a broken part too. Reading goes on at the next line that begins an object
or an array and is indented no deeper than the line the broken one begins on; what is deeper belongs to it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa

from tideglass.connect.formats.json.framing import BLANKS, BYTE_ORDER_MARK, Tokens, texts_between
from tideglass.core.arrays import Bytes, Ints, Mask
from tideglass.core.profile import measured

_OPEN, _CLOSE, _COMMA, _LINE_END = (ord(mark) for mark in "[],\n")
_OPEN_OBJECT, _CLOSE_OBJECT = ord("{"), ord("}")
#: A line that begins an object or an array; the group is the bracket.
_BEGINS = re.compile(rb"^[ \t,]*([\[{])", re.MULTILINE)
_BLANK_OR_COMMA = BLANKS + b","


@dataclass(frozen=True, slots=True)
class Parts:
    """The events of some bytes, as far as they are found.

    starts, stops: event i is the bytes [starts[i], stops[i]).
    done: how far the bytes are searched.
    inside: whether an array is open at `done`.
    """

    starts: Ints
    stops: Ints
    done: int
    inside: bool

    def texts(self, data: Bytes) -> tuple[pa.Array, Ints]:
        """The parts that are not blank as unvalidated texts, and where each begins."""
        edges = np.stack((self.starts, self.stops), axis=1).ravel()
        if not len(edges):
            return pa.array([], pa.string()), self.starts
        every = texts_between(data, edges)  # the parts and, in between, the layout
        return every.take(pa.array(np.arange(0, len(edges), 2))), self.starts


@measured("decoding events")
def parts_of(data: Bytes, inside: bool = False, last: bool = True) -> Parts:
    """The parts of a document's bytes.

    inside: whether they begin inside an array. last: whether the document ends with them; else the part at
    their end is left for when more of it is there.
    """
    tokens = Tokens(data)
    found = _of_matching_brackets(data, tokens, inside, last)
    return _one_by_one(data, tokens, inside, last) if found is None else found


def next_beginning(data: Bytes) -> int | None:
    """Where the next line begins that begins an object or an array without being indented."""
    found = re.search(rb"\n[\[{]", cast("Any", data))
    return None if found is None else found.start() + 1


def _parts(
    data: Bytes, starts: Sequence[int] | Ints, stops: Sequence[int] | Ints, holds_object: Mask
) -> tuple[Ints, Ints]:
    """The parts without blank ones. holds_object: those known not to be blank."""
    first, ends = np.asarray(starts, np.int64), np.asarray(stops, np.int64)
    kept = (ends > first) & holds_object
    for place in np.flatnonzero((ends > first) & ~holds_object).tolist():
        kept[place] = data[first[place] : ends[place]].tobytes().strip(BLANKS) != b""
    return first[kept], ends[kept]


# ---------------------------------------------------------------- at once


def _of_matching_brackets(data: Bytes, tokens: Tokens, inside: bool, last: bool) -> Parts | None:
    """The parts, if all brackets match and no line looks as if one were missing."""
    kinds, places = tokens.kinds, tokens.places
    opens, closes = (kinds & 0xDF) == _OPEN, (kinds & 0xDF) == _CLOSE
    after = tokens.depth + int(inside)
    before = after - opens + closes
    if (after < 0).any() or not _all_match(kinds, opens, closes, before, after, inside):
        return None
    outermost = np.flatnonzero(opens & (before == 0))
    of = np.searchsorted(outermost, np.arange(len(kinds)), side="right") - 1
    in_array = (
        np.where(of >= 0, kinds[outermost[of]], _OPEN if inside else 0) == _OPEN
        if len(outermost)
        else np.full(len(kinds), inside)
    )
    between = (after == 0) | (after == 1) & in_array
    begins = (kinds == _OPEN_OBJECT) & ((before == 0) | (before == 1) & in_array)
    ends = (kinds == _CLOSE_OBJECT) & between
    if int(begins.sum()) != int(ends.sum()) and last:
        return None  # an object is never closed
    if _hides_a_line(data, places[begins], places[ends]):
        return None
    cuts = ((kinds == _COMMA) | (kinds == _LINE_END)) & between
    cuts |= (kinds == _OPEN) & (before == 0) | (kinds == _CLOSE) & (after == 0)
    marks = np.flatnonzero(cuts | begins)
    object_at = begins[marks]
    after_object = np.concatenate(([False], object_at[:-1]))
    chosen = marks[~object_at | after_object]  # an object after another is a part of its own
    first = _begin(data)
    starts = np.concatenate(([first], places[chosen] + ~begins[chosen]))
    stops = np.concatenate((places[chosen], [len(data)]))
    held = np.searchsorted(places[begins], stops) > np.searchsorted(places[begins], starts)
    if last:
        return Parts(*_parts(data, starts, stops, held), len(data), False)
    done = int(starts[-1]) if len(chosen) else 0
    if len(chosen):
        depth = before[chosen[-1]] if begins[chosen[-1]] else after[chosen[-1]]
        inside = bool(depth == 1)
    return Parts(*_parts(data, starts[:-1], stops[:-1], held[:-1]), done, inside)


def _all_match(kinds: Bytes, opens: Mask, closes: Mask, before: Ints, after: Ints, inside: bool) -> bool:
    """Whether each closing bracket is of the kind of the one it closes."""
    brackets = np.flatnonzero(opens | closes)
    levels = np.where(opens, after, before)[brackets]
    order = np.argsort(levels, kind="stable")
    levels, kinds, closing = levels[order], kinds[brackets][order], closes[brackets][order]
    places = np.flatnonzero(closing)
    if inside and len(levels) and levels[0] == 1 and closing[0]:  # of the array the bytes begin in
        if kinds[0] != _CLOSE:
            return False
        places = places[1:]
    return bool((kinds[places] - kinds[places - 1] == _CLOSE - _OPEN).all())


def _hides_a_line(data: Bytes, begins: Ints, ends: Ints) -> bool:
    """Whether a line that looks as if an event began on it is inside an object."""
    if not len(begins) or not (data[: int(ends[-1]) if len(ends) else len(data)] == _LINE_END).any():
        return False
    text = data.tobytes()
    found = [(each.start(1), each.start(1) - each.start()) for each in _BEGINS.finditer(text)]
    if not found:
        return False
    lines = np.array(found, np.int64)
    object_of = np.searchsorted(begins, lines[:, 0], side="left") - 1
    inner = object_of >= 0
    inner[inner] = lines[inner, 0] < np.append(ends, len(data))[object_of[inner]]
    own: dict[int, int] = {}
    for place, indent in zip(object_of[inner].tolist(), lines[inner, 1].tolist(), strict=True):
        if place not in own:
            own[place] = _indent(text, int(begins[place]))
        if indent <= own[place]:
            return True
    return False


def _indent(text: bytes, place: int) -> int:
    """How far the line is indented that a place is on."""
    line = text[text.rfind(b"\n", 0, place) + 1 : place + 1]
    return len(line) - len(line.lstrip(_BLANK_OR_COMMA))


def _begin(data: Bytes) -> int:
    return len(BYTE_ORDER_MARK) if data[:3].tobytes() == BYTE_ORDER_MARK else 0


# ---------------------------------------------------------------- one by one


def _one_by_one(data: Bytes, tokens: Tokens, inside: bool, last: bool) -> Parts:
    """The parts where brackets may not match."""
    text = data.tobytes()
    places, kinds = cast("list[int]", tokens.places.tolist()), cast("list[int]", tokens.kinds.tolist())
    closing = _Closing(text, tokens)
    starts, stops, objects = list[int](), list[int](), list[bool]()
    begin, holds_object, at = _begin(data), False, 0

    def cut(stop: int, next_begin: int) -> None:
        nonlocal begin, holds_object
        starts.append(begin)
        stops.append(stop)
        objects.append(holds_object)
        begin, holds_object = next_begin, False

    while at < len(places):
        place, kind = places[at], kinds[at]
        if kind in (_COMMA, _LINE_END, _CLOSE) or (kind == _OPEN and not inside):
            cut(place, place + 1)
            inside = kind == _OPEN or (inside and kind != _CLOSE)
        elif kind in (_OPEN_OBJECT, _OPEN):
            if kind == _OPEN_OBJECT and holds_object:
                cut(place, place)
            end = closing.of(at)
            if end is None:
                resumed = closing.resumed(place)
                if resumed is None and not last:
                    break
                resumed = len(text) if resumed is None else resumed
                holds_object = True
                cut(resumed, resumed)
                at = int(np.searchsorted(tokens.places, resumed))
                continue
            holds_object = holds_object or kind == _OPEN_OBJECT
            at = end
        at += 1
    if last:
        cut(len(text), len(text))
    return Parts(*_parts(data, starts, stops, np.array(objects, np.bool_)), begin, inside and not last)


class _Closing:
    """Which bracket closes which, and where reading goes on if none does."""

    def __init__(self, text: bytes, tokens: Tokens) -> None:
        self._text = text
        self._places = cast("list[int]", tokens.places.tolist())
        self._kinds = cast("list[int]", tokens.kinds.tolist())
        self._depth = tokens.depth
        self._least_from = np.minimum.accumulate(tokens.depth[::-1])[::-1]
        lines = [(each.start(1), each.start(1) - each.start()) for each in _BEGINS.finditer(text)]
        self._lines = np.array(lines, np.int64).reshape(-1, 2)

    def of(self, at: int) -> int | None:
        """The token that closes the one at `at`; None if none does, or what is between is no JSON."""
        outside = int(self._depth[at]) - 1
        if self._least_from[at] > outside:
            return None
        expected = list[int]()
        for here in range(at, len(self._kinds)):
            kind = self._kinds[here]
            if (kind & 0xDF) == _OPEN:
                expected.append(kind + _CLOSE - _OPEN)
            elif (kind & 0xDF) == _CLOSE:
                if kind != expected.pop():
                    return None
                if not expected:
                    return here if self._is_one(self._places[at], self._places[here] + 1) else None
        return None

    def _is_one(self, start: int, stop: int) -> bool:
        """Whether the brackets hold one value; in doubt only where a line in it looks like another event."""
        resumed = self.resumed(start)
        if resumed is None or resumed >= stop:
            return True
        try:
            json.loads(self._text[start:stop])
        except (ValueError, RecursionError):
            return False
        return True

    def resumed(self, place: int) -> int | None:
        """Where the first line after a place begins that is not a part of what begins there."""
        indent = _indent(self._text, place)
        later = self._lines[np.searchsorted(self._lines[:, 0], place, side="right") :]
        found = np.flatnonzero(later[:, 1] <= indent)
        if not len(found):
            return None
        line_place, line_indent = later[found[0]].tolist()
        return line_place - line_indent
