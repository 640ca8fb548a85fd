"""The status of a run for observers outside: a small JSON file, written again and again.

States are the service's (`asa.md` 7.1). A run that is killed reports nothing any more; that it is gone shows
by its lock, so `read_status` answers from both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from tideglass.core.documents import Document
from tideglass.core.durable import sealed, unsealed
from tideglass.job.directory import JobDirectory
from tideglass.job.lock import running
from tideglass.job.report.list_columns import packed, unpacked
from tideglass.job.work_layout import Layout

#: A run that met broken input this recently is degraded (`asa.md` 7.1: it recovers within minutes).
DEGRADED_SECONDS = 300.0
#: The service's name of the number of messages or files read (`asa.md` 9.1).
SOURCES = "InputEventsSourcesPerSecond"


class JobState(StrEnum):
    """The service's states, and what lies between two of them."""

    STOPPED = "Stopped"
    STARTING = "Starting"
    RUNNING = "Running"
    DEGRADED = "Degraded"
    STOPPING = "Stopping"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class InputStatus:
    """One partition of an input, as one reader sees it.

    input, partition: their names.
    events: read since the state began, refused ones too.
    watermark: ISO text; "end of input", or None when there is none yet.
    delay_seconds: newest arrival minus watermark; None without a watermark, and at the end of the input.
    reader: its number in the plan.
    watermark_ticks, event_time_ticks, last_arrival_ticks: watermark, newest event time that counts, newest
        arrival; None for none yet. The watermark is AFTER_ALL_TICKS at the end of the input.
    held_by: the rule that set the watermark (`ingress.reports.HeldBy`); None without one.
    oldest_held_ticks, rows_held: what the out-of-order policy still keeps.
    counters: the service's metrics by API name, since the state began; those that are not 0.
    last_event: when this run last committed an event of it, ISO text; None: not yet.
    substreams: how many are ahead of the watermark.
    percentiles_ticks: see `ReaderReport`.
    decisions: events by decision (`ingress.decisions.Counters`), since the state began; those that are not 0.
    """

    input: str
    partition: str
    events: int
    watermark: str | None
    delay_seconds: float | None
    reader: int = 0
    watermark_ticks: int | None = None
    event_time_ticks: int | None = None
    last_arrival_ticks: int | None = None
    held_by: str | None = None
    oldest_held_ticks: int | None = None
    rows_held: int = 0
    counters: Mapping[str, int] = field(default_factory=dict[str, int])
    last_event: str | None = None
    substreams: int = 0
    percentiles_ticks: Mapping[int, int] = field(default_factory=dict[int, int])
    decisions: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class SubstreamStatus:
    """A substream, one of the slowest 20 or the fastest 5 of the job.

    input, partition, reader: where it is read.
    name: its keys, as text.
    watermark_ticks, event_time_ticks: its watermark, its newest event.
    """

    input: str
    partition: str
    reader: int
    name: str
    watermark_ticks: int
    event_time_ticks: int


@dataclass(frozen=True, slots=True)
class StepSubstreamStatus:
    """A substream at an operator behind an exchange, one of its slowest 20 or fastest 5.

    operator: its number.
    key_group: where the substream is slowest.
    partition: the input partition, by its number as PartitionId reads it.
    name: its keys, as text.
    watermark_ticks: the least time a later row of it may have after the operator.
    """

    operator: int
    key_group: int
    partition: str
    name: str
    watermark_ticks: int


@dataclass(frozen=True, slots=True)
class HolderStatus:
    """What holds a watermark back.

    component: where (`engine.reports.Component`).
    kind: what, in plain words.
    place: the partition as `input/partition`, or `stage 2, key group 3`.
    oldest_ticks: the least time of what is held; BEFORE_ALL_TICKS: nobody knows yet.
    due_ticks: the input watermark that lets it go; None: an event decides.
    rows: how many rows are held; None where they are not counted.
    """

    component: str
    kind: str
    place: str
    oldest_ticks: int
    due_ticks: int | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class EarlyPaneStatus:
    """The early panes of a window at one percentage, over all key groups.

    percent: of the events in flight.
    watermark_ticks: at this percentage; a window that ends before it has had its pane. AFTER_ALL_TICKS at the
        end of the inputs; None: unknown.
    rows_out: of these panes, in this run.
    """

    percent: int
    watermark_ticks: int | None
    rows_out: int


