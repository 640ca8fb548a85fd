"""Names of users as names of files: no name is a path, and different names are different files.

Characters that every file system takes are written as they are, all others are escaped as `%` and two
digits: separators, dots that mean a folder, control characters, what Windows reserves. A name
that is too long for a file is cut, and its digest follows `%~`, which no escaped name holds. So names
that differ stay apart; names of one job that differ only in case do not occur (`asa.md` 2.1).
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from urllib.parse import quote

#: Most file systems take 255 bytes; the rest is for a prefix and a suffix of the name.
MOST_BYTES = 200
_KEPT_WHEN_CUT = 120

_PLAIN = frozenset("-_. ()+,=@#&'")
#: Windows takes these for devices, whatever follows a dot.
_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)", re.IGNORECASE)


def folder_name(name: str) -> str:
    """The folder for a name, as readable as file systems allow.

    >>> folder_name("per minute"), folder_name("../../evil"), folder_name(".."), folder_name("")
    ('per minute', '%2E.%2F..%2Fevil', '%2E%2E', '%')
    """
    composed = unicodedata.normalize("NFKC", name) == name  # else another spelling may be the same file
    made = [
        each
        if each in _PLAIN or (each.isalnum() and (composed or each.isascii()))
        else quote(each, safe="", errors="surrogatepass")
        for each in name
    ]
    if made and made[0] in (".", " "):
        made[0] = _escaped(made[0])
    if made and made[-1] in (".", " "):  # which Windows cuts off
        made[-1] = _escaped(made[-1])
    if _DEVICE.match(name):
        made[0] = _escaped(name[0])
    return _short("".join(made), name)


def state_name(name: str) -> str:
    """The file or folder for a name among the state of a job, in ASCII.

    >>> state_name("toll/3"), state_name("..")
    ('toll%2F3', '%2E.')
    """
    made = quote(name, safe="", errors="surrogatepass")
    if made in (".", "..") or _DEVICE.match(made):
        made = _escaped(made[0]) + made[1:]
    return _short(made, name)


def _escaped(character: str) -> str:
    return f"%{ord(character):02X}"


def _short(made: str, name: str) -> str:
    if len(made.encode()) <= MOST_BYTES:
        return made or "%"
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()
    return f"{quote(name, safe='', errors='surrogatepass')[:_KEPT_WHEN_CUT]}%~{digest[:32]}"
