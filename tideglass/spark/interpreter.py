"""The Python of Spark's workers: whether it can run a query, checked before Spark starts it.

Spark starts `PYSPARK_PYTHON` for its workers, else whatever `python3` is, which in a virtual environment
need not be the Python one is in.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from tideglass.core.errors import TideglassError
from tideglass.spark.server_interpreter import see_server
from tideglass.spark.session.session_kind import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: What to do, before what is wrong: the text goes on with a colon.
REMEDY = f"Set PYSPARK_PYTHON={sys.executable} before the Spark session is made"

_NEEDED = ("tideglass", "pyarrow", "duckdb")
_LOOK = f"""
import sys
from importlib.util import find_spec
print(*sys.version_info[:2], sep=".")
print(*(name for name in {_NEEDED!r} if find_spec(name) is None))
"""
_MOST_SECONDS = 60

_seen: set[str] = set()


def see_interpreter(spark: SparkSession) -> None:
    """Check that workers on this machine run a Python of this version that has what a query needs.

    The Python of other machines is not checked. Raises TideglassError with the remedy.
    """
    if is_connect(spark):
        see_server(spark)
        return
    context = spark.sparkContext
    program = str(context.pythonExec)
    if program not in _seen and str(context.master).startswith("local"):
        see_program(program)
        _seen.add(program)


def trust(program: str) -> None:
    """A program that is known to run this very Python is not checked."""
    _seen.add(program)


def see_program(program: str) -> None:
    """Raises TideglassError for a Python of another version or without what a query needs."""
    if shutil.which(program) == shutil.which(sys.executable):
        return
    workers = f"the Python of Spark's workers, {program},"
    try:
        done = subprocess.run(
            [program, "-c", _LOOK], capture_output=True, text=True, timeout=_MOST_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise TideglassError(f"{REMEDY}: {workers} cannot be started ({error}).") from error
    version, missing = (*done.stdout.split("\n"), "", "")[:2]
    ours = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if version != ours:
        raise TideglassError(f"{REMEDY}: {workers} is Python {version}, and this is Python {ours}.")
    if missing:
        raise TideglassError(f"{REMEDY}: {workers} has no package {', '.join(missing.split())}.")
