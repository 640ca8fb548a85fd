"""Runs a job on Spark: from a project and the user's options to committed rows.

project + options ──plan_job──▶ Job ──run──▶ Metrics
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tideglass.bind.catalog import InputInfo, metadata_in
from tideglass.compile import compile_query
from tideglass.connect.files.input import FileInput
from tideglass.connect.kafka.topic import HeldPartition, TopicInput
from tideglass.connect.output import Batch, OutputConnector
from tideglass.connect.reference.files import FileReference
from tideglass.connect.reference.journal import JournaledReferences
from tideglass.connect.reference.pattern import is_pattern
from tideglass.connect.reference.sql import SqlReference
from tideglass.connect.source import InputConnector, StreamInput
from tideglass.connect.spec import InputSpec, ReferenceSpec, format_of
from tideglass.core.bounds import ANYWHERE
from tideglass.core.errors import ProjectError, TideglassError
from tideglass.core.file_names import folder_name
from tideglass.core.time import NANOSECONDS_PER_TICK
from tideglass.core.types import ARRIVAL, PARTITION
from tideglass.engine.messages import Kind, Message
from tideglass.engine.output_filter import OutputFilter, emitted_messages
from tideglass.engine.snapshots import Snapshots
from tideglass.ingress.partition_watermarks import PartitionWatermarks
from tideglass.ingress.reports import BatchReports
from tideglass.job.arrival_warnings import arrival_warnings
from tideglass.job.directory import JobDirectory
from tideglass.job.lock import RunLock
from tideglass.job.options import Job, RunOptions
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
from tideglass.job.start.manifest import read_manifest
from tideglass.job.start.topics import input_begin
from tideglass.project.input_option import InputOption, hint_of_path
from tideglass.project.inputs import OUTSIDE, ProjectInput
from tideglass.project.outputs import local_output
from tideglass.project.project import Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tideglass.spark.session.session import Libraries

_Found = TypeVar("_Found")

#: Called after every batch: its number, what it gave, and the metrics so far.
Watch = Callable[[int, BatchRows, Metrics], None]
#: Called once the start is decided and written down, before the first batch.
OnStart = Callable[[RunStart], None]


def plan_job(project: Project, options: RunOptions) -> Job:
    """What a run of the project would be. Raises QueryError or ProjectError; starts nothing."""
    known = _known_inputs(project, options)
    settings = project.settings
    directory = JobDirectory.of_project(project.folder, options.run_directory)
    compiled = compile_query(
        project.query,
        settings.policies(),
        key_groups=options.key_groups or _key_groups(directory, options) or 1,
        level=settings.compatibility_level,
        drops_failing_rows=settings.on_error == "drop",
        limits=settings.limits,
        inputs=known or None,
        functions=project.scripts,
        outputs=tuple(project.outputs) or None,
    )
    names = compiled.topology.fields
    live = _live_inputs(project, options, names)
    topics = {name: topic for name, each in live.items() if (topic := each.as_topic()) is not None}
    files = {name: _input_spec(project, options, name) for name in names if name not in live}
    if not (live or options.inputs or any(spec.arrival for spec in files.values())):
        # The service's tools apply no policies to local files (`asa.md` 10.1).
        settings = settings.without_policies()
        compiled = compile_query(
            project.query,
            settings.policies(),
            key_groups=compiled.topology.key_groups,
            level=settings.compatibility_level,
            drops_failing_rows=settings.on_error == "drop",
            limits=settings.limits,
            inputs=known or None,
            functions=compiled.topology.functions,
            outputs=tuple(project.outputs) or None,
        )
    outputs = {name: _output(project, options, name) for name in compiled.topology.outputs}
    unknown = [name for name in options.outputs if _find(outputs, name) is None]
    if unknown:
        raise ProjectError(
            f"--output names {', '.join(map(repr, unknown))}, but the query writes to {', '.join(outputs)}"
        )
    _see_apart(outputs)
    streams = {name: stream for name, each in live.items() if (stream := each.as_stream()) is not None}
    inputs = {
        name: streams[name] if name in streams else FileInput(files[name])
        for name in names
        if name not in topics
    }
    references = {name: _reference_spec(project, options, name) for name in compiled.topology.references}
    warnings = tuple(arrival_warnings(compiled.topology, files, options))
    return Job(
        project.name,
        compiled,
        settings,
        inputs,
        outputs,
        directory.path,
        options,
        references,
        topics,
        warnings,
    )


def _known_inputs(project: Project, options: RunOptions) -> dict[str, InputInfo]:
    """The project's inputs, and those that are only named for this run."""
    known = {
        name: InputInfo(name, each.kind, metadata=_metadata(each, options.input_option(name), options.live))
        for name, each in project.inputs.items()
    }
    others = [name for name in options.inputs if _find(known, name) is None]
    return known | {
        name: InputInfo(name, metadata=_metadata(None, options.input_option(name), live=False))
        for name in others
    }


