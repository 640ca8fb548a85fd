"""A Spark cluster on this machine, from the pyspark that is installed: a master, and workers as if each were
a machine of its own, with its own folder and, where asked, its own Python."""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pyspark

from tideglass.spark.session.java import use_java

HOST = "127.0.0.1"
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
EXECUTOR = "CoarseGrainedExecutorBackend"
SPARK_HOME = Path(pyspark.__file__).parent
#: A daemon of Spark is up within seconds; on a machine that does much else, within this.
_MOST_SECONDS = 90.0
_LOOK_SECONDS = 0.05
_DIES_WITH_ITS_PARENT = 1  # PR_SET_PDEATHSIG of Linux's prctl
#: Variables that would have a daemon use the Python or the settings of the process that starts it.
_NOT_INHERITED = ("PYSPARK_", "PYTHONPATH", "SPARK_", "VIRTUAL_ENV")


@dataclass(frozen=True)
class Machine:
    """What one worker is like.

    python: the interpreter that `python3` is there.
    python_path: folders with modules for it, besides its own packages.
    cores: how many tasks run there at once.
    memory: what executors may have there, as Spark spells it.
    environment: more variables of its processes.
    programs: other interpreters there, by name, each as the words of a command.
    """

    python: Path = Path(sys.executable)
    python_path: Sequence[Path] = ()
    cores: int = 1
    memory: str = "1500m"
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    programs: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass
class Cluster:
    """A running cluster.

    master: its URL.
    machines: of the workers, by number.
    folder: where the logs and the folders of its workers are.
    processes: the workers that are there, by number.
    """

    master: str
    machines: Sequence[Machine]
    folder: Path
    processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict[int, subprocess.Popen[bytes]])
    _started: int = 0

    def start_worker(self, number: int) -> None:
        """Start the worker of a machine, anew if it was there before; returns once the master knows it."""
        assert number not in self.processes, f"worker {number} is there"
        self._started += 1
        machine, own = self.machines[number], self.folder / f"worker-{number}"
        environment = {
            "PATH": f"{own / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "SPARK_LOCAL_DIRS": str(own / "local"),
            "PYTHONPATH": os.pathsep.join(map(str, machine.python_path)),
            **machine.environment,
        }
        python = shlex.quote(str(machine.python))
        _write_programs(own / "bin", {"python": python, "python3": python, **machine.programs})
        log = self.folder / f"worker-{number}-{self._started}.log"
        words = [WORKER, "--host", HOST, "--port", "0", "--webui-port", "0", "--work-dir", str(own / "work")]
        words += ["--cores", str(machine.cores), "--memory", machine.memory, self.master]
        self.processes[number] = _daemon(words, log, environment)
        _wait_for("Successfully registered with master", log, self.processes[number])

    def executors(self, number: int) -> list[psutil.Process]:
        """The processes of executors on a machine."""
        found: list[psutil.Process] = []
        for each in _below(self.processes[number].pid):
            with suppress(psutil.Error):
                if EXECUTOR in " ".join(each.cmdline()):
                    found.append(each)
        return found

    def wait_for_executors(self, number: int, at_least: int = 1, most_seconds: float = 60.0) -> None:
        """Wait until so many executors run on a machine. Raises TimeoutError."""
        ends = time.monotonic() + most_seconds
        while len(self.executors(number)) < at_least:
            if time.monotonic() > ends:
                raise TimeoutError(f"worker {number} has no {at_least} executors after {most_seconds} s")
            time.sleep(_LOOK_SECONDS)

    def kill_executor(self, number: int) -> None:
        """`kill -9` of an executor and its Python workers. Raises LookupError where there is none."""
        found = self.executors(number)
        if not found:
            raise LookupError(f"worker {number} has no executor")
        _kill([found[0], *_below(found[0].pid)])

    def kill_machine(self, number: int) -> None:
        """`kill -9` of a worker and all that it has started, as if its machine had gone."""
        worker = self.processes.pop(number)
        _kill([psutil.Process(worker.pid), *_below(worker.pid)])
        worker.wait()

    def logs(self) -> str:
        """What the daemons and executors have printed, for people."""
        files = [*self.folder.glob("*.log"), *self.folder.glob("worker-*/work/*/*/std*")]
        return "\n".join(f"--- {each}\n{each.read_text(errors='replace')}" for each in sorted(files))


@contextmanager
def running_cluster(folder: Path, machines: Sequence[Machine] = (Machine(), Machine())) -> Generator[Cluster]:
    """A cluster as long as this lasts; its processes end with this one at the latest, even after `kill -9`.

    folder: where its logs and the folders of its workers go.
    Raises RuntimeError when a daemon of Spark does not start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    use_java()
    log = folder / "master.log"
    with ExitStack() as ending:
        words = [MASTER, "--host", HOST, "--port", "0", "--webui-port", "0"]
        master = _daemon(words, log, {})
        ending.callback(_end, master)
        url = _wait_for(r"Starting Spark master at (spark://\S+)", log, master)
        _wait_for("I have been elected leader", log, master)
        cluster = Cluster(url, tuple(machines), folder)
        ending.callback(lambda: [_end(each) for each in cluster.processes.values()])
        for number in range(len(machines)):
            cluster.start_worker(number)
        yield cluster


def _daemon(words: Sequence[str], log: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)}
    ours = {
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_DAEMON_MEMORY": "256m",
        # They do little, and the machine has other work.
        "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    }
    with log.open("ab") as printed:
        return subprocess.Popen(
            [str(SPARK_HOME / "bin" / "spark-class"), *words],
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            env={**inherited, **ours, **environment},
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIES_WITH_ITS_PARENT, signal.SIGKILL)


def _wait_for(pattern: str, log: Path, process: subprocess.Popen[bytes]) -> str:
    """Wait until a daemon has printed the pattern; its first group, or all of it."""
    ends = time.monotonic() + _MOST_SECONDS
    while True:
        ended = process.poll() is not None
        found = re.search(pattern, log.read_text(errors="replace"))
        if found is not None:
            return found[found.re.groups]
        if ended or time.monotonic() > ends:
            raise RuntimeError(f"{pattern!r} is not in {log}:\n{log.read_text(errors='replace')}")
        time.sleep(_LOOK_SECONDS)


def _write_programs(folder: Path, programs: Mapping[str, str]) -> None:
    """Have each name be a program in the folder: an interpreter with the packages it has where it is."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, words in programs.items():
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        program.chmod(0o755)


def _below(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _kill(processes: Sequence[psutil.Process]) -> None:
    for each in processes:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    psutil.wait_procs(processes, timeout=30)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a daemon and all it has started."""
    below = _below(process.pid)
    if process.poll() is None:
        process.kill()
    _kill(below)
    process.wait()
