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

from tideglass.connect.output import OutputConnector
from tideglass.core.bounds import ANYWHERE, Bounds
from tideglass.core.errors import ProjectError, Source
from tideglass.core.file_names import folder_name
from tideglass.project.functions import ProjectFunction, note_code_behind, read_function
from tideglass.project.inputs import ProjectInput, checked_format, delimiter_of, read_input
from tideglass.project.kafka import is_topic, read_topic_output
from tideglass.project.keys import OUTPUT, objects_in, warn_of_job_config, warn_of_misspelt
from tideglass.project.listing import list_project, project_entry, unlisted
from tideglass.project.reading import Problems, read_object, read_text, text_of
from tideglass.project.rest import tool_output
from tideglass.project.settings import JobSettings, from_job_config


@dataclass(frozen=True, slots=True)
class ProjectOutput:
    """An output as the project describes it; where its rows go is for the run to say.

    connector: where those of a live run go; None for files as well.
    """

    name: str
    origin: str
    file_format: str = "json"
    connector: OutputConnector | None = None


@dataclass(frozen=True, slots=True)
class Project:
    """What a project folder holds; names are spelled as in the files. bounds: which files it may name."""

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
    """What has been read so far."""

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
    for file in listing.code_behind:
        note_code_behind(file, problems)
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
    """The local inputs, each under the name, and with the topic, of the live one it stands in for."""
    names = {name.casefold(): name for name in reading.live}
    found: dict[str, ProjectInput] = {}
    for name, each in reading.local.items():
        live = names.get(name.casefold())
        topic = None if live is None else reading.live[live].topic
        found[live or name] = replace(each, name=live or name, topic=topic)
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
    content = tool_output(raw)
    name = text_of(content, "Name", file, problems, required="Name" in content) or file.stem
    origin = text_of(content, "DataSourceType", file, problems, required=False) or "output"
    serialization = objects_in(content.get("Serialization"))
    warn_of_misspelt(content, OUTPUT, file, problems)
    if name in reading.outputs:
        problems.error(file, f"another file already defines the output {name!r}; remove one of them")
    if is_topic(content):
        delimiter = delimiter_of(serialization.get("FieldDelimiter"), file, problems)
        topic = read_topic_output(content, name, delimiter, file, problems)
        reading.outputs[name] = ProjectOutput(name, origin, connector=topic)
        return
    file_format = checked_format(serialization.get("Type"), file, problems) or "json"
    problems.notice(
        file,
        f"writing to {origin} is understood, not yet supported; "
        f"the rows of {name!r} go to LocalRunOutputs/{folder_name(name)}, or where --output {name}=PATH says",
    )
    reading.outputs[name] = ProjectOutput(name, origin, _written(file_format, file, problems))


def _written(file_format: str, file: Path, problems: Problems) -> str:
    """The format of the files that stand in for an output."""
    if file_format != "avro":
        return file_format
    problems.notice(file, "the format 'Avro' is not yet supported for files; rows are written as JSON")
    return "json"


__all__ = ["Project", "ProjectFunction", "ProjectInput", "ProjectOutput", "load_project"]
