"""The compiled pass over plain events (see `json_plain`): loops over bytes, made machine code by numba.

The code is kept on disk beside this module, or in the user's cache; where it is not there yet, making it
takes some seconds (`tideglass prepare` does it once). Only what numba can compile is written here. Places
are addresses in memory, so that a call hands on a few numbers instead of arrays; nothing after `end` is
read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir as _ir
from numba.core import types as _types
from numba.extending import intrinsic as _intrinsic

ir, types, intrinsic = (
    cast("Any", _ir),
    cast("Any", _types),
    cast("Any", _intrinsic),
)  # they have no types

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: Kinds of a column; all its values are of one, or null.
UNKNOWN, INTEGER, FLOAT, STRING, BOOLEAN = range(5)
#: Of a span, the bits that hold its length; those above hold its place.
SPAN_BITS = 32

#: A place that means: none.
_NO = 0
#: Keys of an event whose places are remembered, and containers within one another.
_MOST_KEYS = 256
_DEEPEST = 60
#: An integer of so many digits is one of int64, whatever they are; a number of so few is exact as a double.
_SAFE_DIGITS = 18
_EXACT_DIGITS = 15
_POWERS_OF_TEN = np.array([10.0**power for power in range(_EXACT_DIGITS + 1)])

_QUOTE, _BACKSLASH, _COLON, _COMMA, _MINUS, _PLUS, _POINT = (ord(mark) for mark in '"\\:,-+.')
_BRACE, _BRACE_END, _BRACKET, _BRACKET_END, _ZERO, _NINE = (ord(mark) for mark in "{}[]09")
_SPACE, _TAB, _FEED, _RETURN, _LARGE_E = (ord(mark) for mark in " \t\n\rE")
_SMALL_E, _SMALL_F, _SMALL_L, _SMALL_N, _SMALL_T = (ord(mark) for mark in "eflnt")

#: Eight bytes as one number: constants with the same in every byte, or every pair, or every four.
_ONES, _HIGHS, _SPACES, _QUOTES, _BACKSLASHES, _ZEROS, _HALVES, _SIXES, _LOWS = (
    np.uint64(byte * 0x0101010101010101) for byte in (0x01, 0x80, 0x20, 0x22, 0x5C, 0x30, 0xF0, 0x06, 0x0F)
)
_PAIRS, _FOURS = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)
_TENS, _HUNDREDS, _MYRIADS = (np.uint64(value) for value in (10 << 8 | 1, 100 << 16 | 1, 10_000 << 32 | 1))
_EIGHT, _SIXTEEN, _THIRTY_TWO = (np.uint64(bits) for bits in (8, 16, 32))


def compiled(function: _Function) -> _Function:
    """The function as machine code that is kept on disk."""
    compile_: Any = numba.njit
    try:
        return cast("_Function", compile_(cache=True)(function))
    except RuntimeError:  # no folder to keep the code in: it is made in every process
        return cast("_Function", compile_(function))


def _load(bits: int) -> Callable[..., Any]:
    """What makes the code that loads an unsigned number of so many bits from an address."""

    def generated(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
        return builder.load(place, align=1)

    return generated


def _byte_at(_: Any, __: Any) -> Any:
    return types.uint8(types.int64), _load(8)


def _word_at(_: Any, __: Any) -> Any:
    return types.uint64(types.int64), _load(64)


def _count_bytes_before(_: Any, __: Any) -> Any:
    def generated(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        zeros = builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))
        return builder.lshr(zeros, ir.Constant(ir.IntType(64), 3))

    return types.int64(types.uint64), generated


_byte: Callable[[int], int] = intrinsic(_byte_at)
#: Eight bytes, the first the lowest.
_word: Callable[[int], Any] = intrinsic(_word_at)
#: How many bytes of a word are below the first with a bit set.
_bytes_before: Callable[[Any], int] = intrinsic(_count_bytes_before)


@compiled
def _after_blanks(at: int, end: int) -> int:
    while at < end and _byte(at) <= _SPACE:
        byte = _byte(at)
        if byte != _SPACE and byte != _TAB and byte != _RETURN and byte != _FEED:
            break
        at += 1
    return at


@compiled
def _string_end(at: int, end: int) -> int:
    """The place of the quote that ends the string whose text begins at `at`; _NO if it is not plain."""
    while at + 8 <= end:
        word = _word(at)
        quotes, slashes = word ^ _QUOTES, word ^ _BACKSLASHES
        ends = ((quotes - _ONES) & ~quotes) | ((slashes - _ONES) & ~slashes) | ((word - _SPACES) & ~word)
        if ends & _HIGHS:
            at += _bytes_before(ends & _HIGHS)
            return at if _byte(at) == _QUOTE else _NO
        at += 8
    while at < end and _byte(at) != _QUOTE:
        if _byte(at) == _BACKSLASH or _byte(at) < _SPACE:
            return _NO
        at += 1
    return at if at < end else _NO


@compiled
def _digits_end(at: int, end: int, whole: Any) -> tuple[int, Any]:
    """The place after the digits at `at`, and `whole` with them appended."""
    while at + 8 <= end:
        word = _word(at)
        if (word & _HALVES) != _ZEROS or ((word + _SIXES) & _HALVES) != _ZEROS:
            break
        word = ((word & _LOWS) * _TENS) >> _EIGHT
        word = ((word & _PAIRS) * _HUNDREDS) >> _SIXTEEN
        whole = whole * 100_000_000 + np.int64(((word & _FOURS) * _MYRIADS) >> _THIRTY_TWO)
        at += 8
    while at < end and _ZERO <= _byte(at) <= _NINE:
        whole = whole * 10 + (_byte(at) - _ZERO)
        at += 1
    return at, whole


@compiled
def _number_end(at: int, end: int) -> tuple[int, int, int, bool]:
    """The place after a number; _NO if it is none, or an integer that may be outside int64.

    Besides: its digits as an integer, with its sign; how many are after the point, _NO of an integer; and
    whether it must be read from its text.
    """
    sign = -1 if _byte(at) == _MINUS else 1
    begin = at + 1 if sign < 0 else at
    at, whole = _digits_end(begin, end, 0)
    digits = at - begin
    if digits == 0 or (digits > 1 and _byte(begin) == _ZERO):
        return _NO, 0, 0, False
    if at == end or (_byte(at) != _POINT and _byte(at) != _SMALL_E and _byte(at) != _LARGE_E):
        safe = digits <= _SAFE_DIGITS and (whole != 0 or sign > 0)
        return at if safe else _NO, sign * whole, _NO, False
    decimals = 0
    if _byte(at) == _POINT:
        begin = at + 1
        at, whole = _digits_end(begin, end, whole)
        decimals = at - begin
        if decimals == 0:
            return _NO, 0, 0, False
    rough = digits + decimals > _EXACT_DIGITS or whole == 0  # which has a sign, too
    if at < end and (_byte(at) == _SMALL_E or _byte(at) == _LARGE_E):
        rough = True
        at += 1
        if at < end and (_byte(at) == _MINUS or _byte(at) == _PLUS):
            at += 1
        begin = at
        at, _ = _digits_end(begin, end, 0)
        if at == begin:
            return _NO, 0, 0, False
    return at, sign * whole, max(decimals, 1), rough


@compiled
def _word_end(at: int, end: int) -> int:
    """The place after true, false or null; _NO if there is none of them."""
    if at + 4 > end:
        return _NO
    first, second, third, fourth = _byte(at), _byte(at + 1), _byte(at + 2), _byte(at + 3)
    if first == _SMALL_T and second == ord("r") and third == ord("u") and fourth == _SMALL_E:
        return at + 4
    if first == _SMALL_N and second == ord("u") and third == _SMALL_L and fourth == _SMALL_L:
        return at + 4
    if first == _SMALL_F and second == ord("a") and third == _SMALL_L and fourth == ord("s"):
        return at + 5 if at + 5 <= end and _byte(at + 4) == _SMALL_E else _NO
    return _NO


@compiled
def _scalar_end(at: int, end: int) -> int:
    """The place after a string, number or word; _NO if it is none."""
    if at >= end:
        return _NO
    byte = _byte(at)
    if byte == _QUOTE:
        at = _string_end(at + 1, end)
        return at + 1 if at != _NO else _NO
    if byte == _MINUS or _ZERO <= byte <= _NINE:
        return _number_end(at, end)[0]
    return _word_end(at, end)


@compiled
def _key_end(at: int, end: int) -> int:
    """The place after the colon of a key; _NO if there is no key."""
    if at >= end or _byte(at) != _QUOTE:
        return _NO
    at = _string_end(at + 1, end)
    if at == _NO:
        return _NO
    at = _after_blanks(at + 1, end)
    return _after_blanks(at + 1, end) if at < end and _byte(at) == _COLON else _NO


@compiled
def _container_end(at: int, end: int) -> int:
    """The place after a record or array nobody asks for; _NO if it is not plain."""
    records, depth = 0, 0  # of the containers around us a bit is set if it is a record
    while True:
        # Here a value begins.
        if at < end and (_byte(at) == _BRACE or _byte(at) == _BRACKET):
            if depth == _DEEPEST:
                return _NO
            record = _byte(at) == _BRACE
            records = records << 1 | (1 if record else 0)
            depth += 1
            at = _after_blanks(at + 1, end)
            empty = at < end and _byte(at) == (_BRACE_END if record else _BRACKET_END)
            if not empty:
                at = _key_end(at, end) if record else at
                if at == _NO:
                    return _NO
                continue
        else:
            at = _scalar_end(at, end)
            if at == _NO:
                return _NO
            at = _after_blanks(at, end)
        # Here a value has ended, or an empty container is about to.
        while True:
            if at >= end:
                return _NO
            record = records & 1 == 1
            if _byte(at) == _COMMA:
                at = _after_blanks(at + 1, end)
                at = _key_end(at, end) if record else at
                if at == _NO:
                    return _NO
                break
            if _byte(at) != (_BRACE_END if record else _BRACKET_END):
                return _NO
            at += 1
            records >>= 1
            depth -= 1
            if depth == 0:
                return at
            at = _after_blanks(at, end)


@compiled
def _same(at: int, other: int, count: int) -> bool:
    while count >= 8:
        if _word(at) != _word(other):
            return False
        at, other, count = at + 8, other + 8, count - 8
    while count > 0:
        if _byte(at) != _byte(other):
            return False
        at, other, count = at + 1, other + 1, count - 1
    return True


@compiled
def _field_of(at: int, count: int, names: int, name_ends: Any) -> int:
    """Which of the names the key is; -1 if none."""
    for field in range(len(name_ends) - 1):
        begin = name_ends[field]
        if name_ends[field + 1] - begin == count and _same(at, names + begin, count):
            return field
    return -1


@compiled
def _beyond_ascii(at: int, end: int) -> bool:
    bits: Any = np.uint64(0)
    while at + 8 <= end:
        bits |= _word(at)
        at += 8
    while at < end:
        bits |= np.uint64(_byte(at))
        at += 1
    return (bits & _HIGHS) != 0


@compiled
def read_events(
    data: int,
    bounds: Any,
    names: int,
    name_ends: Any,
    values: Any,
    spans: Any,
    nulls: Any,
    kinds: Any,
    rough: Any,
) -> tuple[int, bool]:
    """How many events from the first on are plain; and whether there are characters beyond ASCII.

    data, bounds: event n is from data + bounds[n] to before data + bounds[n + 1]. names, name_ends: the
    fields asked for, in the same manner. For field f of event n: values[f, n] its integer, its boolean as 0
    or 1, or the bits of its double; spans[f, n] the place and length of a text, or of a number with a
    fraction; nulls[f, n] whether it is null or not there. kinds[f]: what all its values are. rough[f]: some
    doubles must be read from their texts.
    """
    wanted = len(name_ends) - 1
    doubles = values.view(np.float64)
    beyond_ascii = _beyond_ascii(data + bounds[0], data + bounds[-1])
    # The n-th key of an event is mostly that of the event before, which stands at key_at[n].
    key_at = np.zeros(_MOST_KEYS, np.int64)
    key_length = np.full(_MOST_KEYS, -1, np.int64)
    key_field = np.zeros(_MOST_KEYS, np.int64)
    found_in = np.full(wanted, -1, np.int64)  # the last event that has the field
    for event in range(len(bounds) - 1):
        at, end = data + bounds[event], data + bounds[event + 1]
        at = _after_blanks(at, end)
        if at >= end or _byte(at) != _BRACE:
            return event, beyond_ascii
        at = _after_blanks(at + 1, end)
        missing, keys = wanted, 0
        alike = False  # a key that is not asked for may be one that is, in other case
        more = at < end and _byte(at) != _BRACE_END
        while more:
            if at >= end or _byte(at) != _QUOTE or keys == _MOST_KEYS:
                return event, beyond_ascii
            begin = at + 1
            length = key_length[keys]
            if (
                length >= 0
                and begin + length < end
                and _byte(begin + length) == _QUOTE
                and _same(begin, key_at[keys], length)
            ):
                field = key_field[keys]
            else:
                at = _string_end(begin, end)
                if at == _NO:
                    return event, beyond_ascii
                length = at - begin
                field = _field_of(begin, length, names, name_ends)
                key_length[keys] = length
                key_field[keys] = field
            key_at[keys] = begin
            keys += 1
            at = _after_blanks(begin + length + 1, end)
            if at >= end or _byte(at) != _COLON:
                return event, beyond_ascii
            at = _after_blanks(at + 1, end)
            if at >= end:
                return event, beyond_ascii
            begin = at
            byte = _byte(at)
            if field < 0 or found_in[field] == event:  # of fields with one name the first counts
                for other in range(wanted):
                    alike = alike or name_ends[other + 1] - name_ends[other] == length
                container = byte in (_BRACE, _BRACKET)
                at = _container_end(at, end) if container else _scalar_end(at, end)
                if at == _NO:
                    return event, beyond_ascii
            else:
                found_in[field] = event
                missing -= 1
                kind = UNKNOWN
                if byte == _QUOTE:
                    at = _string_end(at + 1, end)
                    kind = STRING
                    spans[field, event] = (begin + 1 - data) << SPAN_BITS | (at - begin - 1)
                    at = at + 1 if at != _NO else _NO
                elif byte == _MINUS or _ZERO <= byte <= _NINE:
                    at, whole, decimals, is_rough = _number_end(at, end)
                    if decimals == _NO:
                        kind = INTEGER
                        values[field, event] = whole
                    else:
                        kind = FLOAT
                        spans[field, event] = (begin - data) << SPAN_BITS | (at - begin)
                        if is_rough:
                            rough[field] = True
                        else:  # both are exact, so their quotient is the double nearest to the number
                            doubles[field, event] = np.float64(whole) / _POWERS_OF_TEN[decimals]
                else:
                    at = _word_end(at, end)
                    if byte == _SMALL_N:
                        nulls[field, event] = True
                        spans[field, event] = 0
                    else:
                        kind = BOOLEAN
                        values[field, event] = byte == _SMALL_T
                if at == _NO or (kind != UNKNOWN and kinds[field] != UNKNOWN and kind != kinds[field]):
                    return event, beyond_ascii
                if kind != UNKNOWN:
                    kinds[field] = kind
            at = _after_blanks(at, end)
            if at >= end:
                return event, beyond_ascii
            if _byte(at) == _COMMA:
                at = _after_blanks(at + 1, end)
            else:
                more = False
        if at >= end or _byte(at) != _BRACE_END or _after_blanks(at + 1, end) != end:
            return event, beyond_ascii
        if missing > 0:
            if alike or beyond_ascii:
                return event, beyond_ascii
            for field in range(wanted):
                if found_in[field] != event:
                    nulls[field, event] = True
                    spans[field, event] = 0
    return len(bounds) - 1, beyond_ascii


@compiled
def gather(data: int, spans: Any, bounds: Any, joined: Any) -> None:
    """Put the text of every span to joined[bounds[n] : bounds[n + 1]]."""
    for row in range(len(spans)):
        begin = data + (spans[row] >> SPAN_BITS)
        to = bounds[row]
        for place in range(bounds[row + 1] - to):
            joined[to + place] = _byte(begin + place)
