"""`tideglass peek`: the newest events of an input, and what becomes of each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tideglass.cli.job import AllowOutsideOption
from tideglass.cli.notes import INPUT_HELP, report_warnings

if TYPE_CHECKING:
    from tideglass.job.options import JobPlan, RunOptions
    from tideglass.plan.topology import Reader
    from tideglass.project.project import Project

#: Read at most, about, and looked for at most.
MOST_BYTES, MOST_SECONDS = 16 << 20, 30.0
MOST_EVENTS = 1000
_WIDTH_OF_A_FILE = 100


def peek(
    project: Annotated[Path, typer.Argument(help="A project.")],
    name: Annotated[str, typer.Argument(metavar="INPUT", help="The stream input to look at.")],
    events: Annotated[int, typer.Option(min=1, max=MOST_EVENTS, help="How many events are shown.")] = 10,
    live: Annotated[
        bool, typer.Option("--live", help="Look where a live run reads: a topic, a hub, blobs.")
    ] = False,
    files: Annotated[list[str] | None, typer.Option("--input", metavar="NAME=PATH", help=INPUT_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, an event a line.")] = False,
    endpoints: Annotated[
        list[str] | None,
        typer.Option("--endpoint", metavar="HOST=URL", help="What stands in for a host of Azure."),
    ] = None,
    allow_outside: AllowOutsideOption = False,
) -> None:
    """Show the newest events of an input with their metadata, and what the time policies do to them.

    A running job is not disturbed: nothing is committed, marked or written.
    """
    import json
    import os
    import shutil
    import sys

    from tideglass.core.errors import ProjectError
    from tideglass.job.options import RunOptions
    from tideglass.project.input_option import input_options
    from tideglass.project.project import load_project
    from tideglass.simulate.sample import counts_in_words, lines_of, masked_controls, sample
    from tideglass.storage import StorageOptions

    if endpoints:
        from tideglass.connect.azure.endpoints import ENDPOINTS, with_endpoints

        os.environ[ENDPOINTS] = with_endpoints(endpoints, os.environ)
    loaded = load_project(project, allow_outside=allow_outside)
    declared = next((each for key, each in loaded.inputs.items() if key.casefold() == name.casefold()), None)
    if declared is not None and declared.kind == "reference":
        raise ProjectError(f"the input {declared.name!r} is reference data, which has no events")
    if live and declared is not None and declared.live is not None:
        StorageOptions(tuple(sorted(declared.live.storage_settings().items()))).put_into(os.environ)
    options = RunOptions(inputs=input_options(files), live=live, once=True, key_groups=1)
    job, reader = _planned(loaded, options, declared.name if declared is not None else name)
    report_warnings(*job.warnings)
    found = sample(job, reader, os.environ, events, MOST_BYTES, MOST_SECONDS)
    if as_json:
        for each in found.events:
            print(json.dumps(each.plain(), default=str))
        for partition, refused in found.refused:
            print(
                json.dumps(
                    {"partition": partition, "refused": refused.error_type, "count": refused.count}
                    | {"reason": refused.message, "examples": refused.examples}
                )
            )
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDTH_OF_A_FILE
    for line in lines_of(found, width):
        print(line)
    where = f"{len(found.partitions)} partition{'' if len(found.partitions) == 1 else 's'}"
    print(masked_controls(f"{reader.input}, {where}: {counts_in_words(found)}"))


def _planned(project: Project, options: RunOptions, name: str) -> tuple[JobPlan, Reader]:
    """The job as far as this input goes; as if it were read by arrival where the query does not help."""
    from dataclasses import replace

    from tideglass.core.errors import QueryError, Source
    from tideglass.job.plan import plan_job
    from tideglass.simulate.events import reader_of

    try:
        job = plan_job(project, options, only=name)
        if name.casefold() in (each.casefold() for each in (*job.inputs, *job.topics)):
            return job, reader_of(job, name)
        reason = "the query does not read this input"
    except QueryError:
        reason = "the query has errors"
    report_warnings(f"{reason}, so events are shown as if each were timed by its arrival")
    plain = Source(f"SELECT * INTO [output of peek] FROM [{name}]", "peek")
    job = plan_job(replace(project, query=plain, outputs={}), options, only=name)
    return job, reader_of(job, name)
