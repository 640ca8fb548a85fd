"""Files on a disk of this machine, or on one that several machines mount."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import uuid
from collections.abc import Generator, Iterable
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO

from tideglass.core import durable
from tideglass.storage.file_system import FileStatus

#: What a file system without hard links answers to one.
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


class LocalFileSystem:
    """Files by their paths. What is written is on the disk when a call returns, unless it says otherwise."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalFileSystem)

    def __hash__(self) -> int:
        return hash(LocalFileSystem)

    def read(self, path: str) -> bytes:
        return Path(path).read_bytes()

    def open(self, path: str) -> BinaryIO:
        return Path(path).open("rb")

    def write(self, path: str, body: bytes, *, synced: bool = True) -> None:
        durable.replace_file(Path(path), body, synced=synced)

    def replacing(self, path: str, *, synced: bool = True) -> AbstractContextManager[BinaryIO]:
        return durable.replacing(Path(path), synced=synced)

    def create(self, path: str, body: bytes) -> bool:
        """A second name for a whole file: the disk refuses it if the name is taken."""
        target = Path(path)
        whole = target.with_name(f".{uuid.uuid4().hex}.tmp")
        durable.replace_file(whole, body)
        try:
            os.link(whole, target)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            with _locked(target.parent):
                if target.exists():
                    return False
                os.replace(whole, target)
        finally:
            whole.unlink(missing_ok=True)
        durable.sync_folder(target.parent)
        return True

    def replace_if(self, path: str, body: bytes, version: str) -> bool:
        """Under a lock of the folder, which whoever else compares and sets in it takes too."""
        target = Path(path)
        if not target.parent.is_dir():
            return False
        with _locked(target.parent):
            found = self.status(path)
            if found is None or found.is_folder or found.version != version:
                return False
            durable.replace_file(target, body)
        return True

    def append_lines(self, path: str, lines: Iterable[str]) -> None:
        durable.append_lines(Path(path), lines)

    def append(self, path: str, body: bytes) -> None:
        try:
            _append(path, body)
        except FileNotFoundError:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            _append(path, body)

    def list(self, folder: str, *, recursive: bool = False) -> list[FileStatus]:
        found = list(_statuses(Path(folder), "", recursive))
        return sorted(found, key=lambda each: each.name)

    def status(self, path: str) -> FileStatus | None:
        try:
            return _status(Path(path).name, os.stat(path))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def make_folder(self, path: str) -> None:
        Path(path).mkdir(parents=True, exist_ok=True)

    def move(self, path: str, to: str) -> None:
        Path(to).parent.mkdir(parents=True, exist_ok=True)
        os.replace(path, to)
        for folder in {Path(path).parent, Path(to).parent}:
            durable.sync_folder(folder)

    def delete(self, path: str) -> None:
        Path(path).unlink(missing_ok=True)

    def delete_folder(self, path: str) -> None:
        if Path(path).is_dir():
            shutil.rmtree(path)


#: The disks of this machine; there is nothing to tell two of these apart.
LOCAL = LocalFileSystem()


def _append(path: str, body: bytes) -> None:
    with Path(path).open("ab") as file:
        file.write(body)


def _statuses(folder: Path, prefix: str, recursive: bool) -> Generator[FileStatus]:
    try:
        entries = list(os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        name = prefix + entry.name
        if recursive and entry.is_dir(follow_symlinks=False):
            yield from _statuses(Path(entry.path), f"{name}/", recursive)
            continue
        try:
            found = entry.stat()
        except FileNotFoundError:  # removed since it was listed
            continue
        yield _status(name, found)


def _status(name: str, found: os.stat_result) -> FileStatus:
    if stat.S_ISDIR(found.st_mode):
        return FileStatus(name, 0, found.st_mtime_ns, "", is_folder=True)
    # A file is replaced by another one, so a write changes the inode within one tick of the clock too.
    version = f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}"
    return FileStatus(name, found.st_size, found.st_mtime_ns, version)


@contextmanager
def _locked(folder: Path) -> Generator[None]:
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
