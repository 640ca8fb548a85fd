"""Warns where MIN or MAX reads a field that looks like a time: its text would stop the job (`asa.md` 4.1)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from tideglass.core.errors import Diagnostic, ProjectError
from tideglass.core.time import parse_ticks
from tideglass.plan.nodes import Plan
from tideglass.plan.origins import Extreme, extremes_of_fields
from tideglass.project.inputs import ProjectInput
from tideglass.project.project import Project

#: Of a larger local file, so many characters are looked at.
_SAMPLE_BYTES = 1 << 20
#: Words in the name of a field that is a time: `eventTime`, `created_at`, `EventEnqueuedUtcTime`.
_WORDS = frozenset(("timestamp", "datetime", "date", "time", "utc", "at", "ts"))
#: Words before `time` that make it a length of time: `responseTime`, `elapsed_time`.
_LENGTHS = frozenset(
    ("response", "elapsed", "processing", "run", "up", "down", "life", "travel", "wait", "idle", "cycle")
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_JOINED = re.compile(r"(event|start|end|begin|create|update|send|receive|arrival|log|sample)d?(time|at|date)")


def time_warnings(plan: Plan, project: Project) -> tuple[Diagnostic, ...]:
    """A warning for each MIN and MAX of a field that a sample file, its name or TIMESTAMP BY calls a time.

    Where the project has a local file with values of the field, the file alone decides.
    """
    return tuple(_warnings(plan, project))


def _warnings(plan: Plan, project: Project) -> Iterator[Diagnostic]:
    if project.settings.compatibility_level == "1.0":
        return  # ISO text of events is a datetime there (`asa.md` 5.5)
    for extreme in extremes_of_fields(plan):
        source = next((i for name, i in project.inputs.items() if _same(name, extreme.input)), None)
        sampled = None if source is None else _holds_times(source, extreme.field)
        if sampled is None and not (extreme.times_events or looks_like_a_time(extreme.field[-1])):
            continue
        if sampled is not False:
            yield _warning(extreme)


def _warning(extreme: Extreme) -> Diagnostic:
    name, function = ".".join(extreme.field), extreme.function.upper()
    return Diagnostic(
        "TIME_AS_TEXT",
        f"{name!r} looks like a time; {function} reads text as a number, and stops at text that is none",
        extreme.span,
        f"write {function}(CAST({name} AS datetime))",
        "warning",
    )


def looks_like_a_time(name: str) -> bool:
    """Whether a field holds a time, by its name.

    >>> [looks_like_a_time(name) for name in ("eventTime", "created_at", "responseTime", "update", "attempt")]
    [True, True, False, False, False]
    """
    words = [word.lower() for word in _WORD.findall(name)]
    if not words or (len(words) > 1 and words[-1] == "time" and words[-2] in _LENGTHS):
        return False
    return (
        words[-1] in _WORDS
        or words[0] in ("timestamp", "datetime")
        or _JOINED.fullmatch(words[-1]) is not None
    )


def _same(one: str, other: str) -> bool:
    return one.casefold() == other.casefold()


def _holds_times(source: ProjectInput, field: tuple[str, ...]) -> bool | None:
    """Whether values of a field in the local file are ISO text; None where there are none to see."""
    if not isinstance(source.path, Path) or source.kind == "reference":
        return None  # a store is not asked for a hint
    if source.file_format == "parquet":
        return False  # its columns have types
    try:
        rows = _first_rows(source, source.path)
    except (ProjectError, OSError, UnicodeDecodeError):
        return None  # a file that cannot be read is reported elsewhere
    values = [value for row in rows if (value := _walk(row, field)) is not None]
    texts = [value for value in values if isinstance(value, str)]
    return any(parse_ticks(text) is not None for text in texts) if values else None


def _first_rows(source: ProjectInput, path: Path) -> list[dict[str, Any]]:
    """Events of the first local file of an input, as many as a sample needs."""
    from tideglass.project.test_rows import parse_csv_rows, parse_json_rows, read_rows  # loads the engine

    if path.is_dir():
        files = [each for each in path.rglob("*") if each.is_file() and each.name[0] not in "._"]
        path = min(files, default=path)
    if path.is_dir() or not source.bounds.hold(path):
        return []
    if path.stat().st_size <= _SAMPLE_BYTES:
        return read_rows(path, source.file_format, source.delimiter)
    with path.open(encoding="utf-8-sig") as file:
        text = file.read(_SAMPLE_BYTES).rpartition("\n")[0]
    in_columns = (source.file_format or path.suffix.lower().removeprefix(".")) == "csv"
    return (
        parse_csv_rows(text, str(path), source.delimiter) if in_columns else parse_json_rows(text, str(path))
    )


def _walk(value: object, path: tuple[str, ...]) -> object:
    """The value at the end of a path into records, whatever the case of names; None where there is none."""
    for name in path:
        fields = cast("dict[str, object]", value) if isinstance(value, dict) else {}
        value = fields.get(name, next((fields[key] for key in fields if _same(key, name)), None))
    return value
