"""`tideglass runs PROJECT`: the runs of a job, newest first."""

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
    change_lines,
    job_directory,
    layout_lines,
    print_lines,
)
from tideglass.cli.status import JsonOption
from tideglass.core.time import span_text

if TYPE_CHECKING:
    from tideglass.job.report.run_journal import Run


def runs(
    project: ProjectArgument = Path("."),
    run_dir: RunDirOption = None,
    limit: Annotated[int, typer.Option(min=1, help="So many of the newest.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """List a job's runs: when, why, from where, what had changed, how each ended and what it did."""
    from tideglass.job.lock import running
    from tideglass.job.report.run_journal import read_runs

    directory = job_directory(project, run_dir)
    found = read_runs(directory.journal)[::-1][:limit]
    goes_on = running(directory) is not None
    if as_json:
        typer.echo(json.dumps([asdict(run) for run in found], indent=1))
        return
    if not found:
        typer.echo(f"no job has run in {directory.path}")
    for place, run in enumerate(found):
        print_lines(run_lines(run, goes_on=goes_on and place == 0))


def run_lines(run: Run, *, goes_on: bool) -> list[str]:
    """A run for people. goes_on: it is under way; else one without an end was killed."""
    start, end = run.start, run.end
    how = end.how.value if end else "under way" if goes_on else "killed"
    until = f" to {end.ended}" if end else ""
    lines = [
        f"run {start.run}: {how}, {start.started}{until}",
        f"  {start.cause}, from {start.began_from}; state of generation {start.generation}",
        *layout_lines(start.layout),
        *change_lines(start),
    ]
    if end is not None:
        rows = "".join(f", {count:,} rows to {name}" for name, count in end.rows.items())
        lines.append(f"  {batches_text(end.batches)}, {end.events:,} events{rows}")
        if end.caught_up_seconds is not None:
            lines.append(f"  caught up after {span_text(end.caught_up_seconds)}")
        if end.error:
            lines.append(f"  error: {end.error.splitlines()[0]}")
    return lines
