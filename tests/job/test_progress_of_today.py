"""What an earlier version wrote of its reports is read by this one: `tests/fixtures/state/progress-N`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tideglass.core.errors import StateError
from tideglass.ingress.decisions import Counters
from tideglass.job.progress.counts import Counts
from tideglass.job.progress.topic_progress import REACHED, TopicProgress
from tideglass.job.report.metrics import Metrics

FOLDER = Path(__file__).parents[1] / "fixtures" / "state" / "progress-1"


def test_progress_of_topics_is_read_and_written_again(tmp_path: Path) -> None:
    then = TopicProgress.load(FOLDER)
    report = then.reports["i"]["0"]
    assert (then.batch, then.replayed, then.offsets) == (1, True, {"i": {"0": 9}})
    assert (report.next_offset, report.watermark_ticks) == (9, 17_672_256_080_000_000)
    assert report.readers[0].counters == Counters(accepted=9)
    assert ([each.rows for each in report.failed.values()], report.idle_held) == ([3], True)
    then.save(tmp_path)
    assert TopicProgress.load(tmp_path) == then


def test_counts_are_read_and_written_again(tmp_path: Path) -> None:
    then = Counts.load(FOLDER)
    assert (then.batch, then.rows, then.rows_before) == (1, {"o": 5}, {"o": 3})
    assert list(then.stages) == ["1/0"]
    metrics = Metrics()
    metrics.take_stage(then.stages["1/0"])
    assert metrics.by_api_name()["Errors"] > 0
    then.save(tmp_path)
    assert Counts.load(tmp_path) == then


def test_progress_of_a_later_format_is_named(tmp_path: Path) -> None:
    (tmp_path / REACHED).write_text('{"format": 3, "batch": 1}')
    with pytest.raises(StateError, match="it has format 3, this version reads 2"):
        TopicProgress.load(tmp_path)
