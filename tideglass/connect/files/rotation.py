"""Files that take turns under one name (logrotate), each read once and to its end.

A file's turn under a name is a generation. In a position all of them have the name they were first seen
under; which file is meant follows from the marks of their pieces.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tideglass.connect.files.file_marks import FileMark
from tideglass.connect.spec import Rotation
from tideglass.core.positions import Piece, Position


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


def located(path: Path, mark: FileMark | None, rotation: Rotation) -> Path | None:
    """The file that was read under `path`, whatever its name is now; None if it is not there."""
    if mark is None or rotation == "none":
        return path if path.exists() else None
    if path.exists() and not mark.is_made_again(path) and mark.change(path) is None:
        return path
    return next((each for each in _beside(path) if _is_it(each, mark, rotation)), None)


def _is_it(beside: Path, mark: FileMark, rotation: Rotation) -> bool:
    """Whether a file beside the one of the name is what that was before."""
    if rotation == "rename" and mark.is_made_again(beside):
        return False  # a renamed file keeps its inode
    return mark.change(beside) is None and (mark.size > 0 or mark.inode == os.stat(beside).st_ino)


def _beside(path: Path) -> list[Path]:
    """The files whose names a rotation may have made of that of `path`, the newest first."""
    stem = path.name.split(".", 1)[0]
    if not path.parent.is_dir():
        return []
    found = [
        each
        for each in path.parent.iterdir()
        if each.name != path.name and each.name.startswith(stem) and each.is_file()
    ]
    return sorted(found, key=lambda each: (-os.stat(each).st_mtime_ns, each.name))


def is_rotated_name(name: str, names: Sequence[str]) -> bool:
    """Whether a name is that of another file and a number or date, as logrotate makes it.

    >>> is_rotated_name("app.json.1", ["app.json", "app.json.1"]), is_rotated_name("app.json", ["app.json"])
    (True, False)
    """
    return any(name != other and name.startswith((f"{other}.", f"{other}-")) for other in names)
