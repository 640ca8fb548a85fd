"""A run's account: it hears that it is to stop, and says what it does and how it ended."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tideglass.core.errors import EvaluationError
from tideglass.core.events import Rejected
from tideglass.ingress.decisions import Counters
from tideglass.ingress.reports import PartitionReport, ReaderReport
from tideglass.job.directory import AT_ONCE, JobDirectory
from tideglass.job.lock import RunLock
from tideglass.job.report.metrics import Metrics
from tideglass.job.report.reporter import Reporter, signals
from tideglass.job.report.run_journal import Ended, RunEnd, RunStart, add, read_runs
from tideglass.job.report.status import JobState, Status, read_status
from tideglass.job.start.begin import RunSetup
from tideglass.job.start.decision import StartMode, StartPlan

START = RunStart(1, "2026-01-01T00:00:00Z", 1, False, "beginning", "first start", "the beginning", 7, "here")
PLAN = StartPlan(1, False, StartMode.BEGINNING, "first start")


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[JobDirectory]:
    found = JobDirectory(tmp_path / "job")
    with RunLock(found):
        add(found.journal, START)
        yield found


@pytest.fixture
def reporter(directory: JobDirectory) -> Reporter:
    return Reporter("tolls", directory, RunSetup(START, PLAN, None), Metrics())


def report(events: int, rejected: int) -> PartitionReport:
    """What a scan reports of its partition."""
    error = Rejected("InvalidData", 1, "no JSON", ("{",), 4)
    return PartitionReport(
        "clicks",
        "0",
        rejected=rejected,
        bytes=10,
        errors=(error,) * bool(rejected),
        readers=(ReaderReport(0, Counters(accepted=events), 0, 5 * 10**7),),
    )


def once(true: Callable[[], bool]) -> None:
    """Wait until something is so."""
    until = time.monotonic() + 20
    while not true():
        assert time.monotonic() < until, "it never was"
        time.sleep(0.02)


def status_of(reporter: Reporter) -> Status:
    found = read_status(reporter.directory)
    assert found is not None
    return found


def end_of(reporter: Reporter) -> RunEnd:
    (run,) = read_runs(reporter.directory.journal)
    assert run.end is not None
    return run.end


def test_states_from_start_to_end(reporter: Reporter):
    with reporter:
        with reporter.changing() as metrics:  # what an earlier run had counted
            metrics.output_rows["counts"] = 1
        assert reporter.starting
        time.sleep(0.6)  # longer than the account takes to look around
        assert status_of(reporter).state is JobState.STARTING
        with reporter.changing() as metrics:
            metrics.take_partition(report(events=3, rejected=0))
            metrics.output_rows["counts"] = 2
            metrics.batches = 1
        once(lambda: status_of(reporter).batches == 1)
        found = status_of(reporter)
        assert found.state is JobState.RUNNING
        assert (found.events, found.rows, found.watermark_delay_seconds) == (3, {"counts": 2}, 5.0)
        assert found.inputs[0].watermark == "1970-01-01T00:00:00.0000000Z"
    assert status_of(reporter).state is JobState.STOPPED
    end = end_of(reporter)
    assert (end.how, end.batches, end.events, end.rows) == (Ended.FINISHED, 1, 3, {"counts": 2})


def test_a_run_that_waits_for_its_first_event_runs(reporter: Reporter):
    with reporter:
        reporter.running()
        once(lambda: status_of(reporter).state is JobState.RUNNING)
        assert status_of(reporter).batches == 0


def test_a_run_that_is_asked_to_stop_before_its_first_batch_is_stopping(reporter: Reporter):
    with reporter:
        reporter.request_stop()
        once(lambda: status_of(reporter).state is JobState.STOPPING)
        reporter.running()
        assert status_of(reporter).state is JobState.STOPPING


def test_broken_input_degrades_a_run_and_is_its_last_error(reporter: Reporter):
    with reporter:
        reporter.running()
        with reporter.changing() as metrics:
            metrics.take_partition(report(events=3, rejected=1))
            metrics.batches = 1
        once(lambda: status_of(reporter).state is JobState.DEGRADED)
        assert status_of(reporter).error == "1 events of clicks/0 refused: no JSON (the first at 4)"
        assert status_of(reporter).counters["DeserializationError"] == 1


def test_the_file_stop_asks_a_run_to_stop(reporter: Reporter):
    with reporter:
        reporter.running()
        reporter.directory.stop.create(b"")
        assert reporter.stop_requested.wait(20)
        once(lambda: status_of(reporter).state is JobState.STOPPING)
    assert end_of(reporter).how is Ended.STOPPED
    assert not reporter.directory.stop.exists()


def test_a_run_that_ends_as_soon_as_it_is_asked_has_been_stopped(reporter: Reporter):
    with reporter:
        reporter.directory.stop.create(b"")
    assert end_of(reporter).how is Ended.STOPPED


def test_a_first_signal_asks_and_a_second_breaks_off(reporter: Reporter):
    before = signal.getsignal(signal.SIGTERM)

    def twice() -> None:
        with reporter, signals(reporter):
            os.kill(os.getpid(), signal.SIGTERM)
            assert reporter.stop_requested.is_set()
            assert reporter.directory.stop.exists()
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(400):  # as a run waits: in short pieces
                time.sleep(0.05)

    with pytest.raises(KeyboardInterrupt):
        twice()
    assert end_of(reporter).how is Ended.BROKEN_OFF
    assert status_of(reporter).state is JobState.STOPPED
    assert signal.getsignal(signal.SIGTERM) is before


def test_stop_at_once_breaks_off_without_a_signal_from_outside(reporter: Reporter):
    def asked_at_once() -> None:
        with reporter, signals(reporter):
            reporter.directory.stop.write_text(AT_ONCE)
            for _ in range(400):  # as a run waits: in short pieces
                time.sleep(0.05)

    with pytest.raises(KeyboardInterrupt):
        asked_at_once()
    assert end_of(reporter).how is Ended.BROKEN_OFF


def test_signals_taken_by_others_can_be_taken_back(reporter: Reporter):
    with reporter, signals(reporter) as take:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        take()
        os.kill(os.getpid(), signal.SIGTERM)
        assert reporter.stop_requested.is_set()


def test_outside_of_the_main_thread_signals_are_left_alone(reporter: Reporter):
    before = signal.getsignal(signal.SIGTERM)
    seen: list[Any] = []

    def look() -> None:
        with signals(reporter) as take:
            take()
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [before]


def test_an_error_ends_a_run_as_failed_with_its_words(reporter: Reporter):
    with pytest.raises(EvaluationError), reporter:
        raise EvaluationError("'three' is no bigint")
    assert (end_of(reporter).how, end_of(reporter).error) == (Ended.FAILED, "'three' is no bigint")
    found = status_of(reporter)
    assert (found.state, found.error) == (JobState.FAILED, "'three' is no bigint")


def test_a_status_of_another_version_is_no_status(reporter: Reporter):
    reporter.directory.status.write_text(json.dumps({"state": "Running", "novel": 1}))
    assert read_status(reporter.directory) is None
