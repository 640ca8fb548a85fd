"""The rules of the central view of watermarks (`asa.md` 11.8), each seen to hold."""

from __future__ import annotations

import pytest

from tideglass.compile import compile_query
from tideglass.core.errors import Source
from tideglass.core.time import AFTER_ALL_TICKS, BEFORE_ALL_TICKS, TICKS_PER_MINUTE, TICKS_PER_SECOND
from tideglass.engine.reports import Component, Hold, OperatorReport, StageReport
from tideglass.ingress.reports import (
    BatchReports,
    HeldBy,
    PartitionReport,
    ReaderReport,
    SubstreamReport,
)
from tideglass.job.report.status import HolderStatus, StepStatus
from tideglass.job.report.watermark_view import Lease, WatermarkView
from tideglass.plan.topology import EmitOp, SendOp, Topology, WindowOp
from tideglass.project.settings import JobSettings

QUERY = """WITH perMinute AS (
    SELECT booth, COUNT(*) AS n FROM toll TIMESTAMP BY t GROUP BY booth, TumblingWindow(minute, 1)
)
SELECT booth, n INTO counts FROM perMinute
SELECT booth INTO heavy FROM toll TIMESTAMP BY t WHERE weight > 3
"""
TOPOLOGY = compile_query(Source(QUERY), JobSettings(), key_groups=2).topology
WINDOW = next(op.id for op in TOPOLOGY.ops if isinstance(op, WindowOp))
SCAN, SEND = 0, next(op.id for op in TOPOLOGY.ops if isinstance(op, SendOp))
COUNTS, HEAVY = (
    next(op.id for op in TOPOLOGY.ops if isinstance(op, EmitOp) and op.output == name)
    for name in ("counts", "heavy")
)


def seconds(number: float) -> int:
    return round(number * TICKS_PER_SECOND)


def partition(name: str, watermark: int, rows: int = 0, **changed: object) -> PartitionReport:
    """A partition whose operators all have the watermark of its one reader."""
    reader = ReaderReport(0, watermark_ticks=watermark, **changed)  # type: ignore[arg-type]
    operators = tuple(
        OperatorReport(op.id, rows, rows, watermark, watermark) for op in TOPOLOGY.ops if op.level == 0
    )
    return PartitionReport("toll", name, readers=(reader,), operators=operators)


def group(
    number: int, watermark: int, holds: tuple[Hold, ...] = (), output: int | None = None
) -> StageReport:
    """A key group whose operators have one input watermark; the window holds `holds`."""
    after = watermark if output is None else output
    operators = tuple(
        OperatorReport(
            op.id,
            1,
            1,
            watermark if op.id <= WINDOW else after,
            watermark if op.id < WINDOW else after,
            holds if op.id == WINDOW else (),
        )
        for op in TOPOLOGY.ops
        if op.level == 1
    )
    return StageReport(1, number, operators=operators)


def batch(*reports: PartitionReport | StageReport) -> BatchReports:
    return BatchReports(
        tuple(each for each in reports if isinstance(each, PartitionReport)),
        tuple(each for each in reports if isinstance(each, StageReport)),
    )


def whole(watermark: int) -> BatchReports:
    """Reports of two partitions and both key groups with one watermark."""
    return batch(
        partition("0", watermark), partition("1", watermark), group(0, watermark), group(1, watermark)
    )


def step(view: WatermarkView, operator: int) -> StepStatus:
    return view.steps()[operator]


