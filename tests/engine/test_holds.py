"""What each kind of operator says it holds, since when, and what lets it go (`asa.md` 11.3, 11.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from support.harness import Inputs, Manner, Played, compiled_for, play
from support.watermark_laws import reported
from tideglass.connect.reference.references import InlineReferences
from tideglass.core.time import BEFORE_ALL_TICKS, format_ticks, parse_ticks
from tideglass.engine.exchange import RowSink
from tideglass.engine.key_group import KeyGroupTask
from tideglass.engine.messages import WATERMARKS, Kind, Message
from tideglass.engine.reports import STAGE_REPORT, Component, Hold, OperatorReport
from tideglass.engine.stage import Stage
from tideglass.ingress.reports import PARTITION_REPORT, BatchReports, HeldBy
from tideglass.local import LocalDriver, PartitionBatch
from tideglass.operators.state.store import MemoryState
from tideglass.plan.topology import (
    AnalyticOp,
    EmitOp,
    JoinOp,
    PatternOp,
    ReceiveOp,
    ScanOp,
    SendOp,
    WindowOp,
)

#: Events are in order and nothing is late.
IN_ORDER = {"late_arrival": "1h", "out_of_order": "0s"}
COUNTS = "SELECT COUNT(*) AS n FROM x TIMESTAMP BY t GROUP BY TumblingWindow(minute, 5)"


def at(time: str) -> str:
    """The time of day on the day all of this happens."""
    return f"2026-01-01T{time}Z"


def ticks(time: str) -> int:
    found = parse_ticks(at(time))
    assert found is not None
    return found


def events(*times: str, **fields: Any) -> list[dict[str, Any]]:
    """Events that arrive when they happen."""
    return [{"t": at(time), "k": "a", "_arrival": at(time), **fields} for time in times]


def played_once(query: str, inputs: Inputs, settings: Mapping[str, Any] = IN_ORDER) -> Played:
    """All events in one batch, before the end of the inputs."""
    return play(query, inputs, settings, Manner(key_groups=1), partitions=1, stop_after=1)


def report_of(played: Played, kind: type) -> OperatorReport:
    """The report of the only operator of a kind."""
    topology = played.compiled.topology
    (found,) = (
        report
        for operators in reported(played.reports[-1]).values()
        for report in operators.values()
        if isinstance(topology.op(report.operator), kind)
    )
    return found


def shown(hold: Hold) -> tuple[str, str, int | None, str | None]:
    """Kind, oldest, rows, due."""
    due = None if hold.due_ticks is None else format_ticks(hold.due_ticks)[11:19]
    return hold.kind, format_ticks(hold.oldest_ticks)[11:19], hold.rows, due


def test_a_tumbling_window_holds_its_rows_until_its_end_and_no_watermark() -> None:
    report = report_of(played_once(COUNTS, {"x": events("12:01:00", "12:03:00", "12:07:00")}), WindowOp)
    assert [shown(hold) for hold in report.holds] == [("open windows", "12:05:00", 1, "12:10:00")]
    assert not report.holds[0].holds_watermark
    assert report.output_watermark_ticks == report.input_watermark_ticks == ticks("12:07:00")
    assert (report.rows_in, report.rows_out) == (2, 1)


def test_hopping_windows_are_due_at_the_end_of_the_first_that_is_open() -> None:
    query = "SELECT COUNT(*) AS n FROM x TIMESTAMP BY t GROUP BY HoppingWindow(minute, 10, 5)"
    report = report_of(played_once(query, {"x": events("12:01:00", "12:07:00")}), WindowOp)
    assert [shown(hold) for hold in report.holds] == [("open windows", "12:00:00", 2, "12:10:00")]


def test_sliding_windows_are_due_when_the_first_row_leaves() -> None:
    query = "SELECT COUNT(*) AS n FROM x TIMESTAMP BY t GROUP BY SlidingWindow(minute, 5)"
    report = report_of(played_once(query, {"x": events("12:01:00", "12:03:00")}), WindowOp)
    (hold,) = report.holds
    assert hold.kind == "open sliding windows"
    # 12:03 itself enters first: a row of that time may still arrive
    assert hold.due_ticks == ticks("12:03:00")
    report = report_of(played_once(query, {"x": events("12:01:00", "12:03:00", "12:05:00")}), WindowOp)
    assert report.holds[0].due_ticks == ticks("12:05:00")


def test_a_session_is_due_when_its_timeout_is_over() -> None:
    query = "SELECT k, COUNT(*) AS n FROM x TIMESTAMP BY t GROUP BY k, SessionWindow(minute, 3, 60)"
    report = report_of(played_once(query, {"x": events("12:01:00", "12:02:00", "12:03:30")}), WindowOp)
    (hold,) = report.holds
    assert (hold.component, hold.kind, hold.holds_watermark) == (Component.STATE, "open sessions", False)
    # one mini session for the three events: it ends three minutes after the last
    assert hold.due_ticks == hold.oldest_ticks == ticks("12:06:30")


def test_a_session_whose_chain_was_cut_waits_for_an_event_alone() -> None:
    query = "SELECT k, COUNT(*) AS n FROM x TIMESTAMP BY t GROUP BY k, SessionWindow(minute, 3, 5)"
    times = ("12:01:00", "12:03:00", "12:05:00", "12:07:00", "12:09:00")
    inputs = {"x": [*events(*times), *events("12:10:01", k="b")]}
    report = report_of(played_once(query, inputs), WindowOp)
    assert report.rows_out == 1
    (hold,) = report.holds
    assert hold.due_ticks is None


def test_the_left_rows_of_a_left_join_are_held_until_they_are_due() -> None:
    query = (
        "SELECT x.k FROM x TIMESTAMP BY t LEFT JOIN y TIMESTAMP BY t "
        "ON x.k = y.k AND DATEDIFF(minute, x, y) BETWEEN 0 AND 5"
    )
    inputs = {"x": events("12:01:30"), "y": events("12:02:00", k="b")}
    report = report_of(played_once(query, inputs), JoinOp)
    left, right = sorted(report.holds, key=lambda hold: hold.oldest_ticks)
    # DATEDIFF counts whole minutes: 12:06:59 is the last instant of the fifth
    assert shown(left)[0] == "left rows that wait for a match or for their due time"
    assert left.oldest_ticks <= ticks("12:01:30") < left.oldest_ticks + ticks("00:00:05") - ticks("00:00:00")
    assert left.due_ticks == ticks("12:07:00") - 1
    assert (left.rows, left.holds_watermark) == (1, False)
    assert shown(right)[0] == "right rows that wait for a match"
    assert report.output_watermark_ticks == report.input_watermark_ticks == ticks("12:01:30")


def test_a_left_row_whose_stamp_the_watermark_has_passed_holds_the_output_watermark() -> None:
    query = (
        "SELECT x.k FROM x TIMESTAMP BY t LEFT JOIN y TIMESTAMP BY t "
        "ON x.k = y.k AND DATEDIFF(minute, x, y) BETWEEN 0 AND 5"
    )
    inputs = {"x": [*events("12:01:30"), *events("12:06:45")], "y": events("12:06:45", k="b")}
    report = report_of(played_once(query, inputs), JoinOp)
    hold = report.holds[0]
    assert report.input_watermark_ticks == ticks("12:06:45")
    assert report.output_watermark_ticks == hold.oldest_ticks == ticks("12:06:30")
    assert hold.holds_watermark
    assert hold.due_ticks == ticks("12:07:00") - 1


def test_an_analytic_function_holds_rows_for_their_order_and_rows_to_look_back_at() -> None:
    query = "SELECT LAG(k) OVER (LIMIT DURATION(minute, 2)) AS before FROM x TIMESTAMP BY t"
    report = report_of(played_once(query, {"x": events("12:01:00", "12:01:30")}), AnalyticOp)
    assert [(hold.kind, hold.rows) for hold in report.holds] == [
        ("rows that a later row may look back at", 1),
        ("rows that wait for their order", 1),
    ]
    back, waiting = report.holds
    assert waiting.oldest_ticks == waiting.due_ticks == ticks("12:01:30")
    assert back.oldest_ticks <= ticks("12:01:00")
    assert (report.rows_in, report.rows_out) == (2, 1)


def test_a_partial_match_holds_the_output_watermark_at_the_row_it_may_make() -> None:
    query = (
        "SELECT * FROM x TIMESTAMP BY t MATCH_RECOGNIZE (LIMIT DURATION(minute, 10) PARTITION BY k "
        "MEASURES Last(A.v) AS n AFTER MATCH SKIP TO NEXT ROW PATTERN (A B*) "
        "DEFINE A AS A.v = 1, B AS B.v = 2) AS m"
    )
    inputs = {"x": [*events("12:01:00", v=1), *events("12:02:00", "12:03:00", v=2)]}
    report = report_of(played_once(query, inputs), PatternOp)
    partial = next(hold for hold in report.holds if hold.kind == "events of partial matches")
    assert partial.holds_watermark
    assert report.output_watermark_ticks == partial.oldest_ticks < report.input_watermark_ticks
    assert partial.due_ticks is not None
    assert partial.due_ticks >= report.input_watermark_ticks


def test_rows_within_the_out_of_order_tolerance_are_held_in_the_scan() -> None:
    settings = {"late_arrival": "1h", "out_of_order": "1m"}
    inputs = {"x": events("12:01:00", "12:02:00", "12:02:30")}
    played = played_once("SELECT k FROM x TIMESTAMP BY t", inputs, settings)
    report = report_of(played, EmitOp)
    assert [(hold.component, *shown(hold)) for hold in report.holds] == [
        (Component.OUTPUT_BUFFER, "rows within the out-of-order tolerance", "12:02:00", 2, "12:02:00")
    ]
    assert (report.rows_in, report.rows_out) == (3, 1)
    (reader,) = played.reports[-1].partitions[0].readers
    assert (reader.oldest_held_ticks, reader.rows_held) == (ticks("12:02:00"), 2)
    assert (reader.held_by, reader.event_time_ticks) == (HeldBy.EVENT_TIME, ticks("12:02:30"))


def test_events_the_policies_drop_are_taken_in_and_not_made() -> None:
    settings = {"late_arrival": "1m", "out_of_order": "0s", "policy": "drop"}
    late = {"t": at("11:00:00"), "k": "a", "_arrival": at("12:02:00")}
    played = played_once(COUNTS, {"x": [*events("12:01:00"), late]}, settings)
    report = report_of(played, ScanOp)
    assert (report.rows_in, report.rows_out) == (2, 1)
    (reader,) = played.reports[-1].partitions[0].readers
    assert reader.held_by is HeldBy.ARRIVAL_TIME or reader.watermark_ticks == ticks("12:01:00")


def test_arrivals_less_the_late_tolerance_are_named_as_what_sets_a_watermark() -> None:
    settings = {"late_arrival": "10s", "out_of_order": "5m"}
    played = played_once(COUNTS, {"x": events("12:01:00", "12:04:00")}, settings)
    (reader,) = played.reports[-1].partitions[0].readers
    assert (reader.held_by, reader.watermark_ticks) == (HeldBy.ARRIVAL_TIME, ticks("12:03:50"))
    assert reader.event_time_ticks == ticks("12:04:00")


def test_the_slowest_and_the_fastest_substreams_are_named_by_their_keys() -> None:
    query = (
        "SELECT k, n, COUNT(*) AS c FROM x TIMESTAMP BY t OVER k, n GROUP BY k, n, TumblingWindow(minute, 5)"
    )
    rows = [
        {"t": at(f"12:{minute:02}:00"), "k": f"device {minute}", "n": minute, "_arrival": at("12:40:00")}
        for minute in range(1, 31)
    ]
    played = played_once(query, {"x": rows})
    (reader,) = played.reports[-1].partitions[0].readers
    assert [each.name for each in reader.slowest] == [f"device {n}, {n}" for n in range(1, 21)]
    assert [each.name for each in reader.fastest] == [f"device {n}, {n}" for n in range(30, 25, -1)]
    assert reader.slowest[0].watermark_ticks == reader.slowest[0].event_time_ticks == ticks("12:01:00")
    assert reader.substreams_ahead == 30


def test_reference_data_that_is_not_there_yet_is_an_external_input_that_is_held() -> None:
    query = "SELECT x.k FROM x TIMESTAMP BY t JOIN r ON x.k = r.k"
    compiled = compiled_for(query, {"x": []}, IN_ORDER, reference={"r": [{"k": "a"}]})
    driver = LocalDriver(compiled.topology, references=InlineReferences({"r": ()}))
    (partition,) = BatchReports.of(driver.run([PartitionBatch("x", 0)])).partitions
    (hold,) = (hold for each in partition.operators for hold in each.holds)
    assert (hold.component, hold.kind) == (
        Component.EXTERNAL_INPUT,
        "waits for the first snapshot of reference data r",
    )


# ---------------------------------------------------------------- what a report costs

JOINED = "ON x.k = y.k AND DATEDIFF(minute, x, y) BETWEEN 0 AND 5"
STATEFUL = {
    "hopping": "SELECT COUNT(*) AS n FROM x TIMESTAMP BY t GROUP BY HoppingWindow(minute, 10, 5)",
    "sliding": "SELECT COUNT(*) AS n FROM x TIMESTAMP BY t GROUP BY SlidingWindow(minute, 5)",
    "session": "SELECT COUNT(*) AS n FROM x TIMESTAMP BY t GROUP BY SessionWindow(minute, 3, 60)",
    "join": f"SELECT x.k FROM x TIMESTAMP BY t LEFT JOIN y TIMESTAMP BY t {JOINED}",
    "analytic": "SELECT LAG(k) OVER (LIMIT DURATION(minute, 9)) AS before FROM x TIMESTAMP BY t",
    "pattern": (
        "SELECT * FROM x TIMESTAMP BY t MATCH_RECOGNIZE (LIMIT DURATION(minute, 10) PARTITION BY k "
        "MEASURES Last(B.k) AS k AFTER MATCH SKIP TO NEXT ROW "
        "PATTERN (A B*) DEFINE A AS A.k = 'a', B AS B.k = 'a') AS m"
    ),
}


@pytest.mark.parametrize("query", STATEFUL.values(), ids=STATEFUL)
def test_no_row_is_read_and_nothing_is_written_for_a_report(
    query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = Stage.reports

    def refused(*_: Any) -> None:
        raise AssertionError("a report looks at small values of the state alone")

    def watched(*arguments: Any) -> Any:
        with monkeypatch.context() as patched:
            for name in ("append", "read", "take", "put"):
                patched.setattr(MemoryState, name, refused)
            return reports(*arguments)

    monkeypatch.setattr(Stage, "reports", watched)
    inputs = {"x": events("12:01:00", "12:03:00", "12:07:00"), "y": events("12:02:00", "12:07:00")}
    played = played_once(query, inputs)
    holds = [
        hold
        for operators in reported(played.reports[-1]).values()
        for each in operators.values()
        for hold in each.holds
    ]
    assert any(hold.component is Component.STATE for hold in holds)


def test_the_report_of_a_partition_stays_small_however_many_substreams_there_are() -> None:
    query = "SELECT k, COUNT(*) AS c FROM x TIMESTAMP BY t OVER k GROUP BY k, TumblingWindow(minute, 5)"
    rows = [
        {"t": at(f"12:{n % 60:02}:00"), "k": f"device {n}", "_arrival": at("12:59:00")} for n in range(1000)
    ]
    (partition,) = played_once(query, {"x": rows}).reports[-1].partitions
    assert partition.readers[0].substreams_ahead == 1000
    assert len(PARTITION_REPORT.body(partition)) < 6000


# ---------------------------------------------------------------- senders


def stage_report(sent: Mapping[str, int]) -> OperatorReport:
    """What the exchange of COUNTS reports of senders with these watermarks."""
    topology = compiled_for(COUNTS, {"x": []}, IN_ORDER, key_groups=1).topology
    send = next(op for op in topology.ops if isinstance(op, SendOp))
    marks = [
        Message(0, 1, Kind.WATERMARK, 0, sender, WATERMARKS.body({send.id: watermark_ticks}))
        for sender, watermark_ticks in sent.items()
    ]
    states: dict[int, MemoryState] = {}
    task = KeyGroupTask(topology, 1, RowSink(), remembers=True)
    messages = task.run(0, marks, lambda number: states.setdefault(number, MemoryState()))
    (report,) = (STAGE_REPORT.of_body(each.body) for each in messages if each.kind is Kind.REPORT)
    return next(each for each in report.operators if isinstance(topology.op(each.operator), ReceiveOp))


def test_an_input_that_has_sent_nothing_is_waited_for() -> None:
    report = stage_report({})
    assert [(hold.kind, hold.oldest_ticks) for hold in report.holds] == [
        ("waits for input x", BEFORE_ALL_TICKS)
    ]
    assert report.input_watermark_ticks == BEFORE_ALL_TICKS


def test_the_slowest_sender_is_named_and_holds_the_watermark() -> None:
    report = stage_report({"x/0": ticks("12:05:00"), "x/1": ticks("12:01:00"), "x/2": ticks("12:07:00")})
    (hold,) = report.holds
    assert (hold.component, hold.kind, hold.holds_watermark) == (Component.SOURCE, "waits for x/1", True)
    assert report.output_watermark_ticks == hold.oldest_ticks == ticks("12:01:00")


def test_no_sender_is_waited_for_where_all_are_equally_far() -> None:
    assert stage_report({"x/0": ticks("12:05:00"), "x/1": ticks("12:05:00")}).holds == ()


def test_a_partition_that_never_had_an_event_is_waited_for() -> None:
    report = stage_report({"x/0": ticks("12:05:00"), "x/1": BEFORE_ALL_TICKS})
    assert [hold.kind for hold in report.holds] == ["waits for x/1"]
