"""What a stage reports of itself to the driver at the end of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tideglass.core.documents import Document
from tideglass.core.failing_rows import Failed
from tideglass.core.time import BEFORE_ALL_TICKS


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
    oldest_ticks: the least time of the rows held: of an event, or of the row that will be made of it where
        only that time is kept (end of a window).
    rows: how many; None where counting them would cost a look at all.
    due_ticks: the input watermark has to pass this for the oldest to be let go; None: an event decides.
    holds_watermark: the output watermark cannot pass `oldest_ticks` while they are held. The end of a
        window needs no hold (`asa.md` 11.4).
    """

    component: Component
    kind: str
    oldest_ticks: int
    rows: int | None = None
    due_ticks: int | None = None
    holds_watermark: bool = False


@dataclass(frozen=True, slots=True)
class OperatorReport:
    """What one operator did in a batch, and where it stands at the end of it.

    operator: its number in the topology.
    rows_in, rows_out: of this batch.
    input_watermark_ticks: BEFORE_ALL_TICKS: unknown, since some sender has not reported.
    output_watermark_ticks: the least time a later row of it may have; never past the input watermark.
    holds: what it holds, oldest first; empty for an operator without state.
    """

    operator: int
    rows_in: int = 0
    rows_out: int = 0
    input_watermark_ticks: int = BEFORE_ALL_TICKS
    output_watermark_ticks: int = BEFORE_ALL_TICKS
    holds: tuple[Hold, ...] = ()


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
