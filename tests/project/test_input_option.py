"""Inputs named on the command line: paths, choices behind them, and what is warned of."""

import json
from pathlib import Path

import pytest

from support.local_run import rows_of_job
from tideglass.core.errors import ProjectError
from tideglass.job.options import RunOptions
from tideglass.job.plan import plan_job
from tideglass.project.input_option import InputOption, input_option, input_options
from tideglass.project.project import load_project


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("a.json", InputOption(Path("a.json"))),
        ("a,b.json", InputOption(Path("a,b.json"))),
        ("a,b=c.json", InputOption(Path("a,b=c.json"))),
        ("a,b.json,arrival=at", InputOption(Path("a,b.json"), "at")),
        (
            "f,partitions=folders,arrival=x.at,arrival-format=epoch_seconds",
            InputOption(Path("f"), "x.at", "epoch_seconds", "folders"),
        ),
        ("f,format=csv,delimiter=semicolon", InputOption(Path("f"), file_format="csv", delimiter=";")),
        ("f,rotation=rename", InputOption(Path("f"), rotation="rename")),
        ("f,,arrival=x.json", InputOption(Path("f,arrival=x.json"))),
        ("f,,arrival=x.json,arrival=at", InputOption(Path("f,arrival=x.json"), "at")),
        ("f,arrival=a,b", InputOption(Path("f"), "a,b")),
    ],
)
def test_choices_stand_behind_a_path_which_may_hold_commas(text, given):
    assert input_option("i", text) == given


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["i"], "--input 'i' must be NAME=PATH"),
        (["=a"], "must be NAME=PATH"),
        (["i="], "must be NAME=PATH"),
        (["i=,arrival=at"], "names no path"),
        (["i=a,arrival="], "arrival says nothing"),
        (["i=a,arrival=x,arrival=y"], "arrival is said twice"),
        (["i=a,partitions=folder"], "partitions is 'folder'; did you mean 'folders'?"),
        (["i=a,format=xml"], "format is 'xml'; it must be one of json, csv, parquet, avro"),
        (["i=a,arrival=t,arrival-format=unix"], "it must be one of iso, epoch_seconds, epoch_milliseconds"),
        (["i=a,arrival-format=iso"], "arrival-format without arrival=FIELD"),
        (["i=a,delimiter=::"], "use a comma, semicolon, space, tab or bar"),
        (["i=a", "i=b"], "--input names 'i' twice"),
    ],
)
def test_a_choice_that_cannot_be_understood_is_refused(texts, message):
    with pytest.raises(ProjectError) as caught:
        input_options(texts)
    assert message in str(caught.value)


@pytest.fixture
def folder(tmp_path):
    """A cloud project whose JobConfig has a late tolerance of 5 s, and what its hub held."""
    (tmp_path / "q.asaql").write_text(
        "SELECT n, PartitionId AS p, System.Timestamp() AS t INTO o FROM i TIMESTAMP BY at"
    )
    (tmp_path / "JobConfig.json").write_text('{"EventsLateArrivalMaxDelayInSeconds": 5}')
    (tmp_path / "Inputs").mkdir()
    hub = {"Name": "i", "Type": "Data Stream", "DataSourceType": "Event Hub", "ScriptType": "Input"}
    (tmp_path / "Inputs" / "i.json").write_text(json.dumps(hub))
    for partition, second in (("0", 1), ("1", 2)):
        (tmp_path / "hub" / partition).mkdir(parents=True)
        event = {"n": second, "at": f"2026-01-01T00:00:0{second}Z", "in": {"seen": 1767225605 + second}}
        (tmp_path / "hub" / partition / "a.json").write_text(json.dumps(event) + "\n")
    return tmp_path


def planned(folder, *texts, **options):
    return plan_job(load_project(folder), RunOptions(inputs=input_options(texts), once=True, **options))


def test_arrival_and_partitions_of_a_recorded_stream_are_named(folder):
    choices = "arrival=in.seen,arrival-format=epoch_seconds,partitions=folders"
    job = planned(folder, f"I={folder}/hub,{choices}")
    assert job.warnings == ()
    assert rows_of_job(job) == {
        "o": [
            {"n": 1, "p": 0, "t": "2026-01-01T00:00:01.0000000Z"},
            {"n": 2, "p": 1, "t": "2026-01-01T00:00:02.0000000Z"},
        ]
    }


def test_an_input_the_project_does_not_name_takes_the_same_choices(folder):
    (folder / "Inputs" / "i.json").unlink()
    job = planned(folder, f"i={folder}/hub,arrival=at,partitions=folders")
    assert [row["p"] for row in rows_of_job(job)["o"]] == [0, 1]


