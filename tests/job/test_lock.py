"""One run at a time in a job directory; a lock left behind by a crash holds nobody up."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tideglass.core.errors import StateError
from tideglass.job.directory import JobDirectory
from tideglass.job.lock import STALE_SECONDS, RunLock, running

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
    return JobDirectory(tmp_path / "job")


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
    directory.path.mkdir(parents=True)
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
