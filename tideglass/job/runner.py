"""Runs a job on Spark: from a project and the user's options to committed rows.

project + options ──plan_job──▶ Job ──run──▶ Metrics
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TypeVar

from tideglass.bind.catalog import InputInfo
from tideglass.compile import Compiled, compile_query
from tideglass.connect.inputs.files import FileInput
from tideglass.connect.spec import InputSpec, OutputSpec, format_of
from tideglass.core.errors import ProjectError
from tideglass.job.manifest import Manifest, open_run
from tideglass.job.metrics import Metrics
from tideglass.job.outputs import BatchRows, TaskSink, commit_batch, prepare_outputs
from tideglass.job.project import Project, ProjectInput
from tideglass.job.settings import JobSettings
from tideglass.runtime.message import Kind, Message

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_Found = TypeVar("_Found")

#: Called after every batch: its number, what it gave, and the metrics so far.
Watch = Callable[[int, BatchRows, Metrics], None]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a user may choose for a run.

    inputs, outputs: `--input` and `--output`; an output is a directory, or "console".
    once: the input is finished; run to its end and flush. run_directory: where the checkpoint lives.
    cores: of this machine, all of them when None. key_groups: pieces a stage's keys are split into.
    batch_bytes: how much input a batch may take. idle_seconds: how often a silent input is told of.
    """

    inputs: Mapping[str, Path] = field(default_factory=dict[str, Path])
    outputs: Mapping[str, str] = field(default_factory=dict[str, str])
    once: bool = False
    run_directory: Path | None = None
    fresh: bool = False
    overwrite: bool = False
    cores: int | None = None
    key_groups: int | None = None
    batch_bytes: int = 256 * 1024 * 1024
    idle_seconds: float = 1.0
    output_format: str = "json"


@dataclass(frozen=True, slots=True)
class Job:
    """A job ready to run."""

    name: str
    compiled: Compiled
    settings: JobSettings
    inputs: Mapping[str, InputSpec]
    outputs: Mapping[str, OutputSpec]
    run_directory: Path
    options: RunOptions


def plan_job(project: Project, options: RunOptions) -> Job:
    """What a run of the project would be. Raises QueryError or ProjectError; starts nothing."""
    known = {name: InputInfo(name, each.kind) for name, each in project.inputs.items()}
    known |= {name: InputInfo(name) for name in options.inputs if _find(known, name) is None}
    settings = project.settings
    compiled = compile_query(
        project.query,
        settings.policies(),
        key_groups=options.key_groups or options.cores or os.cpu_count() or 1,
        level=settings.compatibility_level,
        inputs=known or None,
        functions={name: each.script for name, each in project.functions.items() if not each.aggregate},
    )
    inputs = {name: _input_spec(project, options, name) for name in compiled.topology.fields}
    if not any(spec.arrival for spec in inputs.values()) and not options.inputs:
        # The service's tools apply no policies to local files (`asa.md` 10.1).
        settings = settings.without_policies()
        compiled = compile_query(
            project.query,
            settings.policies(),
            key_groups=compiled.topology.key_groups,
            level=settings.compatibility_level,
            inputs=known or None,
            functions=compiled.topology.functions,
        )
    outputs = {name: _output_spec(project, options, name) for name in compiled.topology.outputs}
    unknown = [name for name in options.outputs if _find(outputs, name) is None]
    if unknown:
        raise ProjectError(
            f"--output names {', '.join(map(repr, unknown))}, but the query writes to {', '.join(outputs)}"
        )
    run_directory = options.run_directory or project.folder / ".tideglass" / "run"
    return Job(project.name, compiled, settings, inputs, outputs, run_directory, options)


