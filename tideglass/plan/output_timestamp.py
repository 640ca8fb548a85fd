"""The times a step may give its results, besides those of the service (`asa.md` 11.4).

The service stamps the result of a window with its end, a pair of a join with the later time. Another choice
holds the output watermark of the operator at the oldest element of what is open.
"""

from __future__ import annotations

from enum import StrEnum

from tideglass.core.tags import tag


@tag("OutputTimestamp")
class OutputTimestamp(StrEnum):
    """The time of the result of a window."""

    END_OF_WINDOW = "end of window"
    FIRST_ELEMENT = "first element"
    #: Of windows that overlap: not before the end of the window before (`asa.md` 11.5).
    FIRST_AFTER_WINDOW_BEFORE = "first element after the window before"


@tag("PairTimestamp")
class PairTimestamp(StrEnum):
    """The time of a pair of a join; that of a left row without a match is its own with LEFT."""

    LATER = "later element"
    LEFT = "element of the left source"
    RIGHT = "element of the right source"
