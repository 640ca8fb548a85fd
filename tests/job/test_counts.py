"""Rows that were given are counted once, wherever a run is killed and whatever its batches are."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.depth import depth
from tideglass.core.errors import StateError
from tideglass.core.failing_rows import Failed
from tideglass.engine.reports import StageReport
from tideglass.ingress.reports import BatchReports
from tideglass.job.progress.counts import COUNTS, Counts
from tideglass.job.report.metrics import Metrics

#: Where in a batch a run is killed: before its rows are counted, behind that, or not.
KILLS = ("before", "behind", "not")


def reports(failed: int) -> list[StageReport]:
    """What a key group reports that has left out rows."""
    return [StageReport(1, 0, {7: Failed(failed, "why")} if failed else {})]


BATCHES = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 2), st.lists(st.sampled_from(KILLS), max_size=3))
)


@settings(deadline=None, max_examples=depth(60))
@given(BATCHES)
def test_rows_are_counted_once_over_kills_at_every_place(batches: list[tuple[int, int, list[str]]]) -> None:
    """A batch: its rows, how many it leaves out, and the kills that its attempts meet."""
    with tempfile.TemporaryDirectory() as folder:
        committed, rows_so_far, failed_so_far = None, 0, 0
        for number, (rows, failed, kills) in enumerate(batches):
            for kill in [*kills, "not"]:
                counts = Counts.load(Path(folder))  # every attempt is a run of its own
                assert sum(counts.up_to(committed).values()) == rows_so_far
                if kill != "before":
                    counts.after(number, {"o": rows}, reports(failed_so_far + failed)).save(Path(folder))
                if kill == "not":
                    break
            committed, rows_so_far, failed_so_far = number, rows_so_far + rows, failed_so_far + failed
        counts, metrics = Counts.load(Path(folder)), Metrics()
        assert sum(counts.up_to(committed).values()) == rows_so_far
        for report in counts.stages.values():
            metrics.take_stage(report)
        assert metrics.by_api_name()["Errors"] == failed_so_far


def test_counts_of_a_batch_that_runs_in_another_run_are_those_before_it(tmp_path: Path) -> None:
    Counts().after(0, {"o": 2, "p": 1}, []).after(1, {"o": 3}, []).save(tmp_path)
    metrics = Metrics(rows_before=Counts.load(tmp_path).up_to(0))
    assert metrics.by_api_name()["OutputEvents"] == 3
    metrics.take_batch(BatchReports(), {"o": 3})
    assert metrics.rows_in_all == {"o": 5, "p": 1}
    assert metrics.by_api_name()["OutputEvents"] == 6


def test_counts_that_are_cut_or_flipped_are_named(tmp_path: Path) -> None:
    Counts(4, {"o": 12}, {"o": 7}).save(tmp_path)
    whole = (tmp_path / COUNTS).read_bytes()
    for damage in (b"", whole[: len(whole) // 2], whole.replace(b"12", b"13"), b"[]", b"\xff"):
        (tmp_path / COUNTS).write_bytes(damage)
        with pytest.raises(StateError, match=r"\[STATE_DAMAGED\] .*counts\.json"):
            Counts.load(tmp_path)
