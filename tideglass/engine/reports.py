"""What a stage reports of itself to the driver, and the format all reports are written in.

A report is JSON, since Spark reads those of DataFrames as columns too (`spark.dataframes.metrics`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tideglass.core.time import BEFORE_ALL_TICKS
from tideglass.evaluate.failed_rows import Failed, of_plain, to_plain

#: The format of reports; those without a number have this one, too.
REPORT_FORMAT = 1


class Report(Protocol):
    """What a task reports at the end of a batch."""

    def to_json(self) -> dict[str, Any]:
        """The report as values JSON can hold."""
        ...


@dataclass(frozen=True, slots=True)
class StageReport:
    """What a key group of a stage reports.

    failed: rows left out since the generation began, by the number of the operator's state. watermark_ticks:
    the least input watermark; BEFORE_ALL_TICKS for none yet.
    """

    level: int
    key_group: int
    failed: Mapping[int, Failed] = field(default_factory=dict[int, Failed])
    watermark_ticks: int = BEFORE_ALL_TICKS

    def to_json(self) -> dict[str, Any]:
        return {
            "format": REPORT_FORMAT,
            "level": self.level,
            "key_group": self.key_group,
            "failed": to_plain(self.failed),
            "watermark_ticks": self.watermark_ticks,
        }

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> StageReport:
        """What `to_json` wrote. Raises KeyError, TypeError or ValueError for anything else."""
        check_format(content)
        return StageReport(
            content["level"],
            content["key_group"],
            of_plain(content["failed"]),
            content.get("watermark_ticks", BEFORE_ALL_TICKS),
        )


def check_format(content: Mapping[str, Any]) -> None:
    """Raises ValueError for a report of a format that this version does not read.

    >>> check_format({"level": 1})
    >>> check_format({"format": 2})
    Traceback (most recent call last):
    ValueError: a report has format 2, this version reads 1
    """
    if (found := content.get("format", REPORT_FORMAT)) != REPORT_FORMAT:
        raise ValueError(f"a report has format {found}, this version reads {REPORT_FORMAT}")
