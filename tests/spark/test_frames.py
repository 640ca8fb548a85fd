"""Queries over Spark's own DataFrames give what the test kit gives on the same rows."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row as SparkRow

import tideglass
from support.frame_streams import (
    COLUMNS,
    LIMITS,
    LOOKUPS,
    QUERY,
    SCHEMA,
    SETTINGS,
    ZONES,
    Stream,
    accounting,
    collected,
    drained,
    events,
    kit,
    looked_up,
)
from support.project_on_disk import write
from support.times import at
from tideglass.connect.files.event_id import NAMESPACE
from tideglass.core.errors import InputError, QueryError, TideglassError
from tideglass.job.report.metrics import Metrics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@pytest.fixture(autouse=True)
def few_partitions(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "2")


@pytest.mark.versions
def test_a_stream_read_in_batches_and_after_a_restart_gives_what_the_kit_gives(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = events()
    stream = Stream(spark, tmp_path / "in")
    expected = kit(rows)
    outputs = tideglass.query(spark, QUERY, {"events": (stream.df, COLUMNS)}, SETTINGS)
    assert outputs.keys() == expected.keys()
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


@pytest.mark.versions
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


def test_the_accounting_of_a_stream_adds_up_and_goes_on_after_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    """In Spark's own progress, for listeners, and as the metrics a project's run gives."""
    rows = events()
    bad = {"device": "bad", "v": 0, "t": None, "arrived": at(901), "p": 0}
    stream = Stream(spark, tmp_path / "in")
    for part in (rows[:70], rows[70:150]):
        stream.put(part)

    def drain() -> StreamingQuery:
        counts = tideglass.query(spark, QUERY, {"events": (stream.df, COLUMNS)}, SETTINGS)["counts"]
        writer = counts.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
        started = writer.trigger(availableNow=True).start()
        started.awaitTermination()
        return started

    first = tideglass.metrics(drain())
    assert first.events == 150
    stream.put([*rows[150:], bad])
    query = drain()
    found = tideglass.metrics(query)
    expected = accounting(rows)
    assert found.by_api_name() == {
        **expected,
        "InputEvents": len(rows) + 1,
        "InputEventBytes": found_bytes(found),
    }
    assert expected["LateInputEvents"] > first.by_api_name()["LateInputEvents"] > 0
    (facts,) = found.partitions.values()
    assert (facts.input, facts.counters.dropped_bad_timestamp) == ("events", 1)
    assert found.watermark_delay_seconds is not None
    observed = query.lastProgress.observedMetrics["tideglass"].asDict()
    assert observed["events.adjusted_late"] == facts.counters.adjusted_late


def found_bytes(metrics: Metrics) -> int:
    return sum(facts.bytes for facts in metrics.partitions.values())


def test_the_accounting_of_finished_dataframes_is_there_after_the_first_action(spark: SparkSession) -> None:
    df = spark.createDataFrame(
        [(n, at(n - (40 if n % 10 == 0 else 0)), at(n)) for n in range(100, 200)],
        "v BIGINT, t STRING, a STRING",
    )
    query = """
    SELECT v INTO o FROM e TIMESTAMP BY t
    SELECT COUNT(*) AS n INTO p FROM e TIMESTAMP BY DATEADD(second, 1, t) GROUP BY TumblingWindow(second, 10)
    """
    outputs = tideglass.query(spark, query, {"e": (df, {"arrival": "a"})}, SETTINGS)
    assert outputs["o"].orderBy("v").count() == 100
    found = tideglass.metrics(outputs["o"])
    assert found.events == 100
    late = [facts.counters.metrics()["LateInputEvents"] for facts in found.partitions.values()]
    assert late == [10, 10]  # by each of the two clocks the query reads the input by
    assert tideglass.metrics(outputs["p"]).partitions == found.partitions
    with pytest.raises(TideglassError, match="StreamingQuery that start"):
        tideglass.metrics(df)


def test_the_columns_have_types_before_anything_runs(spark: SparkSession) -> None:
    df = spark.range(0).selectExpr(
        "id", "cast(id as float) f", "cast(id as string) s", "current_timestamp() t", "true b",
        "named_struct('x', id, 'at', current_timestamp()) r", "array(1) a",
    )  # fmt: skip
    query = """
    SELECT *, r.x, r.at, r.other, id / 2 AS half, System.Timestamp() AS at2 INTO rows FROM i TIMESTAMP BY t
    SELECT s, COUNT(*) AS n, AVG(id) AS mean, COLLECT() AS c INTO groups
    FROM i TIMESTAMP BY t GROUP BY s, TumblingWindow(second, 1)
    """
    outputs = tideglass.query(spark, query, {"i": df})
    assert {name: output.dtypes for name, output in outputs.items()} == {
        "rows": [
            ("id", "bigint"), ("f", "double"), ("s", "string"), ("t", "timestamp"), ("b", "boolean"),
            ("r", "struct<x:bigint,at:timestamp>"), ("a", "array<int>"), ("x", "bigint"), ("at", "timestamp"),
            ("other", "string"),
            ("half", "bigint"), ("at2", "timestamp"),
        ],
        "groups": [("s", "string"), ("n", "bigint"), ("mean", "double"), ("c", "string")],
    }  # fmt: skip
    assert outputs["rows"].collect() == []


def test_values_come_through_with_their_types(spark: SparkSession) -> None:
    moment = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
    df = spark.sql(
        "SELECT 7 AS id, cast(1.5 as decimal(4,2)) AS d, timestamp'2026-01-01 12:00:00.123456Z' AS t, "
        "true AS b, named_struct('x', 1, 'y', 'q') AS r, array(1, 2) AS a, map('k', 1) AS m, "
        "cast(null AS string) AS n"
    )
    found = tideglass.query(spark, "SELECT *, r.y, r.z INTO o FROM i TIMESTAMP BY t", {"i": df})[
        "o"
    ].collect()
    assert [row.asDict() for row in found] == [
        {"id": 7, "d": Decimal("1.50"), "t": moment.astimezone().replace(tzinfo=None), "b": True,
         "r": SparkRow(x=1, y="q"), "a": [1, 2], "m": {"k": 1}, "n": None, "y": "q", "z": None}
    ]  # fmt: skip


@pytest.mark.versions
def test_a_silent_input_holds_the_other_back_until_its_silence_says_enough(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Input b gives one row and then nothing; its idle watermark follows the clock 1 s behind."""
    schema = "v BIGINT, t TIMESTAMP"
    a, b = Stream(spark, tmp_path / "a", schema), Stream(spark, tmp_path / "b", schema)
    query = """
    WITH both AS (SELECT v FROM a TIMESTAMP BY t UNION SELECT v FROM b TIMESTAMP BY t)
    SELECT COUNT(*) AS n INTO o FROM both GROUP BY TumblingWindow(second, 3)
    """
    now = time.time()
    a.put([{"v": n, "t": datetime.fromtimestamp(now, UTC).isoformat()} for n in range(3)])
    found: list[int] = []

    def take(batch: DataFrame, _: int) -> None:
        found.extend(row.n for row in batch.collect())

    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "true")  # timers need it
    try:
        output = tideglass.query(
            spark, query, {"a": a.df, "b": b.df}, {"late_arrival": "1s", "early_arrival": "none"}
        )["o"]
        running = (
            output.writeStream.foreachBatch(take)
            .option("checkpointLocation", str(tmp_path / "c"))
            .trigger(processingTime="500 milliseconds")
            .start()
        )
        try:
            wait_until(lambda: any(p["numInputRows"] for p in running.recentProgress))
            time.sleep(5)  # beyond window and tolerance: a alone would have closed it
            assert found == []
            b.put([{"v": 9, "t": datetime.fromtimestamp(now, UTC).isoformat()}])
            wait_until(lambda: sum(found) == 4)
        finally:
            running.stop()
    finally:
        spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")


