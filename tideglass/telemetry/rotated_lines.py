"""A file of lines that stays below a size: when it is full it is kept as `<name>.1`, and another begins."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RotatedLines:
    """Lines in at most two files.

    path: of the newer file.
    most_bytes: a file that would grow past this is put aside first.
    """

    path: Path
    most_bytes: int

    @property
    def older(self) -> Path:
        """The file that was put aside last."""
        return self.path.with_name(f"{self.path.name}.1")

    def append(self, lines: Sequence[str]) -> None:
        """Add lines, without their line ends. Nobody waits for the disk: they are for people.

        Raises OSError where they cannot be written.
        """
        if not lines:
            return
        body = "".join(f"{line}\n" for line in lines).encode()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists() and self.path.stat().st_size + len(body) > self.most_bytes:
            os.replace(self.path, self.older)
        with self.path.open("ab") as file:
            file.write(body)
