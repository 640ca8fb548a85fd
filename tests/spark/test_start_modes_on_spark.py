"""A project starts again on Spark: at an output time, where it stopped, and in two places at once."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.project_on_disk import SMALL_BATCH_BYTES, OnDisk, disordered, stop_when
from support.times import at
from tideglass.cli.status import status_lines
from tideglass.core.errors import InputError, StateError
from tideglass.core.time import parse_ticks
from tideglass.job.directory import JobDirectory
from tideglass.job.estimate.estimate import estimate, measured
from tideglass.job.estimate.measure import experiment
from tideglass.job.options import RunOptions
from tideglass.job.plan import plan_job
from tideglass.job.report.run_journal import read_runs
from tideglass.job.report.status import read_status
from tideglass.job.start.decision import StartMode
from tideglass.plan.read_back import read_backs
from tideglass.project.project import load_project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

#: A window, a join of windows with single events, an analytic function and a projection: state of every kind.
QUERY = """
WITH busy AS (
    SELECT device, COUNT(*) AS n FROM events TIMESTAMP BY t GROUP BY device, TumblingWindow(second, 20)
)
SELECT device, n, System.Timestamp() AS at INTO counts FROM busy
SELECT e.device, e.v, b.n, System.Timestamp() AS at INTO pairs FROM events e TIMESTAMP BY t
LEFT JOIN busy b ON e.device = b.device AND DATEDIFF(second, e, b) BETWEEN 0 AND 15
SELECT device, LAG(v) OVER (PARTITION BY device LIMIT DURATION(minute, 1)) AS before, v,
    System.Timestamp() AS at INTO high FROM events TIMESTAMP BY t WHERE v > 90
