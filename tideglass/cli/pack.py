"""`tideglass pack`: the environment of a job as one archive, for the executors of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def pack(
    file: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="The archive to write.")
    ] = Path("env.tar.gz"),
    more: Annotated[
        list[str] | None, typer.Option("--with", metavar="PACKAGE", help="An installed package to add.")
    ] = None,
) -> None:
    """Write an archive with Python, tideglass and all it needs, for executors that have none of it.

    Spark takes it by `--archives env.tar.gz#env` and PYSPARK_PYTHON=./env/bin/python.
    """
    from tideglass.spark.environment_archive import write_environment

    count = write_environment(file, more or ())
    typer.echo(f"{file} ({file.stat().st_size / 1e6:,.0f} MB, {count} packages)")
    typer.echo(f"  spark-submit --archives {file}#env --conf spark.pyspark.python=./env/bin/python ...")
