"""Spark's connector for Kafka: which version of it is used, and what is said where there is none.

The connector is published with every Spark, under its version. A Spark whose connector nobody has takes the
one of another version, if the tests have shown that this one reads and writes a real broker there.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

from tideglass.core.cache import cache_folder
from tideglass.core.durable import replace_file
from tideglass.core.errors import TideglassError
from tideglass.spark.versions import installed_version

_NAME = "org.apache.spark:spark-sql-kafka-0-10_2.13"
#: The newest connector on Maven Central; the tests with a real broker run with it on every supported Spark.
TESTED = "4.2.0"
CONNECTOR = f"{_NAME}:{TESTED}"
TOKEN_PROVIDER = f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{TESTED}"
#: The versions that the connector names as its own dependencies.
CLIENT = "org.apache.kafka:kafka-clients:3.9.2"
POOL = "org.apache.commons:commons-pool2:2.13.1"
#: What a folder of jars must hold; Spark has the rest.
JARS = (CONNECTOR, TOKEN_PROVIDER, CLIENT, POOL)
#: The connector asks for these, and every Spark brings them along: 50 MB that need not be fetched.
EXCLUDED = ("org.apache.hadoop:hadoop-client-api", "org.apache.hadoop:hadoop-client-runtime")

#: How long it is remembered that nobody has the connector of a Spark; to ask takes seconds of a start.
ABSENT_SECONDS = 24 * 3600

_UNRESOLVED = re.compile(r"RuntimeException: \[?(?:unresolved dependency|download failed): ([^\]:]+)")


def connectors(spark_version: str) -> tuple[str, ...]:
    """Coordinates of the connectors for a Spark, best first.

    >>> connectors("4.2.1")
    ('org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.1', 'org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0')
    >>> connectors("4.2.0")
    ('org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0',)
    """
    return tuple(dict.fromkeys((f"{_NAME}:{spark_version}", CONNECTOR)))


def connectors_to_try() -> tuple[str, ...]:
    """Those for the installed Spark, without the ones that nobody had when they were asked for last."""
    best, *others = connectors(installed_version())
    return tuple(others) if others and _is_absent(best) else (best, *others)


def remember_absent(connector: str) -> None:
    """Not to be asked for again within a day, unless it is the one that stands in for others.

    A cache that cannot be written is done without.
    """
    if connector == CONNECTOR:
        return
    try:
        file = _absent_file(connector)
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, b"")
    except (OSError, RuntimeError):
        return


def _is_absent(connector: str) -> bool:
    try:
        return time.time() - _absent_file(connector).stat().st_mtime < ABSENT_SECONDS
    except (OSError, RuntimeError):
        return False


def _absent_file(connector: str) -> Path:
    return cache_folder() / "kafka" / f"{connector.rpartition(':')[2]}.absent"


def is_nowhere(printed: str) -> bool:
    """Whether Spark has asked its repositories for what it was to fetch, and one thing is in none of them.

    (Or a repository cannot be reached, which Spark does not tell apart; then no other connector is found.)
    """
    return _UNRESOLVED.search(printed) is not None


def stands_in(packages: str) -> str | None:
    """The sentence that says that the connector of another Spark is used; None where that is not so."""
    installed = installed_version()
    if packages not in connectors(installed)[1:]:
        return None
    number = packages.rpartition(":")[2]
    return f"nobody has Spark's connector for Kafka of version {installed}; {number} is used, tested with it"


def no_packages(packages: str, printed: str) -> TideglassError:
    """The error of a session that could not be made with `packages`. printed: what Spark printed."""
    found = _UNRESOLVED.search(printed)
    why = f": nobody has {found[1].strip()}" if found else ""
    return TideglassError(
        f"Spark cannot fetch {packages}{why}\n"
        f"  hint: say --jars DIR, a folder with {', '.join(JARS[:-1])} and {JARS[-1]}; "
        "`python examples/kafka/jars.py` makes one"
    )
