"""What a stage reports of itself to the driver at the end of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tideglass.core.documents import Document
from tideglass.core.failing_rows import Failed
from tideglass.core.time import BEFORE_ALL_TICKS
from tideglass.engine.substream_watermarks import SubstreamsAhead
from tideglass.operators.holds import Component, Hold


@dataclass(frozen=True, slots=True)
class ReferenceRows:
    """The newest snapshot of reference data that a join has looked rows up in.

    input: its name.
    effective_ticks: from when the snapshot holds; BEFORE_ALL_TICKS: for all times.
    rows: how many it has, before any filter of the query.
    """

    input: str
    effective_ticks: int
    rows: int


@dataclass(frozen=True, slots=True)
class EarlyPaneReport:
    """The early panes of a window at one percentage (`asa.md` 11.6).

    percent: of the events in flight.
    watermark_ticks: at this percentage, at the input of the window; BEFORE_ALL_TICKS: unknown.
    rows_out: of these panes, in this batch.
    """

    percent: int
    watermark_ticks: int
    rows_out: int


@dataclass(frozen=True, slots=True)
class OperatorReport:
    """What one operator did in a batch, and where it stands at the end of it.

    operator: its number in the topology.
    rows_in, rows_out: of this batch; a scan takes events in, a window may take partial aggregates.
    input_watermark_ticks: BEFORE_ALL_TICKS: unknown, since some sender has not reported.
    output_watermark_ticks: the least time a later row of it may have; never past the input watermark.
    holds: what it holds: what holds the watermark first, oldest first.
    substreams: those ahead of the output watermark; None: without any, and where they are those of the one
        operator it reads.
    reference: of a join with reference data that has read a snapshot; of others None.
    early_panes: of a window that has some, by ascending percentage.
    """

    operator: int
    rows_in: int = 0
    rows_out: int = 0
    input_watermark_ticks: int = BEFORE_ALL_TICKS
    output_watermark_ticks: int = BEFORE_ALL_TICKS
    holds: tuple[Hold, ...] = ()
    substreams: SubstreamsAhead | None = None
    reference: ReferenceRows | None = None
    early_panes: tuple[EarlyPaneReport, ...] = ()


@dataclass(frozen=True, slots=True)
class StageReport:
    """What a key group of a stage reports.

    level: of the stage, from 1.
    key_group: its number.
    failed: rows left out since the generation began, by the number of the operator's state.
    watermark_ticks: the least input watermark; BEFORE_ALL_TICKS for none yet.
    operators: of the stage, in the order of their numbers.
    """

    level: int
    key_group: int
    failed: Mapping[int, Failed] = field(default_factory=dict[int, Failed])
    watermark_ticks: int = BEFORE_ALL_TICKS
    operators: tuple[OperatorReport, ...] = ()


STAGE_REPORT = Document(StageReport)

__all__ = ["STAGE_REPORT", "Component", "Hold", "OperatorReport", "StageReport"]
