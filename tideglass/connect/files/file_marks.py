"""Knowing a file again: a mark holds which file was read under a name, how far, and what its bytes were.

A name alone does not identify a file: it may be rewritten, cut, or be another one by now. The content
counts, so that a copied or moved project goes on; the inode tells a file that was made again
with the same beginning, and finds one that was renamed. An object store has no inodes: there a number of the
object's version takes its place, so that one that has not been written since need not be read to be known.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import lru_cache

from tideglass.core.errors import InputError
from tideglass.storage import FileStatus, StoragePath

_FORMAT = "1"
#: Of a file's beginning and of what was read last, so many bytes are looked at.
_HEAD_BYTES, _TAIL_BYTES = 1 << 10, 1 << 12
_DIGEST_BYTES = 8


@dataclass(frozen=True, slots=True)
class FileMark:
    """A file as it was when its bytes up to `size` were taken.

    inode, folder_inode: of the file and of the folder it was in. In an object store the first is a number
        made of the object's version, and the second is 0.
    size: bytes that were taken.
    digest: of the file's first bytes and of the last ones before `size`.
    whole: the file was taken as a whole, so that nothing may follow after `size`.
    """

    inode: int
    folder_inode: int
    size: int
    digest: str
    whole: bool

    @classmethod
    def of(cls, path: StoragePath, status: FileStatus, size: int, *, whole: bool) -> FileMark:
        """The mark of a file that is taken up to `size`. status: of the file now."""
        return cls(inode_of(path, status), _folder_inode(path), size, _digest(path, size), whole)

    @classmethod
    def of_text(cls, text: str) -> FileMark:
        """What `text` was made of. Raises ValueError for what it never is."""
        written, inode, folder_inode, size, digest, whole = text.split(":")
        if written != _FORMAT:
            raise ValueError(f"a mark of a file has format {written}, this version reads {_FORMAT}")
        return cls(int(inode), int(folder_inode), int(size), digest, whole == "whole")

    def text(self) -> str:
        kind = "whole" if self.whole else "growing"
        return f"{_FORMAT}:{self.inode}:{self.folder_inode}:{self.size}:{self.digest}:{kind}"

    def change(self, path: StoragePath, status: FileStatus) -> str | None:
        """What has happened to the content since, in words; None if what was read is still there.

        status: of the file now.
        """
        if status.size < self.size:
            return f"has become shorter: {status.size} bytes of {self.size} are left"
        if not self._is_the_version(path, status) and not _is_unchanged(path, status, self):
            return "has been rewritten: the bytes that were read are others now"
        if self.whole and status.size > self.size:
            return "was read as a whole, and has grown since"
        return None

    def is_made_again(self, path: StoragePath, status: FileStatus) -> bool:
        """Whether another file has taken the place of the one that was read, though in the same folder.

        In another folder all files are others, and the content alone decides whether they are the same. So it
        does in an object store, where what is appended makes another version too.
        """
        if not path.is_local:
            return False
        return inode_of(path, status) != self.inode and _folder_inode(path) == self.folder_inode

    def _is_the_version(self, path: StoragePath, status: FileStatus) -> bool:
        return not path.is_local and self.folder_inode == 0 and inode_of(path, status) == self.inode


def inode_of(path: StoragePath, status: FileStatus) -> int:
    """The inode of a file; of an object a number made of its version."""
    if path.is_local:
        return os.stat(path.uri).st_ino
    return int.from_bytes(hashlib.blake2b(status.version.encode(), digest_size=7).digest())


def _folder_inode(path: StoragePath) -> int:
    return os.stat(os.path.dirname(path.uri) or ".").st_ino if path.is_local else 0


def changed(input_name: str, path: StoragePath, what: str) -> InputError:
    """The error of a file that is no longer the one that was read."""
    return InputError(
        f"[INPUT_CHANGED] {path} {what}; the input {input_name!r} reads it\n"
        "  hint: put back what was there, and write other events to a new file; if files take turns under "
        f"one name, say --input {input_name}=PATH,rotation=rename (or copytruncate); --fresh begins anew"
    )


def check_unchanged(
    input_name: str, path: StoragePath, status: FileStatus, mark: FileMark, *, finished: bool
) -> None:
    """Raises InputError if the file is not the one that was read, or what was read of it has changed.

    status: of the file now.
    """
    what = mark.change(path, status)
    if what is None and not finished and mark.is_made_again(path, status):
        what = "has been deleted and made again, or replaced, since it was read"
    if what is not None:
        raise changed(input_name, path, what)


def _digest(path: StoragePath, size: int) -> str:
    made = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    with path.open() as file:
        made.update(file.read(min(size, _HEAD_BYTES)))
        file.seek(max(0, size - _TAIL_BYTES))
        made.update(file.read(size - file.tell()))
    return made.hexdigest()


@lru_cache(maxsize=65536)
def _is_unchanged(path: StoragePath, status: FileStatus, mark: FileMark) -> bool:
    """Whether the bytes are those of the mark; asked once for a file as it is (version, size, time)."""
    return _digest(path, mark.size) == mark.digest
