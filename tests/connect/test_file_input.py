"""Files as a stream: order, positions, growth, cuts, arrival times."""

from __future__ import annotations

import gzip
import json
import os
import uuid
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.depth import depth
from support.places import append, put
from tideglass.connect.files import piece_ends, reading
from tideglass.connect.files.input import FileInput
from tideglass.connect.spec import InputSpec
from tideglass.core.errors import InputError
from tideglass.core.events import Chunk, Fields
from tideglass.core.time import parse_ticks
from tideglass.core.types import ARRIVAL, OFFSET
from tideglass.storage import StoragePath, storage_path

N = Fields((("n",),))


def an_input(path: Path | StoragePath, **more: Any) -> FileInput:
    return FileInput(InputSpec(name="in", path=path, **more))


def chunks(source: FileInput, start: Any, end: Any, partition: str = "0", fields: Fields = N) -> list[Chunk]:
    return list(source.read(partition, start.get(partition, []), end[partition], fields))


def values(read: list[Chunk], name: str = "$payload.n") -> list[Any]:
    return [value for chunk in read for value in chunk.table[name].to_pylist()]


def lines(*numbers: int) -> str:
    return "".join(json.dumps({"n": n}) + "\n" for n in numbers)


def test_files_are_read_in_the_order_of_their_names(place: StoragePath):
    for name, n in (
        ("b.json", 2),
        ("a.json", 1),
        ("c/d.json", 3),
        ("_x.json", 9),
        (".y.json", 9),
        ("z.json.tmp", 9),
    ):
        put(place / name, lines(n))
    source = an_input(place)
    read = chunks(source, {}, source.latest({}))
    assert values(read) == [1, 2, 3]
    assert values(read, OFFSET) == [0, 1 << 40, 2 << 40]


def test_sub_folders_are_partitions_numbers_before_names(place: StoragePath):
    for name in ("10", "9", "east", "_tmp"):
        put(place / name / "a.json", lines(len(name)))
    source = an_input(place, partitions="folders")
    assert source.partitions() == ["9", "10", "east"]
    end = source.latest({})
    assert [values(chunks(source, {}, end, name)) for name in source.partitions()] == [[1], [2], [4]]


def test_one_file_and_a_pattern_are_inputs_too(place: StoragePath):
    put(place / "a1.json", lines(1))
    put(place / "a2.json", lines(2))
    put(place / "b1.json", lines(3))
    one, some = an_input(place / "b1.json"), an_input(place / "a*.json")
    assert values(chunks(one, {}, one.latest({}))) == [3]
    assert values(chunks(some, {}, some.latest({}))) == [1, 2]


def test_a_file_that_appears_later_is_read_later_wherever_it_sorts(place: StoragePath):
    put(place / "b.json", lines(1))
    source = an_input(place, finished=False)
    first = source.latest({})
    put(place / "a.json", lines(2))
    second = source.latest(first)
    assert values(chunks(source, first, second)) == [2]
    assert values(chunks(source, {}, second)) == [1, 2]
    assert second["0"][: len(first["0"])] == first["0"]


def test_a_growing_file_is_read_to_its_last_whole_line(place: StoragePath):
    file = place / "a.json"
    put(file, lines(1) + '{"n": ')
    source = an_input(place, finished=False)
    first = source.latest({})
    assert values(chunks(source, {}, first)) == [1]
    assert source.latest(first) == first
    append(file, "2}\n" + '{"n": 3}')
    second = source.latest(first)
    assert values(chunks(source, first, second)) == [2]
    assert not source.ended(second) >= set(source.partitions())
    finished = an_input(place)
    third = finished.latest(second)
    assert values(chunks(finished, second, third)) == [3]
    assert finished.ended(third) >= set(finished.partitions())