@dataclass(frozen=True, slots=True)
class StepStatus:
    """An operator of the topology, over all partitions or key groups that run it.

    operator: its number.
    level: of its stage, 0 for the scan.
    kind: what it does, one or two words: "tumbling window", "filter", "join", "output".
    step: the step of the query it belongs to: a name of WITH, an output, or an input.
    line, column: where its text is in the query, from 1; None where it has none of its own.
    sources: operators whose rows it reads.
    output: of an operator that writes one, its name; of others None.
    rows_in, rows_out: in this run.
    input_watermark_ticks: the least of all ranges; AFTER_ALL_TICKS at the end of the inputs; None: unknown,
        since some range has never reported.
    output_watermark_ticks: the same of its rows; never past the input watermark.
    data_watermark_lag_seconds: newest arrival of the job minus the output watermark; None without one.
    processing_watermark: when the oldest operation began that is not completed (`asa.md` 11.7), ISO text: the
        tasks of a batch, or the commit of an output; None: none is under way.
    system_watermark_lag_seconds: how long that is ago; 0 while none is under way.
    latency_seconds: what the step adds: input minus output watermark (`asa.md` 11.3).
    holders: what holds the output watermark first, then what else is held; at most five.
    ranges, ranges_reported: partitions or key groups, and how many of them have reported.
    substreams: how many are ahead of the output watermark; in the key group that has most of them.
    substreams_of: the operator whose `StepSubstreamStatus` are those of this one too; None without any, and
        for the scan, whose substreams are those of its partitions.
    early_panes: of a window that has some, by ascending percentage; their rows are among `rows_out`.
    """

    operator: int
    level: int
    kind: str
    step: str
    line: int | None = None
    column: int | None = None
    sources: tuple[int, ...] = ()
    output: str | None = None
    rows_in: int = 0
    rows_out: int = 0
    input_watermark_ticks: int | None = None
    output_watermark_ticks: int | None = None
    data_watermark_lag_seconds: float | None = None
    system_watermark_lag_seconds: float | None = None
    latency_seconds: float | None = None
    holders: tuple[HolderStatus, ...] = ()
    ranges: int = 0
    ranges_reported: int = 0
    processing_watermark: str | None = None
    substreams: int = 0
    substreams_of: int | None = None
    early_panes: tuple[EarlyPaneStatus, ...] = ()


@dataclass(frozen=True, slots=True)
class RangeStatus:
    """A key group of a stage.

    level: of the stage, from 1.
    key_group: its number.
    rows_in, rows_out: of the stage in this run.
    input_watermark_ticks, output_watermark_ticks: the least of its operators; None: unknown.
    """

    level: int
    key_group: int
    rows_in: int = 0
    rows_out: int = 0
    input_watermark_ticks: int | None = None
    output_watermark_ticks: int | None = None


@dataclass(frozen=True, slots=True)
class OutputStatus:
    """An output: whether it is alive, and when it last got a row.

    output: its name.
    connector: what kind of output it is.
    alive: its last call succeeded; None: it was never called.
    calls, failed_calls: to write to it, in this run.
    last_error: of the last call that failed; None for none.
    rows: in this run.
    last_row: when the last row was committed, ISO text; None: none in this run.
    last_row_ticks: the time (System.Timestamp) of the newest row; None: none in this run.
    seconds: what calls have taken in this run.
    conversion_errors: rows it has refused since the state began (`asa.md` 6.6), dropped or waiting.
    dead_since: when the first call failed that a batch now waits for, ISO text; None: none waits.
    next_try: when it is called again, ISO text; None: no batch waits for it.
    """

    output: str
    connector: str
    alive: bool | None = None
    calls: int = 0
    failed_calls: int = 0
    last_error: str | None = None
    rows: int = 0
    last_row: str | None = None
    last_row_ticks: int | None = None
    seconds: float = 0.0
    conversion_errors: int = 0
    dead_since: str | None = None
    next_try: str | None = None


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """A batch of this run.

    batch: Spark's number.
    began: when, ISO text.
    seconds: until its commit.
    events: read.
    rows: emitted to all outputs.
    commit_seconds: of `seconds`, those of the commit.
    """

    batch: int
    began: str
    seconds: float
    events: int = 0
    rows: int = 0
    commit_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ErrorStatus:
    """Events of one kind that were refused, moved or dropped, with an example (`asa.md` 9.2).

    input, partition: where they came from; of rows that an output has refused, that output and "".
    error_type: the service's name of the reason.
    count: in this run.
    message: the newest reason, in words.
    example: the text of an event, cut to a readable length; None for none.
    last: when the newest was met, ISO text.
    """

    input: str
    partition: str
    error_type: str
    count: int
    message: str
    example: str | None = None
    last: str = ""


@dataclass(frozen=True, slots=True)
class ReferenceStatus:
    """A reference input.

    input: its name.
    snapshots: how many are loaded.
    rows: of the newest; None until a row has been looked up in it.
    effective_ticks: from when the newest counts; None: none is loaded.
    """

    input: str
    snapshots: int = 0
    rows: int | None = None
    effective_ticks: int | None = None


