"""Spark's connector for Kafka: the one that is named wherever one is asked for.

It is the newest that Maven Central has; there is none of the number of this Spark. It needs a token provider,
of which Central has no more than older ones: those run with it, but Spark fetches packages only with what
they ask for themselves, so it finds the connector where a repository has all of it, and takes it from a
folder of jars anywhere.
"""

from __future__ import annotations

import re

from tideglass.core.errors import TideglassError

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
TOKEN_PROVIDER = "org.apache.spark:spark-token-provider-kafka-0-10_2.13:3.5.1"
#: The versions the connector asks for itself.
CLIENT = "org.apache.kafka:kafka-clients:3.9.2"
POOL = "org.apache.commons:commons-pool2:2.13.1"
#: What a folder of jars holds; Spark has the rest.
JARS = (CONNECTOR, TOKEN_PROVIDER, CLIENT, POOL)

_UNRESOLVED = re.compile(r"RuntimeException: \[?(?:unresolved dependency|download failed): ([^\]:]+)")


def no_packages(packages: str, printed: str) -> TideglassError:
    """The error of a session that could not be made with `packages`; printed: by Spark meanwhile."""
    found = _UNRESOLVED.search(printed)
    why = f": nobody has {found[1].strip()}" if found else ""
    return TideglassError(
        f"Spark cannot fetch {packages}{why}\n"
        f"  hint: say --jars DIR, a folder with {', '.join(JARS[:-1])} and {JARS[-1]}; "
        "`python examples/kafka/jars.py` makes one"
    )
