"""What has come into an output directory is seen once, as its readers see it; times are told in seconds."""

from __future__ import annotations

import json

import duckdb
import pytest

from output import Output
from restarts import RestartOutcome, seconds_of


def write(path, *keys):
    values = ", ".join(f"({key}, {key * 10})" for key in keys)
    duckdb.sql(f"COPY (FROM (VALUES {values}) AS made(k, v)) TO '{path}'")


def test_a_row_is_new_once_and_again_in_no_other_file(tmp_path):
    output = Output(tmp_path, ("k",))
    assert output.look() == []
    write(tmp_path / "part-0.json", 1, 2)
    assert sorted(output.look()) == [(1,), (2,)]
    write(tmp_path / "part-1.json", 2, 3)
    assert output.look() == [(3,)]
    assert output.look() == []
    output.forget()
    assert len(output.look()) == 3


def test_files_count_once_the_log_names_them(tmp_path):
    output = Output(tmp_path, ("k",), logged=True)
    write(tmp_path / "part-0.parquet", 1)
    assert output.look() == []
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    line = json.dumps({"path": (tmp_path / "part-0.parquet").as_uri(), "action": "add"})
    (log / "0").write_text(f"v1\n{line}\n")
    assert output.look() == [(1,)]


def test_waiting_ends_with_a_row_or_with_what_is_waited_for(tmp_path):
    output = Output(tmp_path, ("k",))
    assert output.wait(lambda: True, 5) is None
    write(tmp_path / "part-0.json", 1)
    assert output.wait(lambda: True, 5) is not None


@pytest.mark.parametrize(("text", "seconds"), [("7s", 7), ("1m15s", 75), ("2h1m", 7260)])
def testseconds_of_are_read_as_they_are_told(text, seconds):
    assert seconds_of(text) == seconds


def test_a_bar_is_met_by_the_median():
    outcome = RestartOutcome("replay", "")
    for value in (10, 20, 60):
        outcome.add("first new row", value, bar=30)
    assert outcome.measurements["first new row"].reached
    outcome.add("first new row", 61)
    assert not outcome.measurements["first new row"].reached
