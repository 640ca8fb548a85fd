"""A job is started, looked at, stopped, changed and started again, by commands in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from support.project_on_disk import QUERY, OnDisk, disordered
from tideglass.job.directory import JobDirectory
from tideglass.job.report.run_journal import Ended, read_runs
from tideglass.job.report.status import JobState, read_status

SETTINGS = {"late_seconds": 5, "out_of_order_seconds": 2}


def command(*arguments: object, ends: int = 0) -> str:
    """Run the command in a process of its own; what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "tideglass.cli.main", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == ends, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def project(java: None, tmp_path: Path) -> OnDisk:
    made = OnDisk(tmp_path / "job", None).make(**SETTINGS)  # type: ignore[arg-type]
    for partition in range(2):
        rows = disordered(partition, 200)
        made.put(f"{partition}/a.json", rows[:120])
    return made


def rows_of(project: OnDisk) -> dict[str, list[dict[str, Any]]]:
    return {name: [json.loads(row) for row in rows] for name, rows in project.all_rows().items()}


def test_a_job_lives_through_start_stop_change_kill_and_restart(project: OnDisk) -> None:
    directory = JobDirectory.of_project(project.folder)
    try:
        told = command("start", project.folder, "--cores", 1)
        assert "job: Running, run 1" in told
        assert "first start\n" in told
        begun = read_status(directory)
        assert begun is not None
        assert begun.batches > 0

        refused = command("run", project.folder, ends=1)
        status = read_status(directory)
        assert status is not None
        assert f"a run is under way in {directory.path}: process {status.pid} on" in refused
        assert "the job runs already" in command("start", project.folder, ends=1)

        stopped = command("stop", project.folder)
        assert "run 1 stopped" in stopped
        assert "is to stop" not in stopped
        assert "Stopped, run 1 ended" in command("status", project.folder)

        # What stands behind all state changes: the state is kept.
        changed = QUERY.replace(
            "TumblingWindow(second, 10)", "TumblingWindow(second, 10) HAVING COUNT(*) > 0"
        )
        assert changed != QUERY
        (project.folder / "job.asaql").write_text(changed)
        for partition in range(2):
            project.put(f"{partition}/b.json", disordered(partition, 200)[120:])
        assert "job: Running, run 2" in command("restart", project.folder)
        status = read_status(directory)
        assert status is not None
        os.kill(status.pid, 9)
        killed = wait_until_gone(directory)
        assert killed.state is JobState.FAILED
        assert killed.error is not None
        assert "ended without a word" in killed.error

        finished = command("run", project.folder, "--once", "--cores", 1)
        assert "400 events" in finished
    finally:
        command("stop", project.folder, "--now")
    runs = read_runs(directory.journal)
    assert [run.end.how if run.end else None for run in runs] == [Ended.STOPPED, Ended.KILLED, Ended.FINISHED]
    assert runs[1].start.changes == ("the statement that writes to 'counts' is another",)
    assert [run.start.resumed for run in runs] == [False, True, True]
    assert sum(row["n"] for row in rows_of(project)["counts"]) == 400
    assert "run 2: killed" in command("runs", project.folder)


def wait_until_gone(directory: JobDirectory) -> Any:
    """The status once the process that was killed holds the lock no more."""
    for _ in range(100):
        status = read_status(directory)
        if status is not None and status.state is JobState.FAILED:
            return status
        time.sleep(0.1)
    raise AssertionError("the lock of a killed process is still held")
