"""Reference data in PostgreSQL: queried whole, or what has changed since, and stored (`asa.md` 6.3).

Every snapshot is stored as a Parquet file before it is used, so that a run that reads events again meets
the table as it was. `@snapshotTime`, `@deltaStartTime` and `@deltaEndTime` in a query stand for instants.
A delta query answers with the columns of the snapshot and `_operation_`: 1 for a row that was added, 2 for
one that is gone; a row that has changed is both.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.parquet

from tideglass.connect.reference.snapshot import FileSnapshot
from tideglass.connect.spec import ReferenceSpec, SqlSpec
from tideglass.core import sql
from tideglass.core.arrays import pc
from tideglass.core.errors import InputError
from tideglass.core.file_names import state_name
from tideglass.core.time import NANOSECONDS_PER_TICK, TICKS_PER_SECOND, format_ticks
from tideglass.storage import storage_path

if TYPE_CHECKING:
    from adbc_driver_manager.dbapi import Connection

pq = cast("Any", pyarrow.parquet)

OPERATION = "_operation_"
#: The service allows a query no longer (`asa.md` 6.3).
TIMEOUT_MS = 60_000

_PARAMETER = re.compile(r"@(snapshotTime|deltaStartTime|deltaEndTime)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SqlReference:
    """A reference input that queries a database. directory: where its snapshots are stored."""

    spec: ReferenceSpec
    directory: str

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def _sql(self) -> SqlSpec:
        assert self.spec.sql is not None
        return self.spec.sql

    def look(self, known: Sequence[FileSnapshot], now_ticks: int | None) -> list[FileSnapshot]:
        """The snapshot of now, if it is time for one.

        The first one holds for all times before, as nothing is known of them; each later one from the
        moment it is taken. now_ticks None: finished inputs meet one snapshot. Raises InputError for a
        query that fails.
        """
        if known and (now_ticks is None or self._sql.refresh == "static"):
            return []
        taken_ticks = time.time_ns() // NANOSECONDS_PER_TICK if now_ticks is None else now_ticks
        if not known:
            rows = self._ask(self._sql.snapshot_query, {"snapshottime": taken_ticks})
            return [self._stored(rows, taken_ticks, None)]
        last_ticks = int(storage_path(known[-1].path).stem)
        if taken_ticks - last_ticks < self._sql.interval_seconds * TICKS_PER_SECOND:
            return []
        if self._sql.refresh == "full":
            rows = self._ask(self._sql.snapshot_query, {"snapshottime": taken_ticks})
        else:
            assert self._sql.delta_query is not None
            times = {"deltastarttime": last_ticks, "deltaendtime": taken_ticks, "snapshottime": taken_ticks}
            with storage_path(known[-1].path).open() as file:
                before = pq.read_table(file)
            rows = self._changed(before, self._ask(self._sql.delta_query, times))
        return [self._stored(rows, taken_ticks, taken_ticks)]

    def _ask(self, query: str, times_ticks: Mapping[str, int]) -> pa.Table:
        """The rows of a query, its parameters replaced."""

        def instant(match: re.Match[str]) -> str:
            ticks = times_ticks.get(match[1].lower())
            if ticks is None:
                raise InputError(
                    f"[REFERENCE_QUERY] {match[0]} has no value in this query of the reference input "
                    f"{self.name!r}\n  hint: a snapshot query knows @snapshotTime; a delta query also "
                    "@deltaStartTime and @deltaEndTime"
                )
            return f"'{format_ticks(ticks)[:26]}Z'::timestamptz"

        text = _PARAMETER.sub(instant, query)
        with self._connection() as connection, connection.cursor() as cursor:
            try:
                cursor.execute(f"SET statement_timeout = {TIMEOUT_MS}")
                cursor.execute("SET TIME ZONE 'UTC'")
                cursor.execute(text)
                return _plain(cursor.fetch_arrow_table())
            except (connection.Error, pa.ArrowException) as error:
                raise InputError(
                    f"[REFERENCE_QUERY] the database refuses a query of the reference input {self.name!r}: "
                    f"{str(error).strip()}\n  query: {text.strip()}"
                ) from error

    def _connection(self) -> Connection:
        try:
            import adbc_driver_postgresql.dbapi as postgresql
        except ImportError as error:
            raise InputError(
                f"the reference input {self.name!r} queries PostgreSQL, for which a package is missing\n"
                "  hint: pip install 'tideglass[sql]'"
            ) from error
        try:
            return postgresql.connect(self._sql.connection)
        except postgresql.Error as error:
            raise InputError(
                f"[REFERENCE_QUERY] the database of the reference input {self.name!r} cannot be reached: "
                f"{str(error).strip()}\n  hint: check the connection; a password may stand in PGPASSWORD or "
                "in the file PGPASSFILE names"
            ) from error

    def _changed(self, before: pa.Table, delta: pa.Table) -> pa.Table:
        """The earlier rows with those added and without those removed."""
        missing = [name for name in (*before.column_names, OPERATION) if name not in delta.column_names]
        if missing:
            raise InputError(
                f"[REFERENCE_QUERY] the delta query of the reference input {self.name!r} has no column "
                f"{missing[0]!r}\n  hint: it must give the columns of the snapshot query and {OPERATION}"
            )
        operation = delta[OPERATION].cast(pa.int64())
        if not pc.all(pc.is_in(operation, value_set=pa.array([1, 2]))).as_py() and delta.num_rows:
            raise InputError(
                f"[REFERENCE_QUERY] the delta query of the reference input {self.name!r} gives a row whose "
                f"{OPERATION} is neither 1 (it has come) nor 2 (it is gone)"
            )
        rows = delta.select(before.column_names).cast(before.schema)
        columns = pa.table(before.columns, names=[f"c{n}" for n in range(before.num_columns)])
        added, gone = (
            pa.table(part.columns, names=columns.column_names)
            for part in (rows.filter(pc.equal(operation, kind)) for kind in (1, 2))
        )
        after = sql.query(
            "(SELECT * FROM held UNION ALL SELECT * FROM added) EXCEPT ALL SELECT * FROM gone",
            held=columns,
            added=added,
            gone=gone,
        )
        return after.rename_columns(before.column_names).cast(before.schema)

    def _stored(self, rows: pa.Table, taken_ticks: int, effective_ticks: int | None) -> FileSnapshot:
        """The rows as a file that is there wholly or not at all."""
        path = storage_path(self.directory) / state_name(self.name) / f"{taken_ticks}.parquet"
        with path.replacing() as file:
            pq.write_table(rows, file)
        return FileSnapshot.found(self.name, path, "parquet", effective_ticks=effective_ticks)


def _plain(table: pa.Table) -> pa.Table:
    """Columns in types every reader of Parquet knows: numeric as double, json and uuid as text."""
    for place, column in enumerate(table.columns):
        if isinstance(column.type, pa.BaseExtensionType):
            name, kind = table.column_names[place], getattr(column.type, "type_name", None)
            storage = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
            if kind == "numeric":
                storage = storage.cast(pa.float64())
            elif pa.types.is_fixed_size_binary(storage.type):
                storage = pa.chunked_array([pa.array(map(_text, column.to_pylist()), pa.string())])
            table = table.set_column(place, name, storage)
    return table.replace_schema_metadata(None)


def _text(value: object) -> str | None:
    return None if value is None else str(value)
