"""Where a run that is not the first begins to read, and which idle periods it must repeat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tideglass.core.positions import Position
from tideglass.ingress.idle_periods import IdlePeriod
from tideglass.ingress.scan import ScanState


@dataclass(frozen=True, slots=True)
class PartitionBegin:
    """Where reading of an input partition begins. Plain data; travels to the tasks.

    number: of the partition in its input.
    position: what of it is not read.
    next_offset: the least offset an event after that can have.
    idle_periods: as an earlier run saw them, ascending by offset.
    """

    number: int
    position: Position = ()
    next_offset: int = 0
    idle_periods: tuple[IdlePeriod, ...] = field(default=())

    @property
    def state(self) -> ScanState:
        """The state before the first event."""
        return ScanState(next_offset=self.next_offset)


@dataclass(frozen=True, slots=True)
class InputBegin:
    """Where the state of an input begins that Spark reads.

    partitions: those it has from the beginning.
    until: per partition that is read again, the offset of the first event the run before had not read: no
        row of an earlier event is emitted; None: nothing is read again.
    """

    partitions: Mapping[str, PartitionBegin] = field(default_factory=dict[str, PartitionBegin])
    until: Mapping[str, int] | None = None


#: Nothing is known of the input before its first event.
ANEW = InputBegin()
