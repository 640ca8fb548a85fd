"""Streams and queries over Spark's own DataFrames, and what the test kit gives of the same rows."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.project_on_disk import disordered, write
from support.times import at
from tideglass.core.time import format_ticks, ticks_of_datetime
from tideglass.ingress.reports import BatchReports
from tideglass.job.report.metrics import Metrics
from tideglass.local import LocalDriver
from tideglass.project.settings import from_options
from tideglass.testing import compile_rows, partition_batches, run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SCHEMA = "device STRING, v BIGINT, t STRING, arrived TIMESTAMP, p INT"
SETTINGS = {"late_arrival": "5s", "out_of_order": "2s", "policy": "adjust"}
QUERY = """
SELECT device, COUNT(*) AS n, SUM(v) AS total, AVG(v) AS mean, System.Timestamp() AS at INTO counts
FROM events TIMESTAMP BY t GROUP BY device, TumblingWindow(second, 10)

SELECT device, v, PartitionId AS p, System.Timestamp() AS at INTO high FROM events TIMESTAMP BY t WHERE v > 90
"""
COLUMNS = {"arrival": "arrived", "partition": "p"}

Row = Mapping[str, Any]


def events() -> list[dict[str, Any]]:
    """Rows of two partitions in the order of their arrival; the last of each ends all windows before."""
    rows = [{**row, "p": partition} for partition in range(2) for row in disordered(partition, 120)]
    rows += [{"device": "end", "v": 0, "t": at(900), "arrived": at(900), "p": p} for p in range(2)]
    return sorted(rows, key=lambda row: row["arrived"])


def kit(rows: Sequence[Row]) -> dict[str, list[str]]:
    """What the test kit gives, without what only the end of the input flushes."""
    given = [
        {
            **{k: v for k, v in row.items() if k not in ("arrived", "p")},
            "_arrival": row["arrived"],
            "_partition": row["p"],
        }
        for row in rows
    ]
    found = run(QUERY, {"events": given}, settings=SETTINGS)
    return {name: sorted_texts(rows) for name, rows in found.items()}


def sorted_texts(rows: Sequence[Row]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows if row.get("device") != "end")


def plain(value: Any) -> Any:
    """A value of a Spark row as the kit shows it."""
    if isinstance(value, datetime):
        return format_ticks(ticks_of_datetime(value.astimezone(UTC)))
    return value


def collected(df: DataFrame) -> list[str]:
    return sorted_texts([{k: plain(v) for k, v in row.asDict().items()} for row in df.collect()])


class Stream:
    """A folder of JSON files that Spark's own reader streams, a file a batch."""

    def __init__(self, spark: SparkSession, folder: Path, schema: str = SCHEMA) -> None:
        self.spark, self.folder = spark, folder
        folder.mkdir(parents=True, exist_ok=True)
        self.df = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(folder))
        self._files = 0

    def put(self, rows: Sequence[Row]) -> None:
        self._files += 1
        path = self.folder / f"{self._files:04d}.json"
        write(path, rows)
        moment = time.time() - 1000 + self._files  # read in the order of their times
        os.utime(path, (moment, moment))


def drained(df: DataFrame, folder: Path, name: str) -> int:
    """Write the output's rows to a folder until the input is read; how many batches that took."""
    return len(ended(df, folder, name).recentProgress)


def ended(df: DataFrame, folder: Path, name: str) -> StreamingQuery:
    """The query that has written the output's rows to a folder until the input was read."""
    started = (
        df.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / f"{name}-checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / name))
    )
    started.awaitTermination()
    return started


def accounting(rows: Sequence[Row]) -> dict[str, int]:
    """What the in-process driver counts of the same rows."""
    given = [
        {**{k: v for k, v in row.items() if k not in ("arrived", "p")}, "_arrival": row["arrived"]}
        | {"_partition": row["p"]}
        for row in rows
    ]
    metrics = Metrics()
    topology = compile_rows(QUERY, {"events": given}, from_options(SETTINGS)).topology
    messages = LocalDriver(topology).run(partition_batches(topology, {"events": given}), final=True)
    metrics.take_batch(BatchReports.of(messages), {})
    return metrics.by_api_name()


LOOKUPS = """
WITH w AS (
    SELECT device, COUNT(*) AS n FROM events TIMESTAMP BY t GROUP BY device, TumblingWindow(second, 10)
)
SELECT w.device, w.n, zones.zone, zones.level * 2 AS level INTO counts
FROM w LEFT JOIN zones ON w.device = zones.device

SELECT e.device, e.v, zones.zone, CAST(limits.most AS bigint) AS most, System.Timestamp() AS at INTO high
FROM events e TIMESTAMP BY t JOIN zones ON e.device = zones.device JOIN limits ON zones.level = limits.level
"""


def zones_of(name: str) -> list[dict[str, Any]]:
    return [{"device": f"d{n}", "zone": f"{name} {n}", "level": n % 2} for n in range(3)]


ZONES = {at(-100): zones_of("north"), at(150): zones_of("south")}
LIMITS = [{"level": 0, "most": 10}, {"level": 1, "most": 20}]


def looked_up(rows: Sequence[Row]) -> dict[str, list[str]]:
    """What the test kit gives of LOOKUPS, without what only the end of the input flushes."""
    given = [
        {k: row[k] for k in ("device", "v", "t")} | {"_arrival": row["arrived"], "_partition": row["p"]}
        for row in rows
    ]
    found = run(LOOKUPS, {"events": given}, reference={"zones": ZONES, "limits": LIMITS}, settings=SETTINGS)
    return {name: sorted_texts(rows) for name, rows in found.items()}
