"""`--input NAME=PATH,arrival=FIELD,partitions=folders`: files for an input, with the user's choices for them.

PATH may be in an object store, as `abfs://container@account.dfs.core.windows.net/folder`.

Choices follow the path. A comma belongs to the path unless one of CHOICES and `=` follow it; a path
with such a text in it doubles that comma.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tideglass.connect.formats.table import FORMATS, formats_that
from tideglass.core.errors import ProjectError
from tideglass.core.suggest import did_you_mean
from tideglass.project.file_reader import Problems
from tideglass.project.inputs import ARRIVAL_FORMATS, ROTATIONS, delimiter_of

if TYPE_CHECKING:  # that module checks its values, with a library that takes long to import
    from tideglass.connect.spec import Rotation
    from tideglass.storage import StoragePath

#: The choices that may follow a path, and their values.
CHOICES: Mapping[str, str] = {
    "arrival": "the field with the time of arrival; dots lead into records",
    "arrival-format": f"how that field says it: {', '.join(ARRIVAL_FORMATS)}",
    "partitions": "folders: each sub-folder is a partition; one: all files are one",
    "rotation": "how files take turns under one name: none, rename, copytruncate",
    "format": f"of the files, if their names do not tell: {', '.join(FORMATS)}",
    "capture": "files of Event Hubs Capture: the format of the messages in them, json, csv or avro",
    "delimiter": "of CSV: comma, semicolon, space, tab, bar",
}
_PARTITIONS: Mapping[str, Literal["one", "folders"]] = {"one": "one", "folders": "folders"}
_CHOICE = re.compile(rf"(?<!,),(?=(?:{'|'.join(CHOICES)})=)")
_DOUBLED = re.compile(rf",,(?=(?:{'|'.join(CHOICES)})=)")


@dataclass(frozen=True, slots=True)
class InputOption:
    """Files that a user names for an input. None: as the project describes the input, if it names it.

    path: a file, a folder, or a pattern of files; of reference data in a database what its URI is as a path.
    arrival: the payload field with the arrival time; dots lead into records.
    arrival_format: how that field is written.
    partitions: whether each sub-folder is an input partition, or all files are one.
    file_format: a name of FORMATS.
    delimiter: of CSV.
    rotation: how files take turns under one name.
    capture: of files of Event Hubs Capture, the format of the messages in them.
    """

    path: Path | StoragePath
    arrival: str | None = None
    arrival_format: str | None = None
    partitions: Literal["one", "folders"] | None = None
    file_format: str | None = None
    delimiter: str | None = None
    rotation: Rotation | None = None
    capture: str | None = None


def input_option(name: str, text: str) -> InputOption:
    """The files and choices after `NAME=`. Raises ProjectError for a choice that cannot be understood.

    >>> input_option("toll", "a,b.json,arrival=enqueued,partitions=folders").path.as_posix()
    'a,b.json'
    """
    path, *choices = _CHOICE.split(text)
    parts: dict[str, str] = {}
    for choice in choices:
        key, _, value = choice.partition("=")
        if key in parts:
            raise ProjectError(f"--input {name}: {key} is said twice")
        if not value:
            raise ProjectError(f"--input {name}: {key} says nothing; {key} is {CHOICES[key]}")
        parts[key] = value
    _check(name, parts)
    plain = _DOUBLED.sub(",", path)
    if not plain:
        raise ProjectError(f"--input {name!r} names no path; write {name}=PATH")
    return InputOption(
        named_place(plain),
        parts.get("arrival"),
        parts.get("arrival-format"),
        _PARTITIONS.get(parts.get("partitions", "")),
        parts.get("format"),
        _delimiter(name, parts.get("delimiter")),
        ROTATIONS.get(parts.get("rotation", "")),
        parts.get("capture"),
    )


def named_place(text: str) -> Path | StoragePath:
    """The place a user names on the command line. Raises StorageError for a URI that is not supported.

    >>> named_place("s3a://bucket/a")
    StoragePath('s3a://bucket/a')
    """
    from tideglass.storage import storage_path
    from tideglass.storage.store_uri import scheme_of

    databases = ("postgres", "postgresql")
    return storage_path(text) if scheme_of(text) not in ("", "file", *databases) else Path(text)


def input_options(texts: Sequence[str] | None) -> dict[str, InputOption]:
    """The inputs of `NAME=PATH` texts. Raises ProjectError for one that is none, or a name in two."""
    found: dict[str, InputOption] = {}
    for text in texts or ():
        name, equals, rest = text.partition("=")
        if not (name and equals and rest):
            raise ProjectError(f"--input {text!r} must be NAME=PATH")
        if name in found:
            raise ProjectError(f"--input names {name!r} twice; give one path, which may be a folder")
        found[name] = input_option(name, rest)
    return found


def hint_of_path(path: Path | StoragePath) -> str:
    """What may be wrong with a path that does not exist: a choice that is not known; '' for nothing.

    >>> hint_of_path(Path("a.json,arival=t"))
    "'arival' is no choice; did you mean 'arrival'?"
    """
    for key in reversed(re.findall(r",([A-Za-z-]+)=", str(path))):
        if key not in CHOICES:
            return f"{key!r} is no choice; {did_you_mean(key, CHOICES) or 'known are ' + ', '.join(CHOICES)}"
    return ""


def _check(name: str, parts: Mapping[str, str]) -> None:
    allowed = {
        "arrival-format": ARRIVAL_FORMATS,
        "partitions": tuple(_PARTITIONS),
        "rotation": tuple(ROTATIONS),
        "format": tuple(FORMATS),
        "capture": formats_that("messages"),
    }
    for key, values in allowed.items():
        if parts.get(key, values[0]) not in values:
            near = did_you_mean(parts[key], values) or f"it must be one of {', '.join(values)}"
            raise ProjectError(f"--input {name}: {key} is {parts[key]!r}; {near}")
    if "capture" in parts and ("arrival" in parts or "format" in parts):
        raise ProjectError(
            f"--input {name}: files of Capture are Avro and have times of arrival; say neither"
        )
    if "arrival-format" in parts and "arrival" not in parts:
        raise ProjectError(f"--input {name}: arrival-format without arrival=FIELD says nothing")


def _delimiter(name: str, text: str | None) -> str | None:
    if text is None:
        return None
    problems = Problems(Path())
    found = delimiter_of(text, Path(f"--input {name}"), problems)
    problems.raise_if_any()
    return found
