"""A lease: the lock of a job directory in a store that has no locks, as an object store.

The file `lock` names who holds the directory. Its holder replaces it every few seconds, each time only if
nobody else has (`replace_if`). A lease that was not renewed for `LEASE_SECONDS` is over: whoever replaces it
then, again only if nobody else has, holds the directory from then on.

Clocks of two machines differ, so none is compared with another:

* A contender tells the age of a lease by the store's clock, from the times at which the store has written the
  lease and a file of the contender's own; from then on by its own, as long as it sees the lease unchanged.
* A holder tells by its own clock how long ago it began the last renewal that succeeded, which is before the
  store wrote it. While that is less than `LEASE_SECONDS` nobody can have taken the lease over.

So a holder asks before it commits anything (`check`), which costs nothing while the lease is young, and
renews it where it is not: a process that stood still for minutes finds out before it writes. What it writes
within `MARGIN_SECONDS` of the answer cannot meet another holder.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from tideglass.core.documents import Document
from tideglass.core.errors import StateError, TideglassError

#: How long a lease holds after it was renewed; a job whose driver has died goes on elsewhere after so long.
LEASE_SECONDS = 30.0
#: How often a holder renews it. One renewal or two may fail.
RENEW_SECONDS = 5.0
#: So long before its end a holder no longer relies on a lease: for writes that take their time, and for
#: clocks that go at different speeds.
MARGIN_SECONDS = 10.0
#: How often a contender looks whether the holder is alive.
_LOOK_SECONDS = 1.0
#: How often something is tried again that fails only while the store takes longer than a lease holds.
_ATTEMPTS = 5
#: More than the grain of a store's times.
_GRAIN_SECONDS = 2.0


class LeaseStatus(Protocol):
    """Of a file of the store: its version, and when the store wrote it, nanoseconds since 1970."""

    @property
    def version(self) -> str: ...
    @property
    def modified_ns(self) -> int: ...


class LeaseFile(Protocol):
    """What a lease needs of a file in a store (`storage.StoragePath`)."""

    @property
    def name(self) -> str: ...
    def with_name(self, name: str) -> LeaseFile: ...
    def status(self) -> LeaseStatus | None: ...
    def read_bytes(self) -> bytes: ...
    def create(self, body: bytes) -> bool: ...
    def replace_if(self, body: bytes, version: str) -> bool: ...
    def unlink(self, missing_ok: bool = False) -> None: ...


@dataclass(frozen=True, slots=True)
class LeaseDocument:
    """What the file of a lease says.

    pid, host: the process that holds it.
    since_seconds: when that took it, seconds of the epoch by its clock; for people.
    token: of the holder, unlike any other's.
    renewals: how often it was renewed, so that no two contents are equal.
    seconds: how long it holds after it was written.
    ended: the holder has released it.
    """

    pid: int
    host: str
    since_seconds: float
    token: str
    renewals: int = 0
    seconds: float = 0.0
    ended: bool = False

    @property
    def words(self) -> str:
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.since_seconds))
        return f"process {self.pid} on {self.host}, since {since}"


_DOCUMENT = Document(LeaseDocument)


@dataclass(frozen=True, slots=True)
class SeenLease:
    """A lease as it is found: what its file says, the file's version, and when the store wrote it."""

    document: LeaseDocument
    version: str
    modified_ns: int


def read_lease(file: LeaseFile) -> SeenLease | None:
    """The lease in a file; None where there is none. Raises StateError for a file with something else."""
    for _ in range(_ATTEMPTS):
        before = file.status()
        if before is None:
            return None
        try:
            body = file.read_bytes()
        except FileNotFoundError:
            continue
        after = file.status()
        if after is None or after.version != before.version:
            continue  # it was replaced while we read
        try:
            return SeenLease(_DOCUMENT.of_text(body), after.version, after.modified_ns)
        except ValueError as error:
            raise StateError(
                f"[STATE_DAMAGED] {file} does not say who holds the job directory ({error})\n"
                "  hint: remove it if no run is under way"
            ) from error
    raise StateError(_too_slow(file))


def _too_slow(file: LeaseFile) -> str:
    return (
        f"[LEASE_TOO_SLOW] the store of the job directory answers too slowly to keep a lease of "
        f"{LEASE_SECONDS:g} s ({file}), so this run commits nothing any more\n"
        "  hint: start the job again; it goes on from the last whole batch"
    )


