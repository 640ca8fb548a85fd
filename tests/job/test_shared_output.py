"""Statements that write to one output: the files of a batch (`docs/decisions/0022`)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tideglass.connect.files.output import FileOutput
from tideglass.connect.output import Batch
from tideglass.job.output_publisher import OutputPublisher
from tideglass.job.outputs import TaskSink
from tideglass.local import LocalDriver
from tideglass.project.settings import JobSettings
from tideglass.testing import compile_rows, partition_batches

QUERY = """
SELECT a INTO o FROM x TIMESTAMP BY t
SELECT a, 'late' AS b INTO O FROM x TIMESTAMP BY t WHERE a > 1
SELECT a + 10 AS a INTO o FROM x TIMESTAMP BY t
SELECT COUNT(*) AS n INTO o FROM x TIMESTAMP BY t GROUP BY TumblingWindow(second, 5)
"""
ROWS = [{"t": f"2026-01-01T00:00:0{n}Z", "a": n} for n in (1, 2)]


@pytest.mark.parametrize("times", [1, 2])
def test_rows_with_other_columns_are_other_files_of_the_same_batch(tmp_path: Path, times: int) -> None:
    compiled = compile_rows(QUERY, {"x": ROWS}, JobSettings())
    assert compiled.topology.outputs == ("o",)
    specs = {"o": FileOutput("o", tmp_path, "csv")}
    for _ in range(times):  # a batch that is run again replaces what it had written
        driver = LocalDriver(compiled.topology, sink=TaskSink(specs))
        messages = driver.run(partition_batches(compiled.topology, {"x": ROWS}), final=True)
        rows = OutputPublisher(specs).publish(Batch(1, 0), messages, compiled.topology.outputs).rows
    assert rows == {"o": 6}
    texts = sorted(path.read_text() for path in tmp_path.glob("part-*"))
    assert texts == ["a\n1\n2\n11\n12\n", "a,b\n2,late\n", "n\n2\n"]


def test_a_row_is_the_same_whichever_statements_have_rows_beside_it(tmp_path: Path) -> None:
    compiled = compile_rows(QUERY, {"x": ROWS}, JobSettings())
    specs = {"o": FileOutput("o", tmp_path, "json")}
    driver = LocalDriver(compiled.topology, sink=TaskSink(specs))
    for batch, row in enumerate(ROWS):
        shares = partition_batches(compiled.topology, {"x": [row]}, first_offset=batch)
        messages = driver.run(shares, final=row is ROWS[-1])
        OutputPublisher(specs).publish(Batch(1, batch), messages, compiled.topology.outputs)
    lines = [line for path in tmp_path.glob("part-*") for line in path.read_text().splitlines()]
    wanted = [{"a": 1}, {"a": 2}, {"a": 2, "b": "late"}, {"a": 11}, {"a": 12}, {"n": 2}]
    assert sorted(lines) == sorted(json.dumps(row, separators=(",", ":")) for row in wanted)
