"""The page over jobs of `observed_jobs`, served on a free port of this machine."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from support.observed_jobs import QUERY
from tideglass.compile import compile_query
from tideglass.core.errors import Source
from tideglass.core.time import TICKS_PER_SECOND
from tideglass.job.directory import JobDirectory
from tideglass.job.options import JobPlan
from tideglass.job.report.query_outline import outline_of, write_outline
from tideglass.page.application import Page
from tideglass.page.job_table import JobTable
from tideglass.page.server import Address, PageServer
from tideglass.page.status_feed import StatusFeed
from tideglass.project.settings import JobSettings

SETTINGS = JobSettings(late_arrival_ticks=20 * TICKS_PER_SECOND, out_of_order_ticks=5 * TICKS_PER_SECOND)


def write_query(directory: JobDirectory, key_groups: int = 2) -> None:
    """What a run of the observed jobs' query writes of it when it starts."""
    compiled = compile_query(Source(QUERY, "tollbooth.asaql"), SETTINGS, key_groups=key_groups)
    job: Any = SimpleNamespace(compiled=compiled, name="tollbooth")
    write_outline(directory, outline_of(cast("JobPlan", job)))


@contextmanager
def clock_at(now_ms: int) -> Generator[None]:
    """The clock of this process, and so of the page's server, stands at a moment and goes on from there."""
    seconds, nanoseconds = time.time, time.time_ns
    ahead_nanoseconds = now_ms * 1_000_000 - nanoseconds()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: seconds() + ahead_nanoseconds / 1e9)
        patch.setattr(time, "time_ns", lambda: nanoseconds() + ahead_nanoseconds)
        yield


@contextmanager
def served(path: Path, *, many: bool = False, port: int = 0) -> Generator[str]:
    """The address of the page of a job directory, or of all jobs below a folder; ends with a slash."""
    table = JobTable(root=path) if many else JobTable(directory=JobDirectory(path))
    page = Page(table)
    page.feed = StatusFeed(page.newest, look_seconds=0.2)
    with PageServer(page, Address(port=port)) as server:
        yield server.url
