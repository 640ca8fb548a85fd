"""`tideglass top PROJECT`: a job in the terminal, refreshing, with keys to go into its parts."""

from __future__ import annotations

import sys
from pathlib import Path

from tideglass.cli.job import ProjectArgument, RunDirOption, job_directory


def top(project: ProjectArgument = Path("."), run_dir: RunDirOption = None) -> None:
    """Show a job, running or dead, in the terminal: steps, inputs, outputs, substreams, batches, errors.

    It is read from the job directory every two seconds; q leaves, ? shows the keys.
    """
    from tideglass.core.errors import TideglassError
    from tideglass.terminal.job_snapshot import read_snapshot

    # A directory that is named needs no project.
    directory = job_directory(project, run_dir)
    first = read_snapshot(directory)
    if first is None:
        raise TideglassError(f"no job has run in {directory.path}\n  hint: tideglass run or tideglass start")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise TideglassError("top needs a terminal\n  hint: tideglass status, or status --json for programs")
    from tideglass.terminal.app import TopApp

    TopApp(directory, first).run()
