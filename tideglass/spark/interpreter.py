"""The Python of Spark's workers: whether it can run a query, checked before Spark runs one.

Spark starts `PYSPARK_PYTHON` for its workers, else whatever `python3` is: in a virtual environment that need
not be the Python one is in, and on another machine it is one of that machine.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from tideglass.core.errors import TideglassError
from tideglass.spark.server_interpreter import see_server
from tideglass.spark.session.session_kind import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: What to do, before what is wrong: the text goes on with a colon.
REMEDY = f"Set PYSPARK_PYTHON={sys.executable} before the Spark session is made"

#: The version of this Python, as far as workers must have the same.
_PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
_NEEDED = ("tideglass", "pyarrow", "duckdb")
_LOOK = f"""
import sys
from importlib.util import find_spec
print(*sys.version_info[:2], sep=".")
print(*(name for name in {_NEEDED!r} if find_spec(name) is None))
"""
_MOST_SECONDS = 60

#: How long a cluster may take until its executors have looked; the first look starts their Python.
_MOST_SECONDS_OF_EXECUTORS = 120.0
#: Packages with native code, which no archive of sources brings along, and our own.
_NEEDED_BY_TASKS = ("pyarrow", "duckdb", "numpy", "pandas", "numba", "py_mini_racer", "tideglass")
#: What a task looks for. It is sent as text, since a function of this module would need tideglass there.
_LOOK_OF_TASKS = f"""
def look(_):
    import sys
    from importlib import import_module
    from importlib.metadata import PackageNotFoundError, version
    from importlib.util import find_spec
    from socket import gethostname

    missing = []
    for name in {_NEEDED_BY_TASKS!r}:
        try:
            if find_spec(name) is None:
                raise ImportError("there is none")
            if name in ("pyarrow", "duckdb"):
                import_module(name)
        except ImportError as error:
            missing.append((name, str(error)))
    try:
        found = version("tideglass")
    except PackageNotFoundError:
        found = ""
    yield gethostname(), sys.executable, found, missing
"""
_NO_MODULE = re.compile(r"No module named '?([\w.]+)'?")
_OTHER_VERSION = re.compile(r"different version:? ?\(?([\d., ]+?)\)? than that in driver")
_NO_PROGRAM = re.compile(r'Cannot run program "([^"]+)"')

_seen: set[str] = set()


def see_interpreter(spark: SparkSession) -> None:
    """Check that Spark's workers run a Python of this version that has what a query needs.

    On this machine the Python is asked; on a cluster a small job asks that of the executors there are, once
    in the life of the session's application. Raises TideglassError with the remedy.
    """
    if is_connect(spark):
        see_server(spark)
        return
    context = spark.sparkContext
    program, master = str(context.pythonExec), str(context.master)
    if master.partition("[")[0] == "local":
        if program not in _seen:
            see_program(program)
            _seen.add(program)
    elif context.applicationId not in _seen:
        see_executors(spark, program)
        _seen.add(context.applicationId)


def trust(program: str) -> None:
    """A program that is known to run this very Python is not checked."""
    _seen.add(program)


def see_program(program: str) -> None:
    """Raises TideglassError for a Python of another version or without what a query needs."""
    wrong = _wrong_with(program)
    if wrong is not None:
        raise TideglassError(f"{REMEDY}: the Python of Spark's workers, {program}, {wrong}.")


def see_planner(spark: SparkSession) -> None:
    """Check the Python on this machine with which Spark plans what executors on others run: one of one name.

    Raises TideglassError with the remedy.
    """
    program = str(spark.sparkContext.pythonExec)
    if program in _seen or str(spark.sparkContext.master).startswith("local"):
        return
    wrong = _wrong_with(program)
    if wrong is not None:
        raise TideglassError(
            f"Spark plans a job with {program} on this machine, as executors run it with theirs, and here it "
            f"{wrong}.\n"
            f"  hint: have {sys.executable} be {program} on the PATH before the session is made, as an "
            "environment that is activated does"
        )
    _seen.add(program)


def _wrong_with(program: str) -> str | None:
    """What keeps a Python on this machine from running a query, as the rest of a sentence; None: nothing."""
    if shutil.which(program) == shutil.which(sys.executable):
        return None
    try:
        done = subprocess.run(
            [program, "-c", _LOOK], capture_output=True, text=True, timeout=_MOST_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"cannot be started ({error})"
    found, missing = (*done.stdout.split("\n"), "", "")[:2]
    if found != _PYTHON:
        return f"is Python {found}, and this is Python {_PYTHON}"
    return f"has no package {', '.join(missing.split())}" if missing else None


# ---------------------------------------------------------------- on other machines


def see_executors(spark: SparkSession, program: str) -> None:
    """Raises TideglassError for executors whose Python cannot run a query, or that run no task in time."""
    namespace: dict[str, Any] = {"__name__": "__main__"}  # what is in this module is sent by value
    exec(_LOOK_OF_TASKS, namespace)
    context: Any = spark.sparkContext
    tasks = max(1, context.defaultParallelism)
    group = f"tideglass-interpreter-{context.applicationId}"
    late = threading.Timer(_MOST_SECONDS_OF_EXECUTORS, context.cancelJobGroup, [group])
    late.daemon = True
    context.setJobGroup(group, "tideglass looks at the Python of the executors", interruptOnCancel=True)
    late.start()
    try:
        seen = context.parallelize(range(tasks), tasks).mapPartitions(namespace["look"]).collect()
    except Exception as error:
        if late.finished.is_set():
            raise TideglassError(
                f"no executor of {context.master} has run a task within {_MOST_SECONDS_OF_EXECUTORS:g} s\n"
                "  hint: look whether the cluster has workers with free cores and memory for one "
                "(spark.executor.cores, spark.executor.memory)"
            ) from error
        raise _unable(str(error), program) from error
    finally:
        late.cancel()
        for name in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
            context.setLocalProperty(name, None)
    for host, python, found, missing in seen:
        _check_answer(f"{program} on {host} ({python})", found, missing)


def own_version() -> str:
    """The version of tideglass; "" where it was never installed."""
    try:
        return version("tideglass")
    except PackageNotFoundError:
        return ""


def _check_answer(where: str, found: str, missing: Sequence[tuple[str, str]]) -> None:
    ours = own_version()
    if missing:
        name, why = missing[0]
        words = f"no package {name}" if why == "there is none" else f"a package {name} that fails ({why})"
        raise TideglassError(_for_executors(f"{where} has {words}"))
    if found and ours and found != ours:
        raise TideglassError(_for_executors(f"{where} has tideglass {found}, and this is tideglass {ours}"))


def _unable(text: str, program: str) -> TideglassError:
    """What Spark says where workers cannot even look, in one sentence."""
    for pattern, words in (
        (_OTHER_VERSION, f"{program} is Python {{0}}, and this is Python {_PYTHON}"),
        (_NO_MODULE, f"{program} has no package {{0}}"),
        (_NO_PROGRAM, "they have no program {0}"),
    ):
        match = pattern.search(text)
        if match:
            return TideglassError(_for_executors(words.format(match[1])))
    first = next((line for line in text.splitlines() if line.strip()), "")
    return TideglassError(f"Spark's executors run no Python: {first}")


def _for_executors(wrong: str) -> str:
    ours = f"tideglass {own_version()}".rstrip()
    return (
        f"The Python of Spark's executors cannot run a query: {wrong}.\n"
        f"  hint: install {ours} for Python {_PYTHON} on every machine, or name with PYSPARK_PYTHON (or "
        "--conf spark.pyspark.python) a Python there that has it"
    )
