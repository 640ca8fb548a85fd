"""The status of a run for observers outside: a small JSON file, written again and again.

States are the service's (`asa.md` 7.1). A run that is killed reports nothing any more; that it is gone shows
by its lock, so `read_status` answers from both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from tideglass.core.documents import Document
from tideglass.core.durable import replace_file
from tideglass.job.directory import JobDirectory
from tideglass.job.lock import running

#: A run that met broken input this recently is degraded (`asa.md` 7.1: it recovers within minutes).
DEGRADED_SECONDS = 300.0


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
    """

    input: str
    partition: str
    events: int
    watermark: str | None
    delay_seconds: float | None


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


_DOCUMENT = Document(Status)


def write_status(directory: JobDirectory, status: Status) -> None:
    """Replace the status file; a reader finds the old one or the new one.

    It is written every two seconds and is for people only, so nobody waits for the disk.
    """
    replace_file(directory.status, f"{_DOCUMENT.text(status, indent=1)}\n".encode(), synced=False)


def read_status(directory: JobDirectory) -> Status | None:
    """The state of a job; None for one that has never run, or not with a version that writes this status.

    A run that is gone without a report of its end has failed.
    """
    try:
        status = _DOCUMENT.of_text(directory.status.read_bytes())
    except (FileNotFoundError, ValueError):
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
