"""One run of one program: its own clock, and what it and all it started took from the machine."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from programs import MARK

#: To sum up the pages of a large heap takes time of a core; looking may take this part of it. What a process
#: uses between the last look and its end is not counted.
LOOKING = 0.02
LEAST_PAUSE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Batch:
    """One micro-batch: events read when it was done, and the seconds since the one before was."""

    events: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Measured:
    """One run. seconds: from the start of the query to its end, or the limit it was stopped at.

    peak_mib: largest sum over the processes alive at one time, a page that several share counted once
    (PSS; where the system does not tell it, RSS). cpu_seconds: user and system time of all of them.
    """

    seconds: float
    cpu_seconds: float
    peak_mib: float
    finished: bool = True
    batches: tuple[Batch, ...] = ()


class RunFailed(Exception):
    """A program ended with an error or without its last word; the text is the end of its output."""


def measure(
    command: Sequence[str], environment: Mapping[str, str], log: Path, limit_seconds: float
) -> Measured:
    """Run `command` to its end, or stop it after `limit_seconds`. Raises RunFailed."""
    log.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT, env=dict(environment), start_new_session=True
        )
        watch = Watch(process.pid)
        try:
            while (left := started + limit_seconds - time.monotonic()) > 0 and process.poll() is None:
                before = time.process_time()
                watch.look()
                pause = max(LEAST_PAUSE_SECONDS, (time.process_time() - before) / LOOKING)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(min(left, pause))
            finished = process.poll() is not None
        finally:
            watch.end_all()
            process.wait()
    if not finished:
        return Measured(limit_seconds, watch.cpu_seconds, watch.peak_mib, finished=False)
    output = log.read_text(errors="replace")
    words = [line for line in output.splitlines() if line.startswith(MARK)]
    if process.returncode or not words:
        raise RunFailed(output[-4000:])
    said = json.loads(words[-1].removeprefix(MARK))
    batches = tuple(Batch(events, seconds) for events, seconds in said.get("batches", ()))
    return Measured(float(said["seconds"]), watch.cpu_seconds, watch.peak_mib, batches=batches)


class Watch:
    """Follows the processes of one session: the leader's, and whatever they start and leave behind."""

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self._cpu_seconds: dict[int, float] = {}
        self.peak_mib = 0.0

    @property
    def cpu_seconds(self) -> float:
        return sum(self._cpu_seconds.values())

    def look(self) -> None:
        """Add what the processes have used up to now."""
        total_bytes = 0
        for process in self._processes():
            try:
                times = process.cpu_times()
                self._cpu_seconds[process.pid] = times.user + times.system
                memory = process.memory_full_info()
            except psutil.Error:
                continue  # it ended while we looked
            total_bytes += getattr(memory, "pss", memory.rss)
        self.peak_mib = max(self.peak_mib, total_bytes / 2**20)

    def end_all(self) -> None:
        """End what is still there: a worker that outlived its parent would disturb the next run."""
        for process in self._processes():
            with suppress(psutil.Error):  # it may have ended by itself
                process.kill()

    def _processes(self) -> list[psutil.Process]:
        found: list[psutil.Process] = []
        for pid in psutil.pids():
            try:
                if os.getsid(pid) == self._leader:
                    found.append(psutil.Process(pid))
            except (OSError, psutil.Error):
                continue
        return found
