"""An ASA project folder, read as it is (`asa.md` 10.1): query, job settings, inputs, outputs, functions.

A project is usable or it is not: everything that keeps it from being used is reported at once, each
with its file and a remedy. What is understood and not supported here, or lies in the folder unread,
is listed in `Project.unsupported`; the project can be used without it.

Three keys of a local input file are our own and ignored by the service's tools:
`"ArrivalTimeField"` names the payload field that holds the broker's arrival stamp (dots lead into
records), so that recorded streams meet the time policies as they once did; `"ArrivalTimeFormat"` says
how it is written: `iso` unless said, `epoch_seconds` or `epoch_milliseconds`; `"Partitions": "folders"`
makes each sub-folder of `FilePath` an input partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, cast

from tideglass.bind.catalog import metadata_in
from tideglass.connect.topics import TopicInput, TopicOutput
from tideglass.core.bounds import ANYWHERE, Bounds
from tideglass.core.errors import ProjectError, Source
from tideglass.core.file_names import folder_name
from tideglass.core.types import ARRIVAL, PARTITION
from tideglass.functions.javascript import called, is_aggregate
from tideglass.job.files import (
    REMEDY,
    NotNamed,
    Problems,
    json_kind,
    named_path,
    project_entry,
    project_path,
    read_named,
    read_object,
    read_text,
    text_of,
)
from tideglass.job.project_reference import ProjectSql, path_formats, sql_reference
from tideglass.job.settings import JobSettings, from_job_config
from tideglass.job.topic_files import is_topic, read_topic_input, read_topic_output

FORMATS = ("json", "csv", "parquet")
ARRIVAL_FORMATS = ("iso", "epoch_seconds", "epoch_milliseconds")
#: Formats the service's tools read and we do not yet.
LATER_FORMATS = ("avro", "protobuf", "delta")

_DELIMITERS = {
    "comma": ",",
    "semicolon": ";",
    "space": " ",
    "tab": "\t",
    "\\t": "\t",
    "bar": "|",
    "pipe": "|",
}
_FOLDERS = {"Inputs": "input", "Outputs": "output", "Functions": "function"}
#: What is said of an input whose path leads out of the project, behind that path.
OUTSIDE = (
    "lies outside of the project and is not read; name it with --input {name}=PATH, or say --allow-outside"
)


@dataclass(frozen=True, slots=True)
class ProjectInput:
    """An input as the project describes it.

    origin: what the project reads from, in the service's words ("Event Hub"), or "local file".
    path: the local file or folder; None for a live input, which needs `--input NAME=PATH`. outside: the path
    as it is written, where it leads out of the project and is not read. bounds: what the path may lead to.
    file_format: json, csv or parquet; None where the project does not say.
    arrival: payload field with the arrival time, dots lead into records; None when events carry none.
    arrival_format: how that field says the time. date_format, time_format: what {date} and {time} stand for
    in the path of reference data. sql: what reference data is queried with. topic: what a live run reads
    instead, where it is one of Kafka.
    """

    name: str
    kind: Literal["stream", "reference"]
    origin: str
    path: Path | None = None
    file_format: str | None = None
    delimiter: str = ","
    partitions: Literal["one", "folders"] = "one"
    arrival: str | None = None
    arrival_format: str = "iso"
    date_format: str = "YYYY/MM/DD"
    time_format: str = "HH"
    sql: ProjectSql | None = None
    topic: TopicInput | None = None
    outside: str | None = None
    bounds: Bounds = ANYWHERE

    def metadata(self, live: bool) -> frozenset[str]:
        """Names of what the input says of its events: a topic its partition, files what was recorded."""
        if live and self.topic is not None:
            return metadata_in(PARTITION)
        recorded = [ARRIVAL] if self.arrival is not None else []
        return metadata_in(*recorded, *([PARTITION] if self.partitions == "folders" else []))


@dataclass(frozen=True, slots=True)
class ProjectOutput:
    """An output as the project describes it; where its rows go is for the run to say.

    topic: where those of a live run go, if it is one of Kafka.
    """

    name: str
    origin: str
    file_format: str = "json"
    topic: TopicOutput | None = None


@dataclass(frozen=True, slots=True)
class ProjectFunction:
    """A JavaScript function: a scalar one, or an aggregate."""

    name: str
    script: str

    @property
    def aggregate(self) -> bool:
        return is_aggregate(self.script)

    @property
    def called(self) -> str:
        """How a query calls it."""
        return called(self.name, self.aggregate)


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
    """Read a project from its folder, its `asaproj.json`, or a bare `.asaql` file.

    allow_outside: files of the project may name files outside of its folder.

    A folder without `asaproj.json` is read by its layout: the one `.asaql` file, `JobConfig.json` and
    what lies in `Inputs`, `Outputs` and `Functions`. Raises ProjectError that lists every problem.
    """
    entry = project_entry(Path(path))
    manifest_path, query_path, folder = entry.manifest, entry.query, entry.folder
    # The file that was named itself may be a link to elsewhere.
    bounds = ANYWHERE if allow_outside else Bounds((folder, path))
    reading = _Reading(Problems(folder, bounds))
    problems = reading.problems
    name = folder.resolve().name
    if manifest_path is None:
        files = _files_by_layout(problems) if query_path is None or query_path.parent == folder else []
    else:
        manifest = read_object(manifest_path, problems)
        problems.raise_if_any()
        manifest = manifest or {}
        name = text_of(manifest, "name", manifest_path, problems, required=False) or name
        if query_path is None:
            start = text_of(manifest, "startFile", manifest_path, problems)
            named = '"startFile"'
            query_path = problems.path(folder, start, manifest_path, named, False) if start else None
        files = _files_of_manifest(manifest, manifest_path, problems)
        _notice_unlisted(files, reading)
    for file, kind in files:
        _read_file(file, kind, reading)
    query_text = read_text(query_path, problems) if query_path is not None else None
    problems.raise_if_any()
    return Project(
        name,
        folder,
        Source(query_text or "", problems.place(query_path) if query_path else "query"),
        reading.settings,
        MappingProxyType(reading.live | _standing_in(reading)),
        MappingProxyType(reading.outputs),
        MappingProxyType(reading.functions),
        tuple(problems.notices),
        bounds,
    )


def _standing_in(reading: _Reading) -> dict[str, ProjectInput]:
    """The local inputs, each with the topic it stands in for."""
    return {
        name: replace(each, topic=reading.live[name].topic) if name in reading.live else each
        for name, each in reading.local.items()
    }


def _files_by_layout(problems: Problems) -> list[tuple[Path, str]]:
    folder = problems.folder
    files: list[tuple[Path, str]] = []
    config = project_path(folder, "JobConfig.json")
    if config.exists():
        files.append((config, "jobconfig"))
    for sub_folder, kind in _FOLDERS.items():
        for file in sorted(project_path(folder, sub_folder).glob("*")):
            if file.suffix.lower() == ".json" or (kind == "function" and file.suffix.lower() == ".js"):
                if problems.bounds.hold(file) or file.suffix.lower() == ".js":
                    files.append((file, _kind_by_content(file, kind)))
                else:  # configuration, or data that is read by another name
                    problems.notice(file, f"lies outside of the project and is not read; {REMEDY}")
    return files


def _kind_by_content(file: Path, kind: str) -> str:
    """What a file in the folder of inputs, outputs or functions is; '' for data that lies beside them.

    Configuration says its `ScriptType`. A damaged one is told from data by that word, so that it is
    reported and not passed over.
    """
    if file.suffix.lower() == ".js":
        return "function"
    unheard = Problems(file.parent)
    text = read_text(file, unheard) or ""
    if '"ScriptType"' not in text:
        return ""
    content = read_object(file, unheard)
    script_type = str(content.get("ScriptType", "")).lower() if content is not None else kind
    return script_type if kind == "input" or script_type == "csharpfunction" else kind


def _files_of_manifest(
    manifest: Mapping[str, Any], manifest_path: Path, problems: Problems
) -> list[tuple[Path, str]]:
    configurations = manifest.get("configurations")
    if configurations is None:
        problems.notice(manifest_path, 'has no "configurations"; the files were found by their folders')
        return _files_by_layout(problems)
    if not isinstance(configurations, list):
        problems.error(manifest_path, f'"configurations" is {json_kind(configurations)}, not an array')
        return []
    files: list[tuple[Path, str]] = []
    for number, entry in enumerate(cast("list[object]", configurations), 1):
        content = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
        file_path, sub_type = content.get("filePath"), content.get("subType")
        if isinstance(file_path, str) and isinstance(sub_type, str):
            what = f"configuration {number}"
            file = problems.path(problems.folder, file_path, manifest_path, what, must_exist=False)
            if file is not None:
                files.append((file, sub_type.lower()))
        else:
            problems.error(
                manifest_path,
                f'configuration {number} needs the texts "filePath" and "subType", has {entry!r}',
            )
    return files


def _notice_unlisted(files: list[tuple[Path, str]], reading: _Reading) -> None:
    listed = {file.resolve() for file, _ in files}
    listed |= {file.with_suffix(".js").resolve() for file, _ in files}
    for file, kind in _files_by_layout(reading.problems):
        if kind and file.resolve() not in listed:
            reading.problems.notice(
                file, "lies in the project and is not listed in asaproj.json, so it is not read"
            )


def _read_file(file: Path, kind: str, reading: _Reading) -> None:
    if kind == "jobconfig":
        _read_job_config(file, reading)
    elif kind == "input":
        _read_live_input(file, reading)
    elif kind == "inputmock":
        _read_local_input(file, reading)
    elif kind == "output":
        _read_output(file, reading)
    elif kind == "csharpfunction":
        reading.problems.notice(
            file, "C# functions are understood, not yet supported; write it in JavaScript"
        )
    elif "function" in kind or kind.startswith(("js", "javascript")):
        _read_function(file, reading)
    elif kind:
        reading.problems.notice(file, f"the kind {kind!r} is not known here; the file is not read")


def _read_job_config(file: Path, reading: _Reading) -> None:
    content = read_object(file, reading.problems)
    if content is None:
        return
    try:
        reading.settings = from_job_config(content, reading.problems.place(file))
    except ProjectError as error:
        reading.problems.errors.extend(str(error).splitlines())


# ---------------------------------------------------------------- inputs


def input_kind(content: Mapping[str, Any]) -> Literal["stream", "reference"]:
    """Files spell it "Data Stream", "Reference data" and "Reference Data"."""
    return "reference" if "reference" in str(content.get("Type", "")).lower() else "stream"


def _read_live_input(file: Path, reading: _Reading) -> None:
    problems = reading.problems
    named = read_named(file, "Name", problems)
    if named is None:
        return
    content, name = named
    origin = text_of(content, "DataSourceType", file, problems, required=False) or "live source"
    serialization = cast("dict[str, Any]", content.get("Serialization") or {})
    if name in reading.live:
        problems.error(file, f"another file already defines the input {name!r}; remove one of them")
    delimiter = _delimiter(serialization.get("FieldDelimiter"), file, problems)
    if is_topic(content):
        topic = read_topic_input(content, name, delimiter, file, problems)
        reading.live[name] = ProjectInput(name, input_kind(content), origin, topic=topic)
        return
    file_format = _checked_format(serialization.get("Type"), file, problems, live=True)
    reading.live[name] = ProjectInput(
        name,
        input_kind(content),
        origin,
        file_format=file_format,
        delimiter=delimiter,
        **path_formats(content.get("BlobReferenceProperties")),
        sql=sql_reference(content.get("SqlReferenceInputInfo"), file, problems),
    )


def _read_local_input(file: Path, reading: _Reading) -> None:
    problems = reading.problems
    named = read_named(file, "InputAlias", problems)
    if named is None:
        return
    content, name = named
    if name in reading.local:
        problems.error(file, f"another file already defines the local input {name!r}; remove one of them")
    found = read_input_mock(content, name, file, file.parent, problems)
    if found.outside is not None:
        problems.notice(file, f'"FilePath" names {found.outside}, which {OUTSIDE.format(name=name)}')
    reading.local[name] = found


def read_input_mock(
    content: Mapping[str, Any], name: str, file: Path, base: Path, problems: Problems
) -> ProjectInput:
    """An `InputMock` object, as it stands in a local input file or in a test case (`asa.md` 10).

    `FilePath` is relative to `base`. Problems are reported under `file`; that the path leads out of the
    project is for the caller to say, since a run may name another.
    """
    kind = input_kind(content)
    queried = kind == "reference" and "ConnectionString" in content
    path_text = text_of(content, "FilePath", file, problems, required=not queried)
    named_by_time = kind == "reference" and "{date}" in (path_text or "").lower()
    path, outside = None, None
    match named_path(base, path_text, problems.bounds, not named_by_time) if path_text else None:
        case NotNamed(outside=True):
            outside = path_text
        case NotNamed(why=why):
            problems.error(file, f'"FilePath" of the input {name!r} names {path_text}, which {why}')
        case found:
            path = found
    partitions = str(content.get("Partitions") or "one").lower()
    if partitions not in ("one", "folders"):
        problems.error(file, f'"Partitions" is {content["Partitions"]!r}, it must be "one" or "folders"')
    return ProjectInput(
        name,
        kind,
        "local file",
        path,
        _checked_format(content.get("Format"), file, problems) or _format_of_name(path),
        _delimiter(content.get("FieldDelimiter"), file, problems),
        "folders" if partitions == "folders" else "one",
        text_of(content, "ArrivalTimeField", file, problems, required=False),
        _arrival_format(content.get("ArrivalTimeFormat"), file, problems),
        **path_formats(content),
        sql=sql_reference(content, file, problems) if queried else None,
        outside=outside,
        bounds=problems.bounds,
    )


def _arrival_format(value: object, file: Path, problems: Problems) -> str:
    name = str(value or "iso").lower()
    if name not in ARRIVAL_FORMATS:
        problems.error(
            file, f'"ArrivalTimeFormat" is {value!r}, it must be one of {", ".join(ARRIVAL_FORMATS)}'
        )
    return name


def _checked_format(value: object, file: Path, problems: Problems, live: bool = False) -> str | None:
    """One of FORMATS, None when not said. A live input's format only matters once a path is given."""
    if value is None or value == "":
        return None
    name = str(value).lower()
    if name in FORMATS:
        return name
    if name in LATER_FORMATS or name.startswith("custom"):
        message = f"the format {value!r} is understood, not yet supported; use Json, Csv or Parquet"
    else:
        message = f"the format {value!r} is not known; use Json, Csv or Parquet"
    if live:
        problems.notice(file, message)
    else:
        problems.error(file, message)
    return None


