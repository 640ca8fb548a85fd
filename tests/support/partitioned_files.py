"""Rows for outputs whose files are spread over folders, and what a reader finds there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from tideglass.core.json_rows import table_of
from tideglass.core.time import ticks_of_datetime
from tideglass.storage import StoragePath, storage_path

START = ticks_of_datetime(datetime(2026, 3, 9, tzinfo=UTC))


def rows_at(rows: Sequence[tuple[int, int]]) -> pa.Table:
    """Rows of one column `n`. rows: the time of each and its number."""
    return table_of([{"$ts": time_ticks, "n": number} for time_ticks, number in rows])


def files_in(path: StoragePath | Path) -> dict[str, bytes]:
    """What a reader finds: every file that is not hidden."""
    folder = storage_path(path)
    names = [each.name for each in folder.list(recursive=True) if not each.is_folder]
    shown = [name for name in names if not any(part[0] in "._" for part in name.split("/"))]
    return {name: (folder / name).read_bytes() for name in shown}


def numbers_in(path: StoragePath | Path) -> dict[str, list[int]]:
    """The numbers of each folder, sorted."""
    found: dict[str, list[int]] = {}
    for name, body in files_in(path).items():
        values = [json.loads(line)["n"] for line in body.decode().splitlines()]
        folder = name.rpartition("/")[0]
        found[folder] = sorted([*found.get(folder, []), *values])
    return found
