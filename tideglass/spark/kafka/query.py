"""A job with live inputs: DataFrames with an ingress, beside the job's own source where it has files too.

    topics ──mapInArrow──▶ chunks ──ingress──┐
    files  ──the job's own source────────────┴▶ stage 1 … n ──▶ the driver's commit

A topic has no end of its own. A run that is to end reads what is there; its query is then started once more
with `ending`, reads what came meanwhile and ends every input in one last batch. When a run reads events
again, a file says that all of them are read. The control source (`spark.kafka.control_source`) sends the
ingresses what they cannot see for themselves.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tideglass.connect.kafka.topic import TopicInput
from tideglass.connect.reference.references import NO_REFERENCES, References
from tideglass.engine.exchange import Sink
from tideglass.ingress.partition_watermarks import PartitionWatermarks
from tideglass.ingress.read_from import InputBegin
from tideglass.plan.topology import Topology
from tideglass.spark.checkpoint import has_timers
from tideglass.spark.dataframes.query import idles, ingress_numbers, ingressed
from tideglass.spark.file_source import SourceJob
from tideglass.spark.kafka.control_source import ControlJob, ControlSource
from tideglass.spark.kafka.input import asks_for_headers, topic_input
from tideglass.spark.key_numbers import key_numbers
from tideglass.spark.query import Commit, QueryOptions, configure, source_of, staged, write

_NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"


@dataclass(frozen=True, slots=True)
class LiveJob:
    """A job some of whose inputs are topics.

    topology: the operators of the job.
    topics: by the names of the topology.
    files: the source of the other inputs; None if there are none.
    sink: where its rows go.
    finished: the run is to end.
    ending: the run ends now.
    idle_seconds: how often idle time is reported.
    offsets: per topic and partition, the first that a run without a checkpoint reads; a topic that is absent
        begins where the project does.
    partition_watermarks: what the ingresses of a topic, as many as there are key groups, know of each other;
        None: a topic has one ingress.
    begins: per topic, where the state of its ingress begins.
    replayed_file: exists once all is read again that the run before had read; None when nothing is.
    references: reference data; those of `files` go by what these have found.
    profile: every task reports where its time went.
    """

    topology: Topology
    topics: Mapping[str, TopicInput]
    files: SourceJob | None
    sink: Sink
    finished: bool
    ending: bool
    idle_seconds: float
    offsets: Mapping[str, Mapping[str, int]]
    partition_watermarks: PartitionWatermarks | None
    begins: Mapping[str, InputBegin]
    replayed_file: str | None = None
    references: References = NO_REFERENCES
    profile: bool = False


def start_live(spark: SparkSession, job: LiveJob, options: QueryOptions, commit: Commit) -> StreamingQuery:
    """Start the job. `commit` is called once per batch, in order, with what is for the driver."""
    configure(spark, job.topology, options)
    inputs = {
        name: topic_input(
            spark,
            topic,
            job.offsets.get(name),
            finished=job.finished,
            limited=not job.ending,
            headers=asks_for_headers(topic, job.topology.fields[name].paths),
        ).checked(name)
        for name, topic in job.topics.items()
    }
    spark.dataSource.register(ControlSource)
    numbers = tuple(
        itertools.chain(
            *ingress_numbers(job.topology, inputs, shared=job.partition_watermarks is not None).values()
        )
    )
    control_job = ControlJob(numbers, job.finished, job.ending, job.replayed_file, job.references)
    control = spark.readStream.format(ControlSource.name()).option("job", control_job.option()).load()
    # A recording has no idle time; and with timers that are served a run that is to end never would.
    reports_idle = idles(job.topology) and not job.finished
    idle_ms = max(1, round(job.idle_seconds * 1000)) if reports_idle else None
    timers = has_timers(options.checkpoint)  # the run that made them may not have been one to end
    messages = ingressed(
        job.topology,
        inputs,
        job.sink,
        None,
        idle_ms,
        control,
        begins=job.begins,
        references=job.references,
        profile=job.profile,
        partition_watermarks=job.partition_watermarks,
        timers=reports_idle if timers is None else timers,
    )
    if job.files is not None:
        messages = messages.unionAll(source_of(spark, job.files))
    messages = staged(
        messages,
        job.topology,
        job.sink,
        key_numbers(job.topology.key_groups),
        job.references,
        remembers=True,
        profile=job.profile,
    )
    before = spark.conf.get(_NO_DATA)
    spark.conf.set(_NO_DATA, str(reports_idle).lower())  # timers are served in batches of their own
    try:
        return write(messages, options, commit, finished=job.finished)
    finally:
        spark.conf.set(_NO_DATA, str(before))
