"""The Spark query of a run: the session it runs in, what its sources read, and waiting for its end."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tideglass.connect.kafka.topic import HeldPartition, TopicInput
from tideglass.connect.reference.database import SqlReference
from tideglass.connect.reference.files import FileReference
from tideglass.connect.reference.journal import JournaledReferences, ReferenceInput
from tideglass.core.time import NANOSECONDS_PER_TICK
from tideglass.engine.output_filter import OutputFilter
from tideglass.job.commit import Committer
from tideglass.job.directory import JobDirectory
from tideglass.job.options import JobPlan
from tideglass.job.outputs import TaskSink
from tideglass.job.progress.replay import ReplayState, released_file
from tideglass.job.report.gauges import LOOK_SECONDS
from tideglass.job.report.status import ReferenceStatus
from tideglass.job.run_session import libraries, session_options
from tideglass.job.start.topics import input_begin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tideglass.spark.file_source import SourceJob


@dataclass(frozen=True, slots=True)
class SparkHost:
    """Where a run has Spark from.

    job: what runs.
    directory: of the job, for Spark's log.
    shared: a session with other work to do, too; None for one of the job's own, started when first needed.
    """

    job: JobPlan
    directory: JobDirectory
    shared: SparkSession | None = None

    def session(self) -> SparkSession:
        from tideglass.spark.interpreter import see_interpreter
        from tideglass.spark.session.spark_session import open_session

        if self.shared is not None:
            return self.shared
        made = open_session(session_options(self.job.options, self.directory, libraries(self.job)))
        see_interpreter(made)
        return made

    def linked(self, session: SparkSession) -> bool:
        """Has Spark's UI lead to the job's page, if it has one: whether it does. A failure is logged."""
        from tideglass.spark.session.page_link import link_page

        url = self.job.options.page_url
        if url is None:
            return False
        problem = link_page(session, url)
        if problem is not None and self.job.options.ui:
            with self.directory.spark_log.open("a") as log:
                print(f"tideglass: Spark's UI has no link to {url}: {problem}", file=log)
        return problem is None

    def held_partitions(self, topic: TopicInput, from_ms: int | None) -> Mapping[int, HeldPartition]:
        """What a topic holds, by partition. from_ms: the time `HeldPartition.found` is of, None for none."""
        from tideglass.spark.kafka.offsets import held_partitions

        return held_partitions(self.session(), topic, from_ms)


def start_query(host: SparkHost, committer: Committer) -> StreamingQuery:
    """Start the query of a run. The committer gets what every batch has for the driver."""
    from tideglass.spark.descriptions import flow
    from tideglass.spark.kafka.query import LiveJob, start_live
    from tideglass.spark.query import QueryOptions, start

    job, topology = host.job, host.job.compiled.topology
    read_plan = committer.reporter.setup.read_plan
    session, references = host.session(), _references(job, host.directory)
    # On a cluster Spark's own number is that of the executors which were there first, or one the user chose.
    tasks = job.executors.cores if job.executors.count else session.sparkContext.defaultParallelism
    source = _source(job, committer, references, tasks=tasks)
    kafka_options = {
        ordinal: options
        for ordinal, name in enumerate(topology.outputs)
        if (options := job.outputs[name].kafka_options) is not None
    }
    options = QueryOptions(
        str(committer.checkpoint),
        str(host.directory.stop),
        kafka_options,
        alone=host.shared is None,
        watch=committer.reporter.view,
        job=job.name,
        flow=flow(topology),
        linked=host.linked(session),
        fence=committer.reporter.check_lock,
    )
    if not job.topics:
        return start(session, source, options, committer.commit)
    # Where topics are read again, one ingress scans a topic: all its partitions are known from the start.
    again = source.replayed_file is not None
    live = LiveJob(
        topology=topology,
        topics=job.topics,
        files=source if job.inputs else None,
        sink=source.sink,
        finished=job.options.once,
        ending=committer.replay is ReplayState.ENDING,
        idle_seconds=job.options.idle_seconds,
        offsets=read_plan.offsets,
        partition_watermarks=None if again else committer.partition_watermarks,
        begins={name: input_begin(read_plan, name) for name in job.topics} if again else {},
        replayed_file=source.replayed_file,
        references=references,
        profile=source.profile,
    )
    return start_live(session, live, options, committer.commit)


def _source(job: JobPlan, committer: Committer, references: JournaledReferences, *, tasks: int) -> SourceJob:
    """The source of the inputs that tideglass reads itself."""
    from tideglass.spark.file_source import SourceJob
    from tideglass.spark.key_numbers import key_numbers

    setup, topology = committer.reporter.setup, job.compiled.topology
    read_plan = setup.read_plan
    switches = read_plan.reads_again and bool(job.topics)
    return SourceJob(
        topology=topology,
        inputs=tuple(committer.inputs),
        snapshots=committer.scan_states,
        sink=OutputFilter(TaskSink(dict(job.outputs)), dict(setup.plan.emit_from_ticks)),
        key_numbers=key_numbers(topology.key_groups),
        finished=job.options.once,
        batch_bytes=job.options.batch_bytes,
        idle_seconds=job.options.idle_seconds,
        tasks=tasks,
        stop_file=str(committer.reporter.directory.stop),
        profile=committer.profile is not None,
        begins={name: of for name, of in read_plan.begins.items() if name in job.inputs},
        emits_replayed=read_plan.after_ticks is None,
        replayed_file=str(released_file(committer.generation)) if switches else None,
        # One process alone looks for snapshots: with topics the control source does.
        references=replace(references, looks=False) if job.topics else references,
    )


def _references(job: JobPlan, directory: JobDirectory) -> JournaledReferences:
    """The reference inputs; with topics, those that are there now are found before the query starts."""
    stored = str(directory.reference)
    references = JournaledReferences(stored, _reference_inputs(job, stored))
    if job.topics:
        references.find(None if job.options.once else time.time_ns() // NANOSECONDS_PER_TICK)
    return references


def _reference_inputs(job: JobPlan, stored: str) -> tuple[ReferenceInput, ...]:
    return tuple(
        FileReference(spec) if spec.sql is None else SqlReference(spec, stored)
        for spec in job.references.values()
    )


def reference_status(job: JobPlan, directory: JobDirectory) -> tuple[ReferenceStatus, ...]:
    """The snapshots that the journals of the reference inputs name now; looks for no others."""
    stored = str(directory.reference)
    references = JournaledReferences(stored, _reference_inputs(job, stored), looks=False)
    known = references.find(None)
    newest = {name: references.snapshots(name, count)[-1] for name, count in known.items() if count}
    return tuple(
        ReferenceStatus(name, count, None, newest[name].effective_ticks if count else None)
        for name, count in known.items()
    )


def wait_for_end(query: StreamingQuery, committer: Committer) -> None:
    """Wait until the query ends or the run is asked to stop; meanwhile follow how it goes."""
    from tideglass.spark.query import wait, waits_for_events
    from tideglass.spark.task_times import QueryBooks

    reporter, profile, books = committer.reporter, committer.profile, QueryBooks(query)
    input_of = {topic.place(os.environ): name for name, topic in committer.job.topics.items()}
    looked_seconds = 0.0

    def follow() -> None:
        nonlocal looked_seconds
        if input_of and reporter.view is not None and time.monotonic() - looked_seconds >= LOOK_SECONDS:
            unread = {input_of[topic]: count for topic, count in books.unread().items() if topic in input_of}
            reporter.view.gauges.topics_backlog = unread
            looked_seconds = time.monotonic() if unread else 0.0  # before the first batch Spark knows nothing
        if reporter.starting and waits_for_events(query):
            reporter.running()
        if profile is not None:
            for progress in books.new_progress():
                profile.take_progress(progress)
            profile.run_seconds = books.count_tasks()

    wait(query, reporter.stop_requested, follow)
    follow()
    reporter.check_lock()
