"""`tideglass estimate PROJECT`: what a restart of the job would read again, and how long that takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tideglass.cli.job import AllowOutsideOption, ProjectArgument
from tideglass.cli.notes import INPUT_HELP, report_warnings, reporting_notes
from tideglass.cli.run import pairs
from tideglass.core.time import span_text

if TYPE_CHECKING:
    from rich.table import Table

    from tideglass.job.estimate.estimate import Estimate


def estimate(
    project: ProjectArgument = Path("."),
    inputs: Annotated[list[str] | None, typer.Option("--input", metavar="NAME=PATH", help=INPUT_HELP)] = None,
    rates: Annotated[
        list[str] | None,
        typer.Option("--rate", metavar="NAME=N", help="Events per second of each partition of an input."),
    ] = None,
    retention: Annotated[
        list[str] | None,
        typer.Option("--retention", metavar="NAME=7d", help="How long the source of an input keeps events."),
    ] = None,
    speed: Annotated[
        float | None, typer.Option(min=1, help="Events per second the job reads when it catches up.")
    ] = None,
    start_seconds: Annotated[
        float, typer.Option(min=0, help="Seconds until it reads; --measure finds both.")
    ] = 0.0,
    gap: Annotated[str, typer.Option(help="Length of a failure to catch up after.")] = "5m",
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure the speed: restart a copy of the job on Spark.")
    ] = False,
    cores: Annotated[int | None, typer.Option(min=1, help="Cores of this machine to measure with.")] = None,
    allow_outside: AllowOutsideOption = False,
) -> None:
    """Estimate what a restart reads again, per input partition: events, time, memory."""
    from dataclasses import replace

    from rich.console import Console

    from tideglass.core.errors import ProjectError
    from tideglass.core.time import format_ticks
    from tideglass.job.estimate.estimate import Pace, measured
    from tideglass.job.estimate.estimate import estimate as estimate_of
    from tideglass.job.estimate.measure import experiment
    from tideglass.job.options import RunOptions
    from tideglass.job.plan import plan_job
    from tideglass.plan.read_back import read_backs
    from tideglass.project.input_option import input_options
    from tideglass.project.project import load_project

    options = RunOptions(inputs=input_options(inputs), once=True, cores=cores)
    loaded = load_project(project, allow_outside=allow_outside)
    with reporting_notes(loaded.unsupported):
        job = plan_job(loaded, options)
    report_warnings(*loaded.warnings, *job.warnings)
    rate_of = {name: _number("--rate", text) for name, text in pairs(rates, "--rate").items()}
    kept = {name: _ticks("--retention", text) for name, text in pairs(retention, "--retention").items()}
    unknown = [name for name in (*rate_of, *kept) if name not in job.inputs]
    if unknown:
        raise ProjectError(f"the query reads no input {unknown[0]!r}; it reads {', '.join(job.inputs)}")
    streams = [
        replace(each, events_per_second=rate_of.get(name, each.events_per_second))
        for name, source in job.inputs.items()
        for each in measured(source)
    ]
    console = Console(highlight=False)
    newest_ticks = max((each.newest_ticks for each in streams if each.newest_ticks is not None), default=None)
    pace = None if speed is None else Pace(speed, start_seconds)
    if measure and newest_ticks is not None:
        took = experiment(loaded, options, newest_ticks)
        pace = took.pace
        console.print(
            f"restarted at {format_ticks(newest_ticks)}: {took.events:,} events in {took.seconds:.1f}s, "
            f"{pace.start_seconds:.1f}s to start and {pace.speed:,.0f} events/s from then on"
        )
        console.print(f"its processes took {took.peak_bytes / 2**20:,.0f} MB of memory at most")
    backs = read_backs(job.compiled.plan, job.compiled.topology)
    found = estimate_of(streams, backs, pace, kept)
    console.print(estimate_table(found))
    for line in estimate_lines(found, _ticks("--gap", gap)):
        console.print(line, markup=False)


def estimate_table(found: Estimate) -> Table:
    """A row per input partition."""
    from rich import box
    from rich.table import Table

    from tideglass.project.settings import format_duration

    table = Table(box=box.SIMPLE_HEAD, title="a restart reads again", title_justify="left", padding=0)
    for name in ("input", "part", "events/s", "back", "events", "time", "held at most"):
        table.add_column(name, justify="left" if name in ("input", "part") else "right")
    for each in found.replays:
        back_ticks = each.read_back_ticks
        table.add_row(
            each.stream.input,
            each.stream.partition,
            f"{each.stream.events_per_second:,.1f}",
            "all" if back_ticks is None else format_duration(back_ticks),
            f"{each.events:,}",
            "-" if found.pace is None else span_text(each.events / found.pace.speed),
            f"{each.state_bytes / 2**20:,.1f} MB",
        )
    return table


def estimate_lines(found: Estimate, gap_ticks: int) -> list[str]:
    """The estimate in sentences, and what to be warned of."""
    from tideglass.project.settings import format_duration

    seconds, caught_up = found.seconds, found.catch_up_seconds(gap_ticks)
    lines = [f"{found.events:,} events in all"]
    if seconds is None or caught_up is None:
        lines.append("how long that takes depends on the speed of the job: --measure it, or say --speed N")
    else:
        lines[0] += f", in about {span_text(seconds)} from the start of the process"
        gap = format_duration(gap_ticks)
        lines.append(f"after a failure of {gap} the job catches up in about {span_text(caught_up)}")
    for each in found.replays:
        if each.is_short:
            back_ticks = each.read_back_ticks
            needed = "all events" if back_ticks is None else f"those of {format_duration(back_ticks)}"
            lines.append(
                f"warning: the source of {each.stream.input!r} keeps events for "
                f"{format_duration(each.retention_ticks)}, a restart needs {needed}: its first windows "
                f"would be partial (partition {each.stream.partition})"
            )
    return lines


def _number(option: str, text: str) -> float:
    from tideglass.core.errors import ProjectError

    try:
        return float(text)
    except ValueError as error:
        raise ProjectError(f"{option} {text!r} is no number of events per second") from error


def _ticks(option: str, text: str) -> int:
    from tideglass.core.errors import ProjectError
    from tideglass.project.settings import parse_duration_ticks

    try:
        ticks = parse_duration_ticks(text)
    except ValueError as error:
        raise ProjectError(f"{option}: {error}") from error
    if ticks is None:
        raise ProjectError(f"{option}: {text!r} is no length of time")
    return ticks
