"""What a user says about an input or an output, checked once, as plain data."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from tideglass.core.bounds import ANYWHERE, Bounds

Format = Literal["json", "csv", "parquet", "avro"]
#: none: a file that changes otherwise than by growing is an error. rename: it may be renamed in its folder,
#: and another appear under its name. copytruncate: it may be copied in its folder, and then be emptied.
Rotation = Literal["none", "rename", "copytruncate"]
ArrivalFormat = Literal["iso", "epoch_seconds", "epoch_milliseconds"]

_SUFFIXES: dict[str, Format] = {
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".avro": "avro",
}


class Arrival(BaseModel):
    """The payload field that says when an event arrived, instead of its file's modification time.

    path: names from the top of the event downwards. format: how a text or number is to be read; a
    datetime needs none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: tuple[str, ...] = Field(min_length=1)
    format: ArrivalFormat = "iso"


class InputSpec(BaseModel):
    """A stream input that is a file, a directory of files, or a pattern (`*` and `?` in its last part).

    partitions: each sub-folder is a partition of its own, or all files are one. finished: no file will
    appear or grow any more; the input ends. delimiter: of CSV. rotation: how files take turns under one
    name. bounds: where the files may lie, links followed. Both are no part of what the input is.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    path: Path
    format: Format | None = None
    partitions: Literal["folders", "none"] = "none"
    arrival: Arrival | None = None
    delimiter: Literal[",", ";", " ", "\t", "|"] = ","
    finished: bool = True
    rotation: Rotation = Field(default="none", exclude=True)
    bounds: Bounds = Field(default=ANYWHERE, exclude=True, repr=False)

    @field_validator("arrival", mode="before")
    @classmethod
    def _arrival_by_name(cls, value: object) -> object:
        """A text is the name of a field at the top of the event."""
        return {"path": [value]} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _copies_of_one_file(self) -> InputSpec:
        """A copy that is being made cannot be told from a file that is new, so it must not be listed."""
        if self.rotation == "copytruncate" and (self.path.is_dir() or "*" in self.path.name):
            raise ValueError(
                f"the rotation copytruncate is of one file, and {self.path} names several; name the file"
            )
        return self

    def identity(self, directory: Path) -> dict[str, Any]:
        """What tells this input from another, as JSON, for the manifest in `directory`."""
        return _identity(self, directory)


class SqlSpec(BaseModel):
    """A reference input that queries a database; see `connect.reference.database`.

    connection: a URI of PostgreSQL. refresh: once, or every `interval_seconds` with the whole table or with
    what has changed, as `delta_query` tells.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    connection: str = Field(exclude=True, repr=False)  # may hold a password
    snapshot_query: str
    delta_query: str | None = None
    refresh: Literal["static", "full", "delta"] = "static"
    interval_seconds: int = Field(default=60, ge=60)


class ReferenceSpec(BaseModel):
    """A reference input: a file, files by a pattern with {date} and {time}, or a query of a database.

    date_format, time_format: what the two stand for in a path. bounds: as of an `InputSpec`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    path: Path | None = None
    date_format: str = "YYYY/MM/DD"
    time_format: str = "HH"
    format: Format | None = None
    delimiter: Literal[",", ";", " ", "\t", "|"] = ","
    sql: SqlSpec | None = None
    bounds: Bounds = Field(default=ANYWHERE, exclude=True, repr=False)

    def identity(self, directory: Path) -> dict[str, Any]:
        """What tells this input from another, as JSON, for the manifest in `directory`."""
        return _identity(self, directory)


def _identity(spec: InputSpec | ReferenceSpec, directory: Path) -> dict[str, Any]:
    """A project that is moved as a whole, its job directory inside, is the same."""
    path = None if spec.path is None else os.path.relpath(spec.path.resolve(), directory.resolve())
    return spec.model_dump(mode="json", exclude={"name", "finished"}) | {"path": path}


def format_of(path: Path) -> Format | None:
    """The format a file name tells, `.gz` aside; None when it tells none.

    >>> format_of(Path("tolls.json.gz"))
    'json'
    """
    name = path.name.lower().removesuffix(".gz")
    return _SUFFIXES.get(Path(name).suffix)
