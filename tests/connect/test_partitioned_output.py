"""Outputs whose files are spread over folders: where rows go, and when they are seen."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.partitioned_files import START, files_in, numbers_in
from tideglass.connect.files.folder_pattern import FolderPattern
from tideglass.connect.files.output import FileOutput
from tideglass.connect.files.partitioned_output import PartitionedFileOutput, Waiting
from tideglass.connect.output import Batch
from tideglass.core.errors import OutputError
from tideglass.core.json_rows import table_of
from tideglass.core.time import (
    AFTER_ALL_TICKS,
    BEFORE_ALL_TICKS,
    TICKS_PER_HOUR,
    TICKS_PER_MINUTE,
)
from tideglass.storage import StoragePath, storage_path

HOURLY = FolderPattern("{date}/{time}")
ONCE = Waiting(once=True)
avro = cast("Any", fastavro)


def rows(*numbers: int, hour: float = 0, **more: Any) -> pa.Table:
    """Rows a minute apart from an hour of the day on."""
    times = (START + int(hour * TICKS_PER_HOUR) + place * TICKS_PER_MINUTE for place in range(len(numbers)))
    return table_of([{"$ts": at, "n": n, **more} for at, n in zip(times, numbers, strict=True)])


def output(path: StoragePath | Path, pattern: FolderPattern = HOURLY, **more: Any) -> PartitionedFileOutput:
    return PartitionedFileOutput("out", storage_path(path), pattern, **more)


def publish(made: PartitionedFileOutput, number: int, *parts: pa.Table, generation: int = 1) -> Batch:
    batch = Batch(generation, number)
    made.publish(batch, [made.stage(part, f"i/{place}") for place, part in enumerate(parts)])
    return batch


# ---------------------------------------------------------------- with the batch


def test_rows_come_into_the_folders_of_their_times_with_their_batch(place: StoragePath):
    made = output(place)
    staged = [made.stage(rows(1, 2, hour=0.99), "i/0"), made.stage(rows(3, hour=1), "i/1")]
    assert files_in(place) == {}
    made.publish(Batch(1, 0), staged)
    assert numbers_in(place) == {"2026/03/09/00": [1], "2026/03/09/01": [2, 3]}
    assert sorted(files_in(place)) == [
        "2026/03/09/00/part-00000000-i-0.json",
        "2026/03/09/01/part-00000000-i-0.json",
        "2026/03/09/01/part-00000000-i-1.json",
    ]
    assert not [*(place / "_staging").iterdir()]


def test_a_column_names_folders_whatever_its_case_and_its_values_stay_within(place: StoragePath):
    made = output(place, FolderPattern("in/{Plate}"))
    values = ["A", "../../x", "/etc", "", None, "_staging", ".", "a\\b", "é"]
    for number, value in enumerate(values):
        publish(made, number, rows(number, plate=value))
    assert numbers_in(place) == {
        "in/A": [0],
        "in/%2E.%2F..%2Fx": [1],
        "in/%2Fetc": [2],
        "in/%": [3],
        "in/%NULL": [4],
        "in/%5Fstaging": [5],
        "in/%2E": [6],
        "in/a%5Cb": [7],
        "in/é": [8],
    }


@pytest.mark.parametrize(
    ("value", "folder"), [(7, "7"), (-1.5, "-1.5"), (True, "true"), (False, "false"), ("x y", "x y")]
)
def test_a_folder_is_named_by_a_text_a_number_or_a_bit(tmp_path: Path, value: object, folder: str):
    made = output(tmp_path, FolderPattern("{k}"))
    publish(made, 0, rows(1, k=value))
    publish(made, 1, table_of([{"$ts": START, "n": 2, "k": value}, {"$ts": START, "n": 3, "k": "other"}]))
    assert numbers_in(tmp_path) == {folder: [1, 2], "other": [3]}


def test_a_field_of_the_event_names_a_folder(tmp_path: Path):
    made = output(tmp_path, FolderPattern("{k}"))
    events = [{"$ts": START, "n": n, "$payload": payload} for n, payload in enumerate([{"k": "a"}, {"x": 1}])]
    publish(made, 0, table_of(events))
    assert numbers_in(tmp_path) == {"a": [0], "%NULL": [1]}


@pytest.mark.parametrize("value", [{"a": 1}, [1]])
def test_a_record_or_an_array_names_no_folder(tmp_path: Path, value: object):
    with pytest.raises(OutputError, match="CAST it in the query"):
        output(tmp_path, FolderPattern("{k}")).stage(rows(1, k=value), "i/0")


def test_a_column_that_is_not_there_is_an_error(tmp_path: Path):
    with pytest.raises(OutputError, match="'k', which its rows do not have; they have n"):
        output(tmp_path, FolderPattern("{k}")).stage(rows(1), "i/0")


def test_a_batch_run_again_in_other_parts_leaves_nothing_of_the_first_attempt(place: StoragePath):
    made = output(place)
    publish(made, 0, rows(9))
    publish(made, 1, rows(1), rows(2, hour=1), rows(3, hour=2))
    publish(made, 1, rows(1, 2, hour=0), rows(3, hour=2))
    assert numbers_in(place) == {"2026/03/09/00": [1, 2, 9], "2026/03/09/02": [3]}


def test_batches_after_the_last_one_are_withdrawn_also_by_an_output_of_another_kind(place: StoragePath):
    made = output(place)
    for number in range(3):
        publish(made, number, rows(number, hour=number))
    FileOutput("out", place).withdraw(Batch(1, 1))
    assert numbers_in(place) == {"2026/03/09/00": [0], "2026/03/09/01": [1]}
    publish(made, 0, rows(5, hour=2), generation=2)
    made.withdraw(Batch(1, 0))
    assert numbers_in(place) == {"2026/03/09/00": [0], "2026/03/09/02": [5]}


def test_rows_of_another_job_are_not_mixed_in_and_can_be_replaced(place: StoragePath):
    (place / "2026" / "theirs.json").write(b"{}")
    made = output(place)
    made.check(())
    publish(made, 0, rows(1), rows(2, hour=3))
    with pytest.raises(OutputError, match="already holds files of another run"):
        made.check(())
    made.check([place])
    made.clear(rows=False)
    assert len(files_in(place)) == 3
    made.clear(rows=True)
    assert sorted(files_in(place)) == ["2026/theirs.json"]
    made.check(())


# ---------------------------------------------------------------- formats


def test_an_array_is_whole_in_every_file(tmp_path: Path):
    made = output(tmp_path, array=True)
    publish(made, 0, rows(1, 2, s="a\nb"))
    (body,) = files_in(tmp_path).values()
    assert json.loads(body) == [{"n": 1, "s": "a\nb"}, {"n": 2, "s": "a\nb"}]
    assert body.startswith(b"[\n{")
    assert body.endswith(b"}\n]\n")


def test_avro_has_a_schema_of_its_rows(tmp_path: Path):
    made = output(tmp_path, format="avro")
    kept = [
        {"n": 1, "the time": "x", "r": {"a": [1, 2.5, None], "b": True}},
        {"n": None, "the time": None, "r": None},
        {"n": "mixed", "the time": "y", "r": {"a": [], "b": None}},
    ]
    publish(made, 0, table_of([{"$ts": START, **each} for each in kept]))
    ((name, body),) = files_in(tmp_path).items()
    reader = avro.reader(io.BytesIO(body))
    assert [{**each, "the time": each["the_time"]} for each in reader] == [
        {**each, "the_time": each["the time"]} for each in kept
    ]
    fields = {each["name"]: each["type"] for each in reader.writer_schema["fields"]}
    assert fields["n"] == ["null", "long", "string"]
    assert name.endswith(".avro")
    made.publish(Batch(1, 0), [made.stage(table_of([{"$ts": START, **each} for each in kept]), "i/0")])
    assert files_in(tmp_path) == {name: body}, "the same rows are the same bytes"


def test_a_number_too_large_for_avro_is_a_double_and_names_stay_apart(tmp_path: Path):
    made = output(tmp_path, format="avro")
    publish(made, 0, table_of([{"$ts": START, "a b": {"x": 10**30}, "a-b": 1, "2": True}]))
    (body,) = files_in(tmp_path).values()
    assert list(avro.reader(io.BytesIO(body))) == [{"a_b": {"x": 1e30}, "a_b_2": 1, "_2": True}]


# ---------------------------------------------------------------- rows that wait


def waiting(minimum: int = 4, minutes: int = 10) -> Waiting:
    return Waiting(minimum, minutes * TICKS_PER_MINUTE)


def watermark(hour: float) -> int:
    return START + int(hour * TICKS_PER_HOUR)


def test_rows_wait_until_they_are_enough(place: StoragePath):
    made = output(place, waiting=waiting())
    for number in range(4):
        batch = publish(made, number, rows(number, hour=0.1))
        assert numbers_in(place) == {}
        made.advance(batch, watermark(0.1))
    assert numbers_in(place) == {"2026/03/09/00": [0, 1, 2, 3]}
    assert [*files_in(place)] == ["2026/03/09/00/part-00000003-0.json"]
    made.advance(publish(made, 4, rows(4, hour=0.2)), watermark(0.2))
    assert not [each for each in (place / "_held").list() if "00000000" in each.name]


def test_rows_wait_no_longer_than_the_watermark_goes_on_by_the_maximum_time(place: StoragePath):
    made = output(place, waiting=waiting())
    made.advance(publish(made, 0, rows(0, hour=0.1)), BEFORE_ALL_TICKS)
    made.advance(Batch(1, 1), watermark(0.1))  # the first that is known
    made.advance(Batch(1, 2), watermark(0.1) + 10 * TICKS_PER_MINUTE - 1)
    assert numbers_in(place) == {}
    made.advance(Batch(1, 3), watermark(0.1) + 10 * TICKS_PER_MINUTE)
    assert numbers_in(place) == {"2026/03/09/00": [0]}


def test_rows_do_not_wait_once_their_time_partition_is_over_or_the_inputs_end(place: StoragePath):
    made = output(place, waiting=waiting(minutes=60))
    made.advance(publish(made, 0, rows(0, hour=0.9), rows(1, hour=1)), watermark(0.95))
    assert numbers_in(place) == {}
    made.advance(Batch(1, 1), watermark(1) - 1)
    assert numbers_in(place) == {"2026/03/09/00": [0]}
    made.finish(Batch(1, 1))
    assert numbers_in(place) == {"2026/03/09/00": [0], "2026/03/09/01": [1]}
    before = files_in(place)
    made.finish(Batch(1, 1))
    assert files_in(place) == before


def test_a_new_file_begins_where_the_columns_or_their_types_change(tmp_path: Path):
    made = output(tmp_path, FolderPattern(""), format="parquet", waiting=waiting())
    publish(made, 0, rows(1, x=None), rows(2, x="a"), rows(3, x=1.5), rows(4, x=2.5, y=1))
    made.finish(Batch(1, 0))
    tables = [pq.read_table(io.BytesIO(body)).to_pylist() for _, body in sorted(files_in(tmp_path).items())]
    assert tables == [
        [{"n": 1, "x": None}, {"n": 2, "x": "a"}],
        [{"n": 3, "x": 1.5}],
        [{"n": 4, "x": 2.5, "y": 1}],
    ]


@pytest.mark.parametrize("form", ["csv", "avro", "array"])
def test_pieces_are_joined_to_one_file_of_each_format(tmp_path: Path, form: str):
    more: Mapping[str, Any] = {"array": True} if form == "array" else {"format": form}
    made = output(tmp_path, waiting=waiting(), **more)
    for number in range(2):
        made.advance(
            publish(made, number, rows(2 * number, s="a,b"), rows(2 * number + 1, s="c")), watermark(0)
        )
    (body,) = files_in(tmp_path).values()
    expected = [{"n": n, "s": "c" if n % 2 else "a,b"} for n in range(4)]
    if form == "csv":
        assert body.decode() == 'n,s\n0,"a,b"\n1,c\n2,"a,b"\n3,c\n'
    elif form == "avro":
        assert list(avro.reader(io.BytesIO(body))) == expected
    else:
        assert json.loads(body) == expected


def test_rows_are_given_once_where_the_partition_is_over(place: StoragePath):
    made = output(place, waiting=ONCE)
    made.advance(publish(made, 0, rows(0, hour=0.5), rows(1, hour=1.5)), watermark(0.6))
    made.advance(publish(made, 1, rows(2, hour=0.7)), watermark(0.8))
    assert numbers_in(place) == {}
    made.advance(Batch(1, 2), watermark(1) - 1)
    assert numbers_in(place) == {"2026/03/09/00": [0, 2]}
    assert len(files_in(place)) == 1
    made.advance(publish(made, 3, rows(3, hour=0.9)), watermark(1.1))  # of a partition that has appeared late
    assert numbers_in(place) == {"2026/03/09/00": [0, 2, 3]}
    made.advance(Batch(1, 4), AFTER_ALL_TICKS)
    assert numbers_in(place) == {"2026/03/09/00": [0, 2, 3], "2026/03/09/01": [1]}


def test_a_start_inside_a_partition_replaces_its_file_by_the_rows_from_there(place: StoragePath):
    made = output(place, waiting=ONCE)
    made.advance(publish(made, 0, rows(0, hour=0.5), rows(1, hour=1.2)), watermark(1.3))
    publish(made, 0, rows(5, hour=0.8), rows(6, hour=1.1), generation=2)
    made.clear(rows=False)
    assert numbers_in(place) == {"2026/03/09/00": [0]}
    made.advance(Batch(2, 0), watermark(2))
    assert numbers_in(place) == {"2026/03/09/00": [5], "2026/03/09/01": [6]}


def test_a_start_where_the_last_run_stopped_goes_on_with_the_rows_that_wait(place: StoragePath):
    made = output(place, waiting=ONCE)
    made.advance(publish(made, 0, rows(0, hour=0.2)), watermark(0.3))
    publish(made, 1, rows(1, hour=0.4))
    made.withdraw(Batch(1, 0))
    made.clear(rows=False)
    made.advance(publish(made, 0, rows(1, hour=0.4), generation=2), watermark(1))
    assert numbers_in(place) == {"2026/03/09/00": [0, 1]}


def test_rows_that_wait_are_not_lost_by_a_start_at_another_time(place: StoragePath):
    made = output(place, waiting=waiting())
    made.advance(publish(made, 0, rows(0)), watermark(0))
    made.clear(rows=False)
    made.advance(publish(made, 0, rows(1), generation=2), watermark(1))
    assert numbers_in(place) == {"2026/03/09/00": [0, 1]}


def test_rows_that_wait_and_are_gone_are_an_error(tmp_path: Path):
    made = output(tmp_path, waiting=ONCE)
    batch = publish(made, 0, rows(0))
    next((tmp_path / "_held").iterdir()).unlink()
    with pytest.raises(OutputError, match="are gone"):
        made.finish(batch)


def test_a_state_older_than_the_rows_that_wait_is_refused(tmp_path: Path):
    made = output(tmp_path, waiting=ONCE)
    for number in range(3):
        made.advance(publish(made, number, rows(number)), watermark(0))
    with pytest.raises(OutputError, match="the job's state is older than its output"):
        publish(made, 1, rows(1))


def test_a_damaged_record_is_refused(tmp_path: Path):
    made = output(tmp_path, waiting=ONCE)
    made.advance(publish(made, 0, rows(0)), watermark(0))
    (record,) = (tmp_path / "_records").iterdir()
    record.write_text(record.read_text().replace('"rows": 1', '"rows": 2'))
    with pytest.raises(OutputError, match="is damaged: its content does not fit its checksum"):
        publish(made, 1, rows(1))


@pytest.mark.parametrize(
    ("pattern", "when", "says"),
    [
        ("{date}", ONCE, "must hold {date} and {time}"),
        ("{datetime:yyyy}/{time}", ONCE, "must hold {date} and {time}"),
        ("{date}/{time}/{plate}", ONCE, "may hold no column, and holds {plate}"),
        ("{datetime:mm}", waiting(minutes=2), "longer than a time partition"),
    ],
)
def test_what_cannot_wait_so_is_refused(tmp_path: Path, pattern: str, when: Waiting, says: str):
    with pytest.raises(OutputError) as error:
        output(tmp_path, FolderPattern(pattern), waiting=when)
    assert says in str(error.value)
