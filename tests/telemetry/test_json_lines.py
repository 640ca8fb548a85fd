"""Metrics as JSON lines: the samples of Prometheus, in a file that stays small."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.statuses import full_status
from tideglass.core.errors import TideglassError
from tideglass.job.report.status import JobState
from tideglass.telemetry.json_lines import JsonLines, json_line
from tideglass.telemetry.samples import samples


def lines_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_holds_every_sample():
    status = full_status()
    found = json.loads(json_line(status))
    assert (found["time"], found["job_name"]) == ("2026-01-01T12:02:00Z", "toll")
    flat = {
        (name, *sorted((label, text) for label, text in each.items() if label != "value")): each["value"]
        for name, values in found["metrics"].items()
        for each in values
    }
    expected = {
        (each.metric.name, *sorted(set(each.labels.items()) - {("job_name", "toll")})): each.value
        for each in samples(status)
    }  # fmt: skip
    assert flat == expected


def test_lines_are_an_interval_apart_and_the_end_has_one(tmp_path: Path):
    write = JsonLines(tmp_path / "metrics.jsonl", interval_seconds=10)
    for second in range(0, 26, 2):
        write(full_status(updated=f"2026-01-01T12:00:{second:02d}Z", batches=second))
    write(full_status(updated="2026-01-01T12:00:27Z", batches=26, state=JobState.STOPPED))
    times = [each["time"] for each in lines_of(tmp_path / "metrics.jsonl")]
    assert times == [f"2026-01-01T12:00:{second:02d}Z" for second in (0, 10, 20, 27)]


def test_two_files_hold_the_newest_lines_and_no_more(tmp_path: Path):
    path, most = tmp_path / "metrics.jsonl", 100_000
    write = JsonLines(path, interval_seconds=0, most_bytes=most)
    for number in range(60):
        write(full_status(updated=f"2026-01-01T12:00:{number:02d}Z"))
    older = path.with_name("metrics.jsonl.1")
    assert path.stat().st_size <= most
    assert older.stat().st_size <= most
    assert sorted(each.name for each in tmp_path.iterdir()) == ["metrics.jsonl", "metrics.jsonl.1"]
    times = [str(each["time"]) for each in lines_of(older) + lines_of(path)]
    assert times == [f"2026-01-01T12:00:{number:02d}Z" for number in range(60 - len(times), 60)]


def test_a_file_that_cannot_be_written_is_named_before_the_run(tmp_path: Path):
    with pytest.raises(TideglassError, match="--metrics-file"):
        JsonLines.to(tmp_path)
