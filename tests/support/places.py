"""Files that tests make on a disk or in an object store."""

from __future__ import annotations

from tideglass.storage import StoragePath


def put(path: StoragePath, text: str) -> StoragePath:
    """Make a file, or write it anew under the inode it has."""
    if path.is_local:
        path.parent.mkdir()
        path.local.write_text(text)
    else:
        path.write(text.encode())
    return path


def append(path: StoragePath, text: str) -> None:
    """Let a file grow. In a store that is another version of the whole, as it is of an append blob."""
    if path.is_local:
        with path.local.open("a") as file:
            file.write(text)
    else:
        path.write(path.read_bytes() + text.encode())
