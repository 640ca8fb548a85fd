"""A job that is too slow, in real time: no clock is moved and no limit replaced; the sink sleeps."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.job_in_process import Clock, Folder, RunInProcess
from support.staged import causes, event, text_of, the
from tideglass.connect.output import Batch, OutputConnector
from tideglass.job.diagnosis.diagnose import diagnose_directory
from tideglass.job.diagnosis.finding import Severity
from tideglass.storage import StoragePath

pytestmark = pytest.mark.long

SECONDS = 45
EVENTS_PER_SECOND = 20


@dataclass(frozen=True, slots=True)
class SleepingOutput(OutputConnector):
    """An output that takes its time: 2.5 seconds a batch, however many rows it has."""

    def publish(self, batch: Batch, staged: Sequence[pa.Table]) -> Sequence[pa.Table]:
        time.sleep(2.5)
        return ()

    def identity(self, directory: StoragePath) -> Mapping[str, Any]:
        return {"kind": "sleeping"}

    def describe(self) -> str:
        return "nowhere, slowly"


def test_11_and_12_a_sink_that_sleeps_and_the_input_that_arrives_meanwhile(
    tmp_path: Path, clock: Clock
) -> None:
    query = "SELECT device, v INTO rows FROM events TIMESTAMP BY t"
    project = Folder(tmp_path, query, late_seconds=5)
    over = threading.Event()

    def send() -> None:
        while not over.wait(1):
            project.put(0, [event(clock, n / EVENTS_PER_SECOND) for n in range(-EVENTS_PER_SECOND, 0)])

    project.put(0, [event(clock, -1)])
    bytes_a_second = EVENTS_PER_SECOND * len(str(event(clock, 0)))
    job = replace(project.job(batch_bytes=bytes_a_second), outputs={"rows": SleepingOutput()})
    sender = threading.Thread(target=send)
    began = time.monotonic()
    with RunInProcess(job) as run:
        sender.start()
        try:
            found = diagnose_directory(run.directory)
            while "FALLING_BACK" not in causes(found) and time.monotonic() < began + SECONDS:
                run.batch()
                run.report()
                found = diagnose_directory(run.directory)
        finally:
            over.set()
            sender.join()
    behind, slow = the("FALLING_BACK", found), the("SINK_SLOW", found)
    assert found.findings[0] is behind
    assert (behind.severity, slow.severity, slow.output) == (Severity.PROBLEM, Severity.WARNING, "rows")
    assert re.search(r"it is \d\d s late and loses \d\d s a minute, so in an hour it will be ", behind.text)
    assert re.search(r"writing output rows \(sleeping\) takes ([6-9]\d|100) % of a batch of [23]", slow.text)
    assert re.search(r"reads \d+ events/s, \d\d% of what arrives", text_of(behind))
