"""`tideglass play PROJECT`: a playground in the browser for a query, its events and the time policies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tideglass.cli.job import AllowOutsideOption
from tideglass.cli.notes import INPUT_HELP
from tideglass.cli.page import DEFAULT_PORT, AllowHostOption, HostOption, PortOption, TokenOption


def play(
    project: Annotated[
        Path | None,
        typer.Argument(help="A project: its query, settings and first events begin it."),
    ] = None,
    example: Annotated[
        bool, typer.Option("--example", help="The twelve events of the worked example of the ASA articles.")
    ] = False,
    files: Annotated[list[str] | None, typer.Option("--input", metavar="NAME=PATH", help=INPUT_HELP)] = None,
    allow_outside: AllowOutsideOption = False,
    port: PortOption = DEFAULT_PORT,
    host: HostOption = "127.0.0.1",
    token: TokenOption = None,
    allow_host: AllowHostOption = None,
) -> None:
    """Try a query on a few events, and move the tolerances: every decision, watermark and window at once."""
    from tideglass.core.errors import TideglassError
    from tideglass.page.application import Page
    from tideglass.page.job_table import JobTable
    from tideglass.page.server import Address, PageServer
    from tideglass.play.player import Player
    from tideglass.play.playgrounds import example as worked_example
    from tideglass.play.playgrounds import of_project
    from tideglass.project.input_option import input_options
    from tideglass.project.project import load_project

    if example == (project is not None):
        raise TideglassError("name one thing to play with: a project, or --example")
    playground = (
        worked_example()
        if project is None
        else of_project(load_project(project, allow_outside=allow_outside), input_options(files))
    )
    player = Player(playground)
    server = PageServer(Page(JobTable(), player=player), Address(host, port, token, tuple(allow_host or ())))
    player.start()
    typer.echo(f"playground: {server.url}")
    try:
        server.serve()
    finally:
        player.close()
