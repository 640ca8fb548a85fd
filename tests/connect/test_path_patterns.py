"""Path patterns of stream inputs: which folders are read, in which order, and which are listed when."""

from __future__ import annotations

import json
import os
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.depth import depth
from support.places import put
from tideglass.connect.dated_names import formatted
from tideglass.connect.files.folder_watch import FolderWatch
from tideglass.connect.files.input import FileInput
from tideglass.connect.files.input_pattern import InputPattern
from tideglass.connect.spec import InputSpec
from tideglass.core.errors import InputError
from tideglass.core.events import Fields
from tideglass.core.time import parse_ticks
from tideglass.core.types import ARRIVAL
from tideglass.storage import StoragePath, storage_path

N = Fields((("n",),))


def an_input(root: StoragePath | Path, text: str, *, finished: bool = True, **more: Any) -> FileInput:
    formats = {key: more.pop(key) for key in ("date_format", "time_format") if key in more}
    pattern = InputPattern(text, **formats)
    return FileInput(InputSpec(name="in", path=root, pattern=pattern, finished=finished, **more))


def numbers(source: FileInput, start: Any, end: Any, partition: str = "0") -> list[int]:
    read = source.read(partition, start.get(partition, []), end.get(partition, []), N)
    return [value for chunk in read for value in chunk.table["$payload.n"].to_pylist()]


def event(n: int) -> str:
    return json.dumps({"n": n}) + "\n"


def test_folders_are_read_in_the_order_of_their_times_not_of_their_names(place: StoragePath):
    for n, day in enumerate(("03-12-2025", "02-01-2026", "01-02-2026")):
        put(place / "a" / day / "b.json", event(n))
    put(place / "a" / "31-31-2026" / "b.json", event(8))  # no day
    put(place / "b" / "01-01-2026" / "b.json", event(9))
    source = an_input(place, "a/{date}", date_format="DD-MM-YYYY")
    assert numbers(source, {}, source.latest({})) == [0, 1, 2]


def test_the_partition_token_names_the_input_partition_wherever_it_stands(place: StoragePath):
    for n, name in enumerate(("x/2026/03/01/08/0/a", "x/2026/03/01/08/1/a", "x/2026/03/01/09/10/a")):
        put(place / f"{name}.json", event(n))
    source = an_input(place, "/x/{date}/{Time}/{partition}/")
    assert source.partitions() == ["0", "1", "10"]
    end = source.latest({})
    assert [numbers(source, {}, end, name) for name in source.partitions()] == [[0], [1], [2]]


def test_without_tokens_all_files_below_the_folder_are_read(place: StoragePath):
    for name, n in (("a/1.json", 1), ("a/b/c/2.json", 2), ("ab/3.json", 3), ("a/_hidden/4.json", 4)):
        put(place / name, event(n))
    source = an_input(place, "a")
    assert sorted(numbers(source, {}, source.latest({}))) == [1, 2]


def test_an_event_arrives_when_its_blob_was_last_written(tmp_path: Path):
    put(storage_path(tmp_path) / "a" / "1.json", event(1))
    os.utime(tmp_path / "a" / "1.json", (1_772_000_000, 1_772_000_000))
    source = an_input(tmp_path, "a")
    (chunk,) = source.read("0", [], source.latest({})["0"], N)
    stamp = datetime.fromtimestamp(1_772_000_000, UTC).isoformat().replace("+00:00", "Z")
    assert chunk.table[ARRIVAL].to_pylist() == [parse_ticks(stamp)]
    assert chunk.file == "a/1.json"


@pytest.mark.parametrize("text", ["{day}/a", "a/*/b", "{date}/{hour}"])
def test_a_pattern_that_is_none_is_refused(text: str):
    with pytest.raises(InputError, match="path pattern"):
        InputPattern(text)


def test_a_format_that_is_none_is_refused():
    with pytest.raises(InputError, match="no format"):
        InputPattern("{date}", "the day")


