"""The inputs of a project: live ones of the cloud, and local files that stand in for them (`asa.md` 10.1).

A local input is written in two forms: the older one has `InputAlias` and `Format`; the newer has `Name`,
`"DataSourceType": "Local Input"` and `Serialization`. Without a name it is that of its file:
`Local_entry.json` is for `entry`. A local input that cannot be read (its file is not there, or of a format
that is not supported) keeps nobody from giving other files with `--input`.

Three keys of a local input are our own and ignored by the service's tools: `"ArrivalTimeField"` names the
payload field that holds the broker's arrival stamp (dots lead into records), so that recorded streams meet
the time policies as they once did; `"ArrivalTimeFormat"` says how it is written: `iso` unless said,
`epoch_seconds` or `epoch_milliseconds`; `"Partitions": "folders"` makes each sub-folder of `FilePath` an
input partition.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Any, Literal

from tideglass.bind.catalog import metadata_in
from tideglass.connect.formats.table import FORMATS, in_words
from tideglass.connect.source import InputConnector
from tideglass.core.bounds import ANYWHERE, Bounds
from tideglass.core.types import ARRIVAL, PARTITION
from tideglass.project.connectors import INPUT_GROUP, Connectors, Described, by_name, properties_key
from tideglass.project.file_reader import NotNamed, Problems, named_path, read_object, text_of
from tideglass.project.keys import INPUT, LOCAL_INPUT, SERIALIZATION, objects_in, warn_of_misspelt
from tideglass.project.reference import ProjectSql, path_formats, sql_reference
from tideglass.project.rest_spelling import tool_input

if TYPE_CHECKING:  # that module checks its values, with a library that takes long to import
    from tideglass.connect.files.blob_input import BlobReference
    from tideglass.connect.spec import Rotation
    from tideglass.storage import StoragePath

#: How files may take turns under one name, by the word for it.
ROTATIONS: Mapping[str, Rotation] = {"none": "none", "rename": "rename", "copytruncate": "copytruncate"}
ARRIVAL_FORMATS = ("iso", "epoch_seconds", "epoch_milliseconds")
#: Formats the service's tools read and we do not yet.
LATER_FORMATS = ("protobuf", "delta")

#: The types under which tools, the service's interface and its portal know a container, in lower case.
_BLOB_TYPES = (
    "blob storage",
    "blob storage/adls gen2",
    "data lake storage gen2",
    "azure data lake storage gen2",
    "adls gen2",
)


def _blob_input(described: Described) -> InputConnector:
    from tideglass.project.blobs import blob_input  # loaded where a project has blobs

    return blob_input(described)


def _blob_reference(described: Described) -> BlobReference | None:
    if not objects_in(described.content.get("BlobReferenceProperties")):
        return None
    from tideglass.project.blobs import blob_reference

    return blob_reference(described)


#: The types of inputs that a live run reads.
INPUTS: Connectors[InputConnector] = Connectors(
    "input",
    INPUT_GROUP,
    {
        "kafka": by_name("kafka.topic_input"),
        "event hub": by_name("event_hub.event_hub_input"),
        "iot hub": by_name("event_hub.iot_hub_input"),
        **dict.fromkeys(_BLOB_TYPES, _blob_input),
    },
)

_DELIMITERS = {
    "comma": ",",
    "semicolon": ";",
    "space": " ",
    "tab": "\t",
    "\\t": "\t",
    "bar": "|",
    "pipe": "|",
}
#: The message about an input whose path leads out of the project, after that path.
OUTSIDE = (
    "lies outside of the project and is not read; name it with --input {name}=PATH, or say --allow-outside"
)
#: What the tools write before the name of an input in the name of the file of its local one.
_LOCAL_PREFIX = re.compile(r"local(?:input)?_", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ProjectInput:
    """An input as the project describes it.

    name: as the files spell it.
    kind: a stream, or reference data.
    origin: what the project reads from, in the service's words ("Event Hub"), or "local file".
    path: the file or folder, of this machine or of an object store; None for a live input, which needs
        `--input NAME=PATH`.
    file_format: one of FORMATS; None where the project names none.
    delimiter: of CSV.
    partitions: whether each sub-folder is an input partition, or all files are one.
    arrival: payload field with the arrival time, dots lead into records; None when events carry none.
    arrival_format: how that field is written, one of ARRIVAL_FORMATS.
    date_format, time_format: what {date} and {time} stand for in the path of reference data.
    sql: what reference data is queried with; None for reference data of files, and for a stream.
    live: what a live run reads instead; None where its type is not one of INPUTS.
    live_reference: where a live run reads reference data instead; None where the project does not say.
    outside: the path as it is written, where it leads out of the project and is not read; else None.
    unreadable: why the local file cannot be read for another reason; None when it can.
    rotation: how its files take turns under one name.
    bounds: what the path may lead to.
    """

    name: str
    kind: Literal["stream", "reference"]
    origin: str
    path: Path | StoragePath | None = None
    file_format: str | None = None
    delimiter: str = ","
    partitions: Literal["one", "folders"] = "one"
    arrival: str | None = None
    arrival_format: str = "iso"
    date_format: str = "YYYY/MM/DD"
    time_format: str = "HH"
    sql: ProjectSql | None = None
    live: InputConnector | None = None
    live_reference: BlobReference | None = None
    outside: str | None = None
    unreadable: str | None = None
    rotation: Rotation = "none"
    bounds: Bounds = ANYWHERE

    def metadata(self, live: bool) -> frozenset[str]:
        """Names of the metadata the events have: the partition of a live input, recorded ones of files."""
        if live and self.live is not None:
            return metadata_in(*self.live.known_columns)
        recorded = [ARRIVAL] if self.arrival is not None else []
        return metadata_in(*recorded, *([PARTITION] if self.partitions == "folders" else []))


def input_kind(content: Mapping[str, Any]) -> Literal["stream", "reference"]:
    """Files spell it "Data Stream", "Reference data", "Reference Data", "Stream" and "Reference"."""
    return "reference" if "reference" in str(content.get("Type", "")).lower() else "stream"


def is_local(content: Mapping[str, Any]) -> bool:
    """Whether an input file in the tools' form describes files of this machine."""
    source = re.sub(r"[^a-z]", "", str(content.get("DataSourceType", "")).lower())
    script_type = str(content.get("ScriptType", "")).lower()
    return script_type == "inputmock" or source in ("localinput", "localfile")


