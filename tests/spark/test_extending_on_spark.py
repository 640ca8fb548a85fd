"""The input and the output that docs/extending.md shows, in runs of the command on Spark."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

from support.extensions import extended


def test_a_table_is_read_into_a_table_row_by_row_over_restarts(java: None, tmp_path: Path) -> None:
    environment = extended(tmp_path)
    database = tmp_path / "heat" / "heat.db"

    def insert(*temperatures: int) -> None:
        with sqlite3.connect(database) as made:
            made.execute(
                "CREATE TABLE IF NOT EXISTS readings"
                " (id INTEGER PRIMARY KEY, at TEXT, arrived TEXT, device TEXT, temperature REAL)"
            )
            for each in temperatures:
                at = f"2026-01-01T00:00:{each:02}Z"
                made.execute(
                    "INSERT INTO readings (at, arrived, device, temperature) VALUES (?, ?, 'a', ?)",
                    (at, at, each),
                )

    def written() -> list[int]:
        """The temperatures in the table of the output."""
        with sqlite3.connect(database) as made:
            known = made.execute("SELECT name FROM sqlite_master WHERE name = 'hot'").fetchall()
            asked = "SELECT json_extract(row, '$.temperature') FROM hot ORDER BY rowid"
            return [int(each) for (each,) in made.execute(asked)] if known else []

    def run(*options: str, until: list[int]) -> list[int]:
        """What is written once a run that is stopped behind its last row has ended."""
        process = subprocess.Popen(
            [sys.executable, "-m", "tideglass.cli.main", "run", "heat", "--live", *options],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        last_seconds = time.monotonic() + 200
        while written() != until and process.poll() is None and time.monotonic() < last_seconds:
            time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        told, _ = process.communicate(timeout=100)
        assert process.returncode == 0, told
        return written()

    insert(20, 31, 32)
    assert run(until=[31, 32]) == [31, 32]
    insert(33, 10, 34)
    assert run(until=[31, 32, 33, 34]) == [31, 32, 33, 34], "the state of the first run goes on"
    insert(35)
    every = [31, 32, 33, 34, 35]
    assert run("--start", "last", until=every) == every, "new state, and no row twice"
