"""All that is shown of a job at one moment, read from its directory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tideglass.core.time import AFTER_ALL_TICKS, TICKS_PER_SECOND
from tideglass.job.diagnosis.diagnose import diagnose_directory
from tideglass.job.diagnosis.finding import Diagnosis
from tideglass.job.directory import JobDirectory
from tideglass.job.report.history import HistorySample, StepSample, read_history
from tideglass.job.report.status import JobState, Status, read_status

#: How much of the history is shown.
HISTORY_SECONDS = 600
#: Over how long a rate is taken.
_RATE_SECONDS = 10


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """A job at one moment.

    status: the newest.
    history: samples of its newest run, of the last ten minutes before the status, oldest first.
    diagnosis: why there is no output, or that all is well.
    """

    status: Status
    history: Sequence[HistorySample]
    diagnosis: Diagnosis

    @property
    def is_over(self) -> bool:
        """Whether the run has ended, in whatever way."""
        return self.status.state in (JobState.STOPPED, JobState.FAILED)

    def rate(self, count: Callable[[HistorySample], int | None]) -> float | None:
        """By how much a count grows a second; None of a run that is over, and of one too young to say."""
        if self.is_over or len(self.history) < 2:
            return None
        last = self.history[-1]
        first = next((each for each in self.history if last.at_ms - each.at_ms <= _RATE_SECONDS * 1000), last)
        if first is last:
            first = self.history[-2]
        after, before = count(last), count(first)
        seconds = (last.at_ms - first.at_ms) / 1000
        return None if after is None or before is None or seconds <= 0 else (after - before) / seconds

    def rates(self, count: Callable[[HistorySample], int]) -> list[float]:
        """By how much a count grew a second, from sample to sample."""
        return [
            max(0, count(after) - count(before)) * 1000 / (after.at_ms - before.at_ms)
            for before, after in pairwise(self.history)
            if after.at_ms > before.at_ms
        ]

    def step_samples(self, operator: int) -> list[tuple[HistorySample, StepSample]]:
        """What the history has of a step."""
        return [
            (sample, step) for sample in self.history for step in sample.steps if step.operator == operator
        ]

    def lags(self, operator: int) -> list[float]:
        """The data watermark lag of a step over time, in seconds, where it is known."""
        found: list[float] = []
        for sample, step in self.step_samples(operator):
            newest = [
                each.last_arrival_ticks for each in sample.inputs if each.last_arrival_ticks is not None
            ]
            mark = step.output_watermark_ticks
            if newest and mark is not None and mark < AFTER_ALL_TICKS:
                found.append(max(0, max(newest) - mark) / TICKS_PER_SECOND)
        return found


def read_snapshot(directory: JobDirectory, now_seconds: float | None = None) -> JobSnapshot | None:
    """The job now; None where none has run. now_seconds: of the epoch; None: the clock's."""
    status = read_status(directory)
    if status is None:
        return None
    history = [each for each in read_history(directory) if each.run == status.run]
    if history:
        newest_ms = history[-1].at_ms
        history = [each for each in history if newest_ms - each.at_ms <= HISTORY_SECONDS * 1000]
    seconds = time.time() if now_seconds is None else now_seconds
    return JobSnapshot(status, history, diagnose_directory(directory, now_seconds=seconds))
