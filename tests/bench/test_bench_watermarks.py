"""The programs that measure watermarks: what they run, and the figures they make of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from overhead import Pair
from propagation import KEYS, START_MS, put, table
from propagation_run import SETTINGS, chain
from tideglass import testing
from tideglass.compile import compile_query
from tideglass.core.errors import Source
from tideglass.project.settings import from_options


@pytest.mark.parametrize("stages", [1, 2, 8])
def test_every_stage_of_a_chain_has_an_exchange_of_its_own(stages: int) -> None:
    compiled = compile_query(Source(chain(stages)), from_options(SETTINGS), key_groups=2)
    assert compiled.topology.levels == stages


def test_the_events_of_a_window_appear_whole_and_count_every_key_once(tmp_path: Path) -> None:
    folder = tmp_path / "3"
    folder.mkdir()
    for window in (0, 1):
        put(folder, window)
    assert [path.name for path in sorted(folder.iterdir())] == ["000000.json", "000001.json"]
    events = [json.loads(line) for path in sorted(folder.iterdir()) for line in path.read_text().splitlines()]
    assert [event["t"] for event in events] == [START_MS + 500] * KEYS + [START_MS + 1500] * KEYS
    rows = testing.run(chain(3), {"e": events}, settings=SETTINGS)["result"]
    assert {row["n"] for row in rows} == {1}
    assert len(rows) == 2 * KEYS


def test_the_table_shows_medians_and_leaves_out_what_was_not_measured() -> None:
    figures = {"tideglass": {1: [0.3, 0.1, 0.2]}, "flink sql": {}}
    assert table(figures, [1], 1).splitlines()[2:] == [
        "| stages | tideglass | flink sql |",
        "|---|---|---|",
        "| 1 | 0.200 (0.100 to 0.300) | – |",
    ]


def test_a_pair_compares_the_large_runs_and_what_they_took_more_than_the_small_ones() -> None:
    pair = Pair(ours_small=10, ours_large=20.6, theirs_small=10, theirs_large=20)
    assert pair.ratio == pytest.approx(1.03)
    assert pair.ratio_without_start == pytest.approx(1.06)
