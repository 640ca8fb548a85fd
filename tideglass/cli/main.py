"""The command `tideglass`: one function a command, each in the module of its name.

Modules of commands import nothing heavy when they are loaded, so that the command answers at once;
what a command needs (DuckDB, Arrow, Spark) is imported inside it. An error we raise on purpose is
printed as it is, for the person who wrote the query, and ends the command with exit code 1.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Annotated

import typer

from tideglass.cli import (
    check,
    estimate,
    explain,
    launcher_path,
    new,
    pack,
    page,
    peek,
    play,
    prepare,
    restart,
    run,
    runs,
    simulate,
    start,
    status,
    stop,
    test,
    top,
    why,
)
from tideglass.core.errors import TideglassError
from tideglass.core.masking import mask_tracebacks

app = typer.Typer(
    name="tideglass",
    help="Azure Stream Analytics jobs, unchanged, on Apache Spark, with exact treatment of time.",
    no_args_is_help=True,
    add_completion=False,
    # A traceback is for us; users get the message. `--debug` shows the plain one.
    pretty_exceptions_enable=False,
)
#: Name and function of every command, in the order the help lists them.
COMMANDS = {
    "new": new.new,
    "check": check.check,
    "explain": explain.explain,
    "estimate": estimate.estimate,
    "run": run.run,
    "start": start.start,
    "status": status.status,
    "why": why.why,
    "top": top.top,
    "runs": runs.runs,
    "page": page.page,
    "stop": stop.stop,
    "restart": restart.restart,
    "peek": peek.peek,
    "simulate": simulate.simulate,
    "play": play.play,
    "test": test.run_test_cases,
    "prepare": prepare.prepare,
    "launcher": launcher_path.launcher,
    "pack": pack.pack,
}
for command_name, command in COMMANDS.items():
    if command is start.start:
        app.command(command_name, context_settings=start.PASSES_ON, options_metavar=start.USAGE)(command)
    else:
        app.command(command_name)(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"tideglass {version('tideglass')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where in the program an error arose.")] = False,
) -> None:
    """Options of every command; `--debug` is taken anywhere on the line, see `main`."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; ends by SystemExit with the command's exit code."""
    mask_tracebacks()
    argv = page.with_port(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in argv
    # Spark warns of every pandas 3 at each import, and would put that before the answer of a command.
    # The tests run with pandas 3.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    try:
        app(args=[argument for argument in argv if argument != "--debug"], prog_name="tideglass")
    except TideglassError as error:
        if debug:
            raise
        print(error, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
