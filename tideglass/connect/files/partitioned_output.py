"""A folder of files that are spread over folders by a pattern, each row exactly once (`asa.md` 6.5).

Rows become visible with their batch, as those of `files.output`: staged by the tasks, and moved to
`<folder>/part-<batch>-<part>` by the driver. Two settings make them wait instead:

* a minimum of rows (Avro, Parquet): rows of a folder wait until they are enough, the maximum time is over, or
  no more can come for its time partition;
* once: rows wait until no more can come for their time partition.

Rows that wait are in hidden files that records name (`files.batch_records`). What becomes of them is decided
in `advance` from the records and the watermark alone, so a batch that is run again decides the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from tideglass.connect.azure.storage_account import StorageAccount
from tideglass.connect.files.folder_pattern import FolderPattern
from tideglass.connect.files.staging import STAGING, file_prefix, publish_file, remove_file
from tideglass.connect.formats.table import formats_that
from tideglass.connect.output import Batch, OutputConnector
from tideglass.core.at_once import MOST_AT_ONCE, at_once
from tideglass.core.durable import make_folder, sync_folder
from tideglass.core.errors import OutputError, OutputUnavailable, StorageError
from tideglass.core.time import AFTER_ALL_TICKS, BEFORE_ALL_TICKS
from tideglass.storage import StoragePath, storage_path

if TYPE_CHECKING:  # a project is read without Arrow, and without what codes documents
    import pyarrow as pa

    from tideglass.connect.files.batch_records import BatchRecord, BatchRecords, HeldPiece
    from tideglass.connect.files.row_pieces import RowFiles

_Item = TypeVar("_Item")

_OF_A_BATCH = re.compile(r"part-(?:g(\d{4,})-)?\d{8,}-")
#: What the store's own messages say of what may pass.
_MAY_PASS = ("[STORAGE_FAILED]", "[STORAGE_BUSY]")


@dataclass(frozen=True, slots=True)
class Waiting:
    """When rows of a folder that wait become visible.

    rows: how many are enough.
    time_ticks: how far the watermark may go on meanwhile.
    once: only when their time partition is over; the others do not count then.
    """

    rows: int = 0
    time_ticks: int = 0
    once: bool = False


@dataclass(frozen=True, slots=True)
class PartitionedFileOutput(OutputConnector):
    """Files in folders by a pattern.

    name: of the output in the query.
    path: the folder above all that depends on a row, on a disk or in an object store.
    pattern: of the folders below it.
    format: one of FORMATS that is written.
    delimiter: of CSV.
    array: of JSON: each file is an array.
    waiting: None for rows that become visible with their batch.
    account: what lets the run into the store; None for a store that the environment describes.
    """

    name: str
    path: StoragePath
    pattern: FolderPattern = field(default_factory=FolderPattern)
    format: str = "json"
    delimiter: str = ","
    array: bool = False
    waiting: Waiting | None = None
    account: StorageAccount | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", storage_path(self.path))
        known = formats_that("write")
        if self.format not in known:
            raise OutputError(
                f"the output {self.name!r} has the format {self.format!r}; known are {', '.join(known)}"
            )
        if self.waiting is not None and self.waiting.once:
            if not (self.pattern.has("date") and self.pattern.has("time")):
                raise OutputError(
                    f"the output {self.name!r} is written once for each time partition; its path pattern "
                    f"{self.pattern.text!r} must hold {{date}} and {{time}}"
                )
            if self.pattern.column is not None:
                raise OutputError(
                    f"the output {self.name!r} is written once for each time partition; its path pattern "
                    f"{self.pattern.text!r} may hold no column, and holds {{{self.pattern.column}}}"
                )
        elif self.waiting is not None:
            unit_ticks = self.pattern.unit_ticks
            if unit_ticks is not None and self.waiting.time_ticks > unit_ticks:
                raise OutputError(
                    f"the output {self.name!r} waits for rows longer than a time partition of its path "
                    f"pattern {self.pattern.text!r} lasts: one {self.pattern.unit}"
                )

    def stage(self, rows: pa.Table, sender: str) -> pa.Table:
        """Write the rows of each folder where no reader sees them yet.

        Raises OutputError for a column of the pattern that is not there or cannot name a folder, and where
        nothing can be written.
        """
        from tideglass.connect.files.row_folders import stage_rows

        return stage_rows(self, rows, sender)

    def prepare(self) -> None:
        """Look into the folder. Raises OutputError where the store lets nobody in, or has no container."""
        with self._unavailable():
            try:
                self._records.batches()
            except StorageError as error:
                if any(each in str(error) for each in _MAY_PASS):
                    raise
                raise OutputError(f"the output {self.name!r} cannot be written: {error}") from error

    def publish(self, batch: Batch, staged: Sequence[pa.Table]) -> Sequence[pa.Table]:
        """Move the files of a batch to their names, or to where rows wait.

        Raises OutputError if a staged file is gone, OutputUnavailable where the store does not answer.
        """
        from tideglass.connect.files.batch_records import HELD, BatchRecord

        with self._unavailable():
            found = [row for table in staged for row in table.to_pylist()]
            previous, old = self._previous(batch), self._records.of(batch)
            if self.waiting is None:
                files = [
                    f"{_below(row['folder'])}{file_prefix(batch)}{row['part']}.{self.format}" for row in found
                ]
                record = BatchRecord(batch.generation, batch.number, tuple(files))
                names = files
            else:
                added = tuple(self._piece(batch, number, row) for number, row in enumerate(found))
                shown = () if old is None else old.files  # `advance` makes them again, or removes them
                record = BatchRecord(batch.generation, batch.number, shown, added, (*previous, *added))
                names = [f"{HELD}/{each.file}" for each in added]
            self._forget_attempt(old, record)
            self._records.write(record)
            moves = [
                (self.path / STAGING / row["temporary"], self.path / name)
                for row, name in zip(found, names, strict=True)
            ]
            self._make_folders([final.parent for _, final in moves])
            self._at_once(publish_file, moves)
            self._sync([final.parent for _, final in moves])
            self._at_once(remove_file, [*(self.path / STAGING).glob("*")])
        return ()

    def advance(self, batch: Batch, watermark_ticks: int) -> None:
        """Make rows visible that need wait no longer. Raises OutputUnavailable."""
        if watermark_ticks < AFTER_ALL_TICKS:
            self._release(batch, watermark_ticks)
        else:
            self.finish(batch)

    def finish(self, batch: Batch) -> None:
        """Make all rows visible that wait. Raises OutputUnavailable."""
        self._release(batch, AFTER_ALL_TICKS)

    def _release(self, batch: Batch, watermark_ticks: int) -> None:
        from tideglass.connect.files.batch_records import BatchRecord

        waiting = self.waiting
        if waiting is None:
            return
        with self._unavailable():
            old = self._records.of(batch)
            added = () if old is None else old.added
            previous = self._previous(batch)
            known_ticks = watermark_ticks if BEFORE_ALL_TICKS < watermark_ticks < AFTER_ALL_TICKS else None
            pieces = [
                replace(each, since_ticks=known_ticks) if each.since_ticks is None else each
                for each in (*previous, *added)
            ]
            folders: dict[str, list[HeldPiece]] = {}
            for each in pieces:
                folders.setdefault(each.folder, []).append(each)
            due = {
                folder: each for folder, each in folders.items() if _is_due(waiting, each, watermark_ticks)
            }
            files = {
                f"{_below(folder)}{file_prefix(batch)}{number}.{self.format}": own
                for folder, each in due.items()
                for number, own in enumerate(self._files_of(each))
            }
            held = tuple(each for each in pieces if each.folder not in due)
            record = BatchRecord(batch.generation, batch.number, tuple(files), added, held)
            if old is None and held == previous:
                return  # nothing has changed since the record before
            if record != old:
                self._forget_attempt(old, record)
                self._records.write(record)
            for name, own in files.items():
                self._compose(name, own)
            if waiting.once:
                self._remove_overwritten(batch, due)
            self._remove_shown(self._records.before(batch))

    def _previous(self, batch: Batch) -> tuple[HeldPiece, ...]:
        """The rows that wait before a batch."""
        if self.waiting is None:
            return ()
        later = [each for each in self._records.batches() if each > batch]
        if later:
            raise OutputError(
                f"the output {self.name!r} has taken batch {later[-1].number:,} of generation "
                f"{later[-1].generation}, and is given batch {batch.number:,} of generation "
                f"{batch.generation}: the job's state is older than its output\n"
                "  hint: start over with --fresh"
            )
        found = self._records.before(batch)
        if found is None:
            return ()
        first = self._records.first_continued(batch.generation)
        if self.waiting.once and found.generation < first:
            return ()  # a start at another time gives the rows of the partition anew
        return found.held

    def _piece(self, batch: Batch, number: int, row: Mapping[str, Any]) -> HeldPiece:
        from tideglass.connect.files.batch_records import HeldPiece

        name = f"{file_prefix(batch)}{row['part']}-{number}.{self.format}"
        return HeldPiece(name, row["folder"], row["rows"], row["columns"], row["end_ticks"])

    def _files_of(self, pieces: Sequence[HeldPiece]) -> list[list[HeldPiece]]:
        """Which pieces of a folder make which file."""
        from tideglass.connect.files.row_pieces import MOST_ROWS

        files: list[list[HeldPiece]] = []
        for each in pieces:
            last = files[-1] if files else []
            full = (
                self.format not in ("json", "csv") and sum(own.rows for own in last) + each.rows > MOST_ROWS
            )
            if last and not full and self.files.joins([own.columns for own in last], each.columns):
                last.append(each)
            else:
                files.append([each])
        return files

    def _compose(self, name: str, pieces: Sequence[HeldPiece]) -> None:
        """Write a file of rows that have waited."""
        opened = [(each.columns, partial(self._open, each)) for each in pieces]
        with (self.path / name).replacing() as file:
            self.files.join(opened, file)

    def _open(self, piece: HeldPiece) -> Any:
        try:
            return (self._held(piece)).open()
        except FileNotFoundError as error:
            raise OutputError(
                f"rows that wait for the output {self.name!r} are gone: {error}\n"
                "  hint: somebody else has removed them; start over with --fresh"
            ) from error

    def _remove_overwritten(self, batch: Batch, folders: Collection[str]) -> None:
        """Of the time partitions that are written, remove the files of a job that has begun anew since."""
        first = self._records.first_continued(batch.generation)
        for folder in folders:
            for file in (self.path / folder if folder else self.path).glob("part-*"):
                generation = generation_of(file.name)
                if generation is not None and generation < first:
                    remove_file(file)

    def _remove_shown(self, previous: BatchRecord | None) -> None:
        """Remove waiting rows that the batch before has made visible: it is committed by now."""
        if previous is None:
            return
        earlier = self._records.before(previous.batch)
        held = {each.file for each in previous.held}
        pieces = (*(() if earlier is None else earlier.held), *previous.added)
        self._at_once(remove_file, [self._held(each) for each in pieces if each.file not in held])

    def _held(self, piece: HeldPiece) -> StoragePath:
        from tideglass.connect.files.batch_records import HELD

        return self.path / HELD / piece.file

    def _forget_attempt(self, old: BatchRecord | None, record: BatchRecord) -> None:
        """Remove what an earlier attempt of the batch has made and this one does not make again."""
        if old is not None:
            self._records.remove(each for each in old.files if each not in record.files)
            added = {each.file for each in record.added}
            for each in old.added:
                if each.file not in added:
                    remove_file(self._held(each))

    def newest_batch(self, job_id: str) -> Batch | None:
        return max(self._records.batches(), default=None)

    def withdraw(self, after: Batch) -> None:
        self._records.withdraw(after)

    def identity(self, directory: StoragePath) -> Mapping[str, Any]:
        """A project that is moved as a whole, its job directory inside, is the same."""
        from tideglass.connect.spec import path_seen_from

        return {
            "path": path_seen_from(directory, self.path),
            "pattern": self.pattern.text,
            "date_format": self.pattern.date_format,
            "time_format": self.pattern.time_format,
            "format": self.format,
            "delimiter": self.delimiter,
            "array": self.array,
            "once": self.is_once,
        }

    def describe(self) -> str:
        return str(self.path / self.pattern.text) if self.pattern.text else str(self.path)

    @property
    def is_once(self) -> bool:
        """Whether the rows of a time partition become visible together."""
        return self.waiting is not None and self.waiting.once

    @property
    def guarantee(self) -> str:
        return "exactly once"

    def own_folder(self) -> StoragePath:
        return self.path

    def storage_settings(self) -> Mapping[str, str]:
        return {} if self.account is None else self.account.settings()

    def check(self, ours: Collection[StoragePath]) -> None:
        if self.path not in ours and self._records.any():
            raise OutputError(
                f"the output {self.name!r} already holds files of another run in {self.path}\n"
                "  hint: name another directory with --output, or replace them with --overwrite"
            )

    def clear(self, *, rows: bool) -> None:
        staging = self.path / STAGING
        if staging.is_local and staging.local.is_symlink():  # files it leads to are not ours to remove
            staging.local.unlink()
        self._at_once(remove_file, [*staging.glob("*")])
        if not rows:
            self._records.remove_orphans()
            return
        listed = (self.path / each.name for each in self.path.list(recursive=True) if not each.is_folder)
        self._at_once(remove_file, [each for each in listed if generation_of(each.name) is not None])
        self._records.forget()

    @property
    def _records(self) -> BatchRecords:
        from tideglass.connect.files.batch_records import BatchRecords

        return BatchRecords(self.path)

    @property
    def files(self) -> RowFiles:
        """How its files are written."""
        from tideglass.connect.files.row_pieces import RowFiles

        return RowFiles(self.format, self.delimiter, self.array)

    def _make_folders(self, folders: Sequence[StoragePath]) -> None:
        if self.path.is_local:
            for each in dict.fromkeys(folders):
                make_folder(each.local)

    def _sync(self, folders: Sequence[StoragePath]) -> None:
        if self.path.is_local:
            for each in dict.fromkeys(folders):
                sync_folder(each.local)

    def _at_once(self, call: Callable[[_Item], None], items: Sequence[_Item]) -> None:
        """A disk takes one after the other in less time than threads take to start."""
        at_once(call, items, 1 if self.path.is_local else MOST_AT_ONCE)

    @contextmanager
    def _unavailable(self) -> Generator[None]:
        """What a store cannot do now, as the error that is tried again."""
        try:
            yield
        except StorageError as error:
            if any(each in str(error) for each in _MAY_PASS):
                raise OutputUnavailable(f"the output {self.name!r} cannot be written now: {error}") from error
            raise


def generation_of(name: str) -> int | None:
    """Of the batch that has written a file; None for a file that no batch has written.

    >>> generation_of("part-g0002-00000007-0.json"), generation_of("part-00000007-0.json"), generation_of("x")
    (2, 1, None)
    """
    found = _OF_A_BATCH.match(name)
    return None if found is None else int(found[1] or 1)


def _is_due(waiting: Waiting, pieces: Sequence[HeldPiece], watermark_ticks: int) -> bool:
    """Whether the rows of a folder become visible."""
    if watermark_ticks >= AFTER_ALL_TICKS:
        return True
    known = watermark_ticks > BEFORE_ALL_TICKS
    if known and all(each.end_ticks is not None and watermark_ticks >= each.end_ticks - 1 for each in pieces):
        return True
    if waiting.once:
        return False
    since_ticks = [each.since_ticks for each in pieces if each.since_ticks is not None]
    waited = known and bool(since_ticks) and watermark_ticks - min(since_ticks) >= waiting.time_ticks
    return waited or sum(each.rows for each in pieces) >= waiting.rows


def _below(folder: str) -> str:
    return f"{folder}/" if folder else ""
