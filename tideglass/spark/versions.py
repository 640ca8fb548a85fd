"""The versions of Spark that tideglass runs on, and what the older one needs besides.

Everything that differs between them is here; the rest of the code is written for the newest.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tideglass.core.errors import TideglassError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Each runs the tests of Spark; the newest last. Before 4.2 Spark has no admission control for sources in
#: Python (`pyspark.sql.streaming.datasource`), without which the source of a job has no bounded batches.
SUPPORTED = ("4.2", "4.3")
#: What pip is asked for.
REQUIREMENT = "'pyspark>=4.2,<4.4'"

#: Here Spark registers the coordinator of state stores with the first streaming query of a session, but asks
#: for it in batches, too: "Cannot find endpoint: spark://StateStoreCoordinator". 4.3 does not ask.
_COORDINATED_BATCHES = ("4.2",)

_VERSION = re.compile(r"""__version__\s*(?::\s*str)?\s*=\s*["']([^"']+)""")


def release(version: str) -> str:
    """Major and minor number.

    >>> release("4.2.1"), release("4.3.0.dev0")
    ('4.2', '4.3')
    """
    return ".".join(version.split(".")[:2])


def installed_version() -> str:
    """The version of the pyspark that would be imported, without importing it.

    Raises TideglassError where there is none.
    """
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None or spec.loader is None:
        raise TideglassError(f"there is no pyspark in this environment\n  hint: pip install {REQUIREMENT}")
    # From an archive of modules, as spark-submit has one, it is read in the same way.
    text = cast("Any", spec.loader).get_data(str(Path(spec.origin).with_name("version.py"))).decode()
    found = _VERSION.search(text)
    return found[1] if found else "unknown"


def check_version(version: str, whose: str = "pyspark") -> None:
    """Raises TideglassError for a Spark that is not supported.

    >>> check_version("4.2.1")
    >>> check_version("4.1.4")
    Traceback (most recent call last):
    tideglass.core.errors.TideglassError: [SPARK_VERSION] pyspark is 4.1.4, and tideglass runs on ...
    """
    if release(version) not in SUPPORTED:
        raise TideglassError(
            f"[SPARK_VERSION] {whose} is {version}, and tideglass runs on Spark {' and '.join(SUPPORTED)}\n"
            f"  hint: pip install {REQUIREMENT}"
        )


def check_session(spark: SparkSession) -> None:
    """Raises TideglassError for a session whose Spark is not supported; it need not be of this pyspark."""
    check_version(str(spark.version), "the Spark of this session")


def ready_for_batches(spark: SparkSession) -> None:
    """Make a session run stateful operators over DataFrames that are not streams."""
    if release(str(spark.version)) in _COORDINATED_BATCHES:
        # Spark makes its manager of queries, and that the coordinator, when the manager is first asked.
        _ = spark.streams.active
