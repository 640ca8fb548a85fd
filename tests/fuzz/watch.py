"""Checks trials in a process of its own, and outlives what they do to it."""

from __future__ import annotations

import json
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import psutil

from fuzz.trial import Finding, Trial

#: Of processor time: the machine may be busy with other things. A usual trial takes a tenth of a second.
TRIAL_SECONDS = 20.0
#: By the clock, for what waits without working.
_WAITED_FACTOR = 6
#: A process that has grown to this is started anew; one trial that grows it so far is a finding.
_MOST_BYTES = 3 << 30
_FRESH_AFTER = 2_000


@dataclass
class Watch:
    """Checks trials one after the other; close it in the end.

    seconds: of processor time a trial may take.
    """

    seconds: float = TRIAL_SECONDS
    _process: subprocess.Popen[bytes] | None = None
    _errors: IO[bytes] | None = None
    _checked: int = 0
    slowest: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])

    def check(self, trial: Trial) -> Finding | None:
        """What a trial breaks, or None."""
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        before = _processor_seconds(process)
        since = time.monotonic()
        try:
            process.stdin.write(json.dumps(trial.to_json()).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            return self._died(trial)
        while not select.select([process.stdout], [], [], 0.25)[0]:
            spent = _processor_seconds(process) - before
            if spent > self.seconds or time.monotonic() - since > self.seconds * _WAITED_FACTOR:
                return self._ended(trial, "hangs")
            if _bytes_held(process) > _MOST_BYTES:
                return self._ended(trial, "takes all memory")
        line = process.stdout.readline()
        if not line:
            return self._died(trial)
        self._checked += 1
        took = _processor_seconds(process) - before
        self.slowest = sorted([*self.slowest, (took, f"{trial.target} {trial.seed}")], reverse=True)[:5]
        if self._checked >= _FRESH_AFTER or _bytes_held(process) > _MOST_BYTES // 2:
            self.close()
        answer: dict[str, Any] = json.loads(line)
        return Finding(trial, answer["signature"], answer["report"]) if answer else None

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout, self._errors):
                if stream is not None:
                    stream.close()
        self._process, self._checked = None, 0

    def _start(self) -> subprocess.Popen[bytes]:
        self._errors = TemporaryFile()  # noqa: SIM115
        # By the clock, since the stack must be written before the process is ended.
        stack_seconds = str(self.seconds * 0.7)
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("worker.py")), stack_seconds],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            self._errors.seek(0)
            raise RuntimeError(f"no trial can be checked: {self._errors.read().decode()}")
        return self._process

    def _died(self, trial: Trial) -> Finding:
        assert self._process is not None
        code = self._process.wait()
        how = f"dies of {signal.Signals(-code).name}" if code < 0 else f"ends its process with {code}"
        return self._ended(trial, how)

    def _ended(self, trial: Trial, how: str) -> Finding:
        """A finding of a process that gives no answer; what it left on its standard error is the report."""
        assert self._errors is not None
        self._errors.seek(0)
        report = self._errors.read()[-20_000:].decode("utf-8", "replace")
        self.close()
        return Finding(trial, f"{trial.target}: {how}{_innermost(report)}", report)


def _innermost(report: str) -> str:
    """The innermost place of the project in the last stack that faulthandler wrote."""
    stack = report.rsplit("(most recent call first)", 1)[-1]
    for line in stack.splitlines():
        if "/tideglass/" in line and "File" in line:
            file, _, rest = line.partition('", line ')
            return f" in {file.rsplit('/tideglass/', 1)[1]} {rest.partition(' in ')[2]}"
    return ""


def _processor_seconds(process: subprocess.Popen[bytes]) -> float:
    try:
        times = psutil.Process(process.pid).cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def _bytes_held(process: subprocess.Popen[bytes]) -> int:
    try:
        return int(psutil.Process(process.pid).memory_info().rss)
    except psutil.NoSuchProcess:
        return 0
