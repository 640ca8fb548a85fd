"""What a restart costs: the formulas, the rates of files, the warnings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tideglass.cli.estimate import told
from tideglass.connect.inputs.files import FileInput
from tideglass.connect.spec import Arrival, InputSpec
from tideglass.core.time import TICKS_PER_HOUR, TICKS_PER_MINUTE, TICKS_PER_SECOND, format_ticks
from tideglass.job.estimate import Stream, estimate, measured
from tideglass.plan.replay import ReadBack

HOUR = ReadBack(TICKS_PER_HOUR, 5 * TICKS_PER_MINUTE, None)
STREAMS = [Stream("in", "0", 1000.0, 100.0), Stream("in", "1", 10.0, 200.0)]


def test_events_are_rate_times_read_back_and_seconds_events_by_speed() -> None:
    found = estimate(STREAMS, {"in": HOUR}, 100_000.0, {})
    assert [each.events for each in found.replays] == [3_900_000, 39_000]
    assert [each.state_bytes for each in found.replays] == [360_000_000, 7_200_000]
    assert found.seconds == pytest.approx(39.39)


def test_after_a_failure_only_the_gap_is_caught_up() -> None:
    found = estimate(STREAMS, {"in": HOUR}, 1010.0, {})
    assert found.catch_up_seconds(5 * TICKS_PER_MINUTE) == pytest.approx(300)


def test_without_temporal_operators_nothing_is_read_again() -> None:
    found = estimate(STREAMS, {"in": ReadBack(0, 0, None)}, 1000.0, {"in": 0})
    assert (found.events, found.seconds) == (0, 0)
    assert not any(each.is_short or each.state_bytes for each in found.replays)


def test_without_an_early_limit_all_there_is_is_read() -> None:
    stream = Stream("in", "0", 10.0, 1.0, held_ticks=60 * TICKS_PER_SECOND)
    (replay,) = estimate([stream], {"in": ReadBack(0, None, None)}, None, {"in": TICKS_PER_HOUR}).replays
    assert (replay.events, replay.is_short) == (600, True)


@pytest.mark.parametrize(("minutes", "short"), [(64, True), (65, False)])
def test_a_retention_shorter_than_the_read_back_is_warned_of(minutes: int, short: bool) -> None:
    found = estimate(STREAMS, {"in": HOUR}, 1.0, {"in": minutes * TICKS_PER_MINUTE})
    warnings = [line for line in told(found, TICKS_PER_MINUTE) if line.startswith("warning")]
    assert len(warnings) == (2 if short else 0)
    assert not short or "keeps events for 1h4m, a restart needs those of 1h5m" in warnings[0]


def test_an_unknown_speed_is_said() -> None:
    found = estimate(STREAMS, {"in": HOUR}, None, {})
    assert (found.seconds, found.catch_up_seconds(1)) == (None, None)
    assert "--measure" in told(found, 1)[1]


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
