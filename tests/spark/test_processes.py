"""Which processes Spark keeps for a run: workers that serve scans and stages alike, none that only plan."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from support.project_on_disk import OnDisk, disordered
from tideglass.job.outputs import BatchRows
from tideglass.job.report.metrics import Metrics
from tideglass.job.runner import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLANNING = "pyspark.sql.worker."
TASKS = "tideglass.spark.session.worker_daemon"


def commands() -> list[str]:
    """The command lines of the Python processes that Java has started."""
    (java,) = (each for each in psutil.Process().children() if "pyspark-shell" in each.cmdline())
    found: list[str] = []
    for process in java.children():
        with suppress(psutil.NoSuchProcess):  # it has just ended
            found.append(" ".join(process.cmdline()))
    return found


def of_kind(kind: str) -> list[str]:
    return [command for command in commands() if kind in command]


def test_a_session_of_its_own_keeps_workers_of_one_kind_and_no_planners(
    spark: SparkSession, tmp_path: Path
) -> None:
    project = OnDisk(tmp_path, spark)
    project.make()
    project.put("0/a.json", disordered(0, 100))
    run(project.job(), spark=spark)
    assert of_kind(PLANNING)
    planning: list[str] = []

    def watch(batch_id: int, given: BatchRows, metrics: Metrics) -> None:
        planning.extend(of_kind(PLANNING))

    metrics = run(project.job(fresh=True), watch)
    assert metrics.events == 100
    assert planning == []
    assert len(of_kind(TASKS)) == 1


def test_planners_that_have_ended_are_started_again(spark: SparkSession, tmp_path: Path) -> None:
    project = OnDisk(tmp_path, spark)
    project.make()
    project.put("0/a.json", disordered(0, 100))
    run(project.job())
    rows = project.all_rows()
    run(project.job(fresh=True))
    assert any(rows.values())
    assert project.all_rows() == rows
