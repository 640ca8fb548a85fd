"""How far a run has read its topics: what the next one goes on after, and reads again if it must.

Spark logs the offsets of every batch before it runs, and the reports of a batch hold the watermarks after it.
Both are written down together once the rows of the batch are visible, so that the next start needs neither
Spark nor its state to know where the run has stopped. How far files beside the topics are read is in Spark's
log of that batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tideglass.core.documents import Document
from tideglass.core.errors import RESTART, damaged
from tideglass.core.positions import InputPositions, Piece
from tideglass.core.time import BEFORE_ALL_TICKS
from tideglass.ingress.reports import PartitionReport, as_of_format_2
from tideglass.spark.checkpoint import control_offset, topic_offsets
from tideglass.storage import AnyPath, storage_path

#: In the directory of a generation, what its `TopicProgress` is.
REACHED = "reached.json"


@dataclass(frozen=True, slots=True)
class TopicProgress:
    """Where a generation is after a batch whose rows are emitted.

    batch: its number; None before the first.
    replayed: everything is read again that an earlier generation had read, and rows are emitted.
    offsets: per topic and partition, of the first message that is not read.
    reports: per input, files too, and partition, the last report of its scan, without errors and
        operators.
    """

    batch: int | None = None
    replayed: bool = False
    offsets: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    reports: Mapping[str, Mapping[str, PartitionReport]] = field(
        default_factory=dict[str, Mapping[str, PartitionReport]]
    )

    @staticmethod
    def load(generation: AnyPath) -> TopicProgress:
        """What `save` wrote; nothing where it wrote nothing. Raises StateError for what is none."""
        path = storage_path(generation) / REACHED
        try:
            return _DOCUMENT.of_text(path.read_bytes())
        except FileNotFoundError:
            return TopicProgress()
        except ValueError as error:
            raise damaged(path, f"does not say where the last run stopped ({error})", RESTART) from error

    def save(self, generation: AnyPath) -> None:
        (storage_path(generation) / REACHED).write(_DOCUMENT.text(self).encode())

    def after(
        self, batch: int, checkpoint: AnyPath, topics: Sequence[str], scanned: Iterable[PartitionReport]
    ) -> TopicProgress:
        """The progress after one more batch. topics: the inputs, in the order of Spark's query."""
        offsets = {name: self.offsets.get(name, {}) for name in topics}
        offsets |= topic_offsets(checkpoint, batch, topics)
        replayed = control_offset(checkpoint, batch, len(topics)).replayed
        reports = {name: dict(of) for name, of in self.reports.items()}
        for report in scanned:
            kept = replace(report, errors=(), operators=())
            reports.setdefault(report.input, {})[report.partition] = kept
        return replace(self, batch=batch, replayed=replayed, offsets=offsets, reports=reports)

    def watermark_ticks(self, input_name: str, partition: str) -> int:
        """The watermark of a partition; BEFORE_ALL_TICKS for one that has not reported."""
        report = self.reports.get(input_name, {}).get(partition)
        return BEFORE_ALL_TICKS if report is None else report.watermark_ticks

    def covers(self, stop_offsets: Mapping[str, Mapping[str, int]]) -> bool:
        """Whether everything before those offsets is read."""
        return all(
            self.offsets.get(name, {}).get(partition, 0) >= offset
            for name, of in stop_offsets.items()
            for partition, offset in of.items()
        )


def _with_reports_of_format_2(content: dict[str, Any]) -> dict[str, Any]:
    reports = {
        name: {partition: as_of_format_2(each) for partition, each in of.items()}
        for name, of in content.get("reports", {}).items()
    }
    return content | {"reports": reports}


_DOCUMENT = Document(TopicProgress, format=2, earlier={1: _with_reports_of_format_2})


def positions_of_offsets(offsets: Mapping[str, Mapping[str, int]]) -> InputPositions:
    """Offsets as positions, whose sizes are messages."""
    return {
        name: {partition: [Piece(partition, 0, offset, 0)] for partition, offset in of.items()}
        for name, of in offsets.items()
    }
