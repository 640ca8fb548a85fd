"""Sliding windows: a result whenever the content (p - size, p] of a group changes (`asa.md` 3.4).

It changes when a row enters, at p = t, and when it leaves, at p = t + size. Rows of one instant and group
are one partial. A partial stays until its leaving has been reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tideglass.core.sql import query, quoted
from tideglass.core.time import AFTER_ALL_TICKS, ORIGIN_TICKS, TICKS_PER_SECOND
from tideglass.core.types import SUBSTREAM, SYSTEM_TIMESTAMP, Type, type_of
from tideglass.core.types import field as typed_field
from tideglass.operators.aggregates.grouping import GroupKeys, group_codes, is_cell, merge_sql, stack
from tideglass.operators.holds import Component, Hold
from tideglass.operators.progress import Progress
from tideglass.operators.state.bucket_log import BucketLog
from tideglass.operators.windows.hopping import END, TIME
from tideglass.plan.windows import Sliding

#: Earliest instant at which something held changes: before it, nothing needs to be read.
NEXT = "next"

#: A window spans so many buckets: what has left is dropped a sixteenth of a window late.
BUCKETS_PER_WINDOW = 16


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """One sliding window of length `size_ticks`."""

    size_ticks: int
    keys: tuple[str, ...]
    substreams: bool

    @classmethod
    def of(
        cls, window: Sliding, scope: tuple[str, ...], keys: tuple[str, ...], substreams: bool
    ) -> SlidingWindow:
        return cls(window.size_ticks, keys, substreams)

    @property
    def own_columns(self) -> tuple[str, ...]:
        return self.keys

    def cut(self, rows: pa.Table) -> tuple[pa.Table, GroupKeys]:
        """Rows with the one instant of each."""
        return rows.append_column(TIME, pa.array(rows[SYSTEM_TIMESTAMP].to_numpy())), self.grouping

    @property
    def grouping(self) -> GroupKeys:
        return GroupKeys((TIME, *((SUBSTREAM,) if self.substreams else ())), self.keys)

    @property
    def _bucket_ticks(self) -> int:
        return max(TICKS_PER_SECOND, self.size_ticks // BUCKETS_PER_WINDOW)

    def advance(
        self, fresh: Sequence[pa.Table], previous: Progress, progress: Progress, log: BucketLog
    ) -> list[pa.Table]:
        """Reports the changes the watermark has passed since `previous`; keeps what can still matter."""
        rows = stack(fresh, self.keys) if fresh else None
        next_ticks = log.get_ticks(NEXT)
        next_ticks = AFTER_ALL_TICKS if next_ticks is None else next_ticks
        fresh_next_ticks = int(rows[TIME].to_numpy().min()) if rows is not None else AFTER_ALL_TICKS
        closed: list[pa.Table] = []
        if min(next_ticks, fresh_next_ticks) < progress.furthest_ticks:
            low = (max(previous.watermark_ticks, ORIGIN_TICKS) - self.size_ticks) // self._bucket_ticks
            high = progress.furthest_ticks // self._bucket_ticks
            held = [log.read(bucket) for bucket in log.buckets() if low <= bucket <= high]
            later = [bucket for bucket in log.buckets() if bucket > high]
            tables = [*held, *([] if rows is None else [rows])]
            next_ticks = min((bucket * self._bucket_ticks for bucket in later), default=AFTER_ALL_TICKS)
            if tables:
                everything = stack(tables, self.keys)
                closed = self._changes(everything, previous, progress)
                next_ticks = min(next_ticks, self._next_change(everything, progress))
            log.drop([bucket for bucket in log.buckets() if self._is_done(bucket, progress)])
        else:
            next_ticks = min(next_ticks, fresh_next_ticks)
        log.put_ticks(NEXT, next_ticks)
        if rows is not None:
            alive = rows[TIME].to_numpy() + self.size_ticks >= progress.of_rows(rows)
            kept = rows if alive.all() else rows.filter(pa.array(alive))
            if len(fresh) > 1 and kept.num_rows:
                kept = self.grouping.merge(kept)
            log.append(kept, kept[TIME].to_numpy() // self._bucket_ticks)
        return closed

    def holds(self, progress: Progress, log: BucketLog) -> tuple[Hold, ...]:
        """The rows that have not left the window, and when the next one enters or leaves."""
        bucket, next_ticks = log.first_bucket, log.get_ticks(NEXT)
        if bucket is None or next_ticks is None or next_ticks >= AFTER_ALL_TICKS:
            return ()
        start_ticks = bucket * self._bucket_ticks
        return (Hold(Component.STATE, "open sliding windows", start_ticks, log.rows_held, next_ticks),)

    def _is_done(self, bucket: int, progress: Progress) -> bool:
        last_ticks = (bucket + 1) * self._bucket_ticks - 1
        return last_ticks + self.size_ticks < progress.watermark_ticks

    def _next_change(self, rows: pa.Table, progress: Progress) -> int:
        times = rows[TIME].to_numpy()
        watermarks = progress.of_rows(rows)
        changes = np.where(times >= watermarks, times, times + self.size_ticks)
        return int(np.where(changes >= watermarks, changes, AFTER_ALL_TICKS).min(initial=AFTER_ALL_TICKS))

    def _changes(self, rows: pa.Table, previous: Progress, progress: Progress) -> list[pa.Table]:
        plain = (SUBSTREAM,) if self.substreams else ()
        codes = group_codes(rows, plain, self.keys)
        times = rows[TIME].to_numpy()
        before, now = previous.of_rows(rows), progress.of_rows(rows)
        entering = (times >= before) & (times < now)
        leaving = (times + self.size_ticks >= before) & (times + self.size_ticks < now)
        group = np.concatenate([codes[entering], codes[leaving]])
        if len(group) == 0:
            return []
        instants = np.concatenate([times[entering], times[leaving] + self.size_ticks])
        points = np.unique(np.stack([group, instants]), axis=1)
        # only groups in which something changes are looked at
        changing = np.isin(codes, group)
        part = rows.filter(pa.array(changing)).append_column("$group", pa.array(codes[changing]))
        cells = [name for name in part.column_names if is_cell(name)]
        variants = [key for key in self.keys if type_of(part.schema.field(key)) is Type.VARIANT]
        carried = [*cells, *variants]
        over = "OVER content"
        chosen = [f"{merge_sql(cell, over)} AS {quoted(cell)}" for cell in cells]
        # of 1 and 1.0 in one group, those in the window decide what stands for it
        chosen += [f"min({quoted(key)}) {over} AS {quoted(key)}" for key in variants]
        columns = "".join(f", {quoted(name)}" for name in carried)
        nothing = "".join(f", NULL AS {quoted(name)}" for name in carried)
        result = query(
            f"""
            SELECT g, t{"".join(f", {sql}" for sql in chosen)} FROM (
                SELECT "$group" AS g, "$time" AS t, 1 AS present{columns} FROM part
                UNION ALL SELECT g, t, 0{nothing} FROM points
            )
            WINDOW content AS (
                PARTITION BY g ORDER BY t RANGE BETWEEN {self.size_ticks - 1} PRECEDING AND CURRENT ROW
            )
            QUALIFY present = 0 AND sum(present) {over} > 0
            """,
            part=part,
            points=pa.table({"g": points[0], "t": points[1]}),
        )
        return [self._named(result, part, plain, variants)]

    def _named(
        self, result: pa.Table, part: pa.Table, plain: tuple[str, ...], variants: list[str]
    ) -> pa.Table:
        """The result with the groups' keys in place of their numbers."""
        numbers, first = np.unique(part["$group"].to_numpy(), return_index=True)
        places: Any = pa.array(first[np.searchsorted(numbers, result["g"].to_numpy())])
        closed = result.drop_columns(["g", "t"])
        closed = closed.append_column(typed_field(END, Type.DATETIME), result["t"])
        for name in (*plain, *self.keys):
            if name in variants:
                place = closed.column_names.index(name)
                closed = closed.set_column(place, typed_field(name, Type.VARIANT), closed[name])
            else:
                closed = closed.append_column(part.schema.field(name), part[name].take(places))
        return closed
