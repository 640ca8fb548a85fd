"""The one DuckDB connection of this process, and how Arrow tables pass through it.

A worker process serves one task at a time, so one connection with one thread is enough, and it makes
the result depend on the order of the input only. Nothing is ever stored in it: tables are registered
for one statement and dropped again. What does not fit in `TIDEGLASS_MEMORY` (2GB) spills to the machine's
temporary directory.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    import duckdb

#: A statement of more than two seconds would draw a bar wherever the process has no program of its own.
_SILENT = "SET enable_progress_bar = false"

_connections: dict[int, duckdb.DuckDBPyConnection] = {}
_catching: dict[int, duckdb.DuckDBPyConnection] = {}


def connection() -> duckdb.DuckDBPyConnection:
    """This process's connection; made on first use (and again after a fork)."""
    import duckdb

    pid = os.getpid()
    if pid not in _connections:
        made = duckdb.connect(
            config={
                "threads": 1,
                "memory_limit": os.environ.get("TIDEGLASS_MEMORY", "2GB"),
                "temp_directory": str(Path(tempfile.gettempdir()) / f"tideglass-{pid}"),
            }
        )
        made.execute("SET TimeZone = 'UTC'")
        made.execute("SET preserve_insertion_order = true")
        made.execute(_SILENT)
        _connections.clear()
        _catching.clear()
        _connections[pid] = made
    return _connections[pid]


def catching_connection() -> duckdb.DuckDBPyConnection:
    """The same database through a second connection, where TRY may hold a call of `error`.

    TRY refuses the built-in `error` because it is volatile. Macros are a connection's own, so that here
    `error` is one that fails in a way TRY takes: by a cast, below a function, since a bare one of a constant
    or one in a condition fails while the statement is planned.
    """
    duck = connection()
    pid = os.getpid()
    if pid not in _catching:
        made = duck.cursor()
        made.execute("SET TimeZone = 'UTC'")
        made.execute(_SILENT)
        made.execute("CREATE TEMP MACRO error(m) AS list_extract([NULL], CAST('!' || m AS BIGINT))")
        made.execute("PRAGMA disable_optimizer")
        _catching[pid] = made
    return _catching[pid]


def query(sql: str, **tables: pa.Table) -> pa.Table:
    """The result of `sql` over the named Arrow tables. Field metadata does not survive DuckDB.

    Raises duckdb.Error when a row makes the statement fail.
    """
    return query_by(connection(), sql, **tables)


def query_catching(sql: str, **tables: pa.Table) -> pa.Table:
    """As `query`, for a statement in which TRY holds what may fail.

    It is planned without the optimizer, which would see that `error` gives nothing but NULL here, and answer
    IS NULL without a call of it.
    """
    return query_by(catching_connection(), sql, **tables)


def query_by(duck: duckdb.DuckDBPyConnection, sql: str, **tables: pa.Table) -> pa.Table:
    """As `query`, by one of the connections of this process."""
    for name, table in tables.items():
        duck.register(name, table)
    try:
        return duck.sql(sql).to_arrow_table()
    finally:
        for name in tables:
            duck.unregister(name)
