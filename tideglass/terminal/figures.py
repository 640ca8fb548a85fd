"""Figures and times as short texts that fit a column."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tideglass.core.time import (
    AFTER_ALL_TICKS,
    ORIGIN_TICKS,
    format_ticks,
    span_text,
)

#: What stands for a value nobody knows.
UNKNOWN = "-"
_BARS = "▁▂▃▄▅▆▇█"


def clock_text(ticks: int | None) -> str:
    """The time of day of an instant, to the second.

    >>> clock_text(0), clock_text(None), clock_text(2**62)
    ('00:00:00', '-', 'end')
    """
    if ticks is None or ticks < ORIGIN_TICKS:
        return UNKNOWN
    return "end" if ticks >= AFTER_ALL_TICKS else format_ticks(ticks)[11:19]


def instant_text(ticks: int | None) -> str:
    """An instant with its date, to the millisecond.

    >>> instant_text(0), instant_text(2**62)
    ('1970-01-01 00:00:00.000', 'end of input')
    """
    if ticks is None or ticks < ORIGIN_TICKS:
        return "unknown"
    return "end of input" if ticks >= AFTER_ALL_TICKS else format_ticks(ticks)[:23].replace("T", " ")


def short_span_text(seconds: float | None) -> str:
    """A length of time in at most six characters below 100 days.

    >>> short_span_text(0.31), short_span_text(75), short_span_text(7384), short_span_text(None)
    ('0.31s', '75s', '2h3m', '-')
    """
    return UNKNOWN if seconds is None else span_text(seconds, compact=True)


def count_text(count: float | None) -> str:
    """A number in at most five characters.

    >>> count_text(7), count_text(9_999), count_text(12_345), count_text(4_560_000), count_text(None)
    ('7', '9999', '12.3k', '4.6M', '-')
    """
    if count is None:
        return UNKNOWN
    if count < 9_999.5:
        return f"{count:.0f}"
    for unit in ("k", "M", "G", "T", "P"):
        count /= 1000
        if count < 999.5:
            return f"{count:.1f}{unit}" if count < 99.95 else f"{count:.0f}{unit}"
    return "many"


def rate_text(rate: float | None) -> str:
    """A rate a second.

    >>> rate_text(0.25), rate_text(1200), rate_text(None)
    ('0.2/s', '1200/s', '-')
    """
    if rate is None:
        return UNKNOWN
    return f"{rate:.1f}/s" if rate < 10 else f"{count_text(rate)}/s"


def sparkline(values: Sequence[float], width: int) -> str:
    """The values as bars from 0 to the largest, the newest at the right; each bar the largest of its share.

    >>> sparkline([0, 1, 2, 4], 4), sparkline([], 4)
    ('▁▃▅█', '')
    """
    if not values or width <= 0:
        return ""
    columns = min(width, len(values))
    edges = [len(values) * place // columns for place in range(columns + 1)]
    shown = [max(values[first:after]) for first, after in pairwise(edges)]
    top = max(shown)
    last = len(_BARS) - 1
    return "".join(_BARS[0 if top <= 0 else round(each / top * last)] for each in shown)