def run(job: Job, watch: Watch | None = None, spark: SparkSession | None = None) -> Metrics:
    """Run the job until its input is finished (`once`) or the process is told to stop.

    The first SIGINT or SIGTERM stops after the batch under way; a second stops at once.
    Raises EvaluationError when a row fails the query, and TideglassError for what else goes wrong;
    what was committed before stays, and the next run goes on behind it.
    """
    manifest = Manifest.of(job.compiled.topology, job.settings, job.options.once)
    resumed = open_run(job.run_directory, manifest, fresh=job.options.fresh)
    prepare_outputs(job.outputs, resumed=resumed, overwrite=job.options.overwrite or job.options.fresh)
    metrics = Metrics()
    topology = job.compiled.topology

    def commit(batch_id: int, messages: list[Message]) -> None:
        given = commit_batch(batch_id, messages, topology.outputs, job.outputs)
        for message in messages:
            if message.kind is Kind.REPORT:
                metrics.take_report(message.json())
        for output, rows in given.rows.items():
            metrics.add_rows(output, rows)
        metrics.batches += 1
        if watch is not None:
            watch(batch_id, given, metrics)

    stop_file = job.run_directory / "stop"
    stop_file.unlink(missing_ok=True)
    query = _start(job, commit, spark, stop_file)
    _await(query, stop_file)
    return metrics


def _start(
    job: Job, commit: Callable[[int, list[Message]], None], spark: SparkSession | None, stop_file: Path
) -> StreamingQuery:
    from tideglass.runtime.snapshots import Snapshots
    from tideglass.spark.key_groups import key_numbers
    from tideglass.spark.query import QueryOptions, start
    from tideglass.spark.session import local_session
    from tideglass.spark.source import SourceJob

    directory = job.run_directory.resolve()
    session = spark or local_session(job.options.cores, directory / "spark.log")
    topology = job.compiled.topology
    source = SourceJob(
        topology=topology,
        inputs=tuple(FileInput(spec) for spec in job.inputs.values()),
        snapshots=Snapshots(str(directory / "ingress")),
        sink=TaskSink(dict(job.outputs)),
        key_numbers=key_numbers(topology.key_groups),
        finished=job.options.once,
        batch_bytes=job.options.batch_bytes,
        idle_seconds=job.options.idle_seconds,
        tasks=session.sparkContext.defaultParallelism,
        stop_file=str(stop_file.resolve()),
    )
    return start(session, source, QueryOptions(str(directory / "checkpoint")), commit)


def _await(query: StreamingQuery, stop_file: Path) -> None:
    """Wait for the end of the query; signals stop it between batches, or at once when repeated."""
    from tideglass.spark.query import wait

    asked = threading.Event()

    def on_signal(number: int, _: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        stop_file.touch()

    in_main = threading.current_thread() is threading.main_thread()
    before = {n: signal.signal(n, on_signal) for n in (signal.SIGINT, signal.SIGTERM)} if in_main else {}
    try:
        wait(query, asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _input_spec(project: Project, options: RunOptions, name: str) -> InputSpec:
    path = _find(options.inputs, name)
    known = _find(project.inputs, name)
    if path is None:
        path = None if known is None else known.path
    if path is None:
        origin = f"it is {known.origin} in the project" if known else "the project does not name it"
        raise ProjectError(f"the input {name!r} has no files: {origin}\n  hint: say --input {name}=PATH")
    if not path.exists():
        raise ProjectError(f"the input {name!r} reads {path}, which does not exist")
    if known is None:
        return InputSpec(name=name, path=path, finished=options.once)
    return InputSpec.model_validate(
        {
            "name": name,
            "path": path,
            "format": _format(known, path),
            "partitions": "folders" if known.partitions == "folders" and path.is_dir() else "none",
            "arrival": None
            if known.arrival is None
            else {"path": known.arrival.split("."), "format": known.arrival_format},
            "delimiter": known.delimiter,
            "finished": options.once,
        }
    )


def _format(known: ProjectInput, path: Path) -> str | None:
    """None when file names tell the format, else what the project says of the input."""
    first = (
        path if path.is_file() else next((each for each in path.rglob("[!._]*.*") if each.is_file()), None)
    )
    told = None if first is None or path == known.path else format_of(first)
    return known.file_format if told is None else None


def _output_spec(project: Project, options: RunOptions, name: str) -> OutputSpec:
    chosen = _find(options.outputs, name)
    known = _find(project.outputs, name)
    if chosen == "console":
        return OutputSpec(name=name, format="console")
    path = Path(chosen) if chosen else project.folder / "LocalRunOutputs" / name
    file_format = options.output_format if known is None else known.file_format
    return OutputSpec.model_validate({"name": name, "path": path.resolve(), "format": file_format})


def _find(named: Mapping[str, _Found], name: str) -> _Found | None:
    """The entry of that name, whatever its case."""
    return next((value for key, value in named.items() if key.casefold() == name.casefold()), None)
