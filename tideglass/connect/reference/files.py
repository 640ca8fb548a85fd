"""Reference data in files: one that holds for all times, or one a time that its path names (`asa.md` 6.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tideglass.connect.formats.table import format_of, known_ends
from tideglass.connect.reference.pattern import PathPattern, is_pattern
from tideglass.connect.reference.snapshot import FileSnapshot
from tideglass.connect.spec import ReferenceSpec
from tideglass.core.errors import InputError
from tideglass.storage import StoragePath


@dataclass(frozen=True, slots=True)
class FileReference:
    """A reference input of files, by its spec."""

    spec: ReferenceSpec

    @property
    def name(self) -> str:
        return self.spec.name

    def look(self, known: Sequence[FileSnapshot], now_ticks: int | None) -> list[FileSnapshot]:
        """Snapshots that have appeared since the last known one, by the times from which they hold.

        One that is older than a known one is ignored. now_ticks: none is looked for before its time; None
        takes all. Raises InputError where there is none at all.
        """
        path = self.spec.path
        assert path is not None
        if not is_pattern(path):
            return [] if known else [self._found(path, None)]
        pattern = PathPattern(path, self.spec.date_format, self.spec.time_format)
        fresh = [
            self._found(file, ticks)
            for ticks, file in pattern.snapshots()
            if (not known or ticks > known[-1].effective_ticks) and (now_ticks is None or ticks <= now_ticks)
        ]
        if not known and not fresh:
            raise InputError(
                f"[REFERENCE_NOT_FOUND] no file of the reference input {self.name!r} fits {path} "
                f"({{date}} as {self.spec.date_format}, {{time}} as {self.spec.time_format})\n"
                "  hint: put a first snapshot there; its path says from when it holds, in UTC"
            )
        return fresh

    def _found(self, path: StoragePath, effective_ticks: int | None) -> FileSnapshot:
        bounds = self.spec.bounds
        if bounds.roots is not None and not (path.is_local and bounds.hold(path.local)):
            raise InputError(
                f"the reference input {self.name!r} reads {path}, which leads out of the project\n"
                f"  hint: name the files with --input {self.name}=PATH, or say --allow-outside"
            )
        return FileSnapshot.found(self.name, path, self._format(path), self.spec.delimiter, effective_ticks)

    def _format(self, path: StoragePath) -> str:
        found = self.spec.format or format_of(path)
        if found is None:
            raise InputError(
                f"the reference input {self.name!r} does not say its format, and {path.name} does not end in "
                f"{known_ends()}; give the input a format"
            )
        return found
