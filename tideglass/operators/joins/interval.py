"""JOIN of two streams: pairs of rows with equal keys, close enough in time (`asa.md` 2.8, 1.3, A-25).

A pair is emitted in the batch in which its later row arrives. A left row of a LEFT JOIN that no right row
can match any more is emitted alone, when the watermark passes the end of its last admissible unit. What comes
out depends on the rows only: not on how they were cut into batches, nor on how keys were spread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Ints, Words
from tideglass.core.columns import unify
from tideglass.core.failing_rows import OnFailure
from tideglass.core.time import AFTER_ALL_TICKS, BEFORE_ALL_TICKS, TICKS_PER_SECOND
from tideglass.core.types import (
    ARRIVAL,
    INPUT,
    OFFSET,
    ORDER_COLUMNS,
    PARTITION,
    SUBSTREAM,
    SYSTEM_TIMESTAMP,
    Type,
    field,
)
from tideglass.operators.holds import Component, Hold
from tideglass.operators.joins.pairs import Condition, coded, pairs
from tideglass.operators.output_watermark import held_back
from tideglass.operators.progress import Progress
from tideglass.operators.state.bucket_log import RowLog
from tideglass.operators.state.store import State, next_numbers
from tideglass.plan.expressions import references
from tideglass.plan.output_timestamp import PairTimestamp
from tideglass.plan.specs import IntervalJoinSpec

NUMBER = "$n"  # int64: names a left row inside the state of one key group
UNTIL = "$until"  # int64 ticks: no right row after this can match the left row

#: The rows a pair can be made of are kept in at most so many buckets, so that few rows stay too long.
BUCKETS_PER_JOIN = 64


@dataclass(frozen=True, slots=True)
class _JoinLogs:
    """What a join keeps by time: rows of both sides, and the numbers of left rows that have matched."""

    left: RowLog
    right: RowLog
    matched: RowLog


@dataclass(frozen=True)
class IntervalJoin:
    """The join of one FROM clause.

    condition: finds the pairs that fulfil `spec.condition`, of its columns and `$ts`; None without one.
    """

    spec: IntervalJoinSpec
    condition: Condition | None = None

    @cached_property
    def _condition_columns(self) -> set[str]:
        return set() if self.spec.condition is None else references(self.spec.condition)

    @property
    def _outer(self) -> bool:
        return self.spec.kind == "left"

    @property
    def _stays_ticks(self) -> int:
        """How long after its time a left row is needed at most."""
        return max(self.spec.upper_ticks, self.spec.unmatched_ticks) if self._outer else self.spec.upper_ticks

    def advance(
        self,
        left: Sequence[pa.Table],
        right: Sequence[pa.Table],
        progress: Progress,
        state: State,
        on_failure: OnFailure | None = None,
    ) -> tuple[pa.Table | None, Progress]:
        """Takes new rows of both sides; returns the rows to emit, and their progress.

        left, right: order columns, `$substream` with substreams, key columns and the side's own columns;
        no row before the watermark of an earlier call. The result has the order columns, `$substream` and
        the columns of both sides; None if there is no row. Raises EvaluationError for a pair on which the
        condition fails; with `on_failure` such pairs are reported there and do not match.
        """
        logs = self._logs(state)
        fresh_left = self._numbered(unify(left), state) if left else None
        fresh_right = unify(right).combine_chunks() if right else None
        made: list[pa.Table] = []
        matched: list[pa.Table] = []
        if fresh_left is not None:
            times = fresh_left[SYSTEM_TIMESTAMP].to_numpy()
            first_ticks, last_ticks = (
                int(times.min()) + self.spec.lower_ticks,
                int(times.max()) + self.spec.upper_ticks,
            )
            for theirs in (fresh_right, _read(logs.right, first_ticks, last_ticks)):
                if theirs is not None:
                    matched.append(self._meet(fresh_left, theirs, made, on_failure))
        if fresh_right is not None:
            times = fresh_right[SYSTEM_TIMESTAMP].to_numpy()
            first_ticks, last_ticks = (
                int(times.min()) - self.spec.upper_ticks,
                int(times.max()) - self.spec.lower_ticks,
            )
            held = _read(logs.left, first_ticks, last_ticks)
            if held is not None:
                matched.append(self._meet(held, fresh_right, made, on_failure))
        waiting: list[pa.Table] = []
        if self._outer:
            for rows in matched:
                logs.matched.add(rows)
            waiting = self._emit_unmatched(fresh_left, progress, state, logs, made)
        self._keep(fresh_left, fresh_right, progress, logs)
        return (unify(made) if made else None), self._reached(progress, waiting, state, logs)

    def holds(self, state: State, progress: Progress, reached: Progress) -> tuple[Hold, ...]:
        """The rows of both sides that a later row may match; `reached`: the progress of the result.

        A left row of a LEFT JOIN is due when it comes out alone. Its stamp may be before the watermark, since
        a unit of DATEDIFF ends later: then it holds the output watermark. Rows of the side whose element is
        the time of a pair hold it as long as they may match.
        """
        logs = self._logs(state)
        holds: list[Hold] = []
        left_ticks, right_ticks = logs.left.oldest_ticks, logs.right.oldest_ticks
        is_held = reached.watermark_ticks < progress.watermark_ticks
        by_right = self.spec.output_timestamp is PairTimestamp.RIGHT
        if left_ticks is not None:
            held_back = is_held and not by_right
            due_ticks = max(self._until(left_ticks), progress.watermark_ticks)
            kind = "left rows that wait for a match"
            kind += " or for their due time" if self._outer else ""
            oldest_ticks = reached.watermark_ticks if held_back else left_ticks
            rows = logs.left.rows_held
            holds.append(Hold(Component.STATE, kind, oldest_ticks, rows, due_ticks, held_back))
        if right_ticks is not None:
            due_ticks = max(right_ticks - self.spec.lower_ticks, progress.watermark_ticks)
            kind = "right rows that wait for a match"
            held_back = is_held and by_right
            oldest_ticks = reached.watermark_ticks if held_back else right_ticks
            rows = logs.right.rows_held
            holds.append(Hold(Component.STATE, kind, oldest_ticks, rows, due_ticks, held_back))
        return tuple(holds)

    def _until(self, left_ticks: int) -> int:
        """Until when a left row of this time can match, or waits to come out alone."""
        until_ticks = min(
            (
                ((left_ticks - bound.origin_ticks) // bound.unit_ticks + bound.highest + 1) * bound.unit_ticks
                + bound.origin_ticks
                - 1
                for bound in self.spec.bounds
                if bound.highest is not None
            ),
            default=left_ticks + self.spec.upper_ticks,
        )
        return max(until_ticks, left_ticks + self.spec.unmatched_ticks) if self._outer else until_ticks

    def _logs(self, state: State) -> _JoinLogs:
        width_ticks = max(
            TICKS_PER_SECOND, (self.spec.upper_ticks - self.spec.lower_ticks) // BUCKETS_PER_JOIN
        )
        return _JoinLogs(*(RowLog(state, number, 3, width_ticks) for number in range(3)))

    # ------------------------------------------------------------ rows as they arrive

    def _numbered(self, rows: pa.Table, state: State) -> pa.Table:
        """Left rows with a number each and the time until which they can match."""
        rows = rows.combine_chunks()
        numbers = next_numbers(state, rows.num_rows)
        _, until = self._admissible(rows)
        if self._outer:
            until = np.maximum(until, rows[SYSTEM_TIMESTAMP].to_numpy() + self.spec.unmatched_ticks)
        rows = rows.append_column(field(NUMBER, Type.BIGINT), pa.array(numbers))
        return rows.append_column(field(UNTIL, Type.DATETIME), pa.array(until))

    def _admissible(self, left: pa.Table) -> tuple[Ints, Ints]:
        """The first and last instant a right row of each left row may have."""
        first = np.full(left.num_rows, BEFORE_ALL_TICKS, np.int64)
        last = np.full(left.num_rows, AFTER_ALL_TICKS, np.int64)
        for bound in self.spec.bounds:
            column = left[bound.base]
            base = (column if pa.types.is_int64(column.type) else column.cast(pa.int64())).fill_null(0)
            number = (base.to_numpy() - bound.origin_ticks) // bound.unit_ticks
            if bound.lowest is not None:
                first = np.maximum(first, (number + bound.lowest) * bound.unit_ticks + bound.origin_ticks)
            if bound.highest is not None:
                end = (number + (bound.highest + 1)) * bound.unit_ticks + bound.origin_ticks
                last = np.minimum(last, end - 1)
            if column.null_count:  # the source meant is missing: a distance to nothing is within no bound
                last[np.asarray(column.is_null())] = BEFORE_ALL_TICKS
        return first, last

    def _keep(
        self, left: pa.Table | None, right: pa.Table | None, progress: Progress, logs: _JoinLogs
    ) -> None:
        """Keeps new rows that may still match, drops what cannot match any more."""
        if left is not None:
            alive = left[UNTIL].to_numpy() >= progress.of_rows(left)
            kept = left if alive.all() else left.filter(pa.array(alive))
            logs.left.add(kept)
        if right is not None:
            alive = right[SYSTEM_TIMESTAMP].to_numpy() - self.spec.lower_ticks >= progress.of_rows(right)
            kept = right if alive.all() else right.filter(pa.array(alive))
            logs.right.add(kept)
        for log in (logs.left, logs.matched):
            log.drop_until(progress.watermark_ticks - self._stays_ticks - 1)
        logs.right.drop_until(progress.watermark_ticks + self.spec.lower_ticks - 1)
        for log in (logs.left, logs.matched, logs.right):
            log.save()

    # ------------------------------------------------------------ the output watermark

    def _reached(
        self, progress: Progress, waiting: Sequence[pa.Table], state: State, logs: _JoinLogs
    ) -> Progress:
        """The progress of the result: no later row is before it.

        waiting: left rows that may still be emitted alone. With the time of an element, every row of its side
        that may still match holds the watermark (`asa.md` 11.4).
        """
        match self.spec.output_timestamp:
            case PairTimestamp.LATER:
                if not self._outer:
                    return progress
                moved = self.spec.unmatched_ticks
                return held_back(progress, waiting, self.spec.substreams, state, moved, min(0, moved))
            case PairTimestamp.LEFT:
                log = logs.left
            case PairTimestamp.RIGHT:
                log = logs.right
        return held_back(progress, self._oldest_open(log, progress), self.spec.substreams, state)

    def _oldest_open(self, log: RowLog, progress: Progress) -> list[pa.Table]:
        """The rows of one side that may still match; without substreams only those of their first bucket."""
        found: list[pa.Table] = []
        for bucket in log.buckets():
            rows = log.read(bucket)
            last = (
                rows[UNTIL].to_numpy()
                if UNTIL in rows.column_names
                else rows[SYSTEM_TIMESTAMP].to_numpy() - self.spec.lower_ticks
            )
            open_ = last >= progress.of_rows(rows)
            if open_.any():
                names = [SYSTEM_TIMESTAMP, *([SUBSTREAM] if self.spec.substreams else [])]
                found.append(rows.select(names).filter(pa.array(open_)))
                if not self.spec.substreams:
                    break
        return found

    def _stamps(self, left_ticks: Ints, right_ticks: Ints) -> Ints:
        """The time of each pair."""
        match self.spec.output_timestamp:
            case PairTimestamp.LATER:
                return np.maximum(left_ticks, right_ticks)
            case PairTimestamp.LEFT:
                return left_ticks
            case PairTimestamp.RIGHT:
                return right_ticks

    # ------------------------------------------------------------ pairs

    def _meet(
        self, left: pa.Table, right: pa.Table, made: list[pa.Table], on_failure: OnFailure | None
    ) -> pa.Table:
        """Adds the pairs of both tables to `made`; answers with time and number of the left rows in them."""
        keys = coded(left, right, self.spec.keys)
        seen = np.zeros(left.num_rows, np.bool_)
        if keys is not None:
            first, last = self._admissible(left)
            for ours, theirs in pairs(keys, first, last, right[SYSTEM_TIMESTAMP].to_numpy()):
                if self.condition is not None and len(ours):
                    holds = self.condition(self._candidates(left, right, ours, theirs), on_failure)
                    ours, theirs = ours[holds], theirs[holds]
                if len(ours):
                    made.append(self._pairs(left, right, ours, theirs))
                    seen[ours] = True
        return left.select([SYSTEM_TIMESTAMP, NUMBER]).filter(pa.array(seen))

    def _candidates(self, left: pa.Table, right: pa.Table, ours: Ints, theirs: Ints) -> pa.Table:
        our_names = [name for name in self.spec.left_columns if name in self._condition_columns]
        their_names = [name for name in self.spec.right_columns if name in self._condition_columns]
        our_part = left.select(our_names).take(pa.array(ours))
        their_part = right.select(their_names).take(pa.array(theirs))
        times = self._stamps(
            left[SYSTEM_TIMESTAMP].to_numpy()[ours], right[SYSTEM_TIMESTAMP].to_numpy()[theirs]
        )
        schema = pa.schema([*our_part.schema, *their_part.schema, field(SYSTEM_TIMESTAMP, Type.DATETIME)])
        return pa.table([*our_part.columns, *their_part.columns, pa.array(times)], schema=schema)

    def _pairs(self, left: pa.Table, right: pa.Table, ours: Ints, theirs: Ints) -> pa.Table:
        kept = [*ORDER_COLUMNS, *([SUBSTREAM] if self.spec.substreams else [])]
        our_part = left.select([*kept, *self.spec.left_columns]).take(pa.array(ours))
        their_part = right.select([*kept, *self.spec.right_columns]).take(pa.array(theirs))
        times = self._stamps(our_part[SYSTEM_TIMESTAMP].to_numpy(), their_part[SYSTEM_TIMESTAMP].to_numpy())
        arrivals = np.maximum(our_part[ARRIVAL].to_numpy(), their_part[ARRIVAL].to_numpy())
        offset = _place_hash(their_part, _place_hash(our_part, np.zeros(len(ours), np.uint64)))
        return self._result(our_part, their_part, times, arrivals, offset)

    def _result(
        self,
        left: pa.Table,
        right: pa.Table | None,
        times_ticks: Ints,
        arrivals_ticks: Ints,
        offset: Words,
    ) -> pa.Table:
        zero = pa.array(np.zeros(left.num_rows, np.int64))
        columns: list[tuple[pa.Field, Any]] = [
            (field(SYSTEM_TIMESTAMP, Type.DATETIME), pa.array(times_ticks)),
            (field(ARRIVAL, Type.DATETIME), pa.array(arrivals_ticks)),
            (field(INPUT, Type.BIGINT), zero),
            (field(PARTITION, Type.BIGINT), zero),
            (field(OFFSET, Type.BIGINT), pa.array(offset.view(np.int64))),
        ]
        if self.spec.substreams:
            columns.append((left.schema.field(SUBSTREAM), left[SUBSTREAM]))
        columns += [(left.schema.field(name), left[name]) for name in self.spec.left_columns]
        for name in self.spec.right_columns:
            if right is None:
                columns.append((field(name, Type.NULL), pa.nulls(left.num_rows)))
            else:
                columns.append((right.schema.field(name), right[name]))
        return pa.table([column for _, column in columns], schema=pa.schema([name for name, _ in columns]))

    # ------------------------------------------------------------ left rows alone

    def _emit_unmatched(
        self,
        fresh: pa.Table | None,
        progress: Progress,
        state: State,
        logs: _JoinLogs,
        made: list[pa.Table],
    ) -> list[pa.Table]:
        """Adds the left rows that no right row can match any more.

        Returns those that may still be emitted alone, with a time before the watermark.
        """
        previous = Progress.from_bytes(state.get("progress"))
        if previous.to_bytes() != progress.to_bytes():
            state.put("progress", progress.to_bytes())
        latest_ticks = progress.furthest_ticks - 1 - self.spec.unmatched_ticks
        numbers = _read(logs.matched, BEFORE_ALL_TICKS, latest_ticks)
        done = np.arange(0) if numbers is None else numbers[NUMBER].to_numpy()
        waiting: list[pa.Table] = []
        held = _read(logs.left, BEFORE_ALL_TICKS, latest_ticks)
        for rows, since in ((held, previous), (fresh, None)):
            if rows is None:
                continue
            until, now = rows[UNTIL].to_numpy(), progress.of_rows(rows)
            open_ = ~np.isin(rows[NUMBER].to_numpy(), done)
            due = open_ & (until < now)
            if since is not None:  # what was due before was emitted before
                due &= until >= since.of_rows(rows)
            if due.any():
                made.append(self._alone(rows.filter(pa.array(due))))
            stamps = rows[SYSTEM_TIMESTAMP].to_numpy() + self.spec.unmatched_ticks
            holding = open_ & (until >= now) & (stamps < now)
            if holding.any():
                names = [SYSTEM_TIMESTAMP, *([SUBSTREAM] if self.spec.substreams else [])]
                waiting.append(rows.select(names).filter(pa.array(holding)))
        return waiting

    def _alone(self, left: pa.Table) -> pa.Table:
        left = left.combine_chunks()
        times = left[SYSTEM_TIMESTAMP].to_numpy()
        if self.spec.output_timestamp is PairTimestamp.LATER:
            times = times + self.spec.unmatched_ticks
        offset = _place_hash(left, np.ones(left.num_rows, np.uint64))
        return self._result(left, None, times, left[ARRIVAL].to_numpy(), offset)


def _read(log: RowLog, first_ticks: int, last_ticks: int) -> pa.Table | None:
    """Rows of all buckets that may hold one from `first_ticks` to `last_ticks`; None if there are none."""
    tables = log.read_all(first_ticks, last_ticks)
    return unify(tables) if tables else None


def _place_hash(rows: pa.Table, seed: Words) -> Words:
    """A hash of each row's place in the total order, on top of `seed`."""
    mixed = seed
    for name in ORDER_COLUMNS:
        mixed = mixed ^ rows[name].to_numpy().view(np.uint64)
        # the finalizer of SplitMix64
        mixed = mixed + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed = mixed ^ (mixed >> np.uint64(31))
    return mixed