def test_a_growing_csv_is_read_to_its_last_whole_row(place: StoragePath):
    file = place / "a.csv"
    put(file, "n,m")
    source = an_input(place, finished=False)
    assert source.latest({}) == {"0": []}
    put(file, 'n,m\n1,"x\ny"\n2,"p\nq')
    first = source.latest({})
    assert values(chunks(source, {}, first)) == ["1"]
    append(file, '"\n3,z\n')
    second = source.latest(first)
    assert values(chunks(source, first, second)) == ["2", "3"]
    assert values(chunks(source, {}, second)) == ["1", "2", "3"]


def test_arrival_is_the_modification_time_and_never_decreases(tmp_path: Path):
    for name, seconds in (("a.json", 30), ("b.json", 10), ("c.json", 40)):
        (tmp_path / name).write_text(lines(1))
        os.utime(tmp_path / name, (seconds, seconds))
    source = an_input(tmp_path)
    assert values(chunks(source, {}, source.latest({})), ARRIVAL) == [300_000_000, 300_000_000, 400_000_000]


def test_what_is_appended_later_arrives_later_also_when_read_again(tmp_path: Path):
    file = tmp_path / "a.json"
    file.write_text(lines(1))
    os.utime(file, (10, 10))
    source = an_input(tmp_path, finished=False)
    first = source.latest({})
    with file.open("a") as more:
        more.write(lines(2))
    os.utime(file, (20, 20))
    second = source.latest(first)
    assert values(chunks(source, {}, second), ARRIVAL) == [100_000_000, 200_000_000]
    assert sorted(set(offsets := values(chunks(source, {}, second), OFFSET))) == offsets


@pytest.mark.parametrize(
    ("form", "value", "moment"),
    [
        ("iso", "2026-01-01T00:00:05.1234567+01:00", "2025-12-31T23:00:05.1234567Z"),
        ("epoch_milliseconds", 1500, "1970-01-01T00:00:01.5Z"),
        ("epoch_milliseconds", "1500", "1970-01-01T00:00:01.5Z"),
        ("epoch_seconds", 1.25, "1970-01-01T00:00:01.25Z"),
        ("epoch_seconds", -1, "1969-12-31T23:59:59Z"),
    ],
)
def test_an_arrival_field_stands_in_for_the_modification_time(
    tmp_path: Path, form: str, value: object, moment: str
):
    (tmp_path / "a.json").write_text(
        json.dumps({"n": 1, "x": {"at": value}}) + "\n" + json.dumps({"n": 2}) + "\n"
    )
    source = an_input(tmp_path, arrival={"path": ["x", "at"], "format": form})
    read = chunks(source, {}, source.latest({}))
    assert (values(read), values(read, ARRIVAL)) == ([1], [parse_ticks(moment)])
    assert "$payload.x.at" not in read[0].table.column_names
    assert [(r.count, r.message) for r in read[0].rejected] == [
        (1, "the arrival field x.at is missing or holds no time")
    ]


def test_a_datetime_column_of_parquet_can_be_the_arrival_time(tmp_path: Path):
    pq.write_table(
        pa.table({"n": [1], "at": pa.array([1234567], pa.timestamp("us"))}), tmp_path / "a.parquet"
    )
    source = an_input(tmp_path, arrival="at")
    assert values(chunks(source, {}, source.latest({})), ARRIVAL) == [12345670]


def test_a_folder_named_by_a_digit_that_is_not_ascii_is_no_number(tmp_path: Path):
    for folder in ("²", "٣", "7"):
        (tmp_path / folder).mkdir()
    assert an_input(tmp_path, partitions="folders").partitions() == ["7", "²", "٣"]


def test_the_limit_is_shared_by_the_partitions_and_the_rest_comes_later(place: StoragePath):
    for name, count in (("0", 10), ("1", 1000), ("2", 1000)):
        put(place / name / "a.json", lines(*range(count)))
    source = an_input(place, partitions="folders")
    end = source.latest({}, limit_bytes=6000)
    sizes = {name: sum(int(piece[2]) - int(piece[1]) for piece in pieces) for name, pieces in end.items()}
    assert sizes["0"] == (place / "0/a.json").status().size
    assert abs(sizes["1"] - sizes["2"]) < 20
    assert 5900 < sum(sizes.values()) <= 6000


