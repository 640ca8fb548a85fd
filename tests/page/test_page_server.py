"""The page on a real port: server-sent events, the port, the end of the server, the commands."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from tideglass.cli.page import job_table, run_address, with_port
from tideglass.core.errors import ProjectError, TideglassError
from tideglass.job.directory import JobDirectory
from tideglass.job.lock import RunLock
from tideglass.job.report.status import JobState, Status, write_status
from tideglass.page.application import Page
from tideglass.page.job_table import JobTable
from tideglass.page.server import Address, PageServer
from tideglass.page.status_feed import StatusFeed

STATUS = Status("heat", 1, JobState.RUNNING, "s", "u", 1, "here", 1, "beginning", "new")


@contextmanager
def served(directory: JobDirectory, heartbeat_seconds: float = 10.0) -> Iterator[tuple[PageServer, Page]]:
    page = Page(JobTable(directory=directory), run=directory)
    page.feed = StatusFeed(page.newest, look_seconds=0.05, heartbeat_seconds=heartbeat_seconds)
    with PageServer(page, Address(port=0)) as server:
        yield server, page


def events(lines: Iterator[str]) -> Iterator[tuple[str, Any]]:
    """The events of a stream; a comment is one named "comment"."""
    name = ""
    for line in lines:
        if line.startswith(":"):
            yield "comment", None
        elif line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def test_a_listener_gets_the_status_at_once_and_whenever_it_changes_and_learns_of_the_end(tmp_path: Path):
    directory = JobDirectory(tmp_path / "heat")
    write_status(directory, STATUS)
    with RunLock(directory), served(directory) as (server, page):
        with httpx.stream("GET", f"{server.url}api/job/heat/events", timeout=20) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            stream = events(response.iter_lines())
            assert next(stream)[1]["events"] == 0
            for count in (1, 2):
                write_status(directory, replace(STATUS, events=count))
                name, found = next(each for each in stream if each[1]["events"] == count)
                assert (name, found["alive"]) == ("status", True)
            directory.status.unlink()
            assert next(stream) == ("gone", {})
            write_status(directory, replace(STATUS, events=3))
            assert next(stream)[1]["events"] == 3
            server._server.should_exit = True  # pyright: ignore[reportPrivateUsage]
            assert next(stream) == ("closing", {})
            assert next(stream, None) is None
        assert page.feed.listeners == {}


def test_the_end_of_a_process_is_pushed_though_its_status_file_does_not_change(tmp_path: Path):
    directory = JobDirectory(tmp_path / "heat")
    write_status(directory, STATUS)
    lock = RunLock(directory)
    lock.__enter__()
    with (
        served(directory) as (server, _),
        httpx.stream("GET", f"{server.url}api/job/heat/events", timeout=20) as response,
    ):
        stream = events(response.iter_lines())
        assert next(stream)[1]["state"] == "Running"
        lock.__exit__(None, None, None)
        found = next(each for _, each in stream if not each["alive"])
        assert found["state"] == "Failed"


def test_a_quiet_stream_has_heartbeats_and_a_listener_that_leaves_is_forgotten(tmp_path: Path):
    directory = JobDirectory(tmp_path / "heat")
    write_status(directory, STATUS)
    with served(directory, heartbeat_seconds=0.1) as (server, page):
        with httpx.stream("GET", f"{server.url}api/job/heat/events", timeout=20) as response:
            stream = events(response.iter_lines())
            assert [next(stream)[0] for _ in range(3)] == ["status", "comment", "comment"]
            assert page.feed.listeners == {directory: 1}
        until = time.monotonic() + 10
        while page.feed.listeners and time.monotonic() < until:
            time.sleep(0.05)
        assert page.feed.listeners == {}


def test_more_listeners_than_there_may_be_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tideglass.page.status_feed.MOST_LISTENERS", 1)
    directory = JobDirectory(tmp_path / "heat")
    write_status(directory, STATUS)
    with served(directory) as (server, _):
        address = f"{server.url}api/job/heat/events"
        with httpx.stream("GET", address, timeout=20) as response:
            stream = events(response.iter_lines())
            next(stream)
            refused = httpx.get(address)
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "TOO_MANY_LISTENERS")


def test_the_server_ends_while_somebody_listens(tmp_path: Path):
    directory = JobDirectory(tmp_path / "heat")
    write_status(directory, STATUS)
    ended = threading.Event()

    def listen(address: str) -> None:
        with httpx.stream("GET", address, timeout=20) as response:
            for _ in response.iter_lines():
                pass
        ended.set()

    with served(directory) as (server, page):
        threading.Thread(target=listen, args=(f"{server.url}api/job/heat/events",), daemon=True).start()
        while not page.feed.listeners:
            time.sleep(0.02)
        started = time.monotonic()
    assert time.monotonic() - started < 2.5
    assert ended.wait(5)


def test_a_taken_port_is_named_before_anything_starts(tmp_path: Path):
    directory = JobDirectory(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(TideglassError, match=rf"PORT_TAKEN.*127.0.0.1:{port}"):
            PageServer(Page(JobTable(directory=directory)), Address(port=port))
    first = PageServer(Page(JobTable(directory=directory)), Address(port=0))
    with pytest.raises(TideglassError, match="PORT_TAKEN"):
        PageServer(Page(JobTable(directory=directory)), Address(port=first.port))
    with pytest.raises(TideglassError, match="PAGE_ADDRESS"):
        PageServer(Page(JobTable(directory=directory)), Address(host="203.0.113.1", port=0, token="x" * 20))


def test_the_token_is_in_the_printed_address(tmp_path: Path):
    page = Page(JobTable(directory=JobDirectory(tmp_path / "heat")))
    with PageServer(page, Address(host="0.0.0.0", port=0)) as server:
        assert server.url.startswith(f"http://127.0.0.1:{server.port}/?token=")
        bare = server.url.partition("?")[0]
        assert httpx.get(f"{bare}api/jobs").status_code == 401
        assert httpx.get(f"{server.url.replace('?', 'api/jobs?')}").status_code == 303
        assert (
            httpx.Client(follow_redirects=True).get(server.url.replace("?", "api/jobs?")).status_code == 200
        )


def test_the_command_serves_until_it_is_interrupted(tmp_path: Path):
    write_status(JobDirectory(tmp_path / "heat"), STATUS)
    command = [sys.executable, "-m", "tideglass.cli.main", "page", str(tmp_path), "--port", "0"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().removeprefix("page: ").strip()
        (job,) = httpx.get(f"{url}api/jobs", timeout=20).json()["jobs"]
        assert (job["name"], job["state"]) == ("heat", "Failed")
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=20)
        assert (process.returncode, out, errors) == (0, "", "")
    finally:
        process.kill()
        process.wait()


def test_page_takes_its_port_if_one_follows():
    assert with_port(["run", "heat", "--page", "--once"]) == ["run", "heat", "--page=8470", "--once"]
    assert with_port(["run", "--page", "0.0.0.0:80", "heat"]) == ["run", "--page=0.0.0.0:80", "heat"]
    assert with_port(["run", "heat", "--page"]) == ["run", "heat", "--page=8470"]
    assert with_port(["page", "heat"]) == ["page", "heat"]
    assert (run_address("81").host, run_address("81").port) == ("127.0.0.1", 81)
    assert run_address("[::1]:81").host == "::1"
    for place in ("heat", "1:2:3", "99999", ":80"):
        with pytest.raises(ProjectError, match="is no"):
            run_address(place)


def test_a_path_names_a_job_directory_a_project_or_a_folder_of_jobs(tmp_path: Path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "heat.asaql").write_text("SELECT * INTO o FROM i")
    write_status(JobDirectory(tmp_path / "run"), STATUS)
    assert list(job_table(tmp_path / "run", None).jobs()) == ["run"]
    assert list(job_table(project, None).jobs()) == ["project"]
    assert list(job_table(project, tmp_path / "run").jobs()) == ["run"]
    assert (job_table(tmp_path, None).many, list(job_table(tmp_path, None).jobs())) == (True, ["run"])
    with pytest.raises(ProjectError, match="there is no such file"):
        job_table(tmp_path / "nowhere", None)
