"""Runs attempts in a process with a limit of time: one that does not end costs that process."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path

from tideglass.core.errors import TideglassError
from tideglass.play.attempt import (
    ATTEMPT,
    OUTCOME,
    PLAYGROUND,
    Attempt,
    Outcome,
    Playground,
    Problem,
)

#: An attempt takes a tenth of a second; a process takes seconds to start on a busy machine.
ATTEMPT_SECONDS, START_SECONDS = 10.0, 60.0
#: Attempts that wait for the one before them; a page has one at a time.
MOST_WAITING = 4
#: What the process may know of the environment.
_KEPT = (
    "PATH",
    "LANG",
    "LC_ALL",
    "TZ",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "SYSTEMROOT",
    "TMPDIR",
    "XDG_CACHE_HOME",
)


class TooManyAttempts(TideglassError):
    """Others wait already."""


@dataclass(slots=True)
class Player:
    """Plays in one playground; for any thread, one attempt at a time.

    playground: what is played with.
    seconds: what an attempt may take.
    """

    playground: Playground
    seconds: float = ATTEMPT_SECONDS
    _process: subprocess.Popen[bytes] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _waiting: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(MOST_WAITING))

    def start(self) -> None:
        """Start the process beforehand, so that the first attempt is quick."""
        threading.Thread(target=self._warm, name="playground", daemon=True).start()

    def play(self, attempt: Attempt) -> Outcome:
        """The outcome of an attempt; one that takes too long has a problem that says so.

        Raises TooManyAttempts when others wait.
        """
        if not self._waiting.acquire(blocking=False):
            raise TooManyAttempts(f"{MOST_WAITING} attempts wait already")
        try:
            with self._lock:
                started = self._process is None
                return self._played(attempt, self.seconds + (START_SECONDS if started else 0.0))
        finally:
            self._waiting.release()

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def _warm(self) -> None:
        with self._lock:
            self._played(Attempt("SELECT 1 AS x INTO o FROM i", '{"x": 1}'), START_SECONDS)

    def _played(self, attempt: Attempt, seconds: float) -> Outcome:
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        late = threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(seconds, end)
        timer.start()
        try:
            process.stdin.write(b"E" + ATTEMPT.body(attempt) + b"\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except OSError:
            answer = b""
        finally:
            timer.cancel()
        if answer.endswith(b"\n"):
            return OUTCOME.of_body(answer)
        self._end()
        words = (
            f"it took longer than {self.seconds:g} seconds" if late.is_set() else "it took too much memory"
        )
        return Outcome(problems=(Problem("TOO_MUCH", f"the attempt was ended: {words}", "try fewer events"),))

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
            package = str(Path(__file__).parents[2])
            path = kept.get("PYTHONPATH")
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tideglass.play.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=tempfile.gettempdir(),
                env={
                    **kept,
                    "HOME": tempfile.gettempdir(),
                    "PYTHONPATH": f"{package}:{path}" if path else package,
                },
            )
            assert self._process.stdin is not None
            self._process.stdin.write(b"P" + PLAYGROUND.body(self.playground) + b"\n")
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