@dataclass(frozen=True, slots=True)
class CatchUpStatus:
    """How far a run has read what was there when it started.

    cause: why the run started so, in words.
    began_from: where it reads on, in words.
    events: read since the run started.
    events_expected: what there was to read, estimated; None until the first batch is done.
    events_per_second: since the run started; None until the first batch is done.
    share: what part is read, 0 to 1.
    seconds: since the run started.
    seconds_left: estimated; None until the first batch is done.
    """

    cause: str
    began_from: str
    events: int
    events_expected: int | None
    events_per_second: float | None
    share: float
    seconds: float
    seconds_left: float | None


@dataclass(frozen=True, slots=True)
class Status:
    """What a run reports of itself.

    job: name of the project.
    run: number of the run, from 1.
    state: of the job, as the service names it.
    since: when the run started, ISO text.
    updated: when this was written, ISO text.
    pid, host: the process of the run, or of the last one.
    generation: number of the state the run goes on with.
    mode: start mode (`StartMode`).
    cause: why the run started so, in words.
    batches, events: done and read by this run.
    inputs: per reader and partition.
    watermark_delay_seconds: the largest of all partitions; None before any has a watermark.
    counters: the service's metrics by API name, since the state began.
    rows: emitted per output by this run.
    rows_in_all: emitted per output since the state began.
    catching_up: None once all that was there is read, and of a run that is over.
    error: the last one; None for none.
    steps: the operators, in the order of their numbers.
    ranges: the key groups of every stage.
    substreams: the slowest 20 and the fastest 5 of the job, where they are read.
    step_substreams: the same of every operator behind an exchange whose substreams are not those of the one
        it reads.
    outputs: in the order of the query.
    recent_batches: the last 60, oldest first.
    batch_began: when the batch under way began, ISO text; None: none is under way.
    references: the reference inputs.
    errors: events refused, moved or dropped, by input, partition and reason; at most 50.
    backlog: per input, messages or bytes that are there and not read; empty where nobody knows.
    memory_bytes, memory_limit_bytes: of the processes of the run, and what they may take; None: unknown.
    cpu_percent: of the CPUs these processes may use, over the last seconds; None: unknown.
    layout: how the work is split; None: an earlier version did not say.
    """

    job: str
    run: int
    state: JobState
    since: str
    updated: str
    pid: int
    host: str
    generation: int
    mode: str
    cause: str
    batches: int = 0
    events: int = 0
    inputs: tuple[InputStatus, ...] = ()
    watermark_delay_seconds: float | None = None
    counters: Mapping[str, int] = field(default_factory=dict[str, int])
    rows: Mapping[str, int] = field(default_factory=dict[str, int])
    rows_in_all: Mapping[str, int] = field(default_factory=dict[str, int])
    catching_up: CatchUpStatus | None = None
    error: str | None = None
    steps: tuple[StepStatus, ...] = ()
    ranges: tuple[RangeStatus, ...] = ()
    substreams: tuple[SubstreamStatus, ...] = ()
    step_substreams: tuple[StepSubstreamStatus, ...] = ()
    outputs: tuple[OutputStatus, ...] = ()
    recent_batches: tuple[BatchStatus, ...] = ()
    batch_began: str | None = None
    references: tuple[ReferenceStatus, ...] = ()
    errors: tuple[ErrorStatus, ...] = ()
    backlog: Mapping[str, int] = field(default_factory=dict[str, int])
    memory_bytes: int | None = None
    memory_limit_bytes: int | None = None
    cpu_percent: float | None = None
    layout: Layout | None = None


_DOCUMENT = Document(Status)


def write_status(directory: JobDirectory, status: Status) -> None:
    """Replace the status file; a reader finds the old one or the new one.

    It is written every two seconds and is for people only, so nobody waits for the disk. Long lists are
    written as columns (`packed`), so `read_status` is the way to read it.
    """
    content = sealed(packed(_DOCUMENT.plain(status)))
    directory.status.write(json.dumps(content, separators=(",", ":")).encode() + b"\n", synced=False)


def read_status(directory: JobDirectory) -> Status | None:
    """The state of a job; None for one that has never run, or not with a version that writes this status.

    A run that is gone without a report of its end has failed.
    """
    try:
        content = unsealed(json.loads(directory.status.read_bytes()))
        status = _DOCUMENT.of_plain(unpacked(content))
    except (FileNotFoundError, ValueError, LookupError, TypeError, AttributeError):
        return None
    if running(directory) is not None:
        asked = (
            status.state in (JobState.STARTING, JobState.RUNNING, JobState.DEGRADED)
            and directory.stop.exists()
        )
        return replace(status, state=JobState.STOPPING) if asked else status
    if status.state in (JobState.STOPPED, JobState.FAILED):
        return status
    return replace(
        status,
        state=JobState.FAILED,
        catching_up=None,
        error=f"process {status.pid} on {status.host} ended without a word after {status.updated}; "
        "the next start goes on from the last whole batch",
    )
