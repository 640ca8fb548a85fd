"""Path patterns of file outputs: the folder of a row, by its time and one of its columns (`asa.md` 6.5).

    pattern                                   folder of a row at 2026-03-09 07:05 UTC with plate 'A/1'
    toll/{date}/{time}                        toll/2026/03/09/07
    y={datetime:yyyy}/m={datetime:MM}/{plate} y=2026/m=03/A%2F1

Times are those of `System.Timestamp()`, in UTC. A value of a column is made a name (`core.file_names`), so
that nothing in a row leads out of the folder, and different values are different folders.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Literal, cast

from tideglass.core.errors import OutputError
from tideglass.core.file_names import folder_name
from tideglass.core.time import (
    TICKS_PER_DAY,
    TICKS_PER_HOUR,
    TICKS_PER_MICROSECOND,
    TICKS_PER_MINUTE,
    TICKS_PER_SECOND,
    ticks_of_datetime,
)

if TYPE_CHECKING:
    import pyarrow as pa

TimeUnit = Literal["year", "month", "day", "hour", "minute", "second"]

#: From the coarsest to the finest.
_UNITS: Sequence[TimeUnit] = ("year", "month", "day", "hour", "minute", "second")
#: The longest a unit lasts.
_UNIT_TICKS: Mapping[TimeUnit, int] = {
    "year": 366 * TICKS_PER_DAY,
    "month": 31 * TICKS_PER_DAY,
    "day": TICKS_PER_DAY,
    "hour": TICKS_PER_HOUR,
    "minute": TICKS_PER_MINUTE,
    "second": TICKS_PER_SECOND,
}
#: What a part of a date or time is written as: its unit, and how it becomes text.
_SPECIFIERS: Mapping[str, tuple[TimeUnit, Callable[[datetime], str]]] = {
    "yyyy": ("year", lambda at: f"{at.year:04d}"),
    "MM": ("month", lambda at: f"{at.month:02d}"),
    "M": ("month", lambda at: f"{at.month}"),
    "dd": ("day", lambda at: f"{at.day:02d}"),
    "d": ("day", lambda at: f"{at.day}"),
    "HH": ("hour", lambda at: f"{at.hour:02d}"),
    "H": ("hour", lambda at: f"{at.hour}"),
    "mm": ("minute", lambda at: f"{at.minute:02d}"),
    "m": ("minute", lambda at: f"{at.minute}"),
    "ss": ("second", lambda at: f"{at.second:02d}"),
    "s": ("second", lambda at: f"{at.second}"),
}
#: The service writes YYYY and DD, the tools yyyy and dd.
_OF_A_DATE = {"YYYY": "yyyy", "DD": "dd", "D": "d"}
_TOKEN = re.compile(r"\{([^{}]*)\}")
_COLUMN = re.compile(r"[^\s:/\\{}][^:/\\{}]*")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

#: Where rows go whose column is NULL; no value has this name, since `%` in a value is escaped.
NULL_FOLDER = "%NULL"


@dataclass(frozen=True, slots=True)
class TimePart:
    """A part of a folder's name that is a part of a row's time. specifier: one of yyyy MM M dd d …"""

    specifier: str

    @property
    def unit(self) -> TimeUnit:
        return _SPECIFIERS[self.specifier][0]


@dataclass(frozen=True, slots=True)
class ColumnPart:
    """A part of a folder's name that is the value of a column. name: whatever its case."""

    name: str


