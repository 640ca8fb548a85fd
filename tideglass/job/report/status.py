"""What a run says of itself to whoever asks from outside: a small JSON file, written again and again.

States are the service's (`asa.md` 7.1). A run that is killed says nothing any more; that it is gone shows
by its lock, so `read_status` answers from both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from tideglass.core.durable import replace_file, sealed, unsealed
from tideglass.job.directory import JobDirectory
from tideglass.job.lock import running

#: A run that met broken input this recently is degraded (`asa.md` 7.1: it recovers within minutes).
DEGRADED_SECONDS = 300.0


class State(StrEnum):
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

    watermark: ISO text; "end of input", or None when there is none yet. delay_seconds: newest arrival
    minus watermark.
    """

    input: str
    partition: str
    events: int
    watermark: str | None
    delay_seconds: float | None


@dataclass(frozen=True, slots=True)
class CatchUpStatus:
    """How far a run has come in what was there when it started.

    events_expected, seconds_left: None until the first batch is done. events_per_second: so far.
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
    """A run's account of itself. Times are ISO text; counters have the names of the service's API.

    batches, events, rows: of this run. counters, rows_in_all: since the state began.
    """

    job: str
    run: int
    state: State
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

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def write_status(directory: JobDirectory, status: Status) -> None:
    """Replace the status file; a reader finds the old one or the new one.

    It is written every two seconds and tells people what is known elsewhere, so nobody waits for the disk.
    """
    body = json.dumps(sealed(status.to_json()), indent=1) + "\n"
    replace_file(directory.status, body.encode(), synced=False)


def read_status(directory: JobDirectory) -> Status | None:
    """The state of a job; None for one that has never run, or not with a version that writes this status.

    A run that is gone without having said how it ended has failed.
    """
    try:
        content = unsealed(json.loads(directory.status.read_text()))
        catching_up = content["catching_up"]
        content["state"] = State(content["state"])
        content["inputs"] = tuple(InputStatus(**each) for each in content["inputs"])
        content["catching_up"] = None if catching_up is None else CatchUpStatus(**catching_up)
        status = Status(**content)
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None
    if running(directory) is not None:
        asked = status.state in (State.STARTING, State.RUNNING, State.DEGRADED) and directory.stop.exists()
        return replace(status, state=State.STOPPING) if asked else status
    if status.state in (State.STOPPED, State.FAILED):
        return status
    return replace(
        status,
        state=State.FAILED,
        catching_up=None,
        error=f"process {status.pid} on {status.host} ended without a word after {status.updated}; "
        "the next start goes on from the last whole batch",
    )
