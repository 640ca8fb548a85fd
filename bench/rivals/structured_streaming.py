"""The toll queries hand-written for Spark Structured Streaming, in its best configuration here.

RocksDB state with changelog checkpointing, no row counts kept by it, one shuffle partition a core, the
JSON schema given, all files or all messages offered at once unless told how many files, topics fetched from
as tideglass does, rows written to Parquet. Early events are dropped by a filter before the watermark sees
them (one far in the future would otherwise make everything after it late), and the watermark is two minutes;
later rows are dropped, which is less work than the rules of `asa.md` 1.4.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from argparse import Namespace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from kafka_jars import connector
from programs import answer, arguments
from tideglass.connect.kafka.topic import FETCHING
from tideglass.spark.session.java import use_java
from tideglass.spark.session.spark_settings import LOCAL_CHECKPOINTS

SCHEMA = (
    "seq BIGINT, partition BIGINT, device STRING, event_time BIGINT, arrival_time BIGINT, "
    "tolls BIGINT, amount DOUBLE, plate STRING"
)
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.driver.memory": "4g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Without it every write would first look whether the key is there, only to count rows.
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    "spark.sql.streaming.checkpointFileManagerClass": LOCAL_CHECKPOINTS,
}


def main() -> None:
    parser = arguments(("tumbling", "hopping", "session", "project", "join"))
    parser.add_argument("--files-per-batch", type=int, help="all at once when it is not said")
    parser.add_argument("--goes-on", action="store_true", help="from the checkpoint in --out")
    options = parser.parse_args()
    use_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.Builder().master(f"local[{options.cores}]")
    for name, value in (SETTINGS | (connector().settings() if options.topic else {})).items():
        builder = builder.config(name, value)
    spark = builder.config("spark.sql.shuffle.partitions", str(options.cores)).getOrCreate()
    result = query_of(spark, options)
    if not options.goes_on:
        shutil.rmtree(options.out, ignore_errors=True)
    started = time.monotonic()
    (
        result.writeStream.format("parquet")
        .option("checkpointLocation", os.path.join(options.out, "checkpoint"))
        .option("path", os.path.join(options.out, "rows"))
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )
    answer(time.monotonic() - started)


def stream(spark: SparkSession, options: Namespace, name: str) -> DataFrame:
    """The events of an input that are not early, with their time as `at`."""
    read = messages(spark, options) if options.topic else files(spark, options, name)
    return read.where("event_time - arrival_time <= 300000").withColumn(
        "at", f.timestamp_millis("event_time")
    )


def files(spark: SparkSession, options: Namespace, name: str) -> DataFrame:
    reader = spark.readStream.schema(SCHEMA).format(options.format).option("recursiveFileLookup", "true")
    if options.files_per_batch is not None:
        reader = reader.option("maxFilesPerTrigger", options.files_per_batch)
    return reader.load(str(options.data / name))


def messages(spark: SparkSession, options: Namespace) -> DataFrame:
    """The events in the messages of the topic."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", options.broker)
    reader = reader.option("subscribe", options.topic).options(**FETCHING)
    read = reader.option("startingOffsets", "earliest").load()
    return read.select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("event")).select("event.*")


def query_of(spark: SparkSession, options: Namespace) -> DataFrame:
    """The rows the query asks for, as a streaming DataFrame."""
    if options.query == "join":
        entry, left = (
            stream(spark, options, name)
            .withWatermark("at", "2 minutes")
            .select(
                f.col("seq").alias(f"{name}_seq"),
                f.col("plate").alias(f"{name}_plate"),
                f.col("at").alias(f"{name}_at"),
            )
            for name in ("entry", "exit")
        )
        within = "exit_at >= entry_at AND exit_at <= entry_at + INTERVAL 15 MINUTES"
        matched = entry.join(left, f.expr(f"entry_plate = exit_plate AND {within}"))
        return matched.select("entry_seq", "exit_seq", f.col("entry_plate").alias("plate"))
    rows = stream(spark, options, "toll")
    if options.query == "project":
        return rows.where("tolls >= 6").select(
            "seq", "device", "event_time", (f.col("amount") * 1.1).alias("amount"), "plate"
        )
    window = {
        "tumbling": f.window("at", "1 minute"),
        "hopping": f.window("at", "60 seconds", "10 seconds"),
        "session": f.session_window("at", "30 seconds"),
    }[options.query]
    grouped = rows.withWatermark("at", "2 minutes").groupBy(window.alias("w"), "device")
    counted = f.count("*").alias("n")
    if options.query == "tumbling":
        result = grouped.agg(counted, f.sum("tolls").alias("tolls"), f.avg("amount").alias("amount"))
    else:
        result = grouped.agg(counted)
    return result.withColumn("window_end", f.col("w.end")).drop("w")


if __name__ == "__main__":
    main()
