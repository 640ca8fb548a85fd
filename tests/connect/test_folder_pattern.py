"""Path patterns of file outputs: tokens, names made of values, time partitions, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideglass.connect.files.folder_pattern import FolderPattern
from tideglass.core.errors import OutputError
from tideglass.core.time import ticks_of_datetime

AT = ticks_of_datetime(datetime(2026, 3, 9, 7, 5, 2, tzinfo=UTC))


@pytest.mark.parametrize(
    ("pattern", "formats", "folder"),
    [
        ("", {}, ""),
        ("/toll//raw/", {}, "toll/raw"),
        ("toll\\{date}\\{time}", {}, "toll/2026/03/09/07"),
        ("{Date}/{TIME}", {"date_format": "DD-MM-YYYY", "time_format": "HH-mm"}, "09-03-2026/07-05"),
        ("{time}", {"time_format": "HH/mm/ss"}, "07/05/02"),
        ("y={datetime:yyyy}/m={datetime:MM}/d={datetime:dd}", {}, "y=2026/m=03/d=09"),
        ("{datetime:M}-{datetime:d}-{datetime:H}-{datetime:m}-{datetime:s}", {}, "3-9-7-5-2"),
        ("{datetime:HH}{datetime:mm}{datetime:ss}/{plate}x", {}, "070502/A1x"),
        ("{plate}/{PLATE}", {}, "A1/A1"),
    ],
)
def test_tokens_become_folders(pattern: str, formats: dict[str, Any], folder: str):
    assert FolderPattern(pattern, **formats).folder(AT, "A1") == folder


@pytest.mark.parametrize(
    ("pattern", "formats", "says"),
    [
        ("{", {}, "a brace without its other one"),
        ("{date}}", {}, "a brace without its other one"),
        ("{}", {}, "neither {date}"),
        ("{datetime:yyyy-MM}", {}, "holds one of yyyy MM M"),
        ("{datetime}", {}, None),
        ("{a}/{b}", {}, "names 2 columns"),
        ("{a.b}", {}, "a name of its own in SELECT"),
        ("{a:b}", {}, "neither {date}"),
        ("../{date}", {}, "whose names begin with . or _"),
        ("_hidden/{date}", {}, "whose names begin with . or _"),
        ("{date}", {"date_format": "yyyy-mm-dd"}, "the date format 'yyyy-mm-dd' holds 'mm'"),
        ("{date}", {"date_format": "yyyy/MM"}, "must hold year, month, day"),
        ("{time}", {"time_format": "hh"}, "the time format 'hh' holds 'hh'"),
        ("{time}", {"time_format": "mm"}, "must hold hour, minute"),
        ("{time}", {"time_format": "HH:mm"}, "holds ':'; use"),
    ],
)
def test_a_pattern_that_is_none_is_refused(pattern: str, formats: dict[str, Any], says: str | None):
    if says is None:  # a column of that name
        assert FolderPattern(pattern, **formats).column == "datetime"
        return
    with pytest.raises(OutputError) as error:
        FolderPattern(pattern, **formats)
    assert says in str(error.value)


@given(st.text(max_size=300))
def test_no_value_leads_out_of_its_folder_or_into_a_hidden_one(value: str):
    folder = FolderPattern("a/{plate}/b").folder(0, value)
    parts = folder.split("/")
    assert len(parts) == 3
    assert parts[1] not in (".", "..")
    assert parts[1][0] not in "._"
    assert "\\" not in folder
    assert "\0" not in folder


@given(st.lists(st.none() | st.text(max_size=8), unique=True))
def test_different_values_are_different_folders(values: list[str | None]):
    folders = [FolderPattern("{plate}").folder(0, value) for value in values]
    assert len(set(folders)) == len(values)


@pytest.mark.parametrize(
    ("pattern", "end"),
    [
        ("{plate}", None),
        ("{datetime:yyyy}", datetime(2027, 1, 1)),
        ("{datetime:yyyy}/{datetime:M}", datetime(2026, 4, 1)),
        ("{date}", datetime(2026, 3, 10)),
        ("{date}/{time}", datetime(2026, 3, 9, 8)),
        ("{datetime:mm}/{date}", datetime(2026, 3, 9, 7, 6)),
        ("{datetime:ss}", datetime(2026, 3, 9, 7, 5, 3)),
    ],
)
def test_a_time_partition_ends_with_its_finest_unit(pattern: str, end: datetime | None):
    assert FolderPattern(pattern).partition_end_ticks(AT) == (end and ticks_of_datetime(end))


def test_december_ends_with_the_year():
    at = ticks_of_datetime(datetime(2026, 12, 31, tzinfo=UTC))
    assert FolderPattern("{datetime:MM}").partition_end_ticks(at) == ticks_of_datetime(datetime(2027, 1, 1))


@given(
    st.lists(st.tuples(st.integers(AT, AT + 4 * 36_000_000_000), st.sampled_from(["a", "A", None]))),
    st.sampled_from(["{date}/{time}/{plate}", "{plate}", "{datetime:mm}", "{datetime:MM}/{plate}", ""]),
)
def test_rows_of_a_table_come_into_the_folders_of_single_rows(rows: list[tuple[int, str | None]], text: str):
    pattern = FolderPattern(text)
    times_ticks = pa.array([ticks for ticks, _ in rows], pa.int64())
    values = None if pattern.column is None else pa.array([value for _, value in rows], pa.string())
    expected: dict[str, list[int]] = {}
    for place, (ticks, value) in enumerate(rows):
        expected.setdefault(pattern.folder(ticks, value), []).append(place)
    found = pattern.folders(times_ticks, values)
    assert {folder: places.to_pylist() for folder, _, places in found} == expected
    for folder, time_ticks, places in found:
        ends = {pattern.partition_end_ticks(rows[place][0]) for place in places.to_pylist()}
        if text != "{datetime:mm}":  # which comes again every hour
            assert ends == {pattern.partition_end_ticks(time_ticks)}, folder


def test_the_folders_before_the_first_token_are_the_root():
    assert FolderPattern("a/b/c={x}/{date}").root == "a/b"
    assert FolderPattern("a/b/c={x}/{date}").below_root == "c={x}/{date}"
    assert (FolderPattern("{date}").root, FolderPattern("a/b").root, FolderPattern("").root) == (
        "",
        "a/b",
        "",
    )
