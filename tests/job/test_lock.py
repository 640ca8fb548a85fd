"""One run at a time in a job directory; a lock left behind by a crash holds nobody up."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any, cast

import pytest

from support.job_in_process import Folder, RunInProcess
from tideglass.core.errors import StateError
from tideglass.job.directory import JobDirectory
from tideglass.job.lease import DirectoryLease
from tideglass.job.lock import STALE_SECONDS, RunLock, running
from tideglass.job.report.run_journal import read_runs
from tideglass.storage import StoragePath, storage_path

HOLDS = """
import sys, time
from pathlib import Path
from tideglass.job.directory import JobDirectory
from tideglass.job.lock import RunLock
with RunLock(JobDirectory(Path(sys.argv[1]))):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def directory(tmp_path: Path) -> JobDirectory:
    return JobDirectory.at(tmp_path / "job")


def holding(directory: JobDirectory) -> subprocess.Popen[str]:
    """Another process that holds the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(directory.path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_the_second_is_refused_and_told_of_the_first(directory: JobDirectory):
    process = holding(directory)
    try:
        with pytest.raises(StateError, match=rf"under way in .*: process {process.pid} on .*, since 20"):
            RunLock(directory).__enter__()
        found = running(directory)
        assert found is not None
        assert found.pid == process.pid
    finally:
        process.kill()
        process.wait()


def test_the_lock_of_a_killed_process_is_free(directory: JobDirectory):
    process = holding(directory)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert running(directory) is None
    assert json.loads(directory.lock.read_text())["pid"] == process.pid
    with RunLock(directory):
        assert json.loads(directory.lock.read_text())["pid"] == os.getpid()


def test_a_lock_given_back_can_be_taken_again(directory: JobDirectory):
    for _ in range(2):
        with RunLock(directory):
            assert running(directory) is not None
            with pytest.raises(StateError, match=re.escape(f"process {os.getpid()} on")):
                RunLock(directory).__enter__()
        assert running(directory) is None


def test_a_holder_on_another_machine_counts_while_it_shows_life(directory: JobDirectory):
    directory.path.mkdir()
    directory.lock.write_text(json.dumps({"pid": 7, "host": "elsewhere", "since_seconds": 0}))
    directory.status.write_text("{}")
    with pytest.raises(StateError, match="process 7 on elsewhere, since 1970-01-01"):
        RunLock(directory).__enter__()
    assert running(directory) is not None
    long_ago = time.time() - STALE_SECONDS - 1
    os.utime(directory.status, (long_ago, long_ago))
    assert running(directory) is None
    with RunLock(directory):
        assert json.loads(directory.lock.read_text())["pid"] == os.getpid()


# ---------------------------------------------------------------- in a store


def in_a_store() -> StoragePath:
    """A folder of a store in this process's memory."""
    return storage_path(f"memory://{uuid.uuid4().hex}/job")


def test_in_a_store_the_lock_is_a_lease(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tideglass.job.lease.RENEW_SECONDS", 0.05)
    directory = JobDirectory(cast("Any", in_a_store()))
    for _ in range(2):
        with RunLock(directory) as lock:
            lock.check()
            found = running(directory)
            assert found is not None
            assert found.pid == os.getpid()
            with pytest.raises(StateError, match=rf"process {os.getpid()} on .*, since 20"):
                RunLock(directory).__enter__()
        assert running(directory) is None


def test_a_run_that_lost_its_lease_commits_nothing_and_leaves_the_journal_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = Folder(tmp_path / "job", "SELECT n INTO o FROM events", arrival=None)
    folder.put(0, [{"n": 1}])
    seconds = [0.0]
    place = in_a_store() / "lock"
    lost, other = (DirectoryLease(place, lambda: seconds[0], waited(seconds), host) for host in "ab")
    lost.take()
    run = RunInProcess(folder.job(once=True))
    with run:
        monkeypatch.setattr(run.lock, "_lease", lost)
        other.take()
        with pytest.raises(StateError, match=r"\[LEASE_LOST\] .* on b, since 20"):
            run.batches()
    (journaled,) = read_runs(folder.directory.journal)
    assert journaled.end is None
    assert json.loads(folder.directory.status.read_bytes())["state"] in ("Starting", "Running")
    assert list((folder.path / "LocalRunOutputs" / "o").glob("part-*")) == []


def waited(seconds: list[float]) -> Any:
    def sleep(length: float) -> None:
        seconds[0] += length

    return sleep


def test_a_lock_that_cannot_be_written_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    directory = JobDirectory(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"), RunLock(directory):
            pass
    with RunLock(directory):
        assert running(directory) is not None
