"""Runs a job on Spark, from its plan to committed rows.

project + options ──plan_job──▶ Job ──run──▶ Metrics
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tideglass.connect.kafka.topic import HeldPartition, TopicInput
from tideglass.connect.output import Batch
from tideglass.connect.reference.database import SqlReference
from tideglass.connect.reference.files import FileReference
from tideglass.connect.reference.journal import JournaledReferences
from tideglass.connect.source import StreamInput
from tideglass.core.errors import TideglassError
from tideglass.core.time import NANOSECONDS_PER_TICK
from tideglass.engine.messages import Kind, Message
from tideglass.engine.output_filter import OutputFilter, emitted_messages
from tideglass.engine.snapshots import Snapshots
from tideglass.ingress.partition_watermarks import PartitionWatermarks
from tideglass.ingress.reports import BatchReports
from tideglass.job.directory import JobDirectory
from tideglass.job.lock import RunLock
from tideglass.job.options import JobPlan
from tideglass.job.outputs import BatchRows, TaskSink, commit_batch
from tideglass.job.progress.counts import Counts
from tideglass.job.progress.idle_journal import IdleJournal
from tideglass.job.progress.restore import is_read_again, positions_after, recover
from tideglass.job.progress.topic_progress import ENDING, REPLAYED, TopicProgress
from tideglass.job.report.catch_up import Positions
from tideglass.job.report.metrics import Metrics
from tideglass.job.report.profile import Profile
from tideglass.job.report.reporter import Reporter, signals
from tideglass.job.report.run_journal import RunStart
from tideglass.job.start.begin import RunSetup, begin
from tideglass.job.start.integrity import state_problem
from tideglass.job.start.topics import input_begin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tideglass.spark.session.spark_session import Libraries

#: Called after every batch: its number, what it gave, and the metrics so far.
Watch = Callable[[int, BatchRows, Metrics], None]
#: Called once the start is decided and written down, before the first batch.
OnStart = Callable[[RunStart], None]


def run(
    job: JobPlan,
    watch: Watch | None = None,
    spark: SparkSession | None = None,
    on_start: OnStart | None = None,
    profile: Profile | None = None,
) -> Metrics:
    """Run the job until its input is finished (`once`) or the process is told to stop.

    spark: a session with other work to do, too; None for one of the job's own. profile: filled with where the
    time of the batches went; None measures nothing.
    The first SIGINT or SIGTERM stops after the batch under way; a second stops at once.
    Raises StateError when a run is under way already or the state of the last one does not fit,
    EvaluationError when a row fails the query, and TideglassError for what else goes wrong; what was
    committed before stays, and the next run goes on behind it.
    """
    directory = JobDirectory(job.run_directory.resolve())
    with RunLock(directory):
        directory.stop.unlink(missing_ok=True)  # it was for another run

        def look(topic: TopicInput, from_ms: int | None) -> Mapping[int, HeldPartition]:
            from tideglass.spark.kafka.offsets import held_partitions

            return held_partitions(_session(job, directory, spark), topic, from_ms)

        setup = begin(job, directory, look)
        if on_start is not None:
            on_start(setup.start)
        metrics = Metrics()
        with Reporter(job.name, directory, setup, metrics) as reporter, signals(reporter) as take_signals:
            state = directory.generation(setup.plan.generation)
            there = {name: look(topic, None) for name, topic in job.topics.items()}
            with reporter.changing():
                topic_progress, counts = TopicProgress.load(state), Counts.load(state)
                recover(metrics, setup, state, _streams(job, setup), topic_progress, counts, there)
            with _naming_damage(state / "checkpoint"):
                query = _start(job, reporter, watch, spark, profile)
                take_signals()
                _wait(query, reporter, profile)
                ending = _ending(directory, setup)
                if (
                    job.topics
                    and job.options.once
                    and not (reporter.stop_requested.is_set() or ending.exists())
                ):
                    ending.touch()  # all that was there is read; now its end is told
                    _wait(_start(job, reporter, watch, spark, profile), reporter, profile)
        return metrics


@contextmanager
def _naming_damage(checkpoint: Path) -> Generator[None]:
    """Where Spark stops for damaged state, raise the StateError that names the file."""
    try:
        yield
    except TideglassError as error:
        if type(error) is not TideglassError:  # what has a kind is told already
            raise
        problem = state_problem(checkpoint, f"{error}\n{error.__cause__}")
        if problem is None:
            raise
        raise problem from error


def _streams(job: JobPlan, setup: RunSetup) -> tuple[StreamInput, ...]:
    """The inputs that tideglass reads itself, which read first what an earlier run had read."""
    recorded = setup.read_plan.recorded
    return tuple(each.reading_again(recorded.get(name, {})) for name, each in job.inputs.items())


def _ending(directory: JobDirectory, setup: RunSetup) -> Path:
    """The file that is there once a run with topics has read what it was to read."""
    return directory.generation(setup.plan.generation) / ENDING


def _wait(query: StreamingQuery, reporter: Reporter, profile: Profile | None) -> None:
    from tideglass.spark.query import wait, waits_for_events
    from tideglass.spark.task_times import QueryBooks

    books = QueryBooks(query)

    def look() -> None:
        if reporter.starting and waits_for_events(query):
            reporter.running()
        if profile is not None:
            for progress in books.new_progress():
                profile.take_progress(progress)
            profile.run_seconds = books.count_tasks()

    wait(query, reporter.stop_requested, look)
    look()


def _start(
    job: JobPlan, reporter: Reporter, watch: Watch | None, spark: SparkSession | None, profile: Profile | None
) -> StreamingQuery:
    from tideglass.spark.file_source import SourceJob
    from tideglass.spark.kafka.query import LiveJob, start_live
    from tideglass.spark.key_numbers import key_numbers
    from tideglass.spark.query import QueryOptions, start

    directory, setup, topology = reporter.directory, reporter.setup, job.compiled.topology
    state = directory.generation(setup.plan.generation)
    snapshots = Snapshots(str(state / "ingress"))
    read_plan = setup.read_plan
    inputs = _streams(job, setup)
    stored = str(directory.reference)
    references = JournaledReferences(
        stored,
        tuple(
            FileReference(spec) if spec.sql is None else SqlReference(spec, stored)
            for spec in job.references.values()
        ),
    )
    if job.topics:  # the source beside the topics looks from then on
        references.find(None if job.options.once else time.time_ns() // NANOSECONDS_PER_TICK)
    session = _session(job, directory, spark)
    checkpoint = state / "checkpoint"
    topic_progress = TopicProgress.load(state) if job.topics else TopicProgress()
    counts = Counts.load(state)
    replayed = state / REPLAYED
    # Where topics are read again, all inputs go on to what is new in one batch.
    together = read_plan.reads_again and bool(job.topics)
    source = SourceJob(
        topology=topology,
        inputs=inputs,
        snapshots=snapshots,
        sink=OutputFilter(TaskSink(dict(job.outputs)), dict(setup.plan.emit_from_ticks)),
        key_numbers=key_numbers(topology.key_groups),
        finished=job.options.once,
        batch_bytes=job.options.batch_bytes,
        idle_seconds=job.options.idle_seconds,
        tasks=session.sparkContext.defaultParallelism,
        stop_file=str(directory.stop),
        profile=profile is not None,
        begins={name: of for name, of in read_plan.begins.items() if name in job.inputs},
        emits_replayed=read_plan.after_ticks is None,
        replayed_file=str(replayed) if together else None,
        references=replace(references, looks=False) if job.topics else references,
    )
    idle_journal = IdleJournal(directory.idle_journal)
    partition_watermarks = PartitionWatermarks(Snapshots(str(state / "peers")))

    def mark_replayed(read: Positions) -> None:
        if is_read_again(read_plan, inputs, topic_progress, read):
            replayed.touch()

    if together and topic_progress.batch is not None:  # a run that was killed may have come as far
        mark_replayed(positions_after(topic_progress.batch, checkpoint, inputs, read_plan, topic_progress))

    def commit(batch_id: int, messages: list[Message]) -> None:
        nonlocal topic_progress, counts
        began = time.monotonic()
        batch = Batch(setup.plan.generation, batch_id)
        reports = BatchReports.of(messages)
        if job.topics:
            partition_watermarks.take(batch_id, reports.partitions)
        emitted = commit_batch(batch, emitted_messages(messages), topology.outputs, job.outputs)
        for report in reports.partitions:
            idle_journal.take(report)
        snapshots.sync([report.sender for report in reports.partitions])
        if job.topics:  # once its rows are given, and before anything is said of them
            topic_progress = topic_progress.after(batch_id, checkpoint, tuple(job.topics), reports.partitions)
            topic_progress.save(state)
        counts = counts.after(batch_id, emitted.rows, reports.stages)
        counts.save(state)
        catch_up = reporter.metrics.catch_up
        catches_up = catch_up is not None and not catch_up.done
        waits = together and not topic_progress.replayed
        read = (
            positions_after(batch_id, checkpoint, inputs, read_plan, topic_progress)
            if catches_up or waits
            else {}
        )
        if waits:
            mark_replayed(read)
        with reporter.changing() as metrics:
            metrics.take_batch(reports, emitted.rows)
            if catch_up is not None and catches_up:
                catch_up.advance(read, metrics.read_now, time.monotonic())
        if watch is not None:
            watch(batch_id, emitted, metrics)
        if profile is not None:
            profile.take_commit(batch_id, time.monotonic() - began)
            for message in messages:
                if message.kind is Kind.PROFILE:
                    profile.take_task(message.json())

    written = {
        ordinal: options
        for ordinal, name in enumerate(topology.outputs)
        if (options := job.outputs[name].kafka_options) is not None
    }
    options = QueryOptions(str(checkpoint), str(directory.stop), written, alone=spark is None)
    if not job.topics:
        return start(session, source, options, commit)
    live = LiveJob(
        topology=topology,
        topics=job.topics,
        files=source if inputs else None,
        sink=source.sink,
        finished=job.options.once,
        ending=_ending(directory, setup).exists(),
        idle_seconds=job.options.idle_seconds,
        offsets=read_plan.offsets,
        # What is read again is scanned by one ingress a topic: all its partitions are known from the start.
        partition_watermarks=None if together else partition_watermarks,
        begins={name: input_begin(read_plan, name) for name in job.topics} if together else {},
        replayed_file=source.replayed_file,
        references=references,
        profile=profile is not None,
    )
    return start_live(session, live, options, commit)


def _session(job: JobPlan, directory: JobDirectory, spark: SparkSession | None) -> SparkSession:
    """The session given, else the one of this process, which the first call starts."""
    from tideglass.spark.session.spark_session import local_session

    return spark or local_session(job.options.cores, directory.spark_log, _libraries(job))


def _libraries(job: JobPlan) -> Libraries | None:
    """What Spark needs besides its own; None for a job without topics."""
    from tideglass.spark.connector import CONNECTOR
    from tideglass.spark.session.spark_session import Libraries

    if not job.topics and all(each.kafka_options is None for each in job.outputs.values()):
        return None
    chosen = job.options
    return Libraries(chosen.packages or ("" if chosen.jars else CONNECTOR), chosen.jars)
