"""The time settings of an input."""

from __future__ import annotations

from dataclasses import dataclass

from tideglass.core.tags import tag
from tideglass.core.time import TICKS_PER_MINUTE, TICKS_PER_SECOND


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
    """

    early_ticks: int | None = 5 * TICKS_PER_MINUTE  # the service's own limit, not a setting there
    late_ticks: int | None = None
    out_of_order_ticks: int = 0
    drop: bool = False
    application_time: bool = True
    idle_allowance_ticks: int = 5 * TICKS_PER_SECOND

    def __post_init__(self) -> None:
        for name in ("early_ticks", "late_ticks", "out_of_order_ticks", "idle_allowance_ticks"):
            if (value := getattr(self, name)) is not None and value < 0:
                raise ValueError(f"{name} is {value}; a tolerance cannot be negative")

    @property
    def floor_lag_ticks(self) -> int | None:
        """How far the floor is before the newest arrival; None when arrival moves no watermark."""
        return self.late_ticks if self.application_time else self.idle_allowance_ticks
