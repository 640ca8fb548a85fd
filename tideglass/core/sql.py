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

_connections: dict[int, duckdb.DuckDBPyConnection] = {}


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
        _connections.clear()
        _connections[pid] = made
    return _connections[pid]


def query(sql: str, **tables: pa.Table) -> pa.Table:
    """The result of `sql` over the named Arrow tables. Field metadata does not survive DuckDB.

    Raises duckdb.Error when a row makes the statement fail.
    """
    duck = connection()
    for name, table in tables.items():
        duck.register(name, table)
    try:
        return duck.sql(sql).to_arrow_table()
    finally:
        for name in tables:
            duck.unregister(name)
