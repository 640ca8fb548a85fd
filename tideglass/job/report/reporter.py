"""A run's account of itself while it lasts: status file, wish to stop, and how it ended.

One thread beside the run writes the status and looks for the file `stop`, by which another process asks
the run to end (`tideglass stop`): a signal would need the same machine, and a number of a process is not
for ever the same process.
"""

from __future__ import annotations

import _thread
import signal
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import TypeAlias

from tideglass.core.errors import StorageError
from tideglass.core.masking import masked
from tideglass.core.time import BEFORE_ALL_TICKS, TICKS_PER_SECOND, format_ticks
from tideglass.ingress.reports import ReaderReport
from tideglass.job.directory import AT_ONCE, JobDirectory
from tideglass.job.lock import RunLock
from tideglass.job.report.batch_times import Moment
from tideglass.job.report.history import HistoryWriter, Mark, now_ms, sample_of
from tideglass.job.report.memory_group import killed_for_memory, memory_limit_bytes
from tideglass.job.report.metrics import DataErrors, Metrics, PartitionFacts
from tideglass.job.report.run_journal import Ended, RunEnd, add
from tideglass.job.report.run_view import RunView
from tideglass.job.report.status import DEGRADED_SECONDS, SOURCES, InputStatus, JobState, Status, write_status
from tideglass.job.start.begin import RunSetup, utc_text

_LOOK_SECONDS = 0.25
_WRITE_SECONDS = 2.0
#: Where the directory is in an object store, which charges for every look.
_STORE_LOOK_SECONDS = 1.0
#: Of an error, so that a status is never a page of SQL.
_MOST_CHARACTERS = 4000

#: Called with every status of a run, also with the one of its end, by one thread at a time.
StatusObserver: TypeAlias = Callable[[Status], None]


