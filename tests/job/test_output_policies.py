"""Rows that outputs refuse, and outputs that are dead: dropped, tried again, shown, waited for, given up."""

from __future__ import annotations

import json
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.faulty_output import FaultyOutput
from support.job_in_process import Folder, RunInProcess
from tideglass.connect.files.output import FileOutput
from tideglass.connect.files.written_rows import read_rows
from tideglass.connect.refused_rows import RefusalKind, RefusedRow, RowsRefused
from tideglass.core.errors import OutputError
from tideglass.job.diagnosis.diagnose import diagnose_directory
from tideglass.job.options import JobPlan
from tideglass.job.output_retries import Retries
from tideglass.job.progress.counts import Counts
from tideglass.job.progress.published import Published
from tideglass.job.report.status import JobState, Status, read_status
from tideglass.spark.errors import explained
from tideglass.spark.stop_asked import StopAsked, is_stop
from tideglass.storage import storage_path
from tideglass.telemetry.diagnostic_log import DiagnosticLog
from tideglass.telemetry.samples import samples

QUERY = """
SELECT n INTO good FROM events TIMESTAMP BY at
SELECT n INTO bad FROM events TIMESTAMP BY at
"""
#: How long a test waits for what another thread does.
LIMIT_SECONDS = 20.0


def every_third(row: Mapping[str, Any]) -> bool:
    return row["n"] % 3 == 0


def every(row: Mapping[str, Any]) -> bool:
    return True


def none(row: Mapping[str, Any]) -> bool:
    return False


class World:
    """A job with an output of files and one that can fail."""

    def __init__(self, path: Path, policy: str = "Stop", **faults: Any) -> None:
        self.folder = Folder(path / "job", QUERY, settings={"OutputErrorPolicy": policy})
        self.bad = FaultyOutput("bad", **faults)
        self.good = FileOutput("good", storage_path(path / "good"))
        self.count = 0

    def events(self, count: int) -> None:
        numbers = range(self.count, self.count + count)
        self.count += count
        moments = [f"2026-01-01T00:00:{number:02}Z" for number in numbers]
        self.folder.put(
            0, [{"at": at, "arrived": at, "n": n} for n, at in zip(numbers, moments, strict=True)]
        )

    def job(self, **options: Any) -> JobPlan:
        return replace(self.folder.job(**options), outputs={"good": self.good, "bad": self.bad})

    def run(self, **options: Any) -> RunInProcess:
        return RunInProcess(self.job(**options))

    def status(self) -> Status:
        found = read_status(self.folder.directory)
        assert found is not None
        return found

    def good_rows(self) -> list[int]:
        return sorted(row["n"] for row in read_rows(self.good.path))

    def bad_rows(self) -> list[int]:
        return [row["n"] for row in self.bad.rows()]


def fast(run: RunInProcess, timeout_seconds: float | None = None) -> None:
    """Have the run wait for milliseconds where it would for seconds."""
    run.committer.publisher.retries = Retries(0.001, 0.01, timeout_seconds)


def until(condition: Callable[[], object]) -> None:
    limit = time.monotonic() + LIMIT_SECONDS
    while not condition():
        assert time.monotonic() < limit, "it did not come true"
        time.sleep(0.01)


