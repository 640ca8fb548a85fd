"""Joins with reference data inside a task: which snapshot a row meets, one copy of each per process.

A worker process keeps the tables it has read and indexed for later batches. That is memory, not
state: what a batch sees follows from its rows and from how many snapshots were known when it began.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

import pyarrow as pa

from tideglass.connect.reference.references import References
from tideglass.connect.reference.snapshot import ReferenceSnapshot, no_snapshot
from tideglass.core.columns import unify
from tideglass.core.events import Known
from tideglass.core.failing_rows import OnFailure
from tideglass.core.types import SYSTEM_TIMESTAMP
from tideglass.engine.reports import ReferenceRows
from tideglass.evaluate.program import Program, row_condition
from tideglass.operators.joins.reference import ReferenceJoin, ReferenceTable, by_snapshot
from tideglass.plan.specs import ReferenceJoinSpec

#: Snapshots of one join that are kept ready: the one that holds, those late and early events meet.
KEPT_SNAPSHOTS = 3
#: Joins whose snapshots are kept ready: more than a job has.
KEPT_JOINS = 32


class _Loaded(NamedTuple):
    """A snapshot that is kept ready.

    table: its rows that the join may need.
    rows: how many it has in all.
    """

    table: ReferenceTable
    rows: int


_tables: OrderedDict[Any, OrderedDict[ReferenceSnapshot, _Loaded]] = OrderedDict()


class ReferenceLookup:
    """One join with reference data. Made once per stage; the tables are the process's.

    newest: the newest snapshot it has looked rows up in; None for none yet.
    """

    def __init__(self, spec: ReferenceJoinSpec, all_references: References, level: str) -> None:
        self.spec = spec
        self._references = all_references
        self._level = level
        self._join = ReferenceJoin(spec, row_condition(spec.condition, level))
        self.newest: ReferenceRows | None = None

    def run(self, rows: pa.Table, known: Known, on_failure: OnFailure | None = None) -> pa.Table:
        """The joined rows, each with the snapshot that holds at its `$ts` (A-21).

        Raises EvaluationError as `ReferenceJoin.join` does, and InputError for a row before the first
        snapshot, and for a snapshot that cannot be read.
        """
        name = self.spec.input
        snapshots = self._references.snapshots(name, known[name])
        times = rows[SYSTEM_TIMESTAMP].to_numpy()
        parts = by_snapshot(times, [snapshot.effective_ticks for snapshot in snapshots])
        if -1 in parts:
            raise no_snapshot(name, snapshots, int(times[parts[-1]].min()))
        if len(parts) == 1:
            return self._join.join(rows, self._table(snapshots[next(iter(parts))]), on_failure)
        made = [
            self._join.join(rows.take(pa.array(numbers)), self._table(snapshots[place]), on_failure)
            for place, numbers in parts.items()
        ]
        return unify(made)

    def _table(self, snapshot: ReferenceSnapshot) -> ReferenceTable:
        join = (self.spec.input, self.spec.reference, self.spec.fields, self._level)
        kept = _tables.setdefault(join, OrderedDict())
        _tables.move_to_end(join)
        if len(_tables) > KEPT_JOINS:
            _tables.popitem(last=False)
        loaded = kept.get(snapshot)
        if loaded is None:
            loaded = kept[snapshot] = self._read(snapshot)
            if len(kept) > KEPT_SNAPSHOTS:
                kept.popitem(last=False)
        kept.move_to_end(snapshot)
        if self.newest is None or self.newest.effective_ticks <= snapshot.effective_ticks:
            self.newest = ReferenceRows(self.spec.input, snapshot.effective_ticks, loaded.rows)
        return loaded.table

    def _read(self, snapshot: ReferenceSnapshot) -> _Loaded:
        rows = snapshot.read(self.spec.input, self.spec.fields, self._level)
        program = self.spec.reference
        made = Program(program.items, program.condition, program.keep, level=self._level).run(rows)
        return _Loaded(ReferenceTable(made.combine_chunks(), self.spec.keys), rows.num_rows)
