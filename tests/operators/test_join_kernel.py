"""The join of two streams against a nested loop, batch by batch: rows, watermarks, state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from support.depth import some
from support.harness import reopened
from tideglass.core.errors import EvaluationError
from tideglass.core.json_rows import rows_of, table_of
from tideglass.core.time import AFTER_ALL_TICKS, BEFORE_ALL_TICKS, TICKS_PER_SECOND
from tideglass.core.types import ORDER_COLUMNS, SUBSTREAM, SYSTEM_TIMESTAMP, Type, field, types_of
from tideglass.operators.joins import pairs
from tideglass.operators.joins.interval import IntervalJoin
from tideglass.operators.progress import Progress
from tideglass.operators.state.store import MemoryState
from tideglass.plan.nodes import TimeBound
from tideglass.plan.specs import IntervalJoinSpec

UNIT = TICKS_PER_SECOND


@dataclass(frozen=True)
class Event:
    """A row of a side; `at` in ticks."""

    at: int
    key: Any
    value: int
    substream: str = ""


def joined_by(
    kind: str, low: int, high: int, substreams: bool = False, keys: Sequence[str] = ("$j0",)
) -> IntervalJoin:
    bound = TimeBound(SYSTEM_TIMESTAMP, UNIT, 0, low, high)
    return IntervalJoin(
        IntervalJoinSpec(
            kind=kind,
            keys=tuple(keys),
            bounds=(bound,),
            condition=None,
            left_columns=("a.v",),
            right_columns=("b.v",),
            lower_ticks=(low - 1) * UNIT + 1,
            upper_ticks=(high + 1) * UNIT - 1,
            unmatched_ticks=high * UNIT,
            substreams=substreams,
        )
    )


def table(events: Sequence[Event], side: str, input_: int, substreams: bool) -> pa.Table:
    rows = [
        {
            **dict.fromkeys(ORDER_COLUMNS, 0),
            "$ts": event.at,
            "$arrival": event.at,
            "$input": input_,
            "$offset": event.value,
            "$j0": event.key,
            f"{side}.v": event.value,
            **({SUBSTREAM: event.substream} if substreams else {}),
        }
        for event in events
    ]
    return table_of(rows)


def nested_loop(
    left: Sequence[Event], right: Sequence[Event], low: int, high: int, outer: bool
) -> list[tuple[int, int, int | None]]:
    """(time, left value, right value) of every result."""
    result: list[tuple[int, int, int | None]] = []
    for one in left:
        partners = [
            other
            for other in right
            if one.key is not None
            and one.key == other.key
            and low <= other.at // UNIT - one.at // UNIT <= high
        ]
        result += [(max(one.at, other.at), one.value, other.value) for other in partners]
        if outer and not partners:
            result.append((one.at + high * UNIT, one.value, None))
    return sorted(result, key=repr)


def rows_out(tables: Sequence[pa.Table]) -> list[tuple[int, int, int | None]]:
    found = [
        (row_ticks, row["a.v"], row["b.v"])
        for made in tables
        for row_ticks, row in zip(made["$ts"].to_pylist(), rows_of(made.drop_columns(["$ts"])), strict=True)
    ]
    return sorted(found, key=repr)


def drawn(random: Random, count: int, substreams: bool) -> list[Event]:
    """Events within half a minute, some at the edges of seconds."""
    events: list[Event] = []
    for value in range(count):
        at = random.randrange(0, 30) * UNIT + random.choice([0, 0, 1, UNIT // 2, UNIT - 1])
        key = random.choice([1, 2, 3] if substreams else [1, 1, 2, 3, None])
        events.append(Event(at, key, value, f"0/{key}"))
    return events


def in_batches(
    random: Random, events: Sequence[Event], substreams: bool
) -> list[tuple[list[Event], Progress]]:
    """The events in batches, out of order, none behind the watermark before; a watermark for each."""
    waiting = sorted(events, key=lambda event: event.at + random.randrange(0, 8) * UNIT)
    batches: list[tuple[list[Event], Progress]] = []
    while waiting:
        size = random.randrange(0, 6)
        now, waiting = waiting[:size], waiting[size:]
        batches.append((now, progress_before(random, waiting, substreams, batches)))
    batches.append(([], Progress(AFTER_ALL_TICKS)))
    return batches


def progress_before(
    random: Random, waiting: Sequence[Event], substreams: bool, before: Sequence[tuple[list[Event], Progress]]
) -> Progress:
    def least(names: set[str] | None) -> int:
        return min((e.at for e in waiting if names is None or e.substream in names), default=40 * UNIT)

    everyone = least(None)
    was = before[-1][1] if before else Progress()
    least_before = int(was.of(pa.array(["0/none"]))[0])
    ticks = max(least_before, everyone - random.randrange(0, 3) * UNIT)
    if not substreams:
        return Progress(ticks)
    names = [f"0/{key}" for key in (1, 2, 3)]
    known = was.of(pa.array(names)).tolist()
    ahead = {n: max(k, least({n}) - random.randrange(0, 3) * UNIT) for n, k in zip(names, known, strict=True)}
    # all substreams of the partition are at `floor`; another partition holds back the rest
    floor = ticks
    ticks = max(was.watermark_ticks, ticks - random.randrange(0, 3) * UNIT)
    told = {"0/": floor} | {name: at for name, at in ahead.items() if at > floor}
    return Progress(ticks, pa.table({"substream": list(told), "watermark_ticks": list(told.values())}))


@pytest.mark.parametrize("substreams", [False, True])
@pytest.mark.parametrize("kind", ["inner", "left"])
@pytest.mark.parametrize("seed", some(range(40)))
def test_a_join_is_the_nested_loop_in_any_batches_and_keeps_its_watermark(
    seed: int, kind: str, substreams: bool
) -> None:
    random = Random(f"{seed} {kind} {substreams}")
    low = random.randrange(-6, 4)
    high = low + random.choice([0, 1, 3, 8])
    left, right = drawn(random, 40, substreams), drawn(random, 40, substreams)
    tagged = [*(("a", e) for e in left), *(("b", e) for e in right)]
    kernel, state = joined_by(kind, low, high, substreams), MemoryState()
    side_of = {id(event): side for side, event in tagged}
    came: Progress = Progress()
    made: list[pa.Table] = []
    names = pa.array([f"0/{key}" for key in (1, 2, 3)])
    for batch, progress in in_batches(random, [event for _, event in tagged], substreams):
        sides: list[list[pa.Table]] = []
        for number, side in enumerate("ab"):
            own = [event for event in batch if side_of[id(event)] == side]
            sides.append([table(own, side, number, substreams)] if own else [])
        result, now = kernel.advance(sides[0], sides[1], progress, state)
        if result is not None:
            made.append(result)
            limits: Any = came.of(result[SUBSTREAM]) if substreams else came.watermark_ticks
            assert (result[SYSTEM_TIMESTAMP].to_numpy() >= limits).all()
        assert (now.of(names) >= came.of(names)).all()
        assert (now.of(names) <= progress.of(names)).all()
        came, state = now, reopened(state)
    assert rows_out(made) == nested_loop(left, right, low, high, kind == "left")
    assert came.watermark_ticks == AFTER_ALL_TICKS
    assert state.buckets() == []


@pytest.mark.parametrize("kind", ["inner", "left"])
def test_state_holds_what_may_still_match_and_no_more(kind: str) -> None:
    kernel, state = joined_by(kind, 0, 10), MemoryState()
    for second in range(0, 500, 2):
        events = [Event(second * UNIT, second % 7, second)]
        kernel.advance(
            [table(events, "a", 0, False)], [table(events, "b", 1, False)], Progress(second * UNIT), state
        )
        held = sum(chunk.num_rows for bucket in state.buckets() for chunk in state.read(bucket))
        assert held <= 3 * 8  # left, right, matched: those of 12 seconds and a bucket more
    values = sum(len(value) for value in state._values.values())  # type: ignore[attr-defined]
    assert values < 1000


def test_a_left_row_comes_out_as_the_watermark_passes_the_end_of_its_last_unit() -> None:
    kernel, state = joined_by("left", 0, 10), MemoryState()
    start = UNIT // 2
    result, came = kernel.advance([table([Event(start, 1, 7)], "a", 0, False)], [], Progress(0), state)
    assert result is None
    for watermark in (start + 10 * UNIT, 11 * UNIT - 1):
        result, came = kernel.advance([], [], Progress(watermark), state)
        assert result is None
        assert came.watermark_ticks == min(watermark, start + 10 * UNIT)
    result, came = kernel.advance([], [], Progress(11 * UNIT), state)
    assert result is not None
    assert rows_out([result]) == [(start + 10 * UNIT, 7, None)]
    assert came.watermark_ticks == 11 * UNIT


@pytest.mark.parametrize(
    ("left", "right", "matches"),
    [
        (1, 1, True),
        (1, 1.0, True),
        (1, True, True),
        (0, False, True),
        (1, "1", False),
        ("a", "a", True),
        (1.5, 1.5, True),
        (None, None, False),
        ("true", True, False),
        (2**53 + 1, float(2**53), False),
    ],
)
def test_keys_are_equal_as_the_operator_says(left: Any, right: Any, matches: bool) -> None:
    others = [Event(0, "other", 1), Event(0, 99, 2)]
    for more_left, more_right in (([], []), (others[:1], []), ([], others[1:]), (others[:1], others[1:])):
        result, _ = joined_by("inner", 0, 5).advance(
            [table([Event(0, left, 5), *more_left], "a", 0, False)],
            [table([Event(0, right, 6), *more_right], "b", 1, False)],
            Progress(BEFORE_ALL_TICKS),
            MemoryState(),
        )
        assert (result is not None) == matches


def test_pairs_in_great_number_come_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "PAIRS_AT_ONCE", 7)
    left = [Event(0, 1, n) for n in range(11)]
    right = [Event(UNIT, 1, n) for n in range(5)]
    result, _ = joined_by("inner", 0, 5).advance(
        [table(left, "a", 0, False)], [table(right, "b", 1, False)], Progress(), MemoryState()
    )
    assert result is not None
    assert rows_out([result]) == nested_loop(left, right, 0, 5, False)
    assert len(np.unique(result["$offset"].to_numpy())) == 55


def test_a_text_and_a_datetime_are_not_brought_together() -> None:
    dated = table([Event(0, 1, 1)], "a", 0, False)
    types = {**types_of(dated), "$j0": Type.DATETIME}
    dated = dated.cast(pa.schema([field(name, type_) for name, type_ in types.items()]))
    with pytest.raises(EvaluationError, match="CAST"):
        joined_by("inner", 0, 5).advance(
            [dated], [table([Event(0, "x", 1)], "b", 1, False)], Progress(), MemoryState()
        )
