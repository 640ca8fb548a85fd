"""A run of a project's job in this process, batch by batch, with a clock that can be moved.

All of a run is there but Spark: the lock, the start, the source that plans batches, scans and stages, the
commit, and the reporter that writes `status.json`. So its directory is what an observer of a run would find.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.begun import no_broker
from support.cases import Case
from support.project_on_disk import write
from tideglass.connect.reference.files import FileReference
from tideglass.connect.reference.journal import JournaledReferences
from tideglass.core.time import TICKS_PER_SECOND
from tideglass.engine.key_group import KeyGroupTask
from tideglass.engine.messages import Kind, Message, for_driver, raise_failure
from tideglass.engine.output_filter import OutputFilter
from tideglass.job.commit import Committer
from tideglass.job.directory import JobDirectory
from tideglass.job.lock import RunLock
from tideglass.job.options import JobPlan, RunOptions
from tideglass.job.outputs import TaskSink
from tideglass.job.plan import plan_job
from tideglass.job.progress.restore import restore
from tideglass.job.query import reference_status
from tideglass.job.report.metrics import Metrics
from tideglass.job.report.reporter import Reporter
from tideglass.job.report.run_view import RunView
from tideglass.job.start.begin import begin
from tideglass.operators.state.store import MemoryState
from tideglass.project.project import load_project
from tideglass.project.settings import EARLY_TICKS, from_options
from tideglass.spark.file_source import JobReader, SourceJob


class Clock:
    """The clock of this process, which goes on by itself and can be moved on."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.ahead_seconds = 0.0
        seconds, nanoseconds, monotonic = time.time, time.time_ns, time.monotonic
        patch.setattr(time, "time", lambda: seconds() + self.ahead_seconds)
        patch.setattr(time, "time_ns", lambda: nanoseconds() + round(self.ahead_seconds * 1e9))
        patch.setattr(time, "monotonic", lambda: monotonic() + self.ahead_seconds)

    def go_on(self, seconds: float) -> None:
        self.ahead_seconds += seconds

    def iso(self, seconds: float = 0.0) -> str:
        """Now and so many seconds, as ISO text with milliseconds."""
        at = time.time() + seconds
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at % 1 * 1000):03d}Z"


@dataclass
class Folder:
    """A project in a folder: a query over the inputs whose files lie in folders of their names.

    Partitions are folders of the input; `arrived` is the field with the time of arrival.
    """

    path: Path
    query: str
    late_seconds: int = -1
    out_of_order_seconds: int = 0
    policy: str = "Adjust"
    inputs: tuple[str, ...] = ("events",)
    arrival: str | None = "arrived"
    extra: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / "job.asaql").write_text(self.query)
        config = {
            "EventsLateArrivalMaxDelayInSeconds": self.late_seconds,
            "EventsOutOfOrderMaxDelayInSeconds": self.out_of_order_seconds,
            "EventsOutOfOrderPolicy": self.policy,
            "CompatibilityLevel": "1.2",
            **self.settings,
        }
        files = {"JobConfig.json": config}
        for name in self.inputs:
            (self.path / name).mkdir(exist_ok=True)
            files[f"{name}.json"] = {
                "InputAlias": name,
                "Type": "Data Stream",
                "Format": "Json",
                "FilePath": name,
                "Partitions": "folders",
                "ScriptType": "InputMock",
                **({} if self.arrival is None else {"ArrivalTimeField": self.arrival}),
            }
        for name, content in self.extra.items():
            files[f"{name}.json"] = {"InputAlias": name, "ScriptType": "InputMock", **content}
        for name, content in files.items():
            (self.path / name).write_text(json.dumps(content))
        kinds = {name: "JobConfig" if name == "JobConfig.json" else "InputMock" for name in files}
        configurations = [{"filePath": name, "subType": kind} for name, kind in kinds.items()]
        manifest = {"name": "job", "startFile": "job.asaql", "configurations": configurations}
        (self.path / "asaproj.json").write_text(json.dumps(manifest))
        self.files = 0

    def put(
        self, partition: str | int, rows: Iterable[Mapping[str, Any]], input_name: str = "events"
    ) -> None:
        """Another file of events in a partition."""
        self.files += 1
        write(self.path / input_name / str(partition) / f"{self.files:04d}.json", rows)

    def text(self, partition: str | int, text: str, input_name: str = "events") -> None:
        """Another file in a partition, whatever it holds."""
        self.files += 1
        path = self.path / input_name / str(partition) / f"{self.files:04d}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"_{path.name}")
        draft.write_text(text)
        os.replace(draft, path)

    def job(self, **options: Any) -> JobPlan:
        chosen: dict[str, Any] = {"key_groups": 2, **options}
        return plan_job(load_project(self.path), RunOptions(**chosen))

    @property
    def directory(self) -> JobDirectory:
        return JobDirectory.of_project(self.path)


