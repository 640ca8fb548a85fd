"""Session windows: rows with gaps up to a timeout, cut at multiples of the maximum duration (`asa.md` 3.5).

With t_o the first and t_l the last row, a session ends at the first t with `t - t_l > timeout` or
`t mod max = 0 and t - t_o >= max`. Seen from the checking intervals ((j-1) * max, j * max]:

* A *chain* is a run of rows with gaps up to the timeout. Its first session takes the rows of the chain's
  first interval and of the next, and is cut at the end of that one. Every later interval of the chain is
  a session of its own, because it opens at a cut (A-17): t_o = cut.
* A session ends at t_l + timeout or at its cut, whichever is earlier. A row on the cut belongs to it.

So rows of one interval with gaps up to the timeout are in one session whatever else happens: a *mini
session*, the partial that is kept. When a cut closes a session whose chain may go on, a *carry* stays: a
partial without content that knows the chain's last row and first interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Ints
from tideglass.core.time import AFTER_ALL_TICKS, ORIGIN_TICKS, TICKS_PER_SECOND
from tideglass.core.types import SUBSTREAM, SYSTEM_TIMESTAMP, Type
from tideglass.core.types import field as typed_field
from tideglass.operators.aggregates.grouping import GroupKeys, group_codes, stack
from tideglass.operators.holds import Component, Hold
from tideglass.operators.progress import Progress
from tideglass.operators.state.bucket_log import BucketLog
from tideglass.operators.windows.hopping import END, TIME
from tideglass.operators.windows.open_elements import FIRST, OpenElements
from tideglass.operators.windows.sliding import NEXT
from tideglass.plan.output_timestamp import OutputTimestamp
from tideglass.plan.windows import Session

LAST = "$last"  # int64 ticks: last row of a mini session; its first is `$time`
CARRIED = "$carried"  # int64: first interval of the chain, in a carry only
SESSION = "$session"  # int64: numbers the sessions of one advance

#: Below this a merge costs more than what it saves.
ROWS_TO_MERGE = 64

#: The session timeout is so many buckets: what is open is spread over about as many.
BUCKETS_PER_TIMEOUT = 4


def _running_maximum(values: Ints, starts: Any) -> Ints:
    """Maximum of the values from the start of their run to each; `starts` marks where runs begin."""
    ordered, ranks = np.unique(values, return_inverse=True)
    runs = np.cumsum(starts).astype(np.int64)
    reached = np.maximum.accumulate(runs * len(ordered) + ranks)
    return ordered[reached - runs * len(ordered)]


def _per_run(values: Ints, starts: Any, reduce: Any) -> Ints:
    """A reduction of each run, repeated for all of its rows."""
    places = np.flatnonzero(starts)
    return reduce.reduceat(values, places)[np.cumsum(starts) - 1]


@dataclass(frozen=True, slots=True)
class SessionWindow:
    """One session window.

    timeout_ticks: a session ends when no event follows for so long
    max_duration_ticks: no session is longer
    scope: each combination of these columns has sessions of its own
    keys: columns of the grouping keys
    substreams: rows have `$substream`
    output_timestamp: the time of a result
    """

    timeout_ticks: int
    max_duration_ticks: int
    scope: tuple[str, ...]
    keys: tuple[str, ...]
    substreams: bool
    output_timestamp: OutputTimestamp = OutputTimestamp.END_OF_WINDOW

    @property
    def _plain(self) -> tuple[str, ...]:
        return (SUBSTREAM,) if self.substreams else ()

    @property
    def all_keys(self) -> tuple[str, ...]:
        """Columns of the keys and of the scope, each once."""
        return (*self.keys, *(name for name in self.scope if name not in self.keys))

    @classmethod
    def of(
        cls, window: Session, scope: tuple[str, ...], keys: tuple[str, ...], substreams: bool
    ) -> SessionWindow:
        return cls(window.timeout_ticks, window.max_duration_ticks, scope, keys, substreams)

    def stamped_with(self, chosen: OutputTimestamp) -> SessionWindow:
        """The same kernel with another time of its results; its partials have the cell `FIRST`."""
        return replace(self, output_timestamp=chosen)

    @property
    def own_columns(self) -> tuple[str, ...]:
        return (*self.all_keys, LAST)

    def cut(self, rows: pa.Table) -> tuple[pa.Table, GroupKeys]:
        """Rows with first and last instant of the mini session of each."""
        first, last = self.mini_sessions(rows)
        rows = rows.append_column(TIME, pa.array(first)).append_column(LAST, pa.array(last))
        return rows, GroupKeys((TIME, *self._plain, LAST), self.all_keys)

    @property
    def grouping(self) -> GroupKeys:
        return GroupKeys((TIME, LAST, CARRIED, *self._plain), self.all_keys)

    @property
    def _bucket_ticks(self) -> int:
        return max(TICKS_PER_SECOND, self.timeout_ticks // BUCKETS_PER_TIMEOUT)

    def _interval(self, ticks: Any) -> Any:
        return -((ORIGIN_TICKS - ticks) // self.max_duration_ticks)

    def _interval_end(self, interval: Any) -> Any:
        return interval * self.max_duration_ticks + ORIGIN_TICKS

    def mini_sessions(self, rows: pa.Table) -> tuple[Ints, Ints]:
        """First and last instant of the mini session of each row, as far as these rows show."""
        times = rows[SYSTEM_TIMESTAMP].to_numpy()
        first, last = times.copy(), times.copy()
        if len(times):
            codes = group_codes(rows, self._plain, self.scope)
            order = np.lexsort((times, codes))
            starts = self._mini_starts(codes[order], times[order], times[order])
            first[order] = _per_run(times[order], starts, np.minimum)
            last[order] = _per_run(times[order], starts, np.maximum)
        return first, last

    def _mini_starts(self, codes: Ints, first: Ints, reached: Ints) -> Any:
        """Where in sorted rows a mini session begins; `reached`: how far the rows up to each go."""
        starts = self._chain_starts(codes, first, reached)
        starts[1:] |= np.diff(self._interval(first)) != 0
        return starts

    def _chain_starts(self, codes: Ints, first: Ints, reached: Ints) -> Any:
        starts = np.ones(len(codes), np.bool_)
        starts[1:] = (np.diff(codes) != 0) | (first[1:] - reached[:-1] > self.timeout_ticks)
        return starts

    def advance(
        self, fresh: Sequence[pa.Table], previous: Progress, progress: Progress, log: BucketLog
    ) -> list[pa.Table]:
        """Closes the sessions whose end the watermark has passed; keeps the rest as mini sessions.

        Returns merged partials with `$end` and, as scopes may share keys, `$session`. Nothing is read
        before the earliest possible end of what is held (`previous` does not matter: what closes leaves).
        """
        chunks = [
            chunk
            if CARRIED in chunk.column_names
            else chunk.append_column(CARRIED, pa.nulls(chunk.num_rows, pa.int64()))
            for chunk in fresh
        ]
        rows = stack(chunks, self.all_keys) if chunks else None
        next_ticks = log.get_ticks(NEXT)
        next_ticks = AFTER_ALL_TICKS if next_ticks is None else next_ticks
        if rows is not None:
            next_ticks = min(next_ticks, self._earliest_end(rows))
        if next_ticks >= progress.furthest_ticks:
            if rows is not None:
                log.append(rows, self._buckets(rows))
                self._note_elements(rows, log)
            log.put_ticks(NEXT, next_ticks)
            return []
        buckets = log.buckets()
        held = [log.read(bucket) for bucket in buckets]
        tables = [*held, *([] if rows is None else [rows])]
        if not tables:
            log.put_ticks(NEXT, AFTER_ALL_TICKS)
            return []
        # which bucket a row is in; -1: not yet in any
        origin = np.repeat(np.arange(len(buckets)), [table.num_rows for table in held])
        origin = np.concatenate([origin, np.full(rows.num_rows if rows is not None else 0, -1)])
        everything = stack(tables, self.all_keys)
        closed, gone, carries = self._close(everything, progress)
        for place in np.unique(origin[gone & (origin >= 0)]):
            log.replace(buckets[place], everything.filter(pa.array((origin == place) & ~gone)))
        fresh_kept = everything.filter(pa.array(~gone & (origin < 0)))
        added = stack([fresh_kept, carries], self.all_keys)
        log.append(added, self._buckets(added))
        remaining = stack([everything.filter(pa.array(~gone)), carries], self.all_keys)
        self._merge_buckets(log, remaining)
        self._note_elements(remaining, log, anew=True)
        log.put_ticks(NEXT, self._earliest_end(remaining))
        return closed

    def holds(self, progress: Progress, log: BucketLog) -> tuple[Hold, ...]:
        """The open sessions, by the earliest end one may have; a carry's is over, and an event decides."""
        next_ticks = log.get_ticks(NEXT)
        if log.first_bucket is None or next_ticks is None or next_ticks >= AFTER_ALL_TICKS:
            return ()
        due_ticks = next_ticks if next_ticks >= progress.watermark_ticks else None
        return (Hold(Component.STATE, "open sessions", next_ticks, log.rows_held, due_ticks),)

    def stamps(self, closed: pa.Table) -> Ints:
        """The time of each result; for the end of the window, its `$end`."""
        at_end = self.output_timestamp is OutputTimestamp.END_OF_WINDOW
        return closed[END if at_end else FIRST].to_numpy()

    def held(self, progress: Progress, log: BucketLog) -> pa.Table:
        """The first element of the open sessions, by substream."""
        return OpenElements(log, self.substreams).table

    def _note_elements(self, rows: pa.Table, log: BucketLog, anew: bool = False) -> None:
        """Keeps the first elements of partials. anew: there are no others."""
        if self.output_timestamp is OutputTimestamp.END_OF_WINDOW:
            return
        elements = OpenElements(log, self.substreams)
        found = rows.filter(rows[CARRIED].is_null()).select([TIME, *self._plain])
        everywhere = pa.array(
            np.zeros(found.num_rows, np.int64)
        )  # one piece of time: any of them may be open
        found = found.rename_columns([FIRST, *self._plain]).append_column(TIME, everywhere)
        if anew:
            elements.replace(found, FIRST)
        else:
            elements.add(found, FIRST)
        elements.save()

    def _merge_buckets(self, log: BucketLog, remaining: pa.Table) -> None:
        """Rewrites everything as mini sessions once that at least halves it; it was just read anyway."""
        if remaining.num_rows < ROWS_TO_MERGE:
            return
        first, last = self._merged_minis(remaining)
        merged = remaining.set_column(remaining.column_names.index(TIME), TIME, pa.array(first))
        merged = self.grouping.merge(merged.set_column(merged.column_names.index(LAST), LAST, pa.array(last)))
        if 2 * merged.num_rows <= remaining.num_rows:
            log.drop(log.buckets())
            log.append(merged, self._buckets(merged))

    def _merged_minis(self, rows: pa.Table) -> tuple[Ints, Ints]:
        """First and last instant of the mini session of each partial; a carry stays as it is."""
        first, last = rows[TIME].to_numpy().copy(), rows[LAST].to_numpy().copy()
        places = np.flatnonzero(np.asarray(rows[CARRIED].is_null()))
        if len(places):
            codes = group_codes(rows, self._plain, self.scope)[places]
            order = places[np.lexsort((first[places], codes))]
            codes = np.sort(codes)
            changes = np.append(True, np.diff(codes) != 0)
            starts = self._mini_starts(codes, first[order], _running_maximum(last[order], changes))
            first[order], last[order] = (
                _per_run(first[order], starts, np.minimum),
                _per_run(last[order], starts, np.maximum),
            )
        return first, last

    def _buckets(self, rows: pa.Table) -> Ints:
        return rows[LAST].to_numpy() // self._bucket_ticks

    def _earliest_end(self, rows: pa.Table) -> int:
        """No session of these rows can end before this, nor can a carry be forgotten."""
        ends = np.minimum(
            rows[LAST].to_numpy() + self.timeout_ticks,
            self._interval_end(self._interval(rows[TIME].to_numpy())),
        )
        return int(ends.min(initial=AFTER_ALL_TICKS))

    def _close(self, rows: pa.Table, progress: Progress) -> tuple[list[pa.Table], Any, pa.Table]:
        """Merged partials of the sessions that end, which rows are gone with them, and new carries."""
        codes = group_codes(rows, self._plain, self.scope)
        first, last = rows[TIME].to_numpy(), rows[LAST].to_numpy()
        order = np.lexsort((first, codes))
        codes, first, last = codes[order], first[order], last[order]
        watermarks: Any = np.broadcast_to(progress.of_rows(rows), len(order))[order]
        carried_column = rows[CARRIED].take(pa.array(order))
        is_carry = np.asarray(carried_column.is_valid())
        carried = np.asarray(carried_column.combine_chunks().fill_null(0))
        changes = np.append(True, np.diff(codes) != 0)
        reached = _running_maximum(last, changes)
        starts = self._chain_starts(codes, first, reached)

        interval = self._interval(first)
        # a carry is earlier than all rows of its chain that are left
        chain_interval = _per_run(np.where(is_carry, carried, interval), starts, np.minimum)
        number = np.where(is_carry, -1, np.maximum(interval - chain_interval - 1, 0))
        begins = starts.copy()
        begins[1:] |= np.diff(number) != 0
        session_last = _per_run(last, begins, np.maximum)
        ends = np.minimum(
            session_last + self.timeout_ticks, self._interval_end(chain_interval + 1 + np.maximum(number, 0))
        )
        closing = ~is_carry & (ends < watermarks)

        # the last row of a chain that has been reported, kept while a row can still join the chain
        done = closing | is_carry
        done_last = _per_run(np.where(done, last, -AFTER_ALL_TICKS), starts, np.maximum)
        has_open = _per_run((~done).astype(np.int64), starts, np.maximum) > 0
        matters = has_open | (done_last + self.timeout_ticks >= watermarks)
        new_carry = starts & (done_last > -AFTER_ALL_TICKS) & matters

        plain = (END, SESSION, *self._plain)
        session = np.cumsum(begins)
        chosen = pa.array(order[closing])
        content = rows.take(chosen).drop_columns([TIME, LAST, CARRIED])
        content = content.append_column(typed_field(END, Type.DATETIME), pa.array(ends[closing]))
        content = content.append_column(SESSION, pa.array(session[closing]))
        closed = [GroupKeys(plain, self.all_keys).merge(content)] if closing.any() else []
        at = np.flatnonzero(new_carry)
        carries = rows.take(pa.array(order[at]))
        for name, values in ((TIME, done_last[at]), (LAST, done_last[at]), (CARRIED, chain_interval[at])):
            place = carries.column_names.index(name)
            carries = carries.set_column(place, name, pa.array(values.astype(np.int64)))
        carries = carries.select([TIME, LAST, CARRIED, *self._plain, *self.scope])
        gone = np.zeros(rows.num_rows, np.bool_)
        gone[order[done]] = True
        return closed, gone, carries
