"""A stage: the operators of one level, run over one batch for one sender (scan task or key group).

It knows neither driver. Its input is rows and progress per entry operator; its output is rows for other
levels, rows for outputs, and the progress at each exit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import pyarrow as pa

from tideglass.connect.reference.references import NO_REFERENCES, References
from tideglass.core.arrays import pc
from tideglass.core.columns import unify
from tideglass.core.errors import EvaluationError
from tideglass.core.events import Known
from tideglass.core.failing_rows import Failed, OnFailure, added
from tideglass.core.profile import part
from tideglass.core.types import PANE
from tideglass.engine.pattern_programs import patterns_of
from tideglass.engine.reference_cache import ReferenceLookup
from tideglass.engine.reports import EarlyPaneReport, OperatorReport
from tideglass.engine.substream_watermarks import SubstreamsAhead
from tideglass.evaluate.apply import applied
from tideglass.evaluate.failure import located
from tideglass.evaluate.program import Program, row_condition
from tideglass.functions.callables import define_callables
from tideglass.functions.javascript import define, set_limits
from tideglass.operators.analytic.functions import AnalyticFunctions
from tideglass.operators.holds import Component, Hold, oldest_first
from tideglass.operators.joins.interval import IntervalJoin
from tideglass.operators.progress import Progress
from tideglass.operators.state.store import State
from tideglass.operators.windows.aggregate import WindowAggregate
from tideglass.plan.early_panes import early_text, pane_texts
from tideglass.plan.topology import (
    AnalyticOp,
    ApplyOp,
    EmitOp,
    JoinOp,
    LookupOp,
    Op,
    PartialOp,
    PatternOp,
    ReceiveOp,
    RowsOp,
    ScanOp,
    SendOp,
    Topology,
    WindowOp,
    sources_of,
)


class RowCounts(NamedTuple):
    """How many rows an operator took in, and how many it made of them."""

    rows_in: int
    rows_out: int


@dataclass(slots=True)
class StageResult:
    """What one run of a stage hands on.

    sends: rows for later levels.
    emits: rows of outputs.
    progress: of its rows, by operator.
    input_progress: by operator, where it may differ from that of its rows.
    rows: how many rows each operator took and made.
    failed: rows left out, by operator.
    early_panes: of the windows that have some, by operator.
    """

    sends: list[tuple[SendOp, pa.Table]] = field(default_factory=list[tuple[SendOp, pa.Table]])
    emits: list[tuple[EmitOp, pa.Table]] = field(default_factory=list[tuple[EmitOp, pa.Table]])
    progress: dict[int, Progress] = field(default_factory=dict[int, Progress])
    input_progress: dict[int, Progress] = field(default_factory=dict[int, Progress])
    rows: dict[int, RowCounts] = field(default_factory=dict[int, RowCounts])
    failed: dict[int, Failed] = field(default_factory=dict[int, Failed])
    early_panes: dict[int, tuple[EarlyPaneReport, ...]] = field(
        default_factory=dict[int, tuple[EarlyPaneReport, ...]]
    )


class StatefulKernel(Protocol):
    """A kernel with state."""

    def holds(self, state: State, progress: Progress, reached: Progress) -> tuple[Hold, ...]:
        """What it holds after `advance`, from the numbers of its buckets and small values of its state.

        progress: at its input. reached: of its rows.
        """
        ...


class Stage:
    """Runs the operators of one level. Made once per task or worker; holds no rows between runs."""

    def __init__(self, topology: Topology, level: int, references: References = NO_REFERENCES) -> None:
        self.topology = topology
        set_limits(topology.limits)
        define({name: code for name, code in topology.functions.items() if isinstance(code, str)})
        define_callables(topology.functions)
        self.ops: tuple[Op, ...] = topology.at(level)
        self._programs = {
            op.id: Program(op.rows.items, op.rows.condition, op.rows.keep, level=topology.level)
            for op in self.ops
            if isinstance(op, RowsOp)
        }
        self._kernels = {
            op.id: WindowAggregate(op.spec) for op in self.ops if isinstance(op, PartialOp | WindowOp)
        }
        self._joins = {
            op.id: IntervalJoin(op.spec, row_condition(op.spec.condition, topology.level))
            for op in self.ops
            if isinstance(op, JoinOp)
        }
        self._analytics = {
            op.id: AnalyticFunctions(op.specs, op.substreams) for op in self.ops if isinstance(op, AnalyticOp)
        }
        self._patterns = {
            op.id: patterns_of(op.spec, topology.level) for op in self.ops if isinstance(op, PatternOp)
        }
        self._lookups = {
            op.id: ReferenceLookup(op.spec, references, topology.level)
            for op in self.ops
            if isinstance(op, LookupOp)
        }
        #: The kernels with state; a PartialOp has a kernel of windows too, but none.
        self._stateful_kernels: dict[int, StatefulKernel] = {
            **{op.id: self._kernels[op.id] for op in self.ops if isinstance(op, WindowOp)},
            **self._joins,
            **self._analytics,
            **self._patterns,
        }

    def run(
        self,
        entries: Mapping[int, Sequence[pa.Table]],
        progress: Mapping[int, Progress],
        state_of: Callable[[int], State],
        known: Known,
    ) -> StageResult:
        """Run every operator whose entry is in `progress`, in order.

        entries: rows per ScanOp or ReceiveOp id.
        progress: of each of these; an entry without progress does not run (a scan task runs its own readers).
        state_of: the state of an operator, by its id.
        known: how many snapshots of each reference input count in this batch. Raises EvaluationError with
        its place for a row that fails, or, if the topology allows it, leaves it out and counts it.
        """
        result = StageResult(progress=dict(progress))
        rows: dict[int, list[pa.Table]] = {
            id_: [table for table in entries.get(id_, ()) if table.num_rows] for id_ in progress
        }
        for op in self.ops:
            with part(f"#{op.id}"):
                try:
                    self._advance(op, rows, result, state_of, known)
                except EvaluationError as error:
                    raise located(error, self.topology, op.id) from error
            if op.id in result.progress:
                result.rows[op.id] = _row_counts(op, rows)
        return result

    def reports(
        self,
        result: StageResult,
        state_of: Callable[[int], State],
        known: Known,
        others: Mapping[int, Sequence[Hold]] | None = None,
    ) -> tuple[OperatorReport, ...]:
        """What every operator that has run did, and what it holds now; no row is looked at.

        result: of `run`.
        state_of, known: as there.
        others: holds outside of the operators' state, by operator.
        """
        others = others or {}
        reports: list[OperatorReport] = []
        for op in self.ops:
            reached = result.progress.get(op.id)
            if reached is None:
                continue
            progress = result.input_progress.get(op.id, reached)
            holds = [*others.get(op.id, ()), *self._holds(op, progress, reached, state_of, known)]
            counts = result.rows[op.id]
            reports.append(
                OperatorReport(
                    op.id,
                    counts.rows_in,
                    counts.rows_out,
                    progress.watermark_ticks,
                    reached.watermark_ticks,
                    oldest_first(holds),
                    self._substreams(op, result),
                    self._lookups[op.id].newest if op.id in self._lookups else None,
                    result.early_panes.get(op.id, ()),
                )
            )
        return tuple(reports)

    def _substreams(self, op: Op, result: StageResult) -> SubstreamsAhead | None:
        """The substreams at an operator; None without any, and where they are as at the one before it."""
        reached = result.progress[op.id]
        handed_on = any(result.progress.get(source) is reached for source in sources_of(op))
        if isinstance(op, ScanOp) or handed_on:  # a scan's are in the reports of its readers
            return None
        found = SubstreamsAhead.of(reached)
        return found if found.count else None

    def _holds(
        self,
        op: Op,
        progress: Progress,
        reached: Progress,
        state_of: Callable[[int], State],
        known: Known,
    ) -> tuple[Hold, ...]:
        kernel = self._stateful_kernels.get(op.id)
        if kernel is not None:
            return kernel.holds(state_of(op.id), progress, reached)
        if isinstance(op, LookupOp) and not known.get(op.spec.input):
            kind = f"waits for the first snapshot of reference data {op.spec.input}"
            return (Hold(Component.EXTERNAL_INPUT, kind, progress.watermark_ticks),)
        return ()

    def _advance(
        self,
        op: Op,
        rows: dict[int, list[pa.Table]],
        result: StageResult,
        state_of: Callable[[int], State],
        known: Known,
    ) -> None:
        """Run one operator: `rows` of its sources become its own rows."""
        match op:
            case ScanOp() | ReceiveOp():
                return
            case WindowOp() | AnalyticOp() | PatternOp() | JoinOp():
                progress = Progress.of_inputs([result.progress[source] for source in sources_of(op)])
                result.input_progress[op.id] = progress
                on_failure = self._on_failure(op, result)
                made, result.progress[op.id] = self._stateful(op, rows, progress, state_of(op.id), on_failure)
                rows[op.id] = [] if made is None or not made.num_rows else [made]
                if isinstance(op, WindowOp) and op.spec.early_percents:
                    result.early_panes[op.id] = _early_panes(op.spec.early_percents, progress, rows[op.id])
            case RowsOp() | PartialOp() | ApplyOp() | LookupOp() | SendOp() | EmitOp():
                if op.source in result.progress:
                    result.progress[op.id] = result.progress[op.source]
                    rows[op.id] = self._stateless(op, rows[op.source], result, known)

    def _on_failure(self, op: Op, result: StageResult) -> OnFailure | None:
        """What counts the rows an operator leaves out; None if a row that fails stops the job."""
        if not self.topology.drops_failing_rows:
            return None

        def take(count: int, error: EvaluationError) -> None:
            message = located(error, self.topology, op.id).message
            result.failed = added(result.failed, {op.id: Failed(count, message)})

        return take

    def _stateful(
        self,
        op: WindowOp | AnalyticOp | PatternOp | JoinOp,
        rows: Mapping[int, Sequence[pa.Table]],
        progress: Progress,
        state: State,
        on_failure: OnFailure | None,
    ) -> tuple[pa.Table | None, Progress]:
        """The rows an operator makes, None for none, and the progress of these; `progress`: at its input."""

        def of(sources: Sequence[int]) -> list[pa.Table]:
            return [table for source in sources for table in rows[source]]

        match op:
            case WindowOp():
                kernel = self._kernels[op.id]
                made = kernel.advance(of(op.sources), progress, state, on_failure)
                return made, kernel.output_progress(progress, state)
            case AnalyticOp():
                analytic = self._analytics[op.id]
                return analytic.advance(of(op.sources), progress, state, on_failure), progress
            case PatternOp():
                return self._patterns[op.id].advance(of(op.sources), progress, state, on_failure)
            case JoinOp():
                return self._joins[op.id].advance(of(op.left), of(op.right), progress, state, on_failure)

    def _stateless(
        self,
        op: RowsOp | PartialOp | ApplyOp | LookupOp | SendOp | EmitOp,
        tables: list[pa.Table],
        result: StageResult,
        known: Known,
    ) -> list[pa.Table]:
        on_failure = self._on_failure(op, result)
        match op:
            case RowsOp():
                made = [self._programs[op.id].run(table, on_failure) for table in tables]
                return [table for table in made if table.num_rows]
            case ApplyOp():
                made = [applied(op, table, self.topology.level, on_failure) for table in tables]
                return [table for table in made if table.num_rows]
            case LookupOp():
                made = [self._lookups[op.id].run(table, known, on_failure) for table in tables]
                return [table for table in made if table.num_rows]
            case PartialOp():
                return [self._kernels[op.id].partial(unify(tables), on_failure)] if tables else []
            case SendOp():
                result.sends += [(op, table) for table in tables]
            case EmitOp():
                result.emits += [(op, table) for table in tables]
        return []


def _early_panes(
    percents: Sequence[int], progress: Progress, made: Sequence[pa.Table]
) -> tuple[EarlyPaneReport, ...]:
    """progress: at the input of the window. made: its results."""
    counts = dict.fromkeys(pane_texts(tuple(percents)), 0)
    for table in made:
        for each in pc.value_counts(table[PANE]).to_pylist():
            counts[each["values"]] += each["counts"]
    return tuple(
        EarlyPaneReport(percent, progress.early_at(percent), counts[early_text(percent)])
        for percent in percents
    )


def _row_counts(op: Op, rows: Mapping[int, Sequence[pa.Table]]) -> RowCounts:
    """An exit hands on what it takes, an entry too."""

    def count(id_: int) -> int:
        return sum(table.num_rows for table in rows.get(id_, ()))

    match op:
        case ScanOp() | ReceiveOp():
            return RowCounts(count(op.id), count(op.id))
        case SendOp() | EmitOp():
            return RowCounts(count(op.source), count(op.source))
        case _:
            return RowCounts(sum(count(source) for source in sources_of(op)), count(op.id))
