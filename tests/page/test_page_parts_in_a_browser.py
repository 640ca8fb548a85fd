"""Parts of the page that few jobs have, in a real browser: early panes, substreams of steps, a profile.

With TIDEGLASS_PICTURES=FOLDER the pictures of the documents are written there.
"""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from support.browser import chromium, opened
from support.job_in_process import Folder, RunInProcess
from support.pictures import keep
from support.shown_jobs import served
from support.times import at
from tideglass.core.time import format_ticks
from tideglass.engine.messages import Kind
from tideglass.engine.profiled import TASK_PROFILE
from tideglass.job.report.profile import Profile
from tideglass.job.report.query_outline import outline_of, write_outline
from tideglass.job.report.status import read_status
from tideglass.local import LocalDriver
from tideglass.testing import partition_batches

pytestmark = pytest.mark.long

PANES = """SELECT device, COUNT(*) AS n, System.Pane() AS pane, System.Timestamp() AS at INTO counts
FROM events TIMESTAMP BY t GROUP BY device, TumblingWindow(second, 10)"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def answer(address: str, name: str) -> Any:
    job = json.load(urllib.request.urlopen(f"{address}api/jobs"))["jobs"][0]["name"]
    return json.load(urllib.request.urlopen(f"{address}api/job/{job}/{name}"))


def seconds(first: int, after: int) -> list[dict[str, Any]]:
    """Four events of each second, three of them on time and one three seconds late."""
    return [
        {"device": f"d{n}", "t": at(second - (3 if n == 3 else 0)), "arrived": at(second + n / 10)}
        for second in range(first, after)
        for n in range(4)
    ]


def test_early_panes_are_drawn_in_their_windows_with_the_rows_of_each(browser: Browser, tmp_path: Path):
    folder = Folder(
        tmp_path / "job", PANES, 60, out_of_order_seconds=8, settings={"EarlyPanes": {"counts": [33, 90]}}
    )
    folder.put(0, seconds(60, 64))
    job = folder.job()
    with RunInProcess(job) as run, served(folder.directory.path) as address:
        write_outline(run.directory, outline_of(job))
        run.batch()
        run.report()
        with opened(browser, address, expected=("/query",), viewport={"width": 1280, "height": 900}) as tab:
            tab.shows(".connection", "live")
            for second in range(64, 100, 4):
                folder.put(0, seconds(second, min(98, second + 4)))
                run.batch()
                time.sleep(2.1)  # the history has a sample every two seconds
                run.report()
            status = read_status(run.directory)
            assert status is not None
            tab.shows(".tiles", str(status.events))
            (window,) = [each for each in status.steps if each.early_panes]
            rows: dict[str, dict[str, int]] = {}  # of each pane of each window, as they came
            for path in (folder.path / "LocalRunOutputs" / "counts").glob("part-*.json"):
                for line in path.read_text().splitlines():
                    row = json.loads(line)
                    of = rows.setdefault(row["at"][11:19], {})
                    of[row["pane"]] = of.get(row["pane"], 0) + 1
            tab.page.locator("#windows summary").click()
            tab.shows("#windows tr:nth-child(6) td:nth-child(3)", " at ")  # the newest sample of the history
            shown = {row[0][-8:]: row[1:] for row in tab.rows("#windows table")}
            marks = {
                each.percent: format_ticks(each.watermark_ticks or 0)[11:19] for each in window.early_panes
            }
            for percent, mark in marks.items():
                assert f"{percent} % at 2026-01-01 {mark}" in tab.text("#windows h3")
            assert [each.rows_out for each in window.early_panes] == [
                sum(of.get(f"early {percent}", 0) for of in rows.values()) for percent in marks
            ]
            # Early 33 of the window that closes next is there already.
            for end in ("00:01:10", "00:01:20"):
                state, early, later, final, _ = shown[end]
                assert (state, final) == ("closed", str(rows[end]["final"]))
                assert early.startswith(f"{rows[end]['early 33']} at ")
                assert later.startswith(f"{rows[end]['early 90']} at ")
            assert (shown["00:01:30"][0], shown["00:01:30"][2]) == ("closing", "—")
            assert shown["00:01:30"][1].startswith(f"{rows['00:01:30']['early 33']} at ")
            assert [shown["00:01:40"][n] for n in (0, 1, 2)] == ["open", "—", "—"]
            panes = tab.page.locator("#windows rect.early-pane")
            emitted = tab.page.locator("#windows rect.early-pane.emitted")
            assert (panes.count(), emitted.count()) == (2 * 9, 2 * 5 + 1)
            assert tab.page.locator("#windows line.mark-percent").count() == 2
            keep(tab, "page-early-panes", "#windows")


def test_a_profile_is_drawn_with_its_shares(browser: Browser, tmp_path: Path):
    folder = Folder(tmp_path / "job", PANES.replace(", System.Pane() AS pane", ""), 60)
    folder.put(0, seconds(60, 64))
    job = folder.job(arguments=("job", "--profile"))
    topology = job.compiled.topology
    profile = Profile(topology)
    rows = {"events": seconds(60, 64)}
    for message in LocalDriver(topology, profile=True).run(partition_batches(topology, rows), final=True):
        if message.kind is Kind.PROFILE:
            profile.take_task(TASK_PROFILE.of_body(message.body))
    profile.take_commit(0, 0.25)
    profile.take_progress(
        {"batchId": 0, "durationMs": {"addBatch": 1500, "walCommit": 300, "triggerExecution": 2000}}
    )
    with RunInProcess(job) as run, served(folder.directory.path) as address:
        run.batch()
        run.report()
        profile.write(run.directory.profile)
        with opened(browser, address, expected=("/query",)) as tab:
            tab.page.locator("#batches summary").click()
            found = answer(address, "profile")
            assert found == json.loads(json.dumps(profile.to_json()))
            assert f"Where the time of {found['batches']} batch went" in tab.text("#batches summary")
            drawn = iter(tab.rows("#batches details"))
            for entries in (found["phases"], *found["tasks"].values()):
                for each in entries[:8]:
                    name, _, percent = next(drawn)
                    assert (name, percent) == (each["name"], share(each["percent"]))
                if len(entries) > 8:
                    assert re.fullmatch(rf"{len(entries) - 8} smaller parts?", next(drawn)[0])
            assert next(drawn, None) is None
            assert tab.rows("#batches details")[0][:2] == ["running the tasks", "1.3 s"]
            keep(tab, "page-profile", "#batches")


def share(percent: float) -> str:
    return "< 1 %" if percent < 0.5 else f"{int(percent + 0.5)} %"
