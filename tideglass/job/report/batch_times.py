"""The batches of a run: when they began, how long they took, and which one is under way.

The processing-time watermark (`asa.md` 11.7) is the processing time at which the oldest operation that is not
completed began. A batch is one of all steps until its tasks are done; its commit is one of the outputs.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field

from tideglass.job.report.status import BatchStatus

MOST_BATCHES = 60


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment by two clocks: the wall's for people, the monotonic one for lengths of time."""

    wall_seconds: float
    clock_seconds: float

    @staticmethod
    def now() -> Moment:
        return Moment(time.time(), time.monotonic())


@dataclass(slots=True)
class BatchTimes:
    """What a run knows of its batches.

    recent: the last ones that are committed, oldest first.
    """

    recent: deque[BatchStatus] = field(default_factory=lambda: deque[BatchStatus](maxlen=MOST_BATCHES))
    _tasks: Moment | None = None
    _commit: Moment | None = None

    def began(self, at: Moment) -> None:
        """The tasks of a batch are about to run."""
        self._tasks, self._commit = at, None

    def committing(self, at: Moment) -> None:
        """The tasks are done, and the driver commits."""
        self._commit = at

    def done(self, batch: int, events: int, rows: int, at: Moment) -> None:
        """The batch is committed. events: read. rows: emitted to all outputs."""
        commit = self._commit or at
        began = self._tasks or commit
        self.recent.append(
            BatchStatus(
                batch,
                utc_milliseconds_text(began.wall_seconds),
                round(at.clock_seconds - began.clock_seconds, 4),
                events,
                rows,
                round(at.clock_seconds - commit.clock_seconds, 4),
            )
        )
        self._tasks = self._commit = None

    def oldest_began(self, *, outputs: bool) -> Moment | None:
        """When the oldest operation under way began; None: none is.

        outputs: of the outputs, which wait for the tasks and then commit; else of the other steps.
        """
        if self._commit is not None:
            return self._commit if outputs else None
        return self._tasks

    @property
    def batch_began(self) -> Moment | None:
        """When the batch under way began; None: none is."""
        return self._tasks or self._commit


def utc_milliseconds_text(seconds: float) -> str:
    """ISO text, to the millisecond, of seconds of the epoch.

    >>> utc_milliseconds_text(0.25)
    '1970-01-01T00:00:00.250Z'
    """
    whole, thousandths = divmod(round(seconds * 1000), 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{thousandths:03d}Z"
