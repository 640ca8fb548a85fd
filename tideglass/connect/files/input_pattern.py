"""Path patterns of stream inputs: `logs/{partition}/{date}/{time}` (`asa.md` 6.1).

A pattern names folders; all files below them are read. `{date}` and `{time}` say the time of a folder, by
which folders are read in ascending order; `{partition}` is the number of the input partition.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from tideglass.connect.dated_names import format_regex, formatted, parts_of_format, periods_around, ticks_in
from tideglass.core.errors import InputError
from tideglass.core.time import BEFORE_ALL_TICKS

_TOKEN = re.compile(r"\{(date|time|partition)\}", re.IGNORECASE)
_ANY_TOKEN = re.compile(r"\{[^}]*\}")
#: So many periods before the present one are looked at as often as the present one.
PERIODS_BEFORE = 2


class PlaceInPattern(NamedTuple):
    """Where a file stands. partition: its name. folder_ticks: the time of its folder."""

    partition: str
    folder_ticks: int


def split_pattern(path: str) -> tuple[str, str] | None:
    """The folder before the first token of a path and the pattern from there on; None without tokens.

    >>> split_pattern("/a/b/{partition}/c-{date}"), split_pattern("/a")
    (('/a/b', '{partition}/c-{date}'), None)
    """
    found = _TOKEN.search(path)
    if found is None:
        return None
    folder, slash, name = path[: found.start()].rpartition("/")
    return (folder or slash or "."), name + path[found.start() :]


@dataclass(frozen=True, slots=True)
class InputPattern:
    """A pattern of folders below the path of an input.

    text: the pattern; empty: everything.
    date_format, time_format: what {date} and {time} stand for.
    partition_count: how many partitions there are said to be.

    Raises InputError for a token that is not known, and for a format that is none.
    """

    text: str = ""
    date_format: str = "YYYY/MM/DD"
    time_format: str = "HH"
    partition_count: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", self.text.replace("\\", "/").strip("/"))
        other = next((each for each in _ANY_TOKEN.findall(self.text) if not _TOKEN.fullmatch(each)), None)
        if other is not None:
            raise InputError(
                f"the path pattern {self.text!r} holds {other}; known are {{date}}, {{time}} and "
                "{partition}"
            )
        if "*" in self.text:
            raise InputError(
                f"the path pattern {self.text!r} holds a star; it names folders, of which all files are read"
            )
        _regex(self)

    @property
    def has_partitions(self) -> bool:
        return "partition" in self._tokens

    @property
    def has_times(self) -> bool:
        return bool({"date", "time"} & self._tokens)

    @property
    def folder(self) -> str:
        """The folder below which all files are; empty for all there is."""
        before = _TOKEN.split(self.text, maxsplit=1)
        return before[0].rpartition("/")[0] if len(before) > 1 else self.text

    def place_of(self, name: str) -> PlaceInPattern | None:
        """Where a file of that name stands; None for one the pattern does not name."""
        match = _regex(self).fullmatch(name)
        if match is None:
            return None
        groups = match.groupdict()
        number = groups.pop("partition", None)
        partition = "0" if number is None else str(int(number))
        if not self.has_times:
            return PlaceInPattern(partition, BEFORE_ALL_TICKS)
        try:
            return PlaceInPattern(partition, ticks_in(groups))
        except ValueError:  # month 13 is no month: another folder with digits
            return None

    def folders_around(self, now: datetime, partitions: set[str]) -> list[str]:
        """The folders that gain files now: of the present period, of those next to it, and of all partitions.

        now: in UTC. partitions: names of those that are known beside those that are said to be there.
        """
        if not self.has_times:
            return [self.folder]
        formats = [self.date_format] * ("date" in self._tokens) + [self.time_format] * (
            "time" in self._tokens
        )
        parts = {part for text in formats for part in parts_of_format(text)}
        periods = periods_around(parts, now, PERIODS_BEFORE)
        return list(dict.fromkeys(each for period in periods for each in self._folders(period, partitions)))

    def _folders(self, period: datetime, partitions: set[str]) -> Iterator[str]:
        """The folders of a period; the pattern is cut before a partition that nothing of the time follows."""
        written = {"date": formatted(self.date_format, period), "time": formatted(self.time_format, period)}
        pieces = _TOKEN.split(self.text)
        last = max(n for n in range(1, len(pieces), 2) if pieces[n].lower() in written)
        pieces = pieces[: last + 2]
        after = pieces[-1] if len(_TOKEN.split(self.text)) == len(pieces) else pieces[-1].rpartition("/")[0]
        named = any(pieces[n].lower() == "partition" for n in range(1, len(pieces), 2))
        known = sorted({*map(str, range(self.partition_count)), *partitions}) if named else ["0"]
        for partition in known:
            values = written | {"partition": partition}
            texts = (values[each.lower()] if n % 2 else each for n, each in enumerate(pieces[:-1]))
            yield ("".join(texts) + after).strip("/")

    @property
    def _tokens(self) -> set[str]:
        return {each.lower() for each in _TOKEN.findall(self.text)}


@lru_cache(maxsize=64)
def _regex(pattern: InputPattern) -> re.Pattern[str]:
    """What the names of files are like."""
    result, seen = "", set[str]()
    for n, piece in enumerate(_TOKEN.split(pattern.text)):
        if n % 2 == 0:
            result += re.escape(piece)
        elif piece.lower() == "date":
            result += format_regex(pattern.date_format, seen)
        elif piece.lower() == "time":
            result += format_regex(pattern.time_format, seen)
        else:
            result += "(?P=partition)" if "partition" in seen else r"(?P<partition>\d{1,9})"
            seen.add("partition")
    return re.compile(f"{result}/.+" if result else ".+", re.DOTALL)
