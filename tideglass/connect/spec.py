"""The description of an input or an output by a user, checked once, as plain data."""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    field_validator,
    model_validator,
)

from tideglass.connect.files.file_format import Packing
from tideglass.connect.files.input_pattern import InputPattern
from tideglass.connect.formats.table import FORMATS
from tideglass.core.bounds import ANYWHERE, Bounds
from tideglass.storage import StoragePath, storage_path

#: none: a file that changes otherwise than by growing is an error. rename: it may be renamed in its folder,
#: and another appear under its name. copytruncate: it may be copied in its folder, and then be emptied.
Rotation = Literal["none", "rename", "copytruncate"]
ArrivalFormat = Literal["iso", "epoch_seconds", "epoch_milliseconds"]


def _known_format(name: str) -> str:
    if name not in FORMATS:
        raise ValueError(f"the format {name!r} is not known; known are {', '.join(FORMATS)}")
    return name


#: A path or URI, as text in JSON.
Place = Annotated[StoragePath, BeforeValidator(storage_path), PlainSerializer(str)]

#: The name of a row of FORMATS.
FormatName = Annotated[str, AfterValidator(_known_format)]


class Arrival(BaseModel):
    """The payload field with the arrival time of an event, instead of its file's modification time.

    path: names from the top of the event downwards. format: how a text or number is to be read; a
    datetime needs none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: tuple[str, ...] = Field(min_length=1)
    format: ArrivalFormat = "iso"


class InputSpec(BaseModel):
    """A stream input that is a file, a directory of files, or a pattern (`*` and `?` in its last part).

    name: of the input in the query.
    path: what is read, on a disk or in an object store.
    format: of all files; None: by their names.
    partitions: each sub-folder is a partition of its own, or all files are one.
    arrival: the payload field with the arrival time; None: events arrive when their file was last changed.
    delimiter: of CSV.
    finished: no file will appear or grow any more; the input ends.
    rotation: how files take turns under one name. No part of what the input is.
    bounds: where the files may lie, links followed. No part of what the input is.
    pattern: of the folders below `path` that are read, with their times and partitions; None: all are.
    compression: of all files, or of captured messages; None: by their names, or not at all.
    capture: the files are of Event Hubs Capture, and hold messages in this format; None: they are not.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    path: Place
    format: FormatName | None = None
    partitions: Literal["folders", "none"] = "none"
    arrival: Arrival | None = None
    delimiter: Literal[",", ";", " ", "\t", "|"] = ","
    finished: bool = True
    rotation: Rotation = Field(default="none", exclude=True)
    bounds: Bounds = Field(default=ANYWHERE, exclude=True, repr=False)
    pattern: InputPattern | None = None
    compression: Packing | None = None
    capture: Literal["json", "csv", "avro"] | None = None

    @property
    def has_arrivals(self) -> bool:
        """Whether each event has an arrival time of its own."""
        return self.arrival is not None or self.capture is not None

    @field_validator("arrival", mode="before")
    @classmethod
    def _arrival_by_name(cls, value: object) -> object:
        """A text is the name of a field at the top of the event."""
        return {"path": [value]} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _rotation_on_a_disk(self) -> InputSpec:
        """An object has no inode, by which a file is known under its next name."""
        if self.rotation != "none" and not self.path.is_local:
            raise ValueError(
                f"the rotation {self.rotation} is not yet supported in an object store, and {self.path} is "
                "in one; write each file under a name of its own"
            )
        return self

    @model_validator(mode="after")
    def _copies_of_one_file(self) -> InputSpec:
        """A copy that is being made looks like a file that is new, so it must not be listed."""
        if self.rotation == "copytruncate" and (self.path.is_dir() or "*" in self.path.name):
            raise ValueError(
                f"the rotation copytruncate is of one file, and {self.path} names several; name the file"
            )
        return self

    def identity(self, directory: StoragePath) -> dict[str, Any]:
        """What identifies this input, as JSON, for the manifest in `directory`."""
        return _identity(self, directory)


class SqlSpec(BaseModel):
    """A reference input that queries a database; see `connect.reference.database`.

    connection: a URI of PostgreSQL.
    snapshot_query: returns the whole table.
    delta_query: returns what has changed since a time; None where the table is always read whole.
    refresh: once, or every `interval_seconds` by one query or the other.
    interval_seconds: from one reading to the next.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    connection: str = Field(exclude=True, repr=False)  # may hold a password
    snapshot_query: str
    delta_query: str | None = None
    refresh: Literal["static", "full", "delta"] = "static"
    interval_seconds: int = Field(default=60, ge=60)


class ReferenceSpec(BaseModel):
    """A reference input: a file, files by a pattern with {date} and {time}, or a query of a database.

    name: of the input in the query.
    path: the file, or a path with {date} and {time}; None where a database is queried.
    date_format, time_format: what {date} and {time} stand for in the path.
    format: of all files; None: by their names.
    delimiter: of CSV.
    sql: the queries; None for files.
    bounds: where the files may lie, links followed. No part of what the input is.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    path: Place | None = None
    date_format: str = "YYYY/MM/DD"
    time_format: str = "HH"
    format: FormatName | None = None
    delimiter: Literal[",", ";", " ", "\t", "|"] = ","
    sql: SqlSpec | None = None
    bounds: Bounds = Field(default=ANYWHERE, exclude=True, repr=False)

    def identity(self, directory: StoragePath) -> dict[str, Any]:
        """What identifies this input, as JSON, for the manifest in `directory`."""
        return _identity(self, directory)


_ADDED = ("pattern", "compression", "capture")


def _identity(spec: InputSpec | ReferenceSpec, directory: StoragePath) -> dict[str, Any]:
    path = None if spec.path is None else path_seen_from(directory, spec.path)
    found = spec.model_dump(mode="json", exclude={"name", "finished"}) | {"path": path}
    # What was added later is not written where it says nothing, since earlier manifests lack it.
    return {key: value for key, value in found.items() if key not in _ADDED or value is not None}


def path_seen_from(directory: StoragePath, path: StoragePath) -> str:
    """What identifies a path in the manifest of a job directory: a URI, or where it is from there.

    So a project that is moved as a whole, its job directory inside, is the same.
    """
    if path.is_local and directory.is_local:
        return os.path.relpath(path.local.resolve(), directory.local.resolve())
    return str(path.resolve())
