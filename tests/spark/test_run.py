"""A project runs from its files to committed files: in batches, stopped and resumed, growing, failing."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tideglass
from support.project_on_disk import QUERY, SMALL_BATCH_BYTES, OnDisk, disordered, event, stop_when
from tideglass.connect.files import output
from tideglass.connect.files.written_rows import read_rows
from tideglass.core.errors import EvaluationError, InputError, OutputError, StateError
from tideglass.core.json_rows import rows_of
from tideglass.core.profile import WAITING
from tideglass.job.directory import JobDirectory
from tideglass.job.outputs import BatchRows
from tideglass.job.report.metrics import Metrics
from tideglass.job.report.profile import OUTPUTS, TASKS, Profile
from tideglass.job.report.run_journal import Ended, read_runs
from tideglass.job.runner import run
from tideglass.storage import StoragePath

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def with_events(project: OnDisk) -> OnDisk:
    project.make()
    for partition in range(2):
        rows = disordered(partition, 200)
        project.put(f"{partition}/a.json", rows[:120])
        project.put(f"{partition}/b.json", rows[120:])
    return project


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[OnDisk, Metrics]:
    """The project run in one go."""
    project = with_events(OnDisk(tmp_path_factory.mktemp("undisturbed"), spark))
    return project, project.run()


@pytest.mark.versions
def test_several_batches_commit_the_rows_of_one(
    undisturbed: tuple[OnDisk, Metrics], spark: SparkSession, tmp_path: Path
) -> None:
    whole, of_whole = undisturbed
    several = with_events(OnDisk(tmp_path, spark))
    of_several = several.run(batch_bytes=SMALL_BATCH_BYTES)
    assert of_several.batches > 2 > of_whole.batches
    assert several.all_rows() == whole.all_rows()
    assert all(whole.all_rows().values())
    assert of_several.events == of_whole.events == 400
    assert of_several.by_api_name() == of_whole.by_api_name()
    assert of_whole.by_api_name()["LateInputEvents"] > 0


def test_a_profile_says_where_the_time_of_batches_and_tasks_went(spark: SparkSession, tmp_path: Path) -> None:
    project = with_events(OnDisk(tmp_path, spark))
    job = project.job(batch_bytes=SMALL_BATCH_BYTES)
    profile = Profile(job.compiled.topology)
    metrics = run(job, spark=spark, profile=profile)
    assert len(profile.phases) == metrics.batches > 2
    assert sum(share.percent for share in profile.by_phase()) == pytest.approx(100)
    assert {TASKS, OUTPUTS, "planning by Spark"} <= {share.name for share in profile.by_phase()}
    parts = profile.by_part()
    assert sum(share.percent for level in parts.values() for share in level) == pytest.approx(100)
    assert list(parts) == ["scan", "stage 1", "around"]
    assert {"decoding events", "writing state", WAITING} <= {share.name for share in parts["scan"]}
    of_stage = {share.name for share in parts["stage 1"]}
    assert {"writing state", "reading state", "writing outputs", WAITING} <= of_stage
    assert any("by tumbling 10s" in name for name in of_stage)
    assert profile.run_seconds is not None
    assert 0 < profile.levels[0].cpu_nanoseconds / 1e9 < profile.run_seconds


def test_a_project_is_loaded_checked_and_run_from_python(
    undisturbed: tuple[OnDisk, Metrics], spark: SparkSession, tmp_path: Path
) -> None:
    whole, of_whole = undisturbed
    project = with_events(OnDisk(tmp_path, spark))
    job = tideglass.Job.load(project.folder, key_groups=2)
    assert (job.name, job.check()) == ("job", ())
    finished = job.with_options(once=True, outputs={"high": str(tmp_path / "elsewhere")})
    batches: list[int] = []
    metrics = finished.run(lambda batch_id, _, __: batches.append(batch_id), spark)
    assert metrics.by_api_name() == of_whole.by_api_name()
    assert len(batches) == metrics.batches
    assert project.rows("counts") == whole.rows("counts")
    elsewhere = sorted(json.dumps(row, sort_keys=True) for row in read_rows(tmp_path / "elsewhere"))
    assert elsewhere == whole.rows("high")


def test_a_stopped_run_goes_on_and_a_finished_one_does_nothing(
    undisturbed: tuple[OnDisk, Metrics], spark: SparkSession, tmp_path: Path
) -> None:
    project = with_events(OnDisk(tmp_path, spark))
    first = project.run(stop_when(lambda metrics: True), batch_bytes=SMALL_BATCH_BYTES)
    assert first.batches == 1
    committed = project.files()
    second = project.run(batch_bytes=SMALL_BATCH_BYTES)
    assert second.batches > 1
    assert second.events == 400
    assert project.all_rows() == undisturbed[0].all_rows()
    assert committed.items() <= project.files().items()

    finished = project.files()
    assert project.run().batches == 0
    assert project.files() == finished


@pytest.mark.parametrize("once", [True, False])
def test_a_run_stopped_before_its_first_batch_has_stopped_and_the_next_begins_there(
    once: bool, undisturbed: tuple[OnDisk, Metrics], spark: SparkSession, tmp_path: Path
) -> None:
    project = with_events(OnDisk(tmp_path / "job", spark))
    directory = JobDirectory.of_project(project.folder)
    stopped = run(project.job(once=once), None, spark, on_start=lambda _: directory.stop.create(b""))
    assert stopped.events == 0
    assert project.files() == {}
    project.run()
    assert [each.end.how if each.end else None for each in read_runs(directory.journal)] == [
        Ended.STOPPED,
        Ended.FINISHED,
    ]
    assert project.all_rows() == undisturbed[0].all_rows()


def test_a_batch_that_broke_off_amid_its_commit_or_behind_it_is_committed_once(
    undisturbed: tuple[OnDisk, Metrics],
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project = with_events(OnDisk(tmp_path, spark))
    publish = output.publish_file
    published: list[StoragePath] = []

    def broken(staged: tuple[StoragePath, StoragePath]) -> None:
        if published:
            raise OutputError("the disk is full")
        publish(staged)
        published.append(staged[1])

    monkeypatch.setattr(output, "publish_file", broken)
    with pytest.raises(OutputError, match=r"^the disk is full$"):
        project.run(batch_bytes=SMALL_BATCH_BYTES)
    monkeypatch.undo()
    assert len(project.files()) == 1

    def broken_behind(batch_id: int, _: BatchRows, __: Metrics) -> None:
        if batch_id == 1:
            raise StateError("the batch is committed, and Spark does not know")

    with pytest.raises(StateError, match="Spark does not know"):
        project.run(broken_behind, batch_bytes=SMALL_BATCH_BYTES)
    behind = set(project.files())
    assert any("part-00000001" in name for name in behind)
    project.run(batch_bytes=SMALL_BATCH_BYTES)
    assert behind <= set(project.files())
    assert project.all_rows() == undisturbed[0].all_rows()


def test_another_query_goes_on_behind_the_rows_of_the_one_before(
    undisturbed: tuple[OnDisk, Metrics], spark: SparkSession, tmp_path: Path
) -> None:
    project = with_events(OnDisk(tmp_path, spark))
    project.run(stop_when(lambda metrics: True), batch_bytes=SMALL_BATCH_BYTES)
    before, rows = project.files(), project.rows("high")
    (tmp_path / "job.asaql").write_text(QUERY.replace("v > 90", "v > 95"))
    project.run()
    assert before.items() <= project.files().items()
    assert project.rows("counts") == undisturbed[0].rows("counts")
    added = [json.loads(row)["v"] for row in set(project.rows("high")) - set(rows)]
    assert added
    assert min(added) > 95

    (tmp_path / "job.asaql").write_text("-- the same, said later\n" + QUERY)
    with pytest.raises(StateError, match=r"the statement that writes to 'high' is another(?s:.*)--fresh"):
        project.run()  # what has ended is not gone on with
    project.run(fresh=True)
    assert project.all_rows() == undisturbed[0].all_rows()


def test_a_statement_left_out_is_forgotten_and_the_others_go_on_with_their_state(
    undisturbed: tuple[OnDisk, Metrics], spark: SparkSession, tmp_path: Path
) -> None:
    project = with_events(OnDisk(tmp_path, spark))
    more = "SELECT COUNT(*) AS n INTO hops FROM events TIMESTAMP BY t GROUP BY HoppingWindow(second, 90, 30)"
    (tmp_path / "job.asaql").write_text(more + QUERY)
    project.run(stop_when(lambda metrics: metrics.batches == 2), batch_bytes=SMALL_BATCH_BYTES)
    (tmp_path / "job.asaql").write_text(QUERY)
    second = project.run(batch_bytes=SMALL_BATCH_BYTES)
    assert (second.events_before > 0, second.events) == (True, 400)
    assert project.all_rows() == undisturbed[0].all_rows()


def test_rows_of_another_run_are_not_mixed_in(undisturbed: tuple[OnDisk, Metrics], tmp_path: Path) -> None:
    project, _ = undisturbed
    before = project.files()
    with pytest.raises(OutputError, match="already holds files of another run"):
        project.run(run_directory=tmp_path / "other")
    assert project.files() == before


@pytest.mark.parametrize("file_format", ["csv", "parquet"])
def test_rows_are_the_same_in_every_format(
    undisturbed: tuple[OnDisk, Metrics], spark: SparkSession, tmp_path: Path, file_format: str
) -> None:
    project = with_events(OnDisk(tmp_path, spark))
    project.run(output_format=file_format)
    found = read_rows(tmp_path / "LocalRunOutputs" / "counts")
    assert {Path(name).suffix for name in project.files()} == {f".{file_format}"}
    expected = [json.loads(row) for row in undisturbed[0].rows("counts")]
    if file_format == "csv":
        expected = [{name: str(value) for name, value in row.items()} for row in expected]
    assert in_order(found) == in_order(expected)


def in_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def test_rows_for_the_console_reach_the_driver_and_other_outputs_their_files(
    undisturbed: tuple[OnDisk, Metrics], spark: SparkSession, tmp_path: Path
) -> None:
    project = with_events(OnDisk(tmp_path, spark))
    shown: list[dict[str, Any]] = []

    def watch(_: int, given: BatchRows, __: Metrics) -> None:
        for _spec, table in given.shown:
            shown.extend(rows_of(table))

    project.run(watch, outputs={"COUNTS": "console"})
    assert in_order(shown) == undisturbed[0].rows("counts")
    assert project.rows("high") == undisturbed[0].rows("high")
    assert not (tmp_path / "LocalRunOutputs" / "counts").exists()


@pytest.mark.versions
def test_a_growing_input_is_followed_and_its_silence_closes_windows(
    spark: SparkSession, tmp_path: Path
) -> None:
    project = OnDisk(tmp_path, spark).make(late_seconds=1, out_of_order_seconds=0)
    project.put("0/a.json", [event(second, "a", 1) for second in range(1, 5)])
    steps = iter(
        [
            lambda: project.put("0/b.json", [event(second, "a", 2) for second in range(5, 15)]),
            lambda: project.put("1/a.json", [event(second, "b", 3) for second in range(16, 20)]),
            lambda: None,
        ]
    )
    reached = iter([4, 14, 18])
    waiting_for = [next(reached)]

    def watch(batch_id: int, given: BatchRows, metrics: Metrics) -> None:
        assert batch_id < 200, "silence does not close the last windows"
        if waiting_for and metrics.events == waiting_for[0]:
            next(steps)()
            waiting_for[:] = [next(reached)] if waiting_for != [18] else []
        if metrics.output_rows["counts"] == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    project.run(watch, once=False, idle_seconds=0.5)
    counts = [json.loads(row) for row in project.rows("counts")]
    assert [(row["device"], row["n"], row["total"], row["at"][17:19]) for row in counts] == [
        ("a", 10, 16, "10"),
        ("a", 4, 8, "20"),
        ("b", 4, 12, "20"),
    ]


def test_a_row_that_fails_the_query_stops_the_run_and_what_was_committed_stays(
    spark: SparkSession, tmp_path: Path
) -> None:
    project = OnDisk(tmp_path, spark).make("SELECT CAST(v AS bigint) AS v INTO high FROM events")
    project.put("0/a.json", [event(1, "a", "1"), event(2, "a", "2")])
    bad = [event(3, "a", "three"), event(4, "a", "4")]
    project.put("0/b.json", bad)
    size = (tmp_path / "events" / "0" / "a.json").stat().st_size
    with pytest.raises(EvaluationError) as stopped:
        project.run(batch_bytes=size)
    told = str(stopped.value)
    assert "three" in told
    assert "bigint" in told
    assert "Traceback" not in told
    assert ".java" not in told
    assert project.rows("high") == ['{"v": 1}', '{"v": 2}']

    project.put("0/b.json", [event(3, "a", "00003"), event(4, "a", "4")])
    with pytest.raises(InputError, match=r"INPUT_CHANGED.*b\.json"):  # it was promised other bytes
        project.run(batch_bytes=size)
    project.put("0/b.json", bad)
    project.make("SELECT TRY_CAST(v AS bigint) AS v INTO high FROM events")
    project.run(batch_bytes=size)
    assert project.rows("high") == [f'{{"v": {v}}}' for v in ("1", "2", "4", "null")]
