"""What the status of a run shows of its steps, outputs and batches, while it lasts and once it is over."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.job_in_process import Folder, RunInProcess
from support.observed_jobs import Scene
from tideglass.connect.output import Batch, OutputConnector
from tideglass.core.errors import OutputError
from tideglass.core.events import Rejected
from tideglass.core.time import AFTER_ALL_TICKS, parse_ticks
from tideglass.ingress.reports import BatchReports, PartitionReport
from tideglass.job.directory import JobDirectory
from tideglass.job.report.batch_times import MOST_BATCHES, BatchTimes, Moment
from tideglass.job.report.history import Mark, read_history
from tideglass.job.report.list_columns import packed, unpacked
from tideglass.job.report.output_calls import OutputCalls
from tideglass.job.report.run_journal import RunStart, add
from tideglass.job.report.run_view import MOST_ERRORS, RunView
from tideglass.job.report.status import JobState, Status, StepStatus, read_status, write_status

QUERY = """WITH minutes AS (
    SELECT booth, COUNT(*) AS n FROM events TIMESTAMP BY t GROUP BY booth, TumblingWindow(minute, 1)
)
SELECT booth, n, System.Timestamp() AS at INTO counts FROM minutes
SELECT booth INTO heavy FROM events TIMESTAMP BY t WHERE weight > 3
"""


def at(second: float) -> str:
    return f"2026-01-01T00:{int(second) // 60:02}:{int(second) % 60:02}Z"


def ticks(second: float) -> int:
    found = parse_ticks(at(second))
    assert found is not None
    return found


def event(second: int, weight: int = 1, booth: str = "a") -> dict[str, Any]:
    return {"t": at(second), "arrived": at(second + 1), "weight": weight, "booth": booth}


def folder_in(path: Path) -> Folder:
    return Folder(path, QUERY, late_seconds=20, out_of_order_seconds=5)


def status_of(directory: JobDirectory) -> Status:
    found = read_status(directory)
    assert found is not None
    return found


def step(status: Status, name: str, kind: str) -> StepStatus:
    (found,) = [each for each in status.steps if (each.step, each.kind) == (name, kind)]
    return found


def test_the_status_shows_every_step_with_its_watermarks_rows_and_holders(tmp_path: Path):
    folder = folder_in(tmp_path / "job")
    folder.put(0, [event(second, weight=second % 5) for second in range(0, 100, 10)])
    folder.put(1, [event(second) for second in range(0, 70, 10)])
    with RunInProcess(folder.job()) as run:
        run.batches()
        run.report()
        status = status_of(run.directory)
    window = step(status, "minutes", "tumbling window")
    assert window.output_watermark_ticks == ticks(60 - 5), "partition 1, less the out-of-order tolerance"
    assert (window.line, window.column) == (1, 6)
    assert (window.ranges, window.ranges_reported) == (2, 2)
    assert window.holders[0].place == "events/1"
    assert window.holders[0].oldest_ticks == ticks(55)
    assert "window" in window.holders[-1].kind
    assert window.holders[-1].due_ticks == ticks(60)
    assert window.data_watermark_lag_seconds == 91 - 55
    assert step(status, "heavy", "filter").rows_in == 17
    assert step(status, "heavy", "output").output == "heavy"
    assert {each.system_watermark_lag_seconds for each in status.steps} == {0.0}
    assert [(each.level, each.key_group) for each in status.ranges] == [(1, 0), (1, 1)]
    assert {each.input_watermark_ticks for each in status.ranges} == {ticks(55)}
    (first, second) = status.inputs
    assert (first.event_time_ticks, first.last_arrival_ticks) == (ticks(90), ticks(91))
    assert (second.watermark_ticks, second.held_by) == (ticks(55), "event time")
    assert second.counters["InputEvents"] == 7
    assert second.last_event is not None


def test_files_without_arrival_times_have_no_watermark_before_their_end(tmp_path: Path):
    """They are sorted with a tolerance as wide as all of time, so the watermark lies before any instant."""
    folder = Folder(tmp_path / "job", QUERY, late_seconds=20, out_of_order_seconds=5, arrival=None)
    folder.put(0, [event(second) for second in range(0, 100, 10)])
    with RunInProcess(folder.job()) as run:
        run.batches()
        run.report()
        status = status_of(run.directory)
    (partition,) = status.inputs
    assert (partition.watermark, partition.watermark_ticks, partition.delay_seconds) == (None, None, None)
    assert {each.output_watermark_ticks for each in status.steps} == {None}
    assert {each.input_watermark_ticks for each in status.ranges} == {None}
    assert partition.counters["InputEvents"] == 10


def test_outputs_show_whether_they_are_alive_and_their_newest_row(tmp_path: Path):
    folder = folder_in(tmp_path / "job")
    folder.put(0, [event(second, weight=second % 5) for second in range(7, 50, 7)])
    with RunInProcess(folder.job()) as run:
        run.batches()
        run.report()
        (counts, heavy) = status_of(run.directory).outputs
        assert (counts.output, counts.alive, counts.calls, counts.last_row) == ("counts", None, 0, None)
        assert (heavy.output, heavy.connector, heavy.alive, heavy.failed_calls) == ("heavy", "file", True, 0)
        assert (heavy.rows, heavy.calls) == (1, 2), "a call of the task, and one of the driver"
        assert heavy.last_row_ticks == ticks(14)
        assert heavy.seconds > 0
        folder.put(0, [event(second, weight=9) for second in range(50, 200, 10)])
        run.batches()
        run.report()
        (counts, heavy) = status_of(run.directory).outputs
        assert counts.rows == 3
        assert counts.last_row_ticks == ticks(180)
        assert (heavy.rows, heavy.calls, heavy.last_row_ticks) == (16, 4, ticks(180))
        assert heavy.last_row is not None


def test_batches_show_what_they_took_and_what_they_read(tmp_path: Path):
    folder = folder_in(tmp_path / "job")
    with RunInProcess(folder.job()) as run:
        for number in range(3):
            folder.put(0, [event(60 * number + second, weight=9) for second in range(0, 60, 10)])
            run.batches()
        run.report()
        found = status_of(run.directory)
    assert [(each.batch, each.events) for each in found.recent_batches] == [(0, 6), (1, 6), (2, 6)]
    assert sum(each.rows for each in found.recent_batches) == sum(found.rows.values()) > 0
    assert all(0 < each.commit_seconds < each.seconds for each in found.recent_batches)
    assert found.batch_began is None


def test_a_run_that_is_over_keeps_its_last_view_and_its_history_is_marked(tmp_path: Path):
    folder = folder_in(tmp_path / "job")
    folder.put(0, [event(second, weight=9) for second in range(0, 130, 10)])
    with RunInProcess(folder.job(once=True)) as run:
        add(run.directory.journal, run.reporter.setup.start)
        run.batches()
    found = status_of(run.directory)
    assert found.state is JobState.STOPPED
    assert {each.output_watermark_ticks for each in found.steps} == {AFTER_ALL_TICKS}
    assert {each.holders for each in found.steps} == {()}
    assert [each.rows for each in found.outputs] == [3, 13]
    samples = read_history(run.directory)
    assert (samples[0].mark, samples[-1].mark) == (Mark.START, Mark.END)
    assert samples[-1].rows == {"counts": 3, "heavy": 13}
    assert samples[-1].steps[0].output_watermark_ticks == AFTER_ALL_TICKS


def test_a_run_that_goes_on_knows_where_its_inputs_stand_before_its_first_batch(tmp_path: Path):
    folder = folder_in(tmp_path / "job")
    folder.put(0, [event(second) for second in range(0, 100, 10)])
    with RunInProcess(folder.job()) as run:
        run.batches()
    with RunInProcess(folder.job()) as again:
        again.report()
        found = status_of(again.directory)
    assert step(found, "heavy", "output").output_watermark_ticks == ticks(85)
    assert step(found, "minutes", "tumbling window").output_watermark_ticks is None
    assert found.inputs[0].last_event is None, "none in this run"


class Failing(OutputConnector):
    """An output that takes no row."""

    def publish(self, batch: Batch, staged: Sequence[pa.Table]) -> Sequence[pa.Table]:
        raise OutputError("the server is gone")

    def identity(self, directory: Path) -> Mapping[str, Any]:
        return {}

    def describe(self) -> str:
        return "a server"


def test_a_call_that_fails_shows_in_the_status_of_a_failed_run(tmp_path: Path):
    folder = folder_in(tmp_path / "job")
    folder.put(0, [event(second, weight=9) for second in range(0, 50, 7)])
    job = folder.job()
    job = replace(job, outputs={**job.outputs, "heavy": Failing()})
    with pytest.raises(OutputError), RunInProcess(job) as run:
        run.batches()
    found = status_of(run.directory)
    assert found.state is JobState.FAILED
    heavy = found.outputs[1]
    assert (heavy.connector, heavy.alive, heavy.failed_calls) == ("failing", False, 1)
    assert heavy.last_error == "the server is gone"
    assert heavy.rows == 0


class Full(Failing):
    """An output whose rows find no place in a task."""

    def stage(self, rows: pa.Table, sender: str) -> pa.Table:
        raise OSError("no space left on device")


def test_a_task_that_cannot_write_to_an_output_names_it_and_the_status_shows_it(tmp_path: Path):
    folder = folder_in(tmp_path / "job")
    folder.put(0, [event(second, weight=9) for second in range(0, 50, 7)])
    job = folder.job()
    job = replace(job, outputs={**job.outputs, "heavy": Full()})
    message = "the output 'heavy' cannot take rows: no space left on device"
    with pytest.raises(OutputError, match=message), RunInProcess(job) as run:
        run.batches()
    (counts, heavy) = status_of(run.directory).outputs
    assert counts.failed_calls == 0
    assert (heavy.alive, heavy.failed_calls, heavy.last_error) == (False, 1, message)


def test_an_output_that_fails_in_a_task_is_known_by_its_name():
    calls = OutputCalls.of([("counts", "file"), ("heavy", "file")])
    calls.run_failed("the output 'heavy' cannot take rows: no space left")
    (counts, heavy) = calls.status()
    assert (counts.alive, heavy.alive) == (None, False)
    assert heavy.last_error == "the output 'heavy' cannot take rows: no space left"


def test_an_output_that_fails_and_then_takes_rows_is_alive_and_shows_its_last_error():
    calls = OutputCalls.of([("counts", "file")])
    with pytest.raises(ValueError, match="full"), calls.calling("counts"):
        raise ValueError("full")
    with calls.calling("counts"):
        pass
    (found,) = calls.status()
    assert (found.alive, found.calls, found.failed_calls, found.last_error) == (True, 2, 1, "full")


def test_the_processing_time_watermark_is_when_the_tasks_began_and_of_outputs_when_the_commit_did():
    times = BatchTimes()
    assert times.oldest_began(outputs=True) is times.oldest_began(outputs=False) is None
    times.began(Moment(1000.0, 10.0))
    assert times.oldest_began(outputs=False) == times.oldest_began(outputs=True) == Moment(1000.0, 10.0)
    times.committing(Moment(1004.0, 14.0))
    assert times.oldest_began(outputs=False) is None
    assert times.oldest_began(outputs=True) == Moment(1004.0, 14.0)
    assert times.batch_began == Moment(1000.0, 10.0)
    times.done(7, 100, 3, Moment(1005.0, 15.0))
    assert times.batch_began is None
    (found,) = times.recent
    assert (found.batch, found.seconds, found.commit_seconds, found.events, found.rows) == (
        7,
        5.0,
        1.0,
        100,
        3,
    )
    assert found.began == "1970-01-01T00:16:40.000Z"


def test_only_the_last_sixty_batches_are_kept():
    times = BatchTimes()
    for number in range(100):
        times.began(Moment(number, number))
        times.done(number, 0, 0, Moment(number, number))
    assert [each.batch for each in times.recent] == list(range(100 - MOST_BATCHES, 100))


def test_errors_of_one_kind_are_one_with_the_newest_example_and_their_number_is_bounded(tmp_path: Path):
    view = RunView.of(folder_in(tmp_path / "job").job(), 1)

    def take(batch: int, kind: str, count: int, example: str) -> None:
        error = Rejected(kind, count, f"bad {example}", (example, "other"), 3)
        report = PartitionReport("events", "0", errors=(error,))
        view.take_batch(batch, BatchReports((report,)), {}, {}, 0, Moment(batch, batch))

    take(0, "InvalidData", 3, "{")
    take(1, "InvalidData", 4, "]")
    (found,) = view.errors()
    assert (found.count, found.example, found.message) == (7, "]", "bad ]")
    assert found.last == "1970-01-01T00:00:01.000Z"
    for number in range(MOST_ERRORS + 10):
        take(2 + number, f"kind {number}", 1, "x" * 5000)
    assert len(view.errors()) == MOST_ERRORS
    assert view.errors()[-1].error_type == f"kind {MOST_ERRORS + 9}"
    assert len(view.errors()[-1].example or "") == 500
    for number in range(MOST_ERRORS):
        late = PartitionReport("events", str(number), offending=(Rejected("LateInputEvent", 1, "late"),))
        view.take_batch(100 + number, BatchReports((late,)), {}, {}, 0, Moment(100, 100))
    kinds = [each.error_type for each in view.errors()]
    assert kinds == [f"kind {number + 10}" for number in range(MOST_ERRORS)], "what was refused stays"


def test_a_status_with_long_lists_is_read_as_it_was_written(tmp_path: Path):
    directory = JobDirectory(tmp_path)
    status = replace(Scene(partitions=40).status(1_790_000_000_000, 600), state=JobState.STOPPED)
    add(directory.journal, RunStart(2, "", 1, True, "now", "", "", 1, "here"))
    write_status(directory, status)
    assert read_status(directory) == status


@pytest.mark.parametrize(
    "damaged",
    [
        {"a": {"rows": 9, "columns": {"b": {"each": [1]}}}},
        {"a": {"rows": 9, "columns": {"b": {"from": "x", "each": [1]}}}},
        {"a": {"rows": 9, "columns": {"b": {"other": 1}}}},
        {"a": {"rows": "9", "columns": {"b": {"same": 1}}}},
        {"a": {"rows": 9, "columns": [1]}},
    ],
)
def test_columns_in_another_form_are_an_error(damaged: dict[str, Any]):
    with pytest.raises((ValueError, LookupError, TypeError, AttributeError)):
        unpacked(damaged)


def test_rows_may_lack_keys_and_have_texts_that_begin_alike():
    rows = {"a": [{"b": {f"k{n % 3}": n - 5}, "t": f"2026-01-0{n}", "n": {}} for n in range(9)]}
    assert unpacked(packed(rows)) == rows
    assert len(json.dumps(packed(rows))) < len(json.dumps(rows))


def test_true_is_not_one_where_a_column_has_both():
    rows = {"a": [{"b": each} for each in (1, True, 1, 1, 1, 1, 1, 1, 1.0)]}
    assert json.dumps(unpacked(packed(rows))) == json.dumps(rows)
