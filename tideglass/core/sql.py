"""The one DuckDB connection of this process, and how Arrow tables pass through it.

A worker process serves one task at a time, so one connection with one thread is enough, and it makes
the result depend on the order of the input only. Nothing is ever stored in it: tables are registered
for one statement and dropped again. What does not fit in `TIDEGLASS_MEMORY` (2GB) spills to the machine's
temporary directory. No statement opens another file, attaches a database, loads an extension or changes a
setting, whatever words of a query should ever reach it.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    import duckdb

#: Settings of each connection. A statement of more than two seconds would draw a bar wherever the process has
#: no program of its own.
_SETTINGS = "SET TimeZone = 'UTC'; SET preserve_insertion_order = true; SET enable_progress_bar = false"
#: Of the database; the last one keeps all settings as they are.
_CLOSED = (
    "SET python_enable_replacements = false; SET autoload_known_extensions = false; "
    "SET enable_external_access = false; SET lock_configuration = true"
)

_connections: dict[int, duckdb.DuckDBPyConnection] = {}
_catching: dict[int, duckdb.DuckDBPyConnection] = {}


def quoted(name: str) -> str:
    """A column's name as SQL."""
    return '"' + name.replace('"', '""') + '"'


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
        made.execute(_SETTINGS)
        catching = made.cursor()
        catching.execute(_SETTINGS)
        catching.execute("PRAGMA disable_optimizer")
        made.execute(_CLOSED)
        catching.execute("CREATE TEMP MACRO error(m) AS list_extract([NULL], CAST('!' || m AS BIGINT))")
        _connections.clear()
        _catching.clear()
        _connections[pid], _catching[pid] = made, catching
    return _connections[pid]


def catching_connection() -> duckdb.DuckDBPyConnection:
    """The same database through a second connection, where TRY may hold a call of `error`.

    TRY refuses the built-in `error` because it is volatile. Macros are a connection's own, so that here
    `error` is one that fails in a way TRY takes: by a cast, below a function, since a bare one of a constant
    or one in a condition fails while the statement is planned.
    """
    connection()
    return _catching[os.getpid()]


def query(sql: str, **tables: pa.Table) -> pa.Table:
    """The result of `sql` over the named Arrow tables. Field metadata does not survive DuckDB.

    Raises duckdb.Error when a row makes the statement fail.
    """
    return query_by(connection(), sql, **tables)


def query_catching(sql: str, **tables: pa.Table) -> pa.Table:
    """As `query`, for a statement in which TRY holds what may fail.

    It is planned without the optimizer, which would see that `error` is always NULL here, and answer
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
