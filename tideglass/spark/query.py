"""A job as one Spark streaming query: source, one stateful stage per level, and the driver's commit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tideglass.connect.reference.references import NO_REFERENCES, References
from tideglass.plan.topology import Topology
from tideglass.runtime.exchange import Sink
from tideglass.runtime.message import Kind, Message, for_driver, raise_failure
from tideglass.spark.checkpoint import relocate
from tideglass.spark.failure import explained
from tideglass.spark.processor import MESSAGE_SCHEMA, StageProcessor
from tideglass.spark.session import LOCAL_CHECKPOINTS
from tideglass.spark.source import JobSource, SourceJob

#: What the driver does with the messages of a batch. May run again for the same batch after a crash.
Commit = Callable[[int, list[Message]], None]


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """checkpoint: directory of Spark's checkpoint. interval_seconds: least time between two batches."""

    checkpoint: str
    interval_seconds: float = 0.0


def staged(
    messages: DataFrame,
    topology: Topology,
    sink: Sink,
    key_numbers: tuple[int, ...],
    references: References = NO_REFERENCES,
    *,
    remembers: bool = False,
    profile: bool = False,
    fails_the_task: bool = False,
) -> DataFrame:
    """The messages after every stateful stage of the topology.

    remembers: some senders may be silent in a batch (see KeyGroupTask). profile: key groups say where
    their time went. fails_the_task: see StageProcessor.
    """
    for level in range(1, topology.levels + 1):
        messages = messages.groupBy("key_group").transformWithState(
            StageProcessor(
                topology,
                level,
                sink,
                key_numbers,
                references,
                remembers=remembers,
                fails_the_task=fails_the_task,
                profile=profile,
            ),
            MESSAGE_SCHEMA,
            "Append",
            "None",
        )
    return messages


def start(spark: SparkSession, job: SourceJob, options: QueryOptions, commit: Commit) -> StreamingQuery:
    """Start the job. `commit` is called once per batch, in order, with what is for the driver."""
    spark.conf.set("spark.sql.shuffle.partitions", str(job.topology.key_groups))
    if "://" not in options.checkpoint:
        spark.conf.set("spark.sql.streaming.checkpointFileManagerClass", LOCAL_CHECKPOINTS)
        relocate(Path(options.checkpoint))
    spark.dataSource.register(JobSource)
    source = spark.readStream.format(JobSource.name()).option("job", job.option()).load()

    def on_batch(batch: DataFrame, batch_id: int) -> None:
        table = batch.toArrow()
        messages = [
            Message(
                row["key_group"], row["level"], Kind(row["kind"]), row["target"], row["sender"], row["body"]
            )
            for row in table.to_pylist()
        ]
        messages = for_driver(messages)
        raise_failure(messages)
        commit(batch_id, messages)

    writer = (
        staged(source, job.topology, job.sink, job.key_numbers, job.references, profile=job.profile)
        .writeStream.foreachBatch(on_batch)
        .option("checkpointLocation", options.checkpoint)
    )
    if job.finished:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{options.interval_seconds} seconds").start()


def wait(
    query: StreamingQuery, asked_to_stop: threading.Event, look: Callable[[], None] | None = None
) -> None:
    """Wait until the query ends, or stop it between two batches once asked to.

    A stop is asked of the source too (`SourceJob.stop_file`), else a busy query has no moment between
    two batches. look: called about once a second. Raises the TideglassError that ended it.
    KeyboardInterrupt stops it at once.
    """
    try:
        while not query.awaitTermination(1):
            if look is not None:
                look()
            if asked_to_stop.is_set() and not query.status["isTriggerActive"]:
                query.stop()
    except StreamingQueryException as error:
        raise explained(str(error)) from error
    except KeyboardInterrupt:
        query.stop()
        raise
