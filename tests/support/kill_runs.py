"""Kills runs on Spark at random, and compares what readers of every sink find with the undisturbed run.

    PYTHONPATH=tests python -m support.kill_runs --kills 24 --seed 1

A job reads a source to its end and writes to all sinks at once; it is killed and started again until it has
ended, then the next job begins, until so many kills were played or the minutes are over. A kill is SIGKILL:
of the driver at a step of the commit (`TIDEGLASS_DIE_AT`), or of driver and JVM at any moment.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.database import Database, postgresql_server
from support.http_service import HttpService, an_http_service
from support.killed import STEPS
from support.tcp_proxy import proxy_to_socket
from tideglass.connect.azure.endpoints import ENDPOINTS
from tideglass.connect.files.written_rows import read_rows
from tideglass.core.failpoints import DIE_AT

QUERY = """
SELECT device, COUNT(*) AS n, SUM(weight) AS weight INTO files
FROM events TIMESTAMP BY at GROUP BY device, TumblingWindow(second, 30)
SELECT device, COUNT(*) AS n, MAX(weight) AS weight INTO relation
FROM events TIMESTAMP BY at GROUP BY device, HoppingWindow(second, 60, 30)
SELECT device, weight, seq INTO lake FROM events TIMESTAMP BY at WHERE weight > 950
SELECT device, weight, seq INTO calls FROM events TIMESTAMP BY at WHERE weight > 980
"""
SINKS = {
    "files": "JSON files",
    "relation": "PostgreSQL",
    "lake": "Delta Lake",
    "calls": "Azure Functions (server of the tests), by ids of rows",
}
SOURCES = ("JSON files", "CSV files", "gzip files")
PARTITIONS, FILES, EVENTS = 2, 6, 24_000
LIMIT_SECONDS = 600.0
#: Of one job; then it may go to its end.
MOST_KILLS = 5
APP = "toll.azurewebsites.net"
HOOKS = [*STEPS, *[f"{when}-publish-{name}" for name in SINKS for when in ("before", "after")]]


def write_events(folder: Path, source: str) -> None:
    """The same events for every source."""
    import gzip

    chosen, count = random.Random(0), EVENTS // (PARTITIONS * FILES)
    for partition in range(PARTITIONS):
        for file in range(FILES):
            numbers = range(file * count, (file + 1) * count)
            rows = [
                {
                    "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_767_225_600 + number // 10)),
                    "device": f"d{chosen.randrange(20)}",
                    "weight": chosen.randrange(1000),
                    "seq": number * PARTITIONS + partition,
                    "note": "x" * 80,
                }
                for number in numbers
            ]
            path = folder / str(partition) / f"{file:02}"
            path.parent.mkdir(parents=True, exist_ok=True)
            text = "".join(json.dumps(row) + "\n" for row in rows)
            if source == "gzip files":
                path.with_suffix(".json.gz").write_bytes(gzip.compress(text.encode(), 1))
            elif source == "JSON files":
                path.with_suffix(".json").write_text(text)
            else:
                with path.with_suffix(".csv").open("w", newline="") as table:
                    writer = csv.DictWriter(table, list(rows[0]))
                    writer.writeheader()
                    writer.writerows(rows)


@dataclass
class Peers:
    """What the sinks are, and what readers find there."""

    port: int
    database: Database
    service: HttpService


@contextmanager
def running_peers() -> Generator[Peers]:
    with ExitStack() as stack:
        server = stack.enter_context(postgresql_server())
        proxy = stack.enter_context(proxy_to_socket(server.socket))
        service = stack.enter_context(an_http_service())
        database = Database(server.uri)
        stack.callback(database.close)
        yield Peers(proxy.port, database, service)


@dataclass
class KilledJob:
    """A job of a source with all sinks, in a folder of its own."""

    name: str
    folder: Path
    source: str
    peers: Peers
    starts: int = 0

    def make(self) -> None:
        write_events(self.folder / "events", self.source)
        table = f"t_{self.name}"
        self.peers.database.run(f"CREATE TABLE {table} (device text, n bigint, weight bigint)")
        own: dict[str, tuple[str, str, dict[str, Any]]] = {
            "relation": (
                "PostgreSQL",
                "PostgreSQLProperties",
                {
                    "Server": "127.0.0.1",
                    "Port": self.peers.port,
                    "Database": "postgres",
                    "User": "postgres",
                    "Password": "${NO_PASSWORD}",
                    "Table": table,
                },
            ),
            "lake": ("Delta Lake", "DeltaLakeProperties", {"Path": "../lake"}),
            "calls": (
                "Azure Function",
                "AzureFunctionProperties",
                {
                    "FunctionAppName": "toll",
                    "FunctionName": self.name,
                    "ApiKey": "${NO_PASSWORD}",
                    "RowIdColumn": "row_id",
                },
            ),
        }
        contents: dict[str, dict[str, Any]] = {
            "JobConfig.json": {
                "EventsLateArrivalMaxDelayInSeconds": 5,
                "EventsOutOfOrderMaxDelayInSeconds": 5,
                "CompatibilityLevel": "1.2",
            },
            "Inputs/events.json": {
                "InputAlias": "events",
                "Type": "Data Stream",
                "Format": "Csv" if self.source == "CSV files" else "Json",
                "FilePath": "../events",
                "Partitions": "folders",
                "ArrivalTimeField": "at",
                "ScriptType": "InputMock",
            },
            **{
                f"Outputs/{name}.json": {
                    "Name": name,
                    "DataSourceType": type_,
                    key: properties,
                    "Serialization": {"Type": "Json"},
                    "ScriptType": "Output",
                }
                for name, (type_, key, properties) in own.items()
            },
            "Outputs/files.json": {"Name": "files", "ScriptType": "Output"},
        }
        kinds = {"J": "JobConfig", "I": "InputMock", "O": "Output"}
        configurations = [{"filePath": name, "subType": kinds[name[0]]} for name in contents]
        contents["asaproj.json"] = {
            "name": self.name,
            "startFile": "job.asaql",
            "configurations": configurations,
        }
        for name, content in contents.items():
            (self.folder / name).parent.mkdir(exist_ok=True)
            (self.folder / name).write_text(json.dumps(content))
        (self.folder / "job.asaql").write_text(QUERY)

    def run(self, die_at: str | None = None, after_seconds: float | None = None) -> bool:
        """A run; True if it came to its end. after_seconds: when driver and JVM are killed."""
        self.starts += 1
        words = ["run", str(self.folder), "--once", "--live", "--cores", "2", "--batch-mb", "1", "--quiet"]
        with (self.folder / "printed.txt").open("a") as printed:
            process = subprocess.Popen(
                [sys.executable, "-m", "tideglass.cli.main", *words],
                stdout=printed,
                stderr=printed,
                start_new_session=True,
                env={
                    **os.environ,
                    "NO_PASSWORD": "none",
                    ENDPOINTS: json.dumps({APP: self.peers.service.url}),
                    **({} if die_at is None else {DIE_AT: die_at}),
                },
            )
        try:
            code = process.wait(LIMIT_SECONDS if after_seconds is None else after_seconds)
        except subprocess.TimeoutExpired:
            if after_seconds is None:
                raise
            code = -signal.SIGKILL
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if code not in (0, -signal.SIGKILL):
            raise SystemExit((self.folder / "printed.txt").read_text()[-4000:])
        return code == 0

    @property
    def committed(self) -> int:
        """How many batches Spark has in its log of commits."""
        return max((int(file.name) + 1 for file in self._log("commits") if file.name.isdigit()), default=0)

    def _log(self, name: str) -> list[Path]:
        return list(self.folder.glob(f".tideglass/run/generation-*/checkpoint/{name}/*"))

    def read(self) -> Mapping[str, list[str]]:
        """What a reader of each sink finds, in an order of its own; of calls one who knows ids again."""
        from deltalake import DeltaTable

        calls = {
            row.pop("row_id"): row
            for request in self.peers.service.accepted
            if f"/{self.name}" in request.path
            for row in json.loads(request.body)
        }
        found: dict[str, list[Any]] = {
            "files": read_rows(self.folder / "LocalRunOutputs" / "files"),
            "relation": self.peers.database.rows(f"SELECT device, n, weight FROM t_{self.name}"),
            "lake": DeltaTable(str(self.folder / "lake")).to_pyarrow_table().to_pylist(),
            "calls": list(calls.values()),
        }
        return {name: sorted(map(repr, rows)) for name, rows in found.items()}


@dataclass
class Played:
    """What was played: kills by source and kind, jobs by source, and the sinks that differed."""

    kills: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    jobs: Counter[str] = field(default_factory=Counter[str])
    rows: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    differences: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])


def play(kills: int, seed: int, say: Callable[[str], None], minutes: float = 1e9) -> Played:
    """Play so many kills, or fewer in so many minutes. say: takes a line about each."""
    chosen, played, end = random.Random(seed), Played(), time.monotonic() + 60 * minutes

    def enough() -> bool:
        return sum(played.kills.values()) >= kills or time.monotonic() > end

    expected: dict[str, Mapping[str, list[str]]] = {}
    lengths: dict[str, tuple[int, float]] = {}
    with tempfile.TemporaryDirectory(prefix="tideglass-kills-") as temporary, running_peers() as peers:
        while not enough():
            number = sum(played.jobs.values())
            source = SOURCES[number % len(SOURCES)]
            if source not in expected:
                job = _made(f"u{number}", Path(temporary), source, peers)
                began = time.monotonic()
                assert job.run()
                seconds = time.monotonic() - began
                lengths[source] = (job.committed, seconds)
                expected[source] = job.read()
                played.rows[source] = {name: len(rows) for name, rows in expected[source].items()}
                say(f"{source}: {job.committed} batches, {seconds:.0f} s, rows {played.rows[source]}")
            job, done = _made(f"k{number}", Path(temporary), source, peers), False
            while not done:
                batches, seconds = lengths[source]
                if enough() or job.starts >= MOST_KILLS:
                    done = job.run()
                elif chosen.random() < 0.7:
                    place = f"{chosen.choice(HOOKS)}:{min(batches - 1, job.committed + chosen.randrange(2))}"
                    done = job.run(place)
                    _count(played, done, source, "at a step", place, job, say)
                else:
                    after_seconds = round(chosen.uniform(0.3, 1.0) * seconds, 2)
                    done = job.run(after_seconds=after_seconds)
                    _count(played, done, source, "at any moment", f"after {after_seconds} s", job, say)
            played.jobs[source] += 1
            found = job.read()
            for name in SINKS:
                same = found[name] == expected[source][name]
                played.differences[source, name] += 0 if same else 1
                if not same:
                    say(f"DIFFERENT: {source}, {name}: {len(found[name])} rows")
            say(f"{source}: job {job.name} ended after {job.starts} starts")
    return played


def _made(name: str, folder: Path, source: str, peers: Peers) -> KilledJob:
    job = KilledJob(name, folder / name, source, peers)
    job.make()
    return job


def _count(
    played: Played, done: bool, source: str, kind: str, what: str, job: KilledJob, say: Callable[[str], None]
) -> None:
    if not done:
        played.kills[source, kind] += 1
        say(f"{sum(played.kills.values()):4}  {source}, {what}; {job.committed} batches committed")


def table(played: Played) -> list[str]:
    """For the docs: a row for each source and sink."""
    lines = [
        "| source | sink | jobs | kills at a step | kills at any moment | rows | differences |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for source in played.rows:
        steps, moments = played.kills[source, "at a step"], played.kills[source, "at any moment"]
        lines += [
            f"| {source} | {words} | {played.jobs[source]} | {steps} | {moments} | "
            f"{played.rows[source][name]:,} | {played.differences[source, name]} |"
            for name, words in SINKS.items()
        ]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1e9)
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    played = play(arguments.kills, arguments.seed, lambda line: print(line, flush=True), arguments.minutes)
    print("\n".join(table(played)))
    sys.exit(1 if sum(played.differences.values()) else 0)


if __name__ == "__main__":
    main()
