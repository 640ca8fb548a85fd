"""Path patterns with {date} and {time}: which files are snapshots, from when each holds (`asa.md` 6.3)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tideglass.core.errors import InputError
from tideglass.core.time import ticks_of_datetime
from tideglass.storage import StoragePath, storage_path

#: What a date or time format may be made of, besides / - and _ between them.
_PARTS = {"YYYY": "year", "MM": "month", "DD": "day", "HH": "hour", "mm": "minute", "ss": "second"}
_DIGITS = {"YYYY": 4}


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
                result += self._regex_of(self.date_format)
            elif piece.lower() == "{time}":
                result += self._regex_of(self.time_format)
            else:
                result += re.escape(piece)
        return result

    def _regex_of(self, text: str) -> str:
        pieces = re.split(r"(YYYY|MM|DD|HH|mm|ss)", text)
        if not any(piece in _PARTS for piece in pieces) or not re.fullmatch(r"[-/_]*", "".join(pieces[::2])):
            raise InputError(
                f"{text!r} is no format of a date or time; write one such as YYYY-MM-DD or HH-mm"
            )
        return "".join(
            rf"(?P<{_PARTS[piece]}>\d{{{_DIGITS.get(piece, 2)}}})" if piece in _PARTS else re.escape(piece)
            for piece in pieces
        )

    def _ticks(self, match: re.Match[str], path: StoragePath) -> int:
        numbers = {name: int(text) for name, text in match.groupdict().items()}
        try:
            return ticks_of_datetime(datetime(**{"day": 1, "month": 1, **numbers}, tzinfo=UTC))
        except (ValueError, TypeError) as error:
            raise InputError(
                f"{path} looks like a snapshot of {self.path}, but its name is no time: {error}\n"
                "  hint: check the formats of {date} and {time}, or move the file away"
            ) from error
