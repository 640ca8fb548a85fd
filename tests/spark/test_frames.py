"""Queries over Spark's own DataFrames give what the test kit gives on the same rows."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from project_on_disk import at, disordered, write

import tideglass
from tideglass.core.time import format_ticks, ticks_of_datetime
from tideglass.testing import run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
        import os

        os.utime(path, (moment, moment))


def drained(df: DataFrame, folder: Path, name: str) -> int:
    """Write the output's rows to a folder until the input is read; how many batches that took."""
    started = (
        df.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / f"{name}-checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / name))
    )
    started.awaitTermination()
    return len(started.recentProgress)


@pytest.fixture(autouse=True)
def few_partitions(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "2")


def test_a_stream_read_in_batches_and_after_a_restart_gives_what_the_kit_gives(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = events()
    stream = Stream(spark, tmp_path / "in")
    expected = kit(rows)
    outputs = tideglass.query(spark, QUERY, {"events": (stream.df, COLUMNS)}, SETTINGS)
    stream.put(rows[:70])
    stream.put(rows[70:150])
    for name in outputs:
        drained(outputs[name], tmp_path, name)
        assert 0 < spark.read.parquet(str(tmp_path / name)).count() < len(expected[name])
    stream.put(rows[150:])
    outputs = tideglass.query(spark, QUERY, {"events": (stream.df, COLUMNS)}, SETTINGS)
    for name in outputs:
        assert drained(outputs[name], tmp_path, name) >= 1
        assert collected(spark.read.parquet(str(tmp_path / name))) == expected[name]


def test_a_finished_dataframe_gives_what_the_kit_gives_and_is_flushed(spark: SparkSession) -> None:
    rows = [{**row, "arrived": datetime.fromisoformat(row["arrived"])} for row in reversed(events())]
    df = spark.createDataFrame(
        [tuple(row[c] for c in ("device", "v", "t", "arrived", "p")) for row in rows], SCHEMA
    )
    outputs = tideglass.query(
        spark, QUERY, {"Events": tideglass.FrameInput(df.repartition(3), **COLUMNS)}, SETTINGS
    )
    expected = kit(events())
    for name, output in outputs.items():
        assert collected(output) == expected[name]
    assert outputs["counts"].where("device = 'end'").count() == 1
