"""Where the events that arrived from a time on begin, in files of every format."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from support.depth import depth
from tideglass.connect.files.input import FileInput
from tideglass.connect.files.seek import place_of, seek
from tideglass.connect.source import SeekResult
from tideglass.connect.spec import Arrival, InputSpec
from tideglass.core.events import Fields
from tideglass.core.time import TICKS_PER_SECOND, format_ticks
from tideglass.core.types import OFFSET

N = Fields((("n",),))


def rows(count: int) -> list[dict[str, Any]]:
    """Event n arrives at n seconds."""
    return [{"n": n, "arrived": format_ticks(n * TICKS_PER_SECOND)} for n in range(count)]


def write(path: Path, events: list[dict[str, Any]]) -> None:
    text = "".join(json.dumps(event) + "\n" for event in events)
    match path.name.split(".", 1)[1]:
        case "json":
            path.write_text(text)
        case "json.gz":
            path.write_bytes(gzip.compress(text.encode()))
        case "array.json":
            path.write_text(json.dumps(events))
        case "csv":
            lines = [f"{event['n']},{event['arrived']}\n" for event in events]
            path.write_text("n,arrived\n" + "".join(lines))
        case _:
            pq.write_table(pa.Table.from_pylist(events), path, row_group_size=3)


def by_field(path: Path, **more: Any) -> FileInput:
    return FileInput(InputSpec(name="in", path=path, arrival=Arrival(path=("arrived",))), **more)


def read_behind(source: FileInput, found: SeekResult) -> list[tuple[int, int]]:
    """Offset and number of the events from a place on."""
    end = source.latest(source.latest({"0": found.position}))
    chunks = source.read("0", found.position, end["0"], N)
    return [
        (int(offset), int(n))
        for chunk in chunks
        for offset, n in zip(
            chunk.table[OFFSET].to_pylist(), chunk.table["$payload.n"].to_pylist(), strict=True
        )
    ]


#: How many events more than needed may be read: what cannot be cut is read as a whole.
SUFFIXES = {"json": 0, "csv": 0, "parquet": 2, "json.gz": 9, "array.json": 9}


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("seconds", [0, 4, 10, 19, 25])
def test_reading_begins_with_the_first_event_that_arrived_late_enough(
    tmp_path: Path, suffix: str, seconds: int
) -> None:
    write(tmp_path / f"a.{suffix}", rows(20)[:10])
    write(tmp_path / f"b.{suffix}", rows(20)[10:])
    source = by_field(tmp_path)
    every = source.latest({})["0"]
    found = seek(source, "0", every, seconds * TICKS_PER_SECOND)
    behind = read_behind(source, found)
    whole = read_behind(source, SeekResult([], 0))
    assert behind == whole[len(whole) - len(behind) :]
    assert all(offset >= found.next_offset for offset, _ in behind)
    numbers = [n for _, n in behind]
    assert max(0, 20 - seconds) <= len(numbers) <= max(0, 20 - seconds) + SUFFIXES[suffix]


def test_an_arrival_that_runs_backwards_does_not_hide_what_comes_before_it(tmp_path: Path) -> None:
    events = rows(6)
    write(tmp_path / "a.json", [events[0], events[4], events[1], events[5]])
    source = by_field(tmp_path)
    found = seek(source, "0", source.latest({})["0"], 3 * TICKS_PER_SECOND)
    assert [n for _, n in read_behind(source, found)] == [4, 1, 5]


def test_without_an_arrival_field_files_are_found_by_the_time_they_were_written(tmp_path: Path) -> None:
    for n, name in enumerate("abc"):
        write(tmp_path / f"{name}.json", rows(1))
        os.utime(tmp_path / f"{name}.json", (n * 100, n * 100))
    source = FileInput(InputSpec(name="in", path=tmp_path))
    every = source.latest({})["0"]
    for seconds, files in ((0, 3), (1, 2), (100, 2), (101, 1), (201, 0)):
        found = seek(source, "0", every, seconds * TICKS_PER_SECOND)
        assert len(every) - len(found.position) == files
        assert found.next_offset == len(found.position) << 40


@given(place=st.integers(0, 25), suffix=st.sampled_from(list(SUFFIXES)))
@examples(max_examples=depth(20), deadline=None)
def test_a_place_is_found_again_by_the_offset_of_its_event(
    tmp_path_factory: pytest.TempPathFactory, place: int, suffix: str
) -> None:
    folder = tmp_path_factory.mktemp("in")
    write(folder / f"a.{suffix}", rows(20)[:10])
    write(folder / f"b.{suffix}", rows(20)[10:])
    source = by_field(folder)
    whole = read_behind(source, SeekResult([], 0))
    offset = whole[place][0] if place < len(whole) else whole[-1][0] + (1 << 41)
    found = place_of(source, "0", source.latest({})["0"], offset)
    behind = read_behind(source, found)
    assert behind == whole[len(whole) - len(behind) :]
    assert {each for each in whole if each[0] >= offset} <= set(behind)


def test_a_recorded_order_is_read_first_and_as_it_was(tmp_path: Path) -> None:
    write(tmp_path / "b.json", rows(20)[10:])
    first = by_field(tmp_path)
    recorded = first.latest({}, 200)
    write(tmp_path / "a.json", rows(20)[:10])
    write(tmp_path / "b.json", rows(25)[10:])
    again = by_field(tmp_path, recorded=recorded)
    position: dict[str, Any] = {}
    while not again.is_replayed(position):
        assert not again.ended(position)
        position = again.latest(position, 60)
    assert position == recorded
    before = len(position["0"])
    numbers = [n for _, n in read_behind(again, SeekResult([], 0))]
    assert numbers == [*range(10, 25), *range(10)]
    assert before == 1


def test_what_was_emptied_keeps_the_places_of_the_others(tmp_path: Path) -> None:
    write(tmp_path / "a.json", rows(4))
    write(tmp_path / "b.json", rows(8)[4:])
    source = by_field(tmp_path)
    whole = read_behind(source, SeekResult([], 0))
    first, second = source.latest({})["0"]
    emptied = {"0": [first.emptied, second]}
    (tmp_path / "a.json").unlink()
    assert read_behind(by_field(tmp_path, recorded=emptied), SeekResult([], 0)) == whole[4:]
