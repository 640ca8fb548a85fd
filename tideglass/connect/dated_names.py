"""Dates and times in names of files: formats such as `YYYY/MM/DD` and `HH-mm` (`asa.md` 6.1, 6.3)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from tideglass.core.errors import InputError
from tideglass.core.time import ticks_of_datetime

#: What a date or time format may be made of, besides / - and _ between them, from the longest period down.
PARTS: Mapping[str, str] = {
    "YYYY": "year",
    "MM": "month",
    "DD": "day",
    "HH": "hour",
    "mm": "minute",
    "ss": "second",
}
_DIGITS = {"YYYY": 4}
_SPLIT = re.compile(r"(YYYY|MM|DD|HH|mm|ss)")


def parts_of_format(text: str) -> list[str]:
    """The parts of a format and what stands between them, alternating. Raises InputError for no format.

    >>> parts_of_format("YYYY-MM")
    ['', 'YYYY', '-', 'MM', '']
    """
    pieces = _SPLIT.split(text)
    if not any(piece in PARTS for piece in pieces) or not re.fullmatch(r"[-/_]*", "".join(pieces[::2])):
        raise InputError(f"{text!r} is no format of a date or time; write one such as YYYY-MM-DD or HH-mm")
    return pieces


def format_regex(text: str, seen: set[str] | None = None) -> str:
    """A regular expression for what a format gives; its groups are named year, month, … second.

    seen: the parts that stand before it in the same name, which must be the same again; added to.
    """
    seen = set() if seen is None else seen
    result = ""
    for piece in parts_of_format(text):
        name = PARTS.get(piece)
        if name is None:
            result += re.escape(piece)
        elif name in seen:
            result += f"(?P={name})"
        else:
            result += rf"(?P<{name}>\d{{{_DIGITS.get(piece, 2)}}})"
            seen.add(name)
    return result


def formatted(text: str, time: datetime) -> str:
    """A time as a format writes it.

    >>> formatted("YYYY/MM/DD", datetime(2026, 3, 1))
    '2026/03/01'
    """
    return "".join(
        f"{getattr(time, PARTS[piece]):0{_DIGITS.get(piece, 2)}d}" if piece in PARTS else piece
        for piece in parts_of_format(text)
    )


def ticks_in(found: Mapping[str, str | None]) -> int:
    """The time of a name, in UTC, by the groups of `format_regex`. Raises ValueError for what is no time."""
    numbers = {name: int(text) for name, text in found.items() if name in PARTS.values() and text}
    try:
        return ticks_of_datetime(datetime(**{"day": 1, "month": 1, **numbers}, tzinfo=UTC))
    except TypeError as error:  # without a year
        raise ValueError(str(error)) from error


def periods_around(parts: set[str], now: datetime, before: int) -> list[datetime]:
    """The period `now` is in, `before` ones before it and the next one; as long as the shortest part.

    parts: of the formats. Each is given by its first moment.
    """
    if "mm" in parts or "ss" in parts:
        step, begin = timedelta(minutes=1), now.replace(second=0, microsecond=0)
    elif "HH" in parts:
        step, begin = timedelta(hours=1), now.replace(minute=0, second=0, microsecond=0)
    elif "DD" in parts:
        step, begin = timedelta(days=1), now.replace(hour=0, minute=0, second=0, microsecond=0)
    elif "MM" in parts:
        begin = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        months = [begin.year * 12 + begin.month - 1 + n for n in range(-before, 2)]
        return [begin.replace(year=month // 12, month=month % 12 + 1) for month in months]
    else:
        begin = now.replace(month=1, day=1, hour=0, minute=0, second=0, microsecond=0)
        return [begin.replace(year=begin.year + n) for n in range(-before, 2)]
    return [begin + n * step for n in range(-before, 2)]
