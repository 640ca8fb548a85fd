"""Keys of project files for reference data beside the path: formats of {date}, {time}; SQL (`asa.md` 10.1).

The service keeps them in `BlobReferenceProperties` and `SqlReferenceInputInfo` of a live input. A local
input file may hold the same keys, which are our own there, and `ConnectionString`, a URI of PostgreSQL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from tideglass.project.file_reader import Problems, read_text

_REFRESH: Mapping[str, Literal["static", "full", "delta"]] = {
    "static": "static",
    "refreshperiodicallywithfull": "full",
    "refreshperiodicallywithdelta": "delta",
}
_RATE = re.compile(r"(\d+):(\d{1,2}):(\d{2})")  # DD:HH:MM


@dataclass(frozen=True, slots=True)
class ProjectSql:
    """Queries of reference data in a database.

    connection: a URI; None where only the service knows it.
    snapshot_query: returns the whole table.
    delta_query: returns what has changed since a time; None where the table is always read whole.
    refresh: whether the table is read once, or every `interval_seconds` whole or by what has changed.
    interval_seconds: from one reading to the next.
    """

    connection: str | None
    snapshot_query: str
    delta_query: str | None
    refresh: Literal["static", "full", "delta"]
    interval_seconds: int


def path_formats(content: object) -> dict[str, Any]:
    """`DateFormat` and `TimeFormat`, where they are there."""
    fields = _lower(content)
    formats = {"date_format": fields.get("dateformat"), "time_format": fields.get("timeformat")}
    # written as .NET does, yyyy/MM/dd, or in capitals
    return {
        key: str(value).replace("yyyy", "YYYY").replace("dd", "DD") for key, value in formats.items() if value
    }


def sql_reference(content: object, file: Path, problems: Problems) -> ProjectSql | None:
    """The queries an object holds, or names by a `.sql` file; None if it holds none."""
    fields = _lower(content)
    snapshot_query = _query(fields, "snapshot", file, problems)
    if not fields or snapshot_query is None:
        return None
    refresh = _REFRESH.get(str(fields.get("refreshtype") or "Static").lower())
    if refresh is None:
        known = "Static, RefreshPeriodicallyWithFull, RefreshPeriodicallyWithDelta"
        problems.error(file, f'"RefreshType" is {fields["refreshtype"]!r}, it must be one of {known}')
    delta_query = _query(fields, "delta", file, problems)
    if refresh == "delta" and delta_query is None:
        problems.error(file, '"DeltaSnapshotQuery" is missing; RefreshPeriodicallyWithDelta needs it')
    seconds = _seconds(fields.get("refreshrate"), refresh, file, problems)
    connection = fields.get("connectionstring")
    text = str(connection) if connection else None
    return ProjectSql(text, snapshot_query, delta_query, refresh or "static", seconds)


def _lower(content: object) -> dict[str, Any]:
    if not isinstance(content, dict):
        return {}
    return {name.lower(): value for name, value in cast("dict[str, Any]", content).items()}


def _query(fields: Mapping[str, Any], kind: str, file: Path, problems: Problems) -> str | None:
    """The text under `FullSnapshotQuery` or `DeltaSnapshotQuery`, or that of the file `...Path` names."""
    names = ("fullsnapshot", "snapshot") if kind == "snapshot" else ("deltasnapshot", "delta")
    for name in names:
        text, path = fields.get(f"{name}query"), fields.get(f"{name}path")
        if isinstance(text, str) and text.strip():
            return text
        if isinstance(path, str) and path.strip():
            found = problems.path(file.parent, path.strip(), file, f'"{name}path"', must_exist=False)
            return None if found is None else read_text(found, problems)
    return None


def _seconds(value: object, refresh: str | None, file: Path, problems: Problems) -> int:
    match = _RATE.fullmatch(str(value or "").strip())
    if match is None:
        if refresh in ("full", "delta"):
            problems.error(
                file, f'"RefreshRate" is {value!r}; write DD:HH:MM, such as 00:00:05 for 5 minutes'
            )
        return 60
    days, hours, minutes = map(int, match.groups())
    total = ((days * 24 + hours) * 60 + minutes) * 60
    if total < 60:
        problems.error(file, f'"RefreshRate" is {value!r}; a minute is the shortest interval')
    return max(total, 60)