# ---------------------------------------------------------------- what is listed


class Clock:
    def __init__(self, at: datetime) -> None:
        self.seconds = at.timestamp()

    def __call__(self) -> float:
        return self.seconds


NOW = datetime(2026, 3, 1, 8, 30, tzinfo=UTC)


def test_old_folders_are_listed_once_and_the_present_ones_at_each_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for hours in range(500):
        folder = (NOW - timedelta(hours=hours)).strftime("%Y/%m/%d/%H")
        put(storage_path(tmp_path) / "l" / folder / "a.json", event(hours))
    listed: list[str] = []
    slow, clock = 0.5, Clock(NOW)
    list_really = StoragePath.list

    def counted(self: StoragePath, *, recursive: bool = False) -> Any:
        listed.append(self.relative_to(storage_path(tmp_path)))
        clock.seconds += slow
        return list_really(self, recursive=recursive)

    monkeypatch.setattr(StoragePath, "list", counted)
    watch = FolderWatch(storage_path(tmp_path), InputPattern("l/{date}/{time}"), False)
    watch.look(clock)
    assert listed == ["l"]
    assert len(watch.names("0")) == 500
    listed.clear()
    watch.look(clock)
    assert listed == [f"l/2026/03/01/{hour:02d}" for hour in (6, 7, 8, 9)]
    put(storage_path(tmp_path) / "l" / "2026/03/01/08/b.json", event(-1))
    put(storage_path(tmp_path) / "l" / "2026/02/20/08/late.json", event(-2))
    watch.look(clock)
    assert len(watch.names("0")) == 501
    clock.seconds += 100 * slow  # all folders are due again
    watch.look(clock)
    assert "l/2026/02/20/08/late.json" in watch.names("0")
    assert watch.full_looks == 2


def test_the_partitions_of_the_present_are_listed_one_by_one_only_where_they_stand_before_the_time():
    before, behind = (
        InputPattern("{partition}/{date}", partition_count=2),
        InputPattern("{date}/{partition}"),
    )
    days = [formatted("YYYY/MM/DD", NOW + timedelta(days=day)) for day in (-2, -1, 0, 1)]
    assert behind.folders_around(NOW, set()) == days
    assert before.folders_around(NOW, {"7"}) == [f"{n}/{day}" for day in days for n in (0, 1, 7)]


def test_looks_at_a_store_become_rarer_while_nothing_appears():
    clock = Clock(NOW)
    root = storage_path(f"memory://tests/{NOW.timestamp()}-rarer")
    watch = FolderWatch(root, InputPattern("{date}"), False)
    at: list[float] = []
    for _ in range(400):
        before = watch.looks
        watch.look(clock)
        if watch.looks > before:
            at.append(clock.seconds - NOW.timestamp())
            watch.has_gained({}, clock)
        clock.seconds += 1
    assert at == [0, 1, 3, 7, 15, 31, 63, 127, 217, 307, 397]
    watch.has_gained(None, clock)
    before = watch.looks
    watch.look(clock)
    assert watch.looks == before + 1


def test_a_look_that_finds_nothing_new_is_not_worked_through_again(place: StoragePath):
    put(place / "a" / "1.json", event(1))
    source = an_input(place, "a", finished=False)
    first = source.latest({})
    assert source.latest(first) == first
    put(place / "a" / "2.json", event(2))
    assert numbers(source, {}, _until_more(source, first)) == [1, 2]


def _until_more(source: FileInput, position: Any) -> Any:
    """The next position that holds more; looks at a store have pauses."""
    import time

    limit = time.monotonic() + 20
    while (later := source.latest(position)) == position and time.monotonic() < limit:
        time.sleep(0.05)
    return later


# ---------------------------------------------------------------- properties

HOURS = st.integers(0, 40)


@st.composite
def folders(draw: st.DrawFn) -> list[tuple[int, int, str, int]]:
    """Files: partition, hour, name, events."""
    names = st.tuples(st.integers(0, 2), HOURS, st.sampled_from("abcd"), st.integers(1, 3))
    return draw(st.lists(names, min_size=1, max_size=12, unique_by=lambda each: each[:3]))


