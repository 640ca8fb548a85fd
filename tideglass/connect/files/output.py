"""Directories of files that take each batch exactly once: staged in the tasks, committed on the driver.

A task writes its rows to the hidden folder `_staging`; the driver renames what the batch's tasks report to
`part-<batch>-<part>.<format>`. The final name does not hold the attempt, so a batch that is run again
replaces what it had written; other files of the same batch, and what dead attempts left, are removed.
A job that begins anew counts its batches anew: from its second beginning (generation) on, names start with
`part-g<generation>-<batch>-`, which sorts after those of earlier generations.

An object store has no renaming: there the staged object is copied to its name, under which a reader finds it
wholly or not at all, and then deleted (`docs/decisions/0038`).
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeAlias, TypeVar, cast

import pyarrow as pa
import pyarrow.parquet

from tideglass.connect.files.batch_records import BatchRecords
from tideglass.connect.files.staging import (
    STAGING,
    file_prefix,
    part_name,
    publish_file,
    remove_file,
    staged_file,
)
from tideglass.connect.formats.layout import csv_bytes, parquet_table
from tideglass.connect.formats.table import FORMATS, formats_that, function
from tideglass.connect.output import Batch, OutputConnector
from tideglass.connect.spec import path_seen_from
from tideglass.core.arrays import pc
from tideglass.core.at_once import MOST_AT_ONCE, at_once
from tideglass.core.durable import sync_folder
from tideglass.core.errors import OutputError
from tideglass.core.failpoints import failpoint
from tideglass.core.iso import flat, string_buffers
from tideglass.core.json_rows import json_lines
from tideglass.storage import StoragePath, storage_path

_Item = TypeVar("_Item")

#: Writes rows to a file: rows, delimiter of CSV, the file.
Write: TypeAlias = Callable[[pa.Table, str, BinaryIO], None]

_ROWS = 1 << 17  # made into text at once: tens of megabytes, far below the 2 GB a column can hold

#: Generation, which the first one leaves out, and number in the name of a file.
_BATCH = re.compile(r"part-(?:g(\d{4,})-)?(\d{8,})-")


@dataclass(frozen=True, slots=True)
class FileOutput(OutputConnector):
    """A directory of files, one or more per batch.

    name: of the output in the query.
    path: the directory, on a disk or in an object store.
    format: one of FORMATS that is written.
    delimiter: of CSV.
    """

    name: str
    path: StoragePath
    format: str = "json"
    delimiter: str = ","

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", storage_path(self.path))  # who extends tideglass may name a Path
        known = formats_that("write")
        if self.format not in known:
            raise OutputError(
                f"the output {self.name!r} has the format {self.format!r}; known are {', '.join(known)}"
            )

    def own_folder(self) -> StoragePath:
        return self.path

    @property
    def guarantee(self) -> str:
        return "exactly once"

    def stage(self, rows: pa.Table, sender: str) -> pa.Table:
        """Write the rows where no reader sees them yet. Works in any process that sees the directory.

        Raises OutputError if the directory cannot be written.
        """
        part = part_name(sender)
        if rows.num_rows == 0:
            return pa.table({"part": [part], "temporary": [""]})
        write = cast("Write", function(FORMATS[self.format].write or ""))
        temporary = self.path / STAGING / f"{part}-{uuid.uuid4().hex[:8]}.{self.format}"
        try:
            with staged_file(temporary) as file:
                write(rows, self.delimiter, file)
        except OSError as error:
            raise OutputError(
                f"the output {self.name!r} cannot be written to {self.path}: {error}"
            ) from error
        return pa.table({"part": [part], "temporary": [temporary.name]})

    def publish(self, batch: Batch, staged: Sequence[pa.Table]) -> Sequence[pa.Table]:
        """Rename the files of a batch to their names. Raises OutputError if a staged file is gone."""
        prefix, staging = file_prefix(batch), self.path / STAGING
        parts = [row for table in staged for row in table.to_pylist() if row["temporary"]]
        moves = [
            (staging / part["temporary"], self.path / f"{prefix}{part['part']}.{self.format}")
            for part in parts
        ]
        self._at_once(publish_file, moves)
        failpoint(f"inside-publish-{self.name}", batch.number)
        current = {final.name for _, final in moves}
        others = [file for file in self.path.glob(f"{prefix}*") if file.name not in current]
        self._at_once(remove_file, [*others, *staging.glob("*")])
        if self.path.is_local and self.path.is_dir():
            sync_folder(self.path.local)
        return ()

    def newest_batch(self, job_id: str) -> Batch | None:
        found = (_BATCH.match(file.name) for file in self.path.glob("part-*"))
        return max((Batch(int(each[1] or 1), int(each[2])) for each in found if each), default=None)

    def withdraw(self, after: Batch) -> None:
        named = re.compile(
            re.escape(file_prefix(Batch(after.generation, 0))).replace("00000000", r"(\d{8,})")
        )
        matches = [(file, named.match(file.name)) for file in self.path.glob("part-*")]
        later = [file for file, found in matches if found is not None and int(found[1]) > after.number]
        self._at_once(remove_file, later)
        BatchRecords(self.path).withdraw(after)

    def identity(self, directory: StoragePath) -> Mapping[str, Any]:
        """A project that is moved as a whole, its job directory inside, is the same."""
        path = path_seen_from(directory, self.path)
        # What state on disk holds; `rows_shown` has been the same for every output.
        return {"path": path, "format": self.format, "delimiter": self.delimiter, "rows_shown": 20}

    def describe(self) -> str:
        return str(self.path)

    def check(self, ours: Collection[StoragePath]) -> None:
        if self.path not in ours and any(self.path.glob("part-*")):
            raise OutputError(
                f"the output {self.name!r} already holds files of another run in {self.path}\n"
                "  hint: name another directory with --output, or replace them with --overwrite"
            )

    def clear(self, *, rows: bool) -> None:
        staging = self.path / STAGING
        if staging.is_local and staging.local.is_symlink():  # files it leads to are not ours to remove
            staging.local.unlink()
        written = self.path.glob("part-*") if rows else ()
        self._at_once(remove_file, [*written, *staging.glob("*")])

    def _at_once(self, call: Callable[[_Item], None], items: Sequence[_Item]) -> None:
        """A disk takes one after the other in less time than threads take to start."""
        at_once(call, items, 1 if self.path.is_local else MOST_AT_ONCE)


def write_json(table: pa.Table, delimiter: str, file: BinaryIO) -> None:
    for at in range(0, table.num_rows, _ROWS):
        file.write(_ended_lines(table.slice(at, _ROWS)))


def write_csv(table: pa.Table, delimiter: str, file: BinaryIO) -> None:
    file.write(csv_bytes(table, delimiter))


def write_parquet(table: pa.Table, delimiter: str, file: BinaryIO) -> None:
    cast("Any", pyarrow.parquet).write_table(parquet_table(table), file)


def _ended_lines(table: pa.Table) -> Any:
    """One line per row; with its end joined to each, the lines are the bytes of the column."""
    ended = flat(pc.binary_join_element_wise(json_lines(table), "", "\n"))
    return memoryview(cast("Any", ended.buffers()[2]))[: int(string_buffers(ended)[0][-1])]
