"""A run serves its page from its own process: health, status, query and why; Spark's UI leads there."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import httpx
import pytest

from support.browser import Tab, chromium, opened
from support.shown_jobs import served

pytestmark = pytest.mark.spark

T = TypeVar("T")
_SECONDS = 180.0


def until(found: Callable[[], T | None], process: subprocess.Popen[str]) -> T:
    """What is found at last, while the run goes on."""
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        assert process.poll() is None, "the run ended"
        value = found()
        if value is not None:
            return value
        time.sleep(0.5)
    raise AssertionError("it took too long")


def drawn_and_known(tab: Tab, url: str) -> tuple[object, object]:
    """Watermarks of partitions, rows of outputs, events and state: as they are drawn, as the job has them."""
    name = httpx.get(f"{url}api/jobs").json()["jobs"][0]["name"]
    status = httpx.get(f"{url}api/job/{name}/status").json()
    known = (
        {
            each["partition"]: time.strftime("%H:%M:%S", time.gmtime(each["watermark_ms"] // 1000))
            for each in status["inputs"]
        },
        {each["output"]: str(each["rows"]) for each in status["outputs"]},
        str(status["events"]),
        status["state"],
    )
    drawn = (
        {row[0]: row[1].split()[-1] for row in tab.rows("#inputs > .scroll")},
        {row[0]: row[3] for row in tab.rows("#outputs table")},
        tab.facts(".tiles")["events"],
        tab.text(".state"),
    )
    return drawn, known


def check_what_is_drawn(url: str, connection: str) -> None:
    """The page in a browser shows what the job's status holds.

    The watermark of a live run moves on between the two looks, so one of several pairs must agree.
    """
    with chromium() as browser, opened(browser, url) as tab:
        tab.shows(".connection", connection)
        drawn, known = drawn_and_known(tab, url)
        end = time.monotonic() + 15
        while drawn != known and time.monotonic() < end:
            time.sleep(0.5)
            drawn, known = drawn_and_known(tab, url)
        assert drawn == known
        assert tab.facts(".tiles")["events"] == "7"


def test_a_run_serves_its_page_and_sparks_ui_leads_there(tmp_path: Path):
    command = [sys.executable, "-m", "tideglass.cli.main"]
    subprocess.run([*command, "new", "heat"], cwd=tmp_path, check=True, capture_output=True)
    process = subprocess.Popen(
        [*command, "run", "heat", "--page", "0", "--ui", "--cores", "1"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().removeprefix("page: ").strip()
        assert httpx.get(f"{url}livez").status_code == 200

        def ready() -> bool | None:
            return True if httpx.get(f"{url}readyz").status_code == 200 else None

        until(ready, process)
        status = httpx.get(f"{url}api/job/heat/status").json()
        assert (status["state"], status["alive"], status["events"]) == ("Running", True, 7)
        assert status["steps"]
        check_what_is_drawn(url, "live")
        query = httpx.get(f"{url}api/job/heat/query").json()
        assert query["text"] == (tmp_path / "heat" / "heat.asaql").read_text()
        assert {each["name"] for each in query["steps"]} == {"minutes", "perMinute", "alerts"}
        assert httpx.get(f"{url}api/job/heat/history").json()["samples"]
        assert httpx.get(f"{url}api/job/heat/why").json()["state"] == "Running"

        def spark_ui() -> str | None:
            for port in range(4040, 4057):
                try:
                    response = httpx.get(f"http://127.0.0.1:{port}/tideglass/", timeout=5)
                except httpx.TransportError:
                    continue
                if response.headers.get("location") == url:
                    return f"http://127.0.0.1:{port}"
            return None

        ui = until(spark_ui, process)
        assert '<a href="/tideglass/">heat</a> batch' in httpx.get(f"{ui}/jobs/", timeout=30).text
        subprocess.run([*command, "stop", "heat"], cwd=tmp_path, check=True, capture_output=True)
        assert process.wait(60) == 0
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{url}livez")
        with served(tmp_path / "heat" / ".tideglass" / "run") as url:
            check_what_is_drawn(url, "not running")
    finally:
        process.kill()
        process.communicate()
