"""What a restart costs: the formulas, the rates of files, the warnings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tideglass.cli.estimate import estimate_lines
from tideglass.connect.files.input import FileInput
from tideglass.connect.spec import Arrival, InputSpec
from tideglass.core.time import TICKS_PER_HOUR, TICKS_PER_MINUTE, TICKS_PER_SECOND, format_ticks
from tideglass.job.estimate.estimate import Pace, PartitionRate, estimate, measured, pace_of
from tideglass.plan.read_back import ReadBack

HOUR = ReadBack(TICKS_PER_HOUR, 5 * TICKS_PER_MINUTE, None)
STREAMS = [PartitionRate("in", "0", 1000.0, 100.0), PartitionRate("in", "1", 10.0, 200.0)]


def test_events_are_rate_times_read_back_and_seconds_those_to_start_and_events_by_speed() -> None:
    found = estimate(STREAMS, {"in": HOUR}, Pace(100_000.0, 6.0), {})
    assert [each.events for each in found.replays] == [3_900_000, 39_000]
    assert [each.state_bytes for each in found.replays] == [360_000_000, 7_200_000]
    assert found.seconds == pytest.approx(45.39)


def test_after_a_failure_only_the_gap_is_caught_up() -> None:
    found = estimate(STREAMS, {"in": HOUR}, Pace(1010.0, 6.0), {})
    assert found.catch_up_seconds(5 * TICKS_PER_MINUTE) == pytest.approx(306)


def test_the_first_batch_tells_what_the_start_took_and_the_others_the_speed() -> None:
    assert pace_of([(1_000, 12.0), (3_000, 14.0), (3_000, 14.5)]) == Pace(800.0, 10.75)


@pytest.mark.parametrize(
    "read", [[(0, 4.0)], [(1_000, 4.0)], [(10, 1.0), (10, 2.0)], [(900, 1.0), (1_000, 2.0)]]
)
def test_a_pace_that_cannot_be_told_apart_is_that_of_the_whole_run(read: list[tuple[int, float]]) -> None:
    events, seconds = read[-1]
    assert pace_of(read) == Pace(max(events, 1) / seconds)


def test_without_temporal_operators_nothing_is_read_again() -> None:
    found = estimate(STREAMS, {"in": ReadBack(0, 0, None)}, Pace(1000.0), {"in": 0})
    assert (found.events, found.seconds) == (0, 0)
    assert not any(each.is_short or each.state_bytes for each in found.replays)


def test_without_an_early_limit_all_there_is_is_read() -> None:
    stream = PartitionRate("in", "0", 10.0, 1.0, held_ticks=60 * TICKS_PER_SECOND)
    (replay,) = estimate([stream], {"in": ReadBack(0, None, None)}, None, {"in": TICKS_PER_HOUR}).replays
    assert (replay.events, replay.is_short) == (600, True)


@pytest.mark.parametrize(("minutes", "short"), [(64, True), (65, False)])
def test_a_retention_shorter_than_the_read_back_is_warned_of(minutes: int, short: bool) -> None:
    found = estimate(STREAMS, {"in": HOUR}, Pace(1.0), {"in": minutes * TICKS_PER_MINUTE})
    warnings = [line for line in estimate_lines(found, TICKS_PER_MINUTE) if line.startswith("warning")]
    assert len(warnings) == (2 if short else 0)
    assert not short or "keeps events for 1h4m, a restart needs those of 1h5m" in warnings[0]


def test_an_unknown_speed_is_said() -> None:
    found = estimate(STREAMS, {"in": HOUR}, None, {})
    assert (found.seconds, found.catch_up_seconds(1)) == (None, None)
    assert "--measure" in estimate_lines(found, 1)[1]


def test_rates_are_those_of_the_arrival_times_in_the_files(tmp_path: Path) -> None:
    for partition, step in (("0", 1), ("1", 10)):
        rows = [{"arrived": format_ticks(n * step * TICKS_PER_SECOND)} for n in range(101)]
        (tmp_path / "in" / partition).mkdir(parents=True)
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / "in" / partition / "a.json").write_text(text)
    (tmp_path / "in" / "2").mkdir()
    spec = InputSpec(
        name="in", path=tmp_path / "in", arrival=Arrival(path=("arrived",)), partitions="folders"
    )
    fast, slow, empty = measured(FileInput(spec))
    assert fast.events_per_second == pytest.approx(1.01)
    assert slow.events_per_second == pytest.approx(0.101)
    assert (slow.held_ticks, slow.newest_ticks) == (1000 * TICKS_PER_SECOND, 1000 * TICKS_PER_SECOND)
    assert fast.bytes_per_event == pytest.approx(len(text) / 101)
    assert (empty.events_per_second, empty.held_ticks) == (0.0, None)