def test_steps_are_named_and_placed_as_in_the_query():
    found = WatermarkView(TOPOLOGY).steps()
    assert [each.operator for each in found] == list(range(len(TOPOLOGY.ops)))
    assert [(each.kind, each.step) for each in found] == [
        ("input", "toll"),
        ("projection", "perMinute"),
        ("partial aggregation", "perMinute"),
        ("send", "perMinute"),
        ("receive", "perMinute"),
        ("tumbling window", "perMinute"),
        ("projection", "counts"),
        ("output", "counts"),
        ("filter", "heavy"),
        ("output", "heavy"),
    ]
    places = {each.step: (each.line, each.column) for each in found}
    assert places == {"toll": (2, 38), "perMinute": (1, 6), "counts": (4, 1), "heavy": (5, 1)}
    assert [each.sources for each in found] == [(), (0,), (1,), (2,), (3,), (4,), (5,), (6,), (0,), (8,)]
    assert [each.output for each in found if each.output] == ["counts", "heavy"]


def test_nothing_is_known_before_the_first_report():
    found = WatermarkView(TOPOLOGY).steps(newest_arrival_ticks=0)
    assert {each.input_watermark_ticks for each in found} == {None}
    assert {each.output_watermark_ticks for each in found} == {None}
    assert {(each.latency_seconds, each.data_watermark_lag_seconds) for each in found} == {(None, None)}
    assert found[WINDOW].ranges == 2
    assert found[WINDOW].ranges_reported == 0


def test_a_watermark_is_unknown_until_every_range_has_reported():
    view = WatermarkView(TOPOLOGY)
    view.take(batch(partition("0", seconds(5)), group(0, seconds(5))), Lease(1, 0))
    assert step(view, WINDOW).output_watermark_ticks is None
    assert (step(view, WINDOW).ranges, step(view, WINDOW).ranges_reported) == (2, 1)
    view.take(batch(group(1, seconds(4))), Lease(1, 1))
    assert step(view, WINDOW).output_watermark_ticks == seconds(4)
    assert step(view, WINDOW).ranges_reported == 2


def test_a_range_that_has_no_watermark_is_unknown_and_not_the_beginning_of_time():
    view = WatermarkView(TOPOLOGY)
    view.take(batch(partition("0", seconds(5)), partition("1", BEFORE_ALL_TICKS)), Lease(1, 0))
    assert step(view, HEAVY).output_watermark_ticks is None
    assert (step(view, HEAVY).ranges, step(view, HEAVY).ranges_reported) == (2, 1)


def test_a_partition_that_appears_keeps_the_watermark_from_advancing_until_it_has_one():
    view = WatermarkView(TOPOLOGY)
    view.take(batch(partition("0", seconds(5))), Lease(1, 0))
    view.take(batch(partition("0", seconds(9)), partition("1", BEFORE_ALL_TICKS)), Lease(1, 1))
    assert step(view, HEAVY).output_watermark_ticks == seconds(5)
    view.take(batch(partition("0", seconds(9)), partition("1", seconds(7))), Lease(1, 2))
    assert step(view, HEAVY).output_watermark_ticks == seconds(7)


def test_the_least_of_all_ranges_counts():
    view = WatermarkView(TOPOLOGY)
    view.take(batch(partition("0", seconds(5)), partition("1", seconds(3))), Lease(1, 0))
    assert step(view, HEAVY).input_watermark_ticks == seconds(3)
    assert step(view, HEAVY).output_watermark_ticks == seconds(3)


def test_an_update_that_would_go_back_is_ignored():
    view = WatermarkView(TOPOLOGY)
    view.take(whole(seconds(5)), Lease(1, 0))
    view.take(whole(seconds(3)), Lease(1, 1))
    assert {each.output_watermark_ticks for each in view.steps()} == {seconds(5)}
    view.take(whole(seconds(6)), Lease(1, 2))
    assert {each.output_watermark_ticks for each in view.steps()} == {seconds(6)}


@pytest.mark.parametrize("lost", [Lease(1, 4), Lease(1, 5), Lease(0, 9), Lease(1, 5, 0)])
def test_only_the_holder_of_the_lease_counts(lost: Lease):
    view = WatermarkView(TOPOLOGY)
    view.take(whole(seconds(5)), Lease(1, 5))
    view.take(whole(seconds(50)), lost)
    assert {each.output_watermark_ticks for each in view.steps()} == {seconds(5)}, "too far is the worst"


