"""The journal of snapshots: which ones a job has found, in a directory all its tasks can reach.

<directory>/<input>-<hash>.jsonl    a line for each snapshot, in the order of the times from which they hold

The hash is of the place of the snapshots: an input that is read from elsewhere has found nothing yet.

Lines are only added, by the driver; a batch records how many of them count. So a batch that runs again, and a
run that reads the same events again, meet the snapshots of before.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tideglass.connect.reference.snapshot import FileSnapshot
from tideglass.connect.spec import ReferenceSpec
from tideglass.core.documents import Document
from tideglass.core.errors import FRESH, damaged
from tideglass.core.events import Known
from tideglass.core.file_names import state_name
from tideglass.storage import StoragePath, storage_path

#: How often new snapshots are looked for (`asa.md` 6.3: every minute).
LOOK_SECONDS = 60.0

#: A snapshot has a field `format`, that of its file.
_DOCUMENT = Document(FileSnapshot, key="version")


class ReferenceInput(Protocol):
    """The source of the snapshots of a reference input. Picklable."""

    @property
    def name(self) -> str: ...

    @property
    def spec(self) -> ReferenceSpec: ...

    def look(self, known: Sequence[FileSnapshot], now_ticks: int | None) -> list[FileSnapshot]:
        """Snapshots that have appeared since the last known one; see `References.find`."""
        ...


@dataclass(slots=True)
class JournaledReferences:
    """The reference inputs of a job and what it has found of them.

    directory: where the journals are, one per input: a path or URI.
    inputs: the reference inputs.
    look_seconds: how often sources are looked at.
    looks: False where another process does and this one goes by what is written down: one alone may write.
    """

    directory: str
    inputs: tuple[ReferenceInput, ...]
    look_seconds: float = LOOK_SECONDS
    looks: bool = True
    _looked: float | None = None
    _read: dict[str, list[FileSnapshot]] = field(default_factory=dict[str, list[FileSnapshot]])

    def find(self, now_ticks: int | None) -> Known:
        """What is known, after a look for new snapshots if it is time for one.

        Finished inputs (now_ticks None) are looked at once in a run, so that all its batches agree.
        """
        now = time.monotonic()
        again = self._looked is None or (now_ticks is not None and now - self._looked >= self.look_seconds)
        if self.looks and again:
            self._looked = now
            for each in self.inputs:
                known = self._load(each.name)
                fresh = each.look(known, now_ticks)
                if fresh:
                    self._add(each.name, fresh)
        return {each.name: len(self._load(each.name)) for each in self.inputs}

    def snapshots(self, name: str, count: int) -> Sequence[FileSnapshot]:
        found = self._read.get(name, [])
        if len(found) < count:
            found = self._load(name)
        if len(found) < count:
            problem = (
                f"has {len(found)} snapshots of the reference input {name!r}, but the batch counts on {count}"
            )
            raise damaged(self._path(name), problem, FRESH)
        return found[:count]

    def forget(self) -> None:
        """A job that begins anew has found nothing yet."""
        storage_path(self.directory).delete_folder()
        self._read = {}

    def _path(self, name: str) -> StoragePath:
        (spec,) = (each.spec for each in self.inputs if each.name == name)
        origin = hashlib.sha256(spec.model_dump_json().encode()).hexdigest()[:8]
        return storage_path(self.directory) / f"{state_name(name)}-{origin}.jsonl"

    def _load(self, name: str) -> list[FileSnapshot]:
        path = self._path(name)
        try:
            found = [_DOCUMENT.of_text(line) for line in path.read_lines()]
        except ValueError as error:
            raise damaged(path, f"does not say which reference data was found ({error})", FRESH) from error
        self._read[name] = found
        return found

    def _add(self, name: str, fresh: Sequence[FileSnapshot]) -> None:
        self._path(name).append_lines(_DOCUMENT.text(each) for each in fresh)


__all__ = ["LOOK_SECONDS", "JournaledReferences", "ReferenceInput"]
