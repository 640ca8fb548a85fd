"""GROUP BY over windows: rows become partial aggregates, partials become results (`asa.md` 3, 4.1).

`partial` needs no state and can run anywhere; `advance` keeps the partials and closes the windows. A
window (start, end] closes when the watermark is past its end (A-16). The result depends on the rows
only: not on how they were cut into chunks and batches, nor on how often they were merged before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, Protocol, cast

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Ints, pc
from tideglass.core.columns import coded_text
from tideglass.core.failing_rows import OnFailure, of_sound_rows
from tideglass.core.iso import flat
from tideglass.core.sql import query, quoted
from tideglass.core.types import (
    ARRIVAL,
    INPUT,
    OFFSET,
    PANE,
    PARTITION,
    SUBSTREAM,
    SYSTEM_TIMESTAMP,
    WINDOW_ID,
    Type,
    field,
)
from tideglass.operators.aggregates.cells import Cells, refused_by
from tideglass.operators.aggregates.grouping import GroupKeys, stack
from tideglass.operators.aggregates.results import finish
from tideglass.operators.holds import Hold
from tideglass.operators.output_watermark import held_back
from tideglass.operators.progress import Progress
from tideglass.operators.state.bucket_log import BucketLog
from tideglass.operators.state.store import State
from tideglass.operators.windows.hopping import END, PANE_NUMBER
from tideglass.operators.windows.open_elements import FIRST
from tideglass.plan.early_panes import pane_texts
from tideglass.plan.output_timestamp import OutputTimestamp
from tideglass.plan.specs import GroupBySpec
from tideglass.plan.windows import Window, kernel_of

WINDOW = "$w"  # int8: which of the step's windows a partial is for

_PROGRESS = "progress"
#: Chunks of partial aggregates of a bucket that are worth merging.
CHUNKS_TO_MERGE = 32


class WindowKernel(Protocol):
    """What a kind of windows computes; `plan.windows.WINDOW_KINDS` names the class of each kind."""

    @classmethod
    def of(cls, window: Any, scope: tuple[str, ...], keys: tuple[str, ...], substreams: bool) -> WindowKernel:
        """scope: columns of the window's `scope`. keys: columns of the grouping keys."""
        ...

    @property
    def own_columns(self) -> tuple[str, ...]:
        """Columns of a partial that are its own, or that it groups by."""
        ...

    @property
    def grouping(self) -> GroupKeys:
        """Which partials merge while they wait."""
        ...

    def cut(self, rows: pa.Table) -> tuple[pa.Table, GroupKeys]:
        """Rows with the piece of time of each, and the grouping that makes partials of them."""
        ...

    def advance(
        self, fresh: Sequence[pa.Table], previous: Progress, progress: Progress, log: BucketLog
    ) -> list[pa.Table]:
        """Keeps the partials `fresh`; merged partials with `$end` of all windows that close."""
        ...

    def holds(self, progress: Progress, log: BucketLog) -> tuple[Hold, ...]:
        """What is open after `advance`; the end of a window holds no watermark (`asa.md` 11.4)."""
        ...


class StampedKernel(WindowKernel, Protocol):
    """A kernel whose results may have the time of an element (`plan.output_timestamp`)."""

    def stamped_with(self, chosen: OutputTimestamp) -> StampedKernel:
        """The same kernel with another time of its results; its partials have the cell `FIRST`."""
        ...

    def stamps(self, closed: pa.Table) -> Ints:
        """The time of each result in ticks. closed: what `advance` returned."""
        ...

    def held(self, progress: Progress, log: BucketLog) -> pa.Table:
        """Rows `$ts`, and `$substream` if there are any: no later result has an earlier time."""
        ...


