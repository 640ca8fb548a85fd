"""Tumbling, hopping and snapshot windows: rows in panes, panes shared by the windows that hold them.

Windows (end - size, end] end at every multiple of hop (plus offset) since tick zero. All starts and ends
cut time into panes, at most two a hop; a row is in exactly those windows that its whole pane is in. A
snapshot is the window of one tick (`asa.md` 3.2, 3.3, 3.6).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Ints
from tideglass.core.time import BEFORE_ALL_TICKS, ORIGIN_TICKS, TICKS_PER_SECOND
from tideglass.core.types import SUBSTREAM, SYSTEM_TIMESTAMP, Type
from tideglass.core.types import field as typed_field
from tideglass.operators.aggregates.grouping import GroupKeys, stack
from tideglass.operators.holds import Component, Hold
from tideglass.operators.progress import Progress
from tideglass.operators.state.bucket_log import BucketLog
from tideglass.operators.windows.open_elements import FIRST, OpenElements
from tideglass.plan.early_panes import early_column
from tideglass.plan.output_timestamp import OutputTimestamp
from tideglass.plan.windows import Hopping, Snapshot

TIME = "$time"  # int64 ticks of a partial: end of its pane; or the one instant of its rows
PANE_NUMBER = "$n"  # int8: of a closed row with early panes, by percentage; the last is the final one
_EARLY = "early"
END = "$end"  # int64 ticks: end of the window a closed row belongs to

#: Panes are copied once for each window that closes; at most so many copies, of some 100 bytes and
#: twice that while they merge, are made at a time. Small enough to stay in the cache, they merge faster, too.
COPIES_AT_ONCE = 500_000

#: A window spans at most so many buckets, so that short hops in a long window do not make many.
BUCKETS_PER_WINDOW = 64


@dataclass(frozen=True, slots=True)
class PaneWindow:
    """One hopping window (hop == size: tumbling; hop > size: gaps between windows, A-39).

    size_ticks: its length
    hop_ticks: from one end to the next
    offset_ticks: the ends are multiples of the hop plus this
    keys: columns of the grouping keys
    substreams: rows have `$substream`
    output_timestamp: the time of a result
    early_percents: percentages of the early panes
    """

    size_ticks: int
    hop_ticks: int
    offset_ticks: int
    keys: tuple[str, ...]
    substreams: bool
    output_timestamp: OutputTimestamp = OutputTimestamp.END_OF_WINDOW
    early_percents: tuple[int, ...] = ()

    @classmethod
    def of(
        cls, window: Hopping | Snapshot, scope: tuple[str, ...], keys: tuple[str, ...], substreams: bool
    ) -> PaneWindow:
        """The kernel of a window; a snapshot is the window of one tick."""
        if isinstance(window, Snapshot):
            return cls(1, 1, 0, keys, substreams)
        return cls(window.size_ticks, window.hop_ticks, window.offset_ticks, keys, substreams)

    def stamped_with(self, chosen: OutputTimestamp) -> PaneWindow:
        """The same kernel with another time of its results; its partials have the cell `FIRST`."""
        return replace(self, output_timestamp=chosen)

    def with_early_panes(self, percents: tuple[int, ...]) -> PaneWindow:
        """The same kernel with early panes; its rows have an `early_column` for each percentage."""
        return replace(self, early_percents=percents)

    @property
    def own_columns(self) -> tuple[str, ...]:
        return (*self.keys, *map(early_column, self.early_percents))

    def cut(self, rows: pa.Table) -> tuple[pa.Table, GroupKeys]:
        """Rows with the end of the pane of each, without those in the gaps between windows."""
        ends, inside = self.pane_ends(rows[SYSTEM_TIMESTAMP].to_numpy())
        rows = rows.append_column(TIME, pa.array(ends))
        for percent in self.early_percents:
            name = early_column(percent)
            first_ticks = self._first_with(rows[name].to_numpy(), ends)
            rows = rows.set_column(rows.column_names.index(name), name, pa.array(first_ticks))
        return rows if inside is None else rows.filter(pa.array(inside)), self.grouping

    @property
    def grouping(self) -> GroupKeys:
        """Which partials merge while they wait."""
        early = map(early_column, self.early_percents)
        return GroupKeys((TIME, *early, *((SUBSTREAM,) if self.substreams else ())), self.keys)

    def _first_with(self, met_ticks: Ints, pane_ends_ticks: Ints) -> Ints:
        """The end of the first window whose early pane has a row of this pane of time.

        met_ticks: the watermark of the percentage that the row met. It is in the early pane of a window that
        this watermark had not passed. Beyond the last window of the row, it is in none.
        """
        beyond_ticks = self._end_to(pane_ends_ticks + (self.size_ticks - 1)) + self.hop_ticks
        near_ticks = np.clip(met_ticks, pane_ends_ticks, beyond_ticks)  # far away, an end leaves int64
        return np.minimum(self._end_from(near_ticks), beyond_ticks)

    @property
    def _zero_ticks(self) -> int:
        """An end of a window, near tick zero."""
        return ORIGIN_TICKS + self.offset_ticks

    @property
    def _bucket_ticks(self) -> int:
        """Width of a bucket: a whole number of hops, at least a second (rarely more than one chunk a
        batch and second), at most a window in 64 pieces."""
        wanted = max(TICKS_PER_SECOND, self.size_ticks // BUCKETS_PER_WINDOW)
        return self.hop_ticks * max(1, -(-wanted // self.hop_ticks))

    def _end_from(self, ticks: Any) -> Any:
        """The first end at or after an instant."""
        return -((self._zero_ticks - ticks) // self.hop_ticks) * self.hop_ticks + self._zero_ticks

    def _end_to(self, ticks: Any) -> Any:
        """The last end at or before an instant."""
        return (ticks - self._zero_ticks) // self.hop_ticks * self.hop_ticks + self._zero_ticks

    def pane_ends(self, times_ticks: Ints) -> tuple[Ints, Any]:
        """The end of the pane of each instant, and which instants are in any window at all."""
        ends = self._end_from(times_ticks)
        if self.size_ticks % self.hop_ticks == 0:
            return ends, None
        # the last start of a window before the next end; a window starts after its start
        starts = self._end_from(times_ticks + self.size_ticks) - self.size_ticks
        inside = None if self.size_ticks > self.hop_ticks else times_ticks > ends - self.size_ticks
        return np.minimum(ends, starts) if inside is None else ends, inside

    def _bucket(self, pane_ends_ticks: Any) -> Any:
        """A bucket covers (start, end] like a window."""
        return -((self._zero_ticks - pane_ends_ticks) // self._bucket_ticks)

    def advance(
        self, fresh: Sequence[pa.Table], previous: Progress, progress: Progress, log: BucketLog
    ) -> list[pa.Table]:
        """Closes the windows whose end the watermark has passed since `previous`; keeps what is open.

        Returns merged partials with `$end`. Only buckets of windows that close are read.
        """
        rows = stack(fresh, self.keys) if fresh else None
        first_ticks = self._end_from(previous.watermark_ticks)
        last_ticks = self._end_to(progress.furthest_ticks - 1)
        closed = self._close_early(rows, progress, log) if self.early_percents else []
        tables = self._of_windows(rows, first_ticks, last_ticks, progress, log)
        if tables:
            final = self._close(stack(tables, self.keys), previous, progress)
            closed += [self._of_pane(table, len(self.early_percents)) for table in final]
        done = [bucket for bucket in log.buckets() if self._is_done(bucket, progress)]
        log.drop(done)
        if self.output_timestamp is not OutputTimestamp.END_OF_WINDOW:
            elements = OpenElements(log, self.substreams)
            if rows is not None:
                elements.add(rows, FIRST)
            elements.keep(partial(self._alive, progress=progress))
            elements.save()
        if rows is not None:
            alive = self._alive(rows, progress)
            kept = rows if alive.all() else rows.filter(pa.array(alive))
            if len(fresh) > 1 and kept.num_rows:
                kept = self.grouping.merge(kept)
            log.append(kept, self._bucket(kept[TIME].to_numpy()))
        return closed

    def _of_windows(
        self, rows: pa.Table | None, first_ticks: int, last_ticks: int, progress: Progress, log: BucketLog
    ) -> list[pa.Table]:
        """New partials, and those kept that are in a window that ends from `first_ticks` to `last_ticks`."""
        tables = [] if rows is None else [rows]
        if first_ticks <= last_ticks:
            # panes in (first end - size, last end]
            low = self._bucket(max(first_ticks - self.size_ticks, ORIGIN_TICKS - self.size_ticks) + 1)
            high = self._bucket(last_ticks)
            for bucket in log.buckets():
                if low <= bucket <= high:
                    tables.append(self._read(bucket, progress, log))
        return tables

    def _close_early(self, rows: pa.Table | None, progress: Progress, log: BucketLog) -> list[pa.Table]:
        """The early panes of the windows whose end the watermark of their percentage has passed.

        What is in a pane was decided for each row when it arrived, so it does not matter when this is called.
        """
        closed: list[pa.Table] = []
        for number, percent in enumerate(self.early_percents):
            name = f"{_EARLY} {percent} of "
            before_ticks, now_ticks = log.get_ticks(name), progress.early_at(percent)
            before_ticks = BEFORE_ALL_TICKS if before_ticks is None else before_ticks
            log.put_ticks(name, now_ticks)
            first_ticks, last_ticks = self._end_from(before_ticks), self._end_to(now_ticks - 1)
            tables = self._of_windows(rows, first_ticks, last_ticks, progress, log)
            if not tables or first_ticks > last_ticks:
                continue
            partials = stack(tables, self.keys)
            panes_ticks, with_ticks = partials[TIME].to_numpy(), partials[early_column(percent)].to_numpy()
            first = np.maximum(self._end_from(np.maximum(panes_ticks, before_ticks)), with_ticks)
            last = self._end_to(np.minimum(panes_ticks + (self.size_ticks - 1), now_ticks - 1))
            closed += [self._of_pane(table, number) for table in self._close_between(partials, first, last)]
        return closed

    def _of_pane(self, closed: pa.Table, number: int) -> pa.Table:
        """Results with the number of their pane, if there are early ones."""
        if not self.early_percents:
            return closed
        return closed.append_column(PANE_NUMBER, pa.array(np.full(closed.num_rows, number, np.int8)))

    def holds(self, progress: Progress, log: BucketLog) -> tuple[Hold, ...]:
        """The open windows: since the start of the oldest rows, due at the end of the first of them."""
        bucket = log.first_bucket
        if bucket is None:
            return ()
        start_ticks = self._bucket_end(bucket - 1)
        due_ticks = self._end_from(max(start_ticks + 1, progress.watermark_ticks))
        return (Hold(Component.STATE, "open windows", start_ticks, log.rows_held, due_ticks),)

    def _bucket_end(self, bucket: int) -> int:
        return bucket * self._bucket_ticks + self._zero_ticks

    def stamps(self, closed: pa.Table) -> Ints:
        """The time of each result; for the end of the window, its `$end`."""
        ends = closed[END].to_numpy()
        match self.output_timestamp:
            case OutputTimestamp.END_OF_WINDOW:
                return ends
            case OutputTimestamp.FIRST_ELEMENT:
                return closed[FIRST].to_numpy()
            case OutputTimestamp.FIRST_AFTER_WINDOW_BEFORE:
                return self._after_window_before(closed[FIRST].to_numpy(), ends)

    def held(self, progress: Progress, log: BucketLog) -> pa.Table:
        """The earliest time of a later result, by piece of time that is in an open window."""
        elements = OpenElements(log, self.substreams)
        table = elements.table
        if self.output_timestamp is OutputTimestamp.FIRST_ELEMENT:
            return table
        first_open = self._end_from(np.maximum(table[TIME].to_numpy(), progress.of_rows(table)))
        return elements.stamped(self._after_window_before(table[SYSTEM_TIMESTAMP].to_numpy(), first_open))

    def _after_window_before(self, first_ticks: Ints, ends_ticks: Ints) -> Ints:
        """The first element, or else the first instant after the end of the window before."""
        return np.maximum(first_ticks, ends_ticks - self.hop_ticks + 1)

    def _is_done(self, bucket: int, progress: Progress) -> bool:
        return self._end_to(self._bucket_end(bucket) + self.size_ticks - 1) < progress.watermark_ticks

    def _alive(self, rows: pa.Table, progress: Progress) -> Any:
        """Whether a window of the row is still open."""
        return self._end_to(rows[TIME].to_numpy() + (self.size_ticks - 1)) >= progress.of_rows(rows)

    def _read(self, bucket: int, progress: Progress, log: BucketLog) -> pa.Table:
        rows = log.read(bucket)
        if self.substreams:
            # one slow substream must not keep the rows of all others
            alive = self._alive(rows, progress)
            if 2 * int(alive.sum()) < len(alive):
                log.replace(bucket, rows.filter(pa.array(alive)))
        return rows

    def _close(self, rows: pa.Table, previous: Progress, progress: Progress) -> list[pa.Table]:
        panes_ticks = rows[TIME].to_numpy()
        first = self._end_from(np.maximum(panes_ticks, previous.of_rows(rows)))
        last = self._end_to(np.minimum(panes_ticks + (self.size_ticks - 1), progress.of_rows(rows) - 1))
        return self._close_between(rows, first, last)

    def _close_between(self, rows: pa.Table, first: Ints, last: Ints) -> list[pa.Table]:
        """Merges each row into its windows that end at first, first + hop, ... last."""
        copies = np.maximum((last - first) // self.hop_ticks + 1, 0)
        used = copies > 0
        if not used.any():
            return []
        if not used.all():
            rows, first, last, copies = rows.filter(pa.array(used)), first[used], last[used], copies[used]
        earliest, latest = int(first.min()), int(last.max())
        if int(copies.sum()) > COPIES_AT_ONCE and earliest < latest:
            middle = int(self._end_to((earliest + latest) // 2))
            return [
                *self._close_between(rows, first, np.minimum(last, middle)),
                *self._close_between(rows, np.maximum(first, middle + self.hop_ticks), last),
            ]
        if (copies == 1).all():
            copied, ends = rows, first
        else:
            places = np.repeat(np.arange(len(copies)), copies)
            within = np.arange(len(places)) - np.repeat(np.cumsum(copies) - copies, copies)
            copied, ends = rows.take(pa.array(places)), first[places] + within * self.hop_ticks
        copied = copied.drop_columns([TIME]).append_column(typed_field(END, Type.DATETIME), pa.array(ends))
        plain = (END, *((SUBSTREAM,) if self.substreams else ()))
        return [GroupKeys(plain, self.keys).merge(copied)]