def _format_of_name(path: Path | None) -> str | None:
    suffix = path.suffix.lower().removeprefix(".") if path else ""
    return suffix if suffix in FORMATS else None


def _delimiter(value: object, file: Path, problems: Problems) -> str:
    if value is None or value == "":
        return ","
    text = str(value)
    delimiter = _DELIMITERS.get(text.lower(), text)
    if delimiter not in _DELIMITERS.values():
        problems.error(file, f'"FieldDelimiter" is {text!r}; use a comma, semicolon, space, tab or bar')
    return delimiter


# ---------------------------------------------------------------- outputs and functions


def _read_output(file: Path, reading: _Reading) -> None:
    problems = reading.problems
    named = read_named(file, "Name", problems)
    if named is None:
        return
    content, name = named
    origin = text_of(content, "DataSourceType", file, problems, required=False) or "output"
    serialization = cast("dict[str, Any]", content.get("Serialization") or {})
    if name in reading.outputs:
        problems.error(file, f"another file already defines the output {name!r}; remove one of them")
    if is_topic(content):
        delimiter = _delimiter(serialization.get("FieldDelimiter"), file, problems)
        topic = read_topic_output(content, name, delimiter, file, problems)
        reading.outputs[name] = ProjectOutput(name, origin, topic=topic)
        return
    file_format = _checked_format(serialization.get("Type"), file, problems, live=True) or "json"
    problems.notice(
        file,
        f"writing to {origin} is understood, not yet supported; "
        f"the rows of {name!r} go to LocalRunOutputs/{folder_name(name)}, or where --output {name}=PATH says",
    )
    reading.outputs[name] = ProjectOutput(name, origin, file_format)


