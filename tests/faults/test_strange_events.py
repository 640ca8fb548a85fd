"""Events nobody meant to send: one a query fails on, one of 50 MB, one ten years ahead."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.job_in_process import Clock, Folder, RunInProcess
from support.restarted import RestartedJob
from support.staged import COUNTS, event, minute
from support.times import at
from tideglass.core.errors import EvaluationError
from tideglass.job.diagnosis.diagnose import diagnose_directory

pytestmark = pytest.mark.long

CASTS = """SELECT device, SUM(CAST(v AS bigint)) AS v, System.Timestamp() AS at INTO counts
FROM events TIMESTAMP BY t GROUP BY device, TumblingWindow(second, 10)"""


def test_an_event_the_query_fails_on_stops_every_run_at_the_same_place_until_the_setting_says_drop(
    tmp_path: Path,
) -> None:
    def rows(n: int) -> list[dict[str, object]]:
        return [{"device": "a", "v": n, "t": at(n), "arrived": at(n)} for n in range(n, n + 20)]

    folder = Folder(tmp_path, CASTS, late_seconds=60)
    folder.put(0, rows(0))
    folder.put(0, [{"device": "a", "v": "poison", "t": at(21), "arrived": at(21)}])
    folder.put(0, rows(22))
    job = RestartedJob(folder, {"batch_bytes": 500})
    errors: list[str] = []
    for _ in range(2):
        with pytest.raises(EvaluationError, match=r"The value is poison") as failed:
            job.run()
        errors.append(str(failed.value))
    assert errors[0] == errors[1]
    before = job.rows()
    job.folder = Folder(tmp_path, CASTS, late_seconds=60, settings={"RowErrorPolicy": "Drop"})
    job.run()
    found = [json.loads(row) for row in job.rows()["counts"]]
    assert sum(row["v"] for row in found) == sum(range(20)) + sum(range(22, 42))
    assert set(before.get("counts", [])) <= set(job.rows()["counts"])


def test_an_event_of_50_mb_is_an_event(tmp_path: Path) -> None:
    folder = Folder(tmp_path, COUNTS, late_seconds=60)
    large = {"device": "a", "text": "x" * 50_000_000, "t": at(1), "arrived": at(1)}
    folder.put(0, [{"device": "a", "t": at(0), "arrived": at(0)}])
    folder.put(0, [large])
    folder.put(0, [{"device": "a", "t": at(2), "arrived": at(2)}])
    job = RestartedJob(folder, {"batch_bytes": 1000})
    job.run()
    (row,) = [json.loads(each) for each in job.rows()["counts"] if '"n":2' in each]
    assert row["device"] == "a", "the two after 00:00:00"


def test_an_event_ten_years_ahead_moves_nothing_but_is_dropped_as_early(tmp_path: Path, clock: Clock) -> None:
    folder = Folder(tmp_path, COUNTS, late_seconds=60)
    ahead = event(clock, 10 * 365.25 * 86_400, arrived=-30)
    rows = minute(clock)
    folder.put(0, [*rows[:30], ahead, *rows[30:]])
    with RunInProcess(folder.job()) as run:
        run.batches()
        run.report()
        (partition,) = run.reporter.metrics.partitions.values()
        assert partition.counters.by_decision() == {"accepted": 60, "dropped_early": 1}
        assert diagnose_directory(run.directory).healthy
