"""How the content of a file is written: its format, and how it is compressed (`asa.md` 6.1)."""

from __future__ import annotations

from typing import Literal, NamedTuple

from tideglass.connect.formats.table import FORMATS
from tideglass.storage import StoragePath

#: How a file is compressed: not at all; gzip; deflate, with zlib's header or without it.
Packing = Literal["", "gzip", "deflate"]


class FileFormat(NamedTuple):
    """The format of a file.

    name: of a row of FORMATS. packing: how the file as a whole is compressed.
    """

    name: str
    packing: Packing = ""

    @property
    def is_whole(self) -> bool:
        """Whether a file of any content can only be read from its start."""
        return FORMATS[self.name].parts == "whole" or bool(self.packing)

    @property
    def has_groups(self) -> bool:
        """Whether places in a file count groups of rows instead of bytes."""
        return FORMATS[self.name].parts == "groups"


def packing_of(path: str | StoragePath, named: Packing | None = None) -> Packing:
    """How a file is compressed: as its input says, or else as its name shows.

    >>> packing_of("a.json.gz"), packing_of("a.json"), packing_of("a.json", "deflate")
    ('gzip', '', 'deflate')
    """
    return named or ("gzip" if str(path).lower().endswith(".gz") else "")
