"""A file of lines that stays below a size: when it is full it is kept as `<name>.1`, and another begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tideglass.storage import StoragePath


@dataclass(frozen=True, slots=True)
class RotatedLines:
    """Lines in at most two files.

    path: of the newer file.
    most_bytes: a file that would grow past this is put aside first.
    """

    path: StoragePath
    most_bytes: int

    @property
    def older(self) -> StoragePath:
        """The file that was put aside last."""
        return self.path.with_name(f"{self.path.name}.1")

    def append(self, lines: Sequence[str]) -> None:
        """Add lines, without their line ends. Nobody waits for the disk: they are for people.

        Raises OSError or StorageError where they cannot be written.
        """
        if not lines:
            return
        body = "".join(f"{line}\n" for line in lines).encode()
        found = self.path.status()
        if found is not None and found.size + len(body) > self.most_bytes:
            self.path.move(self.older)
        self.path.append(body)
