"""A year of departures from New York through Spark: what the job answers, and what its time policies did.

    python examples/flights/demo.py        (or: make demo)

Prepares the messages once, runs `flights.asaql` on a local Spark to the end of its input, compares every
row of every output with `check.py`, and draws the watermarks.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import check
import show
from prepare import prepared
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tideglass.cli.why import why_lines
from tideglass.core.errors import TideglassError
from tideglass.core.time import TICKS_PER_SECOND
from tideglass.ingress.decisions import Counters
from tideglass.job.diagnosis.diagnose import diagnose_directory
from tideglass.job.directory import JobDirectory
from tideglass.job.options import RunOptions
from tideglass.job.outputs import BatchRows
from tideglass.job.plan import plan_job
from tideglass.job.report.metrics import Metrics, PartitionFacts
from tideglass.job.runner import run
from tideglass.project.project import load_project

PROJECT = Path(__file__).parent
ROOT = PROJECT.parents[1]
INPUT = "departures"
OUTPUTS = ("hourly", "alerts", "moved", "daily")
#: The input is read in some five batches, so that there is something to watch.
BATCH_BYTES = 16_000_000


@dataclass(frozen=True, slots=True)
class Independent:
    """What `check.py` says: the rows of every output, and each message's way through the policies.

    by_carrier: decisions when each carrier of an airport has its own watermark.
    """

    outputs: Mapping[str, list[check.Row]]
    placed: Mapping[str, Sequence[check.Placed]]
    by_carrier: Mapping[str, Counter[str]]


@dataclass(slots=True)
class Run:
    """A finished run: what each airport's policies counted, and its watermark (in seconds) behind batches.

    watermarks: per airport, events read so far and the watermark then.
    """

    facts: dict[str, PartitionFacts] = field(default_factory=dict[str, PartitionFacts])
    watermarks: dict[str, list[tuple[int, int]]] = field(
        default_factory=lambda: {airport: [] for airport in check.AIRPORTS}
    )
    batches: int = 0

    def note(self, metrics: Metrics, reader: int) -> None:
        self.batches = metrics.batches
        for airport in check.AIRPORTS:
            facts = metrics.partitions[INPUT, airport, reader]
            self.facts[airport] = facts
            if not facts.final:  # at the end of its input a watermark passes everything
                seen = facts.counters.input_events
                self.watermarks[airport].append((seen, facts.watermark_ticks // TICKS_PER_SECOND))


def main(cache: Path = ROOT / "build" / "flights", pictures: Path = ROOT / "demo-output") -> int:
    """The whole demonstration; 0 when every row is as computed independently, else 1."""
    console = Console(highlight=False)
    console.width = min(100, console.width) if console.is_terminal else 100
    began = time.monotonic()
    console.rule("flights: a year of departures from New York", align="left")
    console.print("preparing the messages (kept for the next time)", style="dim")
    folder = prepared(cache)
    settings = check.Settings.of(PROJECT)
    with ThreadPoolExecutor(1) as beside:
        computing = beside.submit(independent, folder, settings)
        done = run_on_spark(console, folder, cache)
        answers = {name: read_output(cache / "out" / name) for name in OUTPUTS}
        show.hours(console, answers["hourly"])
        show.alerts(console, answers["alerts"])
        right = computing.result()
    by_carrier = {
        airport: show.simulated(right.placed[airport], settings, True) for airport in check.AIRPORTS
    }
    substreams = {airport: simulation.counters for airport, simulation in by_carrier.items()}
    show.policies(console, {airport: facts.counters for airport, facts in done.facts.items()}, substreams)
    wrong = 0
    console.print("Compared with an independent computation", style="bold")
    for what, differences in findings(done, answers, substreams, right).items():
        console.print(f"[green]equal[/]  {what}" if not differences else f"[red]WRONG[/]  {what}")
        for line in differences[:3]:
            console.print(f"       {line}", markup=False)
        wrong += bool(differences)
    for path in show.pictures(pictures, right.placed, settings):
        console.print(f"picture  {path}", soft_wrap=True)
    console.print(f"{time.monotonic() - began:.0f} s in all", style="dim")
    diagnosis = diagnose_directory(JobDirectory(cache / "run"))
    for line in why_lines(diagnosis)[: 1 if diagnosis.healthy else None]:
        console.print(f"tideglass why: {line}", soft_wrap=True, markup=False)
    command = shown_path(Path(sys.executable).with_name("tideglass"))
    console.print(f"its page: {command} page {shown_path(cache / 'run')}", soft_wrap=True, markup=False)
    return 1 if wrong or not diagnosis.healthy else 0


def shown_path(path: Path) -> Path:
    """As short as it can be typed here."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def independent(folder: Path, settings: check.Settings) -> Independent:
    messages = check.read(folder)
    placed = {airport: check.place(messages[airport], settings) for airport in messages}
    by_carrier = {
        airport: Counter(each.decision for each in check.place(messages[airport], settings, check.carrier))
        for airport in messages
    }
    return Independent(check.outputs([*chain(*placed.values())]), placed, by_carrier)


