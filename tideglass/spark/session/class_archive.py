"""Spark's classes as the JVM holds them in memory, kept in a file: no start has to read and check them again.

A JVM that starts with the file maps it into its memory, which takes half of the processor time out of its
start. It belongs to one Java and one installation of Spark; a JVM that it does not fit goes on without it. A
JVM writes it at its end, of the classes it has met (`tideglass prepare`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from tideglass.core.errors import TideglassError
from tideglass.spark.session.java import own_folder

#: In the environment: the file that the JVM of this process is to write.
_WRITTEN = "TIDEGLASS_WRITTEN_CLASSES"


def archive() -> Path:
    return own_folder() / "classes.jsa"


def archive_options() -> str:
    """The options of a JVM for the file: to write it, to use it, or none."""
    if _WRITTEN in os.environ:
        return f'"-XX:ArchiveClassesAtExit={os.environ[_WRITTEN]}"'
    # One that does not fit needs no message: the start takes as long as without it.
    return f'"-XX:SharedArchiveFile={archive()}" -Xlog:cds=off' if archive().exists() else ""


def write_archive(rehearse: Callable[[], object]) -> Path:
    """Write the file anew, of the classes `rehearse` needs; where it is.

    rehearse: starts the session of this process, which has none yet, and runs a job in it. It is gone then.
    Raises TideglassError when the JVM writes no file.
    """
    path = archive()
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.stem}-{os.getpid()}.jsa")
    os.environ[_WRITTEN] = str(part)
    try:
        rehearse()
    finally:
        del os.environ[_WRITTEN]
    from pyspark import SparkContext

    context = cast("Any", SparkContext)
    if context._active_spark_context is not None:
        # Whoever listens to the JVM would tell on the terminal that it has gone.
        context._active_spark_context._accumulatorServer.handle_error = _untold
    jvm = context._gateway.proc
    jvm.stdin.close()  # it ends when its job does
    if jvm.wait() or not part.exists():
        raise TideglassError(
            f"Java ended with code {jvm.returncode} and has written no archive of its classes"
        )
    part.replace(path)
    return path


def _untold(*_: object) -> None:
    """An error that is not reported."""
