"""What an earlier version wrote, and what this one writes, is read: `tests/fixtures/state/files-N`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tideglass.connect.reference.files import FileReference
from tideglass.connect.reference.journal import JournaledReferences
from tideglass.connect.spec import ReferenceSpec
from tideglass.core.errors import StateError
from tideglass.core.positions import Piece
from tideglass.engine.snapshots import Snapshots
from tideglass.ingress.decisions import Counters
from tideglass.ingress.idle_periods import IdlePeriod
from tideglass.ingress.partition_watermarks import PartitionWatermarks
from tideglass.ingress.read_from import PartitionBegin
from tideglass.job.directory import JobDirectory
from tideglass.job.lock import Holder, holder
from tideglass.job.progress.counts import Counts
from tideglass.job.progress.idle_journal import IdleJournal
from tideglass.job.progress.topic_progress import REACHED, TopicProgress
from tideglass.job.report.metrics import Metrics
from tideglass.job.report.run_journal import Ended, RunEnd, RunStart, add, read_runs
from tideglass.job.report.status import (
    CatchUpStatus,
    InputStatus,
    JobState,
    Status,
    read_status,
    write_status,
)
from tideglass.job.start.read_plan import READ_PLAN, ReadPlan
from tideglass.spark.checkpoint import control_offset, last_batch, source_offset, topic_offsets
from tideglass.spark.source_offset import (
    CONTROL_OFFSET,
    SOURCE_OFFSET,
    ControlOffset,
    PartitionOffset,
    SourceOffset,
)

FOLDER = Path(__file__).parents[1] / "fixtures" / "state" / "files-1"
A, B = Piece("a.json", 0, 10, 5), Piece("b.json", 0, 20, 6, "1:2:3:20:00ff:growing")


@pytest.fixture
def then(tmp_path: Path) -> JobDirectory:
    """The files of an earlier version, which this one may change."""
    return JobDirectory(shutil.copytree(FOLDER, tmp_path / "job"))


def test_progress_of_topics_is_read_and_written_again(tmp_path: Path) -> None:
    then = TopicProgress.load(FOLDER)
    report = then.reports["i"]["0"]
    assert (then.batch, then.replayed, then.offsets) == (1, True, {"i": {"0": 9}})
    assert (report.next_offset, report.watermark_ticks) == (9, 17_672_256_080_000_000)
    assert report.readers[0].counters == Counters(accepted=9)
    assert ([each.rows for each in report.failed.values()], report.idle_held) == ([3], True)
    then.save(tmp_path)
    assert TopicProgress.load(tmp_path) == then


def test_counts_are_read_and_written_again(tmp_path: Path) -> None:
    then = Counts.load(FOLDER)
    assert (then.batch, then.rows, then.rows_before) == (1, {"o": 5}, {"o": 3})
    assert list(then.stages) == ["1/0"]
    metrics = Metrics()
    metrics.take_stage(then.stages["1/0"])
    assert metrics.by_api_name()["Errors"] > 0
    then.save(tmp_path)
    assert Counts.load(tmp_path) == then


def test_progress_of_a_later_format_is_named(tmp_path: Path) -> None:
    (tmp_path / REACHED).write_text('{"format": 3, "batch": 1}')
    with pytest.raises(StateError, match="it has format 3, this version reads 2"):
        TopicProgress.load(tmp_path)


def test_a_status_is_read_and_written_again(then: JobDirectory) -> None:
    cause = "the query had changed"
    status = Status(
        job="toll",
        run=2,
        state=JobState.STOPPED,
        since="2026-01-01T00:00:00Z",
        updated="2026-01-01T00:01:00Z",
        pid=7,
        host="host",
        generation=1,
        mode="last-stopped",
        cause=cause,
        batches=3,
        events=10,
        inputs=(
            InputStatus("i", "0", 10, "2026-01-01T00:00:55.0000000Z", 1.5),
            InputStatus("j", "1", 0, None, None),
        ),
        watermark_delay_seconds=1.5,
        counters={"InputEvents": 10},
        rows={"o": 4},
        rows_in_all={"o": 9},
        catching_up=CatchUpStatus(cause, "the beginning", 5, None, None, 0.0, 1.25, None),
        error="one bad row",
    )
    assert read_status(then) == status
    write_status(then, status)
    assert read_status(then) == status


def test_the_journal_of_runs_is_read_and_grows(then: JobDirectory) -> None:
    first, second = read_runs(then.journal)
    assert (first.start.arguments, first.start.changes, first.start.query) == (("--once", "."), (), "abc")
    assert first.end == RunEnd(1, "2026-01-01T00:01:00Z", Ended.FINISHED, 3, 10, {"o": 4}, None, 0.5)
    assert (second.start.arguments, second.start.changes) == (None, ("the query",))
    third = RunStart(3, "2026-01-03T00:00:00Z", 2, True, "time", "asked", "batch 4", 9, "host")
    add(then.journal, third)
    assert [each.start for each in read_runs(then.journal)] == [first.start, second.start, third]


def test_the_journal_of_idle_periods_is_read(then: JobDirectory) -> None:
    found = IdleJournal(then.idle_journal).of(("i", "0"))
    assert found == (IdlePeriod(5, 100), IdlePeriod(9, 250))


def test_the_holder_of_a_lock_is_read(then: JobDirectory) -> None:
    assert holder(then) == Holder(7, "host", 1767225600.25)


def test_a_read_plan_is_read_and_written_again(tmp_path: Path) -> None:
    plan = ReadPlan(
        begins={"i": {"0": PartitionBegin(3, [A], 7, (IdlePeriod(1, 2),))}},
        recorded={"i": {"0": [A, B]}},
        after_ticks=9,
        offsets={"t": {"0": 4}},
        stop_offsets={"t": {"0": 6}},
    )
    assert ReadPlan.load(FOLDER / READ_PLAN) == plan
    plan.save(tmp_path / READ_PLAN)
    assert ReadPlan.load(tmp_path / READ_PLAN) == plan


def test_the_offsets_in_sparks_log_are_read_and_written_again() -> None:
    checkpoint = FOLDER / "checkpoint"
    assert last_batch(checkpoint) == 3
    position = (Piece("a.json", 0, 9, 1), B)
    offset = SourceOffset(
        batch=4,
        final=False,
        inputs={"i": {"0": PartitionOffset(2, position, since_ms=5, ended=True)}},
        at_ms=7,
        replaying=False,
        known={"r": 2},
    )
    assert source_offset(checkpoint, 3) == offset == SOURCE_OFFSET.of_plain(SOURCE_OFFSET.plain(offset))
    control = ControlOffset(ended=True, known={"r": 2}, replayed=True)
    assert control_offset(checkpoint, 3, topics=1) == control
    assert CONTROL_OFFSET.of_plain(CONTROL_OFFSET.plain(control)) == control
    assert topic_offsets(checkpoint, 3, ["t"]) == {"t": {"0": 70, "1": 8}}
    assert source_offset(checkpoint, 0) == SourceOffset(0, False, {}, 0)
    assert (control_offset(checkpoint, 0, topics=1), topic_offsets(checkpoint, 0, ["t"])) == (
        ControlOffset(),
        {},
    )


def test_the_journal_of_reference_data_is_read_and_grows(tmp_path: Path) -> None:
    references = JournaledReferences(
        str(tmp_path), (FileReference(ReferenceSpec(name="r", path=tmp_path / "r.json")),)
    )
    (tmp_path / "r.json").write_text('{"k": 1}\n')
    assert references.find(None) == {"r": 1}
    (path,) = tmp_path.glob("r-*.jsonl")
    (found,) = references.snapshots("r", 1)
    plain = json.loads(path.read_text())
    assert plain.pop("version") == 1
    plain.pop("checksum")
    path.write_text(json.dumps(plain) + "\n")  # as a version before documents had a number wrote it
    assert JournaledReferences(str(tmp_path), references.inputs).snapshots("r", 1) == [found]


def test_the_watermarks_of_partitions_are_read(tmp_path: Path) -> None:
    snapshots = Snapshots(str(tmp_path))
    snapshots.save("peers", 0, b'{"a":{"0":{"1":5}}}')  # as a version before documents had a number wrote it
    assert PartitionWatermarks(snapshots).before(1, "a") == {"0": {1: 5}}
    PartitionWatermarks(snapshots).take(1, [])
    assert PartitionWatermarks(snapshots).before(2, "a") == {"0": {1: 5}}
