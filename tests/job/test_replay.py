"""Where a run begins to read: what an earlier one left, the order it read in, what a source still holds."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tideglass.connect.files.input import FileInput
from tideglass.connect.spec import Arrival, InputSpec
from tideglass.core.errors import InputError, StateError
from tideglass.core.events import Fields
from tideglass.core.positions import Piece
from tideglass.core.time import TICKS_PER_SECOND, format_ticks
from tideglass.engine.snapshots import Snapshots
from tideglass.ingress.idle_periods import IdlePeriod
from tideglass.ingress.partition_time import Ingress
from tideglass.ingress.reports import PartitionReport
from tideglass.ingress.scan import ScanState
from tideglass.job.progress.idle_journal import LONGEST_BYTES, IdleJournal
from tideglass.job.progress.stop_point import PartitionStopPoint, stop_point
from tideglass.job.start.files import begin_files
from tideglass.job.start.read_plan import READ_PLAN, ReadPlan
from tideglass.plan.read_back import ReadBack

N = Fields((("n",),))
#: Ten seconds of windows, one of early events, a floor five behind.
BACK = {"in": ReadBack(10 * TICKS_PER_SECOND, TICKS_PER_SECOND, 5 * TICKS_PER_SECOND)}


def put(path: Path, seconds: range, written: int | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [{"n": n, "arrived": format_ticks(n * TICKS_PER_SECOND)} for n in seconds]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    if written is not None:
        os.utime(path, (written, written))


def source_of(folder: Path, by_field: bool = True) -> dict[str, FileInput]:
    arrival = Arrival(path=("arrived",)) if by_field else None
    return {"in": FileInput(InputSpec(name="in", path=folder, arrival=arrival, partitions="folders"))}


def read(sources: Mapping[str, FileInput], read_plan: ReadPlan, partition: str = "0") -> list[int]:
    """The numbers a run reads that begins there."""
    source = FileInput(sources["in"].spec, read_plan.recorded["in"])
    start = {name: list(each.position) for name, each in read_plan.begins["in"].items()}
    end = source.latest(source.latest(start))
    chunks = source.read(partition, start[partition], end[partition], N)
    return [n for chunk in chunks for n in chunk.table["$payload.n"].to_pylist()]


def stop_points(
    sources: Mapping[str, FileInput], number: int = 0
) -> dict[str, dict[str, PartitionStopPoint]]:
    latest = sources["in"].latest({})
    return {"in": {name: PartitionStopPoint(number, pieces, 0) for name, pieces in latest.items()}}


def no_journal(folder: Path) -> IdleJournal:
    return IdleJournal(folder / "silences.jsonl")


def test_reading_begins_the_span_and_the_early_limit_before_the_output(tmp_path: Path) -> None:
    put(tmp_path / "in" / "0" / "a.json", range(50))
    sources = source_of(tmp_path / "in")
    read_plan = begin_files(sources, BACK, 40 * TICKS_PER_SECOND, {}, no_journal(tmp_path))
    assert read(sources, read_plan) == list(range(29, 50))
    assert read_plan.begins["in"]["0"].number == 0


def test_files_are_read_in_the_order_an_earlier_run_read_them(tmp_path: Path) -> None:
    put(tmp_path / "in" / "0" / "b.json", range(30))
    sources = source_of(tmp_path / "in")
    known = stop_points(sources, number=7)
    put(tmp_path / "in" / "0" / "a.json", range(30, 50))
    read_plan = begin_files(sources, BACK, 31 * TICKS_PER_SECOND, known, no_journal(tmp_path))
    assert read(sources, read_plan) == list(range(20, 50))
    assert read_plan.begins["in"]["0"].number == 7
    afresh = begin_files(sources, BACK, 31 * TICKS_PER_SECOND, {}, no_journal(tmp_path))
    assert read(sources, afresh) == [*range(30, 50), *range(30)]


def test_events_that_silence_raised_are_read_though_they_arrived_before(tmp_path: Path) -> None:
    put(tmp_path / "in" / "0" / "a.json", range(50))
    sources = source_of(tmp_path / "in")
    known = stop_points(sources)
    plain = begin_files(sources, BACK, 40 * TICKS_PER_SECOND, known, no_journal(tmp_path))
    place = plain.begins["in"]["0"].next_offset // 29 * 10  # lines are about equally long
    journal = no_journal(tmp_path)
    report = told(place, 35 * TICKS_PER_SECOND)
    journal.take(told(place, 34 * TICKS_PER_SECOND))
    assert read(sources, begin_files(sources, BACK, 40 * TICKS_PER_SECOND, known, journal)) == list(
        range(29, 50)
    )
    journal.take(report)
    read_plan = begin_files(sources, BACK, 40 * TICKS_PER_SECOND, known, journal)
    assert 8 <= read(sources, read_plan)[0] <= 12
    assert read_plan.begins["in"]["0"].idle_periods == (IdlePeriod(place, 35 * TICKS_PER_SECOND),)


def test_what_begun_says_outlives_the_process(tmp_path: Path) -> None:
    put(tmp_path / "in" / "0" / "a.json", range(50))
    sources = source_of(tmp_path / "in")
    journal = no_journal(tmp_path)
    journal.take(told(3, 5))
    read_plan = begin_files(sources, BACK, 40 * TICKS_PER_SECOND, stop_points(sources), journal)
    read_plan.save(tmp_path / "state" / "begun.json")
    again = ReadPlan.load(tmp_path / "state" / "begun.json")
    assert read(sources, again) == read(sources, read_plan)
    assert again.begins["in"]["0"].idle_periods == read_plan.begins["in"]["0"].idle_periods
    assert ReadPlan.load(tmp_path / "other.json") == ReadPlan()


# ---------------------------------------------------------------- retention


@pytest.mark.parametrize("by_field", [True, False])
def test_a_source_that_no_longer_holds_the_range_is_named(tmp_path: Path, by_field: bool) -> None:
    for n, name in enumerate("abcde"):
        put(tmp_path / "in" / "3" / f"{name}.json", range(n * 10, n * 10 + 10), written=n * 10)
    sources = source_of(tmp_path / "in", by_field)
    known = stop_points(sources)
    (tmp_path / "in" / "3" / "a.json").unlink()
    begin_files(sources, BACK, 45 * TICKS_PER_SECOND, known, no_journal(tmp_path))
    (tmp_path / "in" / "3" / "d.json").unlink()
    with pytest.raises(InputError) as raised:
        begin_files(sources, BACK, 41 * TICKS_PER_SECOND, known, no_journal(tmp_path))
    assert str(raised.value) == (
        "[RANGE_NOT_RETAINED] the first windows would lack events:\n"
        "  input 'in', partition 3: needed is what arrived from 1970-01-01T00:00:30Z on, there is what "
        "arrived from 1970-01-01T00:00:40Z; d.json is gone\n"
        "  hint: start at a later time with --start TIME, or take what is there with --accept-partial"
    )
    partial = begin_files(
        sources, BACK, 41 * TICKS_PER_SECOND, known, no_journal(tmp_path), accept_partial=True
    )
    assert read(sources, partial, "3") == list(range(40, 50))


def test_all_that_is_gone_is_missed_when_everything_is_needed(tmp_path: Path) -> None:
    put(tmp_path / "in" / "0" / "a.json", range(10))
    put(tmp_path / "in" / "0" / "b.json", range(10, 20))
    sources = source_of(tmp_path / "in")
    known = stop_points(sources)
    (tmp_path / "in" / "0" / "a.json").unlink()
    with pytest.raises(InputError, match="needed is what arrived from its beginning on"):
        begin_files(sources, BACK, None, known, no_journal(tmp_path))


# ---------------------------------------------------------------- what a run leaves


def test_where_a_run_stopped_is_read_from_what_it_had_committed(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    for name, content in (("offsets/4", offset(7, "a.json")), ("offsets/5", offset(8, "b.json"))):
        (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
        (checkpoint / name).write_text(f"v1\n{{}}\n{json.dumps(content)}")
    (checkpoint / "commits").mkdir()
    (checkpoint / "commits" / "4").write_text("v1\n{}")
    state = ScanState({0: Ingress(event_watermark_ticks=70), 1: Ingress(floor_ticks=60)})
    Snapshots(str(tmp_path / "ingress")).save("in/0", 7, state.to_bytes())
    found = stop_point(tmp_path)
    assert found.stop_points == {"in": {"0": PartitionStopPoint(2, (Piece("a.json", 0, 9, 1),), 60)}}
    assert (found.watermark_ticks, found.ended) == (60, False)


def test_one_stopped_while_it_read_again_has_come_no_further_than_the_one_before(tmp_path: Path) -> None:
    put(tmp_path / "in" / "0" / "a.json", range(50))
    sources = source_of(tmp_path / "in")
    known = stop_points(sources)
    put(tmp_path / "in" / "1" / "a.json", range(50))  # a partition the run before has not seen
    ticks = 40 * TICKS_PER_SECOND
    read_plan = begin_files(sources, BACK, ticks, known, no_journal(tmp_path), after_ticks=ticks)
    read_plan.save(tmp_path / "state" / READ_PLAN)
    again = stop_point(tmp_path / "state")
    assert again.watermark_ticks == ticks
    assert again.stop_points["in"]["0"].position == known["in"]["0"].position
    new = again.stop_points["in"]["1"]
    chunks = sources["in"].read("1", [], new.position, N)
    assert [n for chunk in chunks for n in chunk.table["$payload.n"].to_pylist()] == list(range(40))


def offset(batch: int, name: str) -> dict[str, Any]:
    state = {"number": 2, "position": [[name, 0, 9, 1]], "since_ms": 0, "ended": False}
    return {"batch": batch, "final": False, "inputs": {"in": {"0": state}}, "at_ms": 0}


def test_a_run_without_a_committed_batch_leaves_nothing(tmp_path: Path) -> None:
    assert stop_point(tmp_path).stop_points == {}
    assert stop_point(tmp_path).watermark_ticks is None


def test_a_checkpoint_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "checkpoint" / "commits").mkdir(parents=True)
    (tmp_path / "checkpoint" / "commits" / "0").touch()
    with pytest.raises(StateError, match="nobody knows where the last run stopped"):
        stop_point(tmp_path)


# ---------------------------------------------------------------- the journal of idle periods


def told(next_offset: int, until_ticks: int | None, held: bool | None = None) -> PartitionReport:
    """What the report of a scan says of an idle period."""
    return PartitionReport("in", "0", next_offset=next_offset, quiet_until_ticks=until_ticks, idle_held=held)


def test_the_last_word_on_a_place_counts_and_survives(tmp_path: Path) -> None:
    path = tmp_path / "job" / "silences.jsonl"
    journal = IdleJournal(path)
    for next_offset, until_ticks in ((5, 10), (5, 30), (5, 20), (9, 40), (9, None)):
        journal.take(told(next_offset, until_ticks))
        journal.take(told(next_offset, until_ticks))
    assert path.read_text().count("\n") == 3
    with open(path, "a") as file:
        file.write('{"input":"in","par')  # killed while it wrote
    again = IdleJournal(path)
    assert again.of(("in", "0")) == (IdlePeriod(5, 30), IdlePeriod(9, 40))
    assert again.of(("in", "1")) == ()
    again.forget()
    assert IdleJournal(path).of(("in", "0")) == ()


def test_a_long_silence_does_not_fill_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "silences.jsonl"
    journal = IdleJournal(path)
    journal.take(told(5, 1))
    with open(path, "a") as file:
        file.write(path.read_text() * (LONGEST_BYTES // 50))
    journal.take(told(5, 2))
    assert IdleJournal(path).of(("in", "0")) == (IdlePeriod(5, 2),)
    assert path.stat().st_size < 200


def test_an_idle_period_that_changed_nothing_is_forgotten(tmp_path: Path) -> None:
    journal = IdleJournal(tmp_path / "silences.jsonl")
    journal.take(told(5, 10))
    journal.take(told(9, 20, held=False))  # the next event came earlier than estimated
    journal.take(told(12, None, held=True))
    assert journal.of(("in", "0")) == (IdlePeriod(5, 10),)
