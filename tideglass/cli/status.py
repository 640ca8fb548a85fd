"""`tideglass status PROJECT`: what a job does now, or how its last run ended."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tideglass.cli.job import (
    ProjectArgument,
    RunDirOption,
    batches_text,
    catch_up_line,
    job_directory,
    print_lines,
    seconds_text,
    state_line,
)

if TYPE_CHECKING:
    from tideglass.job.report.status import InputStatus, Status

_START_WORDS = {
    "beginning": "at the beginning",
    "now": "at the time of its start",
    "time": "at an output time",
    "last-stopped": "where the run before had stopped",
}

JsonOption = Annotated[bool, typer.Option("--json", help="As one JSON value.")]


def status(
    project: ProjectArgument = Path("."), run_dir: RunDirOption = None, as_json: JsonOption = False
) -> None:
    """Show a job's state, watermark and delay of each input, counters, rows of each output, last error."""
    from tideglass.job.report.status import read_status

    directory = job_directory(project, run_dir)
    found = read_status(directory)
    if as_json:
        typer.echo(json.dumps(None if found is None else asdict(found), indent=1))
    elif found is None and directory.status.exists():
        typer.echo(f"{directory.status} cannot be read; the next run writes it anew")
    elif found is None:
        typer.echo(f"no job has run in {directory.path}")
    else:
        print_lines(status_lines(found))


def status_lines(found: Status) -> list[str]:
    """A status for people, a fact a line."""
    lines = [
        state_line(found),
        f"  {found.cause}",
        f"  state of generation {found.generation}, started {_START_WORDS[found.mode]}",
        f"  {batches_text(found.batches)}, {found.events:,} events in this run",
    ]
    if found.catching_up is not None:
        lines.append(f"  {catch_up_line(found.catching_up)}")
    lines += [f"  input {_input_line(each)}" for each in found.inputs]
    if found.watermark_delay_seconds is not None:
        lines.append(f"  watermark delay {seconds_text(found.watermark_delay_seconds)}")
    shown = [f"{name} {value:,}" for name, value in found.counters.items() if value]
    if shown:
        lines.append(f"  since the state began: {', '.join(shown)}")
    in_all = {**found.rows, **found.rows_in_all}  # an earlier version knew the rows of its run only
    for name, rows in in_all.items():
        of_run = found.rows.get(name, 0)
        more = f", {rows:,} since the state began" if rows != of_run else ""
        lines.append(f"  output {name}: {of_run:,} rows in this run{more}")
    if found.error:
        lines.append(f"  last error: {found.error}")
    return lines


def _input_line(each: InputStatus) -> str:
    delay = "" if each.delay_seconds is None else f", delay {seconds_text(each.delay_seconds)}"
    watermark = _to_the_second(each.watermark or "none yet")
    return f"{each.input}/{each.partition}: {each.events:,} events, watermark {watermark}{delay}"


def _to_the_second(time: str) -> str:
    """
    >>> _to_the_second("2026-01-01T00:02:25.0860000Z"), _to_the_second("end of input")
    ('2026-01-01T00:02:25Z', 'end of input')
    """
    seconds, point, _ = time.partition(".")
    return f"{seconds}Z" if point else time
