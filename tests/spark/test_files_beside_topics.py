"""A changed job that reads files and topics goes on behind its last run; no Spark is started.

What Spark would do is done here: offsets are asked and logged, tasks run, batches committed.
"""

from __future__ import annotations

import itertools
import json
import random
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable

from support.depth import depth
from support.project_on_disk import write
from support.times import at
from tideglass.connect.dataframes.input import EVENTS_OF_A_MESSAGE, FrameSpec, chunks_of_frame
from tideglass.connect.kafka.topic import HeldPartition, TopicInput
from tideglass.connect.reference.references import NO_REFERENCES
from tideglass.core.time import parse_ticks
from tideglass.engine.exchange import RowSink
from tideglass.engine.key_group import KeyGroupTask
from tideglass.engine.messages import Kind, Message, for_driver
from tideglass.engine.output_filter import emitted_messages
from tideglass.engine.snapshots import Snapshots
from tideglass.ingress.read_from import ANEW
from tideglass.ingress.reports import BatchReports
from tideglass.ingress.stream import IngressTask
from tideglass.job.directory import JobDirectory
from tideglass.job.options import RunOptions
from tideglass.job.plan import plan_job
from tideglass.job.progress.idle_journal import IdleJournal
from tideglass.job.progress.replay import ReplayState, released_file, write_replay_state
from tideglass.job.progress.restore import is_read_again, positions_after
from tideglass.job.progress.topic_progress import TopicProgress
from tideglass.job.start.begin import RunSetup, begin
from tideglass.job.start.decision import StartMode
from tideglass.job.start.topics import input_begin
from tideglass.local import rows_by_output
from tideglass.operators.state.store import MemoryState
from tideglass.project.project import ProjectInput, load_project
from tideglass.spark.file_source import JobReader, SourceJob
from tideglass.spark.kafka.control_source import ControlJob, ControlReader
from tideglass.spark.key_numbers import key_numbers
from tideglass.testing import rows_in_order

#: A window over both, a join of both, an analytic function over each, and rows that wait for the watermark.
QUERY = """
WITH both AS (SELECT d, v FROM a TIMESTAMP BY t UNION SELECT d, v FROM b TIMESTAMP BY t),
w AS (SELECT d, COUNT(*) AS n FROM a TIMESTAMP BY t GROUP BY d, TumblingWindow(second, 4))
SELECT d, COUNT(*) AS n, SUM(v) AS s, System.Timestamp() AS at INTO counts
FROM both GROUP BY d, TumblingWindow(second, 10)
SELECT w.d, w.n, b.v, System.Timestamp() AS at INTO pairs
FROM w LEFT JOIN b TIMESTAMP BY t ON w.d = b.d AND DATEDIFF(second, w, b) BETWEEN -2 AND 3
SELECT v, LAG(v) OVER (PARTITION BY d LIMIT DURATION(second, 6)) AS before, System.Timestamp() AS at INTO lags
FROM b TIMESTAMP BY t
SELECT d, v, System.Timestamp() AS at INTO high FROM a TIMESTAMP BY t WHERE v > 5
"""
#: The same rows of other steps: no state of before fits.
CHANGED = QUERY.replace("TIMESTAMP BY t", "TIMESTAMP BY DATEADD(second, 0, t)")
CHANGED_AGAIN = QUERY.replace("TIMESTAMP BY t", "TIMESTAMP BY DATEADD(minute, 0, t)")
SPEC = FrameSpec("a", "came", "p", "o", None, (), FrameSpec("a", None, None, None).payload_as)
PARTITIONS = ("0", "1")

Row = Mapping[str, Any]


def rows_of(seed: int, count: int) -> dict[str, dict[str, list[Row]]]:
    """Per input and partition, events out of order and late, in the order of their arrival."""
    rng = random.Random(seed)
    result: dict[str, dict[str, list[Row]]] = {name: {p: [] for p in PARTITIONS} for name in "ab"}
    for n in range(count):
        partition = rng.choice(PARTITIONS)
        own = result[rng.choice("ab")][partition]
        own.append(
            {
                "t": at(60 + n - rng.choice((0, 0, 1, 2, 4, 9, -3))),
                "d": rng.choice("xyz"),
                "v": rng.randrange(10),
                "came": at(60 + n),
                "p": int(partition),
                "o": len(own) * EVENTS_OF_A_MESSAGE,
            }
        )
    return result


def make(folder: Path, rows: Mapping[str, list[Row]]) -> None:
    """The project, with the events of its files."""
    folder.mkdir()
    (folder / "job.asaql").write_text(QUERY)
    config = {
        "EventsLateArrivalMaxDelayInSeconds": 5,
        "EventsOutOfOrderMaxDelayInSeconds": 2,
        "EventsOutOfOrderPolicy": "Adjust",
    }
    (folder / "JobConfig.json").write_text(json.dumps(config))
    for partition, own in rows.items():
        (folder / "b" / partition).mkdir(parents=True)
        for number, first in enumerate(range(0, len(own), 7)):
            write(folder / "b" / partition / f"{number:03}.json", own[first : first + 7])


