"""An ASA project folder, read as it is (`asa.md` 10.1): query, job settings, inputs, outputs, functions.

A project is usable or it is not: everything that keeps it from being used is reported at once, each
with its file and a remedy. What is understood and not supported here, or lies in the folder unread,
is listed in `Project.unsupported`; the project can be used without it. What is likely not meant as it is
written, such as a misspelt setting, is in `Project.warnings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from tideglass.core.bounds import ANYWHERE, Bounds
from tideglass.core.errors import ProjectError, Source
from tideglass.project.file_reader import Problems, read_object, read_text
from tideglass.project.inputs import ProjectInput, read_input
from tideglass.project.keys import warn_of_job_config
from tideglass.project.listing import list_project, project_entry, unlisted
from tideglass.project.outputs import ProjectOutput, read_output
from tideglass.project.rest_spelling import tool_output
from tideglass.project.settings import JobSettings, from_job_config
from tideglass.project.user_functions import ProjectFunction, note_code_files, read_function


@dataclass(frozen=True, slots=True)
class Project:
    """What a project folder holds; names are spelled as in the files.

    name: of the project, by its manifest.
    folder: where it is.
    query: the text and the place of the query.
    settings: of `JobConfig.json`.
    inputs, outputs, functions: by name.
    unsupported: notes on what is understood and not supported, or was left unread.
    warnings: notes on what is likely not meant as it is written.
    bounds: which files the project may name.
    """

    name: str
    folder: Path
    query: Source
    settings: JobSettings
    inputs: Mapping[str, ProjectInput]
    outputs: Mapping[str, ProjectOutput]
    functions: Mapping[str, ProjectFunction]
    unsupported: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    bounds: Bounds = ANYWHERE

    @property
    def scripts(self) -> dict[str, str]:
        """JavaScript source of each function a query may call as UDF.name or uda.name."""
        return {name: each.script for name, each in self.functions.items()}

    @property
    def test_config(self) -> Path:
        """Where the test cases are, whether the file exists or not."""
        return self.folder / "test" / "testConfig.json"


@dataclass(slots=True)
class _Reading:
    """What has been read so far.

    problems: of all files.
    settings: of the job.
    live, local: inputs of the cloud, and files that stand in for them, by name.
    outputs, functions: by name.
    """

    problems: Problems
    settings: JobSettings = field(default_factory=JobSettings)
    live: dict[str, ProjectInput] = field(default_factory=dict[str, ProjectInput])
    local: dict[str, ProjectInput] = field(default_factory=dict[str, ProjectInput])
    outputs: dict[str, ProjectOutput] = field(default_factory=dict[str, ProjectOutput])
    functions: dict[str, ProjectFunction] = field(default_factory=dict[str, ProjectFunction])


def load_project(path: Path, *, allow_outside: bool = False) -> Project:
    """Read a project from its folder, its `asaproj.json` or `.asaproj`, or a bare `.asaql` file.

    allow_outside: files of the project may name files outside of its folder.

    A folder without any of the two is read by its layout: the one `.asaql` file, `JobConfig.json` and
    what lies in `Inputs`, `Outputs` and `Functions`. Raises ProjectError that lists every problem.
    """
    entry = project_entry(Path(path))
    # The file that was named itself may be a link to elsewhere.
    bounds = ANYWHERE if allow_outside else Bounds((entry.folder, Path(path)))
    reading = _Reading(Problems(entry.folder, bounds))
    problems = reading.problems
    listing = list_project(entry, problems)
    for file, kind in listing.files:
        _read_file(file, kind, reading)
    for file in listing.code_files:
        note_code_files(file, problems)
    if entry.manifest is not None:
        for file in unlisted(listing, problems):
            problems.notice(
                file, f"lies in the project and is not listed in {entry.manifest.name}, so it is not read"
            )
    query_text = read_text(listing.query, problems) if listing.query is not None else None
    problems.raise_if_any()
    return Project(
        listing.name,
        entry.folder,
        Source(query_text or "", problems.place(listing.query) if listing.query else "query"),
        reading.settings,
        MappingProxyType(reading.live | _standing_in(reading)),
        MappingProxyType(reading.outputs),
        MappingProxyType(reading.functions),
        tuple(problems.notices),
        tuple(problems.warnings),
        bounds,
    )


def _standing_in(reading: _Reading) -> dict[str, ProjectInput]:
    """The local inputs, each under the name of the live one it stands in for, and with what that reads."""
    names = {name.casefold(): name for name in reading.live}
    found: dict[str, ProjectInput] = {}
    for name, each in reading.local.items():
        live = names.get(name.casefold())
        reads = None if live is None else reading.live[live]
        found[live or name] = replace(
            each,
            name=live or name,
            live=None if reads is None else reads.live,
            live_reference=None if reads is None else reads.live_reference,
        )
    return found


def _read_file(file: Path, kind: str, reading: _Reading) -> None:
    problems = reading.problems
    if kind == "jobconfig":
        _read_job_config(file, reading)
    elif kind in ("input", "inputmock", "localinput"):
        _read_input(file, "input" if kind == "input" else "inputmock", reading)
    elif kind == "output":
        _read_output(file, reading)
    elif "function" in kind or kind.startswith(("js", "javascript")):
        function = read_function(file, kind, problems)
        known = None if function is None else reading.functions.get(function.name)
        if function is not None and known is not None and known.script != function.script:
            problems.error(
                file, f"another file already defines the function {function.name!r}; remove one of them"
            )
        if function is not None:
            reading.functions[function.name] = function
    elif kind:
        problems.notice(file, f"the kind {kind!r} is not known here; the file is not read")


def _read_job_config(file: Path, reading: _Reading) -> None:
    content = read_object(file, reading.problems)
    if content is None:
        return
    warn_of_job_config(content, file, reading.problems)
    try:
        reading.settings = from_job_config(content, reading.problems.place(file))
    except ProjectError as error:
        reading.problems.errors.extend(str(error).splitlines())


def _read_input(file: Path, kind: str, reading: _Reading) -> None:
    found = read_input(file, kind, reading.problems)
    if found is None:
        return
    made, local = found
    known, what = (reading.local, "local input") if local else (reading.live, "input")
    if made.name in known:
        reading.problems.error(
            file, f"another file already defines the {what} {made.name!r}; remove one of them"
        )
    known[made.name] = made


def _read_output(file: Path, reading: _Reading) -> None:
    problems = reading.problems
    if not file.exists():
        problems.notice(file, "is listed and does not exist; what it says of an output is not known")
        return
    raw = read_object(file, problems)
    if raw is None:
        return
    found = read_output(tool_output(raw), file, problems)
    if found.name in reading.outputs:
        problems.error(file, f"another file already defines the output {found.name!r}; remove one of them")
    reading.outputs[found.name] = found


__all__ = ["Project", "ProjectFunction", "ProjectInput", "ProjectOutput", "load_project"]