def read_input(file: Path, kind: str, problems: Problems) -> tuple[ProjectInput, bool] | None:
    """The input a file describes, and whether it is a local one; None after a reported problem.

    kind: that of the manifest, `input` or `inputmock`; the file's own `ScriptType` comes before it.
    """
    if not os.path.lexists(file):
        return _not_there(file, kind == "inputmock", problems)
    raw = read_object(file, problems)
    if raw is None:
        return None
    content = tool_input(raw, LOCAL_INPUT)
    local = is_local(content) or (kind == "inputmock" and "ScriptType" not in content)
    live_keys = (*INPUT, properties_key(str(content.get("DataSourceType", ""))))
    warn_of_misspelt(content, LOCAL_INPUT if local else live_keys, file, problems)
    warn_of_misspelt(objects_in(content.get("Serialization")), SERIALIZATION, file, problems)
    if local:
        name = _local_name(content, file, problems)
        found = None if name is None else read_input_mock(content, name, file, file.parent, problems)
        if found is not None and found.outside is not None:
            problems.notice(
                file, f'"FilePath" names {found.outside}, which {OUTSIDE.format(name=found.name)}'
            )
    else:
        name = _name(content, "Name", file, problems) or (file.stem if "Name" not in content else None)
        found = None if name is None else _read_live(content, name, file, problems)
    return None if found is None else (found, local)


