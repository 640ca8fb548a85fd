"""Two drivers and one job directory in a real object store, which is started for the tests."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from support.stores import azurite, s3_server
from tideglass.core.errors import StateError
from tideglass.job import lease
from tideglass.job.directory import JobDirectory
from tideglass.job.lock import RunLock, running

#: Seconds instead of tens of seconds: what a lease is, but not for how long.
SHORT = """
from tideglass.job import lease
lease.LEASE_SECONDS, lease.RENEW_SECONDS, lease.MARGIN_SECONDS = 4.0, 0.5, 1.0
"""
HOLDS = f"""
import sys, time
{SHORT}
from tideglass.job.directory import JobDirectory
from tideglass.job.lock import RunLock
with RunLock(JobDirectory.at(sys.argv[1])) as lock:
    print("held", flush=True)
    for line in sys.stdin:
        lock.check()
        print("mine", flush=True)
"""

pytestmark = pytest.mark.long


@pytest.fixture(scope="module", params=["azure", "s3"])
def container(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The URI of a store, into which this process and those it starts get."""
    with (
        azurite(tmp_path_factory.mktemp("store")) if request.param == "azure" else s3_server() as store,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in store.environment.items():
            patch.setenv(name, value)
        yield store.root


@pytest.fixture
def root(container: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, seconds in (("LEASE_SECONDS", 4.0), ("RENEW_SECONDS", 0.5), ("MARGIN_SECONDS", 1.0)):
        monkeypatch.setattr(lease, name, seconds)
    return f"{container}/{request.node.originalname}"


@contextmanager
def holding(root: str) -> Generator[subprocess.Popen[str]]:
    """Another process that holds the lease."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, root],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n", process.communicate()[1]
            yield process
        finally:
            process.kill()


def test_the_second_is_told_of_the_first_and_goes_on_once_that_is_killed(root: str) -> None:
    directory = JobDirectory.at(root)
    with holding(root) as other:
        with pytest.raises(StateError, match=rf"under way in .*: process {other.pid} on .*, since 20"):
            RunLock(directory).__enter__()
        found = running(directory)
        assert found is not None
        assert found.pid == other.pid
        other.kill()
        other.wait()
        with RunLock(directory) as lock:
            lock.check()
            assert re.search(rb'"pid":\s*\d+', directory.lock.read_bytes())
    assert running(directory) is None


def test_a_driver_that_stood_still_finds_its_place_taken(root: str) -> None:
    with holding(root) as other:
        assert other.stdin is not None
        other.send_signal(signal.SIGSTOP)
        with RunLock(JobDirectory.at(root)) as lock:
            other.send_signal(signal.SIGCONT)
            _, errors = other.communicate("commit\n")
            assert "[LEASE_LOST] this run no longer holds its job directory" in errors
            lock.check()
