"""Paths of files, wherever they are."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from tideglass.core.durable import whole_lines
from tideglass.core.errors import StorageError
from tideglass.storage.file_system import FileStatus, FileSystem
from tideglass.storage.local_files import LOCAL
from tideglass.storage.object_store import ObjectFileSystem
from tideglass.storage.store_uri import scheme_of, store_uri


@dataclass(frozen=True, slots=True, order=True)
class StoragePath:
    """The path of a file or folder, with what `pathlib` offers for it and this program uses.

    uri: what Spark reads; of a file of this machine its plain path. It holds no credentials.
    """

    uri: str

    def __str__(self) -> str:
        return self.uri

    def __repr__(self) -> str:
        return f"StoragePath({self.uri!r})"

    def __fspath__(self) -> str:
        """For functions that take files of this machine. Raises StorageError for a path elsewhere."""
        return str(self.local)

    @property
    def is_local(self) -> bool:
        """Whether it is on a disk that this machine mounts."""
        return "://" not in self.uri

    @property
    def local(self) -> Path:
        """For what needs a file of this machine. Raises StorageError for a path elsewhere."""
        if not self.is_local:
            raise StorageError(f"[NOT_ON_THIS_MACHINE] {self.uri} is needed as a file of this machine")
        return Path(self.uri)

    @property
    def file_system(self) -> FileSystem:
        return LOCAL if self.is_local else _object_files(self._root)

    @property
    def path(self) -> str:
        """The path in its file system."""
        return self.uri if self.is_local else self.uri[len(self._root) + 1 :]

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name

    @property
    def stem(self) -> str:
        return PurePosixPath(self.path).stem

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.path).suffix

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the path, before them the root of its file system."""
        return Path(self.uri).parts if self.is_local else (self._root, *PurePosixPath(self.path).parts)

    @property
    def parent(self) -> StoragePath:
        if self.is_local:
            return StoragePath(str(Path(self.uri).parent))
        return self._at(self.path.rpartition("/")[0])

    @property
    def parents(self) -> tuple[StoragePath, ...]:
        """The folders above, the nearest first."""
        found: list[StoragePath] = []
        below = self
        while (above := below.parent) != below:
            found.append(above)
            below = above
        return tuple(found)

    def __truediv__(self, part: str | Path | StoragePath) -> StoragePath:
        """A path below; one that is absolute or has a scheme stands for itself, as with `pathlib`."""
        text = str(part)
        if scheme_of(text):
            return storage_path(text)
        if self.is_local:
            return StoragePath(str(Path(self.uri) / text))
        if text.startswith("/"):
            return storage_path(text)
        parts: list[str] = [each for each in self.path.split("/") if each]
        for each in text.split("/"):
            if each == "..":
                parts = parts[:-1]
            elif each not in ("", "."):
                parts.append(each)
        return self._at("/".join(parts))

    def with_name(self, name: str) -> StoragePath:
        if self.is_local:
            return StoragePath(str(Path(self.uri).with_name(name)))
        return self.parent / name

    def with_suffix(self, suffix: str) -> StoragePath:
        return self.with_name(PurePosixPath(self.name).with_suffix(suffix).name)

    def relative_to(self, folder: StoragePath) -> str:
        """The path from a folder above it. Raises ValueError for a folder that is not above it."""
        if self.is_local and folder.is_local:
            return str(Path(self.uri).relative_to(folder.uri))
        if self.uri != folder.uri and not self.uri.startswith(f"{folder.uri}/"):
            raise ValueError(f"{self} is not below {folder}")
        return self.uri[len(folder.uri) + 1 :] or "."

    def is_relative_to(self, folder: StoragePath) -> bool:
        """Whether the folder is above it, or it is the folder itself."""
        return self == folder or folder in self.parents

    def as_posix(self) -> str:
        """The same as `str`, with `/` on all systems."""
        return Path(self.uri).as_posix() if self.is_local else self.uri

    def absolute(self) -> StoragePath:
        """From the root; a path that is elsewhere is so already."""
        return StoragePath(str(Path(self.uri).absolute())) if self.is_local else self

    def resolve(self) -> StoragePath:
        """Absolute and without links; a path that is elsewhere is so already."""
        return StoragePath(str(Path(self.uri).resolve())) if self.is_local else self

    def status(self) -> FileStatus | None:
        """What is there: a file, a folder, or None."""
        return self.file_system.status(self.path)

    def exists(self) -> bool:
        return os.path.exists(self.uri) if self.is_local else self.status() is not None

    def is_dir(self) -> bool:
        found = self.status()
        return found is not None and found.is_folder

    def is_file(self) -> bool:
        found = self.status()
        return found is not None and not found.is_folder

    def read_bytes(self) -> bytes:
        return self.file_system.read(self.path)

    def write_text(self, text: str) -> None:
        """Replace the content, or make the file; nobody waits for the disk."""
        self.write(text.encode(), synced=False)

    def read_text(self, encoding: str = "utf-8") -> str:
        """Raises UnicodeDecodeError for a file that is no text."""
        return self.read_bytes().decode(encoding)

    def read_lines(self) -> list[str]:
        """The whole lines, none where there is no file; a last line that a crash has cut is left out.

        Raises ValueError for a line that is not UTF-8.
        """
        try:
            body = self.read_bytes()
        except FileNotFoundError:
            return []
        return whole_lines(body)

    def open(self) -> BinaryIO:
        """To read and seek in."""
        return self.file_system.open(self.path)

    def write(self, body: bytes, *, synced: bool = True) -> None:
        """Replace the content, or make the file, wholly or not at all; missing folders are made."""
        self.file_system.write(self.path, body, synced=synced)

    def replacing(self, *, synced: bool = True) -> AbstractContextManager[BinaryIO]:
        """A file to write to, which takes this one's place when the block ends without an error."""
        return self.file_system.replacing(self.path, synced=synced)

    def create(self, body: bytes) -> bool:
        """Make the file unless there is one; whether this call has made it."""
        return self.file_system.create(self.path, body)

    def replace_if(self, body: bytes, version: str) -> bool:
        """Replace the file if it still has this version (`status().version`); whether it had."""
        return self.file_system.replace_if(self.path, body, version)

    def append_lines(self, lines: Iterable[str]) -> None:
        """Add lines, each without its line end; missing folders are made."""
        self.file_system.append_lines(self.path, lines)

    def append(self, body: bytes) -> None:
        """Add to the file, or make it; nobody waits for the disk."""
        self.file_system.append(self.path, body)

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the file. Raises FileNotFoundError if there is none and that is not `missing_ok`."""
        if not missing_ok and not self.exists():
            raise FileNotFoundError(self.uri)
        self.file_system.delete(self.path)

    def delete_folder(self) -> None:
        """Remove the folder with all that is in it; nothing happens if there is none."""
        self.file_system.delete_folder(self.path)

    def mkdir(self) -> None:
        """Make the folder and those above it where folders are made."""
        self.file_system.make_folder(self.path)

    def move(self, to: StoragePath) -> None:
        """Give the file another name in the same file system, over a file that has it."""
        if to.file_system != self.file_system:
            raise StorageError(f"[STORAGE_MOVE] {self} cannot be moved to {to}: that is another store")
        self.file_system.move(self.path, to.path)

    def list(self, *, recursive: bool = False) -> Sequence[FileStatus]:
        """What is in the folder, by name; nothing if there is no such folder."""
        return self.file_system.list(self.path, recursive=recursive)

    def iterdir(self) -> Iterator[StoragePath]:
        """What is in the folder, by name; nothing if there is no such folder."""
        return (self / each.name for each in self.list())

    def glob(self, pattern: str) -> Iterator[StoragePath]:
        """What is in this folder under names like the pattern; `**/` before it: all files below it."""
        deep = pattern.startswith("**/")
        names = pattern.removeprefix("**/")
        if "/" in names:
            raise ValueError(f"{pattern!r} has a folder in it")
        for each in self.list(recursive=deep):
            if fnmatch.fnmatchcase(each.name.rpartition("/")[2], names):
                yield self / each.name

    def _at(self, path: str) -> StoragePath:
        return StoragePath(f"{self._root}/{path}" if path else self._root)

    @property
    def _root(self) -> str:
        return "/".join(self.uri.split("/", 3)[:3])


#: What a user or a test names a file by.
AnyPath = str | Path | StoragePath


def storage_path(place: AnyPath) -> StoragePath:
    """The path a user means: a URI as Spark reads it, or a path of this machine.

    Raises StorageError for a URI of a kind that is not supported.

    >>> storage_path("s3a://bucket//a/"), storage_path("a/./b"), storage_path("file:///a")
    (StoragePath('s3a://bucket/a'), StoragePath('a/b'), StoragePath('/a'))
    """
    if isinstance(place, StoragePath):
        return place
    text = str(place)
    if text.startswith("file:/"):  # Hadoop writes one slash, others three
        return StoragePath(str(Path("/" + text.removeprefix("file:").lstrip("/"))))
    if not scheme_of(text):
        return StoragePath(str(Path(text)))
    found, path = store_uri(text)
    return StoragePath(f"{found.root}/{path}" if path else found.root)


@lru_cache(maxsize=64)
def _object_files(root: str) -> ObjectFileSystem:
    return ObjectFileSystem(store_uri(root)[0])
