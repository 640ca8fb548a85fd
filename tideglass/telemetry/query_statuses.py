"""The metrics of streaming queries over DataFrames, by Spark's own listener.

    with watching(spark, Exports(port=9464)):
        outputs["perMinute"].writeStream.…start()

A query of `tideglass.query` then has the metrics of a job, as far as Spark knows them: inputs by decision,
with watermark and delay, batches and rows. Partitions are summed up, since Spark observes sums.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tideglass.core.time import BEFORE_ALL_TICKS, TICKS_PER_SECOND, format_ticks
from tideglass.job.report.batch_times import utc_milliseconds_text
from tideglass.job.report.reporter import StatusObserver
from tideglass.job.report.status import BatchStatus, InputStatus, JobState, Status
from tideglass.telemetry.exports import Exports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tideglass.spark.dataframes.listener import QueryEvent
    from tideglass.spark.dataframes.metrics import Observed

#: The partition of metrics that are summed over all of an input.
ALL_PARTITIONS = "*"
#: Batches a status names.
_MOST_BATCHES = 60
#: Queries that have ended and are still shown; a notebook starts many.
_MOST_ENDED = 20


@dataclass(slots=True)
class QueryStatuses:
    """The newest status of every streaming query a listener has heard of.

    take: is called with what Spark says, by a thread of Spark's.
    observers: get every status of every query.
    clock: the wall clock as ISO text.
    """

    observers: Iterable[Callable[[Status], None]] = ()
    clock: Callable[[], str] = lambda: utc_milliseconds_text(time.time())
    _found: dict[str, Status] = field(default_factory=dict[str, Status])
    _runs: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def all(self) -> list[Status]:
        """Of every query its newest status."""
        with self._lock:
            return list(self._found.values())

    def take(self, event: QueryEvent) -> None:
        """Take in what Spark says of a query."""
        with self._lock:
            status = self._after(event)
            self._found[event.id] = status
            ended = [id_ for id_, each in self._found.items() if each.state is not JobState.RUNNING]
            for id_ in ended[: max(0, len(ended) - _MOST_ENDED)]:
                del self._found[id_], self._runs[id_]
        for observe in self.observers:
            observe(status)

    def _after(self, event: QueryEvent) -> Status:
        runs = self._runs.setdefault(event.id, [])
        now = self.clock()
        status = self._found.get(event.id)
        if status is None or event.run_id not in runs:
            if event.run_id not in runs:
                runs.append(event.run_id)
            status = _started(event, len(runs), now, status)
        state = JobState.RUNNING
        if event.ended:
            state = JobState.FAILED if event.error else JobState.STOPPED
        status = replace(status, updated=now, state=state, error=event.error)
        return status if event.batch is None else _with_batch(status, event, event.batch)


def _started(event: QueryEvent, run: int, now: str, before: Status | None) -> Status:
    """The status of a query that starts; one that starts again goes on from its checkpoint."""
    return Status(
        job=event.name or event.id,
        run=run,
        state=JobState.RUNNING,
        since=event.at or now,
        updated=now,
        pid=os.getpid(),
        host=socket.gethostname(),
        generation=1,
        mode="checkpoint",
        cause="the query was started",
        inputs=before.inputs if before else (),
        counters=before.counters if before else {},
    )


def _with_batch(status: Status, event: QueryEvent, batch: int) -> Status:
    """The status after a batch."""
    inputs = {(each.input, each.reader): each for each in status.inputs}
    for each in event.observed.values():
        before = inputs.get((each.input, each.reader))
        inputs[each.input, each.reader] = _input(each, before, status.updated)
    totals: dict[str, int] = {}
    for each in inputs.values():
        for name, count in each.counters.items():
            totals[name] = totals.get(name, 0) + count
    done = BatchStatus(
        batch, event.at or status.updated, event.seconds, event.events, event.rows or 0, event.commit_seconds
    )
    name = status.job
    rows = dict(status.rows)
    if event.rows is not None:
        rows[name] = rows.get(name, 0) + event.rows
    delays = [each.delay_seconds for each in inputs.values() if each.delay_seconds is not None]
    return replace(
        status,
        batches=status.batches + 1,
        events=status.events + event.events,
        inputs=tuple(inputs.values()),
        watermark_delay_seconds=max(delays, default=None),
        counters=totals,
        rows=rows,
        rows_in_all=rows,
        recent_batches=(*status.recent_batches, done)[-_MOST_BATCHES:],
    )


def _input(observed: Observed, before: InputStatus | None, now: str) -> InputStatus:
    """An input over all its partitions, as one reader sees it."""
    counters = {
        **observed.counters.metrics(),
        "DeserializationError": observed.rejected,
        "InputEventBytes": observed.bytes,
    }
    events = observed.counters.input_events + observed.rejected
    watermark = _known(observed.watermark_ticks)
    arrival = _known(observed.last_arrival_ticks)
    has_more = before is None or events > before.events
    return InputStatus(
        observed.input,
        ALL_PARTITIONS,
        events,
        None if watermark is None else format_ticks(watermark),
        None if watermark is None or arrival is None else max(0, arrival - watermark) / TICKS_PER_SECOND,
        reader=observed.reader,
        watermark_ticks=watermark,
        last_arrival_ticks=arrival,
        counters={name: value for name, value in counters.items() if value},
        last_event=now if has_more or before is None else before.last_event,
    )


def _known(ticks: int | None) -> int | None:
    return None if ticks is None or ticks == BEFORE_ALL_TICKS else ticks


@dataclass(frozen=True, slots=True)
class Watched:
    """Streaming queries that are watched. metrics_url: where their metrics are served; None for nowhere."""

    statuses: QueryStatuses
    metrics_url: str | None = None


@contextmanager
def watching(spark: SparkSession, exports: Exports) -> Generator[Watched]:
    """While this lasts, the metrics of every streaming query of a session go where `exports` says.

    Raises TideglassError for a port that is taken and for a file that cannot be written.
    """
    from tideglass.spark.dataframes.listener import add_listener

    with ExitStack() as stack:
        observers: list[StatusObserver] = []
        if exports.file is not None:
            from tideglass.telemetry.json_lines import JsonLines

            observers.append(JsonLines.to(Path(exports.file)))
        statuses = QueryStatuses(observers)
        url = None
        if exports.port is not None:
            from tideglass.telemetry.endpoint import serving

            port = stack.enter_context(serving(statuses.all, exports.port, exports.host))
            url = f"http://{exports.host}:{port}/metrics"
        stack.callback(add_listener(spark, statuses.take))
        yield Watched(statuses, url)
