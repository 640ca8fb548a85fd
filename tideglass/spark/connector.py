"""Spark's connector for Kafka: the version that is used.

It is the newest one on Maven Central, which has none of this version of Spark. It needs a token provider, and
Central has only older versions of that; they run with it, but Spark resolves the exact version. So Spark can
fetch the connector from a repository that has both, and otherwise takes it from a folder of jars.
"""

from __future__ import annotations

import re

from tideglass.core.errors import TideglassError

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
TOKEN_PROVIDER = "org.apache.spark:spark-token-provider-kafka-0-10_2.13:3.5.1"
#: The versions that the connector names as its own dependencies.
CLIENT = "org.apache.kafka:kafka-clients:3.9.2"
POOL = "org.apache.commons:commons-pool2:2.13.1"
#: What a folder of jars must hold; Spark has the rest.
JARS = (CONNECTOR, TOKEN_PROVIDER, CLIENT, POOL)

_UNRESOLVED = re.compile(r"RuntimeException: \[?(?:unresolved dependency|download failed): ([^\]:]+)")


def no_packages(packages: str, printed: str) -> TideglassError:
    """The error of a session that could not be made with `packages`. printed: what Spark printed."""
    found = _UNRESOLVED.search(printed)
    why = f": nobody has {found[1].strip()}" if found else ""
    return TideglassError(
        f"Spark cannot fetch {packages}{why}\n"
        f"  hint: say --jars DIR, a folder with {', '.join(JARS[:-1])} and {JARS[-1]}; "
        "`python examples/kafka/jars.py` makes one"
    )
