"""A job with live inputs: DataFrames behind an ingress, beside the job's own source where it has files too.

    topics ──mapInArrow──▶ chunks ──ingress──┐
    files  ──the job's own source────────────┴▶ stage 1 … n ──▶ the driver's commit

A live input has no end of its own. A run that is to end reads what is there and is then started once more
with `ending`, which reads what came meanwhile and ends every input in one last batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from tideglass.connect.topics import TopicInput
from tideglass.plan.topology import Topology
from tideglass.runtime.exchange import Sink
from tideglass.spark.frames import end_rows, idles, ingress_numbers, ingressed
from tideglass.spark.kafka import topic_input
from tideglass.spark.key_groups import key_numbers
from tideglass.spark.processor import MESSAGE_SCHEMA
from tideglass.spark.query import Commit, QueryOptions, configure, source_of, staged, write
from tideglass.spark.source import ARROW_SCHEMA, SourceJob

_NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"


@dataclass(frozen=True, slots=True)
class LiveJob:
    """A job some of whose inputs are topics.

    topics: by the topology's names. files: the other inputs, None if there are none. identity: what the
    state in a checkpoint must belong to. finished: the run is to end. ending: it ends now.
    idle_seconds: how often silence is told. offsets: per topic and partition, the first that a run without
    a checkpoint reads; a topic that is absent begins as the project says.
    """

    topology: Topology
    topics: Mapping[str, TopicInput]
    files: SourceJob | None
    sink: Sink
    identity: str
    finished: bool
    ending: bool
    idle_seconds: float
    offsets: Mapping[str, Mapping[str, int]]


def start_live(spark: SparkSession, job: LiveJob, options: QueryOptions, commit: Commit) -> StreamingQuery:
    """Start the job. `commit` is called once per batch, in order, with what is for the driver."""
    configure(spark, job.topology, options)
    inputs = {
        name: topic_input(
            spark, topic, job.offsets.get(name), finished=job.finished, limited=not job.ending
        ).checked(name)
        for name, topic in job.topics.items()
    }
    spark.dataSource.register(EndSource)
    numbers = json.dumps([*ingress_numbers(job.topology, inputs).values()])
    ends = (
        spark.readStream.format(EndSource.name())
        .option("numbers", numbers)
        .option("ending", str(job.ending).lower())
        .load()
    )
    # A recording tells nothing of silence; and with timers a run that is to end never would.
    told = idles(job.topology) and not job.finished
    idle_ms = max(1, round(job.idle_seconds * 1000)) if told else None
    messages = ingressed(job.topology, inputs, job.sink, job.identity, idle_ms, ends)
    if job.files is not None:
        messages = messages.unionAll(source_of(spark, job.files))
    messages = staged(messages, job.topology, job.sink, key_numbers(job.topology.key_groups), remembers=True)
    before = spark.conf.get(_NO_DATA)
    spark.conf.set(_NO_DATA, str(told).lower())  # timers are served in batches of their own
    try:
        return write(messages, options, commit, finished=job.finished)
    finally:
        spark.conf.set(_NO_DATA, str(before))


class EndSource(DataSource):
    """The data source `tideglass_end`: gives every ingress the message of its end, once, when `ending`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self.options = options

    @classmethod
    def name(cls) -> str:
        return "tideglass_end"

    def schema(self) -> StructType:
        return MESSAGE_SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return EndReader(json.loads(self.options["numbers"]), self.options["ending"] == "true")


class EndPartition(InputPartition):
    """The ingresses that end in a batch."""

    def __init__(self, numbers: tuple[int, ...]) -> None:
        super().__init__(numbers)
        self.numbers = numbers


class EndReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Its offset says whether the end has been told."""

    def __init__(self, numbers: list[int], ending: bool) -> None:
        self.numbers = tuple(numbers)
        self.ending = ending

    def initialOffset(self) -> dict[str, bool]:
        return {"ended": False}

    def prepareForTriggerAvailableNow(self) -> None:
        """Nothing to record: the end is there from the start, or never."""

    def latestOffset(self, start: dict[str, bool], limit: ReadLimit) -> dict[str, bool]:
        return {"ended": start["ended"] or self.ending}

    def partitions(self, start: dict[str, bool], end: dict[str, bool]) -> list[EndPartition]:
        return [EndPartition(self.numbers if end["ended"] and not start["ended"] else ())]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        chosen = cast("EndPartition", partition)  # what `partitions` gave
        for row in end_rows(chosen.numbers):
            yield pa.record_batch([[value] for value in row], schema=ARROW_SCHEMA)
