"""The ingress of streams that are not ours: order, silence, partitions and inputs that come late."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.depth import depth
from support.frames import SETTINGS, SUBSTREAMS, TWO_INPUTS, Frames, Row, table
from support.times import at
from tideglass.connect.dataframes.input import FrameSpec, chunks_of_frame
from tideglass.core.errors import InputError, StateError
from tideglass.core.events import Fields
from tideglass.engine.snapshots import Snapshots
from tideglass.ingress.partition_watermarks import PartitionWatermarks
from tideglass.ingress.reports import BatchReports, PartitionReport
from tideglass.testing import run


def kit(query: str, given: Mapping[str, Sequence[Row]]) -> dict[str, list[dict[str, Any]]]:
    inputs = {
        name: [
            {"t": r["t"], "d": r["d"], "v": r["v"], "_arrival": r["came"], "_partition": r["p"]} for r in rows
        ]
        for name, rows in given.items()
    }
    return run(query, inputs, settings=SETTINGS)


def made(seed: int, count: int) -> list[Row]:
    """Rows in the order of their arrival, each at a time of its own, in two partitions."""
    rng = random.Random(seed)
    return [
        {
            "t": at(n - rng.choice((0, 1, 2, 4, 9))),
            "d": rng.choice("xyz"),
            "v": rng.randrange(10),
            "came": at(n + 0.25),
            "p": n % 2 if n > 1 else n,
            "o": n,
        }
        for n in range(count)
    ]


def both(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=str)


@settings(max_examples=depth(20), deadline=None)
@given(
    seed=st.integers(0, 10_000),
    tasks=st.integers(1, 4),
    batches=st.integers(1, 5),
    offsets=st.booleans(),
    query=st.sampled_from((TWO_INPUTS, SUBSTREAMS)),
    shares=st.integers(1, 3),
)
def test_any_tasks_batches_and_shares_give_what_the_kit_gives(
    seed: int, tasks: int, batches: int, offsets: bool, query: str, shares: int
) -> None:
    rng = random.Random(seed)
    inline_rows = {"a": made(seed, 60), "b": made(seed + 1, 40)}
    spec = {"arrival": "came", "partition": "p"} | ({"offset": "o"} if offsets else {})
    frames = Frames(query, spec, shares=shares)
    waiting: dict[str, list[Row]] = {"a": [], "b": []}
    for batch in range(batches):
        now: dict[str, list[pa.Table]] = {}
        for name, rows in inline_rows.items():
            # The first two rows of each input come together: a partition that appears later starts
            # beside its peers, which the kit's, all there from the beginning, do not.
            first = 0 if batch == 0 else 2 + (len(rows) - 2) * batch // batches
            waiting[name] += rows[first : 2 + (len(rows) - 2) * (batch + 1) // batches]
            if batch in (0, batches - 1) or rng.random() < 0.7:  # else the input is silent in this batch
                share, waiting[name] = waiting[name], []
                rng.shuffle(share)
                now[name] = [table(part) for n in range(tasks) if (part := share[n::tasks])]
        frames.batch(now)
    frames.batch({"a": [], "b": []}, final=True)
    expected = kit(query, inline_rows)
    assert {name: both(rows) for name, rows in frames.rows().items()} == {
        name: both(rows) for name, rows in expected.items()
    }


@pytest.mark.parametrize("chunk_bytes", [1 << 25, 1])
def test_a_large_batch_is_sent_in_several_partial_aggregates(
    monkeypatch: pytest.MonkeyPatch, chunk_bytes: int
) -> None:
    monkeypatch.setattr("tideglass.ingress.scan.ROWS_PER_RUN", 7)
    monkeypatch.setattr("tideglass.engine.exchange.CHUNK_BYTES", chunk_bytes)
    inline_rows = {"a": made(3, 60), "b": made(4, 40)}
    frames = Frames()
    frames.batch(
        {name: [table(rows[n : n + 5]) for n in range(0, len(rows), 5)] for name, rows in inline_rows.items()}
    )
    frames.batch({"a": [], "b": []}, final=True)
    assert both(frames.rows()["counts"]) == both(kit(TWO_INPUTS, inline_rows)["counts"])


@settings(max_examples=depth(20), deadline=None)
@given(
    seed=st.integers(0, 10_000),
    shares=st.integers(2, 4),
    cuts=st.lists(st.integers(0, 60), max_size=4).map(sorted),
)
def test_partitions_that_come_and_go_are_the_same_to_one_ingress_and_to_several(
    seed: int, shares: int, cuts: list[int]
) -> None:
    """Rows, counters and watermarks, though a new partition starts beside peers scanned elsewhere."""
    rng = random.Random(seed)
    rows = [{**row, "p": rng.randrange(1 + place // 12)} for place, row in enumerate(made(seed, 60))]
    found: list[tuple[dict[str, list[dict[str, Any]]], dict[str, PartitionReport]]] = []
    for number in (1, shares):
        frames = Frames(shares=number, topic=True)
        frames.batch({"b": [table(made(seed + 1, 20))]}, now_ms=1000)
        for first, after in itertools.pairwise((0, *cuts, 60)):
            frames.batch({"a": [table(rows[first:after])], "b": []}, now_ms=1000 + 700 * after)
        frames.batch({"a": [], "b": []}, final=True)
        last = {report.sender: report for report in BatchReports.of(frames.messages).partitions}
        found.append(({name: both(each) for name, each in frames.rows().items()}, last))
    assert found[0] == found[1]


@pytest.mark.parametrize("stored", [False, True])
def test_a_run_that_has_lost_what_its_partitions_had_come_to_stops(tmp_path: Path, stored: bool) -> None:
    folder = f"memory://tests{tmp_path}" if stored else str(tmp_path)
    peers = PartitionWatermarks(Snapshots(folder))
    assert peers.before(0, "a") == {}
    peers.take(0, [])
    assert peers.before(1, "a") == {}
    with pytest.raises(StateError, match=r"\[STATE_DAMAGED\] .*peers/0000000001\.state is missing"):
        peers.before(2, "a")


def test_rows_without_arrival_or_offset_are_refused_and_counted() -> None:
    frames = Frames(spec={"arrival": "came", "partition": "p", "offset": "o"})
    row = {"d": "x", "v": 9, "p": 0, "o": 0, "t": at(1), "came": at(1)}
    rows = table([row, {**row, "o": 1}, {**row, "o": 2}])
    rows = rows.set_column(3, "came", pa.array([None, *rows["came"].to_pylist()[1:]], rows["came"].type))
    rows = rows.set_column(5, "o", pa.array([0, None, 2], pa.int64()))
    frames.batch({"a": [rows], "b": []}, final=True)
    assert len(frames.rows()["high"]) == 1
    reports = BatchReports.of(frames.messages).partitions
    assert [report.rejected for report in reports if report.input == "a"] == [2]


def test_the_state_of_another_job_is_refused() -> None:
    frames = Frames()
    row = {"d": "x", "v": 1, "p": 0, "o": 0, "t": at(1), "came": at(1)}
    frames.batch({"a": [table([row])]})
    with pytest.raises(StateError, match="belongs to another job"):
        frames.batch({"a": [table([row])]}, job="other")


def test_substreams_of_several_partitions_need_the_partition() -> None:
    frames = Frames(query="SELECT d INTO o FROM a TIMESTAMP BY t OVER d")
    row = {"d": "x", "v": 1, "p": 0, "o": 0, "t": at(1), "came": at(1)}
    frames.batch({"a": [table([row])]})
    with pytest.raises(InputError, match="SUBSTREAMS_NEED_PARTITION"):
        frames.batch({"a": [table([{**row, "p": 1}])]})


LOOKUPS = """
WITH w AS (SELECT d, COUNT(*) AS n FROM a TIMESTAMP BY t GROUP BY d, TumblingWindow(second, 10))
SELECT w.d, w.n, r.zone INTO counts FROM w LEFT JOIN r ON w.d = r.d
SELECT a.d, a.v, r.zone INTO high FROM a TIMESTAMP BY t JOIN r ON a.d = r.d
"""


@pytest.mark.parametrize("shares", [1, 2])
def test_snapshots_are_told_of_once_and_count_from_that_batch_on_event_by_event_and_behind_windows(
    shares: int,
) -> None:
    zones = {at(0): [{"d": "x", "zone": "north"}], at(12): [{"d": "x", "zone": "south"}]}
    frames = Frames(LOOKUPS, reference={"r": zones}, shares=shares)
    rows = [
        {"d": "x", "v": n, "p": n % 2, "o": n, "t": at(t), "came": at(t)}
        for n, t in enumerate((5, 13, 14, 25, 40, 41))
    ]
    frames.batch({"a": [table(rows[:2])]}, known={"r": 1})
    frames.batch({"a": [table(rows[2:3])]})
    frames.batch({"a": []}, known={"r": 2})
    frames.batch({"a": [table(rows[3:])]})
    frames.batch({"a": []}, final=True)
    found = frames.rows()
    # Events at 13 and 14 were read before the snapshot of 12 was known.
    assert [(row["v"], row["zone"]) for row in found["high"]] == [
        (0, "north"),
        (1, "north"),
        (2, "north"),
        (3, "south"),
        (4, "south"),
        (5, "south"),
    ]
    assert [(row["n"], row["zone"]) for row in found["counts"]] == [
        (1, "north"),
        (2, "south"),
        (1, "south"),
        (1, "south"),
        (1, "south"),
    ]


@settings(max_examples=depth(10), deadline=None)
@given(seed=st.integers(0, 10_000), batches=st.integers(1, 4))
def test_snapshots_known_from_the_start_give_what_the_kit_gives(seed: int, batches: int) -> None:
    zones = {at(second): [{"d": d, "zone": f"{d}{second}"} for d in "xy"] for second in (-100, 11, 20, 43)}
    rows = made(seed, 60)
    frames = Frames(LOOKUPS, reference={"r": zones})
    for batch in range(batches):
        first = 0 if batch == 0 else 2 + 58 * batch // batches  # the first two rows come together
        share = rows[first : 2 + 58 * (batch + 1) // batches]
        frames.batch({"a": [table(share)]}, known={"r": 4} if batch == 0 else None)
    frames.batch({"a": []}, final=True)
    input_options = [
        {"t": r["t"], "d": r["d"], "v": r["v"], "_arrival": r["came"], "_partition": r["p"]} for r in rows
    ]
    expected = run(LOOKUPS, {"a": input_options}, reference={"r": zones}, settings=SETTINGS)
    assert {name: both(rows) for name, rows in frames.rows().items()} == {
        name: both(rows) for name, rows in expected.items()
    }


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (pa.array([3, None, 3, 1]), {"1": 1, "3": 2, "null": 1}),
        (pa.array(["b", "null", None, "a"]), {"a": 1, "b": 1, "null": 2}),
        (pa.array([1.5, None, 1.5, -0.0]), {"-0": 1, "1.5": 2, "null": 1}),
        (pa.array([True, False, None, True]), {"false": 1, "null": 1, "true": 2}),
        (pa.array(["x", "y", "x", None]).dictionary_encode(), {"null": 1, "x": 2, "y": 1}),
    ],
)
def test_a_partition_is_named_by_the_text_of_its_value(values: pa.Array, names: dict[str, int]) -> None:
    rows = pa.table({"p": values, "v": pa.array(range(4))})
    chunks = chunks_of_frame(
        rows, FrameSpec("a", partition="p"), Fields((("v",),), False, ()), "1.2", 0, itertools.count()
    )
    assert {each.partition: each.chunk.table.num_rows for each in chunks} == names
