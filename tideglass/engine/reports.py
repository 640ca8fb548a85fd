"""What a stage reports of itself to the driver at the end of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tideglass.core.documents import Document
from tideglass.core.failing_rows import Failed
from tideglass.core.time import BEFORE_ALL_TICKS


@dataclass(frozen=True, slots=True)
class StageReport:
    """What a key group of a stage reports.

    level: of the stage, from 1.
    key_group: its number.
    failed: rows left out since the generation began, by the number of the operator's state.
    watermark_ticks: the least input watermark; BEFORE_ALL_TICKS for none yet.
    """

    level: int
    key_group: int
    failed: Mapping[int, Failed] = field(default_factory=dict[int, Failed])
    watermark_ticks: int = BEFORE_ALL_TICKS


STAGE_REPORT = Document(StageReport)
