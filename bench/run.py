"""Measures tideglass beside its rivals: the same files, one machine, runs in turn.

    make bench                                             a few scenarios, 4 M events, 3 rounds
    python bench/run.py --scenario all --events 10000000 --small 1000000 --rounds 5
    python bench/run.py --list

First every entrant runs the small input and its rows are compared (agreement.py); nothing is timed before
they agree. Then each round runs every entrant once over the small and once over the large input, each run
in processes of its own. A rate is the events the large input has more, over the seconds its run took more,
which takes start-up out. A run beyond --limit is stopped and its entrant not run again: its rate is a bound.
Every single run is kept in bench/results.json; bench/rates.svg shows the rates.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType

from rich.console import Console

from agreement import Disagreement, compare
from data import CACHE, HERE, Prepared
from figures import Round, figures_of, verdicts
from kafka_input import Topics, running_topics
from measure import Measured, RunFailed, measure
from picture import draw, rates_of
from report import Outcome, table, write
from restarts import RESTARTS, RestartOutcome, Restarts
from rivals.flink_home import HEAP, flink_python
from scenarios import FLOOR, SCENARIOS, SPARK, Entrant, Scenario
from tideglass.spark.session.java import use_java

DEFAULT = ("tumbling", "hopping", "session", "join", "small-batch")
RESULTS = HERE / "results.json"
PICTURE = HERE / "rates.svg"


class Bench:
    """Runs scenarios as the options say and tells the console."""

    def __init__(self, options: argparse.Namespace, console: Console) -> None:
        self.options = options
        self.console = console
        self._topics: Topics | None = None

    def run(self, scenario: Scenario) -> Outcome:
        """Agreement, then rounds. A failure is in the outcome; what was measured before it stays.

        Raises JarsUnavailable where a broker is needed and cannot be had.
        """
        self.console.rule(f"{scenario.name}: {scenario.title}")
        if not any(each.topic for each in scenario.entrants):
            return self.measured(scenario)
        with running_topics() as self._topics:
            return self.measured(scenario)

    def measured(self, scenario: Scenario) -> Outcome:
        entrants = [each for each in scenario.entrants if self.takes_part(each)]
        merged = any(each.merged for each in entrants)
        outcome = Outcome(scenario)
        try:
            self.console.print("preparing the events …", style="dim")
            batches = scenario.batches
            large = scenario.data.prepare(batches.total_events if batches else self.options.events, merged)
            small = large if batches else scenario.data.prepare(self.options.small, merged)
            outcome.events, outcome.small_events = large.events, small.events
            self.agree(outcome, entrants, small)
            self.rounds(outcome, entrants, small, large)
        except (RunFailed, Disagreement, subprocess.CalledProcessError) as error:
            outcome.failure = str(error)
            self.console.print(f"{scenario.name} failed: {error}", style="red", markup=False)
        outcome.figures = {
            name: figures_of(rounds, scenario.batches) for name, rounds in outcome.rounds.items()
        }
        outcome.verdicts = verdicts(scenario, outcome.figures)
        if outcome.figures and not outcome.failure:
            self.console.print(table(outcome))
        return outcome

    def takes_part(self, entrant: Entrant) -> bool:
        named: list[str] | None = self.options.engine
        return named is None or entrant.program == "tideglass_run.py" or entrant.name in named

    def agree(self, outcome: Outcome, entrants: list[Entrant], small: Prepared) -> None:
        """Compare everybody's rows over the small input with DuckDB's. Raises Disagreement."""
        scenario = outcome.scenario
        floor = next(each for each in scenario.entrants if each.program == FLOOR.program)
        self.once(scenario, floor, small)
        expected = scenario.agreement.rows(self.out(floor), floor.rows)
        for entrant in (each for each in entrants if each is not floor):
            if not self.once(scenario, entrant, small).finished:
                outcome.agreement[entrant.name] = "not compared: it did not finish"
            else:
                rows = scenario.agreement.rows(self.out(entrant), entrant.rows)
                ours = entrant.program == "tideglass_run.py"
                try:
                    said = compare(
                        scenario.agreement,
                        scenario.data,
                        small.root,
                        expected,
                        rows,
                        exact=ours,
                        flushes=entrant.program != SPARK.program,
                    )
                except Disagreement as error:
                    raise Disagreement(f"{entrant.name} and {floor.name}: {error}") from error
                outcome.agreement[entrant.name] = str(said)
            self.console.print(f"  {entrant.name}: {outcome.agreement[entrant.name]}")

    def rounds(self, outcome: Outcome, entrants: list[Entrant], small: Prepared, large: Prepared) -> None:
        """Run everybody once a round, but who was stopped before."""
        scenario = outcome.scenario
        if scenario.batches:  # DuckDB has none; it was there for its rows
            entrants = [each for each in entrants if each.program != FLOOR.program]
        for number in range(self.options.rounds):
            self.console.print(f"round {number + 1} of {self.options.rounds}", style="dim")
            for entrant in entrants:
                done = outcome.rounds.setdefault(entrant.name, [])
                if all(each.large.finished for each in done):
                    done.append(self.round(scenario, entrant, small, large))

    def round(self, scenario: Scenario, entrant: Entrant, small: Prepared, large: Prepared) -> Round:
        if scenario.batches:
            return Round(large.events, self.once(scenario, entrant, large))
        first = self.once(scenario, entrant, small)
        if not first.finished:
            return Round(small.events, first)
        return Round(large.events - small.events, self.once(scenario, entrant, large), first)

    def once(self, scenario: Scenario, entrant: Entrant, data: Prepared) -> Measured:
        """One run. Raises RunFailed."""
        out = self.out(entrant)
        shutil.rmtree(out, ignore_errors=True)
        command = [self.python(entrant), str(HERE / entrant.program), *entrant.arguments]
        command += [
            "--query",
            scenario.query_of(entrant),
            "--data",
            str(data.merged if entrant.merged else data.root),
        ]
        command += [
            "--format",
            scenario.data.file_format,
            "--out",
            str(out),
            "--cores",
            str(self.options.cores),
        ]
        if entrant.topic and self._topics is not None:
            topic = self._topics.of(scenario.data, data)
            command += ["--broker", self._topics.address, "--topic", topic]
        if scenario.batches and entrant.program == "tideglass_run.py":
            size = sum(each.stat().st_size for each in data.root.rglob("*") if each.is_file())
            command += ["--batch-bytes", str(size * scenario.batches.events // data.events)]
        path = os.pathsep.join((str(HERE), str(HERE.parent)) if entrant.python == "ours" else (str(HERE),))
        environment = {**os.environ, "PYTHONPATH": path}
        if entrant.python == "flink":
            environment["JVM_ARGS"] = HEAP
        try:
            run = measure(command, environment, CACHE / "last.log", self.options.limit)
        except RunFailed as error:
            raise RunFailed(f"{entrant.name} failed:\n{error}") from error
        said = f"{run.seconds:.1f} s" if run.finished else f"stopped after {run.seconds:.0f} s"
        self.console.print(
            f"  {entrant.name}, {data.events:,} events: {said}, {run.peak_mib:,.0f} MiB", style="dim"
        )
        return run

    def out(self, entrant: Entrant) -> Path:
        return CACHE / "out" / entrant.name.replace(" ", "-")

    def python(self, entrant: Entrant) -> str:
        return sys.executable if entrant.python == "ours" else str(flink_python())


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure tideglass beside its rivals.")
    parser.add_argument(
        "--scenario", nargs="+", choices=(*SCENARIOS, *RESTARTS, "all"), default=list(DEFAULT)
    )
    parser.add_argument("--engine", nargs="+", help="rivals that take part; default: all of the scenario")
    parser.add_argument("--events", type=int, default=4_000_000, help="of the large input")
    parser.add_argument("--small", type=int, default=1_000_000, help="of the small input")
    parser.add_argument("--rounds", type=int, default=3, help="0: only compare the rows")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--limit", type=float, default=600, help="seconds a run may take")
    parser.add_argument("--list", action="store_true", help="name the scenarios and their bars, run nothing")
    return parser.parse_args(arguments)


def _stop(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


def main() -> int:
    options = options_of()
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 140  # a log has no width; the tables need this much
    if options.list:
        for scenario in SCENARIOS.values():
            console.print(f"[bold]{scenario.name}[/]: {scenario.title}")
            for bar in scenario.bars:
                console.print(f"    {bar.text}")
        for name, (title, _) in RESTARTS.items():
            console.print(f"[bold]{name}[/]: {title}")
        return 0
    # So that the runs under way are ended too: they lead sessions of their own.
    signal.signal(signal.SIGTERM, _stop)
    os.environ["JAVA_HOME"] = str(use_java().home)
    bench = Bench(options, console)
    restarts = Restarts(options.rounds, options.cores, options.limit, console)
    names = [*SCENARIOS, *RESTARTS] if "all" in options.scenario else options.scenario
    outcomes: list[Outcome | RestartOutcome] = []
    for name in names:
        outcomes.append(restarts.run(name) if name in RESTARTS else bench.run(SCENARIOS[name]))
        write(RESULTS, vars(options), outcomes)
    console.print(f"every run is in {RESULTS.relative_to(HERE.parent)}", style="dim")
    rates = rates_of(json.loads(RESULTS.read_text()))
    if rates:
        draw(rates, PICTURE)
        console.print(f"the rates are drawn in {PICTURE.relative_to(HERE.parent)}", style="dim")
    return 1 if any(each.failure for each in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
