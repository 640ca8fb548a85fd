"""The time settings of an input."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tideglass.core.tags import added_field, tag
from tideglass.core.time import TICKS_PER_MINUTE, TICKS_PER_SECOND

#: For how many seconds of arrival an event is in flight: the estimation band of Pub/Sub's heuristic (11.10).
IN_FLIGHT_SECONDS = 10


@tag("SourceKind")
class SourceKind(StrEnum):
    """What is known of the order of a source's events (`asa.md` 11.2). In the first two none is late."""

    INGRESS_TIME = "ingress time"  # the event time is the arrival
    STATIC_LOGS = "static set of time-ordered logs"  # all partitions are there from the start, each ascends
    DYNAMIC_LOGS = "dynamic set of time-ordered logs"  # partitions appear, each is said to ascend
    TRACKING = "tracking subscription"  # unordered, at least once (11.10)


@tag("Policies")
@dataclass(frozen=True, slots=True)
class Policies:
    """The time settings of an input.

    early_ticks: an event whose time is further after its arrival is dropped; None: no event is
    late_ticks: the late tolerance; None: no limit, and then idle time moves no watermark (A-04)
    out_of_order_ticks: the out-of-order tolerance
    drop: the policy for late and out-of-order events is `Drop`; it does not govern early ones
    application_time: False without TIMESTAMP BY; an event is then stamped with its arrival, and the settings
        above do not apply
    idle_allowance_ticks: without TIMESTAMP BY, the distance at which the watermark of an idle partition
        follows the estimated arrival (A-05)
    source: what the settings say of the source; None: it is treated as the service does
    percentile: the watermark is at least at this percentage of the events in flight; None: it is not
    early_percents: percentages of the events in flight, ascending, at which windows have early panes
    """

    early_ticks: int | None = 5 * TICKS_PER_MINUTE  # the service's own limit, not a setting there
    late_ticks: int | None = None
    out_of_order_ticks: int = 0
    drop: bool = False
    application_time: bool = True
    idle_allowance_ticks: int = 5 * TICKS_PER_SECOND
    source: SourceKind | None = added_field(default=None)
    percentile: int | None = added_field(default=None)
    early_percents: tuple[int, ...] = added_field(default=())

    def __post_init__(self) -> None:
        for name in ("early_ticks", "late_ticks", "out_of_order_ticks", "idle_allowance_ticks"):
            if (value := getattr(self, name)) is not None and value < 0:
                raise ValueError(f"{name} is {value}; a tolerance cannot be negative")
        if self.percentile is not None and not 1 <= self.percentile <= 100:
            raise ValueError(f"percentile is {self.percentile}; it must be 1 to 100")

    @property
    def floor_lag_ticks(self) -> int | None:
        """How far the floor is before the newest arrival; None when arrival moves no watermark."""
        return self.late_ticks if self.application_time else self.idle_allowance_ticks
