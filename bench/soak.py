"""A job under load for a long time, whose processes are killed: are its rows right, is its memory flat?

    python bench/soak.py --minutes 60 --rate 5000 --kills 6

Events are written into two partitions, a file a second each. In the first third of the time a process of
the run is killed (SIGKILL) now and then: the driver, the JVM or a Python process; the run is started again
when it has ended. In the rest nothing is disturbed, and memory must stay flat. In the end every window must
have counted what was sent. Exit code 1 where rows are wrong or memory grows. The seed of what is killed is
printed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tideglass.job.directory import JobDirectory
from tideglass.job.report.status import Status, read_status

WINDOW_SECONDS = 10
DEVICES = 500
PARTITIONS = 2
LOOK_SECONDS = 10.0
#: A process may take that much more in the end; what is less than that many bytes is no growth.
GROWTH, LEAST_BYTES = 1.15, 50_000_000
#: Of ten seconds each; with fewer nothing is said of memory.
LEAST_SAMPLES = 12
QUERY = f"""SELECT device, COUNT(*) AS n, SUM(v) AS v, System.Timestamp() AS at INTO counts
FROM events TIMESTAMP BY t GROUP BY device, TumblingWindow(second, {WINDOW_SECONDS})
"""


@dataclass
class Feed:
    """Sends events, and knows how many of each window and device there are."""

    folder: Path
    rate: int
    sent: int = 0
    counts: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])

    def second(self, at: int, number: int) -> None:
        """The events of a second, in all partitions."""
        each = self.rate // PARTITIONS
        end = -(-at // WINDOW_SECONDS) * WINDOW_SECONDS
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
        for partition in range(PARTITIONS):
            lines: list[str] = []
            for event in range(each):
                device = f"d{(event * 7 + number) % DEVICES}"
                lines.append(f'{{"device":"{device}","v":{event % 100},"t":"{stamp}","arrived":"{stamp}"}}\n')
                self.counts[device, end] += 1
            self._put(partition, f"{number:08d}.json", "".join(lines))
            self.sent += each

    def close(self, at: int) -> None:
        """An event of each partition that ends all windows before it."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
        for partition in range(PARTITIONS):
            line = f'{{"device":"end","v":0,"t":"{stamp}","arrived":"{stamp}"}}\n'
            self._put(partition, "99999999.json", line)
            self.sent += 1

    def _put(self, partition: int, name: str, text: str) -> None:
        folder = self.folder / str(partition)
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f"_{name}"
        draft.write_text(text)
        os.replace(draft, folder / name)


