"""Keys of project files: any case, nested, misspelt (asa.md 10.1, 10.3)."""

import json
from pathlib import Path

import pytest

from tideglass.core.bounds import Bounds
from tideglass.project.project import load_project
from tideglass.project.settings import JobSettings
from tideglass.project.test_cases import load_test_config

LATE = "EventsLateArrivalMaxDelayInSeconds"


def project(folder: Path, **files: object):
    """A project of one query and the given files, `Inputs__x` for `Inputs/x.json`."""
    (folder / "q.asaql").write_text("SELECT * INTO o FROM i")
    for name, content in files.items():
        file = folder / f"{name.replace('__', '/')}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))
    return load_project(folder)


@pytest.mark.parametrize(
    ("config", "warning"),
    [
        (
            {"EventsLateArivalMaxDelayInSeconds": 5},
            f"did you mean '{LATE}'? (without it the late tolerance is unlimited)",
        ),
        ({"EventLateArrivalMaxDelayInSecond": 5}, f"did you mean '{LATE}'?"),
        ({"EventsOutOfOrderMaxDelay": 5}, "did you mean 'EventsOutOfOrderMaxDelayInSeconds'?"),
        ({"EventOutOfOrderPolicy": "Drop"}, "did you mean 'EventsOutOfOrderPolicy'?"),
        ({"Compatibility": "1.1"}, "did you mean 'CompatibilityLevel'?"),
        ({"StreamingUnit": 3}, "did you mean 'StreamingUnits'?"),
        ({"Colour": "red"}, f"known settings are {LATE}"),
        ({LATE: 5, "EventsLateArrivalMaxDelay": 7}, 'the key "EventsLateArrivalMaxDelay" is not known'),
    ],
)
def test_a_misspelt_key_of_the_settings_is_warned_of(tmp_path, config, warning):
    (said,) = project(tmp_path, JobConfig=config).warnings
    assert said.startswith("JobConfig.json: ")
    assert warning in said


@pytest.mark.parametrize(
    ("config", "where"),
    [
        ({"Settings": {LATE: 5}}, "Settings"),
        ({"GlobalStorage": {"AccountName": None, LATE: 5}}, "GlobalStorage"),
        ({"properties": {"policies": {LATE: 5}}}, "policies"),
        ({"Job": {"Time": {LATE.lower(): 5}}}, "Job.Time"),
        ({"Jobs": [{LATE: 5}]}, "Jobs"),
    ],
)
def test_a_setting_inside_another_object_is_warned_of(tmp_path, config, where):
    found = project(tmp_path, JobConfig=config)
    (said,) = found.warnings
    assert f'"{LATE}" stands inside "{where}", where it is not read' in said
    assert "(without it the late tolerance is unlimited)" in said
    assert found.settings.late_arrival_ticks is None


@pytest.mark.parametrize(
    "config",
    [
        {LATE: 5, "EventsOutOfOrderPolicy": "Drop"},
        {LATE.lower(): "5", "EVENTSOUTOFORDERPOLICY": "DROP"},
        {"eventsLateArrivalMaxDelayInSeconds": 5.0, "eventsOutOfOrderPolicy": "drop"},
        {"properties": {"eventsLateArrivalMaxDelayInSeconds": 5, "eventsOutOfOrderPolicy": "drop"}},
        {"Properties": {LATE: 7, "EventsOutOfOrderPolicy": "drop"}, LATE: 5},
    ],
)
def test_settings_are_known_in_any_case_and_under_properties(tmp_path, config):
    found = project(tmp_path, JobConfig={**config, "Tags": {LATE: "a tag of the user's"}})
    assert found.settings == JobSettings(late_arrival_ticks=50_000_000, policy="drop")
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("files", "warning"),
    [
        (
            {"Inputs__i": {"Name": "i", "Serialisation": {"Type": "Csv"}, "ScriptType": "Input"}},
            'Inputs/i.json: the key "Serialisation" is not known and not read; '
            "did you mean 'Serialization'?",
        ),
        (
            {
                "Inputs__i": {
                    "Name": "i",
                    "Serialization": {"Type": "Csv", "FieldDelimeter": ";"},
                    "ScriptType": "Input",
                }
            },
            "did you mean 'FieldDelimiter'?",
        ),
        (
            {
                "Inputs__Local_i": {
                    "FilePath": "i.json",
                    "ArrivalField": "at",
                    "Partition": "folders",
                    "ScriptType": "InputMock",
                },
                "Inputs__i": "[]",
            },
            "did you mean 'ArrivalTimeField'?",
        ),
        ({"Outputs__o": {"Nmae": "o", "ScriptType": "Output"}}, "did you mean 'Name'?"),
        ({"asaproj": {"startFile": "q.asaql", "configuration": []}}, "did you mean 'configurations'?"),
    ],
)
def test_a_misspelt_key_of_another_file_is_warned_of(tmp_path, files, warning):
    assert any(warning in said for said in project(tmp_path, **files).warnings)


