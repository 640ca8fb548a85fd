"""A job as one Spark streaming query: source, one stateful stage per level, and the driver's commit."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tideglass.connect.reference.references import NO_REFERENCES, References
from tideglass.engine.exchange import Sink
from tideglass.engine.messages import Kind, Message, for_driver, raise_failure
from tideglass.engine.output_filter import emitted_messages
from tideglass.plan.topology import Topology
from tideglass.spark.checkpoint import relocate
from tideglass.spark.descriptions import describe
from tideglass.spark.errors import explained
from tideglass.spark.file_source import JobSource, SourceJob
from tideglass.spark.kafka.output import with_heads, write_records
from tideglass.spark.processor import MESSAGE_SCHEMA, StageProcessor
from tideglass.spark.session.planners import end_planners
from tideglass.spark.session.spark_settings import (
    CHECKPOINT_FILES,
    LOCAL_CHECKPOINTS,
    PARTITIONS,
    require,
    warn_of_slowness,
)
from tideglass.spark.stop_asked import StopAsked, is_stop
from tideglass.storage import storage_path

#: What the driver does with the messages of a batch. May run again for the same batch after a crash.
Commit = Callable[[int, list[Message]], None]


class BatchWatch(Protocol):
    """Looks on while batches run."""

    def began(self, batch: int) -> None:
        """A batch is about to run."""
        ...

    def calling(self, ordinal: int) -> AbstractContextManager[None]:
        """What Spark's write of a batch to the output of an ordinal is done in."""
        ...


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """How a query runs.

    checkpoint: directory of Spark's checkpoint.
    stop_file: while it exists, no new batch begins.
    kafka: options of Spark's Kafka writer, by ordinal of the outputs it writes.
    interval_seconds: least time between two batches.
    alone: nothing else is run in the session, so what Spark has planned with may end.
    watch: looks on while batches run; None: nobody does.
    fence: called before a batch runs and before anything of it is written; raises where the query is to end.
    job: its name, for Spark's UI.
    flow: what a batch computes, for Spark's UI (`descriptions.flow`).
    linked: Spark's UI leads to the page of the job (`session.page_link`).
    """

    checkpoint: str
    stop_file: str
    kafka: Mapping[int, Mapping[str, str]] = field(default_factory=dict[int, Mapping[str, str]])
    interval_seconds: float = 0.0
    alone: bool = False
    watch: BatchWatch | None = None
    job: str = ""
    flow: str = ""
    linked: bool = False
    fence: Callable[[], None] | None = None


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

    remembers: some senders may send nothing in a batch (see KeyGroupTask). profile: key groups report where
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
    configure(spark, job.topology, options)
    messages = staged(
        source_of(spark, job),
        job.topology,
        job.sink,
        job.key_numbers,
        job.references,
        profile=job.profile,
    )
    return write(messages, options, commit, finished=job.finished)


def configure(spark: SparkSession, topology: Topology, options: QueryOptions) -> None:
    """Settings of the session that a job needs; warns of those of the user that it changes."""
    for text in require(spark):
        warnings.warn(text, stacklevel=2)
    warn_of_slowness(spark)
    spark.conf.set(PARTITIONS, str(topology.key_groups))
    checkpoint = storage_path(options.checkpoint)
    manager = dict(spark.conf.getAll).get(CHECKPOINT_FILES)
    if checkpoint.is_local and manager is None:
        spark.conf.set(CHECKPOINT_FILES, LOCAL_CHECKPOINTS)
    if not checkpoint.is_local and manager == LOCAL_CHECKPOINTS:  # of a run before in this session
        spark.conf.unset(CHECKPOINT_FILES)
    relocate(checkpoint)


def source_of(spark: SparkSession, job: SourceJob) -> DataFrame:
    """The messages of the inputs that the job's own source reads."""
    spark.dataSource.register(JobSource)
    return spark.readStream.format(JobSource.name()).option("job", job.option()).load()


def write(messages: DataFrame, options: QueryOptions, commit: Commit, *, finished: bool) -> StreamingQuery:
    """Run the query: write records to their topics, and hand the driver's messages to `commit`."""

    planned = False

    def on_batch(batch: DataFrame, batch_id: int) -> None:
        nonlocal planned
        if storage_path(options.stop_file).exists():
            raise StopAsked
        if options.fence is not None:
            options.fence()
        if options.watch is not None:
            options.watch.began(batch_id)
        if options.alone and not planned:
            end_planners(batch.sparkSession)
        planned = True
        describe(
            batch.sparkSession, f"batch {batch_id}: {options.flow}", job=options.job, linked=options.linked
        )
        if not options.kafka:
            messages = for_driver(_messages(batch))
            raise_failure(messages)
        else:
            kept = batch.persist()  # else its stages would run once for the driver and once for every topic
            try:
                messages = for_driver(_messages(with_heads(kept)))
                raise_failure(messages)  # before anything of the batch is written
                if options.fence is not None:
                    options.fence()
                calling = nullcontext if options.watch is None else options.watch.calling
                write_records(kept, emitted_messages(messages), options.kafka, calling)
            finally:
                kept.unpersist()
        commit(batch_id, messages)

    writer = messages.writeStream.foreachBatch(on_batch).option("checkpointLocation", options.checkpoint)
    if finished:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{options.interval_seconds} seconds").start()


def _messages(batch: DataFrame) -> list[Message]:
    return [
        Message(row["key_group"], row["level"], Kind(row["kind"]), row["target"], row["sender"], row["body"])
        for row in batch.toArrow().to_pylist()
    ]


def waits_for_events(query: StreamingQuery) -> bool:
    """Whether the query has looked and found nothing to read, or nothing more."""
    return str(query.status["message"]).startswith("Waiting for")


def wait(
    query: StreamingQuery, asked_to_stop: threading.Event, look: Callable[[], None] | None = None
) -> None:
    """Wait until the query ends, or stop it between two batches once asked to.

    The stop file requests a stop, too: a busy query has no moment between two batches. A batch may see the
    file before `asked_to_stop` is set. KeyboardInterrupt stops the query at once.
    look: called about once a second.
    Raises the TideglassError that ended the query.
    """
    try:
        while not query.awaitTermination(1):
            if look is not None:
                look()
            if asked_to_stop.is_set() and not query.status["isTriggerActive"]:
                query.stop()
    except StreamingQueryException as error:
        if not is_stop(str(error)):
            raise explained(str(error)) from error
    except KeyboardInterrupt:
        query.stop()
        raise
