"""Snapshots: small states kept by sender and batch number in a directory beside the checkpoint.

A snapshot is written wholly or not at all: on a disk under a temporary name and renamed, in an object store
as one put; its checksum shows later damage. Writing it again changes nothing, whoever does: the state of a
batch is a function of the offsets that Spark has logged for it. So an attempt that is late, of a task or of a
driver that was taken for dead, writes the bytes that are there.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from tideglass.core.at_once import MOST_AT_ONCE, at_once
from tideglass.core.durable import sync_files
from tideglass.core.errors import REBUILD, damaged
from tideglass.core.file_names import state_name
from tideglass.core.profile import measured
from tideglass.storage import StoragePath, storage_path

#: Batches whose snapshots stay: Spark may go back to the last committed batch, never further.
KEPT_BATCHES = 4

_NAME = re.compile(r"/(\d{10})\.state$")
#: A snapshot begins with this, the checksum of the rest, and a line end.
_MAGIC = b"tideglass state "
#: What earlier versions wrote begins so: an Arrow stream, or a JSON object. Its reader checks it.
_WITHOUT_CHECKSUM = (b"\xff\xff\xff\xff", b"{")


@dataclass(frozen=True, slots=True)
class Snapshots:
    """Snapshots under `directory`, a path or URI that all tasks can reach."""

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
        self.path(sender, batch).write(_head(body) + body, synced=synced)

    def sync(self, senders: Iterable[str]) -> None:
        """Make the newest snapshot of each sender durable."""
        if not storage_path(self.directory).is_local:
            return  # what an object store has taken is durable
        folders = (self.path(each, 0).parent.local for each in senders)
        newest = (max(folder.glob("*.state"), default=None) for folder in folders)
        sync_files([path for path in newest if path is not None])

    def forget_before(self, batch: int) -> None:
        """Remove the snapshots that no restart can need once `batch` is committed."""
        directory = storage_path(self.directory)
        found = ((each.name, _NAME.search(each.name)) for each in directory.list(recursive=True))
        old = [directory / name for name, match in found if match and int(match[1]) <= batch - KEPT_BATCHES]
        at_once(lambda path: path.unlink(missing_ok=True), old, 1 if directory.is_local else MOST_AT_ONCE)

    def path(self, sender: str, batch: int) -> StoragePath:
        return storage_path(self.directory) / state_name(sender) / f"{batch:010d}.state"


def _head(body: bytes) -> bytes:
    return _MAGIC + f"{zlib.crc32(body):08x}\n".encode()
