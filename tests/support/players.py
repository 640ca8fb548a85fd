"""Plays transcripts of cases: one player per driver that takes micro-batches, and what watches it.

`TopicsPlayer` feeds ingresses, as those of topics and DataFrames are fed. `FilesPlayer` writes files, which
the source of a job finds, plans and scans. Both run the stages in this process.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol
from unittest import mock

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable

from support.cases import Case, compare
from support.frames import Frames, Stages
from support.transcript import (
    Batch,
    End,
    Event,
    ExpectedMetric,
    ExpectedRows,
    ExpectedWatermark,
    Rebuild,
    Restart,
)
from support.watermark_laws import breaches_of
from tideglass.compile import Compiled
from tideglass.connect.dataframes.input import EVENTS_OF_A_MESSAGE
from tideglass.connect.files.input import FileInput
from tideglass.connect.spec import InputSpec
from tideglass.core.time import BEFORE_ALL_TICKS, TICKS_PER_MILLISECOND, TICKS_PER_SECOND, format_ticks
from tideglass.engine.exchange import RowSink
from tideglass.engine.messages import Kind, Message
from tideglass.engine.output_filter import emitted_messages
from tideglass.engine.snapshots import Snapshots
from tideglass.ingress.read_from import InputBegin, PartitionBegin
from tideglass.ingress.reports import BatchReports
from tideglass.job.progress.idle_journal import IdleJournal
from tideglass.job.report.metrics import Metrics
from tideglass.local import rows_by_output
from tideglass.plan.topology import Topology
from tideglass.project.settings import from_options
from tideglass.spark.file_source import JobReader, SourceJob
from tideglass.spark.key_numbers import key_numbers
from tideglass.testing import compile_rows, rows_in_order

TICKS_PER_MICROSECOND = 10


class Player(Protocol):
    """A driver that takes the steps of a transcript. Every step answers with what the driver is told."""

    compiled: Compiled

    def batch(self, batch: Batch) -> Sequence[Message]: ...

    def restart(self) -> None: ...

    def rebuild(self, journal: IdleJournal) -> Sequence[Message]:
        """journal: the idle periods the run before has seen."""
        ...

    def end(self) -> Sequence[Message]: ...


@dataclass(frozen=True)
class Manner:
    """What must change nothing. shares: ingresses of a topic."""

    key_groups: int = 2
    shares: int = 1


@dataclass
class Watched:
    """What a job has emitted and reported so far."""

    compiled: Compiled
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, Any])
    metrics: Metrics = field(default_factory=Metrics)
    stages: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    batches: list[BatchReports] = field(default_factory=list[BatchReports])
    clock_ticks: int = BEFORE_ALL_TICKS

    def take(self, messages: Sequence[Message]) -> None:
        tables = rows_by_output(self.compiled.topology, emitted_messages(messages))
        counts: dict[str, int] = {}
        for output, parts in tables.items():
            rows = rows_in_order(parts)
            counts[output] = len(rows)
            self.rows.setdefault(output, []).extend(rows)
        reports = BatchReports.of(messages)
        self.metrics.take_batch(reports, counts)
        self.batches.append(reports)
        for stage in reports.stages:
            self.stages[stage.level, stage.key_group] = stage.watermark_ticks

    def differences(self, expected: ExpectedRows | ExpectedWatermark | ExpectedMetric) -> list[str]:
        """What is not as expected; rows that were asked for are forgotten."""
        match expected:
            case ExpectedRows():
                return compare(self.rows.pop(expected.output, []), expected.rows)
            case ExpectedWatermark():
                found, due = self.watermark_ticks(expected.of), expected.ticks
                return [] if found == due else [f"watermark is {_shown(found)}, not {_shown(due)}"]
            case ExpectedMetric():
                values = self.values(expected.of)
                value = values.get(expected.name)
                return [] if value == expected.value else [f"{expected.name} is {value}, of {values}"]

    def watermark_ticks(self, of: str) -> int:
        if of.startswith("stage"):
            own = [ticks for (level, _), ticks in self.stages.items() if f"stage {level}" == of]
        else:
            own = [
                facts.watermark_ticks
                for facts in self.metrics.partitions.values()
                if f"{facts.input}/{facts.partition}" == of
            ]
        return min(own, default=BEFORE_ALL_TICKS)

    def values(self, of: str) -> dict[str, float]:
        """All metrics of the job, or the counters of a partition."""
        found: dict[str, float] = {}
        if not of:
            found |= self.metrics.by_api_name()
            if (seconds := self.metrics.watermark_delay_seconds) is not None:
                found["partition_watermark_lag_seconds"] = seconds
                known = [each for each in self.metrics.partitions.values() if each.delay_ticks is not None]
                least_ticks = min(each.watermark_ticks for each in known)
                found["OutputWatermarkDelaySeconds"] = (self.clock_ticks - least_ticks) / TICKS_PER_SECOND
        for facts in self.metrics.partitions.values():
            if of in ("", f"{facts.input}/{facts.partition}"):
                for name, count in {**asdict(facts.counters), "rejected": facts.rejected}.items():
                    found[name] = found.get(name, 0) + count
        return found


def play(case: Case, player: Player, folder: Path, *, restarts: bool = False) -> list[str]:
    """What differs from the transcript of a case, each with the line of the step."""
    assert case.transcript is not None
    watched, journal = Watched(player.compiled), IdleJournal(folder / "idle.jsonl")

    def take(messages: Sequence[Message]) -> None:
        watched.take(messages)
        for report in BatchReports.of(messages).partitions:
            journal.take(report)

    found: list[str] = []
    for step in case.transcript.steps:
        match step.does:
            case Batch() as batch:
                watched.clock_ticks = batch.clock_ticks
                take(player.batch(batch))
            case Restart():
                player.restart()
            case Rebuild():
                take(player.rebuild(journal))
            case End():
                take(player.end())
            case expected:
                found += [f"step {step.line}: {each}" for each in watched.differences(expected)]
        if restarts:
            player.restart()
    left = {name: rows for name, rows in watched.rows.items() if rows}
    steps = [type(step.does) for step in case.transcript.steps]
    if Rebuild not in steps:  # after which watermarks begin anew
        found += breaches_of(player.compiled.topology, watched.batches, ended=End in steps)
    return found + [f"nobody asked for {row} of {name}" for name, rows in left.items() for row in rows]


def compiled_of(case: Case, key_groups: int) -> Compiled:
    return compile_rows(case.query, {}, from_options(case.settings), case.functions, key_groups)


class TopicsPlayer:
    """Messages of topics, decoded where they are read and brought together in ingresses."""

    def __init__(self, case: Case, manner: Manner) -> None:
        assert case.transcript is not None
        self.case, self.manner = case, manner
        self.frames = self._anew({})
        self.compiled = self.frames.compiled
        self.clock_ms = 0
        self.given: dict[str, list[tuple[int, Event]]] = {name: [] for name in self.frames.topology.fields}
        #: Partitions by input that the input had when its first event came.
        self.first: dict[str, set[str]] = {}

    def _anew(self, begins: Mapping[str, InputBegin]) -> Frames:
        return Frames(
            self.case.query,
            {"arrival": "arrived", "partition": "partition", "offset": "offset", "payload": "payload"},
            shares=1 if begins else self.manner.shares,  # who reads again reads together
            begins=begins,
            key_groups=self.manner.key_groups,
            settings=self.case.settings,
            compiled=compiled_of(self.case, self.manner.key_groups),
        )

    def batch(self, batch: Batch) -> Sequence[Message]:
        self.clock_ms = batch.clock_ticks // TICKS_PER_MILLISECOND
        now: dict[str, list[tuple[int, Event]]] = {name: [] for name in self.given}
        for event in batch.events:
            own = self.given[event.input]
            offset = sum(each.partition == event.partition for _, each in own)
            own.append((offset, event))
            now[event.input].append((offset, event))
        for name, events in now.items():
            if events:
                self.first.setdefault(name, {event.partition for _, event in events})
        return self._played(now)

    def _played(self, now: Mapping[str, Sequence[tuple[int, Event]]], **words: bool) -> Sequence[Message]:
        tables = {name: [messages_of(events)] if events else [] for name, events in now.items()}
        return self.frames.batch(tables, self.clock_ms, **words)

    def restart(self) -> None:
        self.frames.restart()

    def rebuild(self, journal: IdleJournal) -> Sequence[Message]:
        begins: dict[str, InputBegin] = {}
        for name, events in self.given.items():
            until: dict[str, int] = {}
            for offset, event in events:
                until[event.partition] = (offset + 1) * EVENTS_OF_A_MESSAGE
            partitions = {
                partition: PartitionBegin(int(partition), (), 0, journal.of((name, partition)))
                for partition in self.first.get(name, ())
            }
            begins[name] = InputBegin(partitions, until)
        self.frames = self._anew(begins)
        read = self._played(self.given)
        return [*read, *self._played(dict.fromkeys(self.given, ()), replayed=True)]

    def end(self) -> Sequence[Message]:
        return self.frames.batch(dict.fromkeys(self.given, ()), final=True)


def messages_of(events: Sequence[tuple[int, Event]]) -> pa.Table:
    """Messages as Spark's connector hands them over."""
    return pa.table(
        {
            "payload": pa.array([json.dumps(event.payload).encode() for _, event in events], pa.binary()),
            "arrived": pa.array(
                [event.arrival_ticks // TICKS_PER_MICROSECOND for _, event in events], pa.int64()
            ).cast(pa.timestamp("us", "UTC")),
            "partition": pa.array([event.partition for _, event in events], pa.string()),
            "offset": pa.array([offset for offset, _ in events], pa.int64()),
        }
    )


class EventFiles:
    """Inputs in folders: one for each partition, with a file for each event, of the time of its arrival."""

    def __init__(self, folder: Path, topology: Topology) -> None:
        self.folder, self.names = folder, tuple(topology.fields)
        self.written = 0
        for name in self.names:
            (folder / name).mkdir()

    def write(self, event: Event) -> None:
        path = self.folder / event.input / event.partition / f"{self.written:06d}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(event.payload) + "\n")
        nanoseconds = event.arrival_ticks * 100
        os.utime(path, ns=(nanoseconds, nanoseconds))
        self.written += 1

    def inputs(self, *, finished: bool = False) -> tuple[FileInput, ...]:
        """finished: the files that are there are all."""
        return tuple(
            FileInput(InputSpec(name=name, path=self.folder / name, partitions="folders", finished=finished))
            for name in self.names
        )


def source_job(topology: Topology, inputs: Sequence[FileInput], folder: Path, **changed: Any) -> SourceJob:
    """A job over files whose state is in the folder."""
    job = SourceJob(
        topology=topology,
        inputs=tuple(inputs),
        snapshots=Snapshots(str(folder / "ingress")),
        sink=RowSink(),
        key_numbers=key_numbers(topology.key_groups),
        finished=False,
        batch_bytes=1 << 30,
        idle_seconds=0.0,
        tasks=2,
        stop_file=str(folder / "stop"),
    )
    return replace(job, **changed)


class FilesPlayer:
    """Files that the source of a job plans and scans as Spark has it do.

    Every batch is scanned once more, which must send the same.
    """

    def __init__(self, case: Case, manner: Manner, folder: Path) -> None:
        self.case, self.folder = case, folder
        self.compiled = compiled_of(case, manner.key_groups)
        self.topology = self.compiled.topology
        self.files = EventFiles(folder, self.topology)
        self.clock_ticks = 0
        self.generation = 0
        self.first: dict[str, set[str]] = {}
        self._begin(self._job(self.files.inputs()))

    def _job(self, inputs: Sequence[FileInput], **changed: Any) -> SourceJob:
        state = self.folder / f"state-{self.generation}"
        return source_job(self.topology, inputs, state, **changed)

    def _begin(self, job: SourceJob) -> None:
        self.source = JobReader(job)
        self.offset = self.source.initialOffset()
        self.stages = Stages(self.topology)

    def batch(self, batch: Batch) -> Sequence[Message]:
        self.clock_ticks = batch.clock_ticks
        for event in batch.events:
            self.first.setdefault(
                event.input, {each.partition for each in batch.events if each.input == event.input}
            )
            self.files.write(event)
        return self._next()

    def _next(self) -> Sequence[Message]:
        """The next batch, its offset written and read back as Spark's log does."""
        with mock.patch("tideglass.spark.file_source.time.time_ns", return_value=self.clock_ticks * 100):
            end = json.loads(json.dumps(self.source.latestOffset(self.offset, ReadAllAvailable())))
        sent = list(self._scanned(end))
        assert list(self._scanned(end)) == sent, "a batch that is scanned again sends the same"
        self.offset = end
        for name in self.first:  # a folder without a file is no partition yet
            (self.folder / name / "empty").mkdir(exist_ok=True)
        return self.stages.run(sent)

    def _scanned(self, end: dict[str, Any]) -> Iterator[Message]:
        for share in self.source.partitions(self.offset, end):
            for batch in self.source.read(share):
                for row in batch.to_pylist():
                    key_group = self.source.job.key_numbers.index(row["key_group"])
                    yield Message(**{**row, "kind": Kind(row["kind"]), "key_group": key_group})

    def restart(self) -> None:
        self.source = JobReader(SourceJob.of_option(self.source.job.option()))
        self.stages.restart()

    def rebuild(self, journal: IdleJournal) -> Sequence[Message]:
        self.generation += 1
        recorded = {source.name: source.latest({}) for source in self.files.inputs()}
        begins = {
            name: {
                partition: PartitionBegin(int(partition), (), 0, journal.of((name, partition)))
                for partition in partitions
            }
            for name, partitions in self.first.items()
        }
        inputs = tuple(replace(source, recorded=recorded[source.name]) for source in self.files.inputs())
        self._begin(self._job(inputs, begins=begins, emits_replayed=False))
        sent: list[Message] = []
        while True:
            batch = self._next()
            sent += emitted_messages(batch)
            if not any(message.kind is Kind.WITHHELD for message in batch):
                return sent

    def end(self) -> Sequence[Message]:
        """As a run that reads what is there and ends."""
        self.source = JobReader(
            replace(self.source.job, inputs=self.files.inputs(finished=True), finished=True)
        )
        sent: list[Message] = []
        while not self.offset["final"]:
            sent += self._next()
        return sent


def _shown(ticks: int) -> str:
    return "none" if ticks == BEFORE_ALL_TICKS else format_ticks(ticks)


#: Answers with a player of a case, a folder for it to use and a manner.
PLAYERS: Mapping[str, Callable[[Case, Manner, Path], Player]] = {
    "topics": lambda case, manner, folder: TopicsPlayer(case, manner),
    "dataframes": lambda case, manner, folder: TopicsPlayer(case, replace(manner, shares=1)),
    "files": lambda case, manner, folder: FilesPlayer(case, manner, folder),
}
