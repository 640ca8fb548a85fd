"""Reading ASA project folders (asa.md 10.1)."""

import json
from pathlib import Path

import pytest

from tideglass.bind.catalog import metadata_in
from tideglass.core.errors import ProjectError
from tideglass.core.types import ARRIVAL, PARTITION, Type
from tideglass.job.options import RunOptions
from tideglass.job.plan import plan_job
from tideglass.plan.expressions import Call, Cast, Ref
from tideglass.plan.expressions import Path as FieldPath
from tideglass.project.file_reader import project_path
from tideglass.project.project import load_project

BOM = "\ufeff"


def write(folder: Path, files: dict[str, object]) -> Path:
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return folder


def local(name: str, path: str, **more: object) -> dict[str, object]:
    return {
        "InputAlias": name,
        "Type": "Data Stream",
        "Format": "Json",
        "FilePath": path,
        "ScriptType": "InputMock",
        **more,
    }


def live(name: str, kind: str = "Data Stream", source: str = "Event Hub") -> dict[str, object]:
    return {
        "Name": name,
        "Type": kind,
        "DataSourceType": source,
        "EventHubProperties": {"EventHubName": "h"},
        "Serialization": {"Type": "Csv", "Encoding": "UTF8", "FieldDelimiter": "semicolon"},
        "CompresssionType": "None",
        "ScriptType": "Input",
    }


@pytest.fixture
def files() -> dict[str, object]:
    """A whole project, written as the tools on Windows write it."""
    return {
        "asaproj.json": BOM
        + json.dumps(
            {
                "name": "Tolls",
                "startFile": "toll.asaql",
                "configurations": [
                    {"filePath": "JobConfig.json", "subType": "JobConfig"},
                    {"filePath": "Inputs\\entry.json", "subType": "Input"},
                    {"filePath": "Inputs\\exit.json", "subType": "Input"},
                    {"filePath": "Inputs\\Local_entry.json", "subType": "InputMock"},
                    {"filePath": "Outputs\\alerts.json", "subType": "Output"},
                    {"filePath": "Functions\\twice.js.json", "subType": "JSFunction"},
                ],
            }
        ),
        "toll.asaql": BOM + "SELECT * INTO alerts FROM entry",
        "JobConfig.json": {
            "EventsLateArrivalMaxDelayInSeconds": 5,
            "EventsOutOfOrderPolicy": "Drop",
            "OutputErrorPolicy": "Retry",
            "CompatibilityLevel": "1.1",
            "StreamingUnits": 3,
            "ScriptType": "JobConfig",
        },
        "Inputs/entry.json": live("entry"),
        "Inputs/exit.json": live("exit"),
        "Inputs/Local_entry.json": local("entry", "..\\Data\\entry.json"),
        "Data/Entry.json": "[]",
        "Outputs/alerts.json": {
            "Name": "alerts",
            "DataSourceType": "Power BI",
            "PowellBIProperties": {},
            "Serialization": None,
            "ScriptType": "Output",
        },
        "Functions/twice.js.json": {"Name": "twice", "Type": "Scalar", "ScriptType": "JSFunction"},
        "Functions/twice.js": "function main(x) { return 2 * x; }",
    }


def test_a_project_written_on_windows_is_read_whole(tmp_path, files):
    project = load_project(write(tmp_path, files))
    assert project.name == "Tolls"
    assert project.query.text == "SELECT * INTO alerts FROM entry"
    assert project.query.name == "toll.asaql"
    assert (project.settings.policy, project.settings.compatibility_level) == ("drop", "1.1")
    assert project.settings.late_arrival_ticks == 50_000_000
    assert project.settings.output_error_policy == "stop"
    assert project.inputs["entry"].origin == "local file"
    assert project.inputs["entry"].path == tmp_path / "Inputs" / ".." / "Data" / "Entry.json"
    assert project.outputs["alerts"].origin == "Power BI"
    assert project.functions["twice"].script.startswith("function main")
    assert not project.functions["twice"].aggregate


def test_a_live_input_is_understood_and_has_no_path(tmp_path, files):
    project = load_project(write(tmp_path, files))
    exit_ = project.inputs["exit"]
    assert (exit_.path, exit_.origin, exit_.file_format, exit_.delimiter) == (None, "Event Hub", "csv", ";")


def test_an_unsupported_output_is_named_with_the_remedy(tmp_path, files):
    project = load_project(write(tmp_path, files))
    assert any(
        note.startswith("Outputs/alerts.json: writing to Power BI is not supported, as Microsoft retires")
        and "--output alerts=PATH" in note
        for note in project.unsupported
    )


def test_a_csharp_function_is_named_as_not_yet_supported(tmp_path, files):
    files["Functions/twice.js.json"] = {"Name": "twice", "AssemblyName": "A", "ScriptType": "CSharpFunction"}
    files["asaproj.json"] = str(files["asaproj.json"]).replace("JSFunction", "CSharpFunction")
    project = load_project(write(tmp_path, files))
    assert not project.functions
    assert any("C# functions are understood, not yet supported" in note for note in project.unsupported)


