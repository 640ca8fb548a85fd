"""What each batch has done to a folder of files: its files, and the rows that wait to become visible.

A record is written before the batch changes anything that a reader sees. So a batch that is run again knows
which files an earlier attempt of it may have made, and a later start knows which to withdraw. Rows that wait
lie in hidden files, which the newest record names; a file whose rows are visible is removed once the next
batch is recorded, when the batch that made them visible is known to be committed.

    _records/<generation>-<batch>.json    the record of a batch; the newest few are kept
    _records/continued-<generation>       the rows that wait in that generation go on to the next one
    _held/<batch>-<part>…                 rows that wait
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tideglass.connect.output import Batch
from tideglass.core.documents import Document
from tideglass.core.errors import OutputError
from tideglass.storage import StoragePath

RECORDS, HELD = "_records", "_held"
#: A start withdraws the one batch that was not committed; the rest helps who looks at a folder.
_KEPT = 16
_NAME = re.compile(r"(\d{4,})-(\d{8,})\.json")


@dataclass(frozen=True, slots=True)
class HeldPiece:
    """A hidden file of rows that wait.

    file: its name.
    folder: where its rows will be seen, from the output's folder; empty for that one.
    rows: how many.
    columns: what its rows must have in common with others in one file; see `files.row_pieces`.
    end_ticks: when its time partition ends; None for a pattern without times.
    since_ticks: the watermark when it came; None while none was known.
    """

    file: str
    folder: str
    rows: int
    columns: str = ""
    end_ticks: int | None = None
    since_ticks: int | None = None


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """A batch, as far as an output has taken it.

    files: what it makes visible, from the output's folder.
    added: the rows it has brought that wait first.
    held: the rows that wait after it.
    """

    generation: int
    number: int
    files: tuple[str, ...] = ()
    added: tuple[HeldPiece, ...] = ()
    held: tuple[HeldPiece, ...] = ()

    @property
    def batch(self) -> Batch:
        return Batch(self.generation, self.number)


_DOCUMENT = Document(BatchRecord)


@dataclass(frozen=True, slots=True)
class BatchRecords:
    """The records of an output's folder."""

    folder: StoragePath

    def batches(self) -> list[Batch]:
        """Those with a record, in their order."""
        found = (_NAME.fullmatch(each.name) for each in (self.folder / RECORDS).list())
        return sorted(Batch(int(match[1]), int(match[2])) for match in found if match)

    def of(self, batch: Batch) -> BatchRecord | None:
        """The record of a batch. Raises OutputError for one that is damaged."""
        path = self._path(batch)
        try:
            return _DOCUMENT.of_text(path.read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise OutputError(
                f"the record {path} of what the output has written is damaged: {error}\n"
                "  hint: name another folder, or start over with --fresh"
            ) from error

    def before(self, batch: Batch) -> BatchRecord | None:
        """The record of the last batch before that one. Raises OutputError for one that is damaged."""
        earlier = [each for each in self.batches() if each < batch]
        return self.of(earlier[-1]) if earlier else None

    def write(self, record: BatchRecord) -> None:
        """Write a record, and forget the oldest."""
        self._path(record.batch).write(_DOCUMENT.text(record).encode())
        for each in self.batches()[:-_KEPT]:
            self._path(each).unlink(missing_ok=True)

    def withdraw(self, after: Batch) -> None:
        """Remove what later batches of that generation have made, and let the rows that wait go on."""
        for each in self.batches():
            if each.generation == after.generation and each.number > after.number:
                record = self.of(each)
                self.remove(record.files if record else ())
                self._path(each).unlink(missing_ok=True)
        if self.batches():
            (self.folder / RECORDS / f"continued-{after.generation:04d}").write(b"")

    def first_continued(self, generation: int) -> int:
        """The first generation whose rows that wait have gone on, from one to the next, to this one."""
        while (self.folder / RECORDS / f"continued-{generation - 1:04d}").exists():
            generation -= 1
        return generation

    def remove(self, files: Iterable[str]) -> None:
        """Remove files of the output's folder."""
        for each in files:
            (self.folder / each).unlink(missing_ok=True)

    def remove_orphans(self) -> None:
        """Remove rows that no record names as waiting: those of attempts that are given up."""
        folder = self.folder / HELD
        found = [each for each in folder.list() if not each.is_folder]
        if not found:
            return
        records = [record for each in self.batches() if (record := self.of(each)) is not None]
        named = {piece.file for record in records for piece in (*record.held, *record.added)}
        for each in found:
            if each.name not in named:
                (folder / each.name).unlink(missing_ok=True)

    def forget(self) -> None:
        """Remove all records and all rows that wait."""
        for name in (RECORDS, HELD):
            (self.folder / name).delete_folder()

    def any(self) -> bool:
        """Whether an output has written here."""
        return bool(self.batches())

    def _path(self, batch: Batch) -> StoragePath:
        return self.folder / RECORDS / f"{batch.generation:04d}-{batch.number:08d}.json"
