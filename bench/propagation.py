"""How long a watermark takes through a chain of windows: the propagation benchmark of *Watermarks in Stream
Processing Systems* (Akidau and others, VLDB 2021), tideglass beside Flink SQL.

    python bench/propagation.py                       1 to 8 stages, 2 rounds of both in turn, medians
    python bench/propagation.py --stages 1 4 --rounds 1

A job counts 16 keys in windows of a second, and every further stage sums what the stage before it has made
in windows of the same second, by other keys: its rows cross between tasks once more. All windows that end at
one time close when the watermark passes it, the last one after all before it. An event a key is put into a
file that appears whole; it closes the windows of the second before. Latency is from then to the last row of
these windows on standard output. The jobs of a round run in one process of their engine, one
after the other, and the first windows of each are not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from data import CACHE, HERE
from measure import RunFailed, Watch
from rivals.flink_home import HEAP, flink_python
from tideglass.spark.session.java import use_java

KEYS = 16
#: 2026-01-01T00:00:00Z, the start of the first window.
START_MS = 1_767_225_600_000
#: Windows before the first that counts: the JVM compiles, the first one waits for the job's start.
WARMING = 4
#: While a job starts, how long a window is waited for before the next one is closed.
STARTING_SECONDS = 3.0
#: Between a row and the next event; other than the engines' own rhythms, so that no phase is met every time.
PAUSE_SECONDS = 0.23
RESULTS = HERE / "propagation.json"

_SECOND = re.compile(r"2026-01-01[T ]\d\d:(\d\d):(\d\d)")


@dataclass(frozen=True, slots=True)
class Chained:
    """An engine: the program that runs its jobs, and what runs the program."""

    name: str
    program: str
    python: str

    def command(self, data: Path, stages: Sequence[int], cores: int) -> list[str]:
        program = [self.python, str(HERE / self.program)]
        return [*program, "--data", str(data), "--cores", str(cores), "--stages", *map(str, stages)]

    def environment(self) -> dict[str, str]:
        path = os.pathsep.join((str(HERE), str(HERE.parent)))
        return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "JVM_ARGS": HEAP}


@dataclass
class ChainRun:
    """A program under way, and the lines it has printed, each with when."""

    command: Sequence[str]
    environment: dict[str, str]
    log: Path
    lines: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])

    def __post_init__(self) -> None:
        self._changed = threading.Condition()
        self._errors = self.log.open("wb")
        self._process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=self.environment,
            text=True,
            start_new_session=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self.lines.append((time.monotonic(), line))
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def wait_for(self, text: str, limit_seconds: float) -> None:
        """Wait for a line that is this text. Raises RunFailed."""
        self._wait(lambda: any(line.strip() == text for _, line in self.lines), text, limit_seconds)

    def rows_of(self, window: int, limit_seconds: float) -> float:
        """Wait for all rows of a window; when the last one was printed. Raises RunFailed."""
        self._wait(lambda: len(self._of(window)) >= KEYS, f"rows of second {window}", limit_seconds)
        return max(self._of(window))

    def closed(self, window: int) -> bool:
        """Whether all rows of some window before this one were printed: the job has started."""
        return any(len(self._of(before)) >= KEYS for before in range(window))

    def _of(self, window: int) -> list[float]:
        """When the rows of the window that begins with a second of the first hour were printed."""
        found: list[float] = []
        for at, line in self.lines:
            match = _SECOND.search(line)
            if match is not None and int(match[1]) * 60 + int(match[2]) == window + 1:
                found.append(at)
        return found

    def _wait(self, condition: Callable[[], bool], what: str, limit_seconds: float) -> None:
        until = time.monotonic() + limit_seconds
        with self._changed:
            while not condition():
                left = until - time.monotonic()
                if left <= 0 or self.ended:
                    raise RunFailed(f"{what} did not come:\n{self.log.read_text(errors='replace')[-3000:]}")
                self._changed.wait(min(left, 0.5))

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def next_job(self) -> None:
        """End the job under way; its program starts the next one."""
        assert self._process.stdin is not None
        self.lines.clear()
        self._process.stdin.write("next\n")
        self._process.stdin.flush()

    def end(self) -> None:
        """End the program and all it started."""
        Watch(self._process.pid).end_all()
        self._process.wait()
        self._errors.close()


def put(folder: Path, window: int) -> float:
    """Put an event a key into the middle of a window; when the file appeared."""
    lines = [json.dumps({"k": key, "t": START_MS + window * 1000 + 500}) for key in range(KEYS)]
    part = folder.parent / f"{folder.name}-{window}.part"
    part.write_text("\n".join(lines) + "\n")
    part.rename(folder / f"{window:06d}.json")
    return time.monotonic()


def warmed(run: ChainRun, folder: Path, limit_seconds: float) -> int:
    """Close windows until WARMING of them have given their rows; the first window that is open then.

    While a job starts, files wait for it. Flink reads those that wait in no order and drops the events of
    some, so a window may get no rows. Raises RunFailed when none does in time.
    """
    until = time.monotonic() + limit_seconds
    window = steady = 0
    put(folder, window)
    while steady < WARMING:
        put(folder, window + 1)
        wait_seconds = limit_seconds / 2 if run.closed(window) else STARTING_SECONDS
        try:
            run.rows_of(window, wait_seconds)
            steady += 1
        except RunFailed:
            if run.ended or time.monotonic() > until:
                raise
        window += 1
    return window


def latencies(
    engine: Chained, stages: Sequence[int], closings: int, cores: int, limit_seconds: float
) -> dict[int, list[float]]:
    """Seconds by number of stages, of every window that counts. Raises RunFailed."""
    root = CACHE / "propagation" / engine.name.replace(" ", "-")
    shutil.rmtree(root, ignore_errors=True)
    for count in stages:
        (root / str(count)).mkdir(parents=True)
    run = ChainRun(engine.command(root, stages, cores), engine.environment(), root / "log")
    found: dict[int, list[float]] = {}
    try:
        for count in stages:
            run.wait_for(f"started {count}", limit_seconds)
            folder = root / str(count)
            first = warmed(run, folder, limit_seconds)
            for window in range(first, first + closings):
                time.sleep(PAUSE_SECONDS)
                at = put(folder, window + 1)
                found.setdefault(count, []).append(run.rows_of(window, limit_seconds) - at)
            run.next_job()
    finally:
        run.end()
    return found


def table(figures: dict[str, dict[int, list[float]]], stages: Sequence[int], rounds: int) -> str:
    """Medians, least and most as a table for docs/benchmarks.md."""
    lines = [
        f"Seconds from the closing event to the last row, medians of {rounds} rounds (least to most):",
        "",
        " | ".join(["| stages", *figures]) + " |",
        "|---" * (1 + len(figures)) + "|",
    ]
    for count in stages:
        cells = [str(count)]
        for of in figures.values():
            values = of.get(count, [])
            spread = f" ({min(values):.3f} to {max(values):.3f})" if values else ""
            cells.append(f"{median(values):.3f}{spread}" if values else "–")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure how watermarks go through chained windows.")
    parser.add_argument("--stages", type=int, nargs="+", default=list(range(1, 9)))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--closings", type=int, default=7, help="windows that count, of each job of a round")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--engine", nargs="+", choices=("tideglass", "flink sql"), default=None)
    parser.add_argument("--limit", type=float, default=120, help="seconds to wait for a row")
    options = parser.parse_args()
    os.environ["JAVA_HOME"] = str(use_java().home)
    engines = [
        Chained("tideglass", "propagation_run.py", sys.executable),
        Chained("flink sql", "rivals/flink_propagation.py", str(flink_python())),
    ]
    engines = [each for each in engines if options.engine is None or each.name in options.engine]
    figures: dict[str, dict[int, list[float]]] = {each.name: {} for each in engines}
    for number in range(options.rounds):
        for engine in engines if number % 2 == 0 else engines[::-1]:
            started = time.monotonic()
            found = latencies(engine, options.stages, options.closings, options.cores, options.limit)
            for count, seconds in found.items():
                figures[engine.name].setdefault(count, []).extend(seconds)
            took = time.monotonic() - started
            print(f"round {number + 1}, {engine.name}: {took:.0f} s", file=sys.stderr, flush=True)
            RESULTS.write_text(json.dumps({"options": vars(options), "seconds": figures}, indent=1))
    print(table(figures, options.stages, options.rounds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
