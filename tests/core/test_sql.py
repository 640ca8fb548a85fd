"""The process's DuckDB connection keeps to its memory, leaves nothing behind and opens no files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from duckdb import DuckDBPyConnection

from tideglass.core.sql import catching_connection, connection, query, query_catching

#: Groups 3 M keys in 100 MB: the keys alone are more than that.
SPILLS = """
import numpy as np, pyarrow as pa
from tideglass.core.sql import query
keys = pa.array(np.arange(3_000_000)).cast(pa.string())
groups = query("SELECT key, count(*) AS n FROM rows GROUP BY key ORDER BY key", rows=pa.table({"key": keys}))
print(groups.num_rows, query("SELECT current_setting('temp_directory') AS d")["d"][0])
"""


def test_what_does_not_fit_in_memory_spills_to_the_temporary_directory(tmp_path: Path):
    environment = {**os.environ, "TIDEGLASS_MEMORY": "100MB", "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", SPILLS], capture_output=True, text=True, env=environment, cwd=Path.cwd()
    )
    assert done.returncode == 0, done.stderr
    rows, directory = done.stdout.split()
    assert (rows, Path(directory).parent) == ("3000000", tmp_path), done.stderr
    assert not Path(directory).exists()


@pytest.mark.parametrize("made", [connection, catching_connection])
def test_no_statement_draws_its_progress_into_what_is_printed(made: Callable[[], DuckDBPyConnection]):
    assert made().execute("SELECT current_setting('enable_progress_bar')").fetchall() == [(False,)]


@pytest.mark.parametrize("way", [query, query_catching])
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM '{file}'",
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM read_json('{file}')",
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM read_blob('{file}')",
        "SELECT * FROM glob('{folder}/*')",
        "SELECT * FROM duckdb_temporary_files() AS t, read_text('{file}')",
        "COPY (SELECT 1) TO '{folder}/made.csv'",
        "EXPORT DATABASE '{folder}/made'",
        "ATTACH '{folder}/made.db'",
        "INSTALL httpfs",
        "LOAD '{file}'",
        "SET enable_external_access = true",
        "SET memory_limit = '1TB'",
        "SET lock_configuration = false",
        "PRAGMA enable_optimizer; SET threads = 9",
        "SET temp_directory = '{folder}'",
        "SELECT * FROM secret",
    ],
)
def test_no_statement_reaches_files_or_settings(
    tmp_path: Path, way: Callable[[str], pa.Table], statement: str
):
    secret = pa.table({"a": ["secret"]})  # noqa: F841 - DuckDB may find variables of Python by their names
    file = tmp_path / "a.json"
    file.write_text('{"a": "secret"}')
    with pytest.raises(duckdb.Error):
        way(statement.format(file=file, folder=tmp_path))
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]
