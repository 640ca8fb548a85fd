"""What an operator holds: rows that are not completed yet, and what lets them go (`asa.md` 11.3).

Each kernel answers from the numbers of its buckets and from small values of its state, never from its rows:
times are exact to the width of a bucket, and earlier rather than later.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

#: An operator names at most so many holds, oldest first.
MOST_HOLDS = 8


class Component(StrEnum):
    """Where in a stage an event can be held (`asa.md` 11.3)."""

    SOURCE = "source"  # rows on their way from a stage before
    EXTERNAL_INPUT = "external input"  # an input of the job, or reference data
    STATE = "state"  # rows an operator keeps
    OUTPUT_BUFFER = "output buffer"  # rows made and not yet written


@dataclass(frozen=True, slots=True)
class Hold:
    """Rows of one kind that are held in one place.

    component: where.
    kind: what holds them, in plain words: "open windows", "left rows that wait for a match".
    oldest_ticks: the least time of the rows held, to the width of a bucket: of an event, or of the row that
        will be made of it where only that time is kept. BEFORE_ALL_TICKS: of a sender that has not reported.
    rows: how many, as they are kept: windows keep partial aggregates. None where counting them would cost a
        look at all.
    due_ticks: the input watermark has to pass this for the oldest to be let go (of an output buffer: to reach
        it); None: an event decides.
    holds_watermark: the output watermark cannot pass `oldest_ticks` while they are held. The end of a
        window needs no hold (`asa.md` 11.4).
    """

    component: Component
    kind: str
    oldest_ticks: int
    rows: int | None = None
    due_ticks: int | None = None
    holds_watermark: bool = False


def oldest_first(holds: Iterable[Hold]) -> tuple[Hold, ...]:
    """The holds of an operator in the order of a report: what holds the watermark first, then by age."""
    return tuple(sorted(holds, key=lambda hold: (not hold.holds_watermark, hold.oldest_ticks)))[:MOST_HOLDS]