def _not_there(file: Path, local: bool, problems: Problems) -> tuple[ProjectInput, bool]:
    """An input whose configuration is listed and was not shared with the project."""
    name = _LOCAL_PREFIX.sub("", file.stem, count=1) if local else file.stem
    reason = f"its configuration {problems.place(file)} does not exist"
    problems.notice(
        file, f"is listed and does not exist; the input {name!r} needs files: --input {name}=PATH"
    )
    return ProjectInput(name, "stream", "local file" if local else "live source", unreadable=reason), local


def _name(content: Mapping[str, Any], key: str, file: Path, problems: Problems) -> str | None:
    return text_of(content, key, file, problems, required=False)


def _local_name(content: Mapping[str, Any], file: Path, problems: Problems) -> str | None:
    """`InputAlias`, else `Name`, else the file's name; None after a reported problem."""
    before = len(problems.errors)
    for key in ("InputAlias", "Name"):
        name = _name(content, key, file, problems)
        if name is not None:
            return name
    return None if len(problems.errors) > before else _LOCAL_PREFIX.sub("", file.stem, count=1)


# ---------------------------------------------------------------- live inputs


def _read_live(content: Mapping[str, Any], name: str, file: Path, problems: Problems) -> ProjectInput:
    kind = input_kind(content)
    origin = text_of(content, "DataSourceType", file, problems, required=False) or "live source"
    serialization = objects_in(content.get("Serialization"))
    delimiter = delimiter_of(serialization.get("FieldDelimiter"), file, problems)
    described = Described(name, origin, content, delimiter, file, problems)
    if kind == "stream" and INPUTS.makes(origin):
        return ProjectInput(
            name,
            kind,
            origin,
            file_format=checked_format(serialization.get("Type"), file, problems),
            delimiter=delimiter,
            live=INPUTS.make(described),
        )
    return ProjectInput(
        name,
        kind,
        origin,
        file_format=checked_format(serialization.get("Type"), file, problems),
        delimiter=delimiter,
        **path_formats(content.get("BlobReferenceProperties")),
        sql=sql_reference(content.get("SqlReferenceInputInfo"), file, problems),
        live_reference=_blob_reference(described) if kind == "reference" else None,
    )


def checked_format(value: object, file: Path, problems: Problems) -> str | None:
    """One of FORMATS, None when there is none, or when it only matters once there is a path."""
    if value is None or value == "":
        return None
    name = str(value).strip().lower()
    if name in FORMATS:
        return name
    problems.notice(file, _other_format(value))
    return None


def _other_format(value: object) -> str:
    name = str(value).strip().lower()
    known = f"use {in_words(tuple(FORMATS))}"
    if name in LATER_FORMATS or name.startswith("custom"):
        return f"the format {value!r} is understood, not yet supported; {known}"
    return f"the format {value!r} is not known; {known}"


def delimiter_of(value: object, file: Path, problems: Problems) -> str:
    """The character a `FieldDelimiter` names."""
    if value is None or value == "":
        return ","
    text = str(value)
    delimiter = _DELIMITERS.get(text.lower(), text)
    if delimiter not in _DELIMITERS.values():
        problems.error(file, f'"FieldDelimiter" is {text!r}; use a comma, semicolon, space, tab or bar')
    return delimiter


# ---------------------------------------------------------------- local inputs