def test_keys_of_the_service_that_are_not_read_are_no_matter(tmp_path):
    content = {"Name": "i", "DataSourceType": "Event Hub", "SomethingNew": {"a": 1}, "ScriptType": "Input"}
    assert project(tmp_path, Inputs__i=content).warnings == ()


def test_misspelt_keys_of_test_cases_are_warned_of(tmp_path):
    (tmp_path / "rows.json").write_text("[]")
    output = {"OutputAlias": "o", "FilePath": "rows.json", "IgnoredFields": ["id"]}
    case = {
        "Name": "a",
        "Inputs": [{"InputAlias": "i", "FilePath": "rows.json"}],
        "ExpectedOutputs": [output],
    }
    (tmp_path / "testConfig.json").write_text(json.dumps({"script": "", "testCases": [case]}))
    (said,) = load_test_config(tmp_path / "testConfig.json").warnings
    assert "did you mean 'IgnoreFields'?" in said


@pytest.mark.parametrize("required", [False, "false", "False"])
def test_an_output_that_is_not_required_may_say_so_as_text(tmp_path, required):
    (tmp_path / "rows.json").write_text("[]")
    output = {"OutputAlias": "o", "FilePath": "rows.json", "Required": required}
    case = {"Name": "a", "Inputs": [], "ExpectedOutputs": [output]}
    (tmp_path / "testConfig.json").write_text(json.dumps({"TestCases": [case]}))
    (case_,) = load_test_config(tmp_path / "testConfig.json").cases
    assert not case_.expected[0].required


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("../q.asaql", "q.asaql"),
        ("q.asaql", "q.asaql"),
        ("queries\\other.asaql", "queries/other.asaql"),
        ("C:\\Users\\someone\\tolls\\q.asaql", "q.asaql"),
        ("C:\\Users\\someone\\tolls\\gone.asaql", None),
        ("", None),
    ],
)
def test_the_script_of_test_cases_is_relative_to_the_file_or_the_project(tmp_path, script, found):
    for name in ("q.asaql", "queries/other.asaql"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("SELECT * INTO o FROM i")
    (tmp_path / "test").mkdir()
    path = tmp_path / "test" / "testConfig.json"
    path.write_text(json.dumps({"Script": script, "TestCases": []}))
    config = load_test_config(path, Bounds((tmp_path,)), tmp_path)
    assert (None if found is None else (tmp_path / found).resolve()) == (
        None if config.script is None else config.script.resolve()
    )
    assert len(config.warnings) == ("gone" in script)


def test_the_newer_form_of_an_input_stands_in_a_test_case_too(tmp_path):
    (tmp_path / "rows.csv").write_text("a;b\n1;2\n")
    given = {
        "Name": "i",
        "Type": "Data Stream",
        "DataSourceType": "Local Input",
        "Serialization": {"Type": "Csv", "FieldDelimiter": "semicolon"},
        "FilePath": "rows.csv",
    }
    case = {"Name": "a", "Inputs": [given], "ExpectedOutputs": []}
    (tmp_path / "testConfig.json").write_text(json.dumps({"TestCases": [case]}))
    (case_,) = load_test_config(tmp_path / "testConfig.json").cases
    assert (case_.inputs[0].name, case_.inputs[0].file_format, case_.inputs[0].delimiter) == ("i", "csv", ";")
