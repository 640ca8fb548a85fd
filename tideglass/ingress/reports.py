"""What the scan of an input partition reports to the driver, and all reports of a batch.

Counters count since the generation began, so a batch that runs twice counts once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from tideglass.core.documents import Document
from tideglass.core.events import Rejected
from tideglass.core.failing_rows import Failed
from tideglass.core.time import BEFORE_ALL_TICKS
from tideglass.engine.messages import Kind, Message
from tideglass.engine.reports import STAGE_REPORT, OperatorReport, StageReport
from tideglass.ingress.decisions import Counters


class HeldBy(StrEnum):
    """Which rule set a partition's watermark (`asa.md` 1.5)."""

    EVENT_TIME = "event time"  # the newest event, less the out-of-order tolerance
    ARRIVAL_TIME = "arrival time"  # the newest arrival or an idle period, less the late tolerance
    PERCENTILE = "percentile"  # the chosen share of the events in flight
    END_OF_INPUT = "end of input"


@dataclass(frozen=True, slots=True)
class SubstreamReport:
    """A substream of a partition.

    name: its keys, as text.
    watermark_ticks: for its own rows.
    event_time_ticks: the newest of its events.
    """

    name: str
    watermark_ticks: int
    event_time_ticks: int


@dataclass(frozen=True, slots=True)
class ReaderReport:
    """What one reader did with the events of the partition.

    reader: its number in the plan.
    counters: events by decision, since the generation began.
    watermark_ticks: of the partition; BEFORE_ALL_TICKS for none yet.
    last_arrival_ticks: when the newest event arrived; BEFORE_ALL_TICKS for none yet.
    substreams_ahead: how many substreams are ahead of the watermark.
    final: the input has ended.
    event_time_ticks: the newest event time that counts; BEFORE_ALL_TICKS for none yet.
    held_by: the rule that set the watermark; None without a watermark.
    oldest_held_ticks: the least time of the rows the out-of-order policy still keeps; None for none.
    rows_held: how many rows it keeps.
    slowest, fastest: substreams by their watermark, at most 20 and 5.
    percentiles_ticks: by p from 1 to 100, the latest time that p percent of the events in flight are not
        older than (`ingress.in_flight`); empty without TIMESTAMP BY and before any event.
    """

    reader: int
    counters: Counters = Counters()
    watermark_ticks: int = BEFORE_ALL_TICKS
    last_arrival_ticks: int = BEFORE_ALL_TICKS
    substreams_ahead: int = 0
    final: bool = False
    event_time_ticks: int = BEFORE_ALL_TICKS
    held_by: HeldBy | None = None
    oldest_held_ticks: int | None = None
    rows_held: int = 0
    slowest: tuple[SubstreamReport, ...] = ()
    fastest: tuple[SubstreamReport, ...] = ()
    percentiles_ticks: Mapping[int, int] = field(default_factory=dict[int, int])


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """What a scan reports of its partition at the end of a batch.

    input: name of the input.
    partition: name of the partition.
    rejected: events the deserializer has refused.
    bytes: bytes read.
    errors: refused events of this batch by reason, at most some of them.
    next_offset: no later event has a lesser offset.
    failed: rows left out since the generation began, by the number of the operator's state.
    readers: every reader of the input, in the order of the plan.
    quiet_until_ticks: arrival time estimated at the end of an idle period; None if there was none.
    idle_held: whether the first event after an idle period arrived no earlier than estimated; None if there
        was no idle period or no event.
    operators: of the scan, in the order of their numbers.
    sources: messages or files read since the generation began, before they were decoded.
    offending: events of this batch that the policies moved or dropped, by kind, for each reader.
    """

    input: str
    partition: str
    rejected: int = 0
    bytes: int = 0
    errors: tuple[Rejected, ...] = ()
    next_offset: int = 0
    failed: Mapping[int, Failed] = field(default_factory=dict[int, Failed])
    readers: tuple[ReaderReport, ...] = ()
    quiet_until_ticks: int | None = None
    idle_held: bool | None = None
    operators: tuple[OperatorReport, ...] = ()
    sources: int = 0
    offending: tuple[Rejected, ...] = ()

    @property
    def sender(self) -> str:
        """The name of the scan that sent the report."""
        return f"{self.input}/{self.partition}"

    @property
    def watermark_ticks(self) -> int:
        """The least watermark of the readers; BEFORE_ALL_TICKS for none yet."""
        return min((each.watermark_ticks for each in self.readers), default=BEFORE_ALL_TICKS)


#: JSON, since Spark reads the reports of DataFrames as columns too (`spark.dataframes.metrics`).
PARTITION_REPORT = Document(PartitionReport)


def as_of_format_2(report: Mapping[str, Any]) -> dict[str, Any]:
    """A report in a document of format 1: one field had another name, and some are no more."""
    known = {each.name for each in fields(PartitionReport)}
    renamed = {"idle_held": report["silence_held"]} if "silence_held" in report else {}
    return {name: value for name, value in report.items() if name in known} | renamed


@dataclass(frozen=True, slots=True)
class BatchReports:
    """The reports of a batch, decoded once."""

    partitions: tuple[PartitionReport, ...] = ()
    stages: tuple[StageReport, ...] = ()

    @staticmethod
    def of(messages: Iterable[Message]) -> BatchReports:
        """The reports among the messages for the driver; the target of one is the level of its sender."""
        reports = [message for message in messages if message.kind is Kind.REPORT]
        return BatchReports(
            tuple(PARTITION_REPORT.of_body(each.body) for each in reports if each.target == 0),
            tuple(STAGE_REPORT.of_body(each.body) for each in reports if each.target != 0),
        )
