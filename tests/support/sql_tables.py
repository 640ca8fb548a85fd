"""Outputs to tables of a PostgreSQL that runs, and what a reader finds in these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from support.database import Database
from tideglass.connect.output import Batch
from tideglass.connect.sql.output import SqlOutput
from tideglass.connect.sql.postgres import Postgres
from tideglass.connect.sql.sql_session import TableAddress
from tideglass.core.json_rows import table_of
from tideglass.core.types import Type


def table_output(
    port: int, table: str, keys: Sequence[str] = (), most_rows: int = 10_000, user: str = "postgres"
) -> SqlOutput:
    """An output called as its table, of the schema `public`, that connects to a port of this machine."""
    address = TableAddress("127.0.0.1", port, "postgres", user, "public", table)
    return SqlOutput(table, address, Postgres(), most_rows, tuple(keys))


def batch(number: int, generation: int = 1, job: str = "job") -> Batch:
    return Batch(generation, number, job)


def rows(*given: Mapping[str, Any], **types: Type) -> pa.Table:
    """A table of rows; `types` as in `table_of`."""
    return table_of(given, types)


def sorted_rows(database: Database, table: str) -> list[tuple[Any, ...]]:
    """All rows of a table, in an order of their own."""
    return sorted(database.rows(f'SELECT * FROM public."{table}"'), key=repr)
