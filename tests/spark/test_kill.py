"""A run over a million events is killed, as a whole or a worker of it, and gives the rows it owes."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

#: A run takes half a minute where nothing else runs, and there are six of them.
pytestmark = pytest.mark.timeout(1800)

GENERATOR = Path(__file__).parents[2] / "examples" / "tollbooth" / "generate.py"
EVENTS = 1_000_000
#: Of the 145 MB they make: nine batches.
BATCH_MB = 16

QUERY = """
WITH tolls AS (
    SELECT device, tolls, amount
    FROM toll TIMESTAMP BY DATEADD(millisecond, event_time, '1970-01-01T00:00:00Z')
)
SELECT device, COUNT(*) AS n, SUM(tolls) AS tolls, AVG(amount) AS amount, System.Timestamp() AS at
INTO minutes FROM tolls GROUP BY device, TumblingWindow(minute, 1)

SELECT seq, plate, System.Timestamp() AS at
INTO dear FROM toll TIMESTAMP BY DATEADD(millisecond, event_time, '1970-01-01T00:00:00Z')
WHERE amount > 20
"""


@pytest.fixture(scope="module")
def toll(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a million toll events."""
    folder = tmp_path_factory.mktemp("toll")
    subprocess.run([sys.executable, GENERATOR, "--events", str(EVENTS), "--out", folder], check=True)
    return folder / "toll"


@dataclass(frozen=True)
class TollProject:
    """A project in `folder` that reads the toll events, run by the command in a process of its own."""

    folder: Path

    def make(self, toll: Path) -> TollProject:
        files: dict[str, dict[str, object]] = {
            "asaproj.json": {
                "name": "toll",
                "startFile": "toll.asaql",
                "configurations": [
                    {"filePath": "JobConfig.json", "subType": "JobConfig"},
                    {"filePath": "toll.json", "subType": "InputMock"},
                ],
            },
            "JobConfig.json": {
                "EventsLateArrivalMaxDelayInSeconds": 120,
                "EventsOutOfOrderMaxDelayInSeconds": 60,
                "EventsOutOfOrderPolicy": "Adjust",
                "CompatibilityLevel": "1.2",
            },
            "toll.json": {
                "InputAlias": "toll",
                "Type": "Data Stream",
                "Format": "Json",
                "FilePath": str(toll),
                "Partitions": "folders",
                "ArrivalTimeField": "arrival_time",
                "ArrivalTimeFormat": "epoch_milliseconds",
                "ScriptType": "InputMock",
            },
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (self.folder / name).write_text(json.dumps(content))
        (self.folder / "toll.asaql").write_text(QUERY)
        return self

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[str]]:
        """The run as a process, the head of a group of its own; nothing of it is left behind."""
        command = [
            sys.executable,
            "-m",
            "tideglass.cli.main",
            "run",
            "--allow-outside",
            str(self.folder),
            "--once",
            "--cores",
            "2",
        ]
        process = subprocess.Popen(
            [*command, "--batch-mb", str(BATCH_MB)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def finish(self, process: subprocess.Popen[str]) -> str:
        """Let the run come to its end, which must be a good one; what it printed."""
        printed, _ = process.communicate(timeout=400)
        assert process.returncode == 0, printed
        return printed

    def rows(self) -> dict[str, list[bytes]]:
        """Every row of every output as it stands in the files."""
        return {
            name: sorted(
                line
                for file in (self.folder / "LocalRunOutputs" / name).glob("part-*")
                for line in file.read_bytes().splitlines()
            )
            for name in ("minutes", "dear")
        }


def wait_for_batch(process: subprocess.Popen[str], number: int) -> float:
    """Wait until the run says that a batch is done; about how long a batch takes, in seconds."""
    assert process.stdout is not None
    done_at: list[float] = []
    printed: list[str] = []
    for line in process.stdout:
        printed.append(line)
        done = re.match(r"batch (\d+):", line)
        if done:
            done_at.append(time.monotonic())
            if int(done[1]) >= number:
                return done_at[-1] - done_at[-2] if len(done_at) > 1 else 1.0
    raise AssertionError(f"the run ended before batch {number}:\n{''.join(printed)}")


@pytest.fixture(scope="module")
def undisturbed(java: None, toll: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[bytes]]:
    """What a run gives that nobody disturbs."""
    project = TollProject(tmp_path_factory.mktemp("undisturbed")).make(toll)
    with project.running() as process:
        printed = project.finish(process)
    assert f"{EVENTS:,} events" in printed
    rows = project.rows()
    assert all(len(each) > 10_000 for each in rows.values())
    return rows


def processes_below(pid: int) -> list[tuple[int, int, str]]:
    """Descendants of a process: their number, their parent's, and their name."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,comm="], capture_output=True, text=True, check=True)
    split = [line.split(None, 2) for line in listed.stdout.splitlines()]
    everyone = [(int(each[0]), int(each[1]), each[2] if len(each) > 2 else "") for each in split]
    below: list[tuple[int, int, str]] = []
    parents = {pid}
    while parents:
        found = [each for each in everyone if each[1] in parents]
        below += found
        parents = {each[0] for each in found}
    return below


def workers_of(pid: int) -> list[int]:
    """The Python workers of a run: what the process that starts them has forked, and named like it."""
    below = processes_below(pid)
    named = {number for number, _, name in below if name == "worker"}
    return [number for number, parent, _ in below if number in named and parent in named]


@pytest.mark.versions
def test_a_run_whose_driver_is_killed_gives_the_rows_of_an_undisturbed_one(
    undisturbed: dict[str, list[bytes]], toll: Path, tmp_path: Path
) -> None:
    project = TollProject(tmp_path).make(toll)
    for after_batch, whole_group in ((0, True), (3, False), (6, True)):
        with project.running() as process:
            batch_seconds = wait_for_batch(process, after_batch)
            time.sleep(random.random() * batch_seconds)
            assert process.poll() is None, "the run was over before it could be killed"
            if whole_group:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
            process.wait()
    with project.running() as process:
        printed = project.finish(process)
    assert f"{EVENTS:,} events" in printed
    assert project.rows() == undisturbed


@pytest.mark.versions
def test_a_run_whose_workers_are_killed_goes_on_and_gives_the_same_rows(
    undisturbed: dict[str, list[bytes]], toll: Path, tmp_path: Path
) -> None:
    project = TollProject(tmp_path).make(toll)
    killed: list[int] = []
    with project.running() as process:
        for after_batch in (0, 3, 5):
            batch_seconds = wait_for_batch(process, after_batch)
            time.sleep(random.random() * batch_seconds)
            workers = workers_of(process.pid)
            for worker in workers if after_batch == 5 else workers[:1]:
                os.kill(worker, signal.SIGKILL)
                killed.append(worker)
        project.finish(process)
    assert len(killed) >= 3
    assert project.rows() == undisturbed
