"""Health of a run for whoever watches its process: the two questions Kubernetes asks.

*Live*: would starting the process again help? So a broker, a disk or a slow batch never makes it fail: only a
run that no longer reports does. *Ready*: is the job's state restored, and is its first batch done?
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tideglass.core.errors import StorageError
from tideglass.job.directory import JobDirectory
from tideglass.job.lock import STALE_SECONDS
from tideglass.job.report.status import JobState, read_status

_READY = (JobState.RUNNING, JobState.DEGRADED)


@dataclass(frozen=True, slots=True)
class Check:
    """One check by name; more is for people."""

    name: str
    passes: bool
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])


def liveness(run: JobDirectory | None, started_seconds: float) -> list[Check]:
    """The page answers, and the run in whose process it is has written its status within a minute.

    run: None for a page beside the jobs, which lives by itself.
    started_seconds: since when a status can be expected, seconds of the epoch.
    """
    checks = [Check("page", True)]
    if run is not None:
        age_seconds = time.time() - max(_written_seconds(run), started_seconds)
        checks.append(
            Check("report", age_seconds < STALE_SECONDS, {"seconds_since_report": round(age_seconds, 1)})
        )
    return checks


def readiness(run: JobDirectory | None) -> list[Check]:
    """The state of the run is restored and its first batch is done, or there was nothing to read.

    run: None for a page beside the jobs, which is ready at once.
    """
    checks = [Check("page", True)]
    if run is not None:
        status = read_status(run)
        state = None if status is None else status.state
        checks.append(Check("first batch", state in _READY, {"state": state}))
    return checks


def health_answer(checks: Sequence[Check], *, named: bool) -> tuple[int, dict[str, Any]]:
    """Status of HTTP and content. named: with more than the name of each check and whether it passes."""
    passes = all(check.passes for check in checks)
    return 200 if passes else 503, {
        "status": "UP" if passes else "DOWN",
        "checks": [
            {"name": check.name, "status": "UP" if check.passes else "DOWN", **(check.more if named else {})}
            for check in checks
        ],
    }


def _written_seconds(run: JobDirectory) -> float:
    try:
        found = run.status.status()
    except (OSError, StorageError):
        return 0.0
    return 0.0 if found is None else found.modified_ns / 1e9
