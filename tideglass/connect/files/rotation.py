"""Files that take turns under one name (logrotate), each read once and to its end.

A file's turn under a name is a generation. In a position all of them have the name they were first seen
under; which file is meant follows from the marks of their pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tideglass.connect.files.file_marks import FileMark, inode_of
from tideglass.connect.spec import Rotation
from tideglass.core.positions import Piece, Position
from tideglass.storage import FileStatus, StoragePath


@dataclass(frozen=True, slots=True)
class Generation:
    """A file that was read under a name.

    name: the one the file was first seen under.
    number: counts the files of the name, from 1.
    read_to: the end of what is read, in bytes or groups of rows.
    mark: by what the file is known again; None if an earlier version of tideglass has read it.
    """

    name: str
    number: int
    read_to: int
    mark: FileMark | None

    @property
    def title(self) -> str:
        """What distinguishes it from the other files of the name."""
        return self.name if self.number == 1 else f"{self.name}#{self.number}"


def mark_of(piece: Piece) -> FileMark | None:
    """The mark of a piece; None if an earlier version of tideglass has read it."""
    return None if piece.mark is None else FileMark.of_text(piece.mark)


def generations(position: Position) -> tuple[list[Generation], list[Generation]]:
    """The generations in the order in which they were first read, and the generation of each piece."""
    found: dict[str, list[Generation]] = {}
    order: list[tuple[str, int]] = []
    of_pieces: list[Generation] = []
    for piece in position:
        name, end, mark = piece.where, piece.end, mark_of(piece)
        of_name = found.setdefault(name, [])
        place = _continued(of_name, piece.begin, mark)
        if place is None:
            place = len(of_name)
            order.append((name, place))
            of_name.append(Generation(name, place + 1, end, mark))
        of_name[place] = replace(of_name[place], read_to=end, mark=mark or of_name[place].mark)
        of_pieces.append(of_name[place])
    return [found[name][place] for name, place in order], of_pieces


def _continued(of_name: Sequence[Generation], begin: int, mark: FileMark | None) -> int | None:
    """Which generation of a name a piece continues; None if it begins one."""
    fitting = [n for n, each in enumerate(of_name) if each.read_to == begin]
    same = [n for n in fitting if (own := of_name[n].mark) and mark and own.inode == mark.inode]
    if same or fitting:
        return (same or fitting)[-1]
    return len(of_name) - 1 if begin > 0 and of_name else None  # after what is gone and was left out


def located(path: StoragePath, mark: FileMark | None, rotation: Rotation) -> StoragePath | None:
    """The file that was read under `path`, whatever its name is now; None if it is not there."""
    status = path.status()
    if mark is None or rotation == "none":
        return None if status is None else path
    if status is not None and not mark.is_made_again(path, status) and mark.change(path, status) is None:
        return path
    return next((file for file, each in _beside(path) if _is_it(file, each, mark, rotation)), None)


def _is_it(beside: StoragePath, status: FileStatus, mark: FileMark, rotation: Rotation) -> bool:
    """Whether a file beside the one of the name is what that was before."""
    if rotation == "rename" and mark.is_made_again(beside, status):
        return False  # a renamed file keeps its inode
    same = mark.size > 0 or mark.inode == inode_of(beside, status)
    return mark.change(beside, status) is None and same


def _beside(path: StoragePath) -> list[tuple[StoragePath, FileStatus]]:
    """The files whose names a rotation may have made of that of `path`, the newest first."""
    stem, folder = path.name.split(".", 1)[0], path.parent
    found = [
        (folder / each.name, each)
        for each in folder.list()
        if each.name != path.name and each.name.startswith(stem) and not each.is_folder
    ]
    return sorted(found, key=lambda each: (-each[1].modified_ns, each[1].name))


def is_rotated_name(name: str, names: Sequence[str]) -> bool:
    """Whether a name is that of another file and a number or date, as logrotate makes it.

    >>> is_rotated_name("app.json.1", ["app.json", "app.json.1"]), is_rotated_name("app.json", ["app.json"])
    (True, False)
    """
    return any(name != other and name.startswith((f"{other}.", f"{other}-")) for other in names)
