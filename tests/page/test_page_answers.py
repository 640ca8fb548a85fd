"""The page's addresses: what they answer of a job that runs, of one that is dead, and of a folder of jobs."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from support.times import START_TICKS, ticks_at
from tideglass.core.time import AFTER_ALL_TICKS, BEFORE_ALL_TICKS
from tideglass.job.directory import JobDirectory
from tideglass.job.lock import RunLock
from tideglass.job.options import RunOptions
from tideglass.job.plan import plan_job
from tideglass.job.report.history import HistoryWriter, Mark, sample_of
from tideglass.job.report.query_outline import outline_of, read_outline, write_outline
from tideglass.job.report.run_journal import Ended, RunEnd, RunStart, add
from tideglass.job.report.status import (
    HolderStatus,
    InputStatus,
    JobState,
    RangeStatus,
    Status,
    StepStatus,
    SubstreamStatus,
    write_status,
)
from tideglass.page.application import Page, application
from tideglass.page.guard import Access
from tideglass.page.job_table import JobTable, job_directories, named
from tideglass.project.project import load_project

START_MS = START_TICKS / 10_000

STATUS = Status(
    job="heat",
    run=2,
    state=JobState.RUNNING,
    since="2026-01-01T00:00:00Z",
    updated="2026-01-01T00:01:00Z",
    pid=1,
    host="here",
    generation=1,
    mode="beginning",
    cause="the job is new",
    events=81,
    inputs=(
        InputStatus(
            "sensor",
            "0",
            81,
            "2026-01-01T00:00:59Z",
            1.5,
            watermark_ticks=ticks_at(59),
            event_time_ticks=ticks_at(60.0000001),
            percentiles_ticks={95: ticks_at(58)},
        ),
        InputStatus("sensor", "1", 0, None, None),
    ),
    watermark_delay_seconds=1.5,
    rows={"alerts": 3},
    steps=(
        StepStatus(
            0,
            0,
            "window",
            "alerts",
            input_watermark_ticks=AFTER_ALL_TICKS,
            output_watermark_ticks=BEFORE_ALL_TICKS,
            holders=(HolderStatus("state", "open windows", "stage 1, key group 0", ticks_at(30), None, 4),),
        ),
    ),
)


def client(table: JobTable, access: Access | None = None) -> TestClient:
    return TestClient(application(Page(table), access or Access()), base_url="http://127.0.0.1:8470")


def of_one(path: Path) -> TestClient:
    return client(JobTable(directory=JobDirectory(path)))


def answer(found: TestClient, path: str, status: int = 200) -> Any:
    response = found.get(path)
    assert response.status_code == status, response.text
    return response.json()


@pytest.fixture
def heat(tmp_path: Path) -> JobDirectory:
    directory = JobDirectory(tmp_path / "heat")
    write_status(directory, STATUS)
    return directory


def test_event_times_are_milliseconds_of_the_epoch(heat: JobDirectory):
    with RunLock(heat):
        found = answer(of_one(heat.path), "/api/job/heat/status")
    first, second = found["inputs"]
    assert first["watermark_ms"] == START_MS + 59_000
    assert first["event_time_ms"] == pytest.approx(START_MS + 60_000.0001, abs=0.00025)
    assert first["percentiles_ms"] == {"95": START_MS + 58_000}
    assert second["watermark_ms"] is None
    (step,) = found["steps"]
    assert (step["input_watermark_ms"], step["output_watermark_ms"]) == ("end of input", None)
    assert (step["holders"][0]["oldest_ms"], step["holders"][0]["due_ms"]) == (START_MS + 30_000, None)
    assert "_ticks" not in json.dumps(found)
    assert (found["state"], found["alive"]) == ("Running", True)
    assert abs(found["now_ms"] - time.time() * 1000) < 60_000


def test_a_job_whose_process_is_gone_has_failed(heat: JobDirectory):
    found = answer(of_one(heat.path), "/api/job/heat/status")
    assert (found["state"], found["alive"]) == ("Failed", False)
    assert "ended without a word" in found["error"]


def test_a_status_is_read_anew_when_its_file_has_changed(heat: JobDirectory):
    page = of_one(heat.path)
    assert answer(page, "/api/job/heat/status")["events"] == 81
    write_status(heat, replace(STATUS, events=82, state=JobState.STOPPED))
    found = answer(page, "/api/job/heat/status")
    assert (found["events"], found["state"]) == (82, "Stopped")


def test_a_job_that_has_never_run_has_no_status(tmp_path: Path):
    page = of_one(tmp_path / "new")
    assert answer(page, "/api/job/new/status", 404)["error"]["code"] == "NO_STATUS"
    (entry,) = answer(page, "/api/jobs")["jobs"]
    assert entry == {"name": "new", "job": None, "state": None, "alive": False}


def test_the_index_lists_the_jobs_below_a_folder_and_follows_no_link(tmp_path: Path, heat: JobDirectory):
    jobs = tmp_path / "jobs"
    write_status(JobDirectory(jobs / "a" / "toll"), replace(STATUS, job="toll"))
    write_status(JobDirectory(jobs / "b" / "toll" / ".tideglass" / "run"), replace(STATUS, job="other"))
    (jobs / "linked").symlink_to(heat.path)
    page = client(JobTable(root=jobs))
    found = answer(page, "/api/jobs")
    assert found["many"]
    assert {each["name"]: each["job"] for each in found["jobs"]} == {"a.toll": "toll", "b.toll": "other"}
    assert found["jobs"][0]["watermark_delay_seconds"] == 1.5
    assert answer(page, "/api/job/b.toll/status")["job"] == "other"
    assert answer(page, "/api/job/linked/status", 404)["error"]["code"] == "NO_JOB"
    assert [each.path.name for each in job_directories(heat.path)] == ["heat"]


def test_a_name_is_as_long_as_it_needs_to_be():
    paths = ["/x/a/toll", "/y/a/toll", "/y/heat"]
    assert list(named([JobDirectory(Path(each)) for each in paths])) == ["heat", "x.a.toll", "y.a.toll"]


def test_runs_say_how_they_ended(heat: JobDirectory):
    for run in (1, 2, 3):
        add(heat.journal, RunStart(run, "t", 1, run > 1, "beginning", "cause", "the start", 1, "here"))
        if run == 1:
            add(heat.journal, RunEnd(run, "t", Ended.STOPPED, events=7, rows={"alerts": 1}))
    page = of_one(heat.path)
    assert [each["how"] for each in answer(page, "/api/job/heat/runs")["runs"]] == [
        "killed",
        "killed",
        "stopped",
    ]
    with RunLock(heat):
        newest, *_, first = answer(page, "/api/job/heat/runs")["runs"]
    assert (newest["how"], newest["start"]["run"], newest["end"]) == ("under way", 3, None)
    assert first["end"]["rows"] == {"alerts": 1}
    heat.journal.write_text("{]\n")
    assert answer(page, "/api/job/heat/runs", 404)["error"]["code"] == "DAMAGED_JOURNAL"


PROJECT_QUERY = """WITH hot AS (
    SELECT * FROM sensor TIMESTAMP BY t WHERE c > 30
)
SELECT COUNT(*) AS n INTO alerts FROM hot GROUP BY HoppingWindow(minute, 10, 5)
SELECT COUNT(*) AS n INTO visits FROM hot GROUP BY SessionWindow(minute, 2, 60)
"""


def test_the_query_is_there_with_the_places_of_its_steps_when_the_project_is_gone(tmp_path: Path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "heat.asaql").write_text(PROJECT_QUERY)
    (project / "JobConfig.json").write_text(
        json.dumps({"EventsLateArrivalMaxDelayInSeconds": -1, "EventsOutOfOrderMaxDelayInSeconds": 7})
    )
    (project / "sensor.json").write_text("")
    options = RunOptions(inputs={"sensor": project / "sensor.json"}, key_groups=3)
    job = plan_job(load_project(project), options)
    directory = JobDirectory(tmp_path / "run")
    directory.path.mkdir()
    write_outline(directory, outline_of(job))
    for file in project.iterdir():
        file.unlink()
    found = answer(of_one(directory.path), "/api/job/run/query")
    assert (found["text"], found["file"], found["key_groups"]) == (PROJECT_QUERY, "heat.asaql", 3)
    pieces = {
        each["name"]: PROJECT_QUERY[each["start"] : each["end"]].splitlines() for each in found["steps"]
    }
    assert pieces["hot"][0].startswith("hot AS (")
    assert pieces["alerts"] == [PROJECT_QUERY.splitlines()[3]]
    by_name = {each["name"]: each for each in found["steps"]}
    assert [(by_name[name]["kind"], by_name[name]["line"]) for name in ("hot", "alerts", "visits")] == [
        ("step", 1),
        ("output", 4),
        ("output", 5),
    ]
    (reader,) = found["readers"]
    assert reader == {
        "reader": 0,
        "input": "sensor",
        "application_time": True,
        "substreams": False,
        "early_seconds": 300.0,
        "late_seconds": None,
        "out_of_order_seconds": 7.0,
        "policy": "adjust",
        "source": None,
        "percentile": None,
    }
    hopping, session = found["windows"]
    assert (hopping["kind"], hopping["size_seconds"], hopping["hop_seconds"]) == ("hopping", 600.0, 300.0)
    assert (START_MS - hopping["aligned_at_ms"]) % 300_000 == 0
    assert (session["kind"], session["size_seconds"], session["timeout_seconds"]) == (
        "session",
        3600.0,
        120.0,
    )
    directory.query.write_text("{}")
    assert read_outline(directory) is None
    assert answer(of_one(directory.path), "/api/job/run/query", 404)["error"]["code"] == "NO_QUERY"


def test_a_profile_is_shown_if_there_is_one(heat: JobDirectory):
    page = of_one(heat.path)
    assert answer(page, "/api/job/heat/profile", 404)["error"]["code"] == "NO_PROFILE"
    heat.profile.write_text('{"phases": []}')
    assert answer(page, "/api/job/heat/profile") == {"phases": []}


def test_a_status_of_512_partitions_and_20_000_substreams_is_answered_within_100_ms(tmp_path: Path):
    directory = JobDirectory(tmp_path / "large")
    partitions = tuple(
        replace(STATUS.inputs[0], partition=str(n), substreams=39, counters={"InputEvents": n})
        for n in range(512)
    )
    slowest = tuple(
        SubstreamStatus("sensor", str(n), 0, f"key {n}", ticks_at(n), ticks_at(n + 1)) for n in range(25)
    )
    ranges = tuple(RangeStatus(1, n, n, n, ticks_at(n), ticks_at(n)) for n in range(64))
    steps = tuple(
        replace(STATUS.steps[0], operator=n, holders=STATUS.steps[0].holders * 5) for n in range(30)
    )
    status = replace(STATUS, inputs=partitions, substreams=slowest, ranges=ranges, steps=steps)
    page = of_one(directory.path)
    seconds: list[float] = []
    for events in range(5):
        write_status(directory, replace(status, events=events))
        started = time.process_time()
        assert answer(page, "/api/job/large/status")["events"] == events
        seconds.append(time.process_time() - started)
    # Time of the processor, the client here included: what else the machine does is not the page's.
    assert min(seconds) < 0.1, seconds


def test_the_history_has_times_in_milliseconds_and_is_thinned(heat: JobDirectory):
    writer = HistoryWriter(heat)
    window = StepStatus(3, 1, "window", "alerts", (), input_watermark_ticks=ticks_at(5), rows_in=4)
    status = replace(STATUS, steps=(window,))
    for at_ms in range(1000, 41_000, 1000):
        mark = Mark.START if at_ms == 6000 else None
        writer.add(sample_of(status, at_ms, mark))
    page = of_one(heat.path)
    samples = answer(page, "/api/job/heat/history")["samples"]
    assert [each["at_ms"] for each in samples] == list(range(1000, 41_000, 1000))
    first = samples[0]
    assert first["inputs"][0]["watermarks_ms"] == [START_MS + 59_000] * 5
    assert first["inputs"][0]["percentiles_ms"] == {"95": START_MS + 58_000}
    assert first["partitions"][0][:4] == ["sensor", 0, "0", START_MS + 59_000]
    assert first["partitions"][1][3:] == [None, None, None, 0]
    assert first["steps"] == [[3, START_MS + 5_000, None, 4, 0]]
    assert "_ticks" not in json.dumps(samples)
    later = answer(page, "/api/job/heat/history?since_ms=38000")["samples"]
    assert [each["at_ms"] for each in later] == [39_000, 40_000]
    few = answer(page, "/api/job/heat/history?most=12")["samples"]
    assert len(few) <= 13
    assert [each["at_ms"] for each in few][-6:] == list(range(35_000, 41_000, 1000))
    assert 6000 in [each["at_ms"] for each in few]


def test_metrics_of_all_jobs_are_there_for_prometheus(tmp_path: Path):
    for name in ("a", "b"):
        write_status(JobDirectory(tmp_path / name / "toll"), replace(STATUS, state=JobState.STOPPED))
    response = client(JobTable(root=tmp_path)).get("/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    lines = [line for line in response.text.splitlines() if not line.startswith("#")]
    assert len({line.rpartition(" ")[0] for line in lines}) == len(lines)
    assert {'job_name="a.toll"', 'job_name="b.toll"'} <= set(re.findall(r'job_name="[^"]*"', response.text))


def test_what_is_wrong_is_answered_in_words(heat: JobDirectory, tmp_path: Path):
    new = answer(of_one(tmp_path / "new"), "/api/job/new/why")
    assert (new["healthy"], new["findings"][0]["cause"]) == (False, "NEVER_RAN")
    found = answer(of_one(heat.path), "/api/job/heat/why")
    assert not found["healthy"]
    assert any(
        "ended without a word" in "".join((each["text"], *each["evidence"])) for each in found["findings"]
    )
    assert "_ticks" not in json.dumps(found)
    assert {
        each["output"] for each in answer(of_one(heat.path), "/api/job/heat/why?output=x")["findings"]
    } <= {None}
