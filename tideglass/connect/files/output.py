"""Directories of files that take each batch exactly once: staged in the tasks, committed on the driver.

A task writes its rows to the hidden folder `_staging`; the driver renames what the batch's tasks report to
`part-<batch>-<part>.<format>`. The final name does not tell the attempt, so a batch that is run again
replaces what it had written; other files of the same batch, and what dead attempts left, are removed.
A job that begins anew counts its batches anew: from its second beginning (generation) on, names start with
`part-g<generation>-<batch>-`, which sorts behind those of the earlier ones.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from tideglass.connect.formats.layout import csv_bytes, parquet_table
from tideglass.connect.spec import OutputSpec
from tideglass.core.durable import sync_folder
from tideglass.core.errors import OutputError
from tideglass.core.iso import flat, string_buffers
from tideglass.core.rows import json_lines

pc = cast("Any", pyarrow.compute)  # its functions are made at import, unseen by type checkers

STAGING = "_staging"

_ROWS = 1 << 17  # made into text at once: tens of megabytes, far below the 2 GB a column can hold


@dataclass(frozen=True, slots=True)
class Staged:
    """What a task has written of one output in one batch; `temporary` is empty if there were no rows."""

    directory: str
    batch_id: int
    temporary: str
    final: str
    rows: int
    bytes: int
    generation: int = 1

    def to_json(self) -> dict[str, str | int]:
        return asdict(self)


def stage(table: pa.Table, spec: OutputSpec, batch_id: int, part_name: str, attempt: str) -> Staged:
    """Write the rows where no reader sees them yet. Works in any process that sees the directory.

    part_name: tells the parts of a batch apart and is the same when the batch is run again; attempt: is not.
    Raises OutputError if the directory cannot be written.
    """
    if spec.path is None:
        raise OutputError(f"the output {spec.name!r} has no directory; give it a path")
    final = f"{file_prefix(batch_id)}{part_name}.{spec.format}"
    if table.num_rows == 0:
        return Staged(str(spec.path), batch_id, "", final, 0, 0)
    staging = spec.path / STAGING
    temporary = staging / f"{batch_id:08d}-{part_name}-{attempt}.{spec.format}"
    try:
        staging.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb") as file:
            _write(table, spec, file)
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
    except OSError as error:
        raise OutputError(f"the output {spec.name!r} cannot be written to {spec.path}: {error}") from error
    return Staged(str(spec.path), batch_id, temporary.name, final, table.num_rows, size)


def commit(staged: Sequence[Staged]) -> int:
    """Make the rows of one batch visible, all manifests of it at once; the number of rows.

    May be repeated after a crash in its middle. Raises OutputError if a staged file is gone.
    """
    for directory in sorted({each.directory for each in staged}):
        parts = [each for each in staged if each.directory == directory]
        root = Path(directory)
        for part in parts:
            if part.temporary:
                _publish(root / STAGING / part.temporary, root / part.final)
        current = {part.final for part in parts if part.temporary}
        for batch_id, generation in {(part.batch_id, part.generation) for part in parts}:
            _remove_rest(root, batch_id, generation, current)
        if root.is_dir():
            sync_folder(root)
    return sum(each.rows for each in staged)


def file_prefix(batch_id: int, generation: int = 1) -> str:
    """How the names of the files of a batch begin.

    >>> file_prefix(7), file_prefix(7, generation=2)
    ('part-00000007-', 'part-g0002-00000007-')
    """
    return f"part-{batch_id:08d}-" if generation == 1 else f"part-g{generation:04d}-{batch_id:08d}-"


def _write(table: pa.Table, spec: OutputSpec, file: BinaryIO) -> None:
    if spec.format == "json":
        for at in range(0, table.num_rows, _ROWS):
            file.write(_ended_lines(table.slice(at, _ROWS)))
    elif spec.format == "csv":
        file.write(csv_bytes(table, spec.delimiter))
    else:
        cast("Any", pyarrow.parquet).write_table(parquet_table(table), file)


def _ended_lines(table: pa.Table) -> Any:
    """One line per row; with its end joined to each, the lines are the bytes of the column."""
    ended = flat(pc.binary_join_element_wise(json_lines(table), "", "\n"))
    return memoryview(cast("Any", ended.buffers()[2]))[: int(string_buffers(ended)[0][-1])]


def _publish(temporary: Path, final: Path) -> None:
    try:
        os.replace(temporary, final)
    except FileNotFoundError as error:
        if not final.exists():  # else this commit is repeated, and had come this far
            raise OutputError(f"{temporary} was staged, but is gone; run the batch again") from error


def _remove_rest(root: Path, batch_id: int, generation: int, current: set[str]) -> None:
    for file in root.glob(f"{file_prefix(batch_id, generation)}*"):
        if file.name not in current:
            file.unlink(missing_ok=True)
    for file in (root / STAGING).glob("*"):
        stage_batch = file.name.split("-", 1)[0]
        if stage_batch.isdigit() and int(stage_batch) <= batch_id:
            file.unlink(missing_ok=True)
