"""MATCH_RECOGNIZE: the preferred match from each event on, among the events of its key (`asa.md` 2.14).

Events wait until the watermark has passed them, so that they are known in the total order. A match that
begins at an event is decided as soon as no later event can make another one of it, at the latest when the
watermark has passed the event by more than the limit; then its row is emitted, stamped with its last event's
time. An event that may still begin a match is open. The state keeps open events and those after them; the
result depends neither on batches nor on how keys are spread.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Ints, Mask, pc
from tideglass.core.columns import unify
from tideglass.core.failing_rows import OnFailure
from tideglass.core.time import TICKS_PER_SECOND
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
from tideglass.operators.analytic.lookback import Sorted, rows_of_keys
from tideglass.operators.holds import Component, Hold
from tideglass.operators.output_watermark import held_back
from tideglass.operators.patterns.events import Definition, Events
from tideglass.operators.patterns.extremes import NONE
from tideglass.operators.patterns.nfa import MOST_EVENTS, Matches, Pattern, Trail
from tideglass.operators.progress import Progress
from tideglass.operators.state.bucket_log import RowLog
from tideglass.operators.state.reorder import in_order, released_before, waiting_for_order
from tideglass.operators.state.store import State, next_numbers
from tideglass.plan.patterns import MatchedValue
from tideglass.plan.specs import PatternSpec

NUMBER = "$n"  # int64: names an event inside the state of one key group
OPEN = "$open"  # bool: a match may begin here, if its number is not among the decided ones
STAMP = "$stamp"  # int64 ticks: the row of the match that begins at the event is not earlier

#: The limit spans so many buckets: what is out of reach is dropped an eighth of it late.
BUCKETS_PER_LIMIT = 8
#: An open event is looked at again with every event after it up to so many, then with the 96th, 128th,
#: 192nd, 256th, ...: an event is then looked at only a few times. A longer match is emitted that
#: much later, at its limit at the latest. It depends on the events alone, so that a replay knows what has.
FEW_EVENTS = 64


@dataclass(frozen=True, slots=True)
class _PatternLogs:
    """What is kept by time: rows ahead of the watermark, events, and of open ones what changes of them."""

    waiting: RowLog
    events: RowLog
    decided: RowLog
    stamped: RowLog


@dataclass(frozen=True)
class Patterns:
    """One MATCH_RECOGNIZE.

    definitions: what is tested of each of `spec.variables`, in their order
    """

    spec: PatternSpec
    definitions: tuple[Definition, ...]

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return self.spec.columns

    @cached_property
    def measures(self) -> tuple[MatchedValue, ...]:
        """The values that are columns of the result."""
        return tuple(value for value in self.spec.values if value.name in self.spec.measured)

    @cached_property
    def pattern(self) -> Pattern:
        classified = any(value.arg is None for value in self.measures)
        return Pattern(self.spec.states, self.definitions, self.spec.values_read, classified=classified)

    def advance(
        self,
        rows: Sequence[pa.Table],
        progress: Progress,
        state: State,
        on_failure: OnFailure | None = None,
    ) -> tuple[pa.Table | None, Progress]:
        """Takes new rows; returns the rows of the matches decided, and their progress.

        rows: order columns, `$substream` with substreams, and `columns`; in any order, none before the
        watermark of an earlier call. The result has the order columns, `$substream` and the measured values;
        None if there is no row. Raises EvaluationError for a condition that fails on the thread that counts,
        or a measure that does; with `on_failure` it is reported there, such a condition does not hold, and
        such a match is left out.
        """
        logs = self._logs(state)
        taken = released_before(logs.waiting, rows, progress, self.spec.substreams)
        if taken is not None:
            taken = self._numbered(taken, state)
        decided = _numbers(logs.decided)
        made = None
        known = self._known(taken, decided, progress, logs)
        if known is not None:
            made = known.advance(logs, on_failure)
        for log in (logs.events, logs.decided, logs.stamped):
            log.drop_until(progress.watermark_ticks - self.spec.limit_ticks - 1)
            log.save()
        return made, self._result_progress(progress, state, logs)

    def holds(self, state: State, progress: Progress, reached: Progress) -> tuple[Hold, ...]:
        """The events that wait for their place in the order, and those of matches that are not decided.

        reached: the progress of the result. A row has the time of its last event, which the watermark may
        have passed.
        """
        logs = self._logs(state)
        waiting = waiting_for_order(logs.waiting, progress)
        holds = [] if waiting is None else [waiting]
        event_ticks = logs.events.oldest_ticks
        if event_ticks is not None:
            held_back = reached.watermark_ticks < progress.watermark_ticks
            oldest_ticks = reached.watermark_ticks if held_back else event_ticks
            due_ticks = max(event_ticks + self.spec.limit_ticks, progress.watermark_ticks)
            rows = logs.events.rows_held
            kind = "events of partial matches"
            holds.append(Hold(Component.STATE, kind, oldest_ticks, rows, due_ticks, held_back))
        return tuple(holds)

    def _logs(self, state: State) -> _PatternLogs:
        width_ticks = max(TICKS_PER_SECOND, self.spec.limit_ticks // BUCKETS_PER_LIMIT)
        widths_ticks = (TICKS_PER_SECOND, width_ticks, width_ticks, width_ticks)
        return _PatternLogs(*(RowLog(state, number, 4, width) for number, width in enumerate(widths_ticks)))

    def _numbered(self, rows: pa.Table, state: State) -> pa.Table:
        kept = [*ORDER_COLUMNS, *([SUBSTREAM] if self.spec.substreams else []), *self.columns]
        numbers = pa.array(next_numbers(state, rows.num_rows))
        rows = rows.select(list(dict.fromkeys(kept))).append_column(field(NUMBER, Type.BIGINT), numbers)
        return rows.append_column(field(OPEN, Type.BIT), pa.array(np.ones(rows.num_rows, np.bool_)))

    def _known(
        self, taken: pa.Table | None, decided: Ints, progress: Progress, logs: _PatternLogs
    ) -> _Known | None:
        """The events of all keys of which there are new ones, or whose limit is over; None without any."""
        fresh = [] if taken is None else [taken]
        asked = list(fresh)
        for bucket in logs.events.buckets():
            if logs.events.start_ticks(bucket) + self.spec.limit_ticks >= progress.furthest_ticks:
                break
            rows = logs.events.read(bucket)
            asked.append(rows.filter(pa.array(self.closed(rows, progress) & _open(rows, decided))))
        asked = [table for table in asked if table.num_rows]
        if not asked:
            return None
        held = logs.events.read_all()
        before = [rows_of_keys(unify(held), unify(asked), self.spec.keys)] if held else []
        every = unify([*before, *fresh])
        return _Known.of(
            self, every, every.num_rows - sum(table.num_rows for table in fresh), decided, progress
        )

    def closed(self, rows: pa.Table, progress: Progress) -> Mask:
        """The events from which on no further event can be part of a match."""
        watermarks = progress.of(rows[SUBSTREAM]) if self.spec.substreams else progress.watermark_ticks
        return rows[SYSTEM_TIMESTAMP].to_numpy() + self.spec.limit_ticks < watermarks

    def _result_progress(self, progress: Progress, state: State, logs: _PatternLogs) -> Progress:
        decided = _numbers(logs.decided)
        waiting: list[pa.Table] = []
        for rows in logs.stamped.read_all():
            open_ = ~np.isin(rows[NUMBER].to_numpy(), decided)
            place = rows.column_names.index(SYSTEM_TIMESTAMP)
            rows = rows.set_column(place, field(SYSTEM_TIMESTAMP, Type.DATETIME), rows[STAMP])
            waiting.append(rows.filter(pa.array(open_)))
        return held_back(progress, waiting, self.spec.substreams, state)


@dataclass(frozen=True)
class _Known:
    """The events of some keys up to the watermark, and what can be decided of them.

    All arrays have an entry for each event, in the order by key.

    patterns: the operator
    rows: the events in the total order, those held before first
    order: the positions in `rows`, sorted by key
    events: the rows sorted by key
    firsts: the index of the key's first event
    new: the event has arrived in this batch
    new_events: number of the key's events that have arrived in this batch
    following: number of the key's events from this one on
    open: whether a match may start here is not decided
    closed: the watermark is past the limit of a match that starts here
    """

    patterns: Patterns
    rows: pa.Table
    order: Ints
    events: Events
    firsts: Ints
    new: Mask
    new_events: Ints
    following: Ints
    open: Mask
    closed: Mask

    @classmethod
    def of(cls, patterns: Patterns, rows: pa.Table, held: int, decided: Ints, progress: Progress) -> _Known:
        rows = rows.combine_chunks()
        keyed = Sorted.of(rows, patterns.spec.keys, np.ones(rows.num_rows, np.bool_))
        by_key = rows.take(pa.array(keyed.order))
        firsts = np.flatnonzero(np.diff(keyed.codes, prepend=-1))
        sizes = np.diff(firsts, append=len(keyed.codes))
        ends = np.repeat(firsts + sizes, sizes)
        new = keyed.order >= held
        new_events = np.repeat(np.add.reduceat(new.astype(np.int64), firsts), sizes)
        return cls(
            patterns,
            rows,
            keyed.order,
            Events(by_key),
            np.repeat(firsts, sizes),
            new,
            new_events,
            ends - np.arange(len(ends)),
            _open(by_key, decided),
            patterns.closed(by_key, progress),
        )

    def advance(self, logs: _PatternLogs, on_failure: OnFailure | None) -> pa.Table | None:
        """Decides what can be decided; keeps what cannot, and the events after it."""
        earlier = np.where(self.new, 0, self.following - self.new_events)
        again = looked_at(self.following) > looked_at(earlier)
        starts = np.flatnonzero(self.open & (self.closed | again))
        seen = np.where(self.closed, self.following, looked_at(self.following))
        trail = Trail()
        found = self.patterns.pattern.found(
            self.events,
            starts,
            starts + seen[starts],
            self.events.times_ticks[starts] + self.patterns.spec.limit_ticks,
            self.closed[starts],
            trail,
            on_failure is not None,
        )
        still = self.open.copy()
        still[starts] = found.open
        # its row has the time of the best end so far, or of an event not looked at yet
        firsts = np.arange(len(still)) + seen
        known = np.flatnonzero(found.lengths > 0)
        firsts[starts[known]] = starts[known] + found.lengths[known] - 1
        self._keep(still, firsts, logs)
        return self._rows(starts, found, trail, on_failure)

    def _keep(self, still: Mask, firsts: Ints, logs: _PatternLogs) -> None:
        """still: the events that are open yet. firsts: where the match of each may end at the earliest."""
        rows = self.events.rows
        over = self.open & ~still & ~self.new
        logs.decided.add(rows.select([SYSTEM_TIMESTAMP, NUMBER]).filter(pa.array(over)))
        ends = np.arange(len(still)) + self.following
        was_stamped = np.isin(rows[NUMBER].to_numpy(), _numbers(logs.stamped))
        stamped = np.flatnonzero(still & ~was_stamped & (firsts < ends))
        names = [SYSTEM_TIMESTAMP, NUMBER, *([SUBSTREAM] if self.patterns.spec.substreams else [])]
        stamps = self.events.times_ticks[firsts[stamped]]
        held = rows.select(names).take(pa.array(stamped))
        logs.stamped.add(held.append_column(field(STAMP, Type.DATETIME), pa.array(stamps)))
        # an event is part of matches that begin at open events of its key, itself or earlier ones
        count = np.cumsum(still)
        kept = self.new & (count > (count - still)[self.firsts])
        chosen = np.zeros(len(kept), np.bool_)
        chosen[self.order] = kept
        marks = np.zeros(len(kept), np.bool_)
        marks[self.order] = still
        place = self.rows.column_names.index(OPEN)
        marked = self.rows.set_column(place, field(OPEN, Type.BIT), pa.array(marks))
        logs.events.add(marked.filter(pa.array(chosen)))

    def _rows(
        self, starts: Ints, found: Matches, trail: Trail, on_failure: OnFailure | None
    ) -> pa.Table | None:
        pattern = self.patterns.pattern
        wrong = np.flatnonzero(~found.open & (found.failed | (found.failures > 0)))
        for number in wrong[np.argsort(self.order[starts[wrong]])]:
            error = pattern.error(self.events, found.tests[int(number)])
            if on_failure is None:
                raise error
            on_failure(int(found.failures[number]), error)
        chosen = np.flatnonzero(~found.open & (found.lengths > 0))
        for value in self.patterns.measures:
            if value.arg is None:
                continue
            registers = found.registers[pattern.register_of[value.name]][chosen]
            broken = registers < NONE
            if broken.any():
                error = pattern.error_of(self.events, value.name, int(registers[broken][0]))
                if on_failure is None:
                    raise error
                on_failure(int(broken.sum()), error)
                chosen = chosen[~broken]
        if not len(chosen):
            return None
        lengths = found.lengths[chosen]
        lasts = self.events.rows.take(pa.array(starts[chosen] + lengths - 1))
        # of matches that end with the same event the one that began first is first
        offsets = lasts[OFFSET].to_numpy() * MOST_EVENTS + (MOST_EVENTS - 1 - lengths)
        columns: list[Any] = [lasts[name] for name in (SYSTEM_TIMESTAMP, ARRIVAL, INPUT, PARTITION)]
        fields = [lasts.schema.field(name) for name in (SYSTEM_TIMESTAMP, ARRIVAL, INPUT, PARTITION)]
        columns.append(pa.array(offsets))
        fields.append(field(OFFSET, Type.BIGINT))
        if self.patterns.spec.substreams:
            columns.append(lasts[SUBSTREAM])
            fields.append(lasts.schema.field(SUBSTREAM))
        names = [variable.name for variable in self.patterns.spec.variables]
        for value in self.patterns.measures:
            if value.arg is None:
                variables = trail.variables_of(found.trails[chosen], lengths)
                column, type_ = classified(variables, lengths, names), Type.ARRAY
            else:
                register = found.registers[pattern.register_of[value.name]][chosen]
                column, type_ = self.events.values(value, register)
            columns.append(column)
            fields.append(field(value.name, type_))
        return in_order(pa.table(columns, schema=pa.schema(fields)))


def looked_at(following: Ints) -> Ints:
    """How many of the events from an open one on are looked at, when so many are there."""
    bits = np.where(following > FEW_EVENTS, np.frexp(following)[1] - 2, 0)
    return (following >> bits) << bits


def classified(variables: Ints, lengths: Ints, names: Sequence[str]) -> pa.Array:
    """The names of the variables of each match as JSON; the dot has none."""
    texts = pa.array([json.dumps(name, ensure_ascii=False) for name in names], pa.string())
    named = variables >= 0
    counted = np.concatenate([[0], np.cumsum(named)])
    offsets = counted[np.concatenate([[0], np.cumsum(lengths)])]
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), texts.take(pa.array(variables[named])))
    return pc.binary_join_element_wise("[", pc.binary_join(lists, ","), "]", "")


def _numbers(log: RowLog) -> Ints:
    tables = log.read_all()
    return unify(tables)[NUMBER].to_numpy() if tables else np.empty(0, np.int64)


def _open(rows: pa.Table, decided: Ints) -> Mask:
    """The events where a match may still begin."""
    marked = rows[OPEN].to_numpy()
    return marked & ~np.isin(rows[NUMBER].to_numpy(), decided)
