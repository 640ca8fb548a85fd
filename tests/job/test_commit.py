"""A commit that is cut off between any two of its steps is made good by the next start."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from support.begun import Bench
from tideglass.connect.kafka.topic import HeldPartition, TopicInput
from tideglass.core.failing_rows import Failed
from tideglass.core.time import TICKS_PER_SECOND
from tideglass.core.types import SYSTEM_TIMESTAMP
from tideglass.engine.messages import Kind, Message
from tideglass.engine.reports import STAGE_REPORT, StageReport
from tideglass.ingress.reports import PARTITION_REPORT, PartitionReport, ReaderReport
from tideglass.job import commit as commits
from tideglass.job.commit import COMMIT_STEPS, BatchCommit, Committer
from tideglass.job.options import JobPlan, RunOptions
from tideglass.job.outputs import TaskSink
from tideglass.job.plan import plan_job
from tideglass.job.progress.counts import Counts
from tideglass.job.progress.replay import ReplayState, read_replay_state
from tideglass.job.progress.stop_point import stop_point
from tideglass.job.progress.topic_progress import TopicProgress
from tideglass.job.report.metrics import Metrics
from tideglass.job.report.reporter import Reporter
from tideglass.job.start.begin import begin
from tideglass.project.project import ProjectInput, load_project

QUERY = "SELECT MAX(n) AS n INTO many FROM sensor TIMESTAMP BY readAt GROUP BY TumblingWindow(second, 10)"
OTHER = "SELECT COUNT(*) AS n INTO many FROM sensor TIMESTAMP BY readAt GROUP BY TumblingWindow(second, 100)"
#: Messages a batch reads of the topic's one partition; each is a row that holds its offset.
BATCH = 10
#: Steps that write something, and the end of the commit.
CUTS = [*[step.__name__ for step in COMMIT_STEPS], "the end"]


class Killed(Exception):
    """Stands for the end of a process."""


def die(_: BatchCommit) -> None:
    raise Killed


def held(topic: TopicInput, from_ms: int | None) -> Mapping[int, HeldPartition]:
    return {0: HeldPartition(earliest=0, end=1000, oldest_ms=10_000, found=0)}


class World:
    """A job of one topic, whose batches Spark would have made; files of its directory outlive `start`."""

    def __init__(self, folder: Path) -> None:
        self.bench = Bench(folder / "heat")
        self.query(QUERY)
        self.start()

    def query(self, text: str) -> None:
        self.bench.query(text)

    def start(self) -> None:
        """A run starts, as a process that knows nothing but what is on the disk."""
        self.job = self._plan()
        setup = begin(self.job, self.bench.directory, held)
        self.committer = Committer.of(self.job, Reporter("heat", self.bench.directory, setup, Metrics()))

    def _plan(self) -> JobPlan:
        topic = TopicInput("sensor", "b:9092", "sensor-1", starting="earliest")
        inputs = {"sensor": ProjectInput("sensor", "stream", "Kafka", live=topic)}
        project = replace(load_project(self.bench.folder), inputs=inputs)
        return plan_job(project, RunOptions(live=True, cores=1))

    def batch(self, number: int, *, replayed: bool = False, rows: bool = True) -> None:
        """Spark logs a batch, runs it, has it committed and logs that."""
        checkpoint, read = self.committer.checkpoint, (number + 1) * BATCH
        for log in ("offsets", "commits"):
            (checkpoint / log).mkdir()
        (checkpoint / "metadata").write_text('{"id":"x"}')
        control = json.dumps({"ended": False, "known": {}, "replayed": replayed})
        offsets = "\n".join(["v1", "{}", json.dumps({"sensor-1": {"0": read}}), control])
        (checkpoint / "offsets" / str(number)).write_text(offsets)
        self.committer.commit(number, self._messages(number, read, rows=rows))
        (checkpoint / "commits" / str(number)).write_text("v1\n{}")

    def _messages(self, number: int, read: int, *, rows: bool) -> list[Message]:
        watermark_ticks = (400 + read) * TICKS_PER_SECOND
        scanned = PartitionReport(
            "sensor",
            "0",
            next_offset=read,
            readers=(ReaderReport(0, watermark_ticks=watermark_ticks),),
            quiet_until_ticks=watermark_ticks,
        )
        offsets = list(range(read - BATCH, read))
        table = pa.table({"n": offsets, SYSTEM_TIMESTAMP: offsets})
        kind, body = TaskSink(self.job.outputs).put("many", table, f"sender-{number}")
        staged = [Message(0, 1, kind, 0, "s", body)] if rows else []
        failed = StageReport(1, 0, {3: Failed(number + 1, "it failed")})
        return [
            *staged,
            Message(0, 1, Kind.REPORT, 0, "s", PARTITION_REPORT.body(scanned)),
            Message(0, 1, Kind.REPORT, 1, "k", STAGE_REPORT.body(failed)),
        ]

    def killed_at(self, cut: str, monkeypatch: pytest.MonkeyPatch, number: int, **chosen: bool) -> None:
        """A batch whose commit ends before a step."""
        at = CUTS.index(cut)
        with monkeypatch.context() as patched:
            patched.setattr(commits, "COMMIT_STEPS", (*COMMIT_STEPS[:at], die, *COMMIT_STEPS[at:]))
            with pytest.raises(Killed):
                self.batch(number, **chosen)

    def rows(self) -> list[int]:
        """The rows that readers of the output see."""
        parts = self.bench.folder.rglob("many/part-*")
        return sorted(json.loads(line)["n"] for part in parts for line in part.read_text().splitlines())

    def kept(self) -> dict[str, bytes]:
        """What is kept of the batches, by file."""
        root = self.committer.generation.local
        files = [file for file in root.rglob("*") if file.is_file()]
        return {str(file.relative_to(root)): file.read_bytes() for file in files} | {
            "idle": self.bench.directory.idle_journal.read_bytes()
        }


@pytest.mark.parametrize("cut", CUTS)
def test_the_same_batch_is_committed_once_wherever_its_commit_was_cut_off(
    cut: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed, world = World(tmp_path / "one"), World(tmp_path / "cut")
    for number in range(3):
        undisturbed.batch(number)
    world.batch(0)
    world.killed_at(cut, monkeypatch, 1)
    world.start()
    assert world.committer.reporter.setup.plan.resume
    world.batch(1)
    world.batch(2)
    assert world.rows() == undisturbed.rows() == list(range(3 * BATCH))
    assert world.kept() == undisturbed.kept()
    assert Counts.load(world.committer.generation).rows == {"many": 3 * BATCH}


@pytest.mark.parametrize("cut", CUTS)
def test_a_start_that_gives_up_the_state_finds_the_rows_before_its_stop_point_and_no_other(
    cut: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path / "cut")
    world.batch(0)
    world.killed_at(cut, monkeypatch, 1)
    is_committed = CUTS.index(cut) > CUTS.index("save_topic_progress")
    stopped = stop_point(world.committer.generation)
    assert stopped.batch == (1 if is_committed else 0)
    assert stopped.topics["sensor"].next_offsets == {"0": 2 * BATCH if is_committed else BATCH}
    world.query(OTHER)
    world.start()
    assert world.committer.reporter.setup.plan.generation == 2
    assert world.rows() == list(range(stopped.topics["sensor"].next_offsets["0"]))


@pytest.mark.parametrize("cut", CUTS)
def test_a_replay_goes_on_to_new_events_wherever_the_commit_before_was_cut_off(
    cut: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path / "cut")
    world.batch(0)
    world.batch(1)
    world.query(OTHER)
    world.start()
    assert world.committer.replay is ReplayState.REPLAYING
    world.batch(0, rows=False)
    assert world.committer.replay is ReplayState.REPLAYING
    world.killed_at(cut, monkeypatch, 1, rows=False)
    world.start()
    is_known = CUTS.index(cut) > CUTS.index("save_topic_progress")
    assert world.committer.replay is (ReplayState.RELEASED if is_known else ReplayState.REPLAYING)
    world.batch(1, rows=False)
    assert world.committer.replay is ReplayState.RELEASED
    assert stop_point(world.committer.generation).topics["sensor"].next_offsets == {"0": 2 * BATCH}

    world.killed_at(cut, monkeypatch, 2, replayed=True)
    world.start()
    world.batch(2, replayed=True)
    assert world.committer.replay is ReplayState.LIVE
    assert world.rows() == list(range(3 * BATCH))
    assert stop_point(world.committer.generation).topics["sensor"].next_offsets == {"0": 3 * BATCH}


@pytest.mark.parametrize(
    ("files", "replayed", "reads_again", "state"),
    [
        ((), False, True, ReplayState.REPLAYING),
        (("ending",), False, True, ReplayState.REPLAYING),  # it read to the end of what there was
        (("replayed",), False, True, ReplayState.RELEASED),
        (("replayed",), True, True, ReplayState.LIVE),
        ((), False, False, ReplayState.LIVE),
        (("ending",), False, False, ReplayState.ENDING),
        (("replayed", "ending"), True, True, ReplayState.ENDING),
    ],
)
def test_the_files_earlier_versions_left_say_where_a_replay_is(
    tmp_path: Path, files: tuple[str, ...], replayed: bool, reads_again: bool, state: ReplayState
) -> None:
    for name in files:
        (tmp_path / name).touch()
    progress = TopicProgress(0, replayed=replayed)
    assert read_replay_state(tmp_path, progress, reads_again=reads_again) is state