def test_all_problems_are_reported_at_once_each_with_its_file(tmp_path, files):
    del files["Data/Entry.json"]
    files["JobConfig.json"] = {
        "EventsOutOfOrderMaxDelayInSeconds": 600,
        "EventsLateArrivalMaxDelayInSeconds": "soon",
    }
    files["Inputs/exit.json"] = '{"Name": "exit",\n  oops}'
    files["Outputs/alerts.json"] = "[]"
    del files["toll.asaql"]
    with pytest.raises(ProjectError) as caught:
        load_project(write(tmp_path, files))
    lines = str(caught.value).splitlines()
    assert len(lines) == 5
    assert any("Inputs/exit.json: line 2, column 3: not JSON" in line for line in lines)
    assert any("JobConfig.json: EventsOutOfOrderMaxDelayInSeconds is 600" in line for line in lines)
    assert any("JobConfig.json: EventsLateArrivalMaxDelayInSeconds is 'soon'" in line for line in lines)
    assert any("Outputs/alerts.json: holds an array" in line for line in lines)
    assert any("toll.asaql: the file does not exist" in line for line in lines)


def test_our_own_keys_of_a_local_input_say_arrival_and_partitions(tmp_path, files):
    files["Inputs/Local_entry.json"] = local(
        "entry", "../Data", ArrivalTimeField="enqueued", Partitions="folders", Format="Parquet"
    )
    entry = load_project(write(tmp_path, files)).inputs["entry"]
    assert (entry.arrival, entry.partitions, entry.file_format) == ("enqueued", "folders", "parquet")
    assert entry.metadata(live=False) == metadata_in(ARRIVAL, PARTITION)


def test_only_metadata_that_files_record_stand_before_fields_of_their_events(tmp_path, files):
    files["toll.asaql"] = "SELECT PartitionId AS p, EventEnqueuedUtcTime AS e INTO alerts FROM entry"
    folder = write(tmp_path, files)
    assert [item.expr for item in selected(folder)] == [
        Call("coalesce", (FieldPath(Ref("$payload"), (name,)), Ref(column)))
        for name, column in (("PartitionId", "$partition"), ("EventEnqueuedUtcTime", "$arrival"))
    ]
    mock = local("entry", "../Data", ArrivalTimeField="enqueued", Partitions="folders")
    (folder / "Inputs" / "Local_entry.json").write_text(json.dumps(mock))
    assert [item.expr for item in selected(folder)] == [Ref("$partition"), Ref("$arrival")]


def test_recorded_files_give_the_metadata_in_their_events(tmp_path, files):
    files["toll.asaql"] = (
        "SELECT GetMetadataPropertyValue(entry, '[EventHub].[PartitionId]') AS p, "
        "GetMetadataPropertyValue(entry, 'IoTHub.EnqueuedTime') AS e INTO alerts FROM entry"
    )
    folder = write(tmp_path, files)
    payload, arrival, partition = Ref("$payload"), Ref("$arrival"), Ref("$partition")

    def recorded(type_, *keys):
        return Cast(FieldPath(payload, keys), type_, True)

    assert [item.expr for item in selected(folder)] == [
        Call(
            "coalesce",
            (
                recorded(Type.BIGINT, "EventHub", "PartitionId"),
                Call("coalesce", (recorded(Type.BIGINT, "PartitionId"), partition)),
            ),
        ),
        Call(
            "coalesce",
            (
                recorded(Type.DATETIME, "IoTHub", "EnqueuedTime"),
                Call("coalesce", (recorded(Type.DATETIME, "EventEnqueuedUtcTime"), arrival)),
            ),
        ),
    ]
    mock = local("entry", "../Data", ArrivalTimeField="enqueued", Partitions="folders")
    (folder / "Inputs" / "Local_entry.json").write_text(json.dumps(mock))
    assert [item.expr for item in selected(folder)] == [partition, arrival]


def selected(folder):
    (output,) = plan_job(load_project(folder), RunOptions(once=True)).compiled.plan.outputs
    return output.node.items


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"Format": "Xml"}, "the format 'Xml' is not known"),
        ({"Rotation": "daily"}, "\"Rotation\" is 'daily', it must be one of none, rename, copytruncate"),
        ({"Partitions": "many"}, '"Partitions" is \'many\', it must be "one" or "folders"'),
        ({"FieldDelimiter": "::"}, "\"FieldDelimiter\" is '::'"),
        ({"FilePath": 7}, '"FilePath" is a number where a text is expected'),
        ({"InputAlias": 7}, '"InputAlias" is a number where a text is expected'),
        ({"ArrivalTimeFormat": "unix"}, "\"ArrivalTimeFormat\" is 'unix'"),
    ],
)
def test_a_bad_key_of_a_local_input_is_reported(tmp_path, files, change, message):
    files["Inputs/Local_entry.json"] = {**local("entry", "../Data/Entry.json"), **change}
    with pytest.raises(ProjectError) as caught:
        load_project(write(tmp_path, files))
    assert message in str(caught.value)