def wait_until(happened: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.2)


@pytest.mark.versions
def test_a_stream_is_joined_with_static_dataframes_rows_and_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = events()
    expected = looked_up(rows)
    write(tmp_path / "limits.json", LIMITS)
    zones = {
        time: spark.createDataFrame(
            [tuple(row.values()) for row in part], "device STRING, zone STRING, level INT"
        )
        for time, part in ZONES.items()
    }

    def query(limits_given: Any) -> dict[str, DataFrame]:
        reference = {"Zones": zones, "limits": limits_given}
        return tideglass.query(
            spark, LOOKUPS, {"events": (stream.df, COLUMNS)}, SETTINGS, reference=reference
        )

    stream = Stream(spark, tmp_path / "in")
    stream.put(rows[:110])
    for name, output in query(LIMITS).items():
        drained(output, tmp_path, name)
    stream.put(rows[110:])
    outputs = query(tmp_path / "limits.json")
    assert dict(outputs["counts"].dtypes) == {
        "device": "string",
        "n": "bigint",
        "zone": "string",
        "level": "bigint",
    }
    for name, output in outputs.items():
        drained(output, tmp_path, name)
        found = spark.read.parquet(str(tmp_path / name))
        assert collected(found) == expected[name]


def test_reference_data_that_is_none_is_told_before_anything_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    df = spark.range(1).selectExpr("id AS v", "current_timestamp() AS t")
    stream = Stream(spark, tmp_path / "in", "v BIGINT")
    query = "SELECT e.v, r.w INTO o FROM e TIMESTAMP BY t JOIN r ON e.v = r.v"
    for given, error, told in (
        (stream.df, QueryError, "'w'"),
        (stream.df.withColumn("w", stream.df.v), InputError, "'r' is a stream"),
        (tmp_path / "none.json", InputError, "REFERENCE_NOT_FOUND"),
        (7, InputError, "'r' is a int; it must be a static DataFrame"),
        ({"soon": [{"v": 1}]}, InputError, "holds from 'soon'"),
    ):
        with pytest.raises(error, match=told):
            tideglass.query(spark, query, {"e": df}, reference={"r": given})
    with pytest.raises(QueryError, match="UNKNOWN_INPUT"):
        tideglass.query(spark, query, {"e": df})