def _metadata(known: ProjectInput | None, given: InputOption | None, live: bool) -> frozenset[str]:
    """Names of what an input says of its events, with the files a user names for it."""
    told = frozenset[str]() if known is None else known.metadata(live and given is None)
    if given is None:
        return told
    arrival = [] if given.arrival is None else [ARRIVAL]
    if given.partitions == "one":
        told -= metadata_in(PARTITION)
    return told | metadata_in(*arrival, *([PARTITION] if given.partitions == "folders" else []))


def _key_groups(directory: JobDirectory, options: RunOptions) -> int | None:
    """As many as the job's state has, so that another machine may go on with it; at first one a core."""
    before = None if options.fresh else read_manifest(directory.manifest)
    if before is not None and before.identity is not None:
        return before.identity.key_groups
    return options.cores or os.cpu_count()


def run(
    job: Job,
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


def _streams(job: Job, setup: RunSetup) -> tuple[StreamInput, ...]:
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
    job: Job, reporter: Reporter, watch: Watch | None, spark: SparkSession | None, profile: Profile | None
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
        given = commit_batch(batch, emitted_messages(messages), topology.outputs, job.outputs)
        for report in reports.partitions:
            idle_journal.take(report)
        snapshots.sync([report.sender for report in reports.partitions])
        if job.topics:  # once its rows are given, and before anything is said of them
            topic_progress = topic_progress.behind(
                batch_id, checkpoint, tuple(job.topics), reports.partitions
            )
            topic_progress.save(state)
        counts = counts.after(batch_id, given.rows, reports.stages)
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
            metrics.take_batch(reports, given.rows)
            if catch_up is not None and catches_up:
                catch_up.advance(read, metrics.read_now, time.monotonic())
        if watch is not None:
            watch(batch_id, given, metrics)
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


def _session(job: Job, directory: JobDirectory, spark: SparkSession | None) -> SparkSession:
    """The session given, else the one of this process, which the first call starts."""
    from tideglass.spark.session.session import local_session

    return spark or local_session(job.options.cores, directory.spark_log, _libraries(job))


def _libraries(job: Job) -> Libraries | None:
    """What Spark needs besides its own; None for a job without topics."""
    from tideglass.spark.connector import CONNECTOR
    from tideglass.spark.session.session import Libraries

    if not job.topics and all(each.kafka_options is None for each in job.outputs.values()):
        return None
    chosen = job.options
    return Libraries(chosen.packages or ("" if chosen.jars else CONNECTOR), chosen.jars)


def _live_inputs(project: Project, options: RunOptions, names: Iterable[str]) -> dict[str, InputConnector]:
    """The inputs that are read as the project says: those of a live run for which no files are named."""
    known = {name: _find(project.inputs, name) for name in names if options.input_option(name) is None}
    return {
        name: each.live.named(name)
        for name, each in known.items()
        if options.live and each is not None and each.live is not None
    }


def _input_spec(project: Project, options: RunOptions, name: str) -> InputSpec:
    given = options.input_option(name)
    known = _find(project.inputs, name)
    path = _checked_path("input", name, given, known)
    if not path.exists():
        hint = "" if given is None else hint_of_path(path)
        raise ProjectError(
            f"the input {name!r} reads {path}, which does not exist" + (f"\n  hint: {hint}" if hint else "")
        )
    arrival, arrival_format = _arrival(given, known)
    partitions = None if given is None else given.partitions
    if partitions is None and known is not None and path.is_dir():
        partitions = known.partitions
    delimiter = None if given is None else given.delimiter
    rotation = None if given is None else given.rotation
    rotation = rotation or ("none" if known is None else known.rotation)
    if rotation == "copytruncate" and not path.is_file():
        raise ProjectError(
            f"the input {name!r} has the rotation copytruncate, which is of one file, and reads {path}\n"
            "  hint: name the file that is written to, or rotate by renaming"
        )
    return InputSpec.model_validate(
        {
            "name": name,
            "path": path.absolute(),  # Spark's processes may have started in another folder
            "format": _format(given, known, path),
            "partitions": "folders" if partitions == "folders" else "none",
            "arrival": None if arrival is None else {"path": arrival.split("."), "format": arrival_format},
            "delimiter": delimiter or ("," if known is None else known.delimiter),
            "finished": options.once,
            "rotation": rotation,
            "bounds": ANYWHERE if given is not None or known is None else known.bounds,
        }
    )


def _checked_path(what: str, name: str, given: InputOption | None, known: ProjectInput | None) -> Path:
    """The files named for an input, else the project's. Raises ProjectError where there are none."""
    if given is not None:
        return given.path
    named_by_time = ", where PATH may hold {date} and {time}" if what == "reference input" else ""
    live = ""
    if known is not None and known.live is not None:
        live = f", or --live to read {'the topic' if known.live.as_topic() else known.origin}"
    hint = f"\n  hint: say --input {name}=PATH{named_by_time}{live}"
    if known is not None and known.outside is not None:
        raise ProjectError(f"the {what} {name!r} reads {known.outside}, which {OUTSIDE.format(name=name)}")
    if known is not None and known.unreadable is not None:
        raise ProjectError(f"the {what} {name!r} cannot be read: {known.unreadable}{hint}")
    if known is None or known.path is None:
        origin = f"it is {known.origin} in the project" if known else "the project does not name it"
        raise ProjectError(f"the {what} {name!r} has no files: {origin}{hint}")
    return known.path


def _arrival(given: InputOption | None, known: ProjectInput | None) -> tuple[str | None, str]:
    """The field with the time of arrival and how it says it: as the user says, else the project."""
    if given is not None and given.arrival is not None:
        return given.arrival, given.arrival_format or "iso"
    return (None, "iso") if known is None else (known.arrival, known.arrival_format)


def _reference_spec(project: Project, options: RunOptions, name: str) -> ReferenceSpec:
    given = options.input_option(name)
    known = _find(project.inputs, name)
    told = {} if known is None else {"date_format": known.date_format, "time_format": known.time_format}
    if given is not None and (given.arrival is not None or given.partitions is not None):
        raise ProjectError(
            f"--input {name}: reference data has neither times of arrival nor partitions; name the path alone"
        )
    if known is not None and known.sql is not None:
        connection = known.sql.connection if given is None else _uri(given.path)
        if connection is not None:
            return ReferenceSpec.model_validate(
                {"name": name, "sql": {**asdict(known.sql), "connection": connection}}
            )
    bounds = ANYWHERE if given is not None or known is None else known.bounds
    path = _checked_path("reference input", name, given, known)
    if not is_pattern(path) and not path.is_file():
        what = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise ProjectError(
            f"the reference input {name!r} reads {path}, which {what}\n"
            "  hint: name one file, or files by the times from which they hold with {date} and {time}"
        )
    file_format = None if known is None or format_of(path) is not None else known.file_format
    delimiter = "," if known is None else known.delimiter
    if given is not None:
        file_format, delimiter = given.file_format or file_format, given.delimiter or delimiter
    return ReferenceSpec.model_validate(
        {"name": name, "path": path.resolve(), "format": file_format, "delimiter": delimiter, **told}
        | {"bounds": bounds}
    )


def _uri(path: Path) -> str | None:
    """The URI of PostgreSQL a path is that came from the command line; None for a path of files."""
    match = re.fullmatch(r"(postgres(?:ql)?):/+(.*)", path.as_posix())
    return None if match is None else f"{match[1]}://{match[2]}"


def _format(given: InputOption | None, known: ProjectInput | None, path: Path) -> str | None:
    """What the user says; None when file names tell the format, else what the project says of the input."""
    if given is not None and given.file_format is not None:
        return given.file_format
    if known is None:
        return None
    first = (
        path if path.is_file() else next((each for each in path.rglob("[!._]*.*") if each.is_file()), None)
    )
    told = None if first is None or path == known.path else format_of(first)
    return known.file_format if told is None else None


def _output(project: Project, options: RunOptions, name: str) -> OutputConnector:
    chosen = _find(options.outputs, name)
    known = _find(project.outputs, name)
    if options.live and chosen is None and known is not None and known.connector is not None:
        return known.connector
    file_format = options.output_format if known is None else known.file_format
    if chosen:
        return local_output(name, chosen, file_format)
    path = project.folder / "LocalRunOutputs" / folder_name(name)
    if not project.bounds.hold(path):
        raise ProjectError(
            f"the rows of {name!r} go to {path}, a link that leads out of the project\n"
            f"  hint: name a folder with --output {name}=PATH, or say --allow-outside"
        )
    return local_output(name, path, file_format)


def _see_apart(outputs: Mapping[str, OutputConnector]) -> None:
    """Two outputs in one folder would replace each other's files. Raises ProjectError."""
    output_of: dict[Path, str] = {}
    for name, output in outputs.items():
        path = output.own_folder()
        if path is not None and output_of.setdefault(path, name) != name:
            raise ProjectError(
                f"the outputs {output_of[path]!r} and {name!r} are both written to {path}\n"
                f"  hint: name another folder with --output {name}=PATH"
            )


def _find(named: Mapping[str, _Found], name: str) -> _Found | None:
    """The entry of that name, whatever its case."""
    return next((value for key, value in named.items() if key.casefold() == name.casefold()), None)
