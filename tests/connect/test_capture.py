"""Files of Event Hubs Capture as an input: the messages in them, when they came, and their metadata."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fastavro
import pytest

from tideglass.cli.main import main
from tideglass.connect.files.input import FileInput
from tideglass.connect.spec import InputSpec
from tideglass.core.events import Fields
from tideglass.core.time import format_ticks
from tideglass.core.types import ARRIVAL, OFFSET

_VALUES = ["long", "double", "string", "bytes"]
SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "EventData",
        "namespace": "Microsoft.ServiceBus.Messaging",
        "fields": [
            {"name": "SequenceNumber", "type": "long"},
            {"name": "Offset", "type": "string"},
            {"name": "EnqueuedTimeUtc", "type": "string"},
            {"name": "SystemProperties", "type": {"type": "map", "values": _VALUES}},
            {"name": "Properties", "type": {"type": "map", "values": [*_VALUES, "null"]}},
            {"name": "Body", "type": ["null", "bytes"]},
        ],
    }
)
START = datetime(2026, 3, 1, 8, 0, tzinfo=UTC)
PATHS = (("v",), ("$EventHub", "Offset"), ("$EventHub", "SequenceNumber"), ("$User", "lane"))


def record(n: int, body: bytes | None, **more: Any) -> dict[str, Any]:
    time = START + timedelta(seconds=n)
    return {
        "SequenceNumber": n,
        "Offset": str(n * 100),
        "EnqueuedTimeUtc": f"{time.month}/{time.day}/{time.year} {time:%I:%M:%S %p}",
        "SystemProperties": {"x-opt-partition-key": f"k{n % 2}"},
        "Properties": {"lane": n % 3},
        "Body": body,
    } | more


def write(folder: Path, partition: int, minute: int, records: list[dict[str, Any]]) -> None:
    path = folder / str(partition) / "2026" / "03" / "01" / "08" / f"{minute:02d}" / "00.avro"
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        fastavro.writer(file, SCHEMA, records, codec="deflate", sync_interval=300)


def source_of(folder: Path, **more: Any) -> FileInput:
    return FileInput(
        InputSpec(name="toll", path=folder, partitions="folders", **({"capture": "json"} | more))
    )


def rows(source: FileInput, partition: str, start: Any = ()) -> list[tuple[Any, ...]]:
    end = source.latest({})[partition]
    found: list[tuple[Any, ...]] = []
    for chunk in source.read(partition, start, end, Fields(PATHS)):
        columns = [chunk.table[f"$payload.{'.'.join(path)}"].to_pylist() for path in PATHS]
        times = map(format_ticks, chunk.table[ARRIVAL].to_pylist())
        found += zip(*columns, times, chunk.table[OFFSET].to_pylist(), strict=True)
    return found


def test_messages_arrive_when_the_hub_took_them_and_bear_its_metadata(tmp_path: Path):
    for partition in (0, 1):
        for minute in (5, 0):  # folders sort by their time
            first = partition * 1000 + minute * 10
            body = [record(n, json.dumps({"v": n}).encode()) for n in range(first, first + 40)]
            write(tmp_path, partition, minute, body)
    source = source_of(tmp_path)
    assert source.partitions() == ["0", "1"]
    assert not source.arrives_with_piece
    found = rows(source, "1")
    expected = [*range(1000, 1040), *range(1050, 1090)]
    assert [each[:4] for each in found] == [(n, str(n * 100), n, n % 3) for n in expected]
    times = [(START + timedelta(seconds=n)).strftime("%Y-%m-%dT%H:%M:%S.0000000Z") for n in expected]
    assert [each[4] for each in found] == times
    offsets = [each[5] for each in found]
    assert offsets == sorted(set(offsets))


def test_a_message_of_several_events_has_a_place_for_each_and_an_empty_one_has_none(tmp_path: Path):
    several = json.dumps([{"v": 1}, {"v": 2}]).encode()
    write(tmp_path, 0, 0, [record(1, several), record(2, None), record(3, b'{"v": 3}')])
    found = rows(source_of(tmp_path), "0")
    assert [(each[0], each[2]) for each in found] == [(1, 1), (2, 1), (3, 3)]
    assert len({each[5] for each in found}) == 3


def test_messages_may_be_csv_and_compressed(tmp_path: Path):
    write(tmp_path / "a", 0, 0, [record(1, b"v;w\n7;x\n")])
    write(tmp_path / "b", 0, 0, [record(1, gzip.compress(b'{"v": 8}'))])
    assert rows(source_of(tmp_path / "a", capture="csv", delimiter=";"), "0")[0][0] == "7"
    assert rows(source_of(tmp_path / "b", compression="gzip"), "0")[0][0] == 8


def test_the_exact_time_of_the_hub_comes_first(tmp_path: Path):
    exact = {"x-opt-enqueued-time": 1_772_352_000_123}
    write(tmp_path, 0, 0, [record(1, b'{"v": 1}', SystemProperties=exact)])
    assert rows(source_of(tmp_path), "0")[0][4] == "2026-03-01T08:00:00.1230000Z"


def test_what_is_no_record_of_capture_is_refused_and_named(tmp_path: Path):
    write(tmp_path, 0, 0, [record(1, b'{"v": 1}'), record(2, b'{"v": 2}', EnqueuedTimeUtc="soon")])
    other = tmp_path / "0" / "other.avro"
    with other.open("wb") as file:
        schema = {"type": "record", "name": "r", "fields": [{"name": "v", "type": "int"}]}
        fastavro.writer(file, fastavro.parse_schema(schema), [{"v": 1}])
    (tmp_path / "0" / "text.avro").write_text("no avro")
    source = source_of(tmp_path)
    chunks = list(source.read("0", [], source.latest({})["0"], Fields(PATHS)))
    assert [v for chunk in chunks for v in chunk.table["$payload.v"].to_pylist()] == [1]
    reasons = sorted(each.message for chunk in chunks for each in chunk.rejected)
    assert len(reasons) == 3
    assert "holds no time" in "".join(reasons)
    assert "none of Event Hubs Capture" in "".join(reasons)


def test_captured_files_stand_in_for_a_hub_with_all_that_a_query_asks_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    write(tmp_path / "captured", 3, 0, [record(n, json.dumps({"v": n}).encode()) for n in range(5)])
    project = tmp_path / "project"
    project.mkdir()
    (project / "job.asaql").write_text(
        "SELECT v, PartitionId, GetMetadataPropertyValue(toll, '[EventHub].[SequenceNumber]') AS s "
        "INTO o FROM toll"
    )
    files = f"toll={tmp_path / 'captured'},capture=json"
    with pytest.raises(SystemExit) as ended:
        main(["peek", str(project), "toll", "--input", files, "--json", "--events", "1"])
    out, err = capsys.readouterr()
    assert not ended.value.code, err
    found = json.loads(out)
    assert (found["partition"], found["event"], found["arrival"][:19]) == (
        "3",
        {"v": 4},
        "2026-03-01T08:00:04",
    )
    hub = found["metadata"]["EventHub"]
    assert (hub["SequenceNumber"], hub["Offset"], hub["PartitionId"], hub["PartitionKey"]) == (
        4,
        "400",
        3,
        "k0",
    )
    assert found["metadata"]["User"] == {"lane": 1}
