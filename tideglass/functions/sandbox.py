"""JavaScript in a process of its own, with limits of time and memory (`docs/limits.md`).

A script that does not end, or holds more than it may, costs its process and a named row; the process of the
job goes on, and the next call starts another one. A process has one sandbox, with one V8 context.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from tideglass.core.limits import Limits

_HOST = Path(__file__).with_name("sandbox_host.py")
#: After so long without a result the host reports where the work is.
_SLICE_MS = 50
#: Longer than a process takes to start, or to interrupt what can be interrupted, on a busy machine.
_GRACE_SECONDS = 15


class ScriptError(Exception):
    """A script cannot be used: V8 refuses it."""


@dataclass(frozen=True, slots=True)
class Exceeded(Exception):
    """Work went over a limit.

    at: where, as the script's runtime reports it; None: it is not known
    """

    limit: str  # time or memory
    at: Any = None


@dataclass(slots=True)
class Sandbox:
    """One process with one V8 context. `prepare` is evaluated in every new process, in order."""

    limits: Limits
    prepare: Callable[[], Sequence[str]]
    _process: subprocess.Popen[bytes] | None = None
    _rest: bytes = b""
    _lock: Lock = field(default_factory=Lock)

    def define(self, code: str) -> None:
        """Evaluate a script. Raises ScriptError if V8 refuses it, Exceeded if it does not end."""
        with self._lock:
            self._started()
            self._evaluated(code)

    def run(self, code: str) -> Any:
        """The result, as JSON, of work that goes on by `tideglass.more()`.

        Raises Exceeded for work over a limit, and ScriptError if the runtime itself fails.
        """
        with self._lock:
            try:
                return self._run(code, _SLICE_MS)
            except Exceeded as exceeded:
                if exceeded.at is not None:
                    raise
            # The process ended without a word: once more, with a word before every call.
            return self._run(code, 0)

    def close(self) -> None:
        """End the process."""
        process, self._process, self._rest = self._process, None, b""
        if process is not None:
            process.kill()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
            process.wait()

    def _run(self, code: str, slice_ms: int) -> Any:
        self._started()
        limit = self.limits.javascript_seconds
        self._send(f"S{limit} {slice_ms} {json.dumps(code)}")
        at: Any = None
        while True:
            kind, text = self._answer(at if slice_ms == 0 else None)
            match kind:
                case "P":
                    at = json.loads(text)
                case "V":
                    return json.loads(text)
                case "E":
                    raise ScriptError(json.loads(text))
                case _:
                    self.close()
                    reported = json.loads(text)
                    raise Exceeded(
                        "time" if kind == "T" else "memory", reported if reported is not None else at
                    )

    def _started(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(_HOST), str(self.limits.javascript_megabytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for code in self.prepare():
            self._evaluated(code)

    def _evaluated(self, code: str) -> None:
        self._send(f"R{json.dumps(code)}")
        kind, text = self._answer(None)
        if kind == "E":
            raise ScriptError(json.loads(text))
        if kind != "V":
            self.close()
            raise Exceeded("time" if kind == "T" else "memory")

    def _send(self, line: str) -> None:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        try:
            process.stdin.write(line.encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            self.close()
            raise Exceeded("memory") from None

    def _answer(self, at: Any) -> tuple[str, str]:
        """The next line of the host. Raises Exceeded, at the last known place, if there is none."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        until = time.monotonic() + self.limits.javascript_seconds + _GRACE_SECONDS
        while b"\n" not in self._rest:
            remaining_seconds = until - time.monotonic()
            ready = select.select([process.stdout], [], [], max(0.0, remaining_seconds))[0]
            more = os.read(process.stdout.fileno(), 1 << 20) if ready else b""
            if not more:
                self.close()
                raise Exceeded("memory" if ready else "time", at)
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        return chr(line[0]), line[1:].decode()


_sandboxes: dict[int, Sandbox] = {}


def sandbox(limits: Limits, prepare: Callable[[], Sequence[str]]) -> Sandbox:
    """This process's sandbox; another one after a fork, or with other limits."""
    pid = os.getpid()
    found = _sandboxes.get(pid)
    if found is not None and found.limits == limits:
        return found
    if found is not None:
        found.close()
    _sandboxes.clear()  # a fork leaves its parent's alone
    made = _sandboxes[pid] = Sandbox(limits, prepare)
    atexit.register(_close, pid, made)
    return made


def _close(pid: int, made: Sandbox) -> None:
    if os.getpid() == pid:
        made.close()


def arguments_source(*values: object) -> str:
    """Arguments of a call as source code."""
    return ", ".join(json.dumps(value) for value in values)
