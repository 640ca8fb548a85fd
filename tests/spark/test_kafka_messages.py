"""Messages as Spark's Kafka source gives them become events; no broker is needed for that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql.streaming.readwriter import DataStreamReader

import tideglass
from tideglass.core.errors import TideglassError
from tideglass.spark.kafka.input import messages_input

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUERY = """
CREATE TABLE tolls (plate nvarchar(max), toll bigint)
SELECT plate, toll * 2 AS twice, KafkaKey AS k, KafkaHeaders AS h, KafkaTopic AS topic,
    CAST(PartitionId AS bigint) AS p, System.Timestamp() AS at
INTO rows FROM tolls
"""


@pytest.fixture(autouse=True)
def few_partitions(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "2")


def messages(spark: SparkSession, timestamp_type: int = 1) -> DataFrame:
    """Two partitions; their messages not in the order of their offsets; one holds two events, one is bad."""
    header = bytearray(b"v1")
    texts = [
        ("b", '{"plate": "B", "toll": 2}', 1, 11, 2.0),
        (None, '[{"plate": "C", "toll": 3}, {"plate": "D", "toll": 4}]', 1, 12, 2.5),
        ("a", '{"plate": "A", "toll": 1}', 0, 7, 1.0),
        ("x", '{"plate": "X", "toll": ', 0, 8, 3.0),
    ]
    rows = [
        (
            None if key is None else key.encode(),
            text.encode(),
            "tolls",
            partition,
            offset,
            1767225600.0 + seconds,
            timestamp_type,
            [("version", header)] if key == "a" else None,
        )
        for key, text, partition, offset, seconds in reversed(texts)
    ]
    schema = (
        "key BINARY, value BINARY, topic STRING, partition INT, offset LONG, seconds DOUBLE, "
        "timestampType INT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
    )
    return spark.createDataFrame(rows, schema).selectExpr("*", "timestamp_seconds(seconds) AS timestamp")


def test_messages_are_events_with_the_brokers_time_and_their_metadata(spark: SparkSession) -> None:
    rows = tideglass.query(spark, QUERY, {"tolls": messages_input(messages(spark))})["rows"]
    assert dict(rows.dtypes) == {
        "plate": "string", "twice": "bigint", "k": "string",
        "h": "array<struct<key:string,value:binary>>", "topic": "string",
        "p": "bigint", "at": "timestamp",
    }  # fmt: skip
    found = [
        (r.plate, r.twice, r.k, r.h, r.topic, r.p, r.at.second + r.at.microsecond / 1e6)
        for r in rows.orderBy("plate").collect()
    ]
    assert found == [
        ("A", 2, "a", [("version", b"v1")], "tolls", 0, 1.0),
        ("B", 4, "b", None, "tolls", 1, 2.0),
        ("C", 6, None, None, "tolls", 1, 2.5),
        ("D", 8, None, None, "tolls", 1, 2.5),
    ]


def test_producers_times_are_refused_unless_asked_for(spark: SparkSession) -> None:
    query = "SELECT COUNT(*) AS n INTO o FROM tolls GROUP BY TumblingWindow(minute, 1)"
    of_producers = messages(spark, timestamp_type=0)
    with pytest.raises(Exception, match="LogAppendTime"):
        tideglass.query(spark, query, {"tolls": messages_input(of_producers)})["o"].collect()
    asked = tideglass.query(spark, query, {"tolls": messages_input(of_producers, create_time=True)})["o"]
    assert [row.n for row in asked.collect()] == [4]


def test_a_session_without_the_connector_is_told_how_to_get_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(_: DataStreamReader) -> None:
        raise AnalysisException("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: kafka.")

    monkeypatch.setattr(DataStreamReader, "load", load)
    with pytest.raises(TideglassError, match=r"spark\.jars\.packages=org\.apache\.spark:spark-sql-kafka"):
        tideglass.kafka(spark, "tolls", "localhost:9092")
