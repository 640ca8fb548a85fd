"""Topics as outputs: Spark's connector writes the records of a batch from where they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from tideglass.connect.environment import resolved
from tideglass.connect.kafka.stand_in import at_stand_in
from tideglass.core.ipc import from_bytes
from tideglass.engine.messages import RECORDS_HEAD, Kind, Message

_COLUMNS = "key BINARY, value BINARY, partition INT"


def _is_records() -> Column:
    return fn.col("kind") == Kind.RECORDS.value


def with_heads(batch: DataFrame) -> DataFrame:
    """A batch of MESSAGE_SCHEMA, of its RECORDS only the head: what the driver gets."""
    head = fn.when(_is_records(), fn.substring("body", 1, RECORDS_HEAD)).otherwise(fn.col("body"))
    return batch.withColumn("body", head)


def write_records(
    batch: DataFrame,
    messages: Iterable[Message],
    options: Mapping[int, Mapping[str, str]],
    calling: Callable[[int], AbstractContextManager[None]],
) -> None:
    """Write a batch's RECORDS to their topics. A batch that runs again is written again.

    messages: those of the batch, which say what there is to write.
    options: of Spark's writer, by ordinal of the output.
    calling: what the write to the output of an ordinal is done in.
    """
    for ordinal in sorted({each.target for each in messages if each.kind is Kind.RECORDS}):
        with calling(ordinal):
            _write(batch.where(_is_records() & (fn.col("target") == ordinal)), options[ordinal])


def _write(messages: DataFrame, options: Mapping[str, str]) -> None:
    resolved_options = at_stand_in({name: resolved(value, os.environ) for name, value in options.items()})
    messages.select("body").mapInArrow(_records, _COLUMNS).write.format("kafka").options(
        **resolved_options
    ).save()


def _records(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for body in batch.column(0).to_pylist():
            yield from from_bytes(body[RECORDS_HEAD:]).to_batches()