@dataclass(frozen=True)
class FolderPattern:
    """A pattern, read. Raises OutputError for one that is none.

    text: as the project has it, with `/` between folders; empty for one folder.
    date_format, time_format: what {date} and {time} stand for.
    """

    text: str = ""
    date_format: str = "yyyy/MM/dd"
    time_format: str = "HH"

    def __post_init__(self) -> None:
        columns = {part.name.casefold() for part in self._parts if isinstance(part, ColumnPart)}
        if len(columns) > 1:
            raise OutputError(
                f"the path pattern {self.text!r} names {len(columns)} columns; a pattern may hold one "
                "besides {date}, {time} and {datetime:…}"
            )
        plain = "".join(part if isinstance(part, str) else "x" for part in self._parts)
        for each in filter(None, plain.split("/")):
            if each[0] in "_.":
                raise OutputError(
                    f"the path pattern {self.text!r} holds the folder {each!r}; readers pass over folders "
                    "whose names begin with . or _"
                )

    @cached_property
    def _parts(self) -> tuple[str | TimePart | ColumnPart, ...]:
        return tuple(_read(self.text, self.date_format, self.time_format))

    @property
    def root(self) -> str:
        """The folders before the first that depends on a row; empty for none."""
        return self._split()[0]

    @property
    def below_root(self) -> str:
        """The pattern from there on."""
        return self._split()[1]

    @property
    def column(self) -> str | None:
        """The column it names."""
        return next((part.name for part in self._parts if isinstance(part, ColumnPart)), None)

    @property
    def unit(self) -> TimeUnit | None:
        """The finest unit of time in it; None for a pattern without times."""
        units = {part.unit for part in self._parts if isinstance(part, TimePart)}
        return next((each for each in reversed(_UNITS) if each in units), None)

    @property
    def unit_ticks(self) -> int | None:
        """The longest that unit lasts."""
        return None if self.unit is None else _UNIT_TICKS[self.unit]

    def has(self, token: Literal["date", "time"]) -> bool:
        return any(found[1].strip().lower() == token for found in _TOKEN.finditer(self.text))

    def partition_end_ticks(self, time_ticks: int) -> int | None:
        """Where the time partition that holds a time ends; None for a pattern without times."""
        unit = self.unit
        if unit is None:
            return None
        if unit not in ("year", "month"):
            size = _UNIT_TICKS[unit]
            return (time_ticks // size + 1) * size
        at = _datetime(time_ticks)
        year, month = (at.year + 1, 1) if unit == "year" or at.month == 12 else (at.year, at.month + 1)
        return ticks_of_datetime(datetime(year, month, 1, tzinfo=UTC))

    def folder(self, time_ticks: int, value: str | None) -> str:
        """The folder of a row. value: the text of its column, None for NULL.

        >>> FolderPattern("{date}/{time}/x{a}").folder(0, "../b"), FolderPattern("{a}").folder(0, None)
        ('1970/01/01/00/x%2E.%2Fb', '%NULL')
        """
        at = _datetime(time_ticks)
        made = "".join(
            part
            if isinstance(part, str)
            else _SPECIFIERS[part.specifier][1](at)
            if isinstance(part, TimePart)
            else _value_name(value)
            for part in self._parts
        )
        return "/".join(_unhidden(each) for each in made.split("/") if each)

    def folders(self, times_ticks: pa.Array, values: pa.Array | None) -> list[tuple[str, int, pa.Array]]:
        """Each folder of a table's rows, a time in its time partition, and the places of its rows in order.

        times_ticks: int64. values: the texts of the column, None where the pattern has none.
        """
        import numpy as np
        import pyarrow as pa

        from tideglass.core.arrays import pc

        day_ticks = min(self.unit_ticks or TICKS_PER_DAY, TICKS_PER_DAY)
        numbers = times_ticks.to_numpy() // day_ticks if self.unit else np.zeros(len(times_ticks), np.int64)
        bucket_list, buckets = np.unique(numbers, return_inverse=True)
        texts: list[str | None] = [None]
        codes = np.zeros(len(numbers), np.int64)
        if values is not None:
            encoded = cast("pa.DictionaryArray", pc.dictionary_encode(values, null_encoding="encode"))
            texts = cast("list[str | None]", encoded.dictionary.to_pylist())
            codes = encoded.indices.to_numpy().astype(np.int64)
        pairs, pair_of_row = np.unique(buckets * len(texts) + codes, return_inverse=True)
        order = np.argsort(pair_of_row, kind="stable")
        ends = np.cumsum(np.bincount(pair_of_row, minlength=len(pairs)))
        found: dict[str, tuple[int, list[np.ndarray[tuple[int], np.dtype[np.int64]]]]] = {}
        for number, pair in enumerate(pairs.tolist()):
            time_ticks = int(bucket_list[pair // len(texts)]) * day_ticks if self.unit else 0
            folder = self.folder(time_ticks, texts[pair % len(texts)])
            rows = order[(ends[number - 1] if number else 0) : ends[number]]
            found.setdefault(folder, (time_ticks, []))[1].append(rows)
        return [
            (folder, time_ticks, pa.array(np.sort(np.concatenate(rows))))
            for folder, (time_ticks, rows) in sorted(found.items())
        ]

    def _split(self) -> tuple[str, str]:
        text = _cleaned(self.text)
        before = text.split("{", 1)[0]
        if "{" not in text:
            return text, ""
        root = before.rpartition("/")[0]
        return root, text[len(root) :].lstrip("/")


def _cleaned(text: str) -> str:
    return "/".join(part for part in text.replace("\\", "/").split("/") if part)


def _read(text: str, date_format: str, time_format: str) -> Iterator[str | TimePart | ColumnPart]:
    at = 0
    cleaned = _cleaned(text)
    for found in _TOKEN.finditer(cleaned):
        yield _plain(cleaned[at : found.start()], text)
        yield from _token(found[1].strip(), text, date_format, time_format)
        at = found.end()
    yield _plain(cleaned[at:], text)


def _plain(piece: str, text: str) -> str:
    if "{" in piece or "}" in piece:
        raise OutputError(f"the path pattern {text!r} has a brace without its other one")
    return piece


def _token(
    token: str, text: str, date_format: str, time_format: str
) -> Iterator[str | TimePart | ColumnPart]:
    kind, colon, specifier = token.partition(":")
    match kind.strip().lower(), bool(colon):
        case "date", False:
            yield from _formatted(date_format, "date", _OF_A_DATE, ("year", "month", "day"))
        case "time", False:
            yield from _formatted(time_format, "time", {}, ("hour", "minute", "second"))
        case "datetime", True:
            if specifier.strip() not in _SPECIFIERS:
                raise OutputError(
                    f"the path pattern {text!r} holds {{{token}}}; a token {{datetime:…}} holds one of "
                    f"{' '.join(_SPECIFIERS)}, and several tokens may stand beside each other"
                )
            yield TimePart(specifier.strip())
        case _, False if _COLUMN.fullmatch(token) and "." not in token:
            yield ColumnPart(token)
        case _:
            hint = "; give a nested field a name of its own in SELECT" if "." in token else ""
            raise OutputError(
                f"the path pattern {text!r} holds {{{token}}}, which is neither {{date}}, {{time}}, "
                f"{{datetime:…}} nor a column{hint}"
            )


def _formatted(
    format_: str, what: str, other: Mapping[str, str], units: Sequence[TimeUnit]
) -> Iterator[str | TimePart]:
    """The parts of a date format or time format, which may hold folders."""
    found: list[TimePart] = []
    for piece in re.findall(r"[A-Za-z]+|[^A-Za-z]+", format_):
        specifier = other.get(piece, piece)
        if not piece[0].isalpha():
            if not re.fullmatch(r"[-/_. ]+", piece):
                raise OutputError(f"the {what} format {format_!r} holds {piece!r}; use - _ . or /")
            yield piece
        elif specifier in _SPECIFIERS and _SPECIFIERS[specifier][0] in units:
            found.append(TimePart(specifier))
            yield found[-1]
        else:
            example = "yyyy/MM/dd or DD-MM-YYYY" if what == "date" else "HH or HH-mm"
            raise OutputError(f"the {what} format {format_!r} holds {piece!r}; write one such as {example}")
    got = {part.unit for part in found}
    needed = set(units) if what == "date" else set(units[: max(map(units.index, got), default=0) + 1])
    if got != needed or len(found) != len(got):
        raise OutputError(
            f"the {what} format {format_!r} must hold {', '.join(sorted(needed, key=units.index))}, each once"
        )


def _value_name(value: str | None) -> str:
    return NULL_FOLDER if value is None else folder_name(value)


def _unhidden(name: str) -> str:
    """A folder that readers do not pass over, and that is none of ours."""
    return f"%{ord(name[0]):02X}{name[1:]}" if name[0] in "_." else name


def _datetime(time_ticks: int) -> datetime:
    return _EPOCH + timedelta(microseconds=time_ticks // TICKS_PER_MICROSECOND)