def make_project(folder: Path) -> None:
    files: dict[str, Any] = {
        "asaproj.json": {
            "name": "soak",
            "startFile": "soak.asaql",
            "configurations": [
                {"filePath": "JobConfig.json", "subType": "JobConfig"},
                {"filePath": "events.json", "subType": "InputMock"},
            ],
        },
        "JobConfig.json": {
            "EventsLateArrivalMaxDelayInSeconds": 20,
            "EventsOutOfOrderMaxDelayInSeconds": 0,
            "EventsOutOfOrderPolicy": "Adjust",
            "CompatibilityLevel": "1.2",
        },
        "events.json": {
            "InputAlias": "events",
            "Type": "Data Stream",
            "Format": "Json",
            "FilePath": "events",
            "Partitions": "folders",
            "ArrivalTimeField": "arrived",
            "ScriptType": "InputMock",
        },
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    (folder / "soak.asaql").write_text(QUERY)


@dataclass
class SoakedRun:
    """The run, started again whenever it has ended."""

    project: Path
    log: Path
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0

    def see_to_it(self) -> None:
        """Start it where it does not run."""
        if self.process is None or self.process.poll() is not None:
            command = [sys.executable, "-m", "tideglass.cli.main", "run", str(self.project), "--cores", "2"]
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
            self.starts += 1

    def memory(self) -> dict[str, int]:
        """Bytes by kind of process: the driver, the JVM, and all Python processes together."""
        found: dict[str, int] = {}
        if self.process is None:
            return found
        try:
            driver = psutil.Process(self.process.pid)
            for each in [driver, *driver.children(recursive=True)]:
                kind = "driver" if each == driver else "jvm" if "java" in each.name() else "python"
                memory = each.memory_full_info()
                found[kind] = found.get(kind, 0) + getattr(memory, "pss", memory.rss)
        except psutil.Error:  # a process has ended while we looked
            return {}
        return found

    def kill_one(self, chosen: random.Random) -> str:
        """SIGKILL of a process; which."""
        assert self.process is not None
        try:
            driver = psutil.Process(self.process.pid)
            below = driver.children(recursive=True)
            kind = chosen.choice(["driver", "jvm", "python"])
            of_kind = [each for each in below if ("java" in each.name()) == (kind == "jvm")]
            target = driver if kind == "driver" or not of_kind else chosen.choice(of_kind)
            target.send_signal(signal.SIGKILL)
            if target == driver:
                for each in below:  # what a machine that fails takes with it
                    each.send_signal(signal.SIGKILL)
                self.process.wait(30)
        except psutil.Error as error:
            return f"nothing: {error}"
        return kind

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()


def grows(samples: list[tuple[float, dict[str, int]]]) -> dict[str, str]:
    """The kinds of processes that take more in the last quarter than in the second, and how much."""
    found: dict[str, str] = {}
    quarter = len(samples) // 4
    for kind in ("driver", "jvm", "python"):
        early = [memory[kind] for _, memory in samples[quarter : 2 * quarter] if kind in memory]
        late = [memory[kind] for _, memory in samples[3 * quarter :] if kind in memory]
        if early and late:
            before, after = statistics.median(early), statistics.median(late)
            if after > GROWTH * before and after - before > LEAST_BYTES:
                found[kind] = f"{before / 1e6:,.0f} MB -> {after / 1e6:,.0f} MB"
    return found


def wrong_rows(project: Path, feed: Feed) -> list[str]:
    """Windows whose count is not what was sent, or that are there twice."""
    counted: Counter[tuple[str, int]] = Counter()
    rows: Counter[tuple[str, int]] = Counter()
    for part in (project / "LocalRunOutputs" / "counts").glob("part-*"):
        for line in part.read_text().splitlines():
            row = json.loads(line)
            at = int(time.mktime(time.strptime(row["at"][:19], "%Y-%m-%dT%H:%M:%S"))) - time.timezone
            counted[row["device"], at] += row["n"]
            rows[row["device"], at] += 1
    wrong = [f"{key}: {counted[key]} of {n} events" for key, n in feed.counts.items() if counted[key] != n]
    wrong += [f"{key}: {n} rows" for key, n in rows.items() if n > 1]
    wrong += [f"{key}: never sent" for key in counted if key not in feed.counts]
    return wrong


def wait_until(
    what: Callable[[Status], bool], run: SoakedRun, directory: JobDirectory, seconds: float
) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        run.see_to_it()
        status = read_status(directory)
        if status is not None and what(status):
            return
        time.sleep(2)
    raise SystemExit(f"not reached within {seconds:.0f} s; see {run.log}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=int, default=5000, help="events a second, of both partitions together")
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument(
        "--folder", type=Path, help="where the project is made; else a folder that is removed"
    )
    options = parser.parse_args()
    print(
        f"seed {options.seed}; {options.minutes:g} min, {options.rate} events/s, {options.kills} kills",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as temporary:
        return soak(options, options.folder or Path(temporary))


def soak(options: argparse.Namespace, folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    make_project(folder)
    feed, run = Feed(folder / "events", options.rate), SoakedRun(folder, folder / "soak.log")
    directory, chosen = JobDirectory.of_project(folder), random.Random(options.seed)
    seconds = options.minutes * 60
    kills = sorted(chosen.uniform(30, max(31, seconds / 3)) for _ in range(options.kills))
    begun, over = time.monotonic(), threading.Event()
    first = int(time.time())

    def send() -> None:
        number = 0
        while not over.is_set() and number < seconds:
            feed.second(first + number, number)
            number += 1
            over.wait(max(0.0, begun + number - time.monotonic()))

    sender = threading.Thread(target=send)
    sender.start()
    samples: list[tuple[float, dict[str, int]]] = []
    try:
        while sender.is_alive():
            run.see_to_it()
            time.sleep(LOOK_SECONDS)
            elapsed = time.monotonic() - begun
            while kills and kills[0] <= elapsed:
                kills.pop(0)
                print(f"{elapsed:6.0f} s  killed: {run.kill_one(chosen)}", flush=True)
            memory, status = run.memory(), read_status(directory)
            if elapsed > seconds / 3 + 60:
                samples.append((elapsed, memory))
            shown = ", ".join(f"{kind} {size / 1e6:,.0f} MB" for kind, size in sorted(memory.items()))
            events = sum(each.events for each in status.inputs) if status else 0
            print(
                f"{elapsed:6.0f} s  {feed.sent:,} sent, {events:,} read, start {run.starts}; {shown}",
                flush=True,
            )
        sent_seconds = time.monotonic() - begun
        feed.close(first + int(seconds) + 10 * WINDOW_SECONDS)
        wait_until(
            lambda status: sum(each.events for each in status.inputs) >= feed.sent, run, directory, 600
        )
        caught_up = time.monotonic() - begun - sent_seconds
        time.sleep(5)
    finally:
        over.set()
        sender.join()
        run.end()
    wrong, grown = wrong_rows(folder, feed), grows(samples)
    print(
        f"{feed.sent:,} events in {sent_seconds:,.0f} s; all were read {caught_up:.0f} s later; "
        f"{run.starts} starts"
    )
    print(f"windows: {len(feed.counts):,}, wrong: {len(wrong)} {wrong[:5]}")
    judged = len(samples) >= LEAST_SAMPLES
    print(f"memory that grows: {grown or 'none'}" if judged else "memory: too few samples to judge")
    return 1 if wrong or grown else 0


if __name__ == "__main__":
    sys.exit(main())
