"""Where the time of a piece of work goes: named parts whose times add up to the whole.

Parts nest, and a part's time does not include that of the parts within it; time in no part is `REST`.
Outside of `recording` nothing is measured, and a part costs next to nothing. A recording belongs to
the thread that began it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from typing import Final, ParamSpec, TypeVar

_Arguments = ParamSpec("_Arguments")
_Made = TypeVar("_Made")

#: The part of everything that has no other.
REST: Final = "everything else"
#: The part for time spent until Spark has delivered, or taken, the next message.
WAITING: Final = "waiting for Spark"


class Recorder:
    """The parts of one recording: nanoseconds of the clock, and how often each part was entered.

    cpu_nanoseconds: what the process used of a core meanwhile; known once the recording has ended.
    """

    def __init__(self) -> None:
        self.nanoseconds: dict[str, int] = {}
        self.calls: dict[str, int] = {}
        self.cpu_nanoseconds = 0
        self._open = [REST]
        self._cpu_since = time.process_time_ns()
        self._since = time.perf_counter_ns()

    def enter(self, name: str) -> None:
        """From now on the time is that of `name`."""
        self._settle()
        self._open.append(name)
        self.calls[name] = self.calls.get(name, 0) + 1

    def leave(self) -> None:
        """From now on the time is again that of the part around."""
        self._settle()
        self._open.pop()

    def end(self) -> None:
        self._settle()
        self.cpu_nanoseconds = time.process_time_ns() - self._cpu_since

    def _settle(self) -> None:
        now = time.perf_counter_ns()
        name = self._open[-1]
        self.nanoseconds[name] = self.nanoseconds.get(name, 0) + now - self._since
        self._since = now


class _Current(threading.local):
    recorder: Recorder | None = None


_current = _Current()
_NOTHING = nullcontext()


class _Part:
    __slots__ = ("_name", "_recorder")

    def __init__(self, recorder: Recorder, name: str) -> None:
        self._recorder = recorder
        self._name = name

    def __enter__(self) -> None:
        self._recorder.enter(self._name)

    def __exit__(self, *_: object) -> None:
        self._recorder.leave()


@contextmanager
def recording() -> Generator[Recorder]:
    """Measure what this thread does; a recording within another one takes its place meanwhile."""
    before = _current.recorder
    recorder = _current.recorder = Recorder()
    try:
        yield recorder
    finally:
        recorder.end()
        _current.recorder = before


def part(name: str) -> AbstractContextManager[None]:
    """What runs inside is the part `name` of the recording under way, if there is one."""
    recorder = _current.recorder
    return _NOTHING if recorder is None else _Part(recorder, name)


def measured(name: str) -> Callable[[Callable[_Arguments, _Made]], Callable[_Arguments, _Made]]:
    """Decorator: every call of the function is the part `name`."""

    def decorate(function: Callable[_Arguments, _Made]) -> Callable[_Arguments, _Made]:
        @wraps(function)
        def run(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Made:
            if _current.recorder is None:
                return function(*args, **kwargs)
            with part(name):
                return function(*args, **kwargs)

        return run

    return decorate


def awaited(items: Iterable[_Made]) -> Iterator[_Made]:
    """The items; the time until each is there is `WAITING`."""
    remaining = iter(items)
    while True:
        with part(WAITING):
            try:
                item = next(remaining)
            except StopIteration:
                return
        yield item