@dataclass(slots=True)
class Reporter:
    """Keeps the account of one run; a context manager that ends with the run.

    job: name of the project.
    directory: of the job.
    setup: how the run has started.
    metrics: what is counted.
    view: what the status shows beside the metrics; None shows nothing of it.
    stop_requested: set once the run is to stop. `metrics` and `view` may be changed under `changing()` only.
    observers: get every status that is written; an OSError of one is ignored, as is that of the status file.
    lock: of the directory. Once it is lost the run writes nothing there and stops; None: it cannot be.
    """

    job: str
    directory: JobDirectory
    setup: RunSetup
    metrics: Metrics
    view: RunView | None = None
    stop_requested: threading.Event = field(default_factory=threading.Event)
    observers: Sequence[StatusObserver] = ()
    lock: RunLock | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _writing: threading.Lock = field(default_factory=threading.Lock)
    _over: threading.Event = field(default_factory=threading.Event)
    _state: JobState = JobState.STARTING
    _rejected: int = 0
    _rejected_at_seconds: float | None = None
    _thread: threading.Thread | None = None
    _history: HistoryWriter | None = None
    _sampled_seconds: float = 0.0
    _killed_before: int = 0

    def __enter__(self) -> Reporter:
        self._rejected = self.metrics.rejected
        self._killed_before = killed_for_memory()
        self._history = HistoryWriter(self.directory)
        self._write(mark=Mark.START)
        self._thread = threading.Thread(target=self._watch, name="account", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        how = self._how(error)
        self._state = JobState.FAILED if how is Ended.FAILED else JobState.STOPPED
        shown_error = self._error_text(error) if how is Ended.FAILED else None
        if self.view is not None and how is Ended.FAILED:
            self.view.outputs.run_failed(masked(str(error)))
        with suppress(OSError, StorageError):  # it is for people, and what ended the run is to be heard
            self._write(shown_error, Mark.END)
        if self.lost:
            return  # the journal, too, is that of another run
        catch_up = self.metrics.catch_up
        end = RunEnd(
            run=self.setup.start.run,
            ended=utc_text(time.time()),
            how=how,
            batches=self.metrics.batches,
            events=self.metrics.events - self.metrics.events_before,
            rows=dict(self.metrics.output_rows),
            error=shown_error,
            caught_up_seconds=round(catch_up.seconds, 3) if catch_up and catch_up.done else None,
        )
        # Where the disk is full the run ends without an entry, as one that was killed does.
        with suppress(*((OSError, StorageError) if error is not None else ())):
            add(self.directory.journal, end)
        self.directory.stop.unlink(missing_ok=True)

    def _error_text(self, error: BaseException | None) -> str:
        """What a run that failed says; first of all whether Linux has killed a process of it for memory."""
        text, killed = masked(str(error)), killed_for_memory() - self._killed_before
        if killed > 0:
            limit = f"{memory_limit_bytes() / 1e6:,.0f} MB"
            text = f"out of memory: Linux has ended {killed} of its processes at the limit of {limit}\n{text}"
        return text[:_MOST_CHARACTERS]

    def _how(self, error: BaseException | None) -> Ended:
        if isinstance(error, KeyboardInterrupt):
            return Ended.BROKEN_OFF
        if error is not None:
            return Ended.FAILED
        # The source may know before we look.
        stop_requested = self.stop_requested.is_set() or self.directory.stop.exists()
        return Ended.STOPPED if stop_requested else Ended.FINISHED

    @contextmanager
    def changing(self) -> Generator[Metrics]:
        """The metrics, while nobody reads them."""
        with self._lock:
            batches = self.metrics.batches
            yield self.metrics
            if self.metrics.batches > batches:
                self.running()
            if self.metrics.rejected > self._rejected:
                self._rejected = self.metrics.rejected
                self._rejected_at_seconds = time.monotonic()

    @property
    def lost(self) -> bool:
        """Whether another run has taken the job directory over."""
        return self.lock is not None and self.lock.lost

    def check_lock(self) -> None:
        """Raises StateError where another run has taken the job directory over."""
        if self.lock is not None:
            self.lock.check()

    @property
    def starting(self) -> bool:
        """Whether it is not known yet that the job runs."""
        return self._state is JobState.STARTING

    def running(self) -> None:
        """The first batch is done, or there is nothing to read yet; the watching thread reports it."""
        if self._state is JobState.STARTING:
            self._state = JobState.RUNNING

    def request_stop(self) -> None:
        """The run is to stop after the batch under way; the source begins no other."""
        self.stop_requested.set()
        self.directory.stop.create(b"")

    def _watch(self) -> None:
        written_seconds = time.monotonic()
        batches, state, dead = -1, JobState.STARTING, False
        look_seconds = _LOOK_SECONDS if self.directory.path.is_local else _STORE_LOOK_SECONDS
        while not self._over.wait(look_seconds):
            if self.lost:
                self.stop_requested.set()
                continue
            # A status that cannot be written must not keep a run from being stopped.
            with suppress(OSError, StorageError):
                if self.directory.stop.exists():
                    self.stop_requested.set()
                    if self.directory.stop.read_text() == AT_ONCE:
                        self.directory.stop.write_text("")
                        _thread.interrupt_main()  # a second signal: see `signals`
                now_seconds = time.monotonic()
                has_dead = self._has_dead_output
                changed = (self.metrics.batches, self._state, has_dead) != (batches, state, dead)
                if changed or now_seconds - written_seconds >= _WRITE_SECONDS:
                    batches, state, dead = self.metrics.batches, self._state, has_dead
                    written_seconds = now_seconds
                    self._write()

    def _write(self, error: str | None = None, mark: Mark | None = None) -> None:
        with self._writing:
            with self._lock:
                status = self._status(error)
            if not self.lost:
                write_status(self.directory, status)
            for observe in self.observers:
                with suppress(OSError, StorageError):
                    observe(status)
            now_seconds = time.monotonic()
            is_due = now_seconds - self._sampled_seconds >= _WRITE_SECONDS
            if self._history is not None and not self.lost and (is_due or mark is not None):
                self._sampled_seconds = now_seconds
                self._history.add(sample_of(status, now_ms(), mark))

    def _status(self, error: str | None) -> Status:
        start, metrics, now_seconds = self.setup.start, self.metrics, time.monotonic()
        state = self._state
        if state in (JobState.STARTING, JobState.RUNNING) and self.stop_requested.is_set():
            state = JobState.STOPPING
        elif (state in (JobState.STARTING, JobState.RUNNING) and self._has_dead_output) or (
            state is JobState.RUNNING and self._is_degraded(now_seconds)
        ):
            state = JobState.DEGRADED
        catch_up = metrics.catch_up
        is_catching_up = (
            catch_up is not None and not catch_up.done and state not in (JobState.STOPPED, JobState.FAILED)
        )
        status = Status(
            job=self.job,
            run=start.run,
            state=state,
            since=start.started,
            updated=utc_text(time.time()),
            pid=start.pid,
            host=start.host,
            generation=start.generation,
            mode=start.mode,
            cause=start.cause,
            batches=metrics.batches,
            events=metrics.events - metrics.events_before,
            inputs=_inputs(list(metrics.partitions.values())),
            watermark_delay_seconds=metrics.watermark_delay_seconds,
            counters=metrics.by_api_name(),
            rows=dict(metrics.output_rows),
            rows_in_all=metrics.rows_in_all,
            catching_up=catch_up.status(now_seconds) if catch_up is not None and is_catching_up else None,
            error=error or (_refusal(metrics.errors[-1]) if metrics.errors else None),
            layout=start.layout,
        )
        return status if self.view is None else self.view.shown(status, metrics, Moment.now())

    @property
    def _has_dead_output(self) -> bool:
        return self.view is not None and self.view.outputs.has_dead

    def _is_degraded(self, now_seconds: float) -> bool:
        at_seconds = self._rejected_at_seconds
        return at_seconds is not None and now_seconds - at_seconds < DEGRADED_SECONDS


@contextmanager
def signals(reporter: Reporter) -> Generator[Callable[[], None]]:
    """While this lasts, a first SIGINT or SIGTERM asks the run to stop, a second raises KeyboardInterrupt.

    Yields what takes the signals back, for after code that has taken them for itself (Spark does). Only
    the main thread can have signals; in another nothing is done.
    """

    def on_signal(number: int, _: FrameType | None) -> None:
        if reporter.stop_requested.is_set():
            raise KeyboardInterrupt
        reporter.request_stop()

    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    numbers = (signal.SIGINT, signal.SIGTERM)

    def take() -> None:
        for number in numbers:
            signal.signal(number, on_signal)

    before = [signal.getsignal(number) for number in numbers]
    take()
    try:
        yield take
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _inputs(partitions: Sequence[PartitionFacts]) -> tuple[InputStatus, ...]:
    return tuple(
        _input(facts)
        for facts in sorted(partitions, key=lambda facts: (facts.input, facts.reader, facts.partition))
    )


def _input(facts: PartitionFacts) -> InputStatus:
    seen = facts.report or ReaderReport(facts.reader)
    return InputStatus(
        facts.input,
        facts.partition,
        facts.events,
        _watermark(facts),
        None if facts.final or facts.delay_ticks is None else facts.delay_ticks / TICKS_PER_SECOND,
        reader=facts.reader,
        watermark_ticks=_known(facts.watermark_ticks),
        event_time_ticks=_known(seen.event_time_ticks),
        last_arrival_ticks=_known(facts.last_arrival_ticks),
        held_by=seen.held_by,
        oldest_held_ticks=seen.oldest_held_ticks,
        rows_held=seen.rows_held,
        counters={name: value for name, value in _counters(facts).items() if value},
        last_event=facts.last_event,
        substreams=seen.substreams_ahead,
        percentiles_ticks=seen.percentiles_ticks,
        decisions=facts.counters.by_decision(),
    )


def _counters(facts: PartitionFacts) -> dict[str, int]:
    """The service's metrics of a partition, by API name."""
    return {
        **facts.counters.metrics(),
        "DeserializationError": facts.rejected,
        "InputEventBytes": facts.bytes,
        SOURCES: facts.sources,
    }


def _known(ticks: int) -> int | None:
    return None if ticks == BEFORE_ALL_TICKS else ticks


def _refusal(errors: DataErrors) -> str:
    return (
        f"{errors.count:,} events of {errors.input}/{errors.partition} refused: {errors.message} "
        f"(the first at {errors.first_place:,})"
    )


def _watermark(facts: PartitionFacts) -> str | None:
    if facts.final:
        return "end of input"
    return None if facts.watermark_ticks == BEFORE_ALL_TICKS else format_ticks(facts.watermark_ticks)
