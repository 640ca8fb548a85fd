"""Reference inputs of projects: files, patterns, databases, in runs and in test cases (asa.md 10.1, 6.3)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tideglass.cli.check import summary
from tideglass.cli.test import run_case
from tideglass.core.errors import ProjectError
from tideglass.job.options import RunOptions
from tideglass.job.plan import plan_job
from tideglass.project.project import load_project
from tideglass.project.test_cases import load_test_config
from tideglass.storage import storage_path

QUERY = "SELECT x.n, r.name FROM x TIMESTAMP BY t JOIN r ON x.k = r.k"
LOCAL: dict[str, Any] = {
    "InputAlias": "r",
    "Type": "Reference data",
    "Format": "Csv",
    "ScriptType": "InputMock",
}
LIVE: dict[str, Any] = {"Name": "r", "Type": "Reference data", "ScriptType": "Input"}
SQL: dict[str, Any] = {
    "RefreshType": "RefreshPeriodicallyWithDelta",
    "RefreshRate": "00:00:05",
    "FullSnapshotQuery": "SELECT 1 AS k",
    "DeltaSnapshotPath": "delta.sql",
}


def project(folder: Path, *inputs: dict[str, Any]) -> Path:
    """A project with the stream `x` and these inputs."""
    (folder / "Inputs").mkdir(parents=True)
    stream = {"InputAlias": "x", "Type": "Data Stream", "FilePath": "x.json", "ScriptType": "InputMock"}
    for number, content in enumerate((stream, *inputs)):
        (folder / "Inputs" / f"{number}.json").write_text(json.dumps(content))
    event = {"t": "2026-01-02T00:00:00Z", "n": 1, "k": "a"}
    (folder / "Inputs" / "x.json").write_text(json.dumps(event) + "\n")
    (folder / "Inputs" / "delta.sql").write_text("SELECT 2 AS k, 1 AS _operation_")
    for name, text in (("r.csv", "k,name\na,plain\n"), ("2026-01-01.csv", "k,name\na,old\n")):
        (folder / "Inputs" / name).write_text(text)
    (folder / "Inputs" / "2026-01-02.csv").write_text("k,name\na,new\n")
    (folder / "q.asaql").write_text(QUERY)
    return folder


def spec(folder: Path, **options: Any) -> Any:
    return plan_job(load_project(folder), RunOptions(**options)).references["r"]


def test_a_local_reference_file_is_read_beside_its_description(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", {**LOCAL, "FilePath": "r.csv"})
    assert spec(folder).path == storage_path(folder / "Inputs" / "r.csv")


def test_a_pattern_takes_the_formats_of_the_live_input_as_they_are_written_there(tmp_path: Path) -> None:
    live = {**LIVE, "BlobReferenceProperties": {"DateFormat": "yyyy-MM-dd", "TimeFormat": "HH-mm"}}
    folder = project(tmp_path / "p", live)
    path = folder / "Inputs" / "{date}.csv"
    found = spec(folder, inputs={"r": path})
    assert (found.path, found.date_format, found.time_format) == (storage_path(path), "YYYY-MM-DD", "HH-mm")


def test_a_live_blob_needs_a_path_and_a_missing_file_is_named(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", {**LIVE, "DataSourceType": "Blob Storage"})
    with pytest.raises(ProjectError, match=r"'r' has no files: it is Blob Storage.*\n.*--input r=PATH"):
        spec(folder)
    with pytest.raises(ProjectError, match=r"none\.csv, which does not exist\n.*\{date\}"):
        spec(folder, inputs={"r": tmp_path / "none.csv"})
    with pytest.raises(ProjectError, match="is a folder"):
        spec(folder, inputs={"r": tmp_path})


def test_a_database_is_queried_as_the_live_input_says_with_a_connection_from_here(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", {**LIVE, "DataSourceType": "SQL Database", "SqlReferenceInputInfo": SQL})
    with pytest.raises(ProjectError, match="it is SQL Database"):
        spec(folder)
    found = spec(folder, inputs={"r": Path("postgresql://u@h/d")}).sql
    assert (found.connection, found.snapshot_query) == ("postgresql://u@h/d", "SELECT 1 AS k")
    assert (found.refresh, found.interval_seconds) == ("delta", 300)
    assert found.delta_query == "SELECT 2 AS k, 1 AS _operation_"


def test_a_local_input_may_name_a_database_itself(tmp_path: Path) -> None:
    mock = {**LOCAL, **SQL, "ConnectionString": "postgresql://h/d", "RefreshRate": "01:02:03"}
    folder = project(tmp_path / "p", mock)
    found = spec(folder).sql
    assert (found.connection, found.interval_seconds) == ("postgresql://h/d", 93_780)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"RefreshType": "Often"}, "'Often', it must be one of Static"),
        ({"RefreshRate": "soon"}, "'soon'; write DD:HH:MM"),
        ({"RefreshRate": "00:00:00"}, "a minute is the shortest"),
        ({"DeltaSnapshotPath": None}, '"DeltaSnapshotQuery" is missing'),
    ],
)
def test_what_is_wrong_with_a_database_input_is_named_with_its_file(
    tmp_path: Path, changed: dict[str, Any], words: str
) -> None:
    folder = project(tmp_path / "p", {**LIVE, "SqlReferenceInputInfo": {**SQL, **changed}})
    with pytest.raises(ProjectError, match=rf"Inputs/1\.json: .*{words}"):
        load_project(folder)


@pytest.mark.parametrize(("path", "name"), [("../Inputs/r.csv", "plain"), ("../Inputs/{date}.csv", "new")])
def test_a_test_case_joins_a_file_or_snapshots_by_their_time(tmp_path: Path, path: str, name: str) -> None:
    folder = project(tmp_path / "p", {**LOCAL, "FilePath": "r.csv"})
    reference = {**LOCAL, "FilePath": path, "DateFormat": "YYYY-MM-DD"}
    stream = {"InputAlias": "x", "FilePath": "../Inputs/x.json", "Format": "Json"}
    expected = [{"OutputAlias": "output", "FilePath": "expected.json"}]
    case = {"Name": "one", "Inputs": [stream, reference], "ExpectedOutputs": expected}
    (folder / "test").mkdir()
    (folder / "test" / "expected.json").write_text(json.dumps([{"n": 1, "name": name}]))
    (folder / "test" / "testConfig.json").write_text(json.dumps({"TestCases": [case]}))
    loaded = load_project(folder)
    (found,) = load_test_config(folder / "test" / "testConfig.json", loaded.bounds).cases
    assert run_case(loaded, found).passed


def test_check_lists_reference_inputs_among_those_the_query_reads(tmp_path: Path) -> None:
    from tideglass.bind.binder import bind
    from tideglass.cli.check import known_inputs
    from tideglass.lang.parser import parse

    loaded = load_project(project(tmp_path / "p", {**LOCAL, "FilePath": "r.csv"}))
    plan = bind(parse(loaded.query), loaded.query, known_inputs(loaded)).plan
    assert (plan.inputs, plan.references) == (("x",), ("r",))
    cells = [list(column.cells) for column in summary(loaded, plan).columns]
    assert "reference data, csv Inputs/r.csv" in cells[2]
