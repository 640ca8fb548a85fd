"""The history of a job: bounded, dense where it is new, and readable whatever a crash has left of it."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from support.observed_jobs import Scene, dead_job, replaying_job, running_job
from tideglass.core.time import TICKS_PER_SECOND
from tideglass.job.directory import JobDirectory
from tideglass.job.report import history
from tideglass.job.report.history import (
    MOST_BYTES,
    MOST_PARTITIONS,
    HistorySample,
    HistoryWriter,
    Mark,
    read_history,
    sample_of,
)
from tideglass.job.report.status import JobState, read_status

NOW_MS = 1_790_000_000_000


def directory_in(folder: Path) -> JobDirectory:
    return JobDirectory(folder)


def sample(number: int, **changed: object) -> HistorySample:
    return HistorySample(at_ms=number * 2_000, run=1, state="Running", **changed)  # type: ignore[arg-type]


def test_a_job_without_a_history_has_no_samples(tmp_path: Path):
    assert read_history(directory_in(tmp_path)) == ()


def test_samples_are_read_as_they_were_added_also_by_who_reads_meanwhile(tmp_path: Path):
    directory = directory_in(tmp_path)
    writer = HistoryWriter(directory)
    scene = Scene()
    added = [sample_of(scene.status(NOW_MS + n, n), NOW_MS + n, None if n else Mark.START) for n in range(3)]
    for number, each in enumerate(added):
        writer.add(each)
        assert read_history(directory) == tuple(added[: number + 1])
    assert read_history(directory, after_ms=NOW_MS) == tuple(added[1:])
    first = added[2]
    assert first.inputs[0].partitions == first.inputs[0].known == scene.partitions
    assert first.inputs[0].watermarks_ticks[0] == min(each.watermark_ticks or 0 for each in first.partitions)
    assert [each.operator for each in first.steps] == list(range(10))


def test_a_line_that_a_crash_has_cut_is_dropped_by_the_next_run(tmp_path: Path):
    directory = directory_in(tmp_path)
    HistoryWriter(directory).add(sample(1))
    with directory.history.local.open("ab") as file:
        file.write(b'{"at_ms": 3')
    assert [each.at_ms for each in read_history(directory)] == [2_000]
    HistoryWriter(directory).add(sample(2, mark=Mark.START))
    assert [each.at_ms for each in read_history(directory)] == [2_000, 4_000]


def test_a_damaged_line_costs_its_own_sample_only(tmp_path: Path):
    directory = directory_in(tmp_path)
    writer = HistoryWriter(directory)
    writer.add(sample(1))
    with directory.history.local.open("ab") as file:
        file.write(b"\0\0\0\n")
    writer.add(sample(2))
    assert [each.at_ms for each in read_history(directory)] == [2_000, 4_000]


def test_a_day_of_samples_is_bounded_and_density_falls_with_age(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(history, "MOST_BYTES", 40_000)
    monkeypatch.setattr(history, "_THINNED_BYTES", 28_000)
    directory = directory_in(tmp_path)
    writer = HistoryWriter(directory)
    samples = 43_200 // 20
    for number in range(samples):
        writer.add(sample(number, mark=Mark.START if number == 0 else None))
        assert directory.history.status().size <= 40_000
    kept = [each.at_ms // 2_000 for each in read_history(directory)]
    assert kept[0] == 0, "the start of the run"
    assert kept[-10:] == list(range(samples - 10, samples)), "the newest are dense"
    gaps = [later - earlier for earlier, later in itertools.pairwise(kept)]
    assert max(gaps[: len(gaps) // 4]) > max(gaps[-len(gaps) // 4 :]), "older ones are sparser"
    assert max(gaps) < samples // 10, "no hole in it"


def test_even_starts_and_ends_are_dropped_where_there_is_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(history, "MOST_BYTES", 4_000)
    monkeypatch.setattr(history, "_THINNED_BYTES", 2_000)
    writer = HistoryWriter(directory_in(tmp_path))
    for number in range(200):
        writer.add(sample(number, mark=Mark.START if number % 2 else Mark.END))
    kept = read_history(directory_in(tmp_path))
    assert kept[-1].at_ms == 199 * 2_000
    assert directory_in(tmp_path).history.status().size <= 4_000


def test_of_very_many_partitions_a_sample_has_the_quartiles_only():
    scene = Scene(partitions=MOST_PARTITIONS + 1)
    found = sample_of(scene.status(NOW_MS, 60), NOW_MS)
    assert found.partitions == ()
    (merged,) = found.inputs
    assert (merged.partitions, merged.known) == (65, 65)
    assert list(merged.watermarks_ticks) == sorted(merged.watermarks_ticks)
    assert merged.watermarks_ticks[4] - merged.watermarks_ticks[0] == 2 * TICKS_PER_SECOND


def test_jobs_to_look_at_are_as_a_run_leaves_them(tmp_path: Path):
    with running_job(tmp_path / "running") as directory:
        status = read_status(directory)
        assert status is not None
        assert status.state is JobState.RUNNING
        assert read_history(directory)[-1].events == status.events
        assert {each.run for each in read_history(directory)} == {1, 2}
    status = read_status(dead_job(tmp_path / "dead"))
    assert status is not None
    assert status.state is JobState.FAILED
    assert "ended without a word" in (status.error or "")
    with replaying_job(tmp_path / "replaying") as directory:
        status = read_status(directory)
        assert status is not None
        assert status.catching_up is not None
        assert status.rows == {"counts": 0, "heavy": 0}
    assert directory.history.status().size < MOST_BYTES
