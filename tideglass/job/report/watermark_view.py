"""The watermarks of all operators, gathered from the reports of their ranges, for people only.

Watermarks travel in band, with the rows; here they meet once more, as in Dataflow's central aggregation
(`asa.md` 11.8). An operator is run in ranges: the partitions of its input, or key groups. Four rules:

1. All ranges report. Until each of them has, the watermark of the operator is unknown; a range that appears
   later keeps it from advancing until it has reported.
2. Monotone. An update that would go back is ignored.
3. A report counts only from the holder of the range's lease: a later batch, or a later attempt at it, takes
   the lease over, and what an earlier one still reports is ignored.
4. Downstream is never ahead of upstream (`asa.md` 11.3).

    W_in = least W_out of the operators it reads     W_out = min(W_in, oldest held)     latency = W_in - W_out
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from tideglass.core.errors import Span
from tideglass.core.time import AFTER_ALL_TICKS, BEFORE_ALL_TICKS, ORIGIN_TICKS, TICKS_PER_SECOND
from tideglass.engine.reports import Component, Hold, OperatorReport, ReferenceRows, StageReport
from tideglass.engine.substream_watermarks import MOST_FASTEST, MOST_SLOWEST, SubstreamsAhead
from tideglass.ingress.reports import BatchReports, HeldBy, PartitionReport, ReaderReport, SubstreamReport
from tideglass.job.report.status import (
    EarlyPaneStatus,
    HolderStatus,
    RangeStatus,
    ReferenceStatus,
    StepStatus,
    StepSubstreamStatus,
    SubstreamStatus,
)
from tideglass.job.report.step_substreams import slowest_and_fastest
from tideglass.plan.explain import operator_kind
from tideglass.plan.step_origin import StepOrigin
from tideglass.plan.topology import EmitOp, Op, ReceiveOp, ScanOp, SendOp, Topology, sources_of

MOST_HOLDERS = 5

_Chosen: TypeAlias = Callable[[ReaderReport], Sequence[SubstreamReport]]


@dataclass(frozen=True, slots=True, order=True)
class Lease:
    """The right to report for a range; a greater one takes it over.

    generation: of the state.
    batch: Spark's number.
    attempt: at the batch, from 0.
    """

    generation: int
    batch: int
    attempt: int = 0


@dataclass(slots=True)
class OperatorRange:
    """An operator in one of its ranges.

    input_watermark_ticks, output_watermark_ticks: BEFORE_ALL_TICKS: unknown.
    holds: what it holds, oldest first.
    substreams: those ahead of the output watermark; None where they are those of the operator it reads.
    early_ticks: of a window with early panes, the watermark at each percentage.
    """

    input_watermark_ticks: int = BEFORE_ALL_TICKS
    output_watermark_ticks: int = BEFORE_ALL_TICKS
    holds: tuple[Hold, ...] = ()
    substreams: SubstreamsAhead | None = None
    early_ticks: dict[int, int] = field(default_factory=dict[int, int])

    def take(self, report: OperatorReport) -> None:
        self.input_watermark_ticks = max(self.input_watermark_ticks, report.input_watermark_ticks)
        output_ticks = min(report.output_watermark_ticks, self.input_watermark_ticks)
        self.output_watermark_ticks = max(self.output_watermark_ticks, output_ticks)
        self.holds = report.holds
        self.substreams = report.substreams
        for each in report.early_panes:
            before_ticks = self.early_ticks.get(each.percent, BEFORE_ALL_TICKS)
            self.early_ticks[each.percent] = max(before_ticks, each.watermark_ticks)


@dataclass(slots=True)
class _Range:
    """A partition of an input, or a key group of a stage."""

    lease: Lease | None = None
    operators: dict[int, OperatorRange] = field(default_factory=dict[int, OperatorRange])
    rows_in: int = 0
    rows_out: int = 0

    def leased_to(self, lease: Lease) -> bool:
        """Take the lease over; False for one that was lost, and for the report that is known already."""
        if self.lease is not None and lease <= self.lease:
            return False
        self.lease = lease
        return True


@dataclass(slots=True)
class _Merged:
    """An operator over all its ranges; None: unknown."""

    input_ticks: int | None = None
    output_ticks: int | None = None
    rows_in: int = 0
    rows_out: int = 0
    early: dict[int, _EarlyPanes] = field(default_factory=dict[int, "_EarlyPanes"])


@dataclass(slots=True)
class _EarlyPanes:
    """The early panes of a window at a percentage, over all key groups; None: unknown."""

    watermark_ticks: int | None = None
    rows_out: int = 0


class WatermarkView:
    """The view over the ranges of one run.

    What is reported counts from the start of the run, so a job that goes on is unknown until its first batch;
    `restored` fills in what the partitions of its inputs had reached.
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self._ops = topology.ops
        self._origins = _origins(topology)
        self._places = [_place(topology, each) for each in self._origins]
        self._sources = [sources_of(op) for op in self._ops]
        self._inputs = _inputs_read(topology)
        self._key_groups: dict[int, list[_Range]] = {
            level: [_Range() for _ in range(topology.key_groups)] for level in range(1, topology.levels + 1)
        }
        self._entries = {op.id for op in self._ops if isinstance(op, ReceiveOp)}
        self._exits = {op.id for op in self._ops if isinstance(op, SendOp | EmitOp)}
        self._partitions: dict[str, dict[str, _Range]] = {}
        self._readers: dict[tuple[str, str, int], ReaderReport] = {}
        self._merged = [_Merged() for _ in self._ops]
        self._reference_rows: dict[str, ReferenceRows] = {}

    # ------------------------------------------------------------ reports

    def take(self, reports: BatchReports, lease: Lease) -> None:
        """Take in the reports of a batch."""
        for report in reports.partitions:
            self._take_partition(report, lease)
        for report in reports.stages:
            self._take_stage(report, lease)
        self._merge()

    def restored(self, readers: Iterable[tuple[str, str, ReaderReport]], generation: int) -> None:
        """What the partitions of inputs had reached when the run started: input, partition, report.

        The operators of the scan hold nothing there that they do not report with the first batch.
        """
        lease = Lease(generation, -1)
        for input_name, partition, reader in readers:
            found = self._partition(input_name, partition)
            found.lease = found.lease or lease
            self._readers.setdefault((input_name, partition, reader.reader), reader)
            watermark_ticks = AFTER_ALL_TICKS if reader.final else reader.watermark_ticks
            for op in self._ops:
                if op.level == 0 and self._inputs[op.id] == (input_name, reader.reader):
                    at = found.operators.setdefault(op.id, OperatorRange())
                    at.take(OperatorReport(op.id, 0, 0, watermark_ticks, watermark_ticks))
        self._merge()

    def _partition(self, input_name: str, partition: str) -> _Range:
        return self._partitions.setdefault(input_name, {}).setdefault(partition, _Range())

    def _take_partition(self, report: PartitionReport, lease: Lease) -> None:
        found = self._partition(report.input, report.partition)
        if found.leased_to(lease):
            for reader in report.readers:
                self._readers[report.input, report.partition, reader.reader] = reader
            self._take(found, report.operators)

    def _take_stage(self, report: StageReport, lease: Lease) -> None:
        found = self._key_groups[report.level][report.key_group]
        if found.leased_to(lease):
            self._take(found, report.operators)

    def _take(self, found: _Range, reports: Iterable[OperatorReport]) -> None:
        for each in reports:
            found.operators.setdefault(each.operator, OperatorRange()).take(each)
            merged = self._merged[each.operator]
            merged.rows_in += each.rows_in
            merged.rows_out += each.rows_out
            for pane in each.early_panes:
                merged.early.setdefault(pane.percent, _EarlyPanes()).rows_out += pane.rows_out
            if each.reference is not None:
                newest = self._reference_rows.setdefault(each.reference.input, each.reference)
                if newest.effective_ticks <= each.reference.effective_ticks:
                    self._reference_rows[each.reference.input] = each.reference
            found.rows_in += each.rows_in if each.operator in self._entries else 0
            found.rows_out += each.rows_in if each.operator in self._exits else 0

    def counted(self, references: Iterable[ReferenceStatus]) -> tuple[ReferenceStatus, ...]:
        """The reference inputs with the rows of their newest snapshot, if a task has read it."""
        found: list[ReferenceStatus] = []
        for each in references:
            read = self._reference_rows.get(each.input)
            is_newest = read is not None and read.effective_ticks == each.effective_ticks
            found.append(replace(each, rows=read.rows) if read is not None and is_newest else each)
        return tuple(found)

    # ------------------------------------------------------------ over all ranges

    def _merge(self) -> None:
        """Take the watermarks of all operators on, those before others first."""
        for op in self._ops:
            merged = self._merged[op.id]
            ranges = [each.operators.get(op.id) for _, each in self._ranges(op)]
            input_ticks = _least(None if each is None else each.input_watermark_ticks for each in ranges)
            output_ticks = _least(None if each is None else each.output_watermark_ticks for each in ranges)
            for source in self._sources[op.id]:
                before = self._merged[source].output_ticks
                input_ticks = None if input_ticks is None or before is None else min(input_ticks, before)
            if input_ticks is not None:
                merged.input_ticks = max(input_ticks, merged.input_ticks or input_ticks)
            for percent, panes in merged.early.items():
                panes.watermark_ticks = _least(
                    None if at is None else at.early_ticks.get(percent) for at in ranges
                )
            if output_ticks is not None and merged.input_ticks is not None:
                output_ticks = min(output_ticks, merged.input_ticks)
                merged.output_ticks = max(output_ticks, merged.output_ticks or output_ticks)

    def output_watermarks(self) -> dict[str, int]:
        """By output, the least time a later row of it may have; BEFORE_ALL_TICKS: unknown."""
        found: dict[str, int] = {}
        for op in self._ops:
            if isinstance(op, EmitOp):
                ticks = self._merged[op.id].output_ticks
                ticks = BEFORE_ALL_TICKS if ticks is None else ticks
                found[op.output] = min(ticks, found.get(op.output, ticks))
        return found

    def _ranges(self, op: Op) -> list[tuple[str, _Range]]:
        """The ranges that run an operator, by the names people know them by."""
        if op.level:
            groups = self._key_groups[op.level]
            return [(f"stage {op.level}, key group {number}", each) for number, each in enumerate(groups)]
        name = self._inputs[op.id][0]
        return [(f"{name}/{partition}", at) for partition, at in self._partitions.get(name, {}).items()]

    def steps(self, newest_arrival_ticks: int | None = None) -> tuple[StepStatus, ...]:
        """Every operator, in the order of the numbers. newest_arrival_ticks: of the job; None: none yet."""
        found: list[StepStatus] = []
        for op in self._ops:  # those before others first
            found.append(self._step(op, found, newest_arrival_ticks))
        return tuple(found)

    def _step(self, op: Op, before: Sequence[StepStatus], newest_arrival_ticks: int | None) -> StepStatus:
        merged, origin, place = self._merged[op.id], self._origins[op.id], self._places[op.id]
        ranges = self._ranges(op)
        reported = [each.operators.get(op.id) for _, each in ranges]
        is_over = merged.output_ticks == AFTER_ALL_TICKS
        lag_ticks = (
            None
            if newest_arrival_ticks is None or merged.output_ticks is None or is_over
            else newest_arrival_ticks - merged.output_ticks
        )
        return StepStatus(
            operator=op.id,
            level=op.level,
            kind=operator_kind(op),
            step=origin.step,
            line=None if place is None else place[0],
            column=None if place is None else place[1],
            sources=self._sources[op.id],
            output=op.output if isinstance(op, EmitOp) else None,
            rows_in=merged.rows_in,
            rows_out=merged.rows_out,
            input_watermark_ticks=merged.input_ticks,
            output_watermark_ticks=merged.output_ticks,
            data_watermark_lag_seconds=None if lag_ticks is None else max(0, lag_ticks) / TICKS_PER_SECOND,
            latency_seconds=_latency_seconds(merged),
            holders=self._holders(op, ranges, before),
            ranges=len(ranges),
            ranges_reported=sum(
                each is not None and each.input_watermark_ticks != BEFORE_ALL_TICKS for each in reported
            ),
            early_panes=tuple(
                EarlyPaneStatus(percent, each.watermark_ticks, each.rows_out)
                for percent, each in sorted(merged.early.items())
            ),
            **self._substreams_at(op, reported, before),
        )

    def _substreams_at(
        self, op: Op, ranges: Sequence[OperatorRange | None], before: Sequence[StepStatus]
    ) -> dict[str, Any]:
        """How many substreams are ahead at an operator, and the operator that lists them.

        before: the operators whose rows it may read.
        """
        if isinstance(op, ScanOp):
            name = self._inputs[op.id][0]
            readers = [
                at for (of, _, number), at in self._readers.items() if (of, number) == (name, op.reader)
            ]
            return {"substreams": sum(each.substreams_ahead for each in readers)}
        own = [each.substreams.count for each in ranges if each is not None and each.substreams is not None]
        if own:
            return {"substreams": max(own), "substreams_of": op.id}
        if len(self._sources[op.id]) > 1 or isinstance(op, ReceiveOp):
            return {}
        source = before[self._sources[op.id][0]]
        return {"substreams": source.substreams, "substreams_of": source.substreams_of}

    # ------------------------------------------------------------ what holds a watermark

    def _holders(
        self, op: Op, ranges: Sequence[tuple[str, _Range]], before: Sequence[StepStatus]
    ) -> tuple[HolderStatus, ...]:
        """What holds the output watermark back first, then what else the operator holds.

        before: the operators whose rows it may read.
        """
        held = heapq.nsmallest(
            MOST_HOLDERS,
            ((place, hold) for place, each in ranges for hold in _holds(each, op.id)),
            key=lambda found: (not found[1].holds_watermark, found[1].oldest_ticks, found[0]),
        )
        own = [
            HolderStatus(
                hold.component, hold.kind, place, hold.oldest_ticks, due_ticks=hold.due_ticks, rows=hold.rows
            )
            for place, hold in held
        ]
        merged = self._merged[op.id]
        holds_back = (
            bool(held)
            and held[0][1].holds_watermark
            and merged.output_ticks is not None
            and merged.output_ticks != merged.input_ticks
        )
        first = None if holds_back else self._upstream_holder(op, before)
        return tuple([first, *own] if first is not None else own)[:MOST_HOLDERS]

    def _upstream_holder(self, op: Op, before: Sequence[StepStatus]) -> HolderStatus | None:
        """What holds the input watermark: an operator before it, in the end a partition of an input.

        None where the watermark is unknown, and at the end of the inputs.
        """
        if isinstance(op, ScanOp):
            return self._slowest_partition(op)
        known = [
            (ticks, source)
            for source in self._sources[op.id]
            if (ticks := before[source].output_watermark_ticks) is not None
        ]
        if len(known) < len(self._sources[op.id]):
            return None
        ticks, slowest = min(known)
        found = before[slowest].holders
        return found[0] if found and ticks != AFTER_ALL_TICKS else None

    def _slowest_partition(self, op: ScanOp) -> HolderStatus | None:
        """The partition with the least watermark; None while some partition has none."""
        name = self._inputs[op.id][0]
        partitions = [
            (_watermark_ticks(reader), partition, reader)
            for (of, partition, number), reader in self._readers.items()
            if (of, number) == (name, op.reader)
        ]
        if not partitions or any(ticks < ORIGIN_TICKS for ticks, _, _ in partitions):
            return None
        ticks, partition, reader = min(partitions, key=lambda found: found[:2])
        if ticks == AFTER_ALL_TICKS:
            return None
        rule = reader.held_by or HeldBy.EVENT_TIME
        kind = f"watermark of the partition, by {rule}"
        return HolderStatus(Component.EXTERNAL_INPUT, kind, f"{name}/{partition}", ticks)

    # ------------------------------------------------------------ ranges and substreams

    def ranges(self) -> tuple[RangeStatus, ...]:
        """The key groups of every stage."""
        return tuple(
            RangeStatus(
                level,
                number,
                each.rows_in,
                each.rows_out,
                _least(at.input_watermark_ticks for at in each.operators.values()),
                _least(at.output_watermark_ticks for at in each.operators.values()),
            )
            for level, groups in self._key_groups.items()
            for number, each in enumerate(groups)
        )

    def substreams(self) -> tuple[SubstreamStatus, ...]:
        """The slowest 20 and after them the fastest 5 of the job, none of them twice."""
        slowest = heapq.nsmallest(MOST_SLOWEST, self._substreams(lambda reader: reader.slowest))
        fastest = heapq.nlargest(MOST_FASTEST, self._substreams(lambda reader: reader.fastest))
        found = dict.fromkeys([*slowest, *fastest])
        return tuple(
            SubstreamStatus(input_name, partition, reader, name, ticks, event_ticks)
            for ticks, input_name, partition, reader, name, event_ticks in found
        )

    def step_substreams(self) -> tuple[StepSubstreamStatus, ...]:
        """The slowest 20 and after them the fastest 5 of every operator that has substreams of its own."""
        found: list[StepSubstreamStatus] = []
        for op in self._ops:
            ahead: dict[int, SubstreamsAhead] = {}
            for number, group in enumerate(self._key_groups.get(op.level, ())):
                at = group.operators.get(op.id)
                if at is not None and at.substreams is not None:
                    ahead[number] = at.substreams
            found += slowest_and_fastest(op.id, ahead)
        return tuple(found)

    def _substreams(self, chosen: _Chosen) -> Iterable[tuple[int, str, str, int, str, int]]:
        for (input_name, partition, number), reader in self._readers.items():
            for each in chosen(reader):
                if each.watermark_ticks < ORIGIN_TICKS:
                    continue
                yield each.watermark_ticks, input_name, partition, number, each.name, each.event_time_ticks


