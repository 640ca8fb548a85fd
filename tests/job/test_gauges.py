"""What a run looks at rarely: memory, processors, reference data, and what is there and not read."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from support.job_in_process import Folder, RunInProcess
from tideglass.core.errors import StateError
from tideglass.core.time import BEFORE_ALL_TICKS
from tideglass.job.query import reference_status
from tideglass.job.report import gauges
from tideglass.job.report.gauges import Gauges, ProcessorTime
from tideglass.job.report.status import ReferenceStatus, read_status
from tideglass.spark.task_times import unread_messages

QUERY = "SELECT e.v, b.name INTO out FROM events e TIMESTAMP BY t JOIN booths b ON e.v = b.id"


def event(second: int) -> dict[str, Any]:
    stamp = f"2026-01-01T00:00:{second:02}Z"
    return {"t": stamp, "arrived": stamp, "v": second}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    path = tmp_path / "job"
    path.mkdir()
    (path / "booths.json").write_text(json.dumps([{"id": 1, "name": "one"}]))
    booths = {"Type": "Reference Data", "Format": "Json", "FilePath": "booths.json"}
    return Folder(path, QUERY, late_seconds=5, extra={"booths": booths})


def test_what_is_there_and_not_read_is_known_without_a_batch(folder: Folder):
    folder.put(0, [event(1), event(2)])
    size = sum(file.stat().st_size for file in (folder.path / "events").rglob("*.json"))
    with RunInProcess(folder.job()) as run:
        assert run.committer.backlog() == {"events": size}
        run.batches()
        assert run.committer.backlog() == {"events": 0}
        folder.put(1, [event(3)])
        assert 0 < run.committer.backlog()["events"] < size


def test_the_status_shows_what_the_last_look_found(folder: Folder):
    folder.put(0, [event(1)])
    with RunInProcess(folder.job()) as run:
        view = run.reporter.view
        assert view is not None
        assert view.gauges.memory_bytes is None
        view.gauges.backlog_of = run.committer.backlog
        view.gauges.references_of = lambda: reference_status(run.job, run.directory)
        view.gauges.topics_backlog = {"topic": 3}
        run.batches()
        view.gauges.look()
        run.report()
        status = read_status(run.directory)
    assert status is not None
    assert status.backlog == {"events": 0, "topic": 3}
    assert status.references == (ReferenceStatus("booths", 1, 1, BEFORE_ALL_TICKS),)
    assert status.memory_bytes is not None
    assert status.memory_limit_bytes is not None
    assert 1 << 20 < status.memory_bytes < status.memory_limit_bytes


def test_a_place_that_cannot_be_looked_at_keeps_what_was_found_before():
    def gone() -> dict[str, int]:
        raise StateError("it is gone")

    found = Gauges(backlog_of=lambda: {"events": 7})
    found.look()
    found.backlog_of = gone
    found.look()
    assert found.backlog == {"events": 7}


def test_a_look_that_hangs_keeps_no_run_from_ending(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gauges, "_FIRST_LOOK_SECONDS", 0.0)
    hanging, over = threading.Event(), threading.Event()

    def hang() -> dict[str, int]:
        hanging.set()
        over.wait(20)
        return {}

    began = time.monotonic()
    with Gauges(backlog_of=hang):
        assert hanging.wait(20)
    assert time.monotonic() - began < 10
    over.set()


def test_processors_are_counted_between_two_looks():
    used = ProcessorTime()
    here = [psutil.Process()]
    assert used.percent(here, 100.0) is None
    until = time.process_time() + 0.3
    while time.process_time() < until:
        pass
    processors = len(psutil.Process().cpu_affinity())
    found = used.percent(here, 101.0)
    assert found is not None
    assert 25 / processors <= found <= 150 / processors


def test_messages_that_are_not_read_are_known_by_the_progress_of_spark():
    topics = {"endOffset": {"a": {"0": 7, "1": 9}, "b": {"0": 1}}, "latestOffset": {"a": {"0": 10, "1": 9}}}
    assert unread_messages({"sources": [topics, {"endOffset": "x", "latestOffset": "y"}, {}]}) == {"a": 3}
