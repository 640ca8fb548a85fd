"""The notebook-style example runs from its first cell to its last and shows what its text says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tideglass.spark.session.java import find_java

EXAMPLE = Path(__file__).parents[2] / "examples" / "dataframes.py"


def tables(text: str) -> list[list[tuple[str, ...]]]:
    """The rows of the tables Spark shows, without their headings."""
    found: list[list[tuple[str, ...]]] = []
    for block in re.findall(r"(?:^\|.*\n|^\+[-+]+\n)+", text, re.MULTILINE):
        lines = [line for line in block.splitlines() if line.startswith("|")]
        found.append([tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines[1:]])
    return found


@pytest.mark.spark
def test_the_dataframes_example_shows_what_it_says():
    if find_java(os.environ) is None:
        pytest.skip("NO SPARK TEST RUNS: no Java 17 or newer; see python -m tideglass.spark.session.java")
    done = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    streamed, hot, recorded = tables(done.stdout)
    assert hot == [("north", "1", "35.0", "95.0", "2026-01-01 12:00:13")]
    assert "'InputEvents': 7" in done.stdout
    assert "'LateInputEvents': 1" in done.stdout
    assert "'DroppedOrAdjustedEvents': 0" in done.stdout
    assert "observed: 0" in done.stdout
    assert recorded == [
        ("north", "2", "21.0", "2026-01-01 12:00:10"),
        ("south", "2", "18.25", "2026-01-01 12:00:10"),
        ("north", "1", "35.0", "2026-01-01 12:00:20"),
        ("south", "1", "19.0", "2026-01-01 12:00:20"),
        ("north", "1", "22.0", "2026-01-01 12:00:40"),
    ]
    assert streamed == recorded[:-1]
    assert "until: timestamp" in done.stdout
