"""Projects as they are found: folders of every shape the service's tools write, checked and run to rows.

`tests/fixtures/projects/NAME` is a project, `NAME.json` beside it says what becomes of it: its rows, the
`--input` it needs, and a piece of each note and warning. Nothing else may be said.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support.local_run import rows_of_job
from tideglass.cli.main import main
from tideglass.job.options import RunOptions
from tideglass.job.plan import plan_job
from tideglass.project.input_option import input_options
from tideglass.project.project import load_project

PROJECTS = Path(__file__).parent.parent / "fixtures" / "projects"
FOUND = sorted(path.stem for path in PROJECTS.glob("*.json"))


def expected(name: str) -> dict[str, object]:
    return json.loads((PROJECTS / f"{name}.json").read_text(encoding="utf-8"))


def test_there_are_projects_of_many_shapes():
    assert len(FOUND) >= 12
    assert sorted(path.name for path in PROJECTS.iterdir() if path.is_dir()) == FOUND


@pytest.mark.parametrize("name", FOUND)
def test_a_project_as_it_is_found_runs_to_its_rows(name, monkeypatch):
    monkeypatch.chdir(PROJECTS / name)
    wanted = expected(name)
    project = load_project(Path())
    assert project.name == wanted.get("name", project.name)
    settings = project.settings
    given = wanted.get("settings", {})
    assert {key: getattr(settings, key) for key in given} == given
    options = RunOptions(inputs=input_options(wanted.get("inputs")), once=True, key_groups=2)
    job = plan_job(project, options)
    assert rows_of_job(job) == wanted["rows"]
    assert job.warnings == ()


@pytest.mark.parametrize("name", FOUND)
def test_nothing_else_is_said_of_a_project_as_it_is_found(name):
    project = load_project(PROJECTS / name)
    for said, pieces in (
        (project.unsupported, expected(name).get("notes", [])),
        (project.warnings, expected(name).get("warnings", [])),
    ):
        assert len(said) == len(pieces), said
        for piece in pieces:
            assert sum(piece in text for text in said) == 1, said


@pytest.mark.parametrize("name", FOUND)
def test_check_finds_no_errors_in_a_project_as_it_is_found(name, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["check", os.fspath(PROJECTS / name)])
    assert ended.value.code == 0
    assert "no errors" in capsys.readouterr().out


def test_a_project_of_visual_studio_may_be_named_by_its_file():
    folder = PROJECTS / "visual_studio"
    named, found = load_project(folder / "Tolls.asaproj"), load_project(folder)
    assert (named.name, named.query, named.settings) == (found.name, found.query, found.settings)
    assert (named.inputs.keys(), named.scripts) == (found.inputs.keys(), found.scripts)
