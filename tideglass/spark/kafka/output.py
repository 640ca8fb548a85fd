"""Topics as outputs: the records of a batch are written by Spark's own connector, from where they lie."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from tideglass.connect.kafka.topic import TopicOutput, resolved
from tideglass.engine.ipc import from_bytes
from tideglass.engine.messages import RECORDS_HEAD, Kind, Message

_COLUMNS = "key BINARY, value BINARY, partition INT"


def _is_records() -> Column:
    return fn.col("kind") == Kind.RECORDS.value


def with_heads(batch: DataFrame) -> DataFrame:
    """A batch of MESSAGE_SCHEMA, of its RECORDS only the head: what the driver is told."""
    head = fn.when(_is_records(), fn.substring("body", 1, RECORDS_HEAD)).otherwise(fn.col("body"))
    return batch.withColumn("body", head)


def write_records(batch: DataFrame, messages: Iterable[Message], topics: Mapping[int, TopicOutput]) -> None:
    """Write a batch's RECORDS to their topics. A batch that runs again is written again.

    messages: those of the batch, which tell what there is to write. topics: by ordinal of the output.
    """
    for ordinal in sorted({each.target for each in messages if each.kind is Kind.RECORDS}):
        _write(batch.where(_is_records() & (fn.col("target") == ordinal)), topics[ordinal])


def _write(messages: DataFrame, topic: TopicOutput) -> None:
    options = {name: resolved(value, os.environ) for name, value in topic.options.items()}
    (
        messages.select("body")
        .mapInArrow(_records, _COLUMNS)
        .write.format("kafka")
        .option("kafka.bootstrap.servers", resolved(topic.servers, os.environ))
        .options(**options)
        .option("topic", resolved(topic.topic, os.environ))
        .save()
    )


def _records(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for body in batch.column(0).to_pylist():
            yield from from_bytes(body[RECORDS_HEAD:]).to_batches()
