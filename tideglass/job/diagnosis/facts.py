"""What is known of a job from its directory: status, runs, settings, where it reads; no project is needed."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tideglass.core.durable import unsealed
from tideglass.core.errors import StateError
from tideglass.core.time import TICKS_PER_MILLISECOND, TICKS_PER_SECOND, parse_ticks
from tideglass.job.directory import JobDirectory
from tideglass.job.lock import running
from tideglass.job.report.history import HistorySample, read_history
from tideglass.job.report.run_journal import Run, read_runs
from tideglass.job.report.status import InputStatus, JobState, Status, read_status

#: Rates are taken from the last ten minutes.
HISTORY_MS = 600_000


@dataclass(frozen=True, slots=True)
class TimeSettings:
    """The time policies a job runs with, as its manifest has them.

    late_ticks: late tolerance; None: no limit, and then idle time moves no watermark.
    out_of_order_ticks: out-of-order tolerance.
    early_ticks: how far an event may be ahead of its arrival; None: no limit.
    drops: events beyond a tolerance are dropped; else their time is adjusted.
    """

    late_ticks: int | None = None
    out_of_order_ticks: int = 0
    early_ticks: int | None = None
    drops: bool = False


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What a diagnosis goes by.

    status: the newest report of the job.
    now_ticks: the time of the diagnosis; of a job that is over, that of its last report.
    alive: the run's process holds the lock of the directory.
    runs: the journal, oldest first; empty where it cannot be read.
    history: samples of the last minutes, oldest first.
    settings: None where the manifest cannot be read.
    sources: by input, where it is read: a path, or a topic; reference inputs too.
    tables: the reference inputs among them.
    emit_from_ticks: by output, the least time of rows that are emitted; earlier ones are computed only.
    query: text of the query, if it is known to be the one that ran.
    """

    status: Status
    now_ticks: int
    alive: bool
    runs: tuple[Run, ...] = ()
    history: tuple[HistorySample, ...] = ()
    settings: TimeSettings | None = None
    sources: Mapping[str, str] = field(default_factory=dict[str, str])
    tables: frozenset[str] = frozenset()
    emit_from_ticks: Mapping[str, int] = field(default_factory=dict[str, int])
    query: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether no run is under way."""
        return self.status.state in (JobState.STOPPED, JobState.FAILED)

    @property
    def last_run(self) -> Run | None:
        """The run the status is of, from the journal."""
        found = [run for run in self.runs if run.start.run == self.status.run]
        return found[-1] if found else None

    @property
    def references(self) -> frozenset[str]:
        """The reference inputs."""
        return self.tables | {each.input for each in self.status.references}

    @property
    def streams(self) -> tuple[str, ...]:
        """The inputs that are no reference data, those without any event too."""
        named = dict.fromkeys(each.input for each in self.status.inputs)
        named |= dict.fromkeys(name for name in self.sources if name not in self.references)
        return tuple(named)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The outputs, in the order of the query."""
        named = [each.output for each in self.status.outputs]
        named += [each.output for each in self.status.steps if each.output is not None]
        return tuple(dict.fromkeys([*named, *self.status.rows]))

    def rows_of(self, output: str) -> int:
        """Rows of an output since the state began."""
        return max(self.status.rows_in_all.get(output, 0), self.status.rows.get(output, 0))

    def partitions(self, input_name: str) -> tuple[InputStatus, ...]:
        """The partitions of an input, one entry for each reader."""
        return tuple(each for each in self.status.inputs if each.input == input_name)

    def idle_seconds(self, partition: InputStatus) -> float:
        """How long no event of a partition has been committed; since the run began where it had none."""
        at_ticks = wall_ticks(partition.last_event) or wall_ticks(self.status.since) or self.now_ticks
        return max(0.0, (self.now_ticks - at_ticks) / TICKS_PER_SECOND)

    @property
    def run_seconds(self) -> float:
        """How long the run has lasted."""
        since_ticks = wall_ticks(self.status.since)
        return 0.0 if since_ticks is None else max(0.0, (self.now_ticks - since_ticks) / TICKS_PER_SECOND)


def wall_ticks(text: str | None) -> int | None:
    """Ticks of an ISO text of the wall clock; None for none."""
    return None if text is None else parse_ticks(text)


def gather(
    directory: JobDirectory, *, now_seconds: float | None = None, query: str | None = None
) -> JobFacts | None:
    """What a job directory says now; None where no job has run that writes this status.

    now_seconds: the time, seconds of the epoch; None: the clock's. A run that is over is seen at its end.
    query: the text of the query as it is now; left out where another one ran.
    """
    status = read_status(directory)
    if status is None:
        return None
    try:
        runs = tuple(read_runs(directory.journal))
    except StateError:
        runs = ()
    manifest = _manifest(directory)
    identity = _mapping(manifest, "identity")
    alive = running(directory) is not None
    seconds = time.time() if now_seconds is None else now_seconds
    now_ticks = round(seconds * TICKS_PER_SECOND)
    ran = hashlib.sha256((query or "").encode()).hexdigest()[:16] == identity.get("query")
    return JobFacts(
        status,
        now_ticks if alive else wall_ticks(status.updated) or now_ticks,
        alive,
        runs,
        read_history(directory, after_ms=round(now_ticks / TICKS_PER_MILLISECOND) - HISTORY_MS),
        _settings(_mapping(identity, "settings")) if identity else None,
        {name: _place(directory, words) for name, words in _mapping(identity, "inputs").items()},
        # Only of reference data the manifest has how times are written in a path.
        frozenset(name for name, words in _mapping(identity, "inputs").items() if "date_format" in words),
        _mapping(_mapping(manifest, "begun"), "emit_from_ticks"),
        query if ran else None,
    )


def _manifest(directory: JobDirectory) -> Mapping[str, Any]:
    """The manifest as JSON; {} for one that cannot be read. `start.manifest` loads the compiler with it."""
    try:
        content = unsealed(json.loads(directory.manifest.read_bytes()))
    except (OSError, ValueError):
        return {}
    return content


def _mapping(content: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = content.get(key)
    return found if isinstance(found, Mapping) else {}


def _settings(words: Mapping[str, Any]) -> TimeSettings:
    return TimeSettings(
        words.get("late_arrival_ticks"),
        words.get("out_of_order_ticks", 0),
        words.get("early_arrival_ticks"),
        words.get("policy") == "drop",
    )


def _place(directory: JobDirectory, words: Mapping[str, Any]) -> str:
    """Where an input is read, from what the manifest has of it; paths there are relative to the directory."""
    if isinstance(words.get("path"), str):
        return str((directory.path / words["path"]).resolve())
    return f"topic {words['topic']}" if isinstance(words.get("topic"), str) else ""