def run_on_spark(console: Console, folder: Path, cache: Path) -> Run:
    """Run the job once to the end of its input."""
    from tideglass.spark.session.spark_session import local_session

    options = RunOptions(
        inputs={INPUT: folder},
        outputs={name: str(cache / "out" / name) for name in OUTPUTS},
        once=True,
        fresh=True,
        run_directory=cache / "run",
        batch_bytes=BATCH_BYTES,
    )
    job = plan_job(load_project(PROJECT), options)
    by_schedule = next(each.id for each in job.compiled.topology.readers if each.timestamp is not None)
    total = sum(sum(1 for _ in file.open("rb")) for file in folder.rglob("*.json"))
    done = Run()
    console.print("starting Spark", style="dim")
    spark = local_session(log=cache / "spark.log")
    columns = [BarColumn(24), MofNCompleteColumn(), TextColumn("events"), TimeElapsedColumn()]
    with Progress(
        TextColumn("Spark"), *columns, TextColumn("{task.fields[reached]}"), console=console
    ) as progress:
        bar = progress.add_task("", total=total, reached="first batch under way")

        def watch(_: int, __: BatchRows, metrics: Metrics) -> None:
            done.note(metrics, by_schedule)
            reached = min((seen[-1][1] for seen in done.watermarks.values() if seen), default=0)
            words = "finished" if metrics.events == total else f"watermark {check.iso(reached)[:10]}"
            progress.update(bar, completed=metrics.events, reached=words)

        run(job, watch, spark)
    return done


def read_output(folder: Path) -> list[check.Row]:
    return [
        json.loads(line)
        for file in sorted(folder.glob("part-*.json"))
        for line in file.read_text(encoding="utf-8").splitlines()
    ]


def findings(
    done: Run,
    answers: Mapping[str, list[check.Row]],
    substreams: Mapping[str, Counters],
    right: Independent,
) -> dict[str, list[str]]:
    """Each claim that was checked, and what contradicts it."""
    found = {
        f"all {len(answers[name]):,} rows of {name}": check.differences(rows, answers[name])
        for name, rows in right.outputs.items()
    }
    whole = {airport: Counter(each.decision for each in placed) for airport, placed in right.placed.items()}
    for what, counters, wanted in (
        ("the decisions of the run, by airport", {a: f.counters for a, f in done.facts.items()}, whole),
        ("the decisions with substreams, by airport", substreams, right.by_carrier),
    ):
        found[what] = [
            f"{airport}: {counts} instead of {dict(wanted[airport])}"
            for airport in wanted
            if (counts := show.decisions(counters[airport])) != wanted[airport]
        ]
    found[f"the watermarks behind each of {done.batches} batches, by airport"] = [
        f"{airport}: {check.iso(watermark)} behind event {seen}"
        for airport, points in done.watermarks.items()
        for seen, watermark in points
        if seen and watermark != right.placed[airport][seen - 1].watermark
    ]
    return found


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TideglassError as error:
        sys.exit(str(error))
