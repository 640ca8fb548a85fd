"""What became of each event at the ingress, and the books kept about it (`asa.md` 1.4, 9.1, 9.2).

Every event ends in exactly one `Decision`, so the counters of a partition add up to its input.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np

from tideglass.core.arrays import Bytes


class Decision(IntEnum):
    """The one place an event ends in; from `DROPPED_EARLY` on it is not passed on."""

    ACCEPTED = 0
    ADJUSTED_LATE = 1
    ADJUSTED_OUT_OF_ORDER = 2
    ADJUSTED_BOTH = 3
    DROPPED_EARLY = 4
    DROPPED_LATE = 5
    DROPPED_OUT_OF_ORDER = 6
    DROPPED_BAD_TIMESTAMP = 7
    DROPPED_NULL_KEY = 8

    @property
    def kept(self) -> bool:
        return self < Decision.DROPPED_EARLY


@dataclass(frozen=True, slots=True)
class Counters:
    """Events of one partition by decision.

    Every event is in exactly one of the first nine fields, which are in the order of `Decision`.

    accepted: events that kept their time
    adjusted_late: late events whose time was moved: to the late tolerance, or to a watermark at a percentile
    adjusted_out_of_order: events out of order whose time was moved to the watermark
    adjusted_both: events that were both, whose time was moved
    dropped_early: events too far ahead of their arrival
    dropped_late: late events under the policy `Drop`
    dropped_out_of_order: events out of order under the policy `Drop`
    dropped_bad_timestamp: events whose TIMESTAMP BY is NULL or no datetime
    dropped_null_key: events with a NULL key of OVER
    arrivals_raised: events whose arrival time ran backwards in the source and was raised to the newest one
        before it; they are also counted among the nine
    beyond_percentile: late events that are within the late tolerance, but earlier than the watermark at a
        percentile; also counted among the nine
    """

    accepted: int = 0
    adjusted_late: int = 0
    adjusted_out_of_order: int = 0
    adjusted_both: int = 0
    dropped_early: int = 0
    dropped_late: int = 0
    dropped_out_of_order: int = 0
    dropped_bad_timestamp: int = 0
    dropped_null_key: int = 0
    arrivals_raised: int = 0
    beyond_percentile: int = 0

    @classmethod
    def of(cls, decisions: Bytes, arrivals_raised: int, beyond_percentile: int = 0) -> Counters:
        """Counts of one chunk."""
        counts = np.bincount(decisions, minlength=len(Decision)).tolist()
        return cls(*counts, arrivals_raised=arrivals_raised, beyond_percentile=beyond_percentile)

    def __add__(self, other: Counters) -> Counters:
        return Counters(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    @property
    def kept(self) -> int:
        return self.accepted + self.adjusted

    @property
    def adjusted(self) -> int:
        return self.adjusted_late + self.adjusted_out_of_order + self.adjusted_both

    @property
    def dropped(self) -> int:
        return (
            self.dropped_early
            + self.dropped_late
            + self.dropped_out_of_order
            + self.dropped_bad_timestamp
            + self.dropped_null_key
        )

    @property
    def input_events(self) -> int:
        return self.kept + self.dropped

    def by_decision(self) -> Mapping[str, int]:
        """The counts by the names of the fields, those that are not 0."""
        return {each.name: count for each in fields(self) if (count := getattr(self, each.name))}

    def metrics(self) -> Mapping[str, int]:
        """The service's own metrics, by API name (`asa.md` 9.1).

        An event changed by both policies raises both metrics once (A-23); dropped ones are counted
        as adjusted ones are (A-36).
        """
        return {
            "InputEvents": self.input_events,
            "EarlyInputEvents": self.dropped_early,
            "LateInputEvents": self.adjusted_late + self.adjusted_both + self.dropped_late,
            "DroppedOrAdjustedEvents": self.adjusted_out_of_order
            + self.adjusted_both
            + self.dropped_out_of_order,
        }
