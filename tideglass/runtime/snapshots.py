"""Snapshots: small states kept by sender and batch number in a directory beside the checkpoint.

Written whole under a temporary name and renamed, so a reader finds all of one or nothing. Writing
the same one again is harmless: the state of a batch is a function of its input.
"""

from __future__ import annotations

import os
import re
import uuid
from dataclasses import dataclass
from pathlib import Path

from tideglass.core.file_names import state_name
from tideglass.core.profile import measured

#: Batches whose snapshots stay: Spark may go back to the last committed batch, never further.
KEPT_BATCHES = 4

_NAME = re.compile(r"(\d{10})\.state")


@dataclass(frozen=True, slots=True)
class Snapshots:
    """Snapshots under `directory`, which all tasks can reach."""

    directory: str

    @measured("reading state")
    def load(self, sender: str, batch: int) -> bytes | None:
        """The state `sender` had after `batch`; None for a sender that had none yet."""
        path = self._path(sender, batch)
        return path.read_bytes() if path.exists() else None

    @measured("writing state")
    def save(self, sender: str, batch: int, body: bytes) -> None:
        path = self._path(sender, batch)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{uuid.uuid4().hex}")
        temporary.write_bytes(body)
        os.replace(temporary, path)

    def forget_before(self, batch: int) -> None:
        """Remove what no restart can ask for once `batch` is committed."""
        for path in Path(self.directory).glob("*/*.state"):
            match = _NAME.fullmatch(path.name)
            if match and int(match[1]) <= batch - KEPT_BATCHES:
                path.unlink(missing_ok=True)

    def _path(self, sender: str, batch: int) -> Path:
        return Path(self.directory) / state_name(sender) / f"{batch:010d}.state"
