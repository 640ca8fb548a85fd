"""What a diagnosis finds in the directory of a run on Spark: under way, failed, finished."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.project_on_disk import OnDisk
from tideglass.core.errors import OutputError
from tideglass.job.diagnosis import watermark_causes
from tideglass.job.diagnosis.diagnose import diagnose_directory
from tideglass.job.diagnosis.finding import Diagnosis, Severity
from tideglass.job.directory import JobDirectory
from tideglass.job.runner import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY = """
SELECT device, COUNT(*) AS n INTO counts
FROM events TIMESTAMP BY t GROUP BY device, TumblingWindow(second, 10)

SELECT device, v INTO high FROM events TIMESTAMP BY t WHERE v > 900

SELECT device, COUNT(*) AS n INTO weekly FROM events TIMESTAMP BY t GROUP BY device, TumblingWindow(day, 7)
"""


def events(seconds: range) -> list[dict[str, Any]]:
    """An event a second, so many seconds from now."""
    now = datetime.now(UTC)
    times = [(now + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S.%fZ") for second in seconds]
    return [{"device": "a", "v": 1, "t": at, "arrived": at} for at in times]


@contextmanager
def under_way(project: OnDisk) -> Generator[JobDirectory]:
    """The job as long as this lasts."""
    directory, job = JobDirectory.of_project(project.folder), project.job(once=False, idle_seconds=0.5)
    thread = threading.Thread(target=run, args=(job, None, project.spark))
    thread.start()
    try:
        yield directory
    finally:
        directory.stop.create(b"")
        thread.join()


def awaited(directory: JobDirectory, seconds: float, found: Callable[[Diagnosis], bool]) -> Diagnosis:
    """The first diagnosis for which that holds."""
    until = time.monotonic() + seconds
    while not found(diagnosis := diagnose_directory(directory)):
        assert time.monotonic() < until, diagnosis
        time.sleep(0.5)
    return diagnosis


def has(cause: str, output: str | None = None) -> Callable[[Diagnosis], bool]:
    return lambda found: any((each.cause, each.output) == (cause, output) for each in found.findings)


def test_a_run_under_way_and_its_end_are_diagnosed(spark: SparkSession, tmp_path: Path) -> None:
    project = OnDisk(tmp_path, spark).make(QUERY, late_seconds=5)
    project.put("0/a.json", events(range(-60, 0)))
    with under_way(project) as directory:
        where = awaited(directory, 90, has("WHERE_MATCHES_NOTHING", "high"))
        weekly = awaited(directory, 20, has("NOT_DUE", "weekly"))
    (lost,) = [each for each in where.findings if each.cause == "WHERE_MATCHES_NOTHING"]
    assert "none of the 60 rows that reach WHERE of high" in lost.text
    (waits,) = [each for each in weekly.findings if each.cause == "NOT_DUE"]
    assert waits.severity is Severity.WAITING
    assert "tumbling window" in waits.text
    assert {each.output for each in weekly.next_rows} == {"counts", "high", "weekly"}
    over = diagnose_directory(directory)
    assert has("RUN_STOPPED")(over)
    assert not over.healthy


def test_an_idle_partition_is_found_by_its_watermark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watermark_causes, "IDLE_SECONDS", 2.0)  # for a minute would be long for a test
    query = QUERY.split("\n\n")[0]
    project = OnDisk(tmp_path, spark).make(query, late_seconds=-1, out_of_order_seconds=0)
    project.put("0/a.json", events(range(-60, 0)))
    project.put("1/a.json", events(range(-600, -500)))
    with under_way(project) as directory:
        awaited(directory, 60, lambda found: found.state == "Running" and bool(found.next_rows))
        time.sleep(3)
        project.put("0/b.json", events(range(-1, 1)))
        found = awaited(directory, 20, has("IDLE_PARTITION", "counts"))
    (idle,) = [each for each in found.findings if each.cause == "IDLE_PARTITION"]
    assert "because partition 1 of input events has sent nothing since" in idle.text
    assert "late arrival is unlimited" in idle.text
    assert any("counts (tumbling window)" in line for line in idle.evidence)


def test_a_sink_that_fails_is_found_after_the_run(spark: SparkSession, tmp_path: Path) -> None:
    project = OnDisk(tmp_path, spark).make(QUERY, late_seconds=5)
    project.put("0/a.json", events(range(-60, 0)))
    (tmp_path / "LocalRunOutputs").write_text("a file where the folder was")
    with pytest.raises(OutputError):
        project.run()
    finding = diagnose_directory(JobDirectory.of_project(tmp_path)).findings[0]
    assert (finding.cause, finding.severity) == ("SINK_FAILS", Severity.PROBLEM)


def test_a_finished_run_is_healthy(spark: SparkSession, tmp_path: Path) -> None:
    project = OnDisk(tmp_path, spark).make(QUERY.replace("900", "0"), late_seconds=5)
    project.put("0/a.json", events(range(-60, 0)))
    project.run()
    found = diagnose_directory(JobDirectory.of_project(tmp_path))
    assert (found.findings, found.healthy) == ((), True)