def _write(folder: Path, form: str, events: list[list[int]]) -> None:
    for place, file in enumerate(events):
        path = folder / f"{place}.{form}"
        if form == "json":
            path.write_text("".join(json.dumps({"n": n, "s": "x" * (n % 40)}) + "\n" for n in file))
        elif form == "csv":
            path.write_text(
                "n,s\n" + "".join(f'{n},"{"x" * (n % 9)}{chr(10) if n % 3 == 0 else ""}"\n' for n in file)
            )
        elif form == "avro":
            fields = [{"name": "n", "type": "long"}, {"name": "s", "type": ["null", "string"]}]
            records = [{"n": n, "s": "x" * (n % 40)} for n in file]
            with path.open("wb") as sink:
                fastavro.writer(
                    sink, {"type": "record", "name": "r", "fields": fields}, records, sync_interval=50
                )
        else:
            pq.write_table(pa.table({"n": file, "s": ["x"] * len(file)}), path, row_group_size=7)


def _copied(folder: Path) -> StoragePath:
    """The files of a folder in an object store."""
    target = storage_path(f"memory://tests/{uuid.uuid4().hex}")
    for file in folder.iterdir():
        (target / file.name).write(file.read_bytes())
    return target


@pytest.mark.parametrize("stored", [False, True], ids=["on a disk", "in a store"])
@pytest.mark.parametrize("form", ["json", "csv", "parquet", "avro"])
@settings(max_examples=depth(15), deadline=None)
@given(data=st.data())
def test_any_cuts_give_the_same_events_with_the_same_offsets(
    tmp_path_factory: Any, form: str, stored: bool, data: Any
):
    folder = tmp_path_factory.mktemp("in")
    counts = data.draw(st.lists(st.integers(0, 60), max_size=4))
    numbers = iter(range(1000))
    events = [[next(numbers) for _ in range(count)] for count in counts]
    _write(folder, form, events)
    source = an_input(_copied(folder) if stored and events else folder)
    whole = chunks(source, {}, source.latest({}))
    assert [int(n) for n in values(whole)] == [n for file in events for n in file]
    offsets = values(whole, OFFSET)
    assert all(np.diff(offsets) > 0)

    position: Any = {}
    parts: list[Chunk] = []
    while not source.ended(position) >= set(source.partitions()):
        end = source.latest(position, data.draw(st.integers(1, 700)))
        assert end != position
        parts += chunks(source, position, end)
        position = end
    assert (values(parts), values(parts, OFFSET)) == (values(whole), offsets)
    assert sum(chunk.bytes_read for chunk in parts) == sum(chunk.bytes_read for chunk in whole)


@pytest.mark.parametrize("form", ["json", "csv"])
def test_small_blocks_give_the_same_events(tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch):
    _write(tmp_path, form, [list(range(200))])
    source = an_input(tmp_path)
    whole = chunks(source, {}, source.latest({}))
    monkeypatch.setattr(reading, "BLOCK_BYTES", 64)
    monkeypatch.setattr(reading, "BLOCK_EVENTS", 3)
    monkeypatch.setattr(piece_ends, "_CSV_BLOCK", 16)
    parts = chunks(source, {}, source.latest({}))
    assert len(parts) > 20
    assert (values(parts), values(parts, OFFSET)) == (values(whole), values(whole, OFFSET))


def test_compressed_files_are_read_whole(place: StoragePath):
    (place / "a.json.gz").write(gzip.compress(lines(1, 2).encode()))
    (place / "b.csv.gz").write(gzip.compress(b"n\n3\n4"))
    (place / "c.json.gz").write(gzip.compress(b'[{"n": 5}]'))
    source = an_input(place)
    first = source.latest({}, limit_bytes=1)
    assert values(chunks(source, {}, first)) == [1, 2]
    assert values(chunks(source, first, source.latest(first))) == ["3", "4", 5]