def test_two_files_for_one_local_input_are_an_error(tmp_path, files):
    files["Inputs/Local_again.json"] = local("entry", "../Data/Entry.json")
    files["asaproj.json"] = str(files["asaproj.json"]).replace(
        '{"filePath": "Inputs\\\\exit.json", "subType": "Input"}',
        '{"filePath": "Inputs\\\\Local_again.json", "subType": "InputMock"}',
    )
    with pytest.raises(ProjectError, match="another file already defines the local input 'entry'"):
        load_project(write(tmp_path, files))


def test_a_file_not_listed_is_not_read_and_said_so(tmp_path, files):
    files["Inputs/stray.json"] = live("stray")
    project = load_project(write(tmp_path, files))
    assert "stray" not in project.inputs
    assert "Inputs/stray.json: lies in the project and is not listed in asaproj.json" in "\n".join(
        project.unsupported
    )


def test_data_beside_the_inputs_is_no_configuration(tmp_path, files):
    files["Inputs/data.json"] = '{"a": 1}\n{"a": 2}\n'
    assert not any("data.json" in note for note in load_project(write(tmp_path, files)).unsupported)


def test_a_folder_without_a_manifest_is_read_by_its_layout(tmp_path, files):
    del files["asaproj.json"]
    project = load_project(write(tmp_path, files))
    assert set(project.inputs) == {"entry", "exit"}
    assert project.inputs["entry"].origin == "local file"
    assert set(project.functions) == {"twice"}
    assert project.settings.policy == "drop"


def test_a_damaged_file_is_reported_without_a_manifest_too(tmp_path, files):
    del files["asaproj.json"]
    files["Inputs/Local_entry.json"] = '{"ScriptType": "InputMock", "InputAlias": }'
    with pytest.raises(ProjectError, match=r"Inputs/Local_entry\.json: line 1"):
        load_project(write(tmp_path, files))


def test_a_query_file_alone_is_a_project(tmp_path):
    (tmp_path / "q.asaql").write_text("SELECT 1 FROM a")
    (tmp_path / "other.asaql").write_text("")
    assert load_project(tmp_path / "q.asaql").query.text == "SELECT 1 FROM a"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere", "no such file or folder"),
        ("old.asaproj", r"old\.asaproj: names no <StartFile>, and not exactly one <Script> \(none\)"),
        ("broken.asaproj", r"broken\.asaproj: not XML, which a project of Visual Studio is"),
        ("page.asaproj", "holds <html> where the <Project> of Visual Studio is expected"),
        ("", r"several projects of Visual Studio \(broken\.asaproj, old\.asaproj, page\.asaproj\)"),
        ("empty", "no asaproj.json, and not exactly one .asaql file"),
    ],
)
def test_what_is_no_project_is_refused_with_a_remedy(tmp_path, name, message):
    (tmp_path / "empty").mkdir()
    (tmp_path / "old.asaproj").write_text("<Project/>")
    (tmp_path / "broken.asaproj").write_text("<Project>")
    (tmp_path / "page.asaproj").write_text("<html/>")
    with pytest.raises(ProjectError, match=message):
        load_project(tmp_path / name)


@pytest.mark.parametrize(
    "manifest", ["", "[]", "null", '{"configurations": 3}', '{"startFile": {}}', "\x00\xff"]
)
def test_a_broken_manifest_is_reported_as_a_project_error(tmp_path, manifest):
    (tmp_path / "asaproj.json").write_text(manifest, encoding="latin-1")
    with pytest.raises(ProjectError, match=r"asaproj\.json"):
        load_project(tmp_path)


AGGREGATE = "function main() { this.accumulate = function (v, t) {}; this.computeResult = function () {}; }"


def test_an_aggregate_is_known_by_its_methods(tmp_path, files):
    files["Functions/twice.js"] = AGGREGATE
    project = load_project(write(tmp_path, files))
    assert project.functions["twice"].called == "uda.twice"
    assert project.scripts == {"twice": AGGREGATE}


def test_a_function_of_type_aggregate_must_have_the_methods_of_one(tmp_path, files):
    files["Functions/sum.js.json"] = '{"Name": "sum", "Type": "Aggregate", "ScriptType": "JSFunction"}'
    files["Functions/sum.js"] = "function main(x) { return x; }"
    files.pop("asaproj.json")
    with pytest.raises(ProjectError, match="its Type is Aggregate, but its script has no main with init"):
        load_project(write(tmp_path, files))
    (tmp_path / "Functions" / "sum.js").write_text(AGGREGATE)
    assert load_project(tmp_path).functions["sum"].called == "uda.sum"


def test_a_windows_path_finds_a_file_whose_name_differs_in_case(tmp_path):
    write(tmp_path, {"Data/Entry.JSON": "[]"})
    assert project_path(tmp_path, "data\\entry.json") == tmp_path / "Data" / "Entry.JSON"
    assert project_path(tmp_path, "data\\none.json") == tmp_path / "data" / "none.json"
