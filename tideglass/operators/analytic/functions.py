"""Analytic functions over each row and the rows before it (`asa.md` 4.2, A-26, A-27).

Rows wait until the watermark is past their timestamp; then no row can get a place before or beside them, and
they are taken in the total order. Each row gets its values from the rows of its key up to itself, in
(t - length, t]; so they depend neither on chunks nor on batches. The state keeps the rows that wait,
and of the rows taken those that a later one may still look at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Ints, Mask, pc
from tideglass.core.columns import settle, to_variant, unify
from tideglass.core.failing_rows import OnFailure, of_sound_rows
from tideglass.core.iso import flat
from tideglass.core.tags import tag
from tideglass.core.time import ORIGIN_TICKS, TICKS_PER_SECOND
from tideglass.core.types import ORDER_COLUMNS, SYSTEM_TIMESTAMP, Type, field, type_of
from tideglass.operators.aggregates.cells import Cells, refused_by
from tideglass.operators.analytic.anomaly import detect, no_numbers, numbers
from tideglass.operators.analytic.lookback import Sorted, rows_of_keys
from tideglass.operators.analytic.moving import moving
from tideglass.operators.holds import Component, Hold
from tideglass.operators.progress import Progress
from tideglass.operators.state.bucket_log import RowLog
from tideglass.operators.state.reorder import released_before, waiting_for_order
from tideglass.operators.state.store import State
from tideglass.plan.specs import AnalyticSpec, AnomalySpec

Column = tuple[pa.Array, Type]

#: The column of a detector's values, as numbers.
_WATCHED = "$watched"
#: A look-back spans so many buckets: what is out of reach is dropped an eighth of it late.
BUCKETS_PER_LENGTH = 8


@tag("_Lane")
@dataclass(frozen=True, slots=True)
class _Lane:
    """Functions that share their keys and WHEN, and so the rows they look at."""

    specs: tuple[AnalyticSpec, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        return self.specs[0].keys

    @property
    def when(self) -> str | None:
        return self.specs[0].when

    @property
    def is_moving(self) -> bool:
        return self.specs[0].aggregate is not None

    @property
    def detectors(self) -> list[AnomalySpec]:
        """All of the functions, if they detect anomalies; they watch the same column."""
        return [spec for spec in self.specs if isinstance(spec, AnomalySpec)]

    @property
    def reach_ticks(self) -> int:
        return max(spec.length_ticks for spec in self.specs)

    @property
    def bucket_ticks(self) -> int:
        return max(TICKS_PER_SECOND, self.reach_ticks // BUCKETS_PER_LENGTH)

    @property
    def columns(self) -> tuple[str, ...]:
        """What is kept of a row."""
        times = ORDER_COLUMNS if self.is_moving else (SYSTEM_TIMESTAMP,)
        values = (name for spec in self.specs for name in spec.kept_columns)
        return tuple(dict.fromkeys((*times, *self.keys, *values)))

    def shed(self, rows: pa.Table) -> pa.Table:
        """Of matching rows in order, those that a later row may look at."""
        if self.is_moving:
            return rows
        every = np.ones(rows.num_rows, np.bool_)
        return rows.filter(pa.array(Sorted.of(rows, self.keys, every).latest(self.depth)))

    @property
    def depth(self) -> int:
        return max(spec.depth for spec in self.specs)


class AnalyticFunctions:
    """The analytic functions of one query block.

    substreams: rows have `$substream` and are released by its own watermark; every function then has the
    substream's keys among its own, so that the rows it looks at are in order.
    """

    def __init__(self, specs: Sequence[AnalyticSpec], substreams: bool = False) -> None:
        self.specs = tuple(specs)
        self.substreams = substreams
        lanes: dict[Any, list[AnalyticSpec]] = {}
        for spec in specs:
            watched = spec.arg if isinstance(spec, AnomalySpec) else None
            lanes.setdefault((spec.keys, spec.when, spec.aggregate is None, watched), []).append(spec)
        self._lanes = [_Lane(tuple(members)) for members in lanes.values()]

    def advance(
        self,
        rows: Sequence[pa.Table],
        progress: Progress,
        state: State,
        on_failure: OnFailure | None = None,
    ) -> pa.Table | None:
        """Takes rows in any order, none before an earlier watermark; returns those the watermark has passed.

        They are in the total order (with substreams: in that of each) with one column a function more;
        None if there are none. Raises EvaluationError for a value an aggregate refuses; with `on_failure`
        such rows are reported there and left out, before any function sees them.
        """
        if on_failure is not None:
            rows = [of_sound_rows(self._checked, table, on_failure, failing=self._refused) for table in rows]
        waiting = self._waiting(state)
        taken = released_before(waiting, rows, progress, self.substreams)
        values: dict[str, Column] = {}
        for number, lane in enumerate(self._lanes, 1):
            log = self._lane_log(number, lane, state)
            if taken is not None:
                values |= self._advance_lane(lane, log, taken, progress)
            log.drop_until(progress.watermark_ticks - lane.reach_ticks)
            log.save()
        if taken is None:
            return None
        for spec in self.specs:
            column, type_ = values[spec.name]
            taken = taken.append_column(field(spec.name, type_), column)
        return taken

    def holds(self, state: State, progress: Progress, reached: Progress) -> tuple[Hold, ...]:
        """The rows that wait for their place in the order, and those a later row may look back at."""
        waiting = waiting_for_order(self._waiting(state), progress)
        holds = [] if waiting is None else [waiting]
        for number, lane in enumerate(self._lanes, 1):
            log = self._lane_log(number, lane, state)
            oldest_ticks = log.oldest_ticks
            if oldest_ticks is not None:
                due_ticks = max(oldest_ticks + lane.reach_ticks, progress.watermark_ticks)
                kind = "rows that a later row may look back at"
                holds.append(Hold(Component.STATE, kind, oldest_ticks, log.rows_held, due_ticks))
        return tuple(holds)

    def _waiting(self, state: State) -> RowLog:
        return RowLog(state, 0, 1 + len(self._lanes), TICKS_PER_SECOND)

    def _lane_log(self, number: int, lane: _Lane, state: State) -> RowLog:
        return RowLog(state, number, 1 + len(self._lanes), lane.bucket_ticks, lane.shed)

    def _checked(self, rows: pa.Table) -> pa.Table:
        """The rows. Raises EvaluationError for a value an aggregate refuses."""
        for lane in self._lanes:
            own = [spec.aggregate for spec in lane.specs if spec.aggregate is not None]
            if own:
                Cells(rows.filter(pa.array(_matching(rows, lane.when))), own)
            elif lane.detectors:
                _numbers(lane.detectors, rows, _matching(rows, lane.when))
        return rows

    def _refused(self, rows: pa.Table) -> Ints:
        """The places of the rows with a value an aggregate or a detector refuses."""
        refused = np.zeros(rows.num_rows, np.bool_)
        for lane in self._lanes:
            places = np.flatnonzero(_matching(rows, lane.when))
            matching = rows.take(pa.array(places))
            own = [spec.aggregate for spec in lane.specs if spec.aggregate is not None]
            refused[places[refused_by(own, matching)]] = True
            for detector in lane.detectors[:1]:  # all of a lane watch the same column
                refused[places[no_numbers(matching, str(detector.arg))]] = True
        return np.flatnonzero(refused)

    # ------------------------------------------------------------ one lane

    def _advance_lane(
        self, lane: _Lane, log: RowLog, released: pa.Table, progress: Progress
    ) -> dict[str, Column]:
        """The values of a lane's functions for the released rows; what a later row needs is kept."""
        matching = _matching(released, lane.when)
        rows = released.select([name for name in lane.columns if name in released.column_names])
        if lane.detectors:
            rows, matching = _watched(lane.detectors, released, rows, matching)
        first_ticks = int(released[SYSTEM_TIMESTAMP].to_numpy().min()) - lane.reach_ticks
        held = [log.read(b) for b in log.buckets() if log.start_ticks(b + 1) > first_ticks]
        if sum(table.num_rows for table in held) > rows.num_rows:
            held = [rows_of_keys(table, rows, lane.keys) for table in held]
        before = sum(table.num_rows for table in held)
        everything = unify([*held, rows]) if held else rows
        if before:
            matching = np.concatenate([np.ones(before, np.bool_), matching])
        ordered = Sorted.of(everything, lane.keys, matching)
        values: dict[str, Column] = {}
        for spec in lane.specs:
            if isinstance(spec, AnomalySpec):
                everything, values[spec.name] = _anomalies(spec, everything, ordered, before)
            elif spec.function == "isfirst":
                values[spec.name] = _is_first(spec, ordered, before)
            elif spec.aggregate is None:
                values[spec.name] = _earlier(spec, everything, ordered, before, released)
        if lane.is_moving:
            for length_ticks in {spec.length_ticks for spec in lane.specs}:
                own = [s.aggregate for s in lane.specs if s.length_ticks == length_ticks and s.aggregate]
                values |= moving(own, everything, ordered, length_ticks, before)
        kept = ordered.matching if lane.is_moving else ordered.latest(lane.depth)
        kept = kept & (ordered.times_ticks > progress.watermark_ticks - lane.reach_ticks)
        kept[:before] = False
        log.add(everything.filter(pa.array(kept)))
        return values


