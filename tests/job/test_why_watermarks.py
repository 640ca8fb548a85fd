"""Causes that hold a watermark, staged in a run of this process and found from its directory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from support.job_in_process import Clock, Folder, RunInProcess
from support.staged import COUNTS, JOIN, causes, event, minute, of_a_minute, text_of, the
from support.times import ticks_of
from tideglass.cli.status import status_lines
from tideglass.core.time import TICKS_PER_SECOND
from tideglass.job.diagnosis.diagnose import diagnose_directory
from tideglass.job.diagnosis.finding import Diagnosis, Severity
from tideglass.job.report.status import read_status


def test_5_an_event_far_in_the_future_makes_all_later_ones_late(tmp_path: Path, clock: Clock) -> None:
    project = Folder(tmp_path, COUNTS, late_seconds=60)
    project.put(0, [*minute(clock)[:5], event(clock, 40.5 * 24 * 3600), *minute(clock)[5:]])
    with RunInProcess(project.job()) as run:
        run.batches()
        run.report()
        found = diagnose_directory(run.directory)
    finding = the("FUTURE_EVENT", found)
    assert found.findings[0] is finding
    assert "40 d 11 h ahead of the clock" in finding.text
    assert "55 of 61 events" in text_of(finding)


def test_5_a_clock_that_is_ahead_puts_the_others_out_of_order(tmp_path: Path, clock: Clock) -> None:
    project = Folder(tmp_path, COUNTS, late_seconds=600)
    project.put(0, [event(clock, -60 + 240, arrived=-60), *minute(clock)])
    with RunInProcess(project.job()) as run:
        run.batches()
        run.report()
        finding = the("CLOCK_AHEAD", diagnose_directory(run.directory))
    assert "98 % of the events are out of order" in finding.text


def of_minutes(project: Folder, clock: Clock, partitions: int, minutes: int, idle: float = 0.0) -> Diagnosis:
    """The diagnosis of a run whose partitions send for a minute, then only the first for so many.

    idle: for so many seconds after that nothing is sent.
    """
    rows = minute(clock)  # of one reading of the clock: where two differ, an end of a window may lie between
    for partition in range(partitions):
        project.put(partition, rows)
    with RunInProcess(project.job()) as run:
        run.batches()
        for _ in range(minutes):
            clock.go_on(60)
            project.put(0, minute(clock))
            run.batches()
        if idle:
            clock.go_on(idle)
            run.batches()
        run.report()
        return diagnose_directory(run.directory)


def test_2_one_idle_partition_under_an_unlimited_late_tolerance(tmp_path: Path, clock: Clock) -> None:
    found = of_minutes(Folder(tmp_path, COUNTS), clock, 2, minutes=14)
    finding = the("IDLE_PARTITION", found)
    assert found.findings[0] is finding
    assert (finding.output, finding.severity) == ("counts", Severity.PROBLEM)
    pattern = (
        r"output counts has been silent for 14 min: its watermark stands at [\d:]+ because partition 1 of "
        r"input events has sent nothing since [\d:]+ and late arrival is unlimited"
    )
    assert re.fullmatch(pattern, finding.text)
    assert finding.remedy.startswith("set a late tolerance")
    chain = text_of(finding)
    assert "output counts ← counts (tumbling window) ← input events" in chain
    assert "its watermark is set by the newest event less the out-of-order tolerance" in chain
    (due,) = found.next_rows
    assert (due.due_ticks is not None, due.expected) == (True, None), "nobody knows when it sends again"


def test_2_one_idle_partition_under_a_late_tolerance_is_waited_for(tmp_path: Path, clock: Clock) -> None:
    found = of_minutes(Folder(tmp_path, COUNTS, late_seconds=180), clock, 2, minutes=14)
    finding = the("IDLE_PARTITION", found)
    assert (finding.severity, found.healthy) == (Severity.WAITING, True)
    assert "idle time counts only after the late tolerance of 3 min" in finding.text
    assert "its watermark is set by arrival time less the late tolerance" in text_of(finding)


def test_2_a_job_without_an_exchange_waits_for_no_partition(tmp_path: Path, clock: Clock) -> None:
    query = "SELECT device, v INTO rows FROM events TIMESTAMP BY t WHERE v > 0"
    assert causes(of_minutes(Folder(tmp_path, query), clock, 2, minutes=3)) == []


def test_3_a_partition_that_never_had_an_event(tmp_path: Path, clock: Clock) -> None:
    project = Folder(tmp_path, COUNTS)
    (tmp_path / "events" / "1").mkdir()
    found = of_minutes(project, clock, 1, minutes=3)
    finding = the("PARTITION_WITHOUT_EVENTS", found)
    assert found.findings[0] is finding
    assert finding.severity is Severity.PROBLEM
    assert "output counts has had no row yet: it has no watermark" in finding.text
    assert "partition 1 of input events has never had an event" in finding.text


@pytest.mark.parametrize(("late_seconds", "healthy"), [(-1, False), (1800, True)])
def test_4_a_substream_that_stopped(late_seconds: int, healthy: bool, tmp_path: Path, clock: Clock) -> None:
    query = COUNTS.replace("BY t", "BY t OVER device")
    project = Folder(tmp_path, query, late_seconds=late_seconds)
    project.put(0, [*minute(clock), *minute(clock, device="b")])
    with RunInProcess(project.job()) as run:
        run.batches()
        for _ in range(8):
            clock.go_on(60)
            project.put(0, minute(clock))
            run.batches()
        run.report()
        found = diagnose_directory(run.directory)
    finding = the("SUBSTREAM_STOPPED", found)
    assert "substream b of input events has sent nothing after" in finding.text
    assert ("unlimited" in finding.text) is not healthy
    assert found.healthy is healthy


def test_substreams_are_reported_at_every_step_behind_the_input(tmp_path: Path, clock: Clock) -> None:
    query = "SELECT device, COUNT(*) AS n INTO counts FROM events TIMESTAMP BY t OVER device " + (
        "GROUP BY device, TumblingWindow(hour, 1)"
    )
    settings = {"OutputTimestamps": {"counts": "first element"}}
    project = Folder(tmp_path, query, late_seconds=-1, settings=settings)
    first = [event(clock, n, device=f"d{n:02}") for n in range(30)]
    rows = [*first, *(event(clock, 99 - n, device=f"d{n:02}") for n in range(30))]
    project.put(0, rows)
    with RunInProcess(project.job(key_groups=3)) as run:
        run.batches()
        run.report()
        status = read_status(run.directory)
    assert status is not None
    window = next(each for each in status.steps if each.kind == "tumbling window")
    before = status.steps[window.sources[0]]
    own = {
        step.operator: [
            (each.partition, each.name, each.watermark_ticks)
            for each in status.step_substreams
            if each.operator == step.substreams_of
        ]
        for step in (before, window, status.steps[-1])
    }

    def found(rows: list[dict[str, Any]], numbers: list[int]) -> list[tuple[str, str, int]]:
        return [("0", rows[n]["device"], ticks_of(rows[n]["t"])) for n in numbers]

    # The last event of each device is the earlier the greater its number, and the first the later.
    assert own[before.operator] == found(rows, [*range(59, 39, -1), *range(30, 35)])
    assert own[window.operator][:20] == found(first, [*range(20)])
    fastest = own[window.operator][20:]  # of those that all key groups list
    assert set(fastest) <= set(found(first, [*range(20, 30)]))
    assert own[status.steps[-1].operator] == own[window.operator]
    assert {each.substreams for each in (before, window, status.steps[-1])} == {30}
    line = next(each for each in status_lines(status) if "step counts" in each)
    assert "; 30 substreams are ahead: d00 at " in line


def test_1_an_input_that_has_stopped(tmp_path: Path, clock: Clock) -> None:
    project = Folder(tmp_path, COUNTS)
    found = of_minutes(project, clock, 1, minutes=1, idle=400)
    finding = the("INPUT_STOPPED", found)
    assert finding.severity is Severity.PROBLEM
    assert "6 min ago" in finding.text
    assert "open windows wait for the next event" in finding.text


def test_9_left_join_that_is_not_due_yet(tmp_path: Path, clock: Clock) -> None:
    query = JOIN.replace("JOIN", "LEFT JOIN").replace(
        "second, l, r) BETWEEN 0 AND 5", "minute, l, r) BETWEEN 0 AND 9"
    )
    found = of_a_minute(Folder(tmp_path, query, late_seconds=5), clock, other="nobody")
    finding = the("NOT_DUE", found)
    assert (found.healthy, finding.severity, finding.output) == (True, Severity.WAITING, "pairs")
    assert "waits for left rows" in finding.text
    assert "likely at about" in finding.text
    (due,) = found.next_rows
    assert due.due_ticks is not None
    assert due.expected is not None
    first = clock.iso(-60 + 540)
    assert abs(seconds_between(first, due.expected)) < 90


def seconds_between(first: str, second: str) -> float:
    return (ticks_of(second) - ticks_of(first)) / TICKS_PER_SECOND


def test_9_a_large_window_that_is_not_due_yet(tmp_path: Path, clock: Clock) -> None:
    query = COUNTS.replace("TumblingWindow(second, 10)", "TumblingWindow(day, 7)")
    found = of_a_minute(Folder(tmp_path, query, late_seconds=5), clock)
    finding = the("NOT_DUE", found)
    assert (found.healthy, finding.severity) == (True, Severity.WAITING)
    assert "waits for open windows of counts (tumbling window)" in finding.text
    (due,) = found.next_rows
    assert due.due_ticks is not None
    assert due.due_ticks % (7 * 24 * 3600 * TICKS_PER_SECOND) == ticks_of("2026-01-05T00:00:00Z") % (
        7 * 24 * 3600 * TICKS_PER_SECOND
    )


def test_the_chain_goes_through_every_stage(tmp_path: Path, clock: Clock) -> None:
    query = """
    WITH perDevice AS (
        SELECT device, COUNT(*) AS n FROM events TIMESTAMP BY t GROUP BY device, TumblingWindow(second, 10)
    )
    SELECT n, COUNT(*) AS devices INTO spread FROM perDevice GROUP BY n, TumblingWindow(day, 7)
    """
    finding = the("IDLE_PARTITION", of_minutes(Folder(tmp_path, query), clock, 2, minutes=3))
    chain = "output spread ← spread (tumbling window) ← perDevice (tumbling window) ← input events"
    assert finding.evidence[0] == chain
    held = [line for line in finding.evidence if "holds open windows" in line]
    assert [line.partition(" ")[0] for line in held] == ["spread", "perDevice"]
    assert re.search(r"\(stage 2, key group \d\)$", held[0])
    assert re.search(r"\(stage 1, key group \d\)$", held[1])


def test_files_without_times_of_arrival_wait_for_their_end(tmp_path: Path, clock: Clock) -> None:
    project = Folder(tmp_path, COUNTS, 5, arrival=None)
    project.put(0, minute(clock))
    with RunInProcess(project.job()) as run:
        run.batches()
        run.report()
        found = diagnose_directory(run.directory)
        status = read_status(run.directory)
    assert status is not None
    assert [each.watermark for each in status.inputs] == [None], "no datetime names it"
    finding = the("NO_ARRIVAL_TIMES", found)
    assert (finding.output, finding.severity) == ("counts", Severity.PROBLEM)
    assert "run with --once" in finding.remedy
    with RunInProcess(project.job(once=True, fresh=True)) as run:
        run.batches()
    assert diagnose_directory(run.directory).healthy
