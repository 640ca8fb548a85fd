"""Damaged project folders: each is checked, or refused by its files; nothing beside it is read."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from fuzz.corpus import ROOT, projects, queries
from fuzz.mutation import EDGE_TEXTS, mutate_bytes, mutate_json, mutate_query, odd_value
from fuzz.trial import Trial, holds
from tideglass.bind.binder import bind
from tideglass.cli.check import known_inputs, summary
from tideglass.core.errors import ProjectError, TideglassError
from tideglass.lang.parser import parse
from tideglass.project.project import Project, load_project
from tideglass.project.test_cases import case_inputs, case_reference, case_settings, load_test_config

#: Keys that mean something in one of the files.
KEYS = Path(__file__).with_name("project_keys.txt").read_text(encoding="utf-8").split()
VALUES = [
    "InputMock", "Input", "Output", "JobConfig", "JSFunction", "CSharpFunction", "Data Stream", "Kafka",
    "Reference Data", "Event Hub", "Json", "Csv", "Parquet", "Avro", "../outside.json", "/etc/hostname",
    "..\\..\\outside.js", "folders", "Drop", "Adjust", "1.0", "9.9", "{date}/{time}.json", "semicolon",
    "epoch_seconds", "./", ".", "Inputs", "x.js",
]  # fmt: skip


def make(rng: Random) -> Trial:
    """A folder of the repository in which one to a few files are damaged."""
    files = dict(rng.choice(projects()))
    for _ in range(rng.choice([1, 1, 2, 3])):
        name = rng.choice(list(files))
        match rng.randrange(10):
            case 0:
                del files[name]
            case 1:
                files[
                    rng.choice(["asaproj.json", "x.asaql", "Inputs/x.json", "Functions/x.js", name + ".json"])
                ] = files[name]
            case 2:
                files[name] = (
                    b"\xef\xbb\xbf" + files[name]
                    if rng.random() < 0.5
                    else files[name].decode("latin-1").encode("utf-16")
                )
            case _:
                files[name] = _damaged(rng, name, files[name])
        if not files:
            return make(rng)
    return Trial("project", files, {})


def _damaged(rng: Random, name: str, content: bytes) -> bytes:
    if name.endswith(".asaql"):
        text = mutate_query(rng, content.decode("utf-8", "replace"), queries())
        return text.encode("utf-8", "surrogatepass")
    if name.endswith(".json") and rng.random() < 0.8:
        try:
            value = json.loads(content.decode("utf-8-sig"))
        except ValueError:
            return mutate_bytes(rng, content)
        value = mutate_json(rng, value, KEYS) if rng.random() < 0.6 else _other_text(rng, value)
        return json.dumps(value, indent=rng.choice([None, 1])).encode()
    return mutate_bytes(rng, content, [rng.choice(EDGE_TEXTS).encode("utf-8", "surrogatepass")])


def _other_text(rng: Random, value: Any) -> Any:
    """A word that means something in another place, in place of one of the texts."""
    if isinstance(value, dict) and value:
        key = rng.choice(list(value))
        return {**value, key: _other_text(rng, value[key])}
    if isinstance(value, list) and value:
        at = rng.randrange(len(value))
        return [*value[:at], _other_text(rng, value[at]), *value[at + 1 :]]
    return rng.choice(VALUES) if rng.random() < 0.8 else odd_value(rng)


# ---------------------------------------------------------------- checking


def check(trial: Trial) -> None:
    """Raises for any error that is not the project's own, and for a file read elsewhere."""
    with tempfile.TemporaryDirectory() as outer:
        folder = Path(outer) / "project"
        for name, content in trial.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        for beside in ("outside.json", "outside.js", "x.js"):
            (Path(outer) / beside).write_text("{}")
        with _opened() as opened:
            project = _check_project(folder)
            if project is not None:
                _check_tests(project)
        inside = folder.resolve()
        outside = [path for path in opened if not path.is_relative_to(inside)]
        holds(not outside, "a file outside of the project is read", outside)


def _check_project(folder: Path) -> Project | None:
    """What `tideglass check` does; the project, unless its files are refused."""
    try:
        project = load_project(folder)
    except ProjectError as error:
        _names_files(error, folder)
        return None
    try:
        bound = bind(
            parse(project.query),
            project.query,
            known_inputs(project),
            project.settings.compatibility_level,
            project.scripts,
        )
    except TideglassError as error:
        holds(str(error).strip(), "an error says nothing", type(error))
        return project
    for warning in bound.warnings:
        warning.render(project.query)
    summary(project, bound.plan)
    return project


def _check_tests(project: Project) -> None:
    """What `tideglass test` reads before it runs a query."""
    try:
        config = load_test_config(project.test_config, project.bounds)
        for case in config.cases:
            case_inputs(case)
            case_reference(case)
            case_settings(case, project.settings)
    except TideglassError as error:
        _names_files(error, project.folder)


def _names_files(error: TideglassError, folder: Path) -> None:
    """Every problem begins with a file: as seen from the project, or with its whole path."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    holds(lines, "an error says nothing", type(error))
    names = [str(folder), *(path.name for path in folder.rglob("*")), "testConfig.json"]
    # A start file that is not there, or is the folder itself ("."), is named as the project wrote it.
    problems = (": the file does not exist", ": is a folder where a file is expected")
    named = any(name in lines[0] for name in (*names, *problems))
    holds(named, "a problem of a project names no file", lines[0])


_watching: list[list[Path]] = []
_hooked: list[bool] = []


@contextmanager
def _opened() -> Iterator[list[Path]]:
    """The files that are opened within, but for those of Python and of the installed project."""
    if not _hooked:
        _hooked.append(True)
        sys.addaudithook(_heard)  # there is no way to take a hook back
    found: list[Path] = []
    _watching.append(found)
    try:
        yield found
    finally:
        _watching.pop()


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or not _watching or not isinstance(arguments[0], str):
        return
    if isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR):
        return
    if arguments[0] in sys.path:  # where Python looks for packages, and for what they declare
        return
    path = Path(os.path.realpath(arguments[0]))
    own = (
        ROOT / "tideglass",
        Path(sys.prefix).resolve(),
        Path(sys.base_prefix).resolve(),
        Path.home() / ".cache",
    )
    if not any(path.is_relative_to(each) for each in own) and "site-packages" not in path.parts:
        _watching[-1].append(path)
