"""The Python of a Spark Connect server's workers: whether it can run a query, asked by one small task.

A client sees neither the server's settings nor its machines: what a task there finds is all it knows.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakSet

from tideglass.core.errors import TideglassError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
#: Packages with native code, and our own; Spark itself asks for pyarrow.
_NEEDED = ("duckdb", "numba", "py_mini_racer", "tideglass")
_COLUMNS = "host string, program string, version string, missing string"
#: What the task does. It is sent as text, since a function of this module would need tideglass there.
_LOOK = f"""
def look(batches):
    import sys
    from importlib.metadata import PackageNotFoundError, version
    from importlib.util import find_spec
    from socket import gethostname

    import pyarrow

    try:
        found = version("tideglass")
    except PackageNotFoundError:
        found = ""
    missing = ", ".join(name for name in {_NEEDED!r} if find_spec(name) is None)
    for batch in batches:
        row = {{"host": gethostname(), "program": sys.executable, "version": found, "missing": missing}}
        yield pyarrow.RecordBatch.from_pylist([row])
"""
#: Spark's words when its workers cannot even look, and their meaning.
_UNABLE = (
    (re.compile(r"different version:? ?\(?([\d., ]+?)\)? than that in"), "is Python {0}"),
    (re.compile(r"No module named '?([\w.]+)'?"), "has no package {0}"),
    (re.compile(r"((?:PyArrow|Pandas) >= [\d.]+) must be installed"), "has no {0}"),
    (re.compile(r'Cannot run program "([^"]+)"'), "is {0}, which cannot be started"),
)

_seen: WeakSet[Any] = WeakSet()


def see_server(spark: SparkSession) -> None:
    """Check that a server's workers run a Python of this version that has what a query needs, once a session.

    Raises TideglassError with the remedy.
    """
    if spark in _seen:
        return
    namespace: dict[str, Any] = {"__name__": "__main__"}  # what is in this module is sent by value
    exec(_LOOK, namespace)
    try:
        (row,) = spark.range(0, 1, 1, 1).mapInArrow(namespace["look"], _COLUMNS).collect()
    except Exception as error:
        raise _unable(str(error)) from error
    found = cast("dict[str, str]", row.asDict())
    where = f"{found['program']} on {found['host']}"
    if found["missing"]:
        raise _refused(f"{where} has no package {found['missing']}")
    ours = own_version()
    if found["version"] and ours and found["version"] != ours:
        raise _refused(f"{where} has tideglass {found['version']}, and this is tideglass {ours}")
    _seen.add(spark)


def own_version() -> str:
    """The version of tideglass; "" where it was never installed."""
    try:
        return version("tideglass")
    except PackageNotFoundError:
        return ""


def _unable(text: str) -> TideglassError:
    for pattern, words in _UNABLE:
        match = pattern.search(text)
        if match:
            return _refused(f"it {words.format(match[1])}")
    first = next((line for line in text.splitlines() if line.strip()), "")
    return TideglassError(f"Spark's server runs no Python: {first}")


def _refused(wrong: str) -> TideglassError:
    ours = f"tideglass {own_version()}".rstrip()
    return TideglassError(
        f"The Python of the Spark Connect server's workers cannot run a query: {wrong}.\n"
        f"  hint: install {ours} for Python {_PYTHON} where they run, and start the server with "
        "spark.pyspark.python set to a Python that has it"
    )