class RunInProcess:
    """A run of a job in this process; a context manager, as long as which the run is under way.

    states: of the stages, for a later run that goes on with them.
    """

    def __init__(self, job: JobPlan) -> None:
        self.job, self.directory = job, JobDirectory(job.run_directory.resolve())
        self.states: dict[tuple[int, int, int], MemoryState] = {}
        self._stack = ExitStack()
        self.number = 0

    def __enter__(self) -> RunInProcess:
        try:
            return self._begun()
        except BaseException as error:  # as a process that ends, which gives its lock back
            self._stack.__exit__(type(error), error, error.__traceback__)
            raise

    def _begun(self) -> RunInProcess:
        job, directory = self.job, self.directory
        self.lock = self._stack.enter_context(RunLock(directory))
        directory.stop.unlink(missing_ok=True)
        setup = begin(job, directory, no_broker)
        metrics = Metrics()
        view = RunView.of(job, setup.plan.generation)
        self.reporter = self._stack.enter_context(
            Reporter(job.name, directory, setup, metrics, view, lock=self.lock)
        )
        self.committer = Committer.of(job, self.reporter)
        with self.reporter.changing():
            readers = job.compiled.topology.readers
            restore(metrics, setup, self.committer.generation, self.committer.inputs, {}, readers)
            view.restored(metrics)
        if self.reporter.view is not None:
            self.reporter.view.gauges.backlog_of = self.committer.backlog
            self.reporter.view.gauges.references_of = partial(reference_status, job, directory)
        topology = job.compiled.topology
        stored = str(directory.reference)
        references = JournaledReferences(
            stored, tuple(FileReference(spec) for spec in job.references.values())
        )
        sink = OutputFilter(TaskSink(dict(job.outputs)), dict(setup.plan.emit_from_ticks))
        self.source = SourceJob(
            topology=topology,
            inputs=tuple(self.committer.inputs),
            snapshots=self.committer.scan_states,
            sink=sink,
            key_numbers=tuple(range(topology.key_groups)),
            finished=job.options.once,
            batch_bytes=job.options.batch_bytes,
            idle_seconds=0.0,
            tasks=1,
            stop_file=str(directory.stop),
            begins={name: of for name, of in setup.read_plan.begins.items() if name in job.inputs},
            emits_replayed=setup.read_plan.after_ticks is None,
            references=references,
        )
        self.reader = JobReader(self.source)
        self.tasks = {
            level: KeyGroupTask(topology, level, sink, references) for level in range(1, topology.levels + 1)
        }
        self.offset = self.reader.initialOffset()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def batch(self) -> bool:
        """Run the next batch, also one that only reports idle time; False where there is none."""
        end = self.reader.latestOffset(self.offset, None)  # type: ignore[arg-type]
        if end == self.offset:
            self.reporter.running()
            return False
        self._log(end)
        if self.reporter.view is not None:
            self.reporter.view.began(self.number)
        messages: list[Message] = []
        for partition in self.reader.partitions(self.offset, end):
            for body in self.reader.read(partition):
                messages += [_message(row) for row in body.to_pylist()]
        topology = self.job.compiled.topology
        for level, task in self.tasks.items():
            received, messages = messages, []
            for group in range(topology.key_groups):
                mine = [each for each in received if each.key_group == group]
                messages += task.run(group, mine, self._state_of(level, group))
        found = for_driver(messages)
        raise_failure(found)
        self.committer.commit(self.number, found)
        commits = self.committer.checkpoint / "commits"
        commits.mkdir()
        (commits / str(self.number)).write_text("v1\n{}")
        self.offset, self.number = end, self.number + 1
        return True

    def batches(self) -> int:
        """Run all that is there; answers how many batches that took."""
        begun = self.number
        while self.batch():
            if not self.job.options.once:
                break
        if self.job.options.once:
            self.committer.finish()
        return self.number - begun

    def report(self) -> None:
        """Have the status written now, after a look at memory, backlog and reference data."""
        if self.reporter.view is not None:
            self.reporter.view.gauges.look()
        self.reporter._write()  # pyright: ignore[reportPrivateUsage]

    def _state_of(self, level: int, group: int) -> Callable[[int], MemoryState]:
        return lambda op: self.states.setdefault((level, group, op), MemoryState())

    def _log(self, end: dict[str, Any]) -> None:
        """What Spark would have logged before the batch."""
        offsets = self.committer.checkpoint / "offsets"
        offsets.mkdir()
        (self.committer.checkpoint / "metadata").write_text('{"id":"x"}')
        (offsets / str(self.number)).write_text(f"v1\n{{}}\n{json.dumps(end)}")


def _message(row: Mapping[str, Any]) -> Message:
    return Message(
        row["key_group"], row["level"], Kind(row["kind"]), row["target"], row["sender"], row["body"]
    )


def folder_of_case(path: Path, case: Case) -> Folder | None:
    """A project of a case file, its events in files; None for what no such project has."""
    settings = from_options(case.settings)
    rows = [row for of_input in case.inputs.values() for row in of_input]
    arrivals = {"_arrival" in row for row in rows}
    snapshots = any(isinstance(each, dict) for each in case.reference.values())
    if case.functions or snapshots or len(arrivals) != 1 or settings.early_arrival_ticks != EARLY_TICKS:
        return None
    path.mkdir(parents=True, exist_ok=True)
    extra: dict[str, Mapping[str, Any]] = {}
    for name, table in case.reference.items():
        (path / f"{name}.table").write_text(json.dumps(table))
        extra[name] = {"Type": "Reference data", "Format": "Json", "FilePath": f"{name}.table"}
    late_ticks = settings.late_arrival_ticks
    folder = Folder(
        path,
        case.query,
        -1 if late_ticks is None else late_ticks // TICKS_PER_SECOND,
        settings.out_of_order_ticks // TICKS_PER_SECOND,
        settings.policy,
        tuple(case.inputs),
        "_arrival" if True in arrivals else None,
        extra,
    )
    for name, of_input in case.inputs.items():
        partitions = dict.fromkeys(row.get("_partition", 0) for row in of_input)
        for partition in partitions:
            own = [row for row in of_input if row.get("_partition", 0) == partition]
            payload = [{key: value for key, value in row.items() if key != "_partition"} for row in own]
            folder.put(partition, payload, name)
    return folder
