"""The offsets our own sources hand to Spark, which logs them before a batch runs.

Spark returns them as JSON after a restart, so they have a format, and what an earlier version has logged
is read as it is. This module needs no pyspark: where a job has stopped is known without a session.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tideglass.core.documents import Document
from tideglass.core.events import Known
from tideglass.core.positions import InputPositions, Piece, Positions


@dataclass(frozen=True, slots=True)
class PartitionOffset:
    """One partition of an input at the end of a batch.

    number: of the partition in its input.
    position: how far it is read.
    since_ms: since when it has been idle, milliseconds of the epoch.
    ended: it has no more events, and the stages know.
    """

    number: int
    position: tuple[Piece, ...]
    since_ms: int
    ended: bool


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """All inputs of a job's own source at the end of a batch.

    batch: number of the batch, from 1; 0 before the first.
    final: all inputs are at their end, and the stages know.
    inputs: per input and partition.
    at_ms: when the batch was planned, milliseconds of the epoch.
    replaying: the batch reads only what an earlier run has read; None before the first batch, and where an
        earlier version did not write it.
    known: how many snapshots of each reference input count in the batch.
    """

    batch: int
    final: bool
    inputs: Mapping[str, Mapping[str, PartitionOffset]]
    at_ms: int
    replaying: bool | None = None
    known: Known = field(default_factory=dict[str, int])

    def of(self, input_name: str) -> Mapping[str, PartitionOffset]:
        """The partitions of an input; {} before its first batch."""
        return self.inputs.get(input_name, {})

    def positions_of(self, input_name: str) -> Positions:
        """How far an input is read."""
        return {name: each.position for name, each in self.of(input_name).items()}

    @property
    def positions(self) -> InputPositions:
        """How far all inputs are read."""
        return {name: self.positions_of(name) for name in self.inputs}


@dataclass(frozen=True, slots=True)
class ControlOffset:
    """What the ingresses of topics know at the end of a batch.

    ended: the input has ended.
    known: how many snapshots of each reference input count.
    replayed: all that an earlier run had read is read again.
    """

    ended: bool = False
    known: Known = field(default_factory=dict[str, int])
    replayed: bool = False


SOURCE_OFFSET, CONTROL_OFFSET = Document(SourceOffset), Document(ControlOffset)