def _matching(rows: pa.Table, when: str | None) -> Any:
    """The rows for which WHEN holds."""
    if when is None:
        return np.ones(rows.num_rows, np.bool_)
    if type_of(rows.schema.field(when)) is Type.NULL:
        return np.zeros(rows.num_rows, np.bool_)
    return np.asarray(pc.fill_null(flat(rows[when]), False))


def _is_first(spec: AnalyticSpec, ordered: Sorted, before: int) -> Column:
    """1 where no matching row of the key is before it in the interval (start, end]."""
    intervals: Ints = -((ORIGIN_TICKS - ordered.times_ticks) // spec.length_ticks)
    earlier, found = ordered.earlier(1)
    first = ordered.matching & ~(found & (intervals[earlier] == intervals))
    return pa.array(first[before:].astype(np.int64)), Type.BIGINT


def _earlier(
    spec: AnalyticSpec, everything: pa.Table, ordered: Sorted, before: int, released: pa.Table
) -> Column:
    """LAG and LAST: the value of an earlier matching row, the default where there is none in reach."""
    assert spec.arg is not None
    places, found = ordered.earlier(spec.offset, with_current=spec.function == "last")
    found = found & (ordered.times_ticks[places] > ordered.times_ticks - spec.length_ticks)
    places, found = places[before:], found[before:]
    type_ = type_of(everything.schema.field(spec.arg))
    value = flat(everything[spec.arg]).take(pa.array(places, mask=~found))
    if spec.default is None or found.all():
        return settle(value, type_)
    other = type_of(released.schema.field(spec.default))
    default = flat(released[spec.default])
    if other is Type.NULL:
        return settle(value, type_)
    if other is not type_:
        value, default = to_variant(value, type_), to_variant(default, other)
        type_ = Type.VARIANT
    return settle(pc.if_else(pa.array(found), value, default), type_)


def _numbers(detectors: Sequence[AnomalySpec], rows: pa.Table, matching: Mask) -> tuple[Any, Any]:
    """The watched values of the rows that match, and which of these rows have one."""
    first = detectors[0]
    assert first.arg is not None
    return numbers(rows.filter(pa.array(matching)), first.arg, first.function, first.span)


def _watched(
    detectors: Sequence[AnomalySpec], released: pa.Table, rows: pa.Table, matching: Mask
) -> tuple[pa.Table, Mask]:
    """The rows with their watched values and room for what detectors keep; which match and have a value."""
    found, known = _numbers(detectors, released, matching)
    values = np.zeros(rows.num_rows)
    values[matching] = found
    matching = matching.copy()
    matching[matching] = known
    rows = rows.append_column(field(_WATCHED, Type.FLOAT), pa.array(values))
    for spec in detectors:
        rows = rows.append_column(field(spec.logs_column, Type.FLOAT), pa.array(np.zeros(len(values))))
    return rows, matching


def _anomalies(
    spec: AnomalySpec, everything: pa.Table, ordered: Sorted, before: int
) -> tuple[pa.Table, Column]:
    """The detector's results, and the rows with what is kept for it."""
    place = everything.column_names.index(spec.logs_column)
    values, logs = (np.asarray(flat(everything[name])) for name in (_WATCHED, spec.logs_column))
    texts, logs = detect(spec.model, values, logs, ordered, spec.length_ticks, before)
    kept = everything.set_column(place, everything.schema.field(place), pa.array(logs))
    return kept, settle(texts, Type.RECORD)
