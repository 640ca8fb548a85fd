"""`tideglass restart PROJECT`: stop a job if it runs, and start it as it was started last."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tideglass.cli.job import ProjectArgument, RunDirOption, job_directory
from tideglass.cli.spark_options import ConfOption, MasterOption, replaced_conf
from tideglass.cli.start import launch
from tideglass.cli.stop import WaitOption, stop_run


def restart(
    project: ProjectArgument = Path("."),
    run_dir: RunDirOption = None,
    wait: WaitOption = 120.0,
    key_groups: Annotated[
        int | None, typer.Option(min=1, help="Pieces a stage's keys are split into from now on.")
    ] = None,
    master: MasterOption = None,
    conf: ConfOption = None,
) -> None:
    """Stop a job after its batch, if it runs, and start it in the background with the options it had."""
    from tideglass.core.errors import StateError
    from tideglass.job.report.run_journal import read_runs

    directory = job_directory(project, run_dir)
    runs = read_runs(directory.journal)
    if not runs:
        raise StateError(f"no job has run in {directory.path}\n  hint: begin with `tideglass start`")
    last = runs[-1].start
    if last.arguments is None:
        raise StateError(
            f"run {last.run} was not started by a command\n  hint: say how, with `tideglass start`"
        )
    stop_run(directory, wait_seconds=wait)
    changed = [] if key_groups is None else ["--key-groups", str(key_groups)]
    changed += [] if master is None else ["--master", master]
    launch([*replaced_conf(last.arguments, conf or ()), *changed], Path(last.folder))
