"""Topics of a real broker as inputs of queries: what Kafka says of a message, and how a topic is read."""

from __future__ import annotations

import io
import json
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from topics import Message, create_topic, read, send

import tideglass
from tideglass.core.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ALL = """
CREATE TABLE tolls (plate nvarchar(max), toll bigint)
SELECT plate, toll, KafkaKey AS k, KafkaHeaders AS h, KafkaTopic AS topic, CAST(PartitionId AS bigint) AS p,
    System.Timestamp() AS at
INTO rows FROM tolls
"""
SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Toll",
        "fields": [{"name": "plate", "type": ["null", "string"]}, {"name": "toll", "type": "long"}],
    }
)
EARLIEST = {"startingOffsets": "earliest"}


@pytest.fixture(autouse=True)
def few_partitions(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "2")


def topic(address: str, partitions: int = 2, stamp: Any = "LogAppendTime") -> str:
    name = f"tolls-{uuid.uuid4().hex[:8]}"
    create_topic(address, name, partitions, stamp)
    return name


def avro(event: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(SCHEMA)), event)
    return stream.getvalue()


def run_to_end(rows: DataFrame, folder: Path, **options: str) -> int:
    """Append the rows a stream gives now to a folder of Parquet files; the number of batches."""
    query = (
        rows.writeStream.format("parquet")
        .options(**options)
        .option("path", str(folder / "rows"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sum(progress["numInputRows"] > 0 for progress in query.recentProgress)


def test_a_message_is_an_event_with_the_brokers_stamp_and_its_metadata(
    spark: SparkSession, broker: str
) -> None:
    name = topic(broker)
    events = [{"plate": f"P{n}", "toll": n} for n in range(4)]
    send(
        broker,
        name,
        [
            Message(json.dumps(events[0]).encode(), b"k0", 0, headers={"version": b"v1"}),
            Message(json.dumps(events[1:3]).encode(), None, 1),
            Message(None, b"gone", 1),
            Message(b'{"plate": ', None, 1),
            Message(json.dumps(events[3]).encode(), b"k3", 1),
        ],
    )
    there = read(broker, name)
    given = tideglass.kafka(spark, name, broker, finished=True)
    found = tideglass.query(spark, ALL, {"tolls": given})["rows"].orderBy("toll").collect()
    assert [(r.plate, r.toll, r.k, r.h, r.topic, r.p) for r in found] == [
        ("P0", 0, "k0", [("version", b"v1")], name, 0),
        ("P1", 1, None, None, name, 1),
        ("P2", 2, None, None, name, 1),
        ("P3", 3, "k3", None, name, 1),
    ]
    stamps = [there[place].time_ms for place in (0, 1, 1, 4)]
    assert [round(r.at.timestamp() * 1000) for r in found] == stamps
    assert min(stamps) > 1_767_225_600_000, "the broker's stamps, not 0, which the producer sent"


@pytest.mark.parametrize("format", ["csv", "avro"])
def test_csv_and_avro_messages_are_the_same_events_as_json_ones(
    spark: SparkSession, broker: str, format: Any
) -> None:
    name = topic(broker)
    events = [{"plate": f"P{n}", "toll": n} for n in range(50)]
    bodies = {
        "csv": [f"toll,plate\n{e['toll']},{e['plate']}\n".encode() for e in events],
        "avro": [avro(event) for event in events],
    }[format]
    send(broker, name, [Message(body, None, n % 2) for n, body in enumerate([*bodies, b"toll,toll\n1,2"])])
    schema = SCHEMA if format == "avro" else None
    given = tideglass.kafka(spark, name, broker, format=format, avro_schema=schema, finished=True)
    found = tideglass.query(spark, ALL, {"tolls": given})["rows"].orderBy("toll").collect()
    assert [{"plate": r.plate, "toll": r.toll} for r in found] == events
    assert [r.p for r in found] == [n % 2 for n in range(50)]


def test_a_schema_that_is_none_is_refused_before_anything_runs(spark: SparkSession, broker: str) -> None:
    with pytest.raises(InputError, match="Avro schema"):
        tideglass.kafka(spark, "tolls", broker, format="avro", avro_schema='"long"')


def test_a_batch_takes_so_many_messages_and_a_restart_goes_on_behind_them(
    spark: SparkSession, broker: str, tmp_path: Path
) -> None:
    name = topic(broker)
    query = """
    CREATE TABLE tolls (plate nvarchar(max), toll bigint)
    SELECT plate, toll INTO rows FROM tolls
    """

    def more(first: int) -> None:
        events = ({"plate": "A", "toll": n} for n in range(first, first + 40))
        send(broker, name, [Message(json.dumps(e).encode(), None, e["toll"] % 2) for e in events])

    def rows() -> DataFrame:
        options = EARLIEST | {"maxOffsetsPerTrigger": "20"}
        given = tideglass.kafka(spark, name, broker, options=options)
        return tideglass.query(spark, query, {"tolls": given}, {"late_arrival": "1s"})["rows"]

    more(0)
    assert run_to_end(rows(), tmp_path) == 2
    more(40)
    assert run_to_end(rows(), tmp_path) == 2
    found = [r.toll for r in spark.read.parquet(str(tmp_path / "rows")).orderBy("toll").collect()]
    # A row leaves once the watermark has reached it; the last stamp of each topic's end is still ahead.
    assert found == sorted(set(found))
    assert set(range(40)) <= set(found) <= set(range(80))


def test_latest_reads_only_what_comes_after(spark: SparkSession, broker: str, tmp_path: Path) -> None:
    name = topic(broker, partitions=1)
    send(broker, name, [Message(b'{"plate": "before", "toll": 1}')])
    query = "CREATE TABLE tolls (plate nvarchar(max), toll bigint) SELECT plate INTO rows FROM tolls"

    def rows() -> DataFrame:
        given = tideglass.kafka(spark, name, broker, options={"startingOffsets": "latest"})
        return tideglass.query(spark, query, {"tolls": given})["rows"]

    run_to_end(rows(), tmp_path)
    send(broker, name, [Message(b'{"plate": "after", "toll": 1}'), Message(b'{"plate": "last", "toll": 1}')])
    run_to_end(rows(), tmp_path)
    assert "after" in [r.plate for r in spark.read.parquet(str(tmp_path / "rows")).collect()]
    assert "before" not in [r.plate for r in spark.read.parquet(str(tmp_path / "rows")).collect()]


def test_producers_stamps_are_refused_until_they_are_asked_for(spark: SparkSession, broker: str) -> None:
    name = topic(broker, partitions=1, stamp="CreateTime")
    stamp_ms = 1_767_225_600_000
    send(broker, name, [Message(b'{"plate": "A", "toll": 1}', time_ms=stamp_ms)])
    with pytest.raises(Exception, match=f"the topic {name} carries the producers' times"):
        tideglass.query(spark, ALL, {"tolls": tideglass.kafka(spark, name, broker, finished=True)})[
            "rows"
        ].collect()
    asked = tideglass.kafka(spark, name, broker, create_time=True, finished=True)
    found = tideglass.query(spark, ALL, {"tolls": asked})["rows"].collect()
    assert [round(r.at.timestamp() * 1000) for r in found] == [stamp_ms]


def test_silence_after_the_last_message_closes_windows(
    spark: SparkSession, broker: str, tmp_path: Path
) -> None:
    name = topic(broker)
    send(broker, name, [Message(b'{"plate": "A"}', None, n % 2) for n in range(10)])
    query = "SELECT COUNT(*) AS n INTO rows FROM tolls GROUP BY TumblingWindow(second, 1)"
    given = tideglass.kafka(spark, name, broker, options=EARLIEST)
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "true")
    try:
        running = (
            tideglass.query(spark, query, {"tolls": given}, {"late_arrival": "1s"})["rows"]
            .writeStream.format("memory")
            .queryName("silence")
            .option("checkpointLocation", str(tmp_path))
            .trigger(processingTime="0 seconds")
            .start()
        )
    finally:
        spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    try:
        for _ in range(120):
            assert not running.awaitTermination(0.5)
            counted = spark.sql("SELECT COALESCE(SUM(n), 0) AS n FROM silence").collect()[0].n
            if counted == 10:
                break
    finally:
        running.stop()
    assert counted == 10
