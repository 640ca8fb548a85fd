"""`tideglass stop PROJECT`: ask the process that runs a job to end, and wait until it has."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tideglass.cli.job import ProjectArgument, RunDirOption, end_line, job_directory, print_lines, state_line

if TYPE_CHECKING:
    from tideglass.job.directory import JobDirectory

_LOOK_SECONDS = 0.1

WaitOption = Annotated[
    float, typer.Option("--wait", metavar="SECONDS", help="How long to wait until the run has ended.")
]


def stop(
    project: ProjectArgument = Path("."),
    run_dir: RunDirOption = None,
    now: Annotated[
        bool, typer.Option("--now", help="Break the batch under way off; it is run again.")
    ] = False,
    wait: WaitOption = 120.0,
) -> None:
    """Stop a running job after the batch under way; the next start goes on where it was."""
    directory = job_directory(project, run_dir)
    if not stop_run(directory, now=now, wait_seconds=wait):
        from tideglass.job.report.status import read_status

        status = read_status(directory)
        print_lines([state_line(status) if status else f"no job has run in {directory.path}"])


def stop_run(directory: JobDirectory, *, now: bool = False, wait_seconds: float) -> bool:
    """Stop the run in a directory and wait for its end; False when none is under way.

    Raises StateError when it has not ended in time; it still will.
    """
    from tideglass.core.errors import StateError
    from tideglass.job.directory import AT_ONCE
    from tideglass.job.lock import running
    from tideglass.job.report.run_journal import read_runs

    holder = running(directory)
    if holder is None:
        return False
    directory.stop.write_text(AT_ONCE if now else "")
    print_lines([f"asked to stop {'at once' if now else 'after its batch'}: {holder.words}"])
    until_seconds = time.monotonic() + wait_seconds
    while running(directory) is not None:
        if time.monotonic() > until_seconds:
            raise StateError(
                f"{holder.words} has not ended within {wait_seconds:g} s; it still will, after its batch\n"
                "  hint: wait longer with --wait, or break the batch off with --now"
            )
        time.sleep(_LOOK_SECONDS)
    runs = read_runs(directory.journal)
    if runs and runs[-1].end is not None:
        print_lines([end_line(runs[-1].end)])
    return True
