"""The process's DuckDB connection keeps to its memory and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from duckdb import DuckDBPyConnection

from tideglass.core.sql import catching_connection, connection

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
