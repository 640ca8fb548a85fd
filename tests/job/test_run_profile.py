"""A run's profile: every share is of the whole, and the whole is told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rich.console import Console

from tideglass.cli.profile import profile_tables
from tideglass.engine.messages import Kind
from tideglass.engine.profiled import TASK_PROFILE
from tideglass.ingress.reports import BatchReports
from tideglass.job.report.metrics import Metrics
from tideglass.job.report.profile import OUTPUTS, OUTSIDE, TASKS, Profile, Share, shown_shares
from tideglass.local import LocalDriver
from tideglass.project.settings import from_options
from tideglass.testing import compile_rows, partition_batches

QUERY = """
SELECT k, COUNT(*) AS n, AVG(v) AS mean INTO o FROM i TIMESTAMP BY t GROUP BY k, TumblingWindow(minute, 1)
"""
ROWS = [{"k": str(n % 7), "v": n, "t": f"2026-01-01T00:{n // 60:02d}:{n % 60:02d}Z"} for n in range(600)]


def profile_of_local_run() -> Profile:
    topology = compile_rows(QUERY, {"i": ROWS}, from_options(None)).topology
    profile = Profile(topology)
    messages = LocalDriver(topology, profile=True).run(partition_batches(topology, {"i": ROWS}), final=True)
    for message in messages:
        if message.kind is Kind.PROFILE:
            profile.take_task(TASK_PROFILE.of_body(message.body))
    return profile


def progress(batch_id: int, **durations_ms: int) -> dict[str, Any]:
    return {"batchId": batch_id, "durationMs": durations_ms}


def test_a_run_in_this_process_tells_the_parts_of_scan_and_stage():
    profile = profile_of_local_run()
    parts = profile.by_part()
    assert list(parts) == ["scan", "stage 1"]
    scan = {share.name for share in parts["scan"]}
    assert {"TIMESTAMP BY", "time policies", "encoding messages", "routing by key"} <= scan
    assert any("pre-aggregate" in name for name in scan)
    assert any("group #" in share.name for share in parts["stage 1"])
    shares = [share for level in parts.values() for share in level]
    assert sum(share.percent for share in shares) == pytest.approx(100)
    assert sum(share.seconds for share in shares) == pytest.approx(profile.task_seconds)


def test_the_metrics_of_a_run_are_the_same_with_a_profile():
    topology = compile_rows(QUERY, {"i": ROWS}, from_options(None)).topology
    found: list[dict[str, int]] = []
    for profile in (False, True):
        metrics = Metrics()
        driver = LocalDriver(topology, profile=profile)
        messages = driver.run(partition_batches(topology, {"i": ROWS}), final=True)
        metrics.take_batch(BatchReports.of(messages), {})
        found.append(metrics.by_api_name())
    assert found[0] == found[1]
    assert found[0]["InputEvents"] == len(ROWS)


def test_nothing_is_told_unless_asked_for():
    topology = compile_rows(QUERY, {"i": ROWS}, from_options(None)).topology
    messages = LocalDriver(topology).run(partition_batches(topology, {"i": ROWS}), final=True)
    assert not any(m.kind is Kind.PROFILE for m in messages)


def test_phases_add_up_to_the_batches_and_commits_are_taken_out_of_the_tasks():
    profile = profile_of_local_run()
    profile.take_commit(0, 0.25)
    profile.take_progress(progress(0, addBatch=800, queryPlanning=100, walCommit=40, triggerExecution=1000))
    profile.take_progress(progress(1, addBatch=300, queryPlanning=100, newInSpark=50, triggerExecution=500))
    profile.take_progress(progress(2, latestOffset=5, triggerExecution=5))  # a trigger that had nothing to do
    phases = {share.name: share.seconds for share in profile.by_phase()}
    assert phases == pytest.approx(
        {
            TASKS: 0.85,
            OUTPUTS: 0.25,
            "planning by Spark": 0.2,
            "logging what the batch reads": 0.04,
            "newInSpark": 0.05,
            "between the phases": 0.11,
        }
    )
    assert profile.batch_seconds == pytest.approx(1.5)
    assert sum(share.percent for share in profile.by_phase()) == pytest.approx(100)
    first, later = profile.first_and_later()
    assert (first[TASKS], later[TASKS]) == pytest.approx((0.55, 0.3))


def test_what_spark_counts_beyond_the_tasks_own_time_is_a_part_of_the_whole():
    profile = profile_of_local_run()
    told = profile.task_seconds
    profile.run_seconds = told + 3.0
    parts = profile.by_part()
    assert [(share.name, share.seconds) for share in parts["around"]] == [(OUTSIDE, pytest.approx(3.0))]
    assert sum(share.percent for level in parts.values() for share in level) == pytest.approx(100)


def test_the_tables_and_the_file_hold_the_whole(tmp_path):
    profile = profile_of_local_run()
    profile.take_progress(progress(0, addBatch=800, triggerExecution=1000))
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    for table in profile_tables(profile):
        console.print(table)
    shown = console.export_text()
    assert all(words in shown for words in ("running the tasks", "80.0", "stage 1", "pre-aggregate"))
    profile.write(tmp_path / "profile.json")
    written = json.loads((tmp_path / "profile.json").read_text())
    assert written["phases_by_batch"] == {"0": {TASKS: 0.8, OUTPUTS: 0.0, "between the phases": 0.2}}
    percents = [entry["percent"] for level in written["tasks"].values() for entry in level]
    assert sum(percents) == pytest.approx(100, abs=0.01 * len(percents))


def test_small_parts_are_one_line_and_none_is_lost():
    shares = [
        Share("large", 9.0, 90.0),
        Share("half", 0.05, 0.5),
        Share("a", 0.04, 0.4),
        Share("b", 0.01, 0.1),
    ]
    assert shown_shares(shares) == [*shares[:2], Share("2 smaller parts", pytest.approx(0.05), 0.5)]
    assert shown_shares(shares[:2]) == shares[:2]