"""
#: The same but for a second filter: all state of the first statement is that of another step.
CHANGED = QUERY.replace("TIMESTAMP BY t GROUP BY", "TIMESTAMP BY t WHERE device <> 'none' GROUP BY")
OUTPUTS = ("counts", "pairs", "high")
EVENTS = 700


def make(folder: Path, spark: SparkSession, query: str = QUERY) -> OnDisk:
    """The project with its events, in the order of arrival, spread over several files."""
    project = OnDisk(folder, spark).make(query)
    for partition in range(2):
        rows = disordered(partition, EVENTS)
        for number in range(7):
            project.put(f"{partition}/{number}.json", rows[number * 100 : number * 100 + 100])
    return project


def given(project: OnDisk) -> dict[str, Counter[str]]:
    return {name: Counter(project.rows(name)) for name in OUTPUTS}


def since(rows: dict[str, Counter[str]], start: str) -> dict[str, Counter[str]]:
    """The rows stamped from a time on."""
    return {
        name: Counter({row: n for row, n in of.items() if json.loads(row)["at"] >= start})
        for name, of in rows.items()
    }


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Counter[str]]:
    """The rows of the run that nothing disturbs."""
    project = make(tmp_path_factory.mktemp("whole"), spark)
    project.run()
    rows = given(project)
    assert all(rows.values())
    return rows


def test_from_an_output_time_on_the_rows_are_those_of_the_undisturbed_run(
    whole: dict[str, Counter[str]], spark: SparkSession, tmp_path: Path
) -> None:
    project = make(tmp_path, spark)
    start = at(605)
    metrics = project.run(start_mode=StartMode.TIME, start_at_ticks=parse_ticks(start), key_groups=3)
    expected = since(whole, start)
    assert all(expected.values())
    assert given(project) == expected
    # 20 s of window, 15 of join, 1 min of LAG at most, 5 min early: of 700 s some 450 are read.
    assert metrics.events < 2 * EVENTS * 0.75


@pytest.mark.parametrize("query", [QUERY, CHANGED])
def test_behind_a_stopped_run_come_the_rows_it_had_not_given(
    whole: dict[str, Counter[str]], spark: SparkSession, tmp_path: Path, query: str
) -> None:
    project = make(tmp_path, spark)
    project.run(stop_when(lambda metrics: metrics.batches > 3), batch_bytes=SMALL_BATCH_BYTES)
    first = given(project)
    assert first != whole
    (tmp_path / "job.asaql").write_text(query)
    project.run(
        stop_when(lambda metrics: metrics.batches > 1),
        batch_bytes=SMALL_BATCH_BYTES // 2,
        key_groups=3,
        start_mode=None if query is CHANGED else StartMode.LAST_STOPPED,
    )
    assert given(project) == first  # stopped while it read again
    project.run(start_mode=StartMode.LAST_STOPPED, batch_bytes=SMALL_BATCH_BYTES, key_groups=1)
    assert given(project) == whole
    with pytest.raises(StateError, match="given all rows"):
        project.run(start_mode=StartMode.LAST_STOPPED)


def test_in_other_key_groups_the_state_is_built_anew_and_that_is_told(
    whole: dict[str, Counter[str]], spark: SparkSession, tmp_path: Path
) -> None:
    project = make(tmp_path, spark)
    directory = JobDirectory.of_project(tmp_path)
    project.run(stop_when(lambda metrics: metrics.batches > 3), batch_bytes=SMALL_BATCH_BYTES)
    first = given(project)
    assert first != whole
    stop = stop_when(lambda metrics: metrics.batches > 1)
    project.run(stop, batch_bytes=SMALL_BATCH_BYTES // 2, key_groups=3)
    assert given(project) == first, "what is read again gives nothing"
    status = read_status(directory)
    assert status is not None
    told = " ".join("\n".join(status_lines(status)).split())
    assert "the state is built anew: the key groups were 2 and are 3 state of generation 2" in told
    project.run(batch_bytes=SMALL_BATCH_BYTES, key_groups=None, cores=1)  # those it has stay
    assert given(project) == whole
    second, third = read_runs(directory.journal)[1:]
    assert second.start.changes == ("the key groups were 2 and are 3",)
    assert (second.start.resumed, second.start.mode) == (False, "last-stopped")
    assert third.start.resumed
    (change,) = third.start.changes
    assert change.startswith("the tasks had 2 cores and have 1; the job keeps its 3 key groups")


def test_a_source_that_no_longer_holds_the_range_stops_the_start_before_any_output(
    spark: SparkSession, tmp_path: Path
) -> None:
    project = make(tmp_path, spark)
    project.run(stop_when(lambda metrics: metrics.batches > 3), batch_bytes=SMALL_BATCH_BYTES)
    first, files = given(project), project.files()
    (tmp_path / "events" / "1" / "0.json").unlink()
    options: dict[str, Any] = {"start_mode": StartMode.LAST_STOPPED}
    with pytest.raises(
        InputError, match=r"RANGE_NOT_RETAINED(?s:.*)'events', partition 1(?s:.*)0.json is gone"
    ):
        project.run(**options)
    assert project.files() == files
    project.run(**options, accept_partial=True)
    assert all(given(project)[name] >= first[name] for name in OUTPUTS)
    assert given(project) != first


def test_two_instances_of_a_job_in_two_places_give_the_same_rows(
    whole: dict[str, Counter[str]], spark: SparkSession, tmp_path: Path
) -> None:
    """One is stopped and goes on in other pieces, the other reads a copy of the input."""
    one, two = make(tmp_path / "one", spark), make(tmp_path / "two", spark)
    one.run(stop_when(lambda metrics: metrics.batches > 1), batch_bytes=SMALL_BATCH_BYTES)
    one.run(start_mode=StartMode.LAST_STOPPED, key_groups=1)
    shutil.copytree(one.folder / "events", tmp_path / "copy")
    two.run(inputs={"events": tmp_path / "copy"}, key_groups=3, batch_bytes=SMALL_BATCH_BYTES * 3)
    assert given(one) == given(two) == whole


def test_the_experiment_reads_what_a_restart_reads_and_leaves_nothing_behind(
    spark: SparkSession, tmp_path: Path
) -> None:
    project = make(tmp_path / "job", spark)
    loaded = load_project(project.folder)
    job = plan_job(loaded, RunOptions(once=True))
    streams = [each for spec in job.inputs.values() for each in measured(spec)]
    newest_ticks = max(each.newest_ticks or 0 for each in streams)
    before = sorted(project.folder.rglob("*"))
    took = experiment(loaded, RunOptions(once=True, key_groups=2), newest_ticks, spark)
    assert sorted(project.folder.rglob("*")) == before
    again = project.run(start_mode=StartMode.TIME, start_at_ticks=newest_ticks)
    assert took.events == again.events
    assert took.seconds > 0
    assert took.peak_bytes > 100 * 2**20, "Java alone takes more"
    found = estimate(streams, read_backs(job.compiled.plan, job.compiled.topology), took.pace, {})
    assert found.events == pytest.approx(took.events, rel=0.01)
    assert found.seconds == pytest.approx(took.seconds, rel=0.05)
