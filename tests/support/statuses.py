"""A status of a job in which every field has a value."""

from __future__ import annotations

from tideglass.core.time import TICKS_PER_SECOND, parse_ticks
from tideglass.job.report.status import (
    BatchStatus,
    CatchUpStatus,
    ErrorStatus,
    HolderStatus,
    InputStatus,
    JobState,
    OutputStatus,
    RangeStatus,
    ReferenceStatus,
    Status,
    StepStatus,
    SubstreamStatus,
)

NOON = parse_ticks("2026-01-01T12:00:00Z") or 0


def at(seconds: float) -> int:
    """Ticks of so many seconds after noon."""
    return NOON + round(seconds * TICKS_PER_SECOND)


def full_status(**changes: object) -> Status:
    """A running job with two partitions, a window and an output; changes: other values of fields."""
    values: dict[str, object] = {
        "job": "toll",
        "run": 3,
        "state": JobState.RUNNING,
        "since": "2026-01-01T12:00:00Z",
        "updated": "2026-01-01T12:02:00Z",
        "pid": 4711,
        "host": "node-a",
        "generation": 2,
        "mode": "beginning",
        "cause": "the first run",
        "batches": 7,
        "events": 150,
        "inputs": (
            InputStatus(
                "toll",
                "0",
                100,
                "2026-01-01T12:00:50.0000000Z",
                10.0,
                watermark_ticks=at(50),
                event_time_ticks=at(55),
                last_arrival_ticks=at(60),
                held_by="event time",
                oldest_held_ticks=at(51),
                rows_held=4,
                counters={
                    "InputEvents": 98,
                    "DeserializationError": 2,
                    "InputEventBytes": 5000,
                    "InputEventsSourcesPerSecond": 100,
                    "LateInputEvents": 3,
                    "DroppedOrAdjustedEvents": 5,
                },
                last_event="2026-01-01T12:01:58Z",
                substreams=2,
                decisions={
                    "accepted": 90,
                    "adjusted_late": 3,
                    "adjusted_out_of_order": 5,
                    "arrivals_raised": 2,
                },
                percentiles_ticks={50: at(54), 95: at(51)},
            ),
            InputStatus(
                "toll",
                "1",
                50,
                "2026-01-01T12:00:30.0000000Z",
                28.0,
                watermark_ticks=at(30),
                event_time_ticks=at(40),
                last_arrival_ticks=at(58),
                held_by="arrival time",
                counters={"InputEvents": 50, "InputEventBytes": 2500},
                last_event="2026-01-01T12:01:50Z",
            ),
        ),
        "watermark_delay_seconds": 28.0,
        "counters": {"InputEvents": 148, "OutputEvents": 12, "Errors": 1},
        "rows": {"perMinute": 9},
        "rows_in_all": {"perMinute": 12},
        "catching_up": CatchUpStatus("the first run", "the beginning", 150, 300, 75.0, 0.5, 2.0, 2.0),
        "steps": (
            StepStatus(
                0, 0, "scan", "toll", rows_in=148, rows_out=145,
                input_watermark_ticks=at(30), output_watermark_ticks=at(30),
                data_watermark_lag_seconds=30.0, ranges=2, ranges_reported=2,
            ),
            StepStatus(
                1, 1, "tumbling window", "perMinute", 3, 1, (0,), "perMinute", 145, 9,
                at(30), at(20), 40.0, 1.5, 10.0,
                (HolderStatus("state", "open windows", "stage 1, key group 0", at(20), at(60), 36),),
                4, 4,
            ),
        ),
        "ranges": (RangeStatus(1, 0, 145, 9, at(30), at(20)),),
        "substreams": tuple(
            SubstreamStatus("toll", "0", 0, f"car {number}", at(50 - number), at(52)) for number in range(8)
        ),
        "outputs": (
            OutputStatus(
                "perMinute", "files", True, 5, 1, "no space left", 9, "2026-01-01T12:01:40Z", at(0), 0.25
            ),
        ),
        "recent_batches": (BatchStatus(6, "2026-01-01T12:01:55Z", 1.5, 20, 2, 0.25),),
        "batch_began": "2026-01-01T12:01:57Z",
        "references": (ReferenceStatus("booths", 2, 40, at(0)),),
        "errors": (
            ErrorStatus(
                "toll", "0", "InputDeserializerError.InvalidData", 2, "it is no JSON", '{"a',
                "2026-01-01T12:01:00Z",
            ),
        ),
        "backlog": {"toll": 1234},
        "memory_bytes": 1 << 30,
        "memory_limit_bytes": 4 << 30,
        "cpu_percent": 37.5,
    }  # fmt: skip
    return Status(**(values | changes))  # type: ignore[arg-type]