def test_refused_rows_are_dropped_counted_and_logged_and_the_rest_is_written(tmp_path: Path) -> None:
    world = World(tmp_path, "Drop", refuses=every_third)
    log = DiagnosticLog(tmp_path / "log")
    world.events(10)
    with world.run(once=True) as run:
        run.reporter.observers = (log,)
        run.batches()
        run.report()
        status = world.status()
    assert world.good_rows() == list(range(10))
    assert world.bad_rows() == [1, 2, 4, 5, 7, 8]
    assert status.rows == {"good": 10, "bad": 6}
    (good, bad) = status.outputs
    assert (good.conversion_errors, bad.conversion_errors) == (0, 4)
    assert bad.alive
    (error,) = status.errors
    assert (error.input, error.error_type, error.count) == (
        "bad",
        "OutputDataConversionError.TypeConversionError",
        4,
    )
    assert json.loads(error.example or "") == {"n": 0}
    found = [each for each in samples(status) if each.metric.api_name == "ConversionErrors"]
    assert {each.labels["logical_name"]: each.value for each in found} == {"good": 0, "bad": 4}
    entries = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    (entry,) = [each for each in entries if "OutputDataConversionError" in each["operationName"]]
    properties = json.loads(entry["properties"])
    assert entry["level"] == "Warning"
    assert (properties["Source"], properties["EventCount"], properties["Type"]) == ("bad", 4, "DataError")
    assert properties["ErrorCode"] == "OutputDataConversionError.TypeConversionError"
    with world.run(once=True) as again:
        again.report()
        assert world.status().outputs[1].conversion_errors == 4, "counted since the state began"
    assert Counts.load(again.committer.generation).dropped == {"bad": 4}


def test_a_batch_whose_rows_are_all_refused_is_committed(tmp_path: Path) -> None:
    world = World(tmp_path, "Drop", refuses=every)
    world.events(3)
    with world.run(once=True) as run:
        run.batches()
    assert world.bad_rows() == []
    assert world.good_rows() == [0, 1, 2]
    assert Counts.load(run.committer.generation).rows["bad"] == 0


@pytest.mark.parametrize("how", ["unavailable", "refused"])
def test_a_dead_output_is_shown_others_go_on_and_the_inputs_wait(tmp_path: Path, how: str) -> None:
    world = World(tmp_path, "Retry", refuses=every if how == "refused" else none)
    if how == "unavailable":
        world.bad.dead.append(True)
    world.events(5)
    with world.run() as run:
        fast(run)
        thread = threading.Thread(target=run.batches, daemon=True)
        thread.start()
        until(lambda: len(world.bad.published) > 3)
        assert world.good_rows() == [0, 1, 2, 3, 4], "published though the other one waits"
        assert Published.load(run.committer.generation).outputs.keys() == {"good"}
        world.events(5)
        run.report()
        status = world.status()
        backlog = run.committer.backlog()
        state, (good, bad) = status.state, status.outputs
        findings = [each.cause for each in diagnose_directory(run.directory).findings]
        world.bad.dead.clear()
        object.__setattr__(world.bad, "refuses", none)
        thread.join(LIMIT_SECONDS)
        assert not thread.is_alive()
        assert set(world.bad.published) == {0}, "no other batch has begun"
        run.report()
        later = world.status()
        assert run.number == 1
        run.batches()
    assert state is JobState.DEGRADED
    assert (good.alive, bad.alive) == (True, False)
    assert bad.dead_since is not None
    assert bad.next_try is not None
    assert status.batches == 0
    assert backlog["events"] > 0, "what came meanwhile waits in the input"
    assert "SINK_FAILS" in findings
    assert (later.state, later.outputs[1].alive, later.outputs[1].dead_since) == (
        JobState.RUNNING,
        True,
        None,
    )
    assert later.outputs[1].conversion_errors == (5 if how == "refused" else 0), (
        "each once, however often tried"
    )
    assert world.good_rows() == world.bad_rows() == list(range(10))


def test_a_stop_breaks_the_wait_and_the_next_run_goes_on_with_the_batch(tmp_path: Path) -> None:
    world = World(tmp_path, dead=[True])
    world.events(4)
    with world.run() as run:
        run.committer.publisher.retries = Retries(60.0, 60.0)
        stopping = threading.Timer(0.2, run.reporter.request_stop)
        stopping.start()
        with pytest.raises(StopAsked, match="'bad'") as raised:
            run.batch()
    assert is_stop("".join(traceback.format_exception(raised.value))), "so it ends a run on Spark"
    assert world.bad.published == [0]
    written = {path: path.stat().st_mtime_ns for path in world.good.path.local.glob("part-*")}
    world.bad.dead.clear()
    with world.run() as again:
        again.batches()
    assert world.bad_rows() == world.good_rows() == [0, 1, 2, 3]
    found = {path: path.stat().st_mtime_ns for path in world.good.path.local.glob("part-*")}
    assert found == written, "an output that has its rows is not called again"


