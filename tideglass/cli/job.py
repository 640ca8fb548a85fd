"""What commands about a running job share: where its directory is, and how its state is told."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tideglass.job.directory import JobDirectory
    from tideglass.job.journal import RunEnd, RunStart
    from tideglass.job.status import CatchUpStatus, Status

ProjectArgument = Annotated[
    Path, typer.Argument(help="A project's folder, its asaproj.json, or a query file.")
]
RunDirOption = Annotated[Path | None, typer.Option(help="Where checkpoint and log live.")]


def job_directory(project: Path, run_dir: Path | None) -> JobDirectory:
    """The directory of a project's job. Raises ProjectError when there is no such project."""
    from tideglass.job.directory import JobDirectory
    from tideglass.job.files import project_entry

    return JobDirectory.of_project(project_entry(project).folder, run_dir)


def state_line(status: Status) -> str:
    """The state of a job in one line."""
    from tideglass.job.status import State

    line = f"{status.job}: {status.state}"
    if status.state in (State.STOPPED, State.FAILED):
        return f"{line}, run {status.run} ended {status.updated}"
    return f"{line}, run {status.run} since {status.since} (process {status.pid} on {status.host})"


def start_lines(start: RunStart) -> list[str]:
    """Why and from where a run begins, and what has changed since the last one."""
    lines = [f"run {start.run}: {start.cause}, from {start.began_from}"]
    return lines + [f"  changed: {change}" for change in start.changes]


def catch_up_line(at: CatchUpStatus) -> str:
    """How far a run has come in what was there when it started, in one line."""
    line = f"catching up from {at.began_from}: "
    if at.events_expected is None or at.events_per_second is None or at.seconds_left is None:
        return line + f"{seconds_text(at.seconds)} so far, no batch is done yet"
    return (
        line + f"{at.events:,} of about {at.events_expected:,} events ({at.share:.0%}), "
        f"{at.events_per_second:,.0f}/s, about {seconds_text(at.seconds_left)} left"
    )


def end_line(end: RunEnd) -> str:
    """How a run ended, in one line."""
    rows = sum(end.rows.values())
    return f"run {end.run} {end.how}: {end.batches:,} batches, {end.events:,} events, {rows:,} rows"


def seconds_text(seconds: float) -> str:
    """A length of time for people, no finer than a second.

    >>> seconds_text(0.4), seconds_text(75), seconds_text(7300)
    ('0s', '1m15s', '2h1m')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60}s"
    return f"{whole // 3600}h{whole % 3600 // 60}m"
