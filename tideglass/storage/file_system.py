"""What a place for files must do: the smallest set that a local disk and an object store both keep to.

Nothing here renames a folder, locks a file or changes a file in place, since object stores do not. What they
do, and what takes the place of a lock, is `create` (put if absent) and `replace_if` (compare and set).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import BinaryIO, Protocol


@dataclass(frozen=True, slots=True)
class FileStatus:
    """A file or folder as its file system lists it.

    name: of a listing: relative to the listed folder, with `/`; of a single file: its last part
    size: bytes; 0 for a folder
    modified_ns: when it was last written, nanoseconds since 1970, by the clock of its store; 0 for a folder
    of an object store, which has none
    version: changes with every write; empty for a folder. On S3 it follows from the content alone, so whoever
        compares versions writes something different each time
    is_folder: whether it is a folder
    """

    name: str
    size: int
    modified_ns: int
    version: str
    is_folder: bool = False


class FileSystem(Protocol):
    """Files under absolute paths with `/`. It can be pickled, and carries no credentials then.

    All raise FileNotFoundError for a file that must be there and is not, and StorageError for a store that
    cannot be reached or refuses. Folders are made by writing into them.
    """

    def read(self, path: str) -> bytes:
        """The whole content of a file."""
        ...

    def open(self, path: str) -> BinaryIO:
        """A file to read and seek in."""
        ...

    def write(self, path: str, body: bytes, *, synced: bool = True) -> None:
        """Replace the content of a file, or make it: a reader finds the old or the new one, wholly.

        synced: wait until it outlives a power loss. An object store always does.
        """
        ...

    def replacing(self, path: str, *, synced: bool = True) -> AbstractContextManager[BinaryIO]:
        """A file to write to, which takes the place of `path` when the block ends without an error."""
        ...

    def create(self, path: str, body: bytes) -> bool:
        """Make a file unless one is there; of several that try at once one gets True, all others False."""
        ...

    def replace_if(self, path: str, body: bytes, version: str) -> bool:
        """Replace a file if it still has a version; False if it has another one or is gone."""
        ...

    def append_lines(self, path: str, lines: Iterable[str]) -> None:
        """Add lines to a file, or make it. lines: without their line ends."""
        ...

    def append(self, path: str, body: bytes) -> None:
        """Add to a file, or make it; what is for people, so nobody waits for the disk."""
        ...

    def list(self, folder: str, *, recursive: bool = False) -> Sequence[FileStatus]:
        """What is in a folder, by name; nothing if there is no such folder.

        recursive: all files below it, and no folders.
        """
        ...

    def status(self, path: str) -> FileStatus | None:
        """A file or folder; None if there is none."""
        ...

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it. In an object store there is nothing to do."""
        ...

    def move(self, path: str, to: str) -> None:
        """Give a file another name, over a file that has it; a store copies it, then deletes it."""
        ...

    def delete(self, path: str) -> None:
        """Remove a file; nothing happens if there is none."""
        ...

    def delete_folder(self, path: str) -> None:
        """Remove a folder with all that is in it; nothing happens if there is none."""
        ...
