"""Executors, machines and drivers are killed, and a project on a cluster gives the rows it owes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from support.cluster import COMMAND, Cluster, driver_environment
from support.cluster_recipes import of_driver
from support.job_in_process import RunInProcess
from support.project_on_disk import OnDisk, disordered
from tideglass.job.directory import JobDirectory
from tideglass.job.report.run_journal import Ended, read_runs

#: A batch has a megabyte, which is a file of each of two partitions.
FILES = 7
EVENTS_OF_A_FILE = 250
FILLING = "x" * 2_000
BATCH = re.compile(r"batch (\d+): ")


def project_in(folder: Path) -> OnDisk:
    project = OnDisk(folder, cast("Any", None)).make()
    for partition in range(2):
        rows = [row | {"filling": FILLING} for row in disordered(partition, FILES * EVENTS_OF_A_FILE)]
        for number in range(FILES):
            own = rows[number * EVENTS_OF_A_FILE : (number + 1) * EVENTS_OF_A_FILE]
            project.put(f"{partition}/{number:02d}.json", own)
    return project


def undisturbed(folder: Path) -> Mapping[str, list[str]]:
    """The rows of a run in this process."""
    project = project_in(folder)
    with RunInProcess(project.job()) as run:
        run.batches()
    rows = project.all_rows()
    assert all(rows.values())
    return rows


class Driver:
    """A driver of the project on the cluster, and what it has printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.printed: list[str] = []
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in cast("Iterator[str]", self.process.stdout):
            with self._more:
                self.printed.append(line)
                self._more.notify_all()
        with self._more:
            self._more.notify_all()

    def waits_for_batches(self, count: int) -> None:
        """Until so many batches more than now are done."""

        def done() -> int:
            return sum(BATCH.match(line) is not None for line in self.printed)

        with self._more:
            before = done()
            self._more.wait_for(lambda: done() >= before + count or not self._reader.is_alive(), timeout=240)
            assert done() >= before + count, "".join(self.printed)

    def ends(self) -> str:
        code = self.process.wait(timeout=240)
        self._reader.join(timeout=30)
        text = "".join(self.printed)
        assert code == 0, text
        return text

    def is_killed(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def driver(project: OnDisk, cluster: Cluster) -> Generator[Driver]:
    words = ["--once", "--batch-mb", "1", "--master", cluster.master, "--conf", "spark.cores.max=2"]
    with subprocess.Popen(
        [*COMMAND, "run", str(project.folder), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env=driver_environment(of_driver()),
    ) as process:
        found = Driver(process)
        try:
            yield found
        finally:
            if process.poll() is None:
                found.is_killed()


@pytest.mark.timeout(1200)
def test_an_executor_a_machine_and_the_driver_are_killed_and_the_rows_are_those_of_an_undisturbed_run(
    cluster: Cluster, tmp_path: Path
) -> None:
    project = project_in(tmp_path / "disturbed")
    with driver(project, cluster) as first:
        first.waits_for_batches(1)
        cluster.kill_executor(1)
        first.waits_for_batches(1)
        cluster.kill_machine(0)
        cluster.start_worker(0)
        first.waits_for_batches(1)
        first.is_killed()
    with driver(project, cluster) as second:
        printed = second.ends()
    assert "resumed from the checkpoint" in printed
    runs = read_runs(JobDirectory.of_project(project.folder).journal)
    assert [run.end and run.end.how for run in runs] == [Ended.KILLED, Ended.FINISHED]
    assert [run.start.layout and run.start.layout.words for run in runs] == [
        "2 key groups on 2 cores of 2 executors"
    ] * 2
    assert project.all_rows() == undisturbed(tmp_path / "undisturbed")
