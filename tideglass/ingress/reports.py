"""What the scan of an input partition reports to the driver, and all reports of a batch.

Counters count since the generation began, so a batch that runs twice counts once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tideglass.core.events import Rejected
from tideglass.core.time import BEFORE_ALL_TICKS
from tideglass.engine.messages import Kind, Message
from tideglass.engine.reports import REPORT_FORMAT, StageReport, check_format
from tideglass.evaluate.failed_rows import Failed, of_plain, to_plain
from tideglass.ingress.decisions import Counters


@dataclass(frozen=True, slots=True)
class ReaderReport:
    """What one reader did with the events of the partition; times are BEFORE_ALL_TICKS for none yet.

    substreams_ahead: how many substreams are ahead of the watermark. final: the input has ended.
    """

    reader: int
    counters: Counters = Counters()
    watermark_ticks: int = BEFORE_ALL_TICKS
    last_arrival_ticks: int = BEFORE_ALL_TICKS
    substreams_ahead: int = 0
    final: bool = False


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """What a scan reports of its partition at the end of a batch.

    input: name of the input.
    partition: name of the partition.
    rejected: events the deserializer has refused.
    bytes: bytes read.
    errors: refused events of this batch by reason, at most some of them.
    next_offset: no event to come has a lesser offset.
    failed: rows left out since the generation began, by the number of the operator's state.
    readers: every reader of the input, in the order of the plan.
    quiet_until_ticks: arrival time estimated at the end of an idle period; None if there was none.
    idle_held: whether the first event after an idle period arrived no earlier than estimated; None if there
        was no idle period or no event.
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

    @property
    def sender(self) -> str:
        """The name of the scan that sent the report."""
        return f"{self.input}/{self.partition}"

    @property
    def watermark_ticks(self) -> int:
        """The least watermark of the readers; BEFORE_ALL_TICKS for none yet."""
        return min((each.watermark_ticks for each in self.readers), default=BEFORE_ALL_TICKS)

    def to_json(self) -> dict[str, Any]:
        return {
            "format": REPORT_FORMAT,
            "input": self.input,
            "partition": self.partition,
            "rejected": self.rejected,
            "bytes": self.bytes,
            "errors": [asdict(each) for each in self.errors],
            "next_offset": self.next_offset,
            "failed": to_plain(self.failed),
            "readers": [asdict(each) for each in self.readers],
            "quiet_until_ticks": self.quiet_until_ticks,
            "idle_held": self.idle_held,
        }

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> PartitionReport:
        """What `to_json` wrote. Raises KeyError, TypeError or ValueError for anything else."""
        check_format(content)
        return PartitionReport(
            content["input"],
            content["partition"],
            content["rejected"],
            content["bytes"],
            tuple(Rejected(**{**each, "examples": tuple(each["examples"])}) for each in content["errors"]),
            content.get("next_offset", 0),
            of_plain(content["failed"]),
            tuple(
                ReaderReport(
                    each["reader"],
                    Counters(**each["counters"]),
                    each["watermark_ticks"],
                    each["last_arrival_ticks"],
                    each["substreams_ahead"],
                    each["final"],
                )
                for each in content["readers"]
            ),
            content.get("quiet_until_ticks"),
            content.get("idle_held", content.get("silence_held")),  # its name in earlier versions
        )


@dataclass(frozen=True, slots=True)
class BatchReports:
    """The reports of a batch, decoded once for everybody who reads them."""

    partitions: tuple[PartitionReport, ...] = ()
    stages: tuple[StageReport, ...] = ()

    @staticmethod
    def of(messages: Iterable[Message]) -> BatchReports:
        """The reports among the messages for the driver; the target of one is the level of its sender."""
        reports = [message for message in messages if message.kind is Kind.REPORT]
        return BatchReports(
            tuple(PartitionReport.from_json(each.json()) for each in reports if each.target == 0),
            tuple(StageReport.from_json(each.json()) for each in reports if each.target != 0),
        )
