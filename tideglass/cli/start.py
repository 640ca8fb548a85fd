"""`tideglass start PROJECT`: run a job in the background, by the same runner as `tideglass run`."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tideglass.cli import run
from tideglass.cli.job import catch_up_line, job_directory, print_lines, state_line

if TYPE_CHECKING:
    from tideglass.job.directory import JobDirectory
    from tideglass.job.report.status import Status

_LOOK_SECONDS = 0.1

#: Everything after the command is for `tideglass run`, which reads it.
PASSES_ON = {"ignore_unknown_options": True, "allow_extra_args": True}
USAGE = "[PROJECT] [OPTIONS OF run]"


def start(context: typer.Context) -> None:
    """Run a job in the background; takes PROJECT and the options of `tideglass run`.

    Answers once the job runs, or with what kept it from running; it prints to `job.log` in its directory.
    """
    launch(context.args, Path.cwd())


def directory_of(arguments: Sequence[str]) -> JobDirectory:
    """The job directory that arguments of `tideglass run` name. Usage errors end the command."""
    parser = typer.Typer(add_completion=False)
    parser.command()(run.run)
    parameters: dict[str, Any] = typer.main.get_command(parser).make_context("start", list(arguments)).params
    return job_directory(Path(parameters["project"]), parameters["run_dir"])


def launch(arguments: Sequence[str], folder: Path) -> None:
    """Start `tideglass run` with these arguments in this folder, away from the terminal; wait until it runs.

    Raises StateError when a run is under way; ends by SystemExit with its exit code when it ends at once.
    """
    from tideglass.core.errors import StateError
    from tideglass.job.lock import running

    directory = directory_of(arguments)
    holder = running(directory)
    if holder is not None:
        raise StateError(f"the job runs already: {holder.words}\n  hint: `tideglass restart` starts it anew")
    directory.path.mkdir()
    directory.logs.mkdir(parents=True, exist_ok=True)
    with directory.log.open("ab") as log:
        began = log.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "tideglass.cli.main", "run", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            start_new_session=True,
        )
    status = _until_it_runs(process, directory)
    if status is None:
        with directory.log.open("rb") as log:
            log.seek(began)
            typer.echo(log.read().decode(errors="replace").rstrip(), err=process.returncode != 0)
        raise SystemExit(process.returncode)
    lines = [state_line(status), status.cause]
    if status.catching_up is not None:
        lines.append(catch_up_line(status.catching_up))
    with directory.log.open("rb") as log:
        log.seek(began)
        printed = log.read().decode(errors="replace").splitlines()
    lines += [line for line in printed if line.startswith(("page: ", "metrics at "))]
    print_lines([*lines, f"log: {directory.log}"])


def _until_it_runs(process: subprocess.Popen[bytes], directory: JobDirectory) -> Status | None:
    """The job's status once its first batch is done or it waits for events; None when it ends before."""
    from tideglass.job.report.status import JobState, read_status

    while process.poll() is None:
        status = read_status(directory)
        if status is not None and status.pid == process.pid and status.state is not JobState.STARTING:
            return status
        time.sleep(_LOOK_SECONDS)
    return None
