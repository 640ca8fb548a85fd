"""Snapshots: small states kept by sender and batch number in a directory beside the checkpoint.

A snapshot is written under a temporary name and renamed, so a reader finds all of it or nothing; its checksum
shows later damage. Writing it again changes nothing: the state of a batch is a function of its input.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tideglass.core.durable import replacing, sync_files
from tideglass.core.errors import REBUILD, damaged
from tideglass.core.file_names import state_name
from tideglass.core.profile import measured

#: Batches whose snapshots stay: Spark may go back to the last committed batch, never further.
KEPT_BATCHES = 4

_NAME = re.compile(r"(\d{10})\.state")
#: A snapshot begins with this, the checksum of the rest, and a line end.
_MAGIC = b"tideglass state "
#: What earlier versions wrote begins so: an Arrow stream, or a JSON object. Its reader checks it.
_WITHOUT_CHECKSUM = (b"\xff\xff\xff\xff", b"{")


@dataclass(frozen=True, slots=True)
class Snapshots:
    """Snapshots under `directory`, which all tasks can reach."""

    directory: str

    @measured("reading state")
    def load(self, sender: str, batch: int) -> bytes | None:
        """The state `sender` had after `batch`; None for a sender that had none yet.

        Raises StateError for one that is damaged.
        """
        path = self.path(sender, batch)
        try:
            body = path.read_bytes()
        except FileNotFoundError:
            return None
        head, rest = body[: len(_MAGIC) + 9], body[len(_MAGIC) + 9 :]
        if body.startswith(_WITHOUT_CHECKSUM):
            return body
        if head != _head(rest):
            raise damaged(path, "is not what was written", REBUILD)
        return rest

    @measured("writing state")
    def save(self, sender: str, batch: int, body: bytes, *, synced: bool = True) -> None:
        """Keep the state after a batch. synced: on the disk when this returns; else see `sync`."""
        with replacing(self.path(sender, batch), synced=synced) as file:
            file.write(_head(body))
            file.write(body)

    def sync(self, senders: Iterable[str]) -> None:
        """Make the newest snapshot of each sender durable."""
        newest = (max(self.path(each, 0).parent.glob("*.state"), default=None) for each in senders)
        sync_files([path for path in newest if path is not None])

    def forget_before(self, batch: int) -> None:
        """Remove the snapshots that no restart can need once `batch` is committed."""
        for path in Path(self.directory).glob("*/*.state"):
            match = _NAME.fullmatch(path.name)
            if match and int(match[1]) <= batch - KEPT_BATCHES:
                path.unlink(missing_ok=True)

    def path(self, sender: str, batch: int) -> Path:
        return Path(self.directory) / state_name(sender) / f"{batch:010d}.state"


def _head(body: bytes) -> bytes:
    return _MAGIC + f"{zlib.crc32(body):08x}\n".encode()
