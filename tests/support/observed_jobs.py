"""Job directories as observers find them, without a run: of a running, a dead and a replaying job.

    python tests/support/observed_jobs.py FOLDER          projects `running`, `dead` and `replaying` in FOLDER
    python tests/support/observed_jobs.py FOLDER --live   the same, and goes on writing until Ctrl-C

All three are of one query over an input `toll` of several partitions, a tumbling window and two outputs.
What is written is what a run would have written: `status.json`, `history.jsonl`, `runs.jsonl`, the lock.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from tideglass.core.time import TICKS_PER_MILLISECOND, TICKS_PER_MINUTE, TICKS_PER_SECOND, format_ticks
from tideglass.engine.reports import Component
from tideglass.ingress.reports import HeldBy
from tideglass.job.directory import JobDirectory
from tideglass.job.lock import RunLock
from tideglass.job.report.history import HistoryWriter, Mark, sample_of
from tideglass.job.report.run_journal import Ended, RunEnd, RunStart, add
from tideglass.job.report.status import (
    BatchStatus,
    CatchUpStatus,
    ErrorStatus,
    HolderStatus,
    InputStatus,
    JobState,
    OutputStatus,
    RangeStatus,
    Status,
    StepStatus,
    SubstreamStatus,
    write_status,
)

QUERY = """WITH perMinute AS (
    SELECT TollId, COUNT(*) AS cars, SUM(Toll) AS paid, System.Timestamp() AS at
    FROM toll TIMESTAMP BY EntryTime
    GROUP BY TollId, TumblingWindow(minute, 1)
)

SELECT TollId, cars, paid, at INTO counts FROM perMinute

