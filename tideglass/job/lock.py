"""One run at a time in a job directory: the second is refused with a message about the first.

The lock is the operating system's, so it ends with the process that holds it, however that ends: a lock
file that a crash leaves locks nothing. Where a directory is shared by machines whose system
does not share locks, the holder is known by its sign of life, the status it keeps writing.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from dataclasses import dataclass
from types import TracebackType

from tideglass.core.documents import Document
from tideglass.core.errors import StateError
from tideglass.job.directory import JobDirectory

#: A run writes its status every two seconds; one that has not for so long is taken for dead.
STALE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that holds a lock, or held it when it ended.

    pid, host: the process.
    since_seconds: when it took the lock, seconds of the epoch.
    """

    pid: int
    host: str
    since_seconds: float

    @property
    def words(self) -> str:
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.since_seconds))
        return f"process {self.pid} on {self.host}, since {since}"


_DOCUMENT = Document(Holder)


class RunLock:
    """The lock of a job directory; a context manager."""

    def __init__(self, directory: JobDirectory) -> None:
        self.directory = directory
        self._file: int | None = None

    def __enter__(self) -> RunLock:
        """Raises StateError naming the run that holds the lock."""
        path = self.directory.lock
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)  # not inherited by processes we start
        if not _taken(file):
            os.close(file)
            raise StateError(_refusal(self.directory, holder(self.directory)))
        before = holder(self.directory)
        if before is not None and before.host != socket.gethostname() and _shows_life(self.directory):
            os.close(file)
            raise StateError(_refusal(self.directory, before))
        body = _DOCUMENT.text(Holder(os.getpid(), socket.gethostname(), time.time())).encode()
        os.ftruncate(file, 0)
        os.pwrite(file, body, 0)
        os.fsync(file)
        self._file = file
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            os.ftruncate(self._file, 0)  # an empty file: its holder ended by itself
            os.close(self._file)
            self._file = None


def _taken(file: int) -> bool:
    """Whether the lock is ours now. A look whether it is held takes it for a moment (`running`)."""
    for _ in range(10):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.05)
        else:
            return True
    return False


def running(directory: JobDirectory) -> Holder | None:
    """Who runs in a job directory now; None when nobody does. Locks nothing, changes nothing."""
    try:
        file = os.open(directory.lock, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        known = holder(directory)
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return known or Holder(0, socket.gethostname(), time.time())
        elsewhere = known is not None and known.host != socket.gethostname()
        return known if elsewhere and _shows_life(directory) else None
    finally:
        os.close(file)


def holder(directory: JobDirectory) -> Holder | None:
    """Who holds the lock, or held it last and was killed; None for nobody."""
    try:
        return _DOCUMENT.of_text(directory.lock.read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def _shows_life(directory: JobDirectory) -> bool:
    try:
        return time.time() - directory.status.stat().st_mtime < STALE_SECONDS
    except FileNotFoundError:
        return False


def _refusal(directory: JobDirectory, known: Holder | None) -> str:
    who = known.words if known else "another process"
    return (
        f"a run is under way in {directory.path}: {who}\n"
        "  hint: stop it with `tideglass stop`, or name another directory with --run-dir"
    )
