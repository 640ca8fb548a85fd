"""`tideglass top` shows what the status of a job holds, on 80 by 24, and goes where keys say."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Static
from typer.testing import CliRunner

from support.observed_jobs import Scene, dead_job, make_project, replaying_job, running_job
from support.statuses import full_status
from tideglass.cli.main import app as command_line
from tideglass.core.errors import TideglassError
from tideglass.job.diagnosis.finding import Diagnosis, Finding, Severity
from tideglass.job.report.status import JobState, Status
from tideglass.terminal.app import DetailScreen, KeysScreen, TopApp, WhyScreen
from tideglass.terminal.details import detail
from tideglass.terminal.figures import clock_text, count_text, short_span_text
from tideglass.terminal.job_snapshot import JobSnapshot, read_snapshot
from tideglass.terminal.tables import SECTIONS

pytestmark = pytest.mark.long

FINDING = Finding(
    "IDLE_PARTITION",
    None,
    Severity.PROBLEM,
    "output perMinute has been silent for 14 min",
    ("partition 3 has sent nothing since 12:05",),
    "set a late tolerance",
)


def snapshot(status: Status | None = None, *findings: Finding) -> JobSnapshot:
    """A status without a history."""
    return JobSnapshot(status or full_status(), (), Diagnosis("toll", "Running", "", findings))


@asynccontextmanager
async def shown(
    found: JobSnapshot, folder: Path, size: tuple[int, int] = (80, 24)
) -> AsyncGenerator[Pilot[None]]:
    """The view on a terminal of a size, reading nothing by itself."""
    app = TopApp(make_project(folder / "job"), found, None)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        await pilot.pause()
        yield pilot


def text_of(pilot: Pilot[None], selector: str) -> str:
    return str(pilot.app.screen.query_one(selector, Static).render())


def cells(pilot: Pilot[None], section: str) -> list[list[str]]:
    """The cells of a table as they are shown, without the gaps."""
    table = pilot.app.screen.query_one(f"#{section.lower()}-table", DataTable)
    return [[str(cell) for cell in table.get_row_at(row)][::2] for row in range(table.row_count)]


@pytest.mark.anyio
async def test_every_table_shows_the_values_of_the_status(tmp_path: Path):
    status = full_status()
    async with shown(snapshot(status), tmp_path) as pilot:
        assert cells(pilot, "Steps") == [
            ["0", "toll", "scan", "12:00:30", "12:00:30", "30s", "148", "145", ""],
            ["1", "perMinute", "tumbling window", "12:00:30", "12:00:20", "40s", "145", "9",
             "stage 1, key group 0: open windows"],
        ]  # fmt: skip
        assert cells(pilot, "Inputs") == [
            ["toll/0", "100", "12:00:50", "10s", "event time", "3", "0", "5", "2", "4"],
            ["toll/1", "50", "12:00:30", "28s", "arrival time", "0", "0", "0", "0", "0"],
        ]
        assert cells(pilot, "Outputs") == [
            ["perMinute", "files", "alive", "9", "12:01:40", "12:00:00", "5", "1", "0.05s"]
        ]
        slowest = cells(pilot, "Substreams")[0]
        assert slowest == ["car 7", "toll/0", "12:00:43", "12:00:52", "17s"]
        assert cells(pilot, "Batches") == [["6", "12:01:55", "1.5s", "0.25s", "20", "2", "13/s"]]
        assert cells(pilot, "Errors") == [["InvalidData", "toll/0", "2", "12:01:00", "it is no JSON"]]
        head = text_of(pilot, "#head")
        for part in ("toll  Running  run 3", "delay 28s", "backlog toll 1234"):
            assert part in head
        assert "catching up from the beginning: 50%" in head


@pytest.mark.anyio
async def test_what_nobody_knows_is_a_dash(tmp_path: Path):
    status = full_status(
        steps=tuple(
            replace(each, input_watermark_ticks=None, output_watermark_ticks=None, holders=(),
                    data_watermark_lag_seconds=None, ranges_reported=1)
            for each in full_status().steps
        ),
        outputs=(replace(full_status().outputs[0], alive=None, calls=0, last_row=None, last_row_ticks=None),),
        catching_up=None, watermark_delay_seconds=None, memory_bytes=None, cpu_percent=None, backlog={},
        recent_batches=(),
    )  # fmt: skip
    async with shown(snapshot(status), tmp_path) as pilot:
        assert cells(pilot, "Steps")[1][3:6] == ["-", "-", "-"]
        assert cells(pilot, "Steps")[1][8] == "3 of 4 not reported"
        assert cells(pilot, "Outputs")[0][2:6] == ["not called", "9", "-", "-"]
        head = text_of(pilot, "#head")
        assert "delay -" in head
        assert "backlog -" in head
        assert "memory - of 4.3 GB  CPU -" in head


@pytest.mark.anyio
async def test_a_job_that_runs_is_shown_with_rates_and_bars_within_80_columns(tmp_path: Path):
    with running_job(tmp_path / "running", Scene(idle_partition=3)) as directory:
        found = read_snapshot(directory)
        assert found is not None
        async with shown(found, tmp_path) as pilot:
            lines = text_of(pilot, "#head").splitlines()
            assert "events 400/s" in lines[1]
            assert "▁" in lines[2] or "█" in lines[2]
            assert max(len(line) for line in lines) <= 80
            for section in SECTIONS:
                table = pilot.app.screen.query_one(f"#{section.name.lower()}-table", DataTable)
                fits = sum(column.get_render_width(table) for column in table.ordered_columns[:-2])
                assert fits <= 80, section.name
            assert len(cells(pilot, "Steps")) == len(found.status.steps)


@pytest.mark.anyio
async def test_a_dead_job_and_one_that_replays_say_so(tmp_path: Path):
    dead = read_snapshot(dead_job(tmp_path / "dead"))
    assert dead is not None
    async with shown(dead, tmp_path) as pilot:
        head = text_of(pilot, "#head")
        assert "Failed" in head
        assert "events -" in head  # a rate of a job that is over would be a lie
    with replaying_job(tmp_path / "again") as directory:
        again = read_snapshot(directory)
        assert again is not None
        async with shown(again, tmp_path) as pilot:
            assert "catching up from arrival time 2026-03-01T07:54:20Z: 33%" in text_of(pilot, "#head")


@pytest.mark.anyio
async def test_keys_go_through_the_tables_and_into_a_row_and_back(tmp_path: Path):
    async with shown(snapshot(), tmp_path) as pilot:
        await pilot.press("down", "enter")
        await pilot.pause()
        assert isinstance(pilot.app.screen, DetailScreen)
        assert text_of(pilot, "#title") == "toll  step perMinute: tumbling window, operator 1"
        body = text_of(pilot, "#body")
        assert "output watermark   2026-01-01 12:00:20.000" in body
        assert "36 rows, oldest 2026-01-01 12:00:20.000, due when the watermark passes 12:01:00" in body
        await pilot.press("left", "right", "enter")
        await pilot.pause()
        assert text_of(pilot, "#title") == "toll  partition 0 of input toll, reader 0"
        assert "set by event time" in text_of(pilot, "#body")
        await pilot.press("escape", "4", "enter")
        await pilot.pause()
        assert text_of(pilot, "#title") == "toll  substream car 7"
        await pilot.press("escape", "question_mark")
        await pilot.pause()
        assert isinstance(pilot.app.screen, KeysScreen)
        await pilot.press("escape", "q")
    assert pilot.app.return_code == 0


@pytest.mark.anyio
async def test_every_table_has_the_focus_after_its_digit_and_opens_its_rows_and_every_key_is_explained(
    tmp_path: Path,
):
    async with shown(snapshot(full_status()), tmp_path) as pilot:
        for number, section in enumerate(SECTIONS, start=1):
            await pilot.press(str(number))
            await pilot.pause()
            table = pilot.app.screen.query_one(f"#{section.name.lower()}-table", DataTable)
            assert pilot.app.focused is table, section.name
            if table.row_count:
                tables = pilot.app.screen
                await pilot.press("enter")
                await pilot.pause()
                assert pilot.app.screen is not tables, section.name
                await pilot.press("escape")
                await pilot.pause()
                assert pilot.app.screen is tables, section.name
        await pilot.press("question_mark")
        await pilot.pause()
        explained = text_of(pilot, "#keys")
        assert f"1 to {len(SECTIONS)}" in explained
        for words in ("escape, left", "sort by", "all findings", "read now", "leave"):
            assert words in explained


@pytest.mark.anyio
async def test_s_sorts_by_each_order_in_turn(tmp_path: Path):
    async with shown(snapshot(), tmp_path) as pilot:
        orders: list[list[str]] = []
        for _ in range(4):
            await pilot.press("s")
            await pilot.pause()
            orders.append([row[0] for row in cells(pilot, "Steps")])
        # By lag, by rows in, by rows out, as in the job.
        assert orders == [["1", "0"], ["0", "1"], ["0", "1"], ["0", "1"]]


@pytest.mark.anyio
async def test_a_new_status_is_shown_and_the_cursor_stays_on_its_row(tmp_path: Path):
    async with shown(snapshot(), tmp_path) as pilot:
        await pilot.press("down")
        status = full_status()
        first = replace(status.steps[0], operator=7)
        app = pilot.app
        assert isinstance(app, TopApp)
        app.take(snapshot(replace(status, steps=(*status.steps, first), batches=8)))
        await pilot.pause()
        assert len(cells(pilot, "Steps")) == 3
        assert "(8)" in text_of(pilot, "#head")
        await pilot.press("enter")
        await pilot.pause()
        app.take(snapshot(replace(status, steps=(first, *status.steps[:1]))))
        await pilot.pause()
        assert text_of(pilot, "#title") == "toll  1 is there no more"


@pytest.mark.anyio
async def test_the_directory_is_read_again(tmp_path: Path):
    with running_job(tmp_path / "running") as directory:
        found = read_snapshot(directory)
        assert found is not None
        app = TopApp(directory, replace(found, status=replace(found.status, batches=1)), None)
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("r")
            await app.workers.wait_for_complete()
            await pilot.pause()
            assert app.snapshot is not None
            assert app.snapshot.status.batches == found.status.batches
            assert f"({found.status.batches})" in text_of(pilot, "#head")


@pytest.mark.anyio
async def test_the_first_finding_is_above_the_tables_and_w_shows_all(tmp_path: Path):
    async with shown(snapshot(None, FINDING, replace(FINDING, text="another")), tmp_path) as pilot:
        assert text_of(pilot, "#why") == f"problem: {FINDING.text}  (and 1 more, press w)"
        await pilot.press("w")
        await pilot.pause()
        assert isinstance(pilot.app.screen, WhyScreen)
        body = text_of(pilot, "#body")
        assert "remedy: set a late tolerance" in body
        assert "problem: another" in body


def test_everything_that_has_a_row_can_be_gone_into():
    found = snapshot()
    for section in SECTIONS:
        rows = section.rows(found)
        assert rows
        for row in rows:
            assert len(row.cells) == len(section.columns)
            assert len(row.order) == len(section.orders)
            shown_detail = detail(found, section.name, row.key)
            assert shown_detail is not None
            assert shown_detail.lines
        assert detail(found, section.name, "no such key") is None


def test_figures_keep_to_their_columns():
    values = [0, 7, 999, 9_999, 10_000, 99_949, 123_456, 9_999_999, 10**9, 10**12, 10**15]
    assert all(len(count_text(each)) <= 5 for each in values)
    spans = [0, 0.04, 9.9, 59, 61, 3599, 3600, 86_399, 86_400, 10**6]
    assert all(len(short_span_text(each)) <= 6 for each in spans), [short_span_text(each) for each in spans]
    assert clock_text(None) == "-"


def test_a_job_that_never_ran_and_an_output_that_is_no_terminal_are_refused(tmp_path: Path):
    make_project(tmp_path / "job")
    found = CliRunner().invoke(command_line, ["top", str(tmp_path / "job")])
    assert isinstance(found.exception, TideglassError)
    assert "no job has run" in str(found.exception)
    with running_job(tmp_path / "running") as directory:
        found = CliRunner().invoke(command_line, ["top", "--run-dir", str(directory.path)])
        assert "tideglass status" in str(found.exception)


def test_a_rate_is_that_of_the_last_seconds_and_none_of_a_run_that_is_over(tmp_path: Path):
    with running_job(tmp_path / "running", Scene(events_per_second=250)) as directory:
        found = read_snapshot(directory)
    assert found is not None
    running = replace(found, status=replace(found.status, state=JobState.RUNNING))
    assert running.rate(lambda sample: sample.events) == pytest.approx(250)
    over = replace(found, status=replace(found.status, state=JobState.STOPPED))
    assert over.rate(lambda sample: sample.events) is None
    assert len(running.history) <= 301
