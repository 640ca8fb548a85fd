"""What the time policies move or drop is reported by kind, with the first event of each kind in a batch."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.frames import Frames, Row, table
from support.times import at
from tideglass.core.events import POLICY_ERRORS, Rejected
from tideglass.ingress import error_samples
from tideglass.ingress.reports import BatchReports, PartitionReport

ONE = "SELECT COUNT(*) AS n, SUM(v) AS s INTO o FROM a TIMESTAMP BY t GROUP BY TumblingWindow(second, 10)"
OVER = "SELECT d, v INTO o FROM a TIMESTAMP BY t OVER d"


def event(offset: int, time: str | None, arrival: float, value: int = 0, device: str | None = "x") -> Row:
    return {"t": time, "d": device, "v": value, "came": at(arrival), "p": 0, "o": offset}


def report_of(rows: list[Row], query: str = ONE, **settings: str) -> PartitionReport:
    """The report of a batch with rows in one partition; late tolerance 5 s, out of order 2 s, early 5 min."""
    chosen = {"late_arrival": "5s", "out_of_order": "2s", **settings}
    frames = Frames(query, {"arrival": "came", "partition": "p", "offset": "o"}, settings=chosen)
    frames.batch({"a": [table(rows)]})
    (report,) = BatchReports.of(frames.messages).partitions
    return report


def by_kind(report: PartitionReport) -> dict[str, Rejected]:
    return {each.error_type: each for each in report.offending}


def test_kinds_are_those_that_are_told_from_errors_of_the_deserializer():
    assert error_samples._KINDS.keys() == POLICY_ERRORS  # pyright: ignore[reportPrivateUsage]


def test_events_that_are_accepted_are_no_offence():
    assert report_of([event(n, at(n), n) for n in range(5)]).offending == ()


@pytest.mark.parametrize("policy", ["adjust", "drop"])
def test_a_late_event_is_counted_and_the_first_is_shown(policy: str):
    rows = [event(0, at(60), 60), event(1, at(50), 60.5, 7), event(2, at(51), 61, 8)]
    found = by_kind(report_of(rows, policy=policy))
    late = found["LateInputEvent"]
    assert (late.count, late.first_line) == (2, 1)
    assert json.loads(late.examples[0]) == {"t": at(50), "v": 7}
    assert "was sent later than configured tolerance" in late.message
    assert f"application timestamp '{at(50)[:-1]}" in late.message


def test_an_event_before_a_watermark_at_a_percentile_is_late_and_says_so():
    rows = [event(n, at(60 + n), 60 + n) for n in range(11)] + [event(11, at(64), 70.5, 7)]
    settings = {"late_arrival": "60s", "out_of_order": "30s", "watermarks": "at percentile 50"}
    (late,) = report_of(rows, **settings).offending
    assert (late.error_type, late.count, late.first_line) == ("LateInputEvent", 1, 11)
    assert "was sent later than the watermark at percentile 50" in late.message
    assert report_of(rows, **{**settings, "watermarks": "at percentile 100"}).offending == ()


def test_an_event_out_of_order_an_early_one_and_one_without_a_time_have_kinds_of_their_own():
    rows = [
        event(0, at(60), 60),
        event(1, at(57), 60.2),  # 3 s before the newest, with 2 s allowed, and 3.2 s late, with 5 s allowed
        event(2, at(6000), 60.4),
        event(3, None, 60.6),
        event(4, "noon", 60.8),
    ]
    found = by_kind(report_of(rows))
    assert {kind: (each.count, each.first_line) for kind, each in found.items()} == {
        "OutOfOrderEvent": (1, 1),
        "EarlyInputEvent": (1, 2),
        "InvalidInputTimeStamp": (2, 3),
    }
    assert "application timestamp" not in found["InvalidInputTimeStamp"].message


def test_an_event_without_a_key_of_over_is_named_so():
    rows = [event(0, at(1), 1), event(1, at(2), 2, device=None)]
    found = by_kind(report_of(rows, OVER))
    assert {kind: each.count for kind, each in found.items()} == {"InvalidInputTimeStampKey": 1}


def test_counts_are_those_of_the_counters():
    rows = [event(n, at(60 + n - (0, 4, 0, 8, 3)[n % 5]), 60 + n) for n in range(50)]
    report = report_of(rows)
    metrics = report.readers[0].counters.metrics()
    found: dict[str, Any] = {kind: each.count for kind, each in by_kind(report).items()}
    assert metrics["LateInputEvents"] > 0
    assert metrics["DroppedOrAdjustedEvents"] > 0
    assert found == {
        "LateInputEvent": metrics["LateInputEvents"],
        "OutOfOrderEvent": metrics["DroppedOrAdjustedEvents"],
    }


def test_a_long_event_is_cut():
    rows = [event(0, at(60), 60, device="x"), event(1, at(50), 60.5, device="y" * 10_000)]
    late = by_kind(report_of(rows, "SELECT d INTO o FROM a TIMESTAMP BY t"))["LateInputEvent"]
    assert len(late.examples[0]) == 500


def test_messages_are_counted_before_they_are_decoded():
    assert report_of([event(n, None if n else at(1), 1) for n in range(5)]).sources == 5
