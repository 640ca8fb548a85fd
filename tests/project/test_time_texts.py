"""MIN and MAX of fields that look like times are warned of, and no others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tideglass.bind.binder import bind
from tideglass.cli.check import known_inputs
from tideglass.cli.new import make_project
from tideglass.lang.parser import parse
from tideglass.project.project import load_project
from tideglass.project.time_texts import looks_like_a_time, time_warnings

W = "GROUP BY TumblingWindow(minute, 1)"


def warned(folder: Path, query: str, sample: list[dict[str, Any]] | None, level: str = "1.2") -> list[str]:
    """The calls that `tideglass check` warns of, as they are written."""
    make_project(folder)
    data = folder / "Data" / "sensor.json"
    if sample is None:
        (folder / "Inputs" / "Local_sensor.json").unlink()
    else:
        data.write_text("\n".join(map(json.dumps, sample)))
    (folder / "tolls.asaql").write_text(query)
    loaded = load_project(folder)
    known = None if sample is None else known_inputs(loaded)
    plan = bind(parse(loaded.query), loaded.query, known, level, loaded.scripts).plan
    found = time_warnings(plan, loaded)
    assert all(each.code == "TIME_AS_TEXT" and "AS datetime))" in each.hint for each in found)
    return [query[each.span.start : each.span.end] for each in found]


@pytest.mark.parametrize(
    ("query", "calls"),
    [
        (f"SELECT MAX(readAt) AS a, MIN(n) AS b FROM sensor {W}", ["MAX(readAt)"]),
        (f"SELECT MAX(CAST(readAt AS datetime)) AS a FROM sensor {W}", []),
        (f"SELECT MAX(CAST(readAt AS nvarchar(max))) AS a FROM sensor {W}", []),
        (f"SELECT MAX(odd) AS a FROM sensor TIMESTAMP BY odd {W}", ["MAX(odd)"]),
        (f"SELECT MAX(odd) AS a FROM sensor TIMESTAMP BY CAST(odd AS datetime) {W}", ["MAX(odd)"]),
        (f"SELECT MAX(epoch) AS a FROM sensor TIMESTAMP BY DATEADD(second, epoch, '1970-01-01') {W}", []),
        (f"WITH s AS (SELECT eventTime AS x, r.at AS y FROM sensor) "
         f"SELECT MAX(x) AS a, MAX(y) AS b FROM s {W}",
         ["MAX(x)", "MAX(y)"]),
        (f"WITH s AS (SELECT System.Timestamp() AS endTime FROM sensor) "
         f"SELECT MAX(endTime) AS a FROM s {W}", []),
        (f"WITH s AS (SELECT * FROM sensor UNION SELECT * FROM sensor) "
         f"SELECT MAX(eventTime) AS a FROM s {W}",
         ["MAX(eventTime)"]),
        ("SELECT MAX(l.eventTime) OVER (LIMIT DURATION(minute, 1)) AS a FROM sensor l",
         ["MAX(l.eventTime) OVER (LIMIT DURATION(minute, 1))"]),
        (f"SELECT MIN(r.eventTime) AS a FROM sensor l JOIN sensor r "
         f"ON DATEDIFF(second, l, r) BETWEEN 0 AND 5 {W}",
         ["MIN(r.eventTime)"]),
        (f"CREATE TABLE sensor (eventTime datetime) SELECT MAX(eventTime) AS a FROM sensor {W}", []),
        (f"CREATE TABLE sensor (eventTime nvarchar(max)) SELECT MAX(eventTime) AS a FROM sensor {W}",
         ["MAX(eventTime)"]),
        (f"SELECT MAX(responseTime) AS a, MIN(update) AS b FROM sensor {W}", []),
    ],
)  # fmt: skip
def test_without_a_sample_names_and_timestamp_by_tell(tmp_path: Path, query: str, calls: list[str]) -> None:
    assert warned(tmp_path / "tolls", query, None) == calls


@pytest.mark.parametrize(
    ("sample", "is_warned"),
    [
        ([{"v": "2026-01-01T00:00:00Z"}], True),
        ([{"x": 1}, {"v": None}, {"v": "2026-01-01"}], True),
        ([{"v": 5}, {"v": "2026-01-01"}], True),
        ([{"v": 5}], False),
        ([{"v": "5"}], False),
        ([{"x": 5}], False),
        ([], False),
    ],
)
def test_values_of_the_local_file_tell(tmp_path: Path, sample: list[dict[str, Any]], is_warned: bool) -> None:
    query = f"SELECT MAX(v) AS a FROM sensor {W}"
    assert warned(tmp_path / "tolls", query, sample) == (["MAX(v)"] if is_warned else [])


def test_numbers_in_the_local_file_speak_against_the_name(tmp_path: Path) -> None:
    query = f"SELECT MAX(eventTime) AS a FROM sensor {W}"
    assert warned(tmp_path / "tolls", query, [{"eventTime": 1767225600}]) == []


@pytest.mark.parametrize(
    "name", ["time", "ts", "EventEnqueuedUtcTime", "created_at", "starttime", "timestampMs", "readAt"]
)
def test_names_of_times(name: str) -> None:
    assert looks_like_a_time(name)


@pytest.mark.parametrize(
    "name", ["value", "update", "candidate", "uptime", "responseTime", "heat", "n", "_", "lifetime", "format"]
)
def test_names_of_other_things(name: str) -> None:
    assert not looks_like_a_time(name)
