"""Reading results back: an output directory, or a result file of the service's tools (`asa.md` 10.1)."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet

from tideglass.connect.formats.avro import container_blocks
from tideglass.connect.formats.parquet import decode_parquet
from tideglass.connect.formats.table import format_of
from tideglass.core.errors import OutputError
from tideglass.core.events import Fields
from tideglass.core.json_rows import rows_of
from tideglass.storage import StoragePath, storage_path


def read_rows(path: StoragePath | Path | str, delimiter: str = ",") -> list[dict[str, Any]]:
    """All rows, of a directory in the order of its file names; hidden files and `_staging` are left out.

    JSON may be an array, one object per line, or objects joined by commas. Values of CSV are text.
    Raises OutputError if there is nothing or it cannot be read.
    """
    folder = storage_path(path)
    if not folder.exists():
        raise OutputError(f"there are no results at {path}")
    if folder.is_file():
        return _rows_of_file(folder, delimiter)
    files = [folder / each.name for each in folder.list() if not each.is_folder and each.name[0] not in "._"]
    return [row for file in files for row in _rows_of_file(file, delimiter)]


def _rows_of_file(path: StoragePath, delimiter: str) -> list[dict[str, Any]]:
    file_format = format_of(path) or "json"
    if file_format == "parquet":
        with path.open() as file:
            table = cast("Any", pyarrow.parquet).read_table(file)
        return rows_of(decode_parquet(table, Fields(whole=True)).table)
    if file_format == "avro":
        with path.open() as file:
            return [row for block in container_blocks(file) for row in block.records]
    text = path.read_bytes().decode("utf-8-sig")
    if file_format == "csv":
        return [dict(row) for row in csv.DictReader(text.splitlines(keepends=True), delimiter=delimiter)]
    try:
        return _json_rows(text)
    except ValueError as error:
        raise OutputError(f"{path} holds no JSON rows: {error}") from error


def _json_rows(text: str) -> list[dict[str, Any]]:
    decoder = json.JSONDecoder()
    stripped = text.strip()
    if stripped.startswith("["):
        return cast("list[dict[str, Any]]", json.loads(stripped))
    rows: list[dict[str, Any]] = []
    at = 0
    while at < len(stripped):
        row, at = decoder.raw_decode(stripped, at)
        rows.append(cast("dict[str, Any]", row))
        while at < len(stripped) and stripped[at] in ", \t\r\n":
            at += 1
    return rows
