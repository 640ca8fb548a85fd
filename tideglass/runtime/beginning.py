"""Where a run that is not the first begins to read, and what it must do again as it was done before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tideglass.runtime.scan import ScanState
from tideglass.runtime.silences import SeenSilence


@dataclass(frozen=True, slots=True)
class PartitionBegin:
    """Where reading of an input partition begins. Plain data; travels to the tasks.

    number: that it has among the partitions of its input. position: what of it is not read. next_offset:
    the least an event behind that can have. seen: its idle periods, as an earlier run saw them.
    """

    number: int
    position: Sequence[Sequence[Any]] = ()
    next_offset: int = 0
    seen: tuple[SeenSilence, ...] = field(default=())

    @property
    def state(self) -> ScanState:
        """The state before the first event."""
        return ScanState(next_offset=self.next_offset)
