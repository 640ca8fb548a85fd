"""How much memory a process and all it has started take from the machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType

import psutil

#: To sum up the pages of a large heap takes time of a core; looking may take this part of it.
LOOKING = 0.02
LEAST_PAUSE_SECONDS = 0.25


class PeakMemory:
    """Follows this process and all it has started; a context manager that looks while it lasts.

    peak_bytes: the largest sum over those alive at one time, a page that several share counted once (PSS;
    where the system does not have it, RSS). What lasts shorter than the pause between looks may be missed.
    """

    def __init__(self) -> None:
        self.peak_bytes = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        pause_seconds = 0.0
        while not self._over.wait(pause_seconds):
            before_seconds = time.thread_time()
            self.peak_bytes = max(self.peak_bytes, taken_bytes(processes()))
            pause_seconds = max(LEAST_PAUSE_SECONDS, (time.thread_time() - before_seconds) / LOOKING)


def processes() -> list[psutil.Process]:
    """This process and all it has started."""
    here = psutil.Process()
    return [here, *here.children(recursive=True)]


def taken_bytes(of: Iterable[psutil.Process]) -> int:
    """What processes take of the memory; a page that several share is counted once, where that is known."""
    total_bytes = 0
    for process in of:
        with suppress(psutil.Error):  # it ended while we looked
            memory = process.memory_full_info()
            total_bytes += getattr(memory, "pss", memory.rss)
    return total_bytes
