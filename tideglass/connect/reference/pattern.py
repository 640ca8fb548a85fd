"""Path patterns with {date} and {time}: which files are snapshots, from when each holds (`asa.md` 6.3)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tideglass.connect.dated_names import format_regex, ticks_in
from tideglass.core.errors import InputError
from tideglass.storage import StoragePath, storage_path


def is_pattern(path: Path | StoragePath) -> bool:
    """Whether a path names snapshots by their times, and not one file.

    >>> is_pattern(Path("products/{date}/{time}/list.csv"))
    True
    """
    return "{date}" in str(path).lower()


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A pattern with `{date}`, maybe `{time}`, and the formats of both."""

    path: StoragePath
    date_format: str = "YYYY/MM/DD"
    time_format: str = "HH"

    def snapshots(self) -> Iterator[tuple[int, StoragePath]]:
        """The files there are with the time from which each holds, in that order.

        Raises InputError for a format that is none, and for a name that fits but is no date.
        """
        regex = re.compile(self._regex())
        folder = self._folder()
        found: list[tuple[int, StoragePath]] = []
        for each in folder.list(recursive=True):
            path = folder / each.name
            match = None if each.is_folder else regex.fullmatch(str(path))
            if match:
                found.append((self._ticks(match, path), path))
        yield from sorted(found)

    def _folder(self) -> StoragePath:
        """The folder below which all snapshots lie."""
        before = str(self.path).split("{", 1)[0]
        return storage_path(before.rpartition("/")[0] or ("/" if before.startswith("/") else "."))

    def _regex(self) -> str:
        result = ""
        for piece in re.split(r"(\{\w+\})", str(self.path)):
            if piece.lower() == "{date}":
                result += format_regex(self.date_format)
            elif piece.lower() == "{time}":
                result += format_regex(self.time_format)
            else:
                result += re.escape(piece)
        return result

    def _ticks(self, match: re.Match[str], path: StoragePath) -> int:
        try:
            return ticks_in(match.groupdict())
        except ValueError as error:
            raise InputError(
                f"{path} looks like a snapshot of {self.path}, but its name is no time: {error}\n"
                "  hint: check the formats of {date} and {time}, or move the file away"
            ) from error