def _read_function(file: Path, reading: _Reading) -> None:
    """A `.js` file, or a JSON file that names one, holds its text, or has one beside it with its name."""
    problems = reading.problems
    if file.suffix.lower() == ".js":
        script, name, kind = read_text(file, problems), file.stem, ""
    else:
        content = read_object(file, problems)
        if content is None:
            return
        name = text_of(content, "Name", file, problems, required=False) or file.stem.removesuffix(".js")
        kind = str(content.get("Type", "")).lower()
        script = _script_of(content, file, problems)
    if script is None:
        return
    if "aggregate" in kind and not is_aggregate(script):
        problems.error(
            file, "its Type is Aggregate, but its script has no main with init, accumulate and computeResult"
        )
    known = reading.functions.get(name)
    if known is not None and known.script != script:
        problems.error(file, f"another file already defines the function {name!r}; remove one of them")
    reading.functions[name] = ProjectFunction(name, script)


def _script_of(content: Mapping[str, Any], file: Path, problems: Problems) -> str | None:
    inline = content.get("Script")
    if isinstance(inline, str) and inline.strip():
        return inline
    for key in ("FilePath", "ScriptFilePath", "ScriptPath", "Path"):
        named = content.get(key)
        if isinstance(named, str) and named.lower().endswith(".js"):
            path = problems.path(file.parent, named, file, f'"{key}"')
            return None if path is None else read_text(path, problems)
    beside = project_path(file.parent, file.name.removesuffix(".json").removesuffix(".js") + ".js")
    if beside.exists():
        return read_text(beside, problems)
    problems.error(file, f'no script: expected {beside.name} beside this file, or its text under "Script"')
    return None
