"""Times and counts as the findings show them."""

from __future__ import annotations

from tideglass.core.time import TICKS_PER_DAY, TICKS_PER_SECOND, format_ticks, span_text


def moment_text(ticks: int, now_ticks: int) -> str:
    """A moment, with its date only where that is not the date of `now_ticks`; parts of a second are cut.

    >>> noon = 12 * 3600 * TICKS_PER_SECOND
    >>> moment_text(noon, 0), moment_text(noon + 5 * TICKS_PER_SECOND, 0)
    ('12:00', '12:00:05')
    >>> moment_text(noon, 3 * TICKS_PER_DAY)
    '1970-01-01 12:00'
    """
    text = format_ticks(ticks)
    clock = text[11:19].removesuffix(":00")
    return clock if ticks // TICKS_PER_DAY == now_ticks // TICKS_PER_DAY else f"{text[:10]} {clock}"


def ticks_text(ticks: int) -> str:
    """A length of time in ticks, as `span_text`."""
    return span_text(ticks / TICKS_PER_SECOND)


def count_text(count: int, noun: str) -> str:
    """
    >>> count_text(1, "event"), count_text(1200, "row")
    ('1 event', '1,200 rows')
    """
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def share_text(part: float, whole: float) -> str:
    """
    >>> share_text(1, 8), share_text(1, 1000), share_text(3, 3)
    ('12 %', '0.1 %', '100 %')
    """
    percent = 100 * part / whole if whole else 0.0
    return f"{percent:.0f} %" if percent >= 1 or percent == 0 else f"{percent:.1g} %"


def list_text(names: tuple[str, ...] | list[str], most: int = 4) -> str:
    """
    >>> list_text(["a"]), list_text(["a", "b"]), list_text(["a", "b", "c", "d", "e", "f"])
    ('a', 'a and b', 'a, b, c, d and 2 more')
    """
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1]))) if names else "nothing"


def size_text(size: int) -> str:
    """
    >>> size_text(1_500_000_000), size_text(20_000)
    ('1.5 GB', '0.02 MB')
    """
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.3g} MB"