def test_a_finished_run_gives_up_after_its_time_and_says_what_is_committed(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.events(3)
    with world.run(once=True, batch_bytes=1) as run:
        assert run.batch()
        world.bad.dead.append(True)
        fast(run, 0.1)
        with pytest.raises(OutputError, match="did not take batch 1") as raised:
            run.batch()
    text = str(raised.value)
    assert str(explained("".join(traceback.format_exception(raised.value)))) == text, "so Spark tells it"
    assert "batches up to 0 are committed, batch 1 is not; 'good' have their rows of it" in text
    assert "the server is gone" in text
    assert "no row is lost" in text
    assert world.bad_rows() == [0]


def test_the_time_a_run_waits_is_the_options_or_five_minutes_of_a_finished_run(tmp_path: Path) -> None:
    world = World(tmp_path)
    for options, seconds in (({}, None), ({"output_timeout_seconds": 7.0}, 7.0), ({"once": True}, 300.0)):
        with world.run(**options) as run:
            assert run.committer.publisher.retries.timeout_seconds == seconds


def test_an_output_at_another_place_gets_the_rows_of_a_batch_that_waited(tmp_path: Path) -> None:
    world = World(tmp_path, dead=[True])
    world.events(2)
    with (
        world.run(output_timeout_seconds=0.0) as run,
        pytest.raises(OutputError, match="did not take batch 0"),
    ):
        run.batch()
    world.bad.dead.clear()
    world.good = FileOutput("good", storage_path(tmp_path / "other"))
    with world.run() as again:
        again.batches()
    assert world.good_rows() == world.bad_rows() == [0, 1]


def test_an_output_that_refuses_rows_it_did_not_get_ends_the_run(tmp_path: Path) -> None:
    world = World(tmp_path, "Drop")
    world.events(2)

    def wrong(row: Any) -> bool:
        raise RowsRefused([RefusedRow(3, 0, RefusalKind.DUPLICATE_KEY, "x")])

    world.bad = FaultyOutput("bad", refuses=wrong)
    with world.run() as run, pytest.raises(OutputError, match="refuses rows it was not called with"):
        run.batch()


def test_pauses_double_up_to_a_limit_and_heed_what_the_output_asks_for() -> None:
    retries = Retries(1.0, 8.0)
    pauses = [retries.pause_seconds("o", tries) for tries in range(1, 9)]
    assert all(
        0.8 * limit <= pause <= limit for pause, limit in zip(pauses, (1, 2, 4, 8, 8, 8, 8, 8), strict=True)
    )
    assert pauses == [retries.pause_seconds("o", tries) for tries in range(1, 9)]
    assert pauses != [retries.pause_seconds("p", tries) for tries in range(1, 9)]
    assert retries.pause_seconds("o", 1, 30.0) == 30.0
    assert retries.pause_seconds("o", 1, 1e9) == 900.0


@pytest.mark.parametrize("times", [2, 9])
def test_an_output_that_is_away_at_the_start_is_waited_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    world, slept = World(tmp_path), list[float]()
    monkeypatch.setattr("tideglass.job.start.begin.time.sleep", slept.append)
    world.bad.away.extend([True] * times)
    world.events(2)
    if times == 9:
        with (
            pytest.raises(OutputError, match=r"(?s)'bad' is not available.*the server is gone.*hint"),
            world.run(),
        ):
            pass
        assert len(slept) == 3
        return
    with world.run() as run:
        run.batches()
    assert len(slept) == 2
    assert world.bad_rows() == [0, 1]
