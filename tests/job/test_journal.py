"""The journal keeps every run, however it ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from tideglass.core.errors import StateError
from tideglass.job.report.run_journal import Ended, Run, RunEnd, RunStart, add, read_runs


def started(run: int) -> RunStart:
    return RunStart(
        run=run,
        started="2026-01-01T00:00:00Z",
        generation=1,
        resumed=run > 1,
        mode="beginning",
        cause="first start",
        began_from="the beginning of the inputs",
        pid=7,
        host="here",
        changes=("the step 'a' is new",),
        arguments=("job", "--once"),
    )


def ended(run: int) -> RunEnd:
    return RunEnd(run, "2026-01-01T00:01:00Z", Ended.STOPPED, 3, 400, {"counts": 12})


def test_runs_are_read_as_they_were_written(tmp_path: Path):
    path = tmp_path / "runs.jsonl"
    assert read_runs(path) == []
    for entry in (started(1), ended(1), started(2)):
        add(path, entry)
    assert read_runs(path) == [Run(started(1), ended(1)), Run(started(2))]


def test_a_line_cut_by_a_crash_is_passed_over_and_replaced_by_the_next(tmp_path: Path):
    path = tmp_path / "runs.jsonl"
    add(path, started(1))
    whole = path.read_text()
    path.write_text(whole + whole[: len(whole) // 2])
    assert read_runs(path) == [Run(started(1))]
    add(path, ended(1))
    assert read_runs(path) == [Run(started(1), ended(1))]


def test_a_journal_that_somebody_edited_is_named(tmp_path: Path):
    path = tmp_path / "runs.jsonl"
    add(path, started(1))
    path.write_text("{}\n" + path.read_text())
    with pytest.raises(StateError, match=r"\[STATE_DAMAGED\] .*runs\.jsonl cannot be read \(line 1: "):
        read_runs(path)
