"""The Python processes Spark plans with, which have nothing to do once the first batch is planned."""

from __future__ import annotations

from typing import Any, cast

from pyspark.sql import SparkSession

#: Modules that plan: they look up, make and prepare a data source of Python. Tasks are of `pyspark.worker`.
_PLANNING = "pyspark.sql.worker."


def end_planners(spark: SparkSession) -> tuple[str, ...]:
    """End the processes Spark has planned with; the modules they ran.

    Spark keeps two a module for as long as the session lives, 300 MiB in all, and starts them again should it
    need them. It has no word for ending them, so its table of processes is asked by reflection.
    """
    session = cast("Any", spark)
    # Asked by its class: the methods of SparkEnv cannot be listed, which a call of one begins with.
    table = session._jvm.java.lang.Class.forName("org.apache.spark.SparkEnv").getDeclaredField(
        "pythonWorkers"
    )
    table.setAccessible(True)
    ended: list[str] = []
    entries = table.get(session._jsc.sc().env()).iterator()
    while entries.hasNext():
        entry = entries.next()
        module = str(entry._1().workerModule())
        if module.startswith(_PLANNING):
            entry._2().stop()
            ended.append(module)
    return tuple(sorted(ended))
