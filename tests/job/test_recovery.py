"""How far a run has caught up, how fast, and how long it still takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tideglass.connect.files.input import FileInput
from tideglass.connect.spec import InputSpec
from tideglass.core.positions import InputPositions, Piece
from tideglass.job.report.catch_up import CatchUp, sizes, there_now
from tideglass.spark.checkpoint import last_batch, source_offset


def reached(to: int, messages: int = 0) -> InputPositions:
    files = [Piece("a.json", 0, 100, 0), Piece("b.json", 0, to - 100, 0)]
    return {"clicks": {"0": files}, "topic": {"0": [Piece("0", 0, messages, 0)]}}


def test_share_rate_and_rest_follow_what_is_read_since_the_start():
    at = CatchUp(
        "resumed from the checkpoint", "batch 3", {"clicks": 150}, {"clicks": 350}, began_seconds=10.0
    )
    first = at.status(now_seconds=11.0)
    assert (first.events_expected, first.events_per_second, first.seconds_left) == (None, None, None)
    at.advance(reached(200), {"clicks": 500}, now_seconds=14.0)
    assert not at.done
    told = at.status(now_seconds=14.0)
    assert (told.share, told.events, told.events_expected) == (0.25, 500, 2000)
    assert (told.events_per_second, told.seconds_left) == (125.0, 12.0)
    assert at.status(now_seconds=16.0).seconds_left == 10.0
    at.advance(reached(400), {"clicks": 2100}, now_seconds=25.0)
    assert at.done
    assert at.status(now_seconds=25.0).seconds_left == 0.0


def test_nothing_to_catch_up_is_done_at_once():
    nothing = CatchUp("first start", "the beginning", {"clicks": 7}, {"clicks": 7}, 0.0)
    assert (nothing.done, nothing.has_backlog, nothing.share) == (True, False, 1.0)


def test_inputs_whose_units_differ_are_weighed_by_their_events():
    at = CatchUp("first start", "the beginning", {}, {"clicks": 1000, "topic": 10}, began_seconds=0.0)
    at.advance({"topic": {"0": [Piece("0", 0, 5, 0)]}}, {"topic": 50}, now_seconds=1.0)
    assert at.status(now_seconds=1.0).events_expected is None, "of the clicks nobody knows how large they are"
    at.advance(reached(200, 10), {"topic": 100, "clicks": 60}, now_seconds=2.0)
    told = at.status(now_seconds=2.0)
    assert (told.events, told.events_expected, told.share) == (160, 400, 0.4)
    assert not at.done
    at.advance(reached(1000, 15), {"topic": 150, "clicks": 300}, now_seconds=3.0)
    assert at.done
    assert at.status(now_seconds=3.0).events_expected == 450


def test_what_is_there_now_is_measured_in_the_units_of_the_input(tmp_path: Path):
    (tmp_path / "a.json").write_text('{"v": 1}\n{"v": 2}\n')
    source = FileInput(InputSpec(name="clicks", path=tmp_path))
    there = there_now([source], {})
    assert sizes(there) == {"clicks": 18}
    (tmp_path / "b.json").write_text('{"v": 3}\n')
    assert sizes(there_now([source], there)) == {"clicks": 27}


def test_positions_are_read_from_sparks_logs(tmp_path: Path):
    (tmp_path / "offsets").mkdir()
    (tmp_path / "commits").mkdir()
    assert last_batch(tmp_path) is None
    partition = '{"number": 0, "position": [["a.json", 0, 9, 0]], "since_ms": 5, "ended": false}'
    offset = f'{{"batch": 3, "final": false, "inputs": {{"clicks": {{"0": {partition}}}}}, "at_ms": 7}}'
    (tmp_path / "offsets" / "2").write_text(f'v1\n{{"batchWatermarkMs":0}}\n{offset}')
    for name in ("0", "2", ".3.crc"):
        (tmp_path / "commits" / name).touch()
    assert last_batch(tmp_path) == 2
    assert source_offset(tmp_path, 2).positions == {"clicks": {"0": (Piece("a.json", 0, 9, 0),)}}
    with pytest.raises(FileNotFoundError):
        source_offset(tmp_path, 3)
