"""A project reads and writes below its own folder, unless the command line says otherwise."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tideglass.cli.main import app, main
from tideglass.connect.files.output import FileOutput
from tideglass.connect.reference.files import FileReference
from tideglass.core.errors import InputError, ProjectError
from tideglass.job.directory import JobDirectory
from tideglass.job.options import RunOptions
from tideglass.job.plan import plan_job
from tideglass.job.start.begin import begin
from tideglass.project.project import load_project
from tideglass.project.test_cases import load_test_config
from tideglass.storage import storage_path

OUT_OF_INPUTS = "../../elsewhere/"
QUERY = "SELECT a INTO o FROM i"
SECRET = '{"a": "secret"}\n'


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder with a file of each kind, beside the project."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    for name in ("rows.json", "config.json"):
        (folder / name).write_text(SECRET)
    (folder / "q.asaql").write_text("SELECT secret FROM i")
    (folder / "f.js").write_text("function main() { return 'secret'; }")
    (folder / "q.sql").write_text("SELECT secret")
    (folder / "s.avsc").write_text('"secret"')
    return folder


def write(folder: Path, files: dict[str, object]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def mock(path: str, **more: str) -> dict[str, str]:
    kinds = {"Type": "Data Stream", "Format": "Json", "ScriptType": "InputMock"}
    return {"InputAlias": "i", "FilePath": path, **kinds, **more}


def project(tmp_path: Path, path: str = "data.json", **more: str) -> Path:
    files = {"q.asaql": QUERY, "Inputs/Local_i.json": mock(path, **more), "Inputs/data.json": SECRET}
    return write(tmp_path / "p", files)


def job_of(folder: Path, allow_outside: bool = False, **options: object):
    return plan_job(load_project(folder, allow_outside=allow_outside), RunOptions(once=True, **options))


# ---------------------------------------------------------------- inputs


WAYS_OUT = {
    "dots": lambda outside: "../../elsewhere/rows.json",
    "dots of Windows": lambda outside: "..\\..\\elsewhere\\rows.json",
    "dots in the middle": lambda outside: ".././Inputs/../../elsewhere/rows.json",
    "absolute": lambda outside: str(outside / "rows.json"),
    "absolute as on Windows": lambda outside: str(outside / "rows.json").replace("/", "\\"),
    "doubled separator": lambda outside: "/" + str(outside / "rows.json"),
    "a folder": lambda outside: "../../elsewhere",
    "the folder above": lambda outside: "../..",
    "another case": lambda outside: "../../ELSEWHERE/Rows.json",
    "what does not exist": lambda outside: "../../elsewhere/none.json",
}


@pytest.mark.parametrize("way", WAYS_OUT)
def test_a_path_that_leads_out_needs_a_word_on_the_command_line(tmp_path, outside, way):
    path = WAYS_OUT[way](outside)
    folder = project(tmp_path, path)
    loaded = load_project(folder)
    assert [note for note in loaded.unsupported if "lies outside of the project" in note]
    with pytest.raises(ProjectError, match=r"lies outside of the project.*--input i=PATH.*--allow-outside"):
        job_of(folder)
    named = job_of(folder, inputs={"i": outside / "rows.json"})
    assert named.inputs["i"].paths("0") == [storage_path(outside / "rows.json")]
    if "none" not in path:
        files = job_of(folder, allow_outside=True).inputs["i"].paths("0")
        assert any(file.resolve() == storage_path(outside / "rows.json") for file in files)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("file:///etc/hostname", "is a URL"),
        ("FILE:/etc/hostname", "is a URL"),
        ("https://example.org/a.json", "is a URL"),
        ("C:\\data\\a.json", "is a path of Windows"),
        ("c:a.json", "is a path of Windows"),
        ("~/a.json", "`~` and variables of the environment are not replaced"),
        ("~root/a.json", "`~` and variables of the environment are not replaced"),
        ("$HOME/a.json", "`~` and variables of the environment are not replaced"),
        ("${HOME}/a.json", "`~` and variables of the environment are not replaced"),
        ("%USERPROFILE%\\a.json", "`~` and variables of the environment are not replaced"),
        ("none.json", "does not exist"),
        ("a\0b.json", "NUL"),
        ("x" * 5000, "cannot be looked for"),
        ("\ud800.json", "cannot be looked for"),
    ],
)
def test_nothing_in_a_path_is_replaced(tmp_path, path, told):
    with pytest.raises(ProjectError) as caught:
        job_of(project(tmp_path, path))
    assert told in str(caught.value)


def test_a_path_of_a_network_is_outside(tmp_path):
    with pytest.raises(ProjectError, match="lies outside of the project"):
        job_of(project(tmp_path, "\\\\server\\share\\a.json"))


@pytest.mark.parametrize(
    "path", ["data.json", "../Inputs/data.json", "./../../p/Inputs/DATA.json", "", "absolute"]
)
def test_a_path_inside_may_be_written_in_any_way(tmp_path, path):
    inside = tmp_path / "p" / "Inputs" / "data.json"
    named = str(inside) if path == "absolute" else path or "data.json"
    source = job_of(project(tmp_path, named)).inputs["i"]
    assert source.paths("0")[0].resolve() == storage_path(inside)


@pytest.mark.parametrize("kind", ["file", "folder", "file in a folder", "folder of a partition", "circle"])
def test_a_link_that_leads_out_is_not_followed(tmp_path, outside, kind):
    partitions = {"Partitions": "folders"} if kind == "folder of a partition" else {}
    folder = project(tmp_path, "link" if "in a" not in kind and not partitions else "many", **partitions)
    link = folder / "Inputs" / ("many/link" if "in a" in kind or partitions else "link")
    link.parent.mkdir(exist_ok=True)
    target = {"file": outside / "rows.json", "file in a folder": outside / "rows.json", "circle": link}
    link.symlink_to(target.get(kind, outside))

    def files(allow_outside: bool) -> list[Path]:
        found = job_of(folder, allow_outside).inputs["i"]
        return [path for name in found.partitions() for path in found.paths(name)]

    with pytest.raises(
        (ProjectError, InputError), match=r"(outside|out) of the project|looked for|does not exist"
    ):
        files(False)
    if kind != "circle":
        assert files(True)


def test_a_link_that_stays_inside_is_followed(tmp_path):
    folder = project(tmp_path, "link.json")
    (folder / "Inputs" / "link.json").symlink_to("data.json")
    assert job_of(folder).inputs["i"].paths("0")


def test_a_project_behind_a_link_is_inside_of_itself(tmp_path):
    folder = project(tmp_path)
    (tmp_path / "link").symlink_to(folder)
    assert job_of(tmp_path / "link").inputs["i"].paths("0")
    (tmp_path / "q2.asaql").symlink_to(folder / "q.asaql")
    assert load_project(tmp_path / "q2.asaql").query.text == QUERY


def test_bounds_are_no_part_of_what_a_job_is(tmp_path):
    spec = job_of(project(tmp_path)).inputs["i"].spec
    assert "bounds" not in spec.model_dump()
    assert '"bounds"' not in spec.model_dump_json()


# ---------------------------------------------------------------- reference data


@pytest.mark.parametrize(
    "path", ["../../elsewhere/rows.json", "../../elsewhere/{date}.json", "/{date}/r.json"]
)
def test_reference_data_outside_needs_a_word_too(tmp_path, outside, path):
    (outside / "2026-01-01.json").write_text(SECRET)
    folder = project(tmp_path)
    kind = {"Type": "Reference Data", "InputAlias": "r", "DateFormat": "YYYY-MM-DD"}
    write(folder, {"q.asaql": "SELECT r.a FROM i JOIN r ON i.a = r.a"})
    write(folder, {"Inputs/Local_r.json": mock(path) | kind})
    with pytest.raises(ProjectError, match=r"reads .* lies outside of the project.*--input r=PATH"):
        job_of(folder)
    assert job_of(folder, inputs={"r": outside / "rows.json"}).references["r"].path
    if path.startswith(".."):
        reference = FileReference(job_of(folder, allow_outside=True).references["r"])
        assert reference.look([], None)


def test_a_snapshot_that_is_a_link_to_elsewhere_is_not_read(tmp_path, outside):
    folder = project(tmp_path)
    kind = {"Type": "Reference Data", "InputAlias": "r", "DateFormat": "YYYY-MM-DD"}
    write(folder, {"q.asaql": "SELECT r.a FROM i JOIN r ON i.a = r.a"})
    write(folder, {"Inputs/Local_r.json": mock("{date}.json") | kind})
    (folder / "Inputs" / "2026-01-01.json").symlink_to(outside / "rows.json")
    with pytest.raises(InputError, match="leads out of the project"):
        FileReference(job_of(folder).references["r"]).look([], None)


# ---------------------------------------------------------------- what a project is made of


OUT = "../elsewhere/"
MADE_OF = {
    "startFile": {"asaproj.json": {"startFile": OUT + "q.asaql", "configurations": []}},
    "a configuration": {
        "asaproj.json": {
            "startFile": "q.asaql",
            "configurations": [{"filePath": OUT + "config.json", "subType": "Input"}],
        }
    },
    "a script": {
        "Functions/f.json": {"Name": "f", "FilePath": "../" + OUT + "f.js", "ScriptType": "JSFunction"}
    },
    "a query of a database": {
        "Inputs/Local_r.json": mock("data.json", Type="Reference Data", ConnectionString="postgresql:x")
        | {"InputAlias": "r", "SnapshotPath": "../" + OUT + "q.sql"}
    },
    "a schema": {
        "Inputs/t.json": {
            "Name": "t",
            "DataSourceType": "Kafka",
            "KafkaProperties": {"BootstrapServers": "b:1", "Topic": "t"},
            "Serialization": {"Type": "Avro", "SchemaFile": "../" + OUT + "s.avsc"},
            "ScriptType": "Input",
        }
    },
}


@pytest.mark.parametrize("what", MADE_OF)
def test_what_a_project_is_made_of_lies_inside(tmp_path, outside, what):
    folder = write(project(tmp_path), MADE_OF[what])
    with pytest.raises(ProjectError, match=r"lies outside of the project.*--allow-outside") as caught:
        load_project(folder)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["asaproj.json", "JobConfig.json", "Functions/f.js", "q.asaql"])
def test_a_file_of_a_project_is_no_link_to_elsewhere(tmp_path, outside, name):
    folder = project(tmp_path)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).unlink(missing_ok=True)
    target = outside / {".asaql": "q.asaql", ".js": "f.js"}.get(Path(name).suffix, "config.json")
    (folder / name).symlink_to(target)
    with pytest.raises(ProjectError, match="lies outside of the project") as caught:
        load_project(folder)
    assert "secret" not in str(caught.value)


def test_a_link_among_the_inputs_is_named_and_not_read(tmp_path, outside):
    folder = project(tmp_path)
    write(outside, {"config.json": mock("data.json") | {"InputAlias": "j"}})
    (folder / "Inputs" / "x.json").symlink_to(outside / "config.json")
    loaded = load_project(folder)
    assert set(loaded.inputs) == {"i"}
    assert [
        note for note in loaded.unsupported if note.startswith("Inputs/x.json: lies outside of the project")
    ]
    assert set(load_project(folder, allow_outside=True).inputs) == {"i", "j"}


# ---------------------------------------------------------------- test cases


def test_test_cases_stay_inside(tmp_path, outside):
    folder = project(tmp_path)
    case = {
        "Name": "c",
        "Inputs": [mock("../../elsewhere/rows.json")],
        "ExpectedOutputs": [{"OutputAlias": "o", "FilePath": "../../elsewhere/rows.json"}],
    }
    config = {"Script": "../../elsewhere/q.asaql", "TestCases": [case]}
    write(folder, {"test/testConfig.json": config})
    loaded = load_project(folder)
    with pytest.raises(ProjectError) as caught:
        load_test_config(loaded.test_config, loaded.bounds)
    lines = str(caught.value).splitlines()
    assert len(lines) == 3
    assert all("lies outside of the project" in line for line in lines)
    allowed = load_project(folder, allow_outside=True)
    assert load_test_config(allowed.test_config, allowed.bounds).cases
    done = CliRunner().invoke(app, ["test", str(folder)])
    assert isinstance(done.exception, ProjectError)


def test_test_cases_that_are_named_may_use_what_lies_beside_them(tmp_path, outside):
    folder = project(tmp_path)
    expected = {"OutputAlias": "o", "FilePath": "rows.json"}
    case = {"Name": "c", "Inputs": [mock("rows.json")], "ExpectedOutputs": [expected]}
    write(outside, {"cases.json": {"TestCases": [case]}})
    done = CliRunner().invoke(app, ["test", str(folder), "--config", str(outside / "cases.json")])
    assert "1 of 1 passed" in done.output, done.exception
    assert (outside / "testResultSummary.json").exists()


def test_the_summary_of_test_cases_does_not_follow_a_link_out(tmp_path, outside):
    folder = project(tmp_path)
    case = {"Name": "c", "Inputs": [mock("../Inputs/data.json")], "ExpectedOutputs": []}
    write(folder, {"test/testConfig.json": {"TestCases": [case]}})
    (folder / "test" / "testResultSummary.json").symlink_to(outside / "rows.json")
    done = CliRunner().invoke(app, ["test", str(folder)])
    assert "leads out of the project" in str(done.exception)
    assert (outside / "rows.json").read_text() == SECRET


# ---------------------------------------------------------------- outputs


NAMES = [
    "../../evil",
    "/abs",
    "..",
    ".",
    "a/b",
    "a\\b",
    "C:\\evil",
    "~",
    "con",
    "x" * 300,
    "%2e",
    "_staging",
]


@pytest.mark.parametrize("name", NAMES)
def test_the_name_of_an_output_is_no_path(tmp_path, name):
    folder = write(project(tmp_path), {"q.asaql": f"SELECT a INTO [{name}] FROM i"})
    (spec,) = job_of(folder).outputs.values()
    assert isinstance(spec, FileOutput)
    assert spec.path.parent == storage_path(folder.resolve() / "LocalRunOutputs")


def test_names_of_outputs_lead_to_folders_of_their_own(tmp_path):
    query = "\n".join(f"SELECT a INTO [{name}] FROM i" for name in NAMES)
    outputs = job_of(write(project(tmp_path), {"q.asaql": query})).outputs
    assert len({output.own_folder() for output in outputs.values()}) == len(NAMES)


@pytest.mark.parametrize("link", ["LocalRunOutputs", "LocalRunOutputs/o"])
def test_rows_do_not_follow_a_link_out(tmp_path, outside, link):
    folder = project(tmp_path)
    (folder / link).parent.mkdir(exist_ok=True)
    (folder / link).symlink_to(outside)
    with pytest.raises(ProjectError, match=r"leads out of the project\n.*--output o=PATH"):
        job_of(folder)
    assert job_of(folder, outputs={"o": str(tmp_path / "rows")}).outputs["o"]
    assert job_of(folder, allow_outside=True).outputs["o"]


def test_staging_that_is_a_link_loses_the_link_and_no_file(tmp_path, outside):
    folder = tmp_path / "o"
    folder.mkdir()
    (folder / "_staging").symlink_to(outside)
    FileOutput("o", folder).clear(rows=True)
    assert not os.path.lexists(folder / "_staging")
    assert (outside / "rows.json").exists()


def test_the_directory_of_a_job_does_not_follow_a_link_out(tmp_path, outside):
    folder = project(tmp_path)
    (folder / ".tideglass").symlink_to(outside)
    with pytest.raises(ProjectError, match=r"leads out of the project\n.*--run-dir"):
        job_of(folder)
    assert JobDirectory.of_project(folder, tmp_path / "run").path.local == tmp_path / "run"


def test_two_outputs_do_not_share_a_folder(tmp_path):
    folder = write(project(tmp_path), {"q.asaql": "SELECT a INTO o FROM i SELECT a INTO p FROM i"})
    both = {"o": str(tmp_path / "x"), "p": str(tmp_path / "y" / ".." / "x")}
    with pytest.raises(ProjectError, match="'o' and 'p' are both written to"):
        job_of(folder, outputs=both)


# ---------------------------------------------------------------- the command line


@pytest.mark.parametrize("command", ["check", "explain", "test", "simulate", "estimate"])
def test_a_command_takes_the_word_and_needs_it(tmp_path, outside, capsys, command):
    folder = project(tmp_path)
    write(folder, MADE_OF["a script"])
    case = {"Name": "c", "Inputs": [mock("../Inputs/data.json")], "ExpectedOutputs": []}
    write(folder, {"test/testConfig.json": {"TestCases": [case]}})
    with pytest.raises(SystemExit) as caught:
        main([command, str(folder)])
    assert caught.value.code == 1
    assert "--allow-outside" in capsys.readouterr().err
    with pytest.raises(SystemExit) as caught:
        main([command, str(folder), "--allow-outside"])
    assert caught.value.code == 0, capsys.readouterr().err


def test_a_start_of_a_job_writes_nothing_outside(tmp_path):
    folder = write(
        project(tmp_path), {"q.asaql": "SELECT a INTO [../../evil] FROM i SELECT a INTO [/evil] FROM i"}
    )
    job = job_of(folder)
    begin(job, JobDirectory(job.run_directory), lambda topic, from_ms: {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p"]
