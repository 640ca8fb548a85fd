"""A refresh of the page on the server's side, with 512 partitions, 20,000 substreams and a full history."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from support.observed_jobs import Scene
from tideglass.job.directory import JobDirectory
from tideglass.job.report.history import MOST_BYTES, HistoryWriter, sample_of
from tideglass.job.report.status import write_status
from tideglass.page.application import Page, application
from tideglass.page.guard import Access
from tideglass.page.job_table import JobTable

NOW_MS = 1_772_366_470_000


@pytest.mark.long
def test_a_refresh_of_a_large_job_with_a_full_history_takes_less_than_100_ms(tmp_path: Path):
    directory = JobDirectory(tmp_path / "toll")
    directory.path.mkdir()
    scene = Scene(partitions=512, key_groups=64)
    history = HistoryWriter(directory)
    sample = sample_of(scene.status(NOW_MS, 600), NOW_MS)
    line_bytes = 0
    while line_bytes < MOST_BYTES * 0.95:
        history.add(sample)
        line_bytes = len(directory.history.read_bytes())
    page = TestClient(
        application(Page(JobTable(directory=directory)), Access()), base_url="http://127.0.0.1:8470"
    )
    seconds: list[float] = []
    for batch in range(1, 6):
        status = scene.status(NOW_MS + 2000 * batch, 600 + 2 * batch)
        write_status(directory, status)
        history.add(sample_of(status, NOW_MS + 2000 * batch))
        started = time.process_time()
        found = page.get("/api/job/toll/status").json()
        samples = page.get(f"/api/job/toll/history?since_ms={NOW_MS + 2000 * (batch - 1)}").json()["samples"]
        seconds.append(time.process_time() - started)
        assert (len(found["inputs"]), len(samples)) == (512, 1)
    # Time of the processor, the client here included: what else the machine does is not the page's.
    assert min(seconds) < 0.1, seconds
