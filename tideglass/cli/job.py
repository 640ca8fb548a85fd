"""What commands about a running job share: where its directory is, and how its state is shown."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tideglass.core.time import span_text

if TYPE_CHECKING:
    from tideglass.job.directory import JobDirectory
    from tideglass.job.report.run_journal import RunEnd, RunStart
    from tideglass.job.report.status import CatchUpStatus, Status
    from tideglass.job.work_layout import Layout

ProjectArgument = Annotated[
    Path, typer.Argument(help="A project's folder, its asaproj.json, or a query file.")
]
AllowOutsideOption = Annotated[
    bool, typer.Option("--allow-outside", help="The project may name files outside of its folder.")
]
RunDirOption = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER", help="Where checkpoint and journals are: a folder, or a URI as Spark reads it."
    ),
]


def job_directory(project: Path, run_dir: str | None) -> JobDirectory:
    """The directory that is named, else that of a project's job.

    Raises ProjectError when neither is there to look at.
    """
    from tideglass.job.directory import JobDirectory

    if run_dir is not None:
        return JobDirectory.at(run_dir)
    from tideglass.project.listing import project_entry

    return JobDirectory.of_project(project_entry(project).folder)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines for people; on a terminal none is broken within a word."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    typer.echo("\n".join(wrapped(lines, width)))


def wrapped(lines: Iterable[str], width: int | None) -> list[str]:
    """Lines broken between words where they are longer than `width`; None: as they are.

    >>> wrapped(["  input toll/0: 76,619 events"], 20)
    ['  input toll/0:', '      76,619 events']
    """
    result: list[str] = []
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        parts = (
            [line]
            if width is None
            else textwrap.wrap(
                line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
            )
        )
        result += parts or [line]
    return result


def state_line(status: Status) -> str:
    """The state of a job in one line."""
    from tideglass.job.report.status import JobState

    line = f"{status.job}: {status.state}"
    if status.state in (JobState.STOPPED, JobState.FAILED):
        return f"{line}, run {status.run} ended {status.updated}"
    return f"{line}, run {status.run} since {status.since} (process {status.pid} on {status.host})"


def start_lines(start: RunStart) -> list[str]:
    """Why and from where a run begins, and what has changed since the last one."""
    return [
        f"run {start.run}: {start.cause}, from {start.began_from}",
        *layout_lines(start.layout, of_machine=False),
        *change_lines(start),
    ]


def layout_lines(layout: Layout | None, *, of_machine: bool = True) -> list[str]:
    """How the work is split. of_machine: also where it is one core of this machine for every key group."""
    if layout is None or not (of_machine or layout.executors or layout.cores != layout.key_groups):
        return []
    return [f"  {layout.words}", *(f"  note: {note}" for note in layout.notes)]


def change_lines(start: RunStart) -> list[str]:
    """What has changed since the run before, unless that is the cause of the start."""
    return [f"  changed: {change}" for change in start.changes if change not in start.cause]


def catch_up_line(at: CatchUpStatus) -> str:
    """How much a run has read of what was there when it started, in one line."""
    line = f"catching up from {at.began_from}: "
    if at.events_expected is None or at.events_per_second is None or at.seconds_left is None:
        return line + f"{span_text(at.seconds)} so far, no batch is done yet"
    return (
        line + f"{at.events:,} of about {at.events_expected:,} events ({at.share:.0%}), "
        f"{at.events_per_second:,.0f}/s, about {span_text(at.seconds_left)} left"
    )


def end_line(end: RunEnd) -> str:
    """How a run ended, in one line."""
    rows = sum(end.rows.values())
    return f"run {end.run} {end.how}: {batches_text(end.batches)}, {end.events:,} events, {rows:,} rows"


def batches_text(count: int) -> str:
    """
    >>> batches_text(0), batches_text(1), batches_text(1000)
    ('0 batches', '1 batch', '1,000 batches')
    """
    return f"{count:,} batch" + ("" if count == 1 else "es")