SELECT TollId, License, Weight INTO heavy FROM toll TIMESTAMP BY EntryTime WHERE Weight > 3
"""
SETTINGS = (
    '{"EventsLateArrivalMaxDelayInSeconds": 20, "EventsOutOfOrderMaxDelayInSeconds": 5, '
    '"EventsOutOfOrderPolicy": "Adjust"}'
)
_OUT_OF_ORDER_TICKS = 5 * TICKS_PER_SECOND
_LATE_TICKS = 20 * TICKS_PER_SECOND


@dataclass(frozen=True, slots=True)
class Scene:
    """What the job is like.

    partitions: of the input.
    key_groups: of the one stage.
    events_per_second: of all partitions.
    idle_partition: one that has sent nothing in the last four minutes; None: all send.
    seconds: how long the run has lasted.
    """

    partitions: int = 4
    key_groups: int = 2
    events_per_second: int = 400
    idle_partition: int | None = None
    seconds: int = 600

    def status(self, now_ms: int, elapsed_seconds: float, run: int = 2) -> Status:
        """The status of the job after so much of the run, at that moment."""
        now_ticks = now_ms * TICKS_PER_MILLISECOND
        inputs = tuple(self._input(p, now_ticks, elapsed_seconds) for p in range(self.partitions))
        watermark_ticks = min(each.watermark_ticks or 0 for each in inputs)
        arrival_ticks = max(each.last_arrival_ticks or 0 for each in inputs)
        events = int(elapsed_seconds * self.events_per_second)
        closed_ticks = watermark_ticks // TICKS_PER_MINUTE * TICKS_PER_MINUTE
        # Windows that the watermark of an idle partition has closed since the start.
        late_ticks = now_ticks - _LATE_TICKS - 3 * TICKS_PER_SECOND
        windows = (
            late_ticks // TICKS_PER_MINUTE
            - (late_ticks - int(elapsed_seconds * TICKS_PER_SECOND)) // TICKS_PER_MINUTE
        )
        return Status(
            job="tollbooth",
            run=run,
            state=JobState.RUNNING,
            since=iso(now_ms - int(elapsed_seconds * 1000)),
            updated=iso(now_ms),
            pid=os.getpid(),
            host=socket.gethostname(),
            generation=1,
            mode="now",
            cause="resumed from the checkpoint; run 1 was stopped",
            batches=int(elapsed_seconds // 3),
            events=events,
            inputs=inputs,
            watermark_delay_seconds=(arrival_ticks - watermark_ticks) / TICKS_PER_SECOND,
            counters={
                "InputEvents": events,
                "EarlyInputEvents": events // 5000,
                "LateInputEvents": events // 300,
                "DroppedOrAdjustedEvents": events // 90,
                "DeserializationError": 3,
                "InputEventBytes": events * 120,
                "Errors": 0,
                "OutputEvents": windows * 12 + events // 10,
            },
            rows={"counts": windows * 12, "heavy": events // 10},
            rows_in_all={"counts": windows * 12 + 240, "heavy": events // 10 + 9_000},
            error="3 events of toll/1 refused: no JSON (the first at 812)",
            steps=self._steps(watermark_ticks, closed_ticks, arrival_ticks, events, windows * 12),
            ranges=tuple(
                RangeStatus(
                    1, group, windows * 24, windows * 12 // self.key_groups, watermark_ticks, watermark_ticks
                )
                for group in range(self.key_groups)
            ),
            substreams=(
                SubstreamStatus("toll", "0", 0, "booth 7", watermark_ticks, watermark_ticks + 1),
                SubstreamStatus("toll", "1", 0, "booth 2", now_ticks - TICKS_PER_SECOND, now_ticks),
            ),
            outputs=(
                OutputStatus(
                    "counts",
                    "files",
                    True if windows else None,
                    windows,
                    rows=windows * 12,
                    last_row=iso(closed_ticks // TICKS_PER_MILLISECOND + 7_000) if windows else None,
                    last_row_ticks=closed_ticks if windows else None,
                    seconds=windows * 0.004,
                ),
                OutputStatus(
                    "heavy",
                    "files",
                    True,
                    int(elapsed_seconds // 3),
                    rows=events // 10,
                    last_row=iso(now_ms - 1_200),
                    last_row_ticks=now_ticks - 3 * TICKS_PER_SECOND,
                    seconds=elapsed_seconds * 0.002,
                ),
            ),
            recent_batches=tuple(
                BatchStatus(
                    number,
                    iso(now_ms - int(elapsed_seconds * 1000) + number * 3_000),
                    0.4 + 0.05 * (number % 5),
                    self.events_per_second * 3,
                    self.events_per_second * 3 // 10 + (12 if number % 20 == 0 else 0),
                    0.03,
                )
                for number in range(max(0, int(elapsed_seconds // 3) - 60), int(elapsed_seconds // 3))
            ),
            batch_began=iso(now_ms - 300),
            errors=(
                ErrorStatus(
                    "toll",
                    "1",
                    "InputDeserializationError.InvalidData",
                    3,
                    "no JSON",
                    '{"TollId": 7,',
                    iso(now_ms),
                ),
            ),
            backlog={"toll": self.events_per_second},
            memory_bytes=900 * 1024 * 1024 + events * 16,
            memory_limit_bytes=4 * 1024**3,
        )

    def _input(self, partition: int, now_ticks: int, elapsed_seconds: float) -> InputStatus:
        idle = partition == self.idle_partition and elapsed_seconds > 240
        # A partition that is ahead by less than the others shows which one holds the watermark.
        newest_ticks = now_ticks - TICKS_PER_SECOND * (2 + 3 * partition // self.partitions)
        arrival_ticks = newest_ticks + TICKS_PER_SECOND
        if idle:
            newest_ticks -= 240 * TICKS_PER_SECOND
            watermark_ticks, held_by = arrival_ticks - _LATE_TICKS, HeldBy.ARRIVAL_TIME
            arrival_ticks -= 240 * TICKS_PER_SECOND
        else:
            watermark_ticks, held_by = newest_ticks - _OUT_OF_ORDER_TICKS, HeldBy.EVENT_TIME
        events = int(elapsed_seconds * self.events_per_second) // self.partitions
        return InputStatus(
            "toll",
            str(partition),
            events,
            format_ticks(watermark_ticks),
            max(0.0, (arrival_ticks - watermark_ticks) / TICKS_PER_SECOND),
            watermark_ticks=watermark_ticks,
            event_time_ticks=newest_ticks,
            last_arrival_ticks=arrival_ticks,
            held_by=held_by,
            oldest_held_ticks=watermark_ticks + 1,
            rows_held=5 * self.events_per_second // self.partitions,
            counters={"InputEvents": events, "LateInputEvents": events // 300},
            decisions={"accepted": events - events // 300, "adjusted_late": events // 300},
            last_event=iso(arrival_ticks // TICKS_PER_MILLISECOND),
            substreams=0,
            percentiles_ticks={
                p: watermark_ticks + max(0, newest_ticks - watermark_ticks) * (100 - p) // 100
                for p in (33, 50, 66, 90, 95, 99)
            },
        )

    def _steps(
        self, watermark_ticks: int, closed_ticks: int, arrival_ticks: int, events: int, windows: int
    ) -> tuple[StepStatus, ...]:
        """The operators of QUERY, as the topology has them."""

        slowest = self.idle_partition if self.idle_partition is not None else self.partitions - 1
        rule = HeldBy.EVENT_TIME if self.idle_partition is None else HeldBy.ARRIVAL_TIME
        reading = HolderStatus(
            Component.EXTERNAL_INPUT,
            f"watermark of the partition, by {rule}",
            f"toll/{slowest}",
            watermark_ticks,
        )

        def step(
            operator: int, level: int, kind: str, name: str, sources: tuple[int, ...], rows: int
        ) -> StepStatus:
            line, column = {"toll": (3, 10), "perMinute": (1, 6), "counts": (7, 1), "heavy": (9, 1)}[name]
            ranges = self.key_groups if level else self.partitions
            return StepStatus(
                operator,
                level,
                kind,
                name,
                line,
                column,
                sources,
                rows_in=rows,
                rows_out=rows,
                input_watermark_ticks=watermark_ticks,
                output_watermark_ticks=watermark_ticks,
                data_watermark_lag_seconds=(arrival_ticks - watermark_ticks) / TICKS_PER_SECOND,
                system_watermark_lag_seconds=0.3,
                latency_seconds=0.0,
                holders=(reading,),
                ranges=ranges,
                ranges_reported=ranges,
            )

        windows_open = HolderStatus(
            Component.STATE,
            "open windows",
            "stage 1, key group 0",
            closed_ticks + TICKS_PER_MINUTE,
            closed_ticks + TICKS_PER_MINUTE,
            24,
        )
        return (
            step(0, 0, "input", "toll", (), events),
            step(1, 0, "projection", "perMinute", (0,), events),
            replace(step(2, 0, "partial aggregation", "perMinute", (1,), events), rows_out=windows * 6),
            step(3, 0, "send", "perMinute", (2,), windows * 6),
            step(4, 1, "receive", "perMinute", (3,), windows * 6),
            replace(
                step(5, 1, "tumbling window", "perMinute", (4,), windows * 6),
                rows_out=windows,
                holders=(reading, windows_open),
            ),
            step(6, 1, "projection", "counts", (5,), windows),
            replace(step(7, 1, "output", "counts", (6,), windows), output="counts"),
            replace(step(8, 0, "filter", "heavy", (0,), events), rows_out=events // 10),
            replace(step(9, 0, "output", "heavy", (8,), events // 10), output="heavy"),
        )


def iso(at_ms: int) -> str:
    """A moment of the wall clock as a status has it."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def make_project(folder: Path) -> JobDirectory:
    """A project of QUERY, and its job directory."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tollbooth.asaql").write_text(QUERY)
    (folder / "JobConfig.json").write_text(SETTINGS)
    directory = JobDirectory.of_project(folder)
    directory.path.mkdir()
    return directory


def write_run(directory: JobDirectory, scene: Scene, now_ms: int) -> Status:
    """A first run that was stopped, and a second one that has lasted `scene.seconds`; answers its status."""
    began_ms = now_ms - scene.seconds * 1000
    history = HistoryWriter(directory)
    first = RunStart(
        1, iso(began_ms - 300_000), 1, False, "now", "first start", "now", 7, socket.gethostname()
    )
    add(directory.journal, first)
    for second in range(0, 121, 2):
        mark = Mark.START if second == 0 else Mark.END if second == 120 else None
        at_ms = began_ms - 300_000 + second * 1000
        history.add(sample_of(scene.status(at_ms, second, run=1), at_ms, mark))
    add(
        directory.journal,
        RunEnd(1, iso(began_ms - 180_000), Ended.STOPPED, 40, 48_000, {"counts": 240, "heavy": 9_000}),
    )
    second_run = replace(
        first,
        run=2,
        started=iso(began_ms),
        resumed=True,
        pid=os.getpid(),
        cause="resumed from the checkpoint",
    )
    add(directory.journal, second_run)
    for second in range(0, scene.seconds + 1, 2):
        at_ms = began_ms + second * 1000
        history.add(sample_of(scene.status(at_ms, second), at_ms, None if second else Mark.START))
    status = scene.status(now_ms, scene.seconds)
    write_status(directory, status)
    return status


@contextmanager
def running_job(folder: Path, scene: Scene = Scene(), now_ms: int | None = None) -> Generator[JobDirectory]:
    """A job that runs as long as this lasts: its lock is held."""
    directory = make_project(folder)
    with RunLock(directory):
        write_run(directory, scene, time.time_ns() // 1_000_000 if now_ms is None else now_ms)
        yield directory


def dead_job(folder: Path, scene: Scene = Scene(), now_ms: int | None = None) -> JobDirectory:
    """A job that was killed five minutes ago: its status says Running, and nobody holds the lock."""
    directory = make_project(folder)
    with RunLock(directory):
        held = directory.lock.read_bytes()
        write_run(directory, scene, (time.time_ns() // 1_000_000 if now_ms is None else now_ms) - 300_000)
    directory.lock.write(held)  # a lock that is let go of is empty
    return directory


@contextmanager
def replaying_job(folder: Path, scene: Scene = Scene(), now_ms: int | None = None) -> Generator[JobDirectory]:
    """A job that reads earlier events again and has emitted nothing yet."""
    directory = make_project(folder)
    with RunLock(directory):
        at_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        status = write_run(directory, scene, at_ms)
        write_status(directory, replaying(status))
        yield directory


def replaying(status: Status) -> Status:
    """The status of a run that has read a third of what it reads again."""
    return replace(
        status,
        generation=2,
        cause="the state is built anew: the step 'perMinute' is another",
        rows={"counts": 0, "heavy": 0},
        rows_in_all={"counts": 0, "heavy": 0},
        outputs=tuple(OutputStatus(each.output, each.connector) for each in status.outputs),
        catching_up=CatchUpStatus(
            "the state is built anew: the step 'perMinute' is another",
            "arrival time 2026-03-01T07:54:20Z",
            status.events,
            status.events * 3,
            200_000.0,
            1 / 3,
            status.events / 200_000,
            status.events * 2 / 200_000,
        ),
    )


def main() -> None:
    folder, live = Path(sys.argv[1]), "--live" in sys.argv
    scene = Scene(idle_partition=3)
    with ExitStack() as open_jobs:
        running = open_jobs.enter_context(running_job(folder / "running", scene))
        dead_job(folder / "dead", scene)
        again = open_jobs.enter_context(replaying_job(folder / "replaying"))
        print(f"{folder}/running, dead, replaying")
        histories = HistoryWriter(running), HistoryWriter(again)
        began = time.monotonic()
        while live:
            time.sleep(2)
            now_ms, elapsed = time.time_ns() // 1_000_000, scene.seconds + time.monotonic() - began
            status, other = scene.status(now_ms, elapsed), replaying(Scene().status(now_ms, elapsed))
            write_status(running, status)
            write_status(again, other)
            histories[0].add(sample_of(status, now_ms))
            histories[1].add(sample_of(other, now_ms))


if __name__ == "__main__":
    main()
