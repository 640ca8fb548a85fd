"""The two kinds of Spark session: the driver of a classic one is here, that of Spark Connect on a server.

A client of Spark Connect describes DataFrames and ships functions; what needs the driver itself
(`sparkContext`, broadcasts, the JVM) is not there. Everything that differs asks here which kind a session is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from tideglass.core.errors import TideglassError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CONNECT_PACKAGE = "pyspark.sql.connect."
#: In Spark's plan of a range: the number of its tasks.
_SPLITS = re.compile(r"\bsplits=(\d+)")


class SessionKind(Enum):
    """Where the driver of a session is."""

    CLASSIC = "classic"
    CONNECT = "Spark Connect"


def session_kind(of: SparkSession | DataFrame) -> SessionKind:
    """The kind of a session, or of the session a DataFrame belongs to."""
    remote = any(each.__module__.startswith(_CONNECT_PACKAGE) for each in type(of).__mro__)
    return SessionKind.CONNECT if remote else SessionKind.CLASSIC


def is_connect(of: SparkSession | DataFrame) -> bool:
    """Whether the driver is a server of Spark Connect."""
    return session_kind(of) is SessionKind.CONNECT


def refuse_connect(spark: SparkSession, what: str) -> None:
    """Raises TideglassError for a session of Spark Connect, which `what` cannot run in."""
    if is_connect(spark):
        raise connect_refused(what)


def refuse_remote(address: str | None, environment: Mapping[str, str]) -> None:
    """Raises TideglassError for a project's run that is asked to take a server of Spark Connect.

    address: of the server, asked for by an option. Spark itself asks the environment for SPARK_REMOTE.
    """
    if address is not None:
        raise connect_refused("a project")
    if environment.get("SPARK_REMOTE"):
        raise TideglassError(
            f"SPARK_REMOTE is {environment['SPARK_REMOTE']}, a server of Spark Connect, where no project "
            "can run\n"
            "  hint: unset SPARK_REMOTE, and the project runs with a Spark of its own"
        )


def connect_refused(what: str) -> TideglassError:
    """The error for `what`, which needs the driver in this process."""
    return TideglassError(
        f"{what} cannot run through Spark Connect: its commit, its journal and its lock live with Spark's "
        "driver, which is on the server there\n"
        "  hint: run it where the driver is, by tideglass run or spark-submit; tideglass.query works through "
        "Spark Connect"
    )


def default_parallelism(spark: SparkSession) -> int | None:
    """Tasks Spark splits data of its own into, about the cores it has; None if it does not say."""
    if not is_connect(spark):
        return int(spark.sparkContext.defaultParallelism)
    # A client has no context to ask, but the server's plan of a range names its tasks. Nothing is run for it.
    found = _SPLITS.search(cast("Any", spark.range(1 << 20))._explain_string())
    return None if found is None else int(found[1])
