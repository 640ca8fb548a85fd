"""Processes that the fork server makes are what a Python interpreter would have been."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.long

MODULES = {
    "tells": """
        import json, os, sys, pyspark, tideglass
        told = {"arguments": sys.argv[1:], "said": sys.stdin.read(), "folder": os.getcwd()}
        told |= {"variable": os.environ.get("OF_THE_CALL"), "parent": os.getppid(), "name": __name__}
        print(json.dumps(told))
        print("to the side", file=sys.stderr)
        sys.exit(3)
    """,
    "waits": """
        import os, time
        print(os.getpid(), flush=True)
        time.sleep(600)
    """,
    "fails": "raise ValueError('on purpose')",
}
#: As a job does: a fork server is started, and the job goes on.
JOB = """
import sys, time
from tideglass.spark.session.fork_server import start_fork_server
print(start_fork_server(), flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the modules are; the fork server finds them as its job does."""
    made = tmp_path_factory.mktemp("modules")
    for name, text in MODULES.items():
        lines = text.strip("\n").splitlines()
        (made / f"{name}.py").write_text("\n".join(line.removeprefix("        ") for line in lines))
    return made


@contextmanager
def running_job(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A job with a fork server, and the program that the server made."""
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.Popen(
        [sys.executable, "-c", JOB],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def program(folder: Path) -> Iterator[str]:
    with running_job(folder) as (_, made):
        yield made


def until(is_so: Callable[[], bool]) -> None:
    for _ in range(200):
        if is_so():
            return
        time.sleep(0.05)
    raise AssertionError("it never was")


def waiting(program: str) -> tuple[subprocess.Popen[str], int]:
    """A launcher, and the process it stands for."""
    launcher = subprocess.Popen([program, "-m", "waits"], stdout=subprocess.PIPE, text=True)
    assert launcher.stdout is not None
    return launcher, int(launcher.stdout.readline())


def test_a_process_has_the_files_arguments_and_environment_of_the_call(program: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [program, "-m", "tells", "one", "two words"],
        input="what is said",
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "OF_THE_CALL": "set"},
    )
    told = json.loads(done.stdout)
    assert done.returncode == 3
    assert done.stderr == "to the side\n"
    assert told.pop("parent") != os.getpid()
    assert told == {
        "arguments": ["one", "two words"],
        "said": "what is said",
        "folder": str(tmp_path),
        "variable": "set",
        "name": "__main__",
    }


def test_nothing_is_left_of_a_call_for_the_next(program: str) -> None:
    for _ in range(2):
        done = subprocess.run([program, "-m", "tells"], input="", capture_output=True, text=True)
        assert json.loads(done.stdout)["variable"] is None


def test_an_error_is_told_as_the_interpreter_tells_it(program: str) -> None:
    done = subprocess.run([program, "-m", "fails"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.endswith("ValueError: on purpose\n")


def test_what_is_no_module_is_for_the_interpreter(program: str) -> None:
    done = subprocess.run([program, "-c", "import pyarrow; print('ran')"], capture_output=True, text=True)
    assert done.stdout == "ran\n"


def test_a_signal_reaches_the_process(program: str) -> None:
    launcher, pid = waiting(program)
    launcher.send_signal(signal.SIGTERM)
    assert launcher.wait(10) == 128 + signal.SIGTERM
    until(lambda: not psutil.pid_exists(pid))


def test_a_process_whose_launcher_is_killed_is_killed(program: str) -> None:
    launcher, pid = waiting(program)
    launcher.kill()
    launcher.wait()
    until(lambda: not psutil.pid_exists(pid))


def test_a_fork_server_ends_with_its_job_and_calls_are_answered_all_the_same(folder: Path) -> None:
    with running_job(folder) as (job, program):
        (fork_server,) = psutil.Process(job.pid).children()
        job.kill()
        job.wait()
        until(lambda: not fork_server.is_running())
        until(lambda: not Path(program).parent.exists())
    launcher = Path(__file__).parents[2] / "tideglass" / "spark" / "session" / "fork_client.py"
    done = subprocess.run(
        [sys.executable, "-I", "-S", launcher, str(folder / "no socket"), "-m", "tells"],
        input="",
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert (done.returncode, json.loads(done.stdout)["name"]) == (3, "__main__")
    assert "no fork server" in done.stderr