def test_a_later_attempt_at_a_batch_takes_the_lease_and_the_earlier_one_is_ignored():
    view = WatermarkView(TOPOLOGY)
    view.take(batch(partition("0", seconds(5))), Lease(1, 5, attempt=1))
    view.take(batch(partition("0", seconds(9))), Lease(1, 5, attempt=0))
    assert step(view, HEAVY).output_watermark_ticks == seconds(5)
    view.take(batch(partition("0", seconds(9))), Lease(1, 5, attempt=2))
    assert step(view, HEAVY).output_watermark_ticks == seconds(9)


def test_the_lease_is_that_of_a_range_and_the_others_keep_theirs():
    view = WatermarkView(TOPOLOGY)
    view.take(batch(partition("0", seconds(5))), Lease(1, 5))
    view.take(batch(partition("1", seconds(6))), Lease(1, 4))
    assert step(view, HEAVY).output_watermark_ticks == seconds(5)
    assert step(view, HEAVY).ranges == 2


def test_a_batch_that_is_reported_twice_counts_its_rows_once():
    view = WatermarkView(TOPOLOGY)
    for _ in range(2):
        view.take(batch(partition("0", seconds(5), rows=10), group(0, seconds(5))), Lease(1, 0))
    view.take(batch(partition("0", seconds(6), rows=7)), Lease(1, 1))
    assert (step(view, HEAVY).rows_in, step(view, HEAVY).rows_out) == (17, 17)
    (first, second) = view.ranges()
    assert (first.rows_in, first.rows_out, first.input_watermark_ticks) == (1, 1, seconds(5))
    assert (second.rows_in, second.input_watermark_ticks) == (0, None)


def test_downstream_is_never_ahead_of_upstream():
    view = WatermarkView(TOPOLOGY)
    view.take(
        batch(
            partition("0", seconds(5)), partition("1", seconds(4)), group(0, seconds(9)), group(1, seconds(9))
        ),
        Lease(1, 0),
    )
    assert step(view, WINDOW).input_watermark_ticks == seconds(4)
    assert step(view, COUNTS).output_watermark_ticks == seconds(4)


def test_an_output_watermark_is_never_past_its_input():
    view = WatermarkView(TOPOLOGY)
    ahead = OperatorReport(SCAN, 0, 0, seconds(3), seconds(8))
    view.take(batch(PartitionReport("toll", "0", operators=(ahead,))), Lease(1, 0))
    assert step(view, SCAN).output_watermark_ticks == seconds(3)


def test_latency_is_what_a_step_holds_back_and_its_hold_comes_first():
    view = WatermarkView(TOPOLOGY)
    hold = Hold(Component.STATE, "left rows that wait for a match", seconds(40), 3, seconds(70), True)
    other = Hold(Component.STATE, "open windows", seconds(10), 9, seconds(60))
    at = seconds(60)
    view.take(
        batch(partition("0", at), group(0, at), group(1, at, (other, hold), output=seconds(40))), Lease(1, 0)
    )
    found = step(view, WINDOW)
    assert found.latency_seconds == 20.0
    assert found.holders[0] == HolderStatus(
        "state", "left rows that wait for a match", "stage 1, key group 1", seconds(40), seconds(70), 3
    )
    assert found.holders[1].kind == "open windows"
    assert step(view, COUNTS).holders[0] == found.holders[0], "it holds everything after it, too"
    assert step(view, COUNTS).latency_seconds == 0.0


def test_what_nothing_in_the_job_holds_is_held_by_the_slowest_partition():
    view = WatermarkView(TOPOLOGY)
    slow = partition("1", seconds(3), held_by=HeldBy.ARRIVAL_TIME)
    view.take(
        batch(partition("0", seconds(5)), slow, group(0, seconds(3)), group(1, seconds(3))), Lease(1, 0)
    )
    expected = HolderStatus(
        "external input", "watermark of the partition, by arrival time", "toll/1", seconds(3)
    )
    assert {each.holders[0] for each in view.steps()} == {expected}


