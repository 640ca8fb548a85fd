"""`tideglass why PROJECT [OUTPUT]`: why there is no output, from the job directory, in plain words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tideglass.cli.job import ProjectArgument, RunDirOption, job_directory, print_lines
from tideglass.cli.status import JsonOption

if TYPE_CHECKING:
    from tideglass.job.diagnosis.finding import Diagnosis, Finding

#: The exit code where something was found that somebody should look at.
FOUND = 1


def why(
    project: ProjectArgument = Path("."),
    output: Annotated[str | None, typer.Argument(help="What concerns this output alone.")] = None,
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say why a job, running or dead, has no output: worst cause first, each with evidence and remedy.

    Exit code 0: healthy, or what it waits for passes by itself; 1: something was found.
    """
    from tideglass.job.diagnosis.diagnose import diagnose_directory

    if run_dir is not None and output is None and not project.exists():
        project, output = Path("."), str(project)  # `tideglass why --run-dir DIR OUTPUT`
    directory = job_directory(project, run_dir)
    found = diagnose_directory(directory, query=_query(project))
    if output is not None:
        known = [each.output for each in found.next_rows]
        if known and output.casefold() not in map(str.casefold, known):
            raise typer.BadParameter(f"the job writes to {', '.join(known)}, not to {output!r}")
        found = found.of(output)
    if as_json:
        typer.echo(json.dumps(found.plain(), indent=1))
    else:
        print_lines(why_lines(found))
    if not found.healthy:
        raise typer.Exit(FOUND)


def _query(project: Path) -> str | None:
    """The text of the project's query; None where there is no project, or it cannot be read."""
    from tideglass.core.errors import TideglassError
    from tideglass.project.project import load_project

    try:
        return load_project(project).query.text
    except TideglassError:
        return None


def why_lines(found: Diagnosis) -> list[str]:
    """A diagnosis for people: the verdict, the findings, when the next rows are due."""
    lines = [f"{found.job}: {_verdict(found)}"] if found.job else []
    for each in found.findings:
        lines += finding_lines(each)
    if found.healthy:
        lines += [f"  {each.text}" for each in found.next_rows]
    return lines


def _verdict(found: Diagnosis) -> str:
    if found.healthy:
        return "healthy, finished" if found.state == "Stopped" else f"healthy ({found.state})"
    count = len(found.causes)
    return f"{count} cause{'' if count == 1 else 's'} found ({found.state})"


def finding_lines(finding: Finding) -> list[str]:
    """A finding for people: what, then the evidence, then the remedy."""
    lines = [f"{finding.severity}: {finding.text} [{finding.cause}]"]
    lines += [f"    {each}" for each in finding.evidence]
    return [*lines, f"  remedy: {finding.remedy}"] if finding.remedy else lines
