"""The documented experiment for how long a restart takes, on the job's own events (`asa.md` 7.3).

The service's pages say: fill the source for the largest window at the real rate, start the job with *Now*
and measure until its first output. Here the source is filled already; the newest event in it stands for
now, and a copy of the job starts there, with a directory and outputs of its own that are thrown away.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tideglass.job.estimate.estimate import Pace, pace_of
from tideglass.job.estimate.memory import PeakMemory
from tideglass.job.options import RunOptions
from tideglass.job.outputs import BatchRows
from tideglass.job.plan import plan_job
from tideglass.job.report.metrics import Metrics
from tideglass.job.runner import run
from tideglass.job.start.decision import StartMode
from tideglass.project.project import Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Experiment:
    """What a restart took: events read again, the seconds from the start until they were, its pace, and the
    memory of all its processes at most."""

    events: int
    seconds: float
    pace: Pace
    peak_bytes: int


def experiment(
    project: Project, options: RunOptions, newest_ticks: int, spark: SparkSession | None = None
) -> Experiment:
    """Start the job as if it were `newest_ticks` now, and measure until it has caught up."""
    with tempfile.TemporaryDirectory(prefix="tideglass-estimate-") as folder:
        names = plan_job(project, options).outputs
        chosen = replace(
            options,
            once=True,
            run_directory=Path(folder) / "run",
            outputs={name: str(Path(folder) / "outputs" / str(n)) for n, name in enumerate(names)},
            start_mode=StartMode.TIME,
            start_at_ticks=newest_ticks,
            accept_partial=True,
        )
        began = time.monotonic()
        read: list[tuple[int, float]] = []

        def watch(_: int, __: BatchRows, metrics: Metrics) -> None:
            read.append((metrics.events, time.monotonic() - began))

        with PeakMemory() as memory:
            metrics = run(plan_job(project, chosen), watch, spark)
        caught_up_seconds = next((seconds for events, seconds in read if events == metrics.events), None)
        seconds = time.monotonic() - began if caught_up_seconds is None else caught_up_seconds
        return Experiment(metrics.events, seconds, pace_of(read or [(0, seconds)]), memory.peak_bytes)