class WindowAggregate:
    """The rows of one GROUP BY; with `spec.substreams` each closes by the watermark of its `$substream`."""

    def __init__(self, spec: GroupBySpec) -> None:
        self.spec = spec
        scopes = [names or () for names in spec.session_keys]
        self._kernels = [
            self._kernel(window, scope) for window, scope in zip(spec.windows, scopes, strict=True)
        ]

    def _kernel(self, window: Window, scope: tuple[str, ...]) -> WindowKernel:
        module, name = kernel_of(window).split(".")
        kernel = getattr(import_module(f"tideglass.operators.windows.{module}"), name)
        made = kernel.of(window, scope, self.spec.keys, self.spec.substreams)
        if self.spec.early_percents:
            made = made.with_early_panes(self.spec.early_percents)
        return made.stamped_with(self.spec.output_timestamp) if self._stamped else made

    @property
    def _stamped(self) -> bool:
        """Whether results have the time of an element."""
        return self.spec.output_timestamp is not OutputTimestamp.END_OF_WINDOW

    def partial(self, rows: pa.Table, on_failure: OnFailure | None = None) -> pa.Table:
        """Rows of one chunk as partial aggregates: one row per window, piece of time and group.

        rows: order columns, `$substream` with substreams, key columns, session columns and the columns
        the aggregates name; any type of value. Raises EvaluationError for a value its function refuses;
        with `on_failure` such rows are reported there and left out.
        """
        return of_sound_rows(
            self._partials, rows, on_failure, failing=partial(refused_by, self.spec.aggregates)
        )

    def _partials(self, rows: pa.Table) -> pa.Table:
        cells = Cells(rows, self.spec.aggregates)
        if not cells.sql:
            # nothing but keys is asked for, and still the group must show
            cells = Cells(rows, self.spec.aggregates, count_rows=True)
        if self._stamped:
            cells.sql[FIRST] = f"min({quoted(SYSTEM_TIMESTAMP)})"
        parts = [self._partial(number, cells) for number in range(len(self.spec.windows))]
        return stack(parts, self.spec.all_keys)

    def _partial(self, number: int, cells: Cells) -> pa.Table:
        kernel, rows = self._kernels[number], cells.rows
        rows, grouped = kernel.cut(rows)
        result = grouped.aggregate(rows, cells.sql)
        return result.append_column(WINDOW, pa.array(np.full(result.num_rows, number, np.int8)))

    def advance(
        self,
        partials: Sequence[pa.Table],
        progress: Progress,
        state: State,
        on_failure: OnFailure | None = None,
    ) -> pa.Table:
        """Adds partials to the state and closes what `progress` allows.

        No row of `partials` may be before the watermark of an earlier call. Returns rows as described in
        `results`, by (end, window, canonical key): `$arrival` the window's end, `$ts` too unless the spec
        names another time, keys, aggregates, `$window` if the windows have ids, `$substream` with
        substreams. Raises EvaluationError for a group without a result, such as a sum that overflows; with
        `on_failure` such groups are reported there and left out.
        """
        previous = Progress.from_bytes(state.get(_PROGRESS))
        closed: list[pa.Table] = []
        for number, kernel in enumerate(self._kernels):
            log = self._log(number, kernel, state)
            own = [part for table in partials if (part := self._of_window(table, number, kernel)).num_rows]
            for table in kernel.advance(own, previous, progress, log):
                closed.append(self._closed(table, number, kernel))
            log.save()
        encoded = progress.to_bytes()
        if state.get(_PROGRESS) != encoded:
            state.put(_PROGRESS, encoded)
        return self._results(closed, on_failure)

    def holds(self, state: State, progress: Progress, reached: Progress) -> tuple[Hold, ...]:
        """The windows that are open after `advance`; `reached`: the progress of their rows."""
        found: list[Hold] = []
        for number, kernel in enumerate(self._kernels):
            log = self._log(number, kernel, state)
            for hold in kernel.holds(progress, log):
                stamps = self._held(kernel, progress, log)
                if stamps is not None and stamps.num_rows:
                    oldest_ticks = int(stamps[SYSTEM_TIMESTAMP].to_numpy().min())
                    holding = oldest_ticks <= reached.watermark_ticks
                    hold = replace(hold, oldest_ticks=oldest_ticks, holds_watermark=holding)
                found.append(hold)
        return tuple(found)

    def _closed(self, table: pa.Table, number: int, kernel: WindowKernel) -> pa.Table:
        if self._stamped:
            stamps = pa.array(cast("StampedKernel", kernel).stamps(table))
            table = table.set_column(table.column_names.index(FIRST), FIRST, stamps)
        return table.append_column(WINDOW, pa.array(np.full(table.num_rows, number, np.int8)))

    def output_progress(self, progress: Progress, state: State) -> Progress:
        """The progress of the result, once `advance` has taken the batch: no later row is before it.

        The end of a window needs no hold; an element of an open window does (`asa.md` 11.4).
        """
        if not self._stamped:
            return progress
        waiting = [
            held
            for number, kernel in enumerate(self._kernels)
            if (held := self._held(kernel, progress, self._log(number, kernel, state))) is not None
        ]
        return held_back(progress, waiting, self.spec.substreams, state)

    def _held(self, kernel: WindowKernel, progress: Progress, log: BucketLog) -> pa.Table | None:
        """The earliest times of later results; None where they have the end of their window."""
        return cast("StampedKernel", kernel).held(progress, log) if self._stamped else None

    def _log(self, number: int, kernel: WindowKernel, state: State) -> BucketLog:
        grouping = kernel.grouping
        return BucketLog(state, number, len(self._kernels), grouping.stack, grouping.merge, CHUNKS_TO_MERGE)

    def _of_window(self, table: pa.Table, number: int, kernel: WindowKernel) -> pa.Table:
        if len(self._kernels) > 1:
            table = table.filter(pc.equal(table[WINDOW], pa.scalar(number, pa.int8())))
        every = {name for each in self._kernels for name in each.own_columns}
        foreign = {WINDOW, *every} - {*kernel.own_columns}
        return table.drop_columns([name for name in foreign if name in table.column_names])

    def _results(self, closed: Sequence[pa.Table], on_failure: OnFailure | None) -> pa.Table:
        """Closed partials as rows, in their order."""
        table = stack(closed, self.spec.all_keys) if closed else self._nothing()
        return of_sound_rows(self._finished, table, on_failure, check=self._check)

    def _check(self, table: pa.Table) -> None:
        for spec in self.spec.aggregates:
            finish(spec, table)

    def _finished(self, table: pa.Table) -> pa.Table:
        keys = [name for name in self.spec.all_keys if name in table.column_names]
        places, hashes = self._order(table, keys)
        table = table.take(pa.array(places))
        ends = flat(table[END])
        stamps = flat(table[FIRST]) if self._stamped else ends
        zero = pa.array(np.zeros(table.num_rows, np.int64))
        order = zero
        if self.spec.early_percents:  # the early results of a window are before its final one
            order = pa.array(table[PANE_NUMBER].to_numpy().astype(np.int64) - len(self.spec.early_percents))
        columns: list[tuple[pa.Field, Any]] = [
            (field(SYSTEM_TIMESTAMP, Type.DATETIME), stamps),
            (field(ARRIVAL, Type.DATETIME), ends),
            (field(INPUT, Type.BIGINT), order),
            (field(PARTITION, Type.BIGINT), zero),
            (field(OFFSET, Type.BIGINT), pa.array(hashes)),
        ]
        for name in self.spec.keys:
            columns.append((table.schema.field(name), table[name]))
        for spec in self.spec.aggregates:
            column, type_ = finish(spec, table)
            columns.append((field(spec.name, type_), column))
        if any(window.id is not None for window in self.spec.windows):
            ids = pa.array([window.id for window in self.spec.windows], pa.string())
            columns.append((field(WINDOW_ID, Type.NVARCHAR), ids.take(table[WINDOW])))
        if self.spec.early_percents:
            panes = pa.array(pane_texts(self.spec.early_percents), pa.string())
            columns.append((field(PANE, Type.NVARCHAR), panes.take(flat(table[PANE_NUMBER]))))
        if self.spec.substreams:
            columns.append((field(SUBSTREAM, Type.NVARCHAR), table[SUBSTREAM]))
        return pa.table([column for _, column in columns], schema=pa.schema([name for name, _ in columns]))

    def _order(self, table: pa.Table, keys: Sequence[str]) -> tuple[Any, Any]:
        """Places of the rows by (end, window, canonical key, substream), and the hash of each row's key."""
        codes, texts = coded_text(table, keys)
        numbers = table[WINDOW].to_numpy()
        # With several windows a hash of the key alone would not be a place of its own.
        named = (
            [f"k || '/{number}'" for number in range(len(self.spec.windows))]
            if len(self.spec.windows) > 1
            else ["k"]
        )
        hashed = query(
            ", ".join(
                [
                    "SELECT rank() OVER (ORDER BY k) AS rank",
                    *(f"md5_number_lower({n}) AS h{i}" for i, n in enumerate(named)),
                ]
            )
            + " FROM distinct_keys ORDER BY place",
            distinct_keys=pa.table({"place": pa.array(np.arange(len(texts))), "k": texts}),
        )
        hashes = np.stack([hashed[f"h{i}"].to_numpy() for i in range(len(named))]).view(np.int64)
        ranks = hashed["rank"].to_numpy()[codes]
        by = [ranks, numbers, table[END].to_numpy()]
        if self.spec.early_percents:
            by.insert(2, table[PANE_NUMBER].to_numpy())
        if self.spec.substreams:
            by.insert(0, pc.rank(flat(table[SUBSTREAM]), tiebreaker="dense").to_numpy())
        places = np.lexsort(by)
        return places, hashes[numbers if len(named) > 1 else 0, codes][places]

    def _nothing(self) -> pa.Table:
        schema = [field(END, Type.DATETIME), pa.field(WINDOW, pa.int8())]
        schema += [field(name, Type.NULL) for name in self.spec.keys]
        schema += [pa.field(SUBSTREAM, pa.string())] if self.spec.substreams else []
        schema += [pa.field(FIRST, pa.int64())] if self._stamped else []
        schema += [pa.field(PANE_NUMBER, pa.int8())] if self.spec.early_percents else []
        return pa.schema(schema).empty_table()
