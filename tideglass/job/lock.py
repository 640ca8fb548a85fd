"""One run at a time in a job directory: the second is refused with a message about the first.

On a disk the lock is the operating system's, so it ends with the process that holds it, however that ends: a
lock file that a crash leaves locks nothing. Where a directory is shared by machines whose system does not
share locks, the holder is known by its sign of life, the status it keeps writing. In a store the lock is a
lease, which ends a while after its holder.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tideglass.core.documents import Document
from tideglass.core.errors import StateError
from tideglass.job.directory import JobDirectory
from tideglass.job.lease import DirectoryLease, read_lease
from tideglass.storage import StoragePath

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
    """The lock of a job directory; a context manager.

    On a disk it is the operating system's; in a store, which has none, a lease (`job.lease`).
    """

    def __init__(self, directory: JobDirectory) -> None:
        self.directory = directory
        self._file: int | None = None
        self._lease: DirectoryLease | None = None

    def __enter__(self) -> RunLock:
        """Raises StateError naming the run that holds the lock."""
        place = self.directory.lock
        if place.is_local:
            self._lock(place.local)
        else:
            lease = DirectoryLease(place)
            lease.__enter__()
            self._lease = lease
        return self

    def _lock(self, path: Path) -> None:
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
        try:
            os.ftruncate(file, 0)
            os.pwrite(file, body, 0)
            os.fsync(file)
        except OSError:  # the disk: a later run in this process may take the lock
            os.close(file)
            raise
        self._file = file

    def check(self) -> None:
        """Return if the lock is ours, and for long enough to write something.

        Raises StateError naming the run that has it now. Only a lease can be lost.
        """
        if self._lease is not None:
            self._lease.check()

    @property
    def lost(self) -> bool:
        """Whether it is known that another run has the lock now."""
        return self._lease is not None and self._lease.lost

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            try:
                os.ftruncate(file, 0)  # an empty file: its holder ended by itself
            finally:
                os.close(file)
        if self._lease is not None:
            self._lease.__exit__(kind, error, trace)
            self._lease = None


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
    place = directory.lock
    if not place.is_local:
        return _leaseholder(place)
    try:
        file = os.open(place.local, os.O_RDONLY)
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


def _leaseholder(place: StoragePath) -> Holder | None:
    """Who holds a lease, for people: its age is told by this machine's clock, which may differ a little."""
    seen = read_lease(place)
    if seen is None or seen.document.ended or time.time() - seen.modified_ns / 1e9 > STALE_SECONDS:
        return None
    return Holder(seen.document.pid, seen.document.host, seen.document.since_seconds)


def holder(directory: JobDirectory) -> Holder | None:
    """Who holds the lock, or held it last and was killed; None for nobody."""
    try:
        return _DOCUMENT.of_text(directory.lock.read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def _shows_life(directory: JobDirectory) -> bool:
    try:
        return time.time() - directory.status.local.stat().st_mtime < STALE_SECONDS
    except FileNotFoundError:
        return False


def _refusal(directory: JobDirectory, known: Holder | None) -> str:
    who = known.words if known else "another process"
    return (
        f"a run is under way in {directory.path}: {who}\n"
        "  hint: stop it with `tideglass stop`, or name another directory with --run-dir"
    )
