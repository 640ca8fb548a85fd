"""A status stays small and cheap with very many partitions and substreams."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from support.job_in_process import Folder
from tideglass.core.time import TICKS_PER_SECOND
from tideglass.engine.reports import Component, Hold, OperatorReport, StageReport
from tideglass.engine.substream_watermarks import SubstreamsAhead, SubstreamWatermark
from tideglass.ingress.decisions import Counters
from tideglass.ingress.reports import BatchReports, HeldBy, PartitionReport, ReaderReport, SubstreamReport
from tideglass.job.directory import JobDirectory
from tideglass.job.report.batch_times import Moment
from tideglass.job.report.history import read_history
from tideglass.job.report.metrics import Metrics
from tideglass.job.report.reporter import Reporter
from tideglass.job.report.run_journal import RunStart, add
from tideglass.job.report.run_view import RunView
from tideglass.job.report.status import read_status
from tideglass.job.start.begin import RunSetup
from tideglass.job.start.decision import StartMode, StartPlan
from tideglass.plan.topology import Topology

PARTITIONS, SUBSTREAMS, KEY_GROUPS = 512, 20_000, 16
QUERY = """WITH minutes AS (
    SELECT booth, COUNT(*) AS n FROM events TIMESTAMP BY t GROUP BY booth, TumblingWindow(minute, 1)
), hours AS (
    SELECT booth, SUM(n) AS n FROM minutes GROUP BY booth, HoppingWindow(minute, 60, 5)
)
SELECT booth, n INTO counts FROM minutes
SELECT booth, n INTO perHour FROM hours
SELECT booth INTO heavy FROM events TIMESTAMP BY t WHERE weight > 3
"""
BEGAN_TICKS = 1_790_000_000 * TICKS_PER_SECOND


def hold(kind: str, number: int) -> Hold:
    return Hold(
        Component.STATE, kind, BEGAN_TICKS - number * 7919, 1000 + number, BEGAN_TICKS + number * 104_729
    )


def operators(topology: Topology, level: int, number: int, batch: int) -> tuple[OperatorReport, ...]:
    at = BEGAN_TICKS + batch * TICKS_PER_SECOND - number * 1_234_567
    holds = (hold("open windows", number), hold("rows within the out-of-order tolerance", number + 1))
    slowest, fastest = (
        tuple(SubstreamWatermark(f"{n % 512}/s13:device {n:06}", at + n * 997) for n in numbers)
        for numbers in (range(20), range(SUBSTREAMS, SUBSTREAMS - 5, -1))
    )
    ahead = SubstreamsAhead(SUBSTREAMS, slowest, fastest) if level else None
    return tuple(
        OperatorReport(op.id, 10_000 + number, 9_000, at, at, holds, ahead) for op in topology.at(level)
    )


def partition(topology: Topology, number: int, batch: int) -> PartitionReport:
    at = BEGAN_TICKS + batch * TICKS_PER_SECOND - number * 1_234_567
    own = range(number * SUBSTREAMS // PARTITIONS, (number + 1) * SUBSTREAMS // PARTITIONS)
    substreams = [SubstreamReport(f"device {n:06}", at + n * 997, at + n * 997 + 50_000_000) for n in own]
    reader = ReaderReport(
        0,
        Counters(10_000_000 + number * 17, 100 + number, 200, 3, 40 + number, 5, 6),
        at,
        at + 61_000_003,
        len(substreams),
        event_time_ticks=at + 50_000_000 + number,
        held_by=HeldBy.EVENT_TIME if number % 3 else HeldBy.ARRIVAL_TIME,
        oldest_held_ticks=at + 1 + number,
        rows_held=1000 + number,
        slowest=tuple(substreams[:20]),
        fastest=tuple(substreams[-5:]),
        percentiles_ticks={p: at + p * 100_003 for p in (33, 50, 66, 90, 95, 99)},
    )
    return PartitionReport(
        "telemetry events",
        str(number),
        rejected=number % 7,
        bytes=987_654_321 + number,
        readers=(reader,),
        operators=operators(topology, 0, number, batch),
    )


@pytest.fixture
def reporter(tmp_path: Path) -> Reporter:
    folder = Folder(
        tmp_path / "job", QUERY.replace("events", "[telemetry events]"), inputs=("telemetry events",)
    )
    view = RunView.of(folder.job(key_groups=KEY_GROUPS), 1)
    directory = JobDirectory(tmp_path / "run")
    directory.path.mkdir()
    start = RunStart(1, "2026-01-01T00:00:00Z", 1, False, "now", "first start", "now", 7, "here")
    add(directory.journal, start)
    plan = StartPlan(1, False, StartMode.NOW, "first start")
    return Reporter("telemetry", directory, RunSetup(start, plan, None), Metrics(), view)


def test_with_512_partitions_and_20000_substreams_it_is_below_200_kb(reporter: Reporter):
    view = reporter.view
    assert view is not None
    topology = view.watermarks.topology
    spent_seconds: list[float] = []
    with reporter:
        for batch in range(70):
            few = PARTITIONS if batch in (0, 69) else 4
            reports = BatchReports(
                tuple(partition(topology, number, batch) for number in range(few)),
                tuple(
                    StageReport(level, group, operators=operators(topology, level, group, batch))
                    for level in range(1, topology.levels + 1)
                    for group in range(KEY_GROUPS)
                ),
            )
            rows = {"counts": 5_000, "perHour": 400, "heavy": 100_000}
            with reporter.changing() as metrics:
                metrics.take_batch(reports, rows, "2026-01-01T00:00:00.000Z")
                view.began(batch)
                view.take_batch(batch, reports, rows, dict.fromkeys(rows, BEGAN_TICKS), 10_000, Moment.now())
        for _ in range(5):
            before_seconds = time.thread_time()
            reporter._write()  # pyright: ignore[reportPrivateUsage]
            spent_seconds.append(time.thread_time() - before_seconds)
    status = read_status(reporter.directory)
    assert status is not None
    assert len(status.inputs) == PARTITIONS
    assert len(status.substreams) == 25
    assert len(status.step_substreams) == 25 * sum(op.level > 0 for op in topology.ops)
    assert len(status.recent_batches) == 60
    assert len(status.ranges) == KEY_GROUPS * topology.levels
    assert reporter.directory.status.status().size < 200_000
    assert len(read_history(reporter.directory)[-1].inputs) == 1
    assert min(spent_seconds) < 0.1, "of a core; one is written every two seconds"
