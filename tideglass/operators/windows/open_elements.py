"""The first elements of open windows, where they are what results are stamped with (`asa.md` 11.4).

No later result can have an earlier time than the oldest of them, and the output watermark is held there. They
are kept beside the log of a window as one small table: a row for each piece of time and substream, whatever
the number of groups.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Ints, Mask
from tideglass.core.ipc import from_bytes, to_bytes
from tideglass.core.sql import query
from tideglass.core.types import SUBSTREAM, SYSTEM_TIMESTAMP
from tideglass.operators.state.bucket_log import BucketLog

#: Cell of a partial: `$ts` of its first row.
FIRST = "|min.first"

_TIME = "$time"
_ELEMENTS = "elements"


class OpenElements:
    """Pieces of time with the first element in each: `$time`, `$ts`, and `$substream` if there are any."""

    def __init__(self, log: BucketLog, substreams: bool) -> None:
        self._state, self._name = log.state, f"{_ELEMENTS}{log.number}"
        self._plain = (_TIME, *((SUBSTREAM,) if substreams else ()))
        saved = self._state.get(self._name)
        self.table = from_bytes(saved) if saved else self._of(_TIME, None)

    def _of(self, first: str, rows: pa.Table | None) -> pa.Table:
        """The pieces of partials whose first element is in the column `first`."""
        if rows is None:
            schema = [(_TIME, pa.int64()), *((name, pa.string()) for name in self._plain[1:])]
            return pa.schema([*schema, (SYSTEM_TIMESTAMP, pa.int64())]).empty_table()
        by = ", ".join(f'"{name}"' for name in self._plain)
        return query(
            f'SELECT {by}, min("{first}") AS "{SYSTEM_TIMESTAMP}" FROM rows GROUP BY {by} ORDER BY {by}',
            rows=rows.select(list(dict.fromkeys((*self._plain, first)))),
        )

    def add(self, partials: pa.Table, first: str) -> None:
        """Adds partials. first: the column with the time of the first row of each."""
        if partials.num_rows:
            both = pa.concat_tables([self.table, self._of(first, partials)], promote_options="permissive")
            self.table = self._of(SYSTEM_TIMESTAMP, both)

    def replace(self, partials: pa.Table, first: str) -> None:
        """Holds these partials and nothing else."""
        self.table = self._of(first, partials if partials.num_rows else None)

    def keep(self, alive: Callable[[pa.Table], Mask]) -> None:
        """Drops the pieces that are in no open window any more."""
        self.table = self.table.filter(pa.array(np.asarray(alive(self.table), dtype=np.bool_)))

    def stamped(self, stamps_ticks: Ints) -> pa.Table:
        """The pieces with the earliest time a result that holds them may get."""
        place = self.table.column_names.index(SYSTEM_TIMESTAMP)
        return self.table.set_column(place, SYSTEM_TIMESTAMP, pa.array(stamps_ticks))

    def save(self) -> None:
        encoded = to_bytes(self.table) if self.table.num_rows else b""
        if (self._state.get(self._name) or b"") != encoded:
            self._state.put(self._name, encoded)
