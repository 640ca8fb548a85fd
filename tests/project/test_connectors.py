"""Types of inputs and outputs that other packages add: found by name, and told of by the package's name."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tideglass.connect.output import Batch, OutputConnector
from tideglass.core.errors import ProjectError
from tideglass.job.options import RunOptions
from tideglass.job.plan import plan_job
from tideglass.project.project import Project, load_project

MODULE = """
from dataclasses import dataclass
from tideglass.connect.output import OutputConnector
from tideglass.core.errors import ProjectError

@dataclass(frozen=True)
class Log(OutputConnector):
    name: str
    path: str

    def publish(self, batch, staged):
        return ()

    def identity(self, directory):
        return {"log": self.path}

    def describe(self):
        return self.path

def log(described):
    own = described.properties("Path", "Level")
    if own.choice("Level", ("all", "some")) == "some":
        raise ProjectError("some is not all")
    return Log(described.name, own.text("Path"))

def failing(described):
    return described.nothing
"""


def package(folder: Path, name: str, *entries: str, group: str = "tideglass.outputs") -> None:
    """A package as pip leaves it."""
    info = folder / f"{name}-2.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n" + "\n".join(entries))


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where packages of the test are."""
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "log_of_rows.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))
    monkeypatch.delitem(sys.modules, "log_of_rows", raising=False)
    return tmp_path / "packages"


def project(folder: Path, type_: str = "Append Log", **own: object) -> Path:
    """A project whose one output is of a type."""
    folder = folder / "project"
    (folder / "Outputs").mkdir(parents=True)
    (folder / "job.asaql").write_text("SELECT a INTO o FROM i")
    (folder / "i.json").write_text('{"a": 1}')
    key = f"{type_.replace(' ', '')}Properties"
    output = {"Name": "o", "DataSourceType": type_, key: own, "ScriptType": "Output"}
    (folder / "Outputs" / "o.json").write_text(json.dumps(output))
    return folder


def output_of(loaded: Project, *, live: bool = True) -> OutputConnector:
    return plan_job(loaded, RunOptions(inputs={"i": loaded.folder / "i.json"}, live=live)).outputs["o"]


@pytest.mark.parametrize("spelled", ["Append Log", "append log"])
def test_an_output_of_an_installed_package_takes_the_rows_of_a_live_run(
    installed: Path, tmp_path: Path, spelled: str
) -> None:
    package(installed, "logs", "Append Log = log_of_rows:log")
    loaded = load_project(project(tmp_path, spelled, Path="x"))
    assert not loaded.unsupported
    assert not loaded.warnings
    output = output_of(loaded)
    assert (output.describe(), output.publish(Batch(1, 0), [])) == ("x", ())
    assert output_of(loaded, live=False).describe().endswith("LocalRunOutputs/o"), "files stand in"


def test_a_type_nobody_has_is_not_yet_supported_and_files_stand_in(installed: Path, tmp_path: Path) -> None:
    package(installed, "logs", "Append Log = log_of_rows:log", group="tideglass.inputs")
    loaded = load_project(project(tmp_path, Path="x"))
    assert "writing to Append Log is understood, not yet supported" in loaded.unsupported[0]


@pytest.mark.parametrize(
    ("entry", "own", "told"),
    [
        ("log_of_rows:log", {}, 'Outputs/o.json: "Path" is missing'),
        ("log_of_rows:log", {"Path": "x", "Pfad": 1}, "\"AppendLogProperties\" holds 'Pfad'"),
        (
            "log_of_rows:log",
            {"Path": "x", "Level": "none"},
            "\"Level\" is 'none', it must be one of all, some",
        ),
        ("log_of_rows:log", {"Path": "x", "Level": "some"}, "Outputs/o.json: some is not all"),
        (
            "log_of_rows:gone",
            {"Path": "x"},
            "the output type 'Append Log' of the package logs 2.0 cannot be loaded from log_of_rows:gone: "
            "AttributeError",
        ),
        ("no_such_module:log", {"Path": "x"}, "package logs 2.0 cannot be loaded from no_such_module:log"),
        ("log_of_rows:failing", {"Path": "x"}, "of the package logs 2.0 has failed: AttributeError"),
    ],
)
def test_what_is_wrong_is_told_with_the_file_and_the_package(
    installed: Path, tmp_path: Path, entry: str, own: dict[str, object], told: str
) -> None:
    package(installed, "logs", f"Append Log = {entry}")
    with pytest.raises(ProjectError) as refused:
        load_project(project(tmp_path, **own))
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("type_", "others"),
    [("Append Log", "more 2.0 and logs 2.0|logs 2.0 and more 2.0"), ("Kafka", "tideglass and logs")],
)
def test_a_type_two_have_is_refused_with_both_names(
    installed: Path, tmp_path: Path, type_: str, others: str
) -> None:
    package(installed, "logs", f"{type_} = log_of_rows:log")
    if type_ != "Kafka":
        package(installed, "more", f"{type_} = log_of_rows:log")
    with pytest.raises(ProjectError, match=rf"is declared by ({others}).*uninstall one"):
        load_project(project(tmp_path, type_, Path="x"))
