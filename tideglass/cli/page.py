"""`tideglass page DIR`: the page of a job, or of all jobs below a folder, beside their runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tideglass.cli.job import RunDirOption, job_directory

if TYPE_CHECKING:
    from tideglass.page.job_table import JobTable
    from tideglass.page.server import Address

DEFAULT_PORT = 8470
#: Where a token is taken from that is to be in no command line.
TOKEN_VARIABLE = "TIDEGLASS_PAGE_TOKEN"

HostOption = Annotated[
    str, typer.Option(help="Address to listen on; any but this machine's demands a token.")
]
PortOption = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for any that is free.")]
TokenOption = Annotated[
    str | None,
    typer.Option(envvar=TOKEN_VARIABLE, help="What a browser has to know; generated when it is needed."),
]
AllowHostOption = Annotated[
    list[str] | None,
    typer.Option("--allow-host", metavar="NAME", help="A host name it is reached by, as behind a proxy."),
]
#: Of `tideglass run`; `with_port` puts the default where no port follows.
RunPageOption = Annotated[
    str | None,
    typer.Option(
        "--page", metavar="[[HOST:]PORT]", help=f"Serve the job's page while it runs, at {DEFAULT_PORT}."
    ),
]

_PLACE = re.compile(r"(?:(?P<host>[^\s:]+|\[[0-9a-fA-F:]+\]):)?(?P<port>\d+)")


def page(
    path: Annotated[str, typer.Argument(help="A project, a job directory, or a folder of many jobs.")] = ".",
    port: PortOption = DEFAULT_PORT,
    host: HostOption = "127.0.0.1",
    token: TokenOption = None,
    allow_host: AllowHostOption = None,
    run_dir: RunDirOption = None,
) -> None:
    """Serve the page of a job that runs or has run, or of all jobs below a folder, until interrupted."""
    from tideglass.page.application import Page
    from tideglass.page.server import Address, PageServer

    table = job_table(path, run_dir)
    server = PageServer(Page(table), Address(host, port, token, tuple(allow_host or ())))
    typer.echo(f"page: {server.url}")
    if not table.jobs():
        typer.echo(f"no job has run below {path} yet; one that starts shows by itself")
    server.serve()


def job_table(path: str, run_dir: str | None) -> JobTable:
    """The jobs a path names: one that is a project or a job directory, else all below a folder.

    Raises ProjectError for a path that is nothing of that.
    """
    from tideglass.core.errors import ProjectError
    from tideglass.job.directory import JobDirectory
    from tideglass.page.job_table import JobTable, is_job_directory

    if run_dir is None and is_job_directory(path):
        return JobTable(directory=JobDirectory.at(path))
    try:
        return JobTable(directory=job_directory(Path(path), run_dir))
    except ProjectError:
        if run_dir is not None or not Path(path).is_dir():
            raise
    return JobTable(root=Path(path).resolve())


def run_address(place: str) -> Address:
    """The address of `run --page PLACE`. Raises ProjectError for one that is none."""
    import os

    from tideglass.core.errors import ProjectError
    from tideglass.page.server import Address

    found = _PLACE.fullmatch(place)
    if found is None or int(found["port"]) > 65535:
        raise ProjectError(f"--page {place!r} is no [HOST:]PORT")
    host = (found["host"] or "127.0.0.1").strip("[]")
    return Address(host, int(found["port"]), os.environ.get(TOKEN_VARIABLE))


def with_port(arguments: Sequence[str]) -> list[str]:
    """The words of a command line with a port for each `--page` that has none: its value may be left out.

    >>> with_port(["run", "--page", "heat"]), with_port(["run", "--page", "9000"])
    (['run', '--page=8470', 'heat'], ['run', '--page=9000'])
    """
    found: list[str] = []
    words = iter(arguments)
    for word in words:
        if word != "--page":
            found.append(word)
            continue
        following = next(words, None)
        if following is not None and _PLACE.fullmatch(following):
            found.append(f"--page={following}")
        else:
            # The word after it may be `--page` again, which a command takes no worse than the first.
            found += [f"--page={DEFAULT_PORT}", *([] if following is None else [following])]
    return found
