"""`tideglass launcher`: the path of the file that spark-submit runs."""

from __future__ import annotations

from pathlib import Path

import typer

LAUNCHER = Path(__file__).parent / "launcher" / "tideglass_submit.py"


def launcher() -> None:
    """Print the path of the file that runs these commands in spark-submit."""
    typer.echo(LAUNCHER)
