"""What a running job knows about itself, gathered from the reports of its tasks (`asa.md` 9.1).

Reports carry totals since the run began, so a batch that runs twice counts once and a restart goes
on from where it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tideglass.core.failing_rows import Failed
from tideglass.core.time import AFTER_ALL_TICKS, BEFORE_ALL_TICKS, ORIGIN_TICKS, TICKS_PER_SECOND
from tideglass.engine.reports import StageReport
from tideglass.ingress.decisions import Counters
from tideglass.ingress.reports import BatchReports, PartitionReport, ReaderReport
from tideglass.job.report.catch_up import CatchUp
from tideglass.job.report.status import SOURCES


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """One reader's view of one input partition.

    input: the input
    partition: the name of the partition
    reader: the number of the reader
    counters: events by decision
    rejected: events the deserializer refused
    bytes: how much was read
    watermark_ticks: its watermark; BEFORE_ALL_TICKS: none yet
    last_arrival_ticks: newest arrival; BEFORE_ALL_TICKS: none yet
    final: the partition is read to its end
    report: the last one; None where only sums are known
    last_event: when this run last committed an event of it, ISO text; None: not yet
    sources: messages or files read; 0 where nobody counts them
    """

    input: str
    partition: str
    reader: int
    counters: Counters
    rejected: int
    bytes: int
    watermark_ticks: int
    last_arrival_ticks: int
    final: bool
    report: ReaderReport | None = None
    last_event: str | None = None
    sources: int = 0

    @property
    def events(self) -> int:
        """Events read since the state began, refused ones too."""
        return self.counters.input_events + self.rejected

    @property
    def delay_ticks(self) -> int | None:
        """Newest arrival minus watermark: how late results of this partition are."""
        if BEFORE_ALL_TICKS in (self.watermark_ticks, self.last_arrival_ticks):
            return None
        return max(0, self.last_arrival_ticks - self.watermark_ticks)


@dataclass(frozen=True, slots=True)
class DataErrors:
    """Events of one kind the deserializer refused, seen in one batch.

    input: the input
    partition: the name of the partition
    error_type: the service's name of the reason
    count: number of events
    message: the reason of the first of them
    examples: the first few events, cut to a readable length
    first_place: position of the first of them: in its file, or the offset of its message
    """

    input: str
    partition: str
    error_type: str
    count: int
    message: str
    examples: tuple[str, ...]
    first_place: int


@dataclass(slots=True)
class Metrics:
    """The newest facts of every partition, and the rows this run has emitted.

    partitions: by input, partition and reader
    output_rows: rows by output that this run has emitted
    batches: number of batches this run has done
    errors: what the deserializer refused in the batches of this run, in their order
    failed_rows: rows left out because they made the query fail, by (input and partition, or stage and key
        group) and operator
    read_before: by input, events that earlier runs of the generation read
    rows_before: by output, rows that earlier runs of the generation emitted
    dropped_before: by output, rows that earlier runs of the generation dropped since it refused them
    catch_up: how much the run has read of what was there when it started; None: it does not follow that
    """

    partitions: dict[tuple[str, str, int], PartitionFacts] = field(
        default_factory=dict[tuple[str, str, int], PartitionFacts]
    )
    output_rows: dict[str, int] = field(default_factory=dict[str, int])
    batches: int = 0
    errors: list[DataErrors] = field(default_factory=list[DataErrors])
    #: by (input and partition, or stage and key group) and operator
    failed_rows: dict[tuple[tuple[str, str], int], Failed] = field(
        default_factory=dict[tuple[tuple[str, str], int], Failed]
    )
    read_before: Mapping[str, int] = field(default_factory=dict[str, int])
    rows_before: Mapping[str, int] = field(default_factory=dict[str, int])
    dropped_before: Mapping[str, int] = field(default_factory=dict[str, int])
    catch_up: CatchUp | None = None

    def take_batch(self, reports: BatchReports, rows: Mapping[str, int], at: str | None = None) -> None:
        """Take in a batch that is committed: its reports, and the rows it gave each output.

        at: when, ISO text; None where nobody asks for it.
        """
        for partition in reports.partitions:
            self.take_partition(partition, at)
        for stage in reports.stages:
            self.take_stage(stage)
        for output, count in rows.items():
            self.output_rows[output] = self.output_rows.get(output, 0) + count
        self.batches += 1

    def take_stage(self, report: StageReport) -> None:
        """Take in the report of a key group."""
        self._take_failed((f"stage {report.level}", f"key group {report.key_group}"), report.failed)

    def take_partition(self, report: PartitionReport, at: str | None = None) -> None:
        """Take in the report of an input partition. at: when it had its events; None: in an earlier run."""
        self._take_failed((report.input, report.partition), report.failed)
        for reader in report.readers:
            key = (report.input, report.partition, reader.reader)
            before = self.partitions.get(key)
            facts = PartitionFacts(
                report.input,
                report.partition,
                reader.reader,
                reader.counters,
                report.rejected,
                report.bytes,
                _watermark_ticks(reader),
                reader.last_arrival_ticks,
                reader.final,
                reader,
                None if before is None else before.last_event,
                report.sources,
            )
            has_more = facts.events > (0 if before is None else before.events)
            self.partitions[key] = replace(facts, last_event=at) if has_more else facts
        for error in report.errors:
            self.errors.append(
                DataErrors(
                    report.input,
                    report.partition,
                    error.error_type,
                    error.count,
                    error.message,
                    error.examples,
                    error.first_line,
                )
            )

    def _take_failed(self, sender: tuple[str, str], failed: Mapping[int, Failed]) -> None:
        for op_id, each in failed.items():
            self.failed_rows[sender, op_id] = each

    @property
    def events(self) -> int:
        """Events read, rejected ones included; each counted once however many readers share it."""
        return sum(self.events_by_input.values())

    @property
    def events_by_input(self) -> dict[str, int]:
        by_partition: dict[tuple[str, str], int] = {}
        for seen in self.partitions.values():
            count = seen.events
            by_partition[seen.input, seen.partition] = max(
                count, by_partition.get((seen.input, seen.partition), 0)
            )
        result: dict[str, int] = {}
        for (name, _), count in by_partition.items():
            result[name] = result.get(name, 0) + count
        return result

    @property
    def events_before(self) -> int:
        """Events that earlier runs of the same generation read."""
        return sum(self.read_before.values())

    @property
    def read_now(self) -> dict[str, int]:
        """Events by input that this run has read."""
        return {name: count - self.read_before.get(name, 0) for name, count in self.events_by_input.items()}

    @property
    def rows_in_all(self) -> dict[str, int]:
        """Rows by output that this run and earlier ones of the same generation gave."""
        names = {**self.rows_before, **self.output_rows}
        return {name: self.rows_before.get(name, 0) + self.output_rows.get(name, 0) for name in names}

    @property
    def rejected(self) -> int:
        """Events the deserializer refused, of all inputs."""
        by_partition = {(seen.input, seen.partition): seen.rejected for seen in self.partitions.values()}
        return sum(by_partition.values())

    @property
    def watermark_delay_seconds(self) -> float | None:
        """The largest delay over all partitions; None before any has a watermark."""
        delays = [d for seen in self.partitions.values() if (d := seen.delay_ticks) is not None]
        return max(delays) / TICKS_PER_SECOND if delays else None

    def by_api_name(self) -> dict[str, int]:
        """The service's metrics, by the names its API uses, summed over inputs and partitions."""
        totals: dict[str, int] = {}
        for seen in self.partitions.values():
            for name, value in seen.counters.metrics().items():
                totals[name] = totals.get(name, 0) + value
            totals["DeserializationError"] = totals.get("DeserializationError", 0) + seen.rejected
            totals["InputEventBytes"] = totals.get("InputEventBytes", 0) + seen.bytes
            if seen.sources:
                totals[SOURCES] = totals.get(SOURCES, 0) + seen.sources
        totals["Errors"] = sum(failed.rows for failed in self.failed_rows.values())
        if rows := self.rows_in_all:  # what Spark's own sinks write is not counted here
            totals["OutputEvents"] = sum(rows.values())
        return totals


def _watermark_ticks(reader: ReaderReport) -> int:
    """The watermark as people may read it.

    One before all instants is none: files without arrival times are sorted with a tolerance that wide.
    """
    if reader.final:
        return AFTER_ALL_TICKS
    return reader.watermark_ticks if reader.watermark_ticks >= ORIGIN_TICKS else BEFORE_ALL_TICKS
