"""The formats of files and messages, a row each: a new one is a module of its own and a row here.

Functions are named by module and name below `tideglass.connect` and loaded when they are used, since a
project is checked without Arrow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import PurePosixPath
from typing import Any, Literal, Protocol


@dataclass(frozen=True, slots=True)
class Format:
    """A row of the table.

    suffixes: ends of file names of this format, `.gz` aside.
    parts: what of a file can be read by itself: a line; a row of CSV; a group of rows, as of Parquet; or
        nothing, so that the file is read as a whole and once.
    read: the events of a part of a file, see `files.reading.Read`.
    messages: the events of messages, see `formats.payloads.DecodeMessages`; None: no messages are read.
    write: rows to a file, see `files.output.Write`; None: no files are written.
    encode: rows as messages, see `kafka.encoding.Encode`; None: no messages are written.
    documents: whether a file of lines may hold one document instead, as an array of JSON.
    """

    suffixes: tuple[str, ...]
    parts: Literal["lines", "rows", "groups", "whole"]
    read: str
    messages: str | None = None
    write: str | None = None
    encode: str | None = None
    documents: bool = False


#: By the word of project files, in lower case; also how names of files end that are written.
FORMATS: Mapping[str, Format] = {
    "json": Format(
        (".json", ".jsonl", ".ndjson"),
        "lines",
        read="files.reading.read_json",
        messages="formats.payloads.json_messages",
        write="files.output.write_json",
        encode="kafka.encoding.encode_json",
        documents=True,
    ),
    "csv": Format(
        (".csv", ".tsv"),
        "rows",
        read="files.reading.read_csv",
        messages="formats.payloads.csv_messages",
        write="files.output.write_csv",
        encode="kafka.encoding.encode_csv",
    ),
    "parquet": Format(
        (".parquet",), "groups", read="files.reading.read_parquet", write="files.output.write_parquet"
    ),
    "avro": Format(
        (".avro",),
        "whole",
        read="files.reading.read_avro",
        messages="formats.payloads.avro_messages",
        write="formats.avro_rows.write_avro",
        encode="kafka.encoding.encode_avro",
    ),
}


def function(named: str) -> Any:
    """The function a row of the table names."""
    module, name = named.rsplit(".", 1)
    return getattr(import_module(f"tideglass.connect.{module}"), name)


class HasName(Protocol):
    """A path, wherever it leads."""

    @property
    def name(self) -> str: ...


def format_of(path: HasName) -> str | None:
    """The format by a file name, `.gz` aside; None when it shows none.

    >>> format_of(Path("tolls.json.gz"))
    'json'
    """
    suffix = PurePosixPath(path.name.lower().removesuffix(".gz")).suffix
    return next((name for name, each in FORMATS.items() if suffix in each.suffixes), None)


def formats_that(use: Literal["read", "messages", "write", "encode"]) -> tuple[str, ...]:
    """Names of the formats that can be used so.

    >>> formats_that("write")
    ('json', 'csv', 'parquet', 'avro')
    """
    return tuple(name for name, each in FORMATS.items() if getattr(each, use) is not None)


def in_words(names: tuple[str, ...]) -> str:
    """Names of formats for a message.

    >>> in_words(("json", "csv", "avro"))
    'Json, Csv or Avro'
    """
    shown = [name.capitalize() for name in names]
    return " or ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def known_ends() -> str:
    """The ends of file names that show a format, the first suffix of each, in words.

    >>> known_ends()
    '.json, .csv, .parquet or .avro'
    """
    ends = [each.suffixes[0] for each in FORMATS.values()]
    return f"{', '.join(ends[:-1])} or {ends[-1]}"