def write(root: Path, files: list[tuple[int, int, str, int]], first: int = 0) -> int:
    for partition, hour, name, count in files:
        folder = root / "p" / str(partition) / (NOW + timedelta(hours=hour)).strftime("%Y-%m-%d/%H")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.json").write_text("".join(map(event, range(first, first + count))))
        first += count
    return first


@given(folders(), st.integers(1, 60))
@settings(max_examples=depth(100), deadline=None)
def test_batches_read_each_event_once_and_folders_by_their_time(
    tmp_path_factory: pytest.TempPathFactory, files: list[tuple[int, int, str, int]], limit_bytes: int
):
    root = tmp_path_factory.mktemp("blobs")
    count = write(root, files)
    source = an_input(root, "p/{partition}/{date}/{time}", date_format="YYYY-MM-DD")
    whole = source.latest({})
    expected = {name: numbers(source, {}, whole, name) for name in source.partitions()}
    assert sorted(n for each in expected.values() for n in each) == list(range(count))
    for name, pieces in whole.items():
        times = [piece.where.rpartition("/")[0] for piece in pieces]
        assert times == sorted(times), name
    position: Any = {}
    read: dict[str, list[int]] = {}
    while (later := source.latest(position, limit_bytes)) != position:
        # Another process goes on from the position alone.
        source = an_input(root, "p/{partition}/{date}/{time}", date_format="YYYY-MM-DD")
        for name in later:
            read.setdefault(name, []).extend(numbers(source, position, later, name))
        position = later
    assert read == expected


@given(folders(), folders())
@settings(max_examples=depth(100), deadline=None)
def test_files_that_appear_late_are_read_after_those_before_them_and_once(
    tmp_path_factory: pytest.TempPathFactory,
    early: list[tuple[int, int, str, int]],
    late: list[tuple[int, int, str, int]],
):
    root = tmp_path_factory.mktemp("blobs")
    late = [each for each in late if each[:3] not in {other[:3] for other in early}]
    first = write(root, early)
    source = an_input(root, "p/{partition}/{date}/{time}", date_format="YYYY-MM-DD", finished=False)
    watch = FolderWatch(source.spec.path, source.spec.pattern, False)  # type: ignore[arg-type]
    clock = Clock(NOW)
    watch.look(clock)
    count = write(root, late, first)
    clock.seconds += 3600
    watch.look(clock)
    assert sum(map(len, map(watch.names, watch.partitions()))) == len(early) + len(late)
    begun = source.latest({})
    end = an_input(root, "p/{partition}/{date}/{time}", date_format="YYYY-MM-DD").latest(begun)
    found = sorted(n for name in end for n in numbers(source, {}, end, name))
    assert found == list(range(count))


# ---------------------------------------------------------------- compression


@pytest.mark.parametrize("window_bits", [zlib.MAX_WBITS, -zlib.MAX_WBITS], ids=["zlib", "bare"])
def test_deflated_files_are_read_whatever_they_are_called(place: StoragePath, window_bits: int):
    packing = zlib.compressobj(wbits=window_bits)
    body = "".join(map(event, range(1000))).encode()
    (place / "a" / "x.json").write(packing.compress(body) + packing.flush())
    source = an_input(place, "a", compression="deflate")
    assert numbers(source, {}, source.latest({})) == list(range(1000))


def test_what_is_not_compressed_as_the_input_says_is_refused_by_the_services_name(place: StoragePath):
    put(place / "a" / "x.json", event(1))
    for compression in ("gzip", "deflate"):
        source = an_input(place, "a", compression=compression)
        read = list(source.read("0", [], source.latest({})["0"], N))
        rejected = [each.error_type for chunk in read for each in chunk.rejected]
        assert "InputDeserializerError.InvalidCompressionType" in rejected
