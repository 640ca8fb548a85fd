"""What a running job knows about itself, gathered from the reports of its tasks (`asa.md` 9.1).

Reports carry totals since the run began, so a batch that runs twice counts once and a restart goes
on from where it was.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tideglass.core.time import AFTER_ALL_TICKS, BEFORE_ALL_TICKS, TICKS_PER_SECOND
from tideglass.engine.messages import Kind, Message
from tideglass.ingress.decisions import Counters
from tideglass.job.report.catch_up import CatchUp


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """One reader's view of one input partition; times in ticks, BEFORE_ALL_TICKS for none yet."""

    input: str
    partition: str
    reader: int
    counters: Counters
    rejected: int
    bytes: int
    watermark_ticks: int
    last_arrival_ticks: int
    final: bool

    @property
    def delay_ticks(self) -> int | None:
        """Newest arrival minus watermark: how far results of this partition lag behind its input."""
        if BEFORE_ALL_TICKS in (self.watermark_ticks, self.last_arrival_ticks):
            return None
        return max(0, self.last_arrival_ticks - self.watermark_ticks)


@dataclass(frozen=True, slots=True)
class DataErrors:
    """Events of one kind the deserializer refused, seen in one batch.

    first_place: of the first of them: a place in its file, the offset of its message.
    """

    input: str
    partition: str
    error_type: str
    count: int
    message: str
    examples: tuple[str, ...]
    first_place: int


@dataclass(frozen=True, slots=True)
class FailedRows:
    """Rows an operator has left out because they made the query fail, and why the first of them did."""

    count: int
    message: str


@dataclass(slots=True)
class Metrics:
    """The newest facts of every partition, and what each output has been given by this run.

    read_before: events by input that earlier runs of the same generation read. rows_before: rows by output
    that they gave. catch_up: how far the run has come in what was there when it started.
    """

    partitions: dict[tuple[str, str, int], PartitionFacts] = field(
        default_factory=dict[tuple[str, str, int], PartitionFacts]
    )
    output_rows: dict[str, int] = field(default_factory=dict[str, int])
    batches: int = 0
    started_seconds: float = field(default_factory=time.monotonic)
    errors: list[DataErrors] = field(default_factory=list[DataErrors])
    #: by (input and partition, or stage and key group) and operator
    failed_rows: dict[tuple[tuple[str, str], int], FailedRows] = field(
        default_factory=dict[tuple[tuple[str, str], int], FailedRows]
    )
    read_before: Mapping[str, int] = field(default_factory=dict[str, int])
    rows_before: Mapping[str, int] = field(default_factory=dict[str, int])
    catch_up: CatchUp | None = None

    def take_batch(self, messages: Iterable[Message], rows: Mapping[str, int]) -> None:
        """Take in a batch that is committed: its reports, and the rows it gave each output."""
        for message in messages:
            if message.kind is Kind.REPORT:
                self.take_report(message.json())
        for output, count in rows.items():
            self.output_rows[output] = self.output_rows.get(output, 0) + count
        self.batches += 1

    def take_report(self, facts: Mapping[str, Any]) -> None:
        """Take in one report."""
        sender = (
            (facts["input"], facts["partition"])
            if "input" in facts
            else (f"stage {facts['level']}", f"key group {facts['key_group']}")
        )
        for op_id, (count, message) in facts["failed"].items():
            self.failed_rows[sender, int(op_id)] = FailedRows(count, message)
        if "readers" not in facts:
            return
        for reader in facts["readers"]:
            seen = PartitionFacts(
                facts["input"],
                facts["partition"],
                reader["reader"],
                Counters(**reader["counters"]),
                facts["rejected"],
                facts["bytes"],
                AFTER_ALL_TICKS if reader["final"] else reader["watermark_ticks"],
                reader["last_arrival_ticks"],
                reader["final"],
            )
            self.partitions[seen.input, seen.partition, seen.reader] = seen
        for error in facts["errors"]:
            self.errors.append(
                DataErrors(
                    facts["input"],
                    facts["partition"],
                    error["error_type"],
                    error["count"],
                    error["message"],
                    tuple(error["examples"]),
                    error["first_line"],
                )
            )

    @property
    def events(self) -> int:
        """Events read, rejected ones included; each counted once however many readers share it."""
        return sum(self.events_by_input.values())

    @property
    def events_by_input(self) -> dict[str, int]:
        by_partition: dict[tuple[str, str], int] = {}
        for seen in self.partitions.values():
            count = seen.counters.input_events + seen.rejected
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
        totals["Errors"] = sum(failed.count for failed in self.failed_rows.values())
        if rows := self.rows_in_all:  # what Spark's own sinks write is not counted here
            totals["OutputEvents"] = sum(rows.values())
        return totals
