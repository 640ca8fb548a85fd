"""Which files a project may name: those below its own folder, unless the command line allows others.

A project is often from people one does not know; what it names is read and shown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_DRIVE = re.compile(r"[A-Za-z]:")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_SHARE = re.compile(r"[\\/]{2}")
_EXPANDED = re.compile(r"~|.*[$%]\w|.*\$\{")


@dataclass(frozen=True, slots=True)
class Bounds:
    """Folders, and single files, below which everything that is read must lie.

    roots: None where everything may be read. Symbolic links are followed before paths are compared.
    """

    roots: tuple[Path, ...] | None = None

    def hold(self, path: Path) -> bool:
        """Whether `path` lies inside; a path that cannot be followed does not."""
        if self.roots is None:
            return True
        try:
            real = path.resolve()
            return any(real.is_relative_to(root.resolve()) for root in self.roots)
        except (OSError, ValueError, RuntimeError):  # too long, a NUL in it, links in a circle
            return False

    def with_root(self, root: Path) -> Bounds:
        """The bounds that also hold what lies below `root`."""
        return self if self.roots is None else Bounds((*self.roots, root))


ANYWHERE = Bounds()


def why_not_found(text: str) -> str:
    """Why a path that names nothing in the project cannot: in words that follow the path in a message.

    >>> why_not_found("C:\\\\data\\\\toll.json")
    'is a path of Windows, outside of the project'
    >>> why_not_found("toll.json")
    'does not exist'
    """
    if "\0" in text:
        return "holds the character NUL, which no path may"
    if _DRIVE.match(text) and not _URL.match(text):
        return "is a path of Windows, outside of the project"
    if _SHARE.match(text):
        return "is a path of a network, outside of the project"
    if _URL.match(text):
        return "is a URL, and no path of a file"
    if _EXPANDED.match(text):
        return "does not exist; `~` and variables of the environment are not replaced in it"
    return "does not exist"
