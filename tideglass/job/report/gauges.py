"""What is looked at rarely while a run lasts: what its processes take, reference data, what is not read yet.

A thread of its own looks, about every ten seconds: nobody waits for the directories of inputs, least of
all the commit of a batch. What cannot be known is left out.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType

import psutil

from tideglass.core.errors import TideglassError
from tideglass.job.estimate.memory import processes, taken_bytes
from tideglass.job.report.status import ReferenceStatus

#: At least so long between two looks; longer where looking takes more than this part of the time.
LOOK_SECONDS = 10.0
_LOOKING = 0.005
_FIRST_LOOK_SECONDS = 1.0

#: Per input, messages or bytes that are there and not read.
Backlog = Mapping[str, int]


class ProcessorTime:
    """Time of processors that processes have used between two looks."""

    def __init__(self) -> None:
        self._used: dict[int, float] = {}
        self._at_seconds: float | None = None

    def percent(self, seen: Sequence[psutil.Process], now_seconds: float) -> float | None:
        """What part of the processors they may use they have used since the last call; None at the first one.

        Of processes that ended in between nothing is known.
        """
        used: dict[int, float] = {}
        for process in seen:
            with suppress(psutil.Error):  # it has ended
                times = process.cpu_times()
                used[process.pid] = times.user + times.system
        before, self._used = self._used, used
        at_seconds, self._at_seconds = self._at_seconds, now_seconds
        if at_seconds is None or now_seconds <= at_seconds:
            return None
        spent = sum(max(0.0, now - before.get(pid, 0.0)) for pid, now in used.items())
        return round(100 * spent / (now_seconds - at_seconds) / _processors(), 1)


@dataclass(slots=True)
class Gauges:
    """The last look; a context manager that looks while it lasts.

    backlog_of: what is not read yet of the inputs whose files this process can see.
    references_of: the reference inputs.
    backlog: per input, what the last look found.
    references: what the last look found.
    memory_bytes, cpu_percent: of this process and all it has started; None: not known yet.
    topics_backlog: per input that Spark's connector reads, by Spark's last progress; set from outside.
    """

    backlog_of: Callable[[], Backlog] = dict[str, int]
    references_of: Callable[[], Sequence[ReferenceStatus]] = tuple[ReferenceStatus, ...]
    backlog: Backlog = field(default_factory=dict[str, int])
    references: tuple[ReferenceStatus, ...] = ()
    memory_bytes: int | None = None
    cpu_percent: float | None = None
    topics_backlog: Backlog = field(default_factory=dict[str, int])
    _processors: ProcessorTime = field(default_factory=ProcessorTime)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Gauges:
        self._thread = threading.Thread(target=self._watch, name="gauges", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()  # a look at a place that hangs keeps no run from ending

    def _watch(self) -> None:
        self._processors.percent(processes(), time.monotonic())  # so that the first look has a before
        pause_seconds = _FIRST_LOOK_SECONDS
        while not self._over.wait(pause_seconds):
            before_seconds = time.thread_time()
            self.look()
            pause_seconds = max(LOOK_SECONDS, (time.thread_time() - before_seconds) / _LOOKING)

    def look(self) -> None:
        """Look once. An input that cannot be looked at now keeps what was found before."""
        with suppress(OSError, TideglassError):
            self.backlog = self.backlog_of()
        with suppress(OSError, TideglassError):
            self.references = tuple(self.references_of())
        seen = processes()
        self.memory_bytes = taken_bytes(seen)
        self.cpu_percent = self._processors.percent(seen, time.monotonic())


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