def test_at_most_five_holders_are_named_the_oldest_of_each_kind_of_hold():
    view = WatermarkView(TOPOLOGY)
    holds = tuple(Hold(Component.STATE, "open windows", seconds(n), 1, seconds(n)) for n in range(9))
    at = TICKS_PER_MINUTE
    view.take(batch(partition("0", at), group(0, at, holds), group(1, at, holds)), Lease(1, 0))
    found = step(view, WINDOW).holders
    assert len(found) == 5
    assert [each.oldest_ticks for each in found[1:]] == [0, 0, seconds(1), seconds(1)]


def test_the_end_of_all_inputs_is_no_lag_and_nothing_holds_it():
    view = WatermarkView(TOPOLOGY)
    view.take(
        batch(
            partition("0", AFTER_ALL_TICKS, final=True), group(0, AFTER_ALL_TICKS), group(1, AFTER_ALL_TICKS)
        ),
        Lease(1, 0),
    )
    found = view.steps(newest_arrival_ticks=seconds(5))
    assert {each.output_watermark_ticks for each in found} == {AFTER_ALL_TICKS}
    assert {each.data_watermark_lag_seconds for each in found} == {None}
    assert {each.latency_seconds for each in found} == {0.0}
    assert {each.holders for each in found} == {()}


def test_data_watermark_lag_is_the_newest_arrival_minus_the_output_watermark():
    view = WatermarkView(TOPOLOGY)
    view.take(whole(seconds(5)), Lease(1, 0))
    assert view.steps(seconds(12))[COUNTS].data_watermark_lag_seconds == 7.0


def test_a_run_that_goes_on_knows_what_the_partitions_had_reached():
    view = WatermarkView(TOPOLOGY)
    readers = [("toll", name, ReaderReport(0, watermark_ticks=seconds(8))) for name in ("0", "1")]
    view.restored(readers, generation=1)
    assert step(view, HEAVY).output_watermark_ticks == seconds(8)
    assert step(view, WINDOW).output_watermark_ticks is None, "the key groups have not reported"
    view.take(batch(partition("0", seconds(9)), partition("1", seconds(9))), Lease(1, 0))
    assert step(view, HEAVY).output_watermark_ticks == seconds(9)


def test_the_slowest_twenty_and_the_fastest_five_substreams_of_all_partitions_are_shown():
    view = WatermarkView(TOPOLOGY)
    for number in range(4):
        all_ = [SubstreamReport(f"{number}/{n:02}", seconds(n + number / 10), seconds(n)) for n in range(50)]
        report = partition(str(number), 0, slowest=tuple(all_[:20]), fastest=tuple(all_[-5:]))
        view.take(batch(report), Lease(1, number))
    found = view.substreams()
    assert [each.name for each in found[:5]] == ["0/00", "1/00", "2/00", "3/00", "0/01"]
    assert [each.name for each in found[20:]] == ["3/49", "2/49", "1/49", "0/49", "3/48"]
    assert len(found) == 25


def test_of_few_substreams_none_is_shown_twice():
    view = WatermarkView(TOPOLOGY)
    few = tuple(SubstreamReport(f"s{n}", seconds(n), seconds(n)) for n in range(3))
    view.take(batch(partition("0", 0, slowest=few, fastest=few)), Lease(1, 0))
    assert [each.name for each in view.substreams()] == ["s0", "s1", "s2"]


def test_a_topology_that_was_made_of_no_plan_has_steps_without_names():
    bare = Topology(TOPOLOGY.ops, TOPOLOGY.readers, TOPOLOGY.fields, TOPOLOGY.outputs, 2)
    assert {(each.step, each.line) for each in WatermarkView(bare).steps()} == {("", None)}