def boot_seconds() -> float:
    """A clock that goes on while the machine sleeps, where there is one."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class DirectoryLease:
    """The lease of one process on a directory; a context manager that renews it in a thread.

    clock: seconds, never set back. sleep: waits by that clock.
    """

    def __init__(
        self,
        file: LeaseFile,
        clock: Callable[[], float] = boot_seconds,
        sleep: Callable[[float], None] = time.sleep,
        host: str | None = None,
    ) -> None:
        self.file = file
        self._clock = clock
        self._sleep = sleep
        self._own = LeaseDocument(
            os.getpid(), host or socket.gethostname(), 0.0, uuid.uuid4().hex, seconds=LEASE_SECONDS
        )
        self._version = ""
        self._renewed_seconds = 0.0
        self._lost_to: str | None = None
        self._renewing = threading.Lock()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> DirectoryLease:
        self.take()
        self._thread = threading.Thread(target=self._renew_until_over, name="lease", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        self.release()

    # ------------------------------------------------------------ taking it

    def take(self) -> None:
        """Take the lease, once its holder has released it or not renewed it for as long as it holds.

        Raises StateError naming the holder as soon as that shows life.
        """
        known: SeenLease | None = None
        age_seconds = looked_seconds = 0.0
        while True:
            seen = read_lease(self.file)
            if seen is not None and not seen.document.ended:
                if known is None:
                    known, age_seconds = seen, (self._store_ns() - seen.modified_ns) / 1e9
                    looked_seconds = self._clock()
                elif seen.version != known.version:
                    raise StateError(refusal(self.file, seen.document))
                if age_seconds + self._clock() - looked_seconds < known.document.seconds + _GRAIN_SECONDS:
                    self._sleep(_LOOK_SECONDS)
                    continue
            if self._write(seen, replace(self._own, since_seconds=time.time())):
                return

    def _store_ns(self) -> int:
        """What the store's clock says, by the time it gives a new file."""
        probe = self.file.with_name(f"{self.file.name}.clock-{uuid.uuid4().hex}")
        try:
            probe.create(b"")
            found = probe.status()
            return 0 if found is None else found.modified_ns
        finally:
            with suppress(FileNotFoundError):
                probe.unlink(missing_ok=True)

    # ------------------------------------------------------------ holding it

    @property
    def lost(self) -> bool:
        """Whether it is known that another process holds it now."""
        return self._lost_to is not None

    def check(self) -> None:
        """Return while nobody else can hold the lease within `MARGIN_SECONDS`; renews it where that is near.

        Raises StateError naming who has it now. Also raises what the store raises when it cannot be asked.
        """
        for _ in range(_ATTEMPTS):
            if not self.lost and self._clock() - self._renewed_seconds < LEASE_SECONDS - MARGIN_SECONDS:
                return
            self.renew()
            if self._lost_to is not None:
                raise StateError(
                    "[LEASE_LOST] this run no longer holds its job directory, whose lease it did not renew "
                    f"for {self._own.seconds:g} s: {self._lost_to}; this run commits nothing any more\n"
                    "  hint: the run that has it goes on from the last whole batch"
                )
        raise StateError(_too_slow(self.file))

    def renew(self) -> None:
        """Renew the lease, or learn that it is lost. Raises what the store raises when it cannot be asked."""
        with self._renewing:
            if self._lost_to is None:
                own = replace(self._own, renewals=self._own.renewals + 1)
                self._write(SeenLease(self._own, self._version, 0), own)

    def release(self) -> None:
        """Let another process take it at once; if it is lost nothing happens."""
        with self._renewing:
            if self._lost_to is None and self._version:
                ended = replace(self._own, renewals=self._own.renewals + 1, ended=True)
                self.file.replace_if(_DOCUMENT.text(ended).encode(), self._version)
                self._version = ""

    def _renew_until_over(self) -> None:
        while not self._over.wait(RENEW_SECONDS):
            with suppress(OSError, TideglassError):  # `check` says so, if it lasts
                self.renew()
            if self.lost:
                return

    # ------------------------------------------------------------ the file

    def _write(self, seen: SeenLease | None, own: LeaseDocument) -> bool:
        """Write the lease if it is as seen; whether it is ours then. One that was ours is lost otherwise."""
        began = self._clock()
        body = _DOCUMENT.text(own).encode()
        # If it is ours after a refusal, a request was sent again since its answer did not come.
        self.file.create(body) if seen is None else self.file.replace_if(body, seen.version)
        found = read_lease(self.file)
        if found is not None and found.document == own:
            self._own, self._version, self._renewed_seconds = own, found.version, began
            return True
        if seen is not None and seen.document.token == own.token:
            self._lost_to = (
                f"{self.file} was removed" if found is None else f"{found.document.words}, has taken it over"
            )
        return False


def refusal(file: LeaseFile, holder: LeaseDocument) -> str:
    return (
        f"a run is under way in the job directory of {file}: {holder.words}\n"
        "  hint: stop it with `tideglass stop`, or name another directory with --run-dir"
    )