def read_input_mock(
    content: Mapping[str, Any], name: str, file: Path, base: Path, problems: Problems
) -> ProjectInput:
    """An `InputMock` object, as it stands in a local input file or in a test case (`asa.md` 10).

    `FilePath` is relative to `base`. Problems are reported under `file`. A file that is not there, or of a
    format that is understood and not supported, is a note: others may take its place. That the path
    leads out of the project is for the caller to report.
    """
    kind = input_kind(content)
    serialization = objects_in(content.get("Serialization"))
    queried = kind == "reference" and "ConnectionString" in content
    optional = queried or content.get("FilePath", "absent") in (None, "")
    path_text = text_of(content, "FilePath", file, problems, required=not optional)
    named_by_time = kind == "reference" and "{date}" in (path_text or "").lower()
    path: Path | StoragePath | None = None
    outside: str | None = None
    unreadable = None if queried else f'"FilePath" in {problems.place(file)} is empty'
    match None if path_text is None else _named(path_text, name, file, base, problems, not named_by_time):
        case NotNamed(outside=True):
            outside, unreadable = path_text, None
        case NotNamed(why=why):
            unreadable = f'"FilePath" in {problems.place(file)} names {path_text}, which {why}'
        case None:
            pass
        case path:
            unreadable = None
    partitions = str(content.get("Partitions") or "one").lower()
    if partitions not in ("one", "folders"):
        problems.error(file, f'"Partitions" is {content["Partitions"]!r}, it must be "one" or "folders"')
    rotation = str(content.get("Rotation") or "none").lower()
    if rotation not in ROTATIONS:
        problems.error(
            file, f'"Rotation" is {content["Rotation"]!r}, it must be one of {", ".join(ROTATIONS)}'
        )
    named_format = content.get("Format") or serialization.get("Type")
    file_format = str(named_format).strip().lower() if named_format else _format_of_name(path)
    if file_format is not None and file_format not in FORMATS:
        if file_format in LATER_FORMATS or file_format.startswith("custom"):
            unreadable = _other_format(named_format)
        else:
            problems.error(file, _other_format(named_format))
        file_format = None
    if unreadable is not None:
        problems.notice(
            file, f"the local input {name!r} cannot be read: {unreadable}; say --input {name}=PATH"
        )
    return ProjectInput(
        name,
        kind,
        "local file",
        path,
        file_format,
        delimiter_of(content.get("FieldDelimiter") or serialization.get("FieldDelimiter"), file, problems),
        "folders" if partitions == "folders" else "one",
        text_of(content, "ArrivalTimeField", file, problems, required=False),
        _arrival_format(content.get("ArrivalTimeFormat"), file, problems),
        **path_formats(content),
        sql=sql_reference(content, file, problems) if queried else None,
        outside=outside,
        unreadable=unreadable,
        rotation=ROTATIONS.get(rotation, "none"),
        bounds=problems.bounds,
    )


def _named(
    text: str, name: str, file: Path, base: Path, problems: Problems, must_exist: bool
) -> Path | StoragePath | NotNamed:
    """The file `text` names; an absolute path of another machine names the same file of this project.

    The tools write absolute paths where a file was chosen in a dialog. A URI of an object store leads out of
    the project.
    """
    if "://" in text:
        from tideglass.storage import storage_path
        from tideglass.storage.store_uri import names_store

        if names_store(text):
            allowed = problems.bounds.roots is None
            return storage_path(text) if allowed else NotNamed("lies outside of the project", outside=True)
    path = named_path(base, text, problems.bounds, must_exist)
    absolute = PureWindowsPath(text)
    if isinstance(path, Path) or not absolute.root:
        return path
    parts = absolute.parts[1:]
    for start in range(len(parts)):
        for folder in (problems.folder, base):
            found = named_path(folder, "/".join(parts[start:]), problems.bounds)
            if isinstance(found, Path) and found.is_file():
                problems.notice(
                    file, f"the input {name!r} names {text}; {problems.place(found)} of the project is read"
                )
                return found
    return path


def _arrival_format(value: object, file: Path, problems: Problems) -> str:
    name = str(value or "iso").lower()
    if name not in ARRIVAL_FORMATS:
        problems.error(
            file, f'"ArrivalTimeFormat" is {value!r}, it must be one of {", ".join(ARRIVAL_FORMATS)}'
        )
    return name


def _format_of_name(path: Path | StoragePath | None) -> str | None:
    suffix = path.suffix.lower().removeprefix(".") if path else ""
    return suffix if suffix in FORMATS else None