def _origins(topology: Topology) -> tuple[StepOrigin, ...]:
    """What each operator was placed for; of a topology that does not say, nothing."""
    return topology.origins or tuple(StepOrigin("", Span()) for _ in topology.ops)


def _place(topology: Topology, origin: StepOrigin) -> tuple[int, int] | None:
    """Line and column in the text, from 1; None for what has no text of its own."""
    return topology.source.line_column(origin.span.start) if origin.span.end else None


def _inputs_read(topology: Topology) -> dict[int, tuple[str, int]]:
    """The input and the reader whose rows an operator of the scan has, by its number."""
    found: dict[int, tuple[str, int]] = {}
    for op in topology.at(0):
        if isinstance(op, ScanOp):
            found[op.id] = (topology.readers[op.reader].input, op.reader)
        else:
            found[op.id] = found[sources_of(op)[0]]
    return found


def _holds(at: _Range, operator: int) -> Sequence[Hold]:
    found = at.operators.get(operator)
    return () if found is None else found.holds


def _least(watermarks_ticks: Iterable[int | None]) -> int | None:
    """The least watermark; None if there is none, or one of them is unknown.

    One before all instants is none: files without arrival times are sorted with a tolerance that wide.
    """
    found = list(watermarks_ticks)
    known = [each for each in found if each is not None and each >= ORIGIN_TICKS]
    return min(known) if known and len(known) == len(found) else None


def _watermark_ticks(reader: ReaderReport) -> int:
    return AFTER_ALL_TICKS if reader.final else reader.watermark_ticks


def _latency_seconds(merged: _Merged) -> float | None:
    """What an operator adds; None where a watermark is unknown, and once only its input has ended."""
    if merged.input_ticks is None or merged.output_ticks is None:
        return None
    if merged.input_ticks == merged.output_ticks:
        return 0.0
    ended = merged.input_ticks == AFTER_ALL_TICKS
    return None if ended else (merged.input_ticks - merged.output_ticks) / TICKS_PER_SECOND
