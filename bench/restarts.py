"""How long starts take, as a user meets them: from the start of the process to rows in the output.

replay     a job starts at an output time, and one hour of 1 000 events a second is read again for it
recovery   a job is killed and started again at once, beside Structured Streaming
estimate   what `tideglass estimate --measure` says of a restart, beside the restart

Every job is started by the command, `tideglass run`, on a project that is made here. The rows of every run
are compared with those of DuckDB's batch query over the same events (agreement.py).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from agreement import Agreement, compare
from data import CACHE, GROUPS_START_MS, HERE, Data, Prepared, in_minutes
from measure import RunFailed
from output import Output
from scenarios import FLOOR, SPARK, TUMBLING
from started import Project, Started, environment

#: An hour of 1 000 events a second, and five minutes more, which close the last window of the hour.
HOUR_EVENTS = 3_900_000
HOUR_MS = 3_600_000
#: Of recovery: a batch is two minutes of events, as both engines are told; the kill comes after so many.
RECOVERY_EVENTS = 1_200_000
BATCH_MINUTES = 2
BATCHES_BEFORE_THE_KILL = 4
#: An event of the data is about so long.
BYTES_PER_EVENT = 160
BOOTHS = 4


@dataclass(slots=True)
class Measurement:
    """A figure of a scenario, by round. bar: what the median is to be, None for one that is only told."""

    name: str
    values: list[float] = field(default_factory=list[float])
    unit: str = "s"
    bar: float | None = None

    @property
    def median(self) -> float:
        return median(self.values)

    @property
    def reached(self) -> bool | None:
        return None if self.bar is None or not self.values else self.median <= self.bar


@dataclass(slots=True)
class RestartOutcome:
    """What a scenario measured, and what was said of its rows."""

    name: str
    title: str
    events: int = 0
    agreement: list[str] = field(default_factory=list[str])
    measurements: dict[str, Measurement] = field(default_factory=dict[str, Measurement])
    failure: str = ""

    def add(self, name: str, value: float, unit: str = "s", bar: float | None = None) -> None:
        self.measurements.setdefault(name, Measurement(name, [], unit, bar)).values.append(value)

    def table(self) -> Table:
        rounds = max((len(each.values) for each in self.measurements.values()), default=0)
        made = Table(title=f"{self.name}: {self.title}\n{self.events:,} events, medians of {rounds}")
        for column in ("measured", "median", "least", "most", "bar"):
            made.add_column(column, justify="left" if column == "measured" else "right", no_wrap=True)
        for each in self.measurements.values():
            cells = [
                f"{value:,.2f} {each.unit}" for value in (each.median, min(each.values), max(each.values))
            ]
            bar = "" if each.bar is None else f"≤ {each.bar:g} {'met' if each.reached else 'missed'}"
            made.add_row(each.name, *cells, bar)
        return made

    def json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "events": self.events,
            "agreement": self.agreement,
            "failure": self.failure,
            "measurements": [
                {"name": each.name, "unit": each.unit, "values": each.values, "bar": each.bar}
                for each in self.measurements.values()
            ],
        }


@dataclass(frozen=True, slots=True)
class Restarts:
    """Runs the scenarios. limitseconds_of: of one run."""

    rounds: int
    cores: int
    limitseconds_of: float
    console: Console

    def run(self, name: str) -> RestartOutcome:
        """A failure is in the outcome; what was measured before it stays."""
        title, measure = RESTARTS[name]
        self.console.rule(f"{name}: {title}")
        outcome = RestartOutcome(name, title)
        try:
            measure(self, outcome)
        except Exception as error:
            outcome.failure = str(error)
            self.console.print(f"{name} failed: {error}", style="red", markup=False)
        if outcome.measurements:
            self.console.print(outcome.table())
        return outcome

    def replay(self, outcome: RestartOutcome) -> None:
        """Start at the end of the hour: its events are read again, and the first row is of its window."""
        prepared = Data("toll", "json").prepare(HOUR_EVENTS, merged=False)
        outcome.events = prepared.events
        project = Project(CACHE / "restarts" / "replay", "tumbling-hour", prepared.root)
        output = Output(project.rows, TUMBLING.key)
        expected = self._floor("tumbling-hour", prepared)
        at = GROUPS_START_MS + HOUR_MS
        for _ in range(self.rounds):
            project.clean()
            output.forget()
            with self._running(project.command("run", self.cores, "--once", "--start", _iso(at))) as job:
                first = job.new_row(output)
                job.finish()
            self.console.print(f"  first new row after {first - job.started:.1f} s", style="dim")
            outcome.add("first new row", first - job.started, bar=30)
            outcome.add("caught up", job.time_of("caught up with what was there") - job.started)
            rows = f"(SELECT {_casts(TUMBLING)} FROM {output.table()})"
            emitted = f"(FROM {expected} WHERE window_end >= make_timestamptz({at} * 1000))"
            self._agree(outcome, prepared, TUMBLING, emitted, rows, exact=True, flushes=True)

    def recovery(self, outcome: RestartOutcome) -> None:
        """Kill the process and all it started between two batches' rows; start it at once, to its end."""
        prepared = in_minutes(Data("toll", "json").prepare(RECOVERY_EVENTS, merged=False))
        outcome.events = prepared.events
        expected = self._floor("tumbling", prepared)
        folder = CACHE / "restarts" / "recovery"
        project = Project(folder / "tideglass", "tumbling", prepared.root)
        batch_mb = BATCH_MINUTES * 60_000 * BYTES_PER_EVENT // 2**20
        ours = project.command("run", self.cores, "--once", "--batch-mb", str(batch_mb))
        rival = [
            sys.executable,
            str(HERE / SPARK.program),
            "--query",
            "tumbling",
            "--data",
            str(prepared.root),
        ]
        rival += ["--out", str(folder / "spark"), "--cores", str(self.cores), "--goes-on"]
        rival += ["--files-per-batch", str(BATCH_MINUTES * BOOTHS)]
        entrants = {
            "tideglass": (ours, Output(project.rows, TUMBLING.key), project.folder),
            SPARK.name: (
                rival,
                Output(folder / "spark" / "rows", TUMBLING.key, logged=True),
                folder / "spark",
            ),
        }
        for _ in range(self.rounds):
            took: dict[str, float] = {}
            for name, (command, output, place) in entrants.items():
                if name == "tideglass":
                    project.clean()
                else:
                    shutil.rmtree(place, ignore_errors=True)
                took[name] = self._recover(command, output)
                self.console.print(f"  {name}: first new row after {took[name]:.1f} s", style="dim")
                outcome.add(f"{name}: first new row", took[name])
                rows = f"(SELECT {_casts(TUMBLING)} FROM {output.table()})"
                exact = name == "tideglass"
                self._agree(outcome, prepared, TUMBLING, expected, rows, exact=exact, flushes=exact)
            outcome.add("tideglass / structured streaming", took["tideglass"] / took[SPARK.name], "×", 1.0)

    def _recover(self, command: Sequence[str], output: Output) -> float:
        """Seconds from the kill to the first new row."""
        output.forget()
        with self._running(command) as job:
            for _ in range(BATCHES_BEFORE_THE_KILL):
                job.new_row(output)
            time.sleep(0.5)  # into the batch under way
        output.look()  # what came up to the kill is not new
        with self._running(command) as job:
            first = job.new_row(output)
            job.finish()
        return first - job.started

    def estimate(self, outcome: RestartOutcome) -> None:
        """Predict a restart whose *now* is the newest event, then do it."""
        prepared = Data("toll", "json").prepare(HOUR_EVENTS, merged=False)
        outcome.events = prepared.events
        project = Project(CACHE / "restarts" / "estimate", "tumbling-hour", prepared.root)
        for _ in range(self.rounds):
            project.clean()
            with self._running(project.command("estimate", self.cores, "--measure")) as told:
                told.finish()
            printed = told.printed
            predicted = re.search(r"events in all, in about (\w+)", printed)
            measured = re.search(r"restarted at (\S+): ([\d,]+) events", printed)
            memory = re.search(r"its processes took ([\d,]+) MB", printed)
            if predicted is None or measured is None or memory is None:
                raise RunFailed(printed)
            with self._running(project.command("run", self.cores, "--once", "--start", measured[1])) as job:
                peak_mib = job.finish(looks=True)
            seconds = job.time_of("caught up with what was there") - job.started
            events = re.search(r"caught up with what was there in .*: ([\d,]+) events", job.printed)
            assert events is not None
            self.console.print(f"  predicted {predicted[1]}, took {seconds:.1f} s", style="dim")
            outcome.add("predicted", seconds_of(predicted[1]))
            outcome.add("actual", seconds)
            outcome.add("off by", abs(seconds_of(predicted[1]) / seconds - 1) * 100, "%", 20)
            outcome.add("memory predicted", _number(memory[1]), "MB")
            outcome.add("memory taken", peak_mib, "MB")
            outcome.add("memory off by", abs(_number(memory[1]) / peak_mib - 1) * 100, "%", 20)
            wrong = abs(_number(measured[2]) - _number(events[1]))
            outcome.add("events predicted wrongly", wrong, "events", 0)

    def _floor(self, query: str, prepared: Prepared) -> str:
        """The rows of the batch query, as a table of SQL."""
        out = CACHE / "restarts" / "floor" / query
        command = [sys.executable, str(HERE / FLOOR.program), "--query", query]
        command += ["--data", str(prepared.root), "--out", str(out), "--cores", str(self.cores)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment())
        return f"(SELECT {_casts(TUMBLING)} FROM read_parquet('{out}/rows/*.parquet'))"

    def _agree(
        self,
        outcome: RestartOutcome,
        prepared: Prepared,
        agreement: Agreement,
        expected: str,
        rows: str,
        *,
        exact: bool,
        flushes: bool,
    ) -> None:
        said = compare(
            agreement, Data("toll", "json"), prepared.root, expected, rows, exact=exact, flushes=flushes
        )
        outcome.agreement.append(str(said))
        self.console.print(f"  {said}", style="dim")

    @contextmanager
    def _running(self, command: Sequence[str]) -> Generator[Started]:
        """The command as processes of their own; killed at the end of the block, all at once."""
        job = Started(command, self.limitseconds_of)
        try:
            yield job
        finally:
            job.kill()


def _iso(time_ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time_ms / 1000))


def _casts(agreement: Agreement) -> str:
    return ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in agreement.columns.items())


def seconds_of(text: str) -> float:
    """The seconds of a text as 1h2m or 1m15s."""
    units = {"h": 3600, "m": 60, "s": 1}
    return float(sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)([hms])", text)))


def _number(text: str) -> int:
    return int(text.replace(",", ""))


#: Title and measurement of each.
RESTARTS: dict[str, tuple[str, Callable[[Restarts, RestartOutcome], None]]] = {
    "replay": ("started at an output time, an hour of 1 000 events/s is read again", Restarts.replay),
    "recovery": ("killed and started again: seconds to the first new row", Restarts.recovery),
    "estimate": ("what `estimate --measure` says of a restart, beside the restart", Restarts.estimate),
}
