"""Statuses for those who listen: server-sent events, pushed when a status file changes.

One task looks at the files for all listeners of all jobs, and runs only while there are any.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field

from starlette.concurrency import run_in_threadpool

from tideglass.core.errors import TideglassError
from tideglass.job.directory import JobDirectory
from tideglass.job.report.status import Status, read_status
from tideglass.page.answers import NoAnswer, is_alive, no_status, now_ms, shown_status
from tideglass.page.json_response import body_of

#: The status is written every two seconds, and after every batch.
LOOK_SECONDS = 0.5
#: So often a listener gets a comment when nothing else comes, for what lies between to keep the line open.
HEARTBEAT_SECONDS = 10.0
#: A page has one; more than these are a mistake or an attack.
MOST_LISTENERS = 100

#: What a status depends on: of the file its version; whether a process runs the job; whether
#: it is asked to stop. None: there is no file.
Signature = tuple[str, bool, bool] | None


def signature_of(directory: JobDirectory) -> Signature:
    """Changes whenever the status of the job does."""
    try:
        found = directory.status.status()
        asked = directory.stop.exists()
        return None if found is None else (found.version, is_alive(directory), asked)
    except OSError:
        return None


@dataclass(slots=True)
class _ReadStatus:
    """The status of a job as it was read; body: as the page sends it, None until it is asked for."""

    signature: Signature
    status: Status | None
    body: bytes | None = None


class StatusCache:
    """The newest status of each job, read anew only when its file has changed; for any thread."""

    def __init__(self) -> None:
        self._found: dict[JobDirectory, _ReadStatus] = {}
        self._lock = threading.Lock()

    def status(self, directory: JobDirectory) -> Status | None:
        """The status; None for a job that has left none."""
        return self._known(directory).status

    def body(self, directory: JobDirectory) -> bytes:
        """The status as JSON, with the clock of now. Raises NoAnswer for a job that has left none."""
        known = self._known(directory)
        if known.body is None:
            if known.status is None:
                raise no_status()
            alive = known.signature is not None and known.signature[1]
            known.body = body_of(shown_status(known.status, alive=alive))
        return b'{"now_ms":%.3f,' % now_ms() + known.body[1:]

    def _known(self, directory: JobDirectory) -> _ReadStatus:
        signature = signature_of(directory)  # before the file is read: it may change meanwhile
        with self._lock:
            known = self._found.get(directory)
        if known is None or known.signature != signature:
            known = _ReadStatus(signature, read_status(directory))
            with self._lock:
                self._found[directory] = known
        return known


class TooManyListeners(TideglassError):
    """Nobody more can listen."""


@dataclass(eq=False, slots=True)
class _Listener:
    frame: bytes = b""
    changed: asyncio.Event = field(default_factory=asyncio.Event)


def frame_of(event: str, body: bytes) -> bytes:
    """A server-sent event.

    >>> frame_of("gone", b"{}")
    b'event: gone\\ndata: {}\\n\\n'
    """
    return b"event: %s\ndata: %s\n\n" % (event.encode(), body)


class StatusFeed:
    """Pushes statuses to listeners; lives in the event loop of the server."""

    def __init__(
        self,
        newest: StatusCache,
        look_seconds: float = LOOK_SECONDS,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        self._newest = newest
        self._look_seconds = look_seconds
        self._heartbeat_seconds = heartbeat_seconds
        self._listeners: dict[JobDirectory, set[_Listener]] = {}
        self._pushed: dict[JobDirectory, Signature] = {}
        self._watching: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def listeners(self) -> Mapping[JobDirectory, int]:
        """How many listen to each job."""
        return {directory: len(each) for directory, each in self._listeners.items()}

    def close(self) -> None:
        """End all streams. To be called in the event loop."""
        self._closed = True
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.changed.set()

    def admit(self) -> None:
        """Raises TooManyListeners when there are as many as there may be."""
        if sum(map(len, self._listeners.values())) >= MOST_LISTENERS:
            raise TooManyListeners(f"{MOST_LISTENERS} listen already")

    async def frames(self, directory: JobDirectory) -> AsyncGenerator[bytes]:
        """What one listener of a job gets, until the server ends or the listener is gone."""
        listener = _Listener()
        self._listeners.setdefault(directory, set()).add(listener)
        try:
            yield b"retry: 2000\n\n"
            if directory not in self._pushed:
                self._pushed[directory] = await run_in_threadpool(signature_of, directory)
            yield await run_in_threadpool(self._frame, directory)
            if self._watching is None:
                self._watching = asyncio.create_task(self._watch())
            while not self._closed:
                try:
                    await asyncio.wait_for(listener.changed.wait(), self._heartbeat_seconds)
                except TimeoutError:
                    yield b":\n\n"
                    continue
                listener.changed.clear()
                if listener.frame and not self._closed:
                    yield listener.frame
            yield frame_of("closing", b"{}")
        finally:
            self._listeners[directory].discard(listener)
            if not self._listeners[directory]:
                del self._listeners[directory]
                self._pushed.pop(directory, None)

    async def _watch(self) -> None:
        while self._listeners and not self._closed:
            for directory in list(self._listeners):
                signature = await run_in_threadpool(signature_of, directory)
                if directory in self._pushed and self._pushed[directory] == signature:
                    continue
                frame = await run_in_threadpool(self._frame, directory)
                for listener in self._listeners.get(directory, ()):
                    self._push(listener, frame)
                if directory in self._listeners:
                    self._pushed[directory] = signature
            await asyncio.sleep(self._look_seconds)
        self._watching = None

    def _frame(self, directory: JobDirectory) -> bytes:
        try:
            return frame_of("status", self._newest.body(directory))
        except (NoAnswer, OSError):
            return frame_of("gone", b"{}")

    @staticmethod
    def _push(listener: _Listener, frame: bytes) -> None:
        """A listener that has not taken the frame before gets this one in its place."""
        listener.frame = frame
        listener.changed.set()
