"""The source plans batches and tells the stages how far every partition is; no Spark is started."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from support.project_on_disk import event, write
from support.times import ticks_at
from tideglass.connect.files.input import FileInput
from tideglass.connect.in_memory import RowsInput
from tideglass.connect.source import StreamInput
from tideglass.connect.spec import Arrival, InputSpec
from tideglass.core.errors import StateError
from tideglass.core.time import AFTER_ALL_TICKS
from tideglass.engine.exchange import RowSink
from tideglass.engine.messages import OUTPUT_KINDS, WATERMARKS, Kind, Message
from tideglass.engine.output_filter import emitted_messages
from tideglass.engine.snapshots import Snapshots
from tideglass.ingress.idle_periods import IdlePeriod
from tideglass.ingress.read_from import PartitionBegin
from tideglass.ingress.reports import BatchReports
from tideglass.project.settings import from_options
from tideglass.spark.file_source import JobReader, SourceJob
from tideglass.spark.key_numbers import key_numbers
from tideglass.spark.source_offset import SOURCE_OFFSET
from tideglass.testing import compile_rows

QUERY = "SELECT COUNT(*) AS n INTO o FROM events TIMESTAMP BY t GROUP BY TumblingWindow(second, 10)"
BOTH = "SELECT v INTO o FROM events SELECT v INTO p FROM others"
SETTINGS = {"late_arrival": "5s"}


def folders(path: Path, name: str = "events", finished: bool = True) -> FileInput:
    arrival = Arrival(path=("arrived",))
    return FileInput(
        InputSpec(name=name, path=path, partitions="folders", arrival=arrival, finished=finished)
    )


def reader(tmp_path: Path, *inputs: StreamInput, query: str = QUERY, **options: Any) -> JobReader:
    topology = compile_rows(query, {}, from_options(SETTINGS), key_groups=2).topology
    job = SourceJob(
        topology=topology,
        inputs=inputs,
        snapshots=Snapshots(str(tmp_path / "ingress")),
        sink=RowSink(),
        key_numbers=key_numbers(2),
        finished=True,
        batch_bytes=1 << 20,
        idle_seconds=0.0,
        tasks=2,
        stop_file=str(tmp_path / "stop"),
    )
    return JobReader(replace(job, **options))


def next_batch(source: JobReader, start: dict[str, Any] | None) -> dict[str, Any]:
    """The next offset, as Spark would read it back from its log."""
    start = source.initialOffset() if start is None else start
    return json.loads(json.dumps(source.latestOffset(start, ReadAllAvailable())))


def messages(source: JobReader, start: dict[str, Any] | None, end: dict[str, Any]) -> list[Message]:
    """What the tasks of a batch send."""
    start = source.initialOffset() if start is None else start
    rows = [
        row
        for share in source.partitions(start, end)
        for batch in source.read(share)
        for row in batch.to_pylist()
    ]
    return [Message(**{**row, "kind": Kind(row["kind"])}) for row in rows]


def marks(of: list[Message]) -> dict[str, int]:
    """The watermark each partition tells."""
    return {m.sender: next(iter(WATERMARKS.of_body(m.body).values())) for m in of if m.kind is Kind.WATERMARK}


def test_a_partition_at_its_end_no_longer_holds_back_the_others(tmp_path: Path) -> None:
    write(tmp_path / "in" / "0" / "a.json", [event(1, "a", 1)])
    write(tmp_path / "in" / "1" / "a.json", [event(second, "a", 1) for second in range(1, 40)])
    source = reader(tmp_path, folders(tmp_path / "in"), batch_bytes=800)
    first = next_batch(source, None)
    assert not first["final"]
    told = marks(messages(source, None, first))
    assert told["events/0"] == AFTER_ALL_TICKS > told["events/1"]
    second = next_batch(source, first)
    assert marks(messages(source, first, second))["events/0"] == AFTER_ALL_TICKS


def test_what_appears_after_the_end_of_a_finished_partition_is_not_read(tmp_path: Path) -> None:
    write(tmp_path / "in" / "0" / "a.json", [event(1, "a", 1)])
    write(tmp_path / "in" / "1" / "a.json", [event(second, "a", 1) for second in range(1, 40)])
    source = reader(tmp_path, folders(tmp_path / "in"), batch_bytes=800)
    first = next_batch(source, None)
    write(tmp_path / "in" / "0" / "b.json", [event(2, "a", 1)])
    second = next_batch(source, first)
    assert second["inputs"]["events"]["0"] == first["inputs"]["events"]["0"]
    assert second["inputs"]["events"]["1"] != first["inputs"]["events"]["1"]


def test_the_end_of_everything_is_told_once(tmp_path: Path) -> None:
    source = reader(tmp_path, RowsInput("events", (event(1, "a", 1),), 10))
    first = next_batch(source, None)
    assert first["final"]
    assert next_batch(source, first) == first


def test_an_input_without_any_partition_ends_like_the_others(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    events = RowsInput("events", ({"v": 1},), 10)
    source = reader(tmp_path, events, folders(tmp_path / "empty", "others"), query=BOTH)
    first = next_batch(source, None)
    assert first["final"]
    reports = BatchReports.of(messages(source, None, first)).partitions
    assert [(each.input, each.readers[0].final) for each in reports] == [("events", True), ("others", True)]


def test_reading_time_is_no_silence_of_a_finished_input(tmp_path: Path) -> None:
    rows = ({"t": event(1, "a", 1)["t"], "_partition": 0}, *({"t": None, "_partition": 1} for _ in range(3)))
    source = reader(tmp_path, RowsInput("events", (*rows, rows[0]), 2))
    first = next_batch(source, None)
    before = marks(messages(source, None, first))["events/0"]
    second = next_batch(source, first)
    later = {**second, "at_ms": second["at_ms"] + 3_600_000}
    assert marks(messages(source, first, later))["events/0"] == before


def test_no_batch_is_begun_once_a_stop_is_asked_for(tmp_path: Path) -> None:
    source = reader(tmp_path, RowsInput("events", (event(1, "a", 1),), 10))
    (tmp_path / "stop").touch()
    assert next_batch(source, None) == source.initialOffset()
    assert messages(source, None, source.initialOffset()) == []  # Spark begins a first batch all the same
    os.unlink(tmp_path / "stop")
    assert next_batch(source, None)["final"]


def test_a_batch_without_the_state_before_it_is_refused(tmp_path: Path) -> None:
    rows = tuple(event(second, "a", second) for second in range(1, 40))
    source = reader(tmp_path, RowsInput("events", rows, 15))
    first = next_batch(source, None)
    second = next_batch(source, first)
    with pytest.raises(StateError, match=r"\[STATE_DAMAGED\] .*events%2F0/0000000001\.state is missing"):
        messages(source, first, second)


def test_partitions_are_spread_over_the_tasks_by_their_size(tmp_path: Path) -> None:
    sizes = {"0": 40, "1": 1, "2": 20, "3": 20}
    for name, events in sizes.items():
        write(tmp_path / "in" / name / "a.json", [event(second, "a", 1) for second in range(events)])
    source = reader(tmp_path, folders(tmp_path / "in"))
    shares = source.partitions(source.initialOffset(), next_batch(source, None))
    assert sorted([unit.partition for unit in share.units] for share in shares) == [["0", "1"], ["2", "3"]]


# ---------------------------------------------------------------- a run that is not the first


def replayed(source: FileInput, recorded: dict[str, Any], begin: PartitionBegin) -> dict[str, Any]:
    """The options of a job that begins behind the first events of partition 0."""
    return {
        "inputs": (replace(source, recorded=recorded),),
        "begins": {"events": {"0": begin}},
        "emits_replayed": False,
    }


def test_what_an_earlier_run_has_read_is_read_again_before_anything_new_and_gives_no_rows(
    tmp_path: Path,
) -> None:
    write(tmp_path / "in" / "0" / "b.json", [event(second, "a", 1) for second in range(1, 40)])
    files = folders(tmp_path / "in")
    recorded = files.latest({})
    write(tmp_path / "in" / "0" / "a.json", [event(second, "a", 1) for second in range(40, 80)])
    source = reader(tmp_path, files, batch_bytes=1500)
    source = JobReader(replace(source.job, **replayed(files, recorded, PartitionBegin(0))))
    start = source.initialOffset()
    gave: list[bool] = []
    numbers: list[Any] = []
    while not start["final"]:
        end = next_batch(source, start)
        sent = messages(source, start, end)
        gave.append(not any(m.kind is Kind.WITHHELD for m in sent))
        numbers.append(SOURCE_OFFSET.of_plain(end).inputs["events"]["0"].position)
        assert gave[-1] or not any(m.kind in OUTPUT_KINDS for m in emitted_messages(sent))
        start = end
    assert gave == sorted(gave)
    assert set(gave) == {False, True}
    last_of_replay = numbers[gave.index(True) - 1]
    assert last_of_replay == tuple(recorded["0"])


def test_the_end_of_an_input_is_told_in_a_batch_that_gives_rows(tmp_path: Path) -> None:
    """All there is was read before, but its end not told: what is held comes out at the end."""
    write(tmp_path / "in" / "0" / "a.json", [event(second, "a", 1) for second in range(1, 40)])
    files = folders(tmp_path / "in")
    source = reader(tmp_path, files)
    source = JobReader(replace(source.job, **replayed(files, files.latest({}), PartitionBegin(0))))
    first = next_batch(source, None)
    assert (first["final"], first["inputs"]["events"]["0"]["ended"]) == (False, False)
    assert marks(messages(source, None, first))["events/0"] < AFTER_ALL_TICKS
    second = next_batch(source, first)
    assert second["final"]
    sent = messages(source, first, second)
    assert marks(sent)["events/0"] == AFTER_ALL_TICKS
    assert not any(m.kind is Kind.WITHHELD for m in sent)


def test_nothing_new_is_read_while_other_inputs_are_read_again(tmp_path: Path) -> None:
    write(tmp_path / "in" / "0" / "a.json", [event(second, "a", 1) for second in range(1, 40)])
    files, told = folders(tmp_path / "in", finished=False), tmp_path / "replayed"
    recorded = files.latest({})
    idle_time = IdlePeriod(1 << 40, ticks_at(100))
    begin = PartitionBegin(0, recorded["0"], 1 << 40, (idle_time,))
    source = reader(tmp_path, files, finished=False)
    options = replayed(files, recorded, begin) | {"replayed_file": str(told)}
    source = JobReader(replace(source.job, **options))
    write(tmp_path / "in" / "0" / "b.json", [event(second, "a", 1) for second in range(40, 50)])
    first = next_batch(source, None)
    sent = messages(source, None, first)
    assert SOURCE_OFFSET.of_plain(first).inputs["events"]["0"].position == tuple(recorded["0"])
    assert marks(sent)["events/0"] == ticks_at(95), "the stages hear of partitions that have nothing to read"
    assert any(m.kind is Kind.WITHHELD for m in sent)
    assert next_batch(source, first) == first
    told.touch()
    second = next_batch(source, first)
    (unit,) = (unit for share in source.partitions(first, second) for unit in share.units)
    assert (unit.emits, unit.idle_time, unit.size > 0) == (True, None, True)


def test_a_run_begins_in_the_middle_with_the_watermark_silence_had_left(tmp_path: Path) -> None:
    write(tmp_path / "in" / "0" / "a.json", [event(second, "a", 1) for second in range(1, 40)])
    files = folders(tmp_path / "in", finished=False)
    every = files.latest({})["0"]
    half = every[0].end // 39 * 20
    idle_time = IdlePeriod(5, ticks_at(100))
    begin = PartitionBegin(3, [every[0]._replace(end=half, mark=None)], half, (idle_time,))
    source = reader(tmp_path, files, finished=False)
    source = JobReader(replace(source.job, **replayed(files, {}, begin)))
    first = next_batch(source, None)
    sent = messages(source, None, first)
    (report,) = BatchReports.of(sent).partitions
    assert report.readers[0].counters.input_events == 19
    assert marks(sent)["events/0"] == ticks_at(95)
    assert first["inputs"]["events"]["0"]["number"] == 3


def test_a_run_that_begins_at_the_end_of_what_is_there_still_tells_its_watermark(tmp_path: Path) -> None:
    write(tmp_path / "in" / "0" / "a.json", [event(second, "a", 1) for second in range(1, 40)])
    files = folders(tmp_path / "in", finished=False)
    every = files.latest({})["0"]
    begin = PartitionBegin(0, every, 1 << 40, (IdlePeriod(1 << 40, ticks_at(100)),))
    source = reader(tmp_path, files, finished=False)
    source = JobReader(replace(source.job, **replayed(files, {"0": every}, begin)))
    first = next_batch(source, None)
    assert marks(messages(source, None, first))["events/0"] == ticks_at(95)


# ---------------------------------------------------------------- partitions that appear


def test_partitions_that_appear_in_one_batch_are_scanned_in_one_task(tmp_path: Path) -> None:
    for name in "01":
        write(tmp_path / "in" / name / "a.json", [event(1, "a", 1)])
    source = reader(tmp_path, folders(tmp_path / "in", finished=False), finished=False, tasks=4)
    first = next_batch(source, None)
    messages(source, None, first)
    for name in "23":
        write(tmp_path / "in" / name / "a.json", [event(2, "a", 1)])
    shares = source.partitions(first, next_batch(source, first))
    assert sorted([unit.partition for unit in share.units] for share in shares) == [["0"], ["1"], ["2", "3"]]
