"""Commands as a user starts them: a project on disk, and a process whose start counts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from data import HERE
from measure import LEAST_PAUSE_SECONDS, LOOKING, RunFailed, Watch
from output import Output

QUERIES = HERE / "toll"


def environment() -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(HERE), str(HERE.parent))),
        "PYTHONUNBUFFERED": "1",
    }


@dataclass(frozen=True, slots=True)
class Project:
    """A project with one of the toll queries, its tolerances those of the benchmark, two minutes.

    data: a folder a stream, in it a folder a booth.
    """

    folder: Path
    query: str
    data: Path

    @property
    def rows(self) -> Path:
        return self.folder / "LocalRunOutputs" / "result"

    def clean(self) -> None:
        """Make it anew, without runs and rows."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        written: dict[str, Mapping[str, Any]] = {
            "asaproj.json": {
                "name": self.query,
                "startFile": "query.asaql",
                "configurations": [
                    {"filePath": "JobConfig.json", "subType": "JobConfig"},
                    {"filePath": "toll.json", "subType": "InputMock"},
                ],
            },
            "JobConfig.json": {
                "EventsLateArrivalMaxDelayInSeconds": 120,
                "EventsOutOfOrderMaxDelayInSeconds": 120,
                "EventsOutOfOrderPolicy": "Adjust",
                "CompatibilityLevel": "1.2",
            },
            "toll.json": {
                "InputAlias": "toll",
                "Type": "Data Stream",
                "Format": "Json",
                "FilePath": str(self.data / "toll"),
                "Partitions": "folders",
                "ArrivalTimeField": "arrival_time",
                "ArrivalTimeFormat": "epoch_milliseconds",
                "ScriptType": "InputMock",
            },
        }
        for name, content in written.items():
            (self.folder / name).write_text(json.dumps(content))
        shutil.copy(QUERIES / f"{self.query}.asaql", self.folder / "query.asaql")

    def command(self, name: str, cores: int, *more: str) -> list[str]:
        """A command of tideglass on it."""
        tideglass = [sys.executable, "-m", "tideglass.cli.main"]
        own_data = "--allow-outside"  # the data lies beside the project
        return [*tideglass, name, str(self.folder), own_data, "--cores", str(cores), *more]


@dataclass
class Started:
    """A command under way, in processes of its own.

    started: when it was, on the clock of time.monotonic, as all times here.
    """

    command: Sequence[str]
    limit_seconds: float
    started: float = field(default_factory=time.monotonic)
    lines: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])

    def __post_init__(self) -> None:
        self._process = subprocess.Popen(
            self.command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment(),
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append((time.monotonic(), line))

    @property
    def printed(self) -> str:
        return "".join(line for _, line in self.lines)

    def time_of(self, text: str) -> float:
        """When it printed a line with this text. Raises RunFailed when it did not."""
        for at, line in self.lines:
            if text in line:
                return at
        raise RunFailed(f"{text!r} was never printed:\n{self.printed}")

    def new_row(self, output: Output) -> float:
        """Wait for a row that was not there at the last look; when it came. Raises RunFailed for none."""
        at = output.wait(lambda: self._process.poll() is not None, self.limit_seconds)
        if at is None:
            raise RunFailed(f"no new row came:\n{self.printed[-4000:]}")
        return at

    def finish(self, *, looks: bool = False) -> float:
        """Wait for its end. Raises RunFailed when that is no good one, or does not come.

        looks: answers with the memory it and all it started took at most from now on, in MiB; else with 0.
        """
        watch, until = Watch(self._process.pid), time.monotonic() + self.limit_seconds
        while self._process.poll() is None:
            if time.monotonic() > until:
                raise RunFailed(f"still running after {self.limit_seconds} s:\n{self.printed[-4000:]}")
            before = time.process_time()
            if looks:
                watch.look()
            pause = max(LEAST_PAUSE_SECONDS, (time.process_time() - before) / LOOKING)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(pause)
        self._reader.join()
        if self._process.returncode:
            raise RunFailed(self.printed[-4000:])
        return watch.peak_mib

    def kill(self) -> None:
        """End it and all it started, by SIGKILL: as when the machine goes down."""
        Watch(self._process.pid).end_all()
        self._process.wait()