def test_files_without_a_time_of_arrival_are_warned_of_where_the_job_has_a_late_tolerance(folder):
    (said,) = planned(folder, f"i={folder}/hub").warnings
    assert "more than 5s before count as late" in said
    assert f"--input i={folder}/hub,arrival=FIELD" in said
    (folder / "JobConfig.json").write_text("{}")
    assert planned(folder, f"i={folder}/hub").warnings == ()


def test_files_without_any_time_are_warned_of(folder):
    (folder / "q.asaql").write_text("SELECT COUNT(*) AS n INTO o FROM i GROUP BY TumblingWindow(minute, 1)")
    (said,) = planned(folder, f"i={folder}/hub").warnings
    assert "the input 'i' is read without TIMESTAMP BY, so all events of a file have one timestamp" in said
    job = planned(folder, f"i={folder}/hub,arrival=at")
    assert job.warnings == ()
    assert rows_of_job(job) == {"o": [{"n": 2}]}


def test_a_misspelt_choice_is_part_of_the_path_and_said_so(folder):
    with pytest.raises(ProjectError) as caught:
        planned(folder, f"i={folder}/hub,arival=at")
    assert "which does not exist" in str(caught.value)
    assert "'arival' is no choice; did you mean 'arrival'?" in str(caught.value)


def test_how_files_take_turns_is_said_by_the_project_or_the_command(folder):
    file = folder / "hub" / "0" / "a.json"
    local = {"InputAlias": "i", "Type": "Data Stream", "Format": "Json", "ScriptType": "InputMock"}
    said = local | {"FilePath": "../hub/0/a.json", "Rotation": "CopyTruncate"}
    (folder / "Inputs" / "Local_i.json").write_text(json.dumps(said))
    assert planned(folder).inputs["i"].spec.rotation == "copytruncate"
    assert planned(folder, f"i={file},rotation=rename").inputs["i"].spec.rotation == "rename"
    assert planned(folder, f"i={file},rotation=none").inputs["i"].spec.rotation == "none"
    with pytest.raises(ProjectError, match="name the file that is written to"):
        planned(folder, f"i={folder}/hub/0,rotation=copytruncate")
    with pytest.raises(ProjectError, match="did you mean 'rename'"):
        planned(folder, f"i={file},rotation=renam")


def test_a_partition_per_folder_needs_a_folder(folder):
    job = planned(folder, f"i={folder}/hub/0/a.json,partitions=folders")
    with pytest.raises(Exception, match="has a partition per folder, but"):
        rows_of_job(job)


def test_the_format_of_a_file_whose_name_tells_none_is_named(folder):
    (folder / "exported").write_text("n;at\n7;2026-01-01T00:00:09Z\n")
    job = planned(folder, f"i={folder}/exported,format=csv,delimiter=semicolon,arrival=at")
    assert [row["n"] for row in rows_of_job(job)["o"]] == ["7"]


def test_reference_data_takes_a_path_alone(folder):
    (folder / "q.asaql").write_text("SELECT i.n INTO o FROM i TIMESTAMP BY at JOIN r ON i.n = r.n")
    reference = {
        "Name": "r",
        "Type": "Reference data",
        "DataSourceType": "Blob Storage",
        "ScriptType": "Input",
    }
    (folder / "Inputs" / "r.json").write_text(json.dumps(reference))
    (folder / "r.csv").write_text("n\n1\n")
    with pytest.raises(ProjectError, match="reference data has neither times of arrival nor partitions"):
        planned(folder, f"i={folder}/hub,arrival=at", f"r={folder}/r.csv,arrival=n")
    assert planned(folder, f"i={folder}/hub,arrival=at", f"r={folder}/r.csv").references["r"].format is None


def test_a_sample_that_is_not_there_only_matters_when_it_is_read(folder):
    local = {"InputAlias": "i", "Format": "Json", "FilePath": "gone.json", "ScriptType": "InputMock"}
    (folder / "Inputs" / "Local_i.json").write_text(json.dumps(local))
    (note,) = load_project(folder).unsupported
    assert "the local input 'i' cannot be read" in note
    with pytest.raises(ProjectError) as caught:
        planned(folder)
    assert '"FilePath" in Inputs/Local_i.json names gone.json, which does not exist' in str(caught.value)
    assert "hint: say --input i=PATH" in str(caught.value)
    assert len(rows_of_job(planned(folder, f"i={folder}/hub,arrival=at"))["o"]) == 2


def test_a_format_that_is_not_supported_only_matters_when_it_is_read(folder):
    local = {"InputAlias": "i", "Format": "CustomClr", "FilePath": "../q.asaql", "ScriptType": "InputMock"}
    (folder / "Inputs" / "Local_i.json").write_text(json.dumps(local))
    with pytest.raises(ProjectError, match="the format 'CustomClr' is understood, not yet supported"):
        planned(folder)
    assert len(rows_of_job(planned(folder, f"i={folder}/hub,arrival=at"))["o"]) == 2