def test_a_checkpoint_of_another_query_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path / "in")
    stream.put(events()[:10])
    query = "SELECT v{} AS v INTO o FROM events TIMESTAMP BY t"
    drained(tideglass.query(spark, query.format(""), {"events": (stream.df, COLUMNS)})["o"], tmp_path, "o")
    stream.put(events()[10:20])
    changed = tideglass.query(spark, query.format(" + 1"), {"events": (stream.df, COLUMNS)})["o"]
    with pytest.raises(StreamingQueryException, match="belongs to another job"):
        drained(changed, tmp_path, "o")


@pytest.mark.parametrize(
    ("query", "options", "error", "told"),
    [
        ("SELECT vv INTO o FROM e TIMESTAMP BY t", {}, QueryError, "did you mean 'v'"),
        ("SELECT r.* INTO o FROM e TIMESTAMP BY t", {}, QueryError, "OPEN_OUTPUT"),
        ("SELECT v INTO o FROM e", {}, InputError, "no column says that"),
        ("SELECT v INTO o FROM f TIMESTAMP BY t", {}, QueryError, "UNKNOWN_INPUT"),
        ("SELECT v INTO o FROM e", {"arival": "t"}, InputError, "did you mean 'arrival'"),
        ("SELECT v INTO o FROM e", {"arrival": "x"}, InputError, "no column 'x' for its arrival"),
        ("SELECT v INTO o FROM e", {"arrival": "v"}, InputError, "must be timestamp or"),
    ],
)
def test_what_cannot_run_is_told_before_it_runs(
    spark: SparkSession, query: str, options: dict[str, str], error: type[TideglassError], told: str
) -> None:
    df = spark.range(1).selectExpr("id AS v", "current_timestamp() AS t", "named_struct('x', id) AS r")
    with pytest.raises(error, match=told):
        tideglass.query(spark, query, {"e": (df, options)})


def test_streams_and_finished_dataframes_do_not_mix(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path / "in")
    query = "SELECT v INTO o FROM e TIMESTAMP BY t UNION SELECT v FROM f TIMESTAMP BY t"
    with pytest.raises(InputError, match="'f' is not: all must be, or none"):
        tideglass.query(
            spark, query, {"e": stream.df, "f": spark.read.schema(SCHEMA).json(str(tmp_path / "in"))}
        )


def test_a_dataframe_has_the_event_ids_of_its_partitions_and_offsets(spark: SparkSession) -> None:
    df = spark.range(40).selectExpr(
        "id", "CAST(id % 2 AS STRING) AS p", "id * 10 AS o", "timestamp_seconds(1767225600 + id) AS arrived"
    )
    given = tideglass.FrameInput(df.repartition(3), arrival="arrived", partition="p", offset="o")
    query = "SELECT id, GetMetadataPropertyValue(e, 'EventId') AS event INTO ids FROM Events e"
    output = tideglass.query(spark, query, {"Events": given})["ids"]
    found = {row["id"]: row["event"] for row in output.collect()}
    assert found == {n: str(uuid.uuid3(NAMESPACE, f"Events|{n % 2}||{n * 10}")) for n in range(40)}
    assert output.schema["event"].dataType.simpleString() == "string"