def table(rows: list[Row]) -> pa.Table:
    return pa.table(
        {
            "t": pa.array([row["t"] for row in rows], pa.string()),
            "d": pa.array([row["d"] for row in rows], pa.string()),
            "v": pa.array([row["v"] for row in rows], pa.int64()),
            "came": pa.array([came(row) for row in rows], pa.timestamp("us", "UTC")),
            "p": pa.array([row["p"] for row in rows], pa.int32()),
            "o": pa.array([row["o"] for row in rows], pa.int64()),
        }
    )


def came(row: Row) -> datetime:
    return datetime.fromisoformat(row["came"][:26] + "+00:00")


@dataclass
class Run:
    """A run of the project in `folder` on the messages of its topic `a`; as `job.runner` and Spark would."""

    folder: Path
    topic: Mapping[str, list[Row]]
    rng: random.Random
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    clock_ms: int = 1_000_000
    messages: list[Message] = field(default_factory=list[Message])
    states: dict[Any, MemoryState] = field(default_factory=dict[Any, MemoryState])
    batches: int = 0

    def __post_init__(self) -> None:
        self.directory = JobDirectory.of_project(self.folder)
        self.directory.path.mkdir()
        self.ending = False
        self.read_plan = self.begin()
        self.state = self.directory.generation(self.read_plan.plan.generation)
        self.place = TopicProgress()
        self.idle_journal = IdleJournal(self.directory.idle_journal)
        began = self.read_plan.read_plan
        self.read = {p: began.offsets["a"].get(p, 0) for p in PARTITIONS}
        self.told: dict[str, Any] = self.teller().initialOffset()
        self.own: dict[str, Any] = self.source().initialOffset()

    def begin(self) -> RunSetup:
        self.job = self.plan(once=False)
        return begin(self.job, self.directory, self.look)

    def plan(self, *, once: bool) -> Any:
        topic = TopicInput("a", "b:9092", "a-1", starting="earliest")
        files = ProjectInput("b", "stream", "local file", self.folder / "b", "json", arrival="came")
        project = replace(
            load_project(self.folder),
            inputs={
                "a": ProjectInput("a", "stream", "Kafka", live=topic),
                "b": replace(files, partitions="folders"),
            },
        )
        return plan_job(project, RunOptions(**{"live": True, "once": once, "key_groups": 2, **self.options}))

    def look(self, topic: TopicInput, from_ms: int | None) -> dict[int, HeldPartition]:
        found: dict[int, HeldPartition] = {}
        for partition, rows in self.topic.items():
            stamps = [(parse_ticks(row["came"]) or 0) // 10_000 for row in rows]
            first = None
            if from_ms is not None:
                first = next((n for n, stamp in enumerate(stamps) if stamp >= from_ms), None)
            found[int(partition)] = HeldPartition(0, len(rows), stamps[0] if stamps else None, first)
        return found

    @property
    def replayed(self) -> str | None:
        return str(released_file(self.state)) if self.read_plan.read_plan.reads_again else None

    def source(self) -> JobReader:
        began = self.read_plan.read_plan
        inputs = tuple(
            each.reading_again(began.recorded.get(name, {})) for name, each in self.job.inputs.items()
        )
        topology = self.job.compiled.topology
        return JobReader(
            SourceJob(
                topology=topology,
                inputs=inputs,
                snapshots=Snapshots(str(self.state / "ingress")),
                sink=RowSink(),
                key_numbers=key_numbers(topology.key_groups),
                finished=self.job.options.once,
                batch_bytes=self.rng.randint(1, 3000),
                idle_seconds=0.0,
                tasks=2,
                stop_file=str(self.folder / "stop"),
                begins={name: of for name, of in began.begins.items() if name in self.job.inputs},
                emits_replayed=began.after_ticks is None,
                replayed_file=self.replayed,
            )
        )

    def teller(self) -> ControlReader:
        return ControlReader(
            ControlJob((0,), self.job.options.once, self.ending, self.replayed, NO_REFERENCES)
        )

    def batch(self, most: int = 6, wait_ms: int = 0) -> bool:
        """One batch, unless there is nothing for it."""
        self.clock_ms += 1 + wait_ms
        clock = SimpleNamespace(time_ns=lambda: self.clock_ms * 1_000_000)
        with patch("tideglass.spark.file_source.time", clock):
            source, teller, everything = self.source(), self.teller(), ReadAllAvailable()
            least = 0 if self.batches else 1  # so does Spark's connector
            read = {
                p: min(len(self.topic[p]), n + self.rng.randint(least, most)) for p, n in self.read.items()
            }
            told = json.loads(json.dumps(teller.latestOffset(self.told, everything)))
            own = json.loads(json.dumps(source.latestOffset(self.own, everything)))
            if (read, told, own) == (self.read, self.told, self.own):
                return False
            log = self.state / "checkpoint" / "offsets" / str(self.batches)
            log.parent.mkdir()
            log.write_text(
                "\n".join(["v1", "{}", json.dumps({"a-1": read}), json.dumps(told), json.dumps(own)])
            )
            sent = [*self.ingress(read, teller.partitions(self.told, told), teller)]
            for share in source.partitions(self.own, own):
                for each in source.read(share):
                    sent += [self.here(message(row)) for row in each.to_pylist()]
        self.stages(sent)
        self.read, self.told, self.own = read, told, own
        self.batches += 1
        return True

    def here(self, sent: Message) -> Message:
        """A message of the source, which names what Spark hashes, with its key group."""
        numbers = key_numbers(self.job.compiled.topology.key_groups)
        return replace(sent, key_group=numbers.index(sent.key_group))

    def ingress(self, read: Mapping[str, int], words: Any, teller: ControlReader) -> list[Message]:
        topology = self.job.compiled.topology
        fields = topology.fields["a"]
        rows = [row for p, own in self.topic.items() for row in own[self.read[p] : read[p]]]
        self.rng.shuffle(rows)
        given = [message(row) for word in words for each in teller.read(word) for row in each.to_pylist()]
        if rows:
            chunks = chunks_of_frame(table(rows), SPEC, fields, "1.2", 0, itertools.count())
            given += [Message(0, 0, Kind.CHUNK, 0, each.partition, each.to_bytes()) for each in chunks]
        state = self.states.setdefault("a", MemoryState())
        timer = not self.job.options.once and state.get("record") is not None
        if not (given or timer):  # Spark does not call it
            return []
        began = input_begin(self.read_plan.read_plan, "a") if self.replayed else ANEW
        task = IngressTask(topology, "a", RowSink(), None, begin=began)
        return task.run(given, state, None if self.job.options.once else self.clock_ms)

    def stages(self, sent: list[Message]) -> None:
        topology = self.job.compiled.topology
        for level in range(1, topology.levels + 1):
            received, sent = sent, []
            for key_group in range(topology.key_groups):
                mine = [m for m in received if m.key_group == key_group]
                if mine:  # Spark calls a key group only when there is something for it
                    stage = KeyGroupTask(topology, level, RowSink(), remembers=True)
                    sent += stage.run(
                        key_group,
                        mine,
                        lambda op, where=(level, key_group): self.states.setdefault(
                            (*where, op), MemoryState()
                        ),
                    )
        told = for_driver(sent)
        self.messages += emitted_messages(told)
        scanned = BatchReports.of(told).partitions
        for report in scanned:
            self.idle_journal.take(report)
        checkpoint, source = self.state / "checkpoint", self.source()
        self.place = self.place.after(self.batches, checkpoint, ("a",), scanned)
        self.place.save(self.state)
        inputs, began = source.job.inputs, self.read_plan.read_plan
        read = positions_after(self.batches, checkpoint, inputs, began, self.place)
        if self.replayed and is_read_again(began.stop_offsets, inputs, self.place, read):
            write_replay_state(self.state, ReplayState.RELEASED)

    def finish(self) -> None:
        self.job = self.plan(once=True)
        for self.ending in (False, True):
            while any(self.batch(most=20) for _ in range(5)):
                pass

    def rows(self) -> dict[str, Counter[str]]:
        topology = self.job.compiled.topology
        found = {name: rows_in_order(of) for name, of in rows_by_output(topology, self.messages).items()}
        return {name: Counter(map(repr, rows)) for name, rows in found.items()}


def message(row: Mapping[str, Any]) -> Message:
    return Message(**{**row, "kind": Kind(row["kind"])})


def change(folder: Path, query: str) -> None:
    (folder / "job.asaql").write_text(query)


@settings(max_examples=depth(12), deadline=None)
@given(
    seed=st.integers(0, 100_000),
    batches=st.integers(1, 9),
    waits=st.lists(st.sampled_from([0, 500, 3000, 9000]), max_size=4),
    again=st.integers(0, 3),
)
def test_behind_a_stopped_run_of_another_query_come_the_rows_it_had_not_given_and_no_other(
    seed: int, batches: int, waits: list[int], again: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, rng = tmp_path_factory.mktemp("mixed"), random.Random(seed)
    rows = rows_of(seed, 60)
    make(folder / "first", rows["b"])
    first = Run(folder / "first", rows["a"], rng)
    for number in range(batches):
        first.batch(wait_ms=waits[number % len(waits)] if waits else 0)
    shutil.copytree(folder / "first", folder / "second")
    parts = [first.rows()]

    change(folder / "second", CHANGED)
    clock_ms = first.clock_ms
    if again:  # stopped under way, changed again, and in other key groups
        second = Run(folder / "second", rows["a"], rng, {"key_groups": 3}, clock_ms)
        for _ in range(again):
            second.batch()
        parts.append(second.rows())
        change(folder / "second", CHANGED_AGAIN)
    last = Run(folder / "second", rows["a"], rng, {}, clock_ms)
    assert last.read_plan.plan.mode is StartMode.LAST_STOPPED
    for _ in range(3):
        last.batch(most=30)
    last.finish()
    parts.append(last.rows())
    first.finish()
    assert {name: sum((part[name] for part in parts), Counter[str]()) for name in parts[0]} == first.rows()
