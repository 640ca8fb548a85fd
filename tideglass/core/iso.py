"""ISO 8601 texts of whole columns, to ticks and back (`asa.md` 5.3); `core.time` has the rule for one value.

Texts of one length have their digits in the same places, so they are read as a matrix of bytes. Shapes
the service itself writes are read that way; everything else is left to `parse_ticks`, one text at a time.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Bytes, Ints, Mask, pc
from tideglass.core.time import (
    LAST_TICKS,
    ORIGIN_TICKS,
    TICKS_PER_DAY,
    TICKS_PER_HOUR,
    TICKS_PER_MINUTE,
    TICKS_PER_SECOND,
    parse_ticks,
)

_DAYS_IN_MONTH = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_LONGEST_FAST = 28  # 2019-10-07T00:03:55.0000000Z
_SEPARATORS = {4: b"-", 7: b"-", 10: b"Tt ", 13: b":", 16: b":", 19: b"."}


def flat(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The column as one array without an offset, so that its buffers can be read in place."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
        if isinstance(array, pa.ChunkedArray):  # combine_chunks of no chunks
            array = pa.array([], array.type)
    return pa.concat_arrays([array, array.slice(0, 0)]) if array.offset else array


def string_buffers(array: pa.Array) -> tuple[Ints, Bytes]:
    """Offsets (one more than rows) and bytes of a flat string array, without a copy of the bytes."""
    buffers = cast("list[Any]", array.buffers())
    offsets = np.frombuffer(buffers[1], dtype=np.int32, count=len(array) + 1) if buffers[1] else np.zeros(1)
    data = np.frombuffer(buffers[2], dtype=np.uint8) if buffers[2] is not None else np.zeros(0, np.uint8)
    return cast("Ints", offsets.astype(np.int64)), cast("Bytes", data)


def days_of_date(year: Ints, month: Ints, day: Ints) -> Ints:
    """Days since 1970-01-01 of proleptic Gregorian dates (years from 1)."""
    shifted_year = np.where(month <= 2, year - 1, year)
    era = shifted_year // 400
    year_of_era = shifted_year - era * 400
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * 146_097 + day_of_era - 719_468


def date_of_days(days: Ints) -> tuple[Ints, Ints, Ints]:
    """Year, month and day of days since 1970-01-01."""
    shifted = days + 719_468
    era = shifted // 146_097
    day_of_era = shifted - era * 146_097
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted_month + 2) // 5 + 1
    month = np.where(shifted_month < 10, shifted_month + 3, shifted_month - 9)
    return year_of_era + era * 400 + (month <= 2), month, day


def _fast_ticks(text: Bytes) -> tuple[Ints, Mask]:
    """Ticks of equally long texts (a matrix, one row a text) and which of them could be read so."""
    length = text.shape[1]
    zoned = (text[:, -1] == ord("Z")) | (text[:, -1] == ord("z"))
    good = np.ones(len(text), dtype=np.bool_)
    end = length - 1 if length > 10 and bool(zoned.all()) else length
    if end not in (10, 16, 19) and not 20 < end <= 27:
        return np.zeros(len(text), np.int64), ~good
    for place, allowed in _SEPARATORS.items():
        if place < end:
            good &= np.isin(text[:, place], np.frombuffer(allowed, np.uint8))

    def number(start: int, stop: int) -> Ints:
        value = np.zeros(len(text), np.int64)
        if stop > end:
            return value
        for place in range(start, stop):
            digit = text[:, place] - np.uint8(48)  # wraps for bytes below '0'
            np.logical_and(good, digit < 10, out=good)
            value = value * 10 + digit
        return value

    year, month, day = number(0, 4), number(5, 7), number(8, 10)
    hour, minute, second = number(11, 13), number(14, 16), number(17, 19)
    fraction = number(20, end) * 10 ** (27 - end) if end > 20 else np.zeros(len(text), np.int64)
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    last_day = _DAYS_IN_MONTH[np.clip(month, 0, 12)] + (leap & (month == 2))
    good &= (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= last_day)
    good &= (hour < 24) & (minute < 60) & (second < 60)
    seconds = days_of_date(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second
    return seconds * TICKS_PER_SECOND + fraction, good


def ticks_of_texts(texts: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Ticks (int64) of each ISO text by the rule of `parse_ticks`; NULL where it names no instant."""
    column = flat(texts)
    count = len(column)
    offsets, data = string_buffers(column)
    known = np.asarray(column.is_valid())
    lengths = np.where(known, np.diff(offsets), -1)
    ticks = np.zeros(count, np.int64)
    good = np.zeros(count, np.bool_)
    for length in np.unique(lengths):
        if 10 <= length <= _LONGEST_FAST:
            rows = np.flatnonzero(lengths == length)
            matrix = data[offsets[rows][:, None] + np.arange(length)]
            ticks[rows], good[rows] = _fast_ticks(matrix)
    for row in np.flatnonzero(known & ~good):
        parsed = parse_ticks(cast("str", column[int(row)].as_py()))
        if parsed is not None:
            ticks[row], good[row] = parsed, True
    return pa.array(ticks, mask=~good)


def texts_of_ticks(ticks: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The service's ISO text (seven fraction digits and Z) of each instant; NULL stays NULL.

    An instant outside 0001..9999 cannot be written and raises ValueError.
    """
    column = flat(ticks)
    known = np.asarray(column.is_valid())
    values = np.asarray(pc.fill_null(column, 0), dtype=np.int64)
    if len(values) and (values.min() < ORIGIN_TICKS or values.max() > LAST_TICKS):
        raise ValueError("a datetime outside the years 0001 to 9999 has no text")
    days, rest = np.divmod(values, TICKS_PER_DAY)
    year, month, day = date_of_days(days)
    parts = (
        (0, 4, year),
        (5, 2, month),
        (8, 2, day),
        (11, 2, rest // TICKS_PER_HOUR),
        (14, 2, rest // TICKS_PER_MINUTE % 60),
        (17, 2, rest // TICKS_PER_SECOND % 60),
        (20, 7, rest % TICKS_PER_SECOND),
    )
    matrix = np.tile(np.frombuffer(b"0000-00-00T00:00:00.0000000Z", np.uint8), (len(values), 1))
    for start, width, number in parts:
        remaining = number
        for place in range(start + width - 1, start - 1, -1):
            remaining, digit = np.divmod(remaining, 10)
            matrix[:, place] += digit.astype(np.uint8)
    offsets = np.arange(len(values) + 1, dtype=np.int32) * _LONGEST_FAST
    texts = pa.Array.from_buffers(
        pa.string(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(matrix.tobytes())]
    )
    return texts if known.all() else pc.if_else(pa.array(known), texts, pa.scalar(None, pa.string()))