def test_every_type_of_avro_is_a_value_and_a_time_may_be_the_arrival(tmp_path: Path):
    kinds: dict[str, Any] = {
        "n": "int",
        "price": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        "raw": "bytes",
        "seen": {"type": "long", "logicalType": "timestamp-millis"},
        "inner": {"type": "record", "name": "inner", "fields": [{"name": "x", "type": "double"}]},
        "tags": {"type": "array", "items": "string"},
        "mixed": ["null", "long", "string"],
    }
    schema = {"type": "record", "name": "r", "fields": [{"name": n, "type": k} for n, k in kinds.items()]}
    seen = datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)
    one = {"n": 1, "price": Decimal("1.50"), "raw": b"\x00", "seen": seen, "inner": {"x": 0.5}, "tags": ["a"]}
    with (tmp_path / "a.avro").open("wb") as sink:
        fastavro.writer(sink, schema, [{**one, "mixed": 7}, {**one, "mixed": "text"}, {**one, "mixed": None}])
    source = an_input(tmp_path, arrival="seen")
    fields = Fields((("inner", "x"), ("mixed",), ("price",)), whole=True)
    (chunk,) = source.read("0", [], source.latest({})["0"], fields)
    assert chunk.table["$arrival"].to_pylist() == [20_000_000] * 3
    assert chunk.table["$payload.inner.x"].to_pylist() == [0.5] * 3
    assert chunk.table["$payload.price"].to_pylist() == [1.5] * 3
    first = json.loads(chunk.table["$payload"][0].as_py())
    assert first == {
        "n": 1,
        "price": 1.5,
        "raw": "AA==",
        "seen": "1970-01-01T00:00:02.0000000Z",
        "inner": {"x": 0.5},
        "tags": ["a"],
        "mixed": 7,
    }


@pytest.mark.parametrize("text", ['[{"n":1},\n{"n":2}]', '{"n":1},\n{"n":2}', '{\n"n":1}\n{"n":\n2}'])
def test_documents_are_read_whole_and_once(place: StoragePath, text: str):
    file = place / "a.json"
    put(file, text)
    source = an_input(place, finished=False)
    end = source.latest({}, limit_bytes=1)
    assert values(chunks(source, {}, end)) == [1, 2]
    assert source.latest(end) == end
    append(file, text)
    with pytest.raises(InputError, match="was read as a whole, and has grown since"):
        source.latest(end)


def test_a_document_that_may_grow_is_read_when_it_is_closed(place: StoragePath):
    file = place / "a.json"
    source = an_input(place, finished=False)
    for text in ('[{"n":1},\n{"n":', '[{"n":1},\n{"n":2}', '{"n":\n', '{"n":\n1\n}\n{"n":'):
        put(file, text)
        assert source.latest({}) == {"0": []}
    put(file, '[{"n":1},\n{"n":2}]\n')
    assert values(chunks(source, {}, source.latest({}))) == [1, 2]


def test_a_count_alone_reads_no_column_of_parquet(tmp_path: Path):
    _write(tmp_path, "parquet", [list(range(10))])
    source = an_input(tmp_path)
    assert sum(c.table.num_rows for c in chunks(source, {}, source.latest({}), fields=Fields())) == 10


def test_an_input_that_is_not_there_says_so(place: StoragePath):
    with pytest.raises(InputError, match="has no file or folder"):
        an_input(place / "nowhere").latest({})
    put(place / "a.txt", "x")
    with pytest.raises(InputError, match="does not say its format"):
        an_input(place).latest({})
    with pytest.raises(InputError, match="a partition per folder"):
        an_input(place / "a.txt", partitions="folders").partitions()


def test_a_file_that_is_gone_or_shorter_is_an_error(place: StoragePath):
    file = place / "a.json"
    put(file, lines(1, 2, 3))
    source = an_input(place)
    end = source.latest({})
    put(file, lines(1))
    with pytest.raises(InputError, match="has become shorter"):
        chunks(source, {}, end)
    file.unlink()
    with pytest.raises(InputError, match="is gone"):
        chunks(source, {}, end)
