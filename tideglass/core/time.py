"""Time as the engine counts it: int64 ticks of 100 ns since 1970-01-01T00:00:00Z (`asa.md` 1.1)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

NANOSECONDS_PER_TICK = 100
TICKS_PER_MICROSECOND = 10
TICKS_PER_MILLISECOND = 10_000
TICKS_PER_SECOND = 10_000_000
TICKS_PER_MINUTE = 60 * TICKS_PER_SECOND
TICKS_PER_HOUR = 60 * TICKS_PER_MINUTE
TICKS_PER_DAY = 24 * TICKS_PER_HOUR

#: 0001-01-01T00:00:00Z, a Monday: the instant windows are aligned to (`asa.md` 3.1, A-15).
ORIGIN_TICKS = -621_355_968_000_000_000
#: 9999-12-31T23:59:59.9999999Z, the last instant a datetime can name.
LAST_TICKS = 2_534_023_007_999_999_999

#: Stands for "no watermark yet" and "end of input": far outside every datetime, so that adding a
#: window size or a tolerance to either cannot overflow int64.
BEFORE_ALL_TICKS = -(2**62)
AFTER_ALL_TICKS = 2**62

#: Units of windows, DATEDIFF bounds and LIMIT DURATION with a fixed length (`asa.md` 3.1).
UNIT_TICKS = {
    **dict.fromkeys(("day", "days", "dd", "d"), TICKS_PER_DAY),
    **dict.fromkeys(("hour", "hours", "hh"), TICKS_PER_HOUR),
    **dict.fromkeys(("minute", "minutes", "mi", "n"), TICKS_PER_MINUTE),
    **dict.fromkeys(("second", "seconds", "ss", "s"), TICKS_PER_SECOND),
    **dict.fromkeys(("millisecond", "milliseconds", "ms"), TICKS_PER_MILLISECOND),
    **dict.fromkeys(("microsecond", "microseconds", "mcs"), TICKS_PER_MICROSECOND),
}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ISO = re.compile(
    r"^\s*(\d{4})-(\d{2})-(\d{2})"
    r"(?:[Tt ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?"
    r"\s*([Zz]|[+-]\d{2}(?::?\d{2})?)?)?\s*$"
)


def ticks_of_datetime(moment: datetime) -> int:
    """Ticks of `moment`; one without a zone is taken as UTC (A-32)."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    delta = moment - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * TICKS_PER_SECOND + delta.microseconds * 10


def parse_ticks(text: str) -> int | None:
    """Ticks named by an ISO 8601 text, or None when it names no instant.

    Accepts a date, or date and time with up to nine fraction digits (those past the seventh are
    cut) and an optional zone; text without a zone is UTC (A-32).

    >>> parse_ticks("1970-01-01T00:00:00.0000001Z")
    1
    >>> parse_ticks("1970-01-01T02:00:00+02:00")
    0
    >>> parse_ticks("noon") is None
    True
    """
    match = _ISO.match(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    try:
        moment = datetime(
            int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0), tzinfo=UTC
        )
    except ValueError:
        return None
    ticks = ticks_of_datetime(moment) + int((fraction or "").ljust(7, "0")[:7])
    if zone and zone not in "Zz":
        digits = zone[1:].replace(":", "").ljust(4, "0")
        offset_ticks = int(digits[:2]) * TICKS_PER_HOUR + int(digits[2:]) * TICKS_PER_MINUTE
        ticks -= offset_ticks if zone[0] == "+" else -offset_ticks
    return ticks if ORIGIN_TICKS <= ticks <= LAST_TICKS else None


def format_ticks(ticks: int) -> str:
    """ISO text with seven fraction digits and Z, the service's own form (`asa.md` 5.3).

    >>> format_ticks(0)
    '1970-01-01T00:00:00.0000000Z'
    """
    seconds, fraction = divmod(ticks, TICKS_PER_SECOND)
    moment = _EPOCH + timedelta(seconds=seconds)
    return f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}.{fraction:07d}Z"


def span_text(seconds: float, *, compact: bool = False) -> str:
    """A length of time for people: in the unit one would take, smaller ones are cut.

    compact: without blanks, in at most six characters below 100 days, for columns.

    >>> span_text(0.25), span_text(42), span_text(840), span_text(4000), span_text(200_000)
    ('0.25 s', '42 s', '14 min', '1 h 6 min', '2 d 7 h')
    >>> span_text(75.4, compact=True), span_text(7384, compact=True)
    ('75s', '2h3m')
    """
    if seconds < 120:
        number = f"{round(seconds, 3):.2g}" if seconds < 9.95 else f"{min(seconds, 119):.0f}"
        text = f"{number} s"
    elif seconds < 3600:
        text = f"{int(seconds // 60)} min"
    else:
        much, rest, units = int(seconds // 3600), int(seconds % 3600 // 60), ("h", "min")
        if much >= 48:
            (much, rest), units = divmod(much, 24), ("d", "h")
        text = f"{much} {units[0]}" + (f" {rest} {units[1]}" if rest else "")
    return text.replace(" ", "").replace("min", "m") if compact else text


def duration_text(ticks: int) -> str:
    """A length of time in its largest fitting units, exactly.

    >>> duration_text(900_000_000)
    '1m30s'
    """
    pieces: list[str] = []
    for unit, unit_ticks in (
        ("d", TICKS_PER_DAY),
        ("h", TICKS_PER_HOUR),
        ("m", TICKS_PER_MINUTE),
    ):
        count, ticks = divmod(ticks, unit_ticks)
        if count:
            pieces.append(f"{count}{unit}")
    if ticks or not pieces:
        pieces.append(f"{ticks / TICKS_PER_SECOND:g}s")
    return "".join(pieces)
