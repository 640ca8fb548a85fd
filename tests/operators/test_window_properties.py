"""Window kernels against the definitions, row by row, for random rows, chunks, batches and watermarks."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from support.depth import depth
from support.window_rows import S, group_by, same, table, values_of
from tideglass.core.time import AFTER_ALL_TICKS, BEFORE_ALL_TICKS, ORIGIN_TICKS
from tideglass.operators.progress import Progress
from tideglass.operators.state.store import MemoryState
from tideglass.operators.windows.aggregate import WindowAggregate
from tideglass.plan.specs import AggregateSpec
from tideglass.plan.windows import Hopping, Session, Sliding, Snapshot, Window

Row = dict[str, Any]

BY_X = (("$x", False),)
BY_Y_THEN_X = (("$y", True), ("$x", False))
AGGREGATES = (
    AggregateSpec("$a0", "count"),
    AggregateSpec("$a1", "count", "$x"),
    AggregateSpec("$a2", "sum", "$x"),
    AggregateSpec("$a3", "avg", "$x"),
    AggregateSpec("$a4", "min", "$x"),
    AggregateSpec("$a5", "max", "$x"),
    AggregateSpec("$a6", "varp", "$x"),
    AggregateSpec("$a7", "count", "$x", distinct=True),
    AggregateSpec("$a8", "percentile_disc", "$x", order_by=BY_X, constant=0.3),
    AggregateSpec("$a9", "collect", "$x"),
    AggregateSpec("$a10", "topone", "$x", order_by=BY_Y_THEN_X),
    AggregateSpec("$a11", "collecttop", "$x", order_by=BY_Y_THEN_X, constant=2),
)

# ---------------------------------------------------------------- the oracle


def windows_of(window: Window, rows: list[Row], unit: int) -> Iterator[tuple[int, int, list[Row]]]:
    """Every window with what it holds: its end, a number that tells windows of one end apart, its rows."""
    if not rows:
        return
    times = [row["$ts"] for row in rows]
    match window:
        case Snapshot():
            for end in set(times):
                yield end, 0, [row for row in rows if row["$ts"] == end]
        case Hopping(size, hop, offset):
            first = min(times)
            end = ORIGIN_TICKS + offset + -((ORIGIN_TICKS + offset - first) // hop) * hop
            while end < max(times) + size:
                yield end, 0, [row for row in rows if end - size < row["$ts"] <= end]
                end += hop
        case Sliding(size):
            for end in {time for t in times for time in (t, t + size)}:
                # content changes per group; whoever has no change here is sorted out by the caller
                yield end, 0, [row for row in rows if end - size < row["$ts"] <= end]
        case Session(timeout, longest):
            yield from sessions(rows, timeout, longest, unit)


def sessions(rows: list[Row], timeout: int, longest: int, unit: int) -> Iterator[tuple[int, int, list[Row]]]:
    """The rule of the reference, walked in steps of one unit."""
    opened = last = cut = None
    content: list[Row] = []
    number = 0
    now = min(row["$ts"] for row in rows)
    stop = max(row["$ts"] for row in rows) + timeout + 2 * longest + unit
    while now <= stop:
        if opened is not None and last is not None and now - last > timeout:
            yield last + timeout, number, content
            opened, content, number = None, [], number + 1
        here = [row for row in rows if row["$ts"] == now]
        if here:
            if opened is None:
                goes_on = cut is not None and last is not None and now - last <= timeout
                opened = cut if goes_on else now
            content = content + here
            last = now
        if opened is not None and (now - ORIGIN_TICKS) % longest == 0 and now - opened >= longest:
            yield now, number, content
            opened, content, cut, number = None, [], now, number + 1
        now += unit


def group_of(row: Row) -> tuple[Any, ...]:
    return (row.get("$substream"), row["$k0"])


def oracle(windows: list[Window], scopes: list[tuple[str, ...]], rows: list[Row], unit: int) -> list[Row]:
    results: list[Row] = []
    for number, window in enumerate(windows):
        parts = [rows]
        if isinstance(window, Session):
            names = ("$substream", *scopes[number]) if "$substream" in rows[0] else scopes[number]
            keys = {tuple(row[name] for name in names) for row in rows}
            parts = [[row for row in rows if tuple(row[name] for name in names) == key] for key in keys]
        for part in parts:
            for end, _, content in windows_of(window, part, unit):
                for group in {group_of(row) for row in content}:
                    members = [row for row in content if group_of(row) == group]
                    if isinstance(window, Sliding) and not any(
                        end in (row["$ts"], row["$ts"] + window.size_ticks)
                        for row in rows
                        if group_of(row) == group
                    ):
                        continue
                    results.append(
                        {
                            "$ts": end,
                            "window": number,
                            "group": representative(members),
                            **aggregated(members),
                        }
                    )
    return results


def representative(members: list[Row]) -> tuple[Any, ...]:
    keys = [row["$k0"] for row in members]
    key = next((key for key in keys if isinstance(key, float)), keys[0])
    return (members[0].get("$substream"), key)


def aggregated(rows: list[Row]) -> Row:
    rows = sorted(rows, key=lambda row: (row["$ts"], row["$offset"]))
    known = [row for row in rows if row["$x"] is not None]
    x = [row["$x"] for row in known]
    result: Row = {f"$a{place}": None for place in range(2, len(AGGREGATES))}
    result |= {"$a0": len(rows), "$a1": len(x), "$a7": len(set(x))}
    if not x:
        return result
    any_float = any(isinstance(value, float) for value in x)
    total = math.fsum(x)
    ordered = sorted(x, key=lambda value: (value, isinstance(value, float)))
    exact = [Fraction(value) for value in x]
    spread = len(x) * sum(value * value for value in exact) - sum(exact) ** 2
    top = sorted(
        known,
        key=lambda row: (
            -row["$y"] if row["$y"] is not None else math.inf,
            row["$x"],
            row["$ts"],
            row["$offset"],
        ),
    )
    ranked = [{"rank": rank, "value": row["$x"]} for rank, row in enumerate(top[:2], start=1)]
    return result | {
        "$a2": total + 0.0 if any_float else sum(x),
        "$a3": (total + 0.0) / len(x),
        "$a4": ordered[0] + (0.0 if isinstance(ordered[0], float) else 0),
        "$a5": next(value for value in ordered if value == ordered[-1]),
        "$a6": float(spread / len(x) ** 2),
        "$a8": ordered[max(1, math.ceil(Fraction("0.3") * len(x))) - 1],
        "$a9": json.dumps(x, separators=(",", ":")),
        "$a10": top[0]["$x"],
        "$a11": json.dumps(ranked, separators=(",", ":")),
    }


# ---------------------------------------------------------------- the driver

numbers = st.sampled_from([None, 0, 1, 2, -3, 1.0, 0.1, 2.5, 1e6 + 0.1, -7.25, 3.0])
keys = st.sampled_from(["a", "b", "c", 1, 1.0, None])

windows_in_units = st.one_of(
    st.integers(1, 12).map(lambda size: Hopping(size, size)),
    st.builds(Hopping, st.integers(1, 12), st.integers(1, 12), st.integers(-5, 5)),
    st.integers(1, 12).map(Sliding),
    st.just(Snapshot()),
    st.builds(Session, st.integers(1, 9), st.integers(1, 12), st.sampled_from([None, ()])),
)


def scaled(window: Window, unit: int) -> Window:
    match window:
        case Hopping(size, hop, offset):
            return Hopping(size * unit, hop * unit, offset * unit)
        case Sliding(size):
            return Sliding(size * unit)
        case Session(timeout, longest, by):
            return Session(timeout * unit, longest * unit, by)
        case Snapshot():
            return window


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Window], list[tuple[str, ...]], bool, list[list[Row]], int]:
    unit = draw(st.sampled_from([1, S, 7 * S]))
    base = draw(st.sampled_from([0, 63_000_000_000, -1000])) // unit * unit
    base += (ORIGIN_TICKS - base) % unit
    windows = [scaled(window, unit) for window in draw(st.lists(windows_in_units, min_size=1, max_size=2))]
    scopes: list[tuple[str, ...]] = []
    for window in windows:
        scoped = isinstance(window, Session) and window.partition_by is not None
        scopes.append(draw(st.sampled_from([("$k0",), ("$p0",)])) if scoped else ())
    substreams = draw(st.booleans())
    drawn = draw(
        st.lists(
            st.tuples(
                st.integers(0, 50),
                st.integers(0, 15),
                keys,
                numbers,
                st.sampled_from([None, 1, 2]),
                st.sampled_from(["p", "q"]),
                st.sampled_from(["s", "t", "u"]),
            ),
            min_size=1,
            max_size=25,
        )
    )
    rows: list[tuple[int, Row]] = []
    for number, (time, delay, key, x, y, scope, substream) in enumerate(drawn):
        row: Row = {"$ts": base + time * unit, "$offset": number, "$k0": key, "$x": x, "$y": y, "$p0": scope}
        if substreams:
            row["$substream"] = substream
        rows.append((time + delay, row))
    arrived = [row for _, row in sorted(rows, key=lambda item: (item[0], item[1]["$offset"]))]
    cuts = sorted(draw(st.lists(st.integers(0, len(arrived)), max_size=5)))
    batches = [arrived[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(arrived)], strict=True)]
    return windows, scopes, substreams, batches, unit


def progress_before(later: list[Row], substreams: bool) -> Progress:
    """The furthest watermark that leaves no later row behind."""
    if not later:
        return Progress(AFTER_ALL_TICKS)
    watermark = min(row["$ts"] for row in later)
    if not substreams:
        return Progress(watermark)
    own = {
        name: min([row["$ts"] for row in later if row["$substream"] == name], default=AFTER_ALL_TICKS)
        for name in ("s", "t", "u")
    }
    ahead = [name for name, ticks in own.items() if ticks > watermark]
    substream_table = pa.table(
        {
            "substream": pa.array(ahead, pa.string()),
            "watermark_ticks": pa.array([own[n] for n in ahead], pa.int64()),
        }
    )
    return Progress(watermark, substream_table)


def play(kernel: WindowAggregate, batches: list[list[Row]], chunk_rows: int, natural: bool) -> list[Row]:
    """The rows of all batches through the kernel; every result leaves as soon as it may."""
    state, results = MemoryState(), []
    before = Progress(BEFORE_ALL_TICKS)
    for place, batch in enumerate(batches):
        partials = [
            kernel.partial(table(batch[start : start + chunk_rows], natural))
            for start in range(0, len(batch), chunk_rows)
        ]
        later = [row for rest in batches[place + 1 :] for row in rest]
        progress = progress_before(later, kernel.spec.substreams)
        closed = kernel.advance(partials, progress, state)
        found = values_of(closed)
        if kernel.spec.substreams:
            low, high = before.of(closed["$substream"]), progress.of(closed["$substream"])
        else:
            low, high = [before.watermark_ticks] * len(found), [progress.watermark_ticks] * len(found)
        for row, earliest, latest in zip(found, low, high, strict=True):
            assert earliest <= row["$ts"] < latest
        results += found
        before = progress
    assert state.buckets() == [], "after the end of input nothing is held"
    return results


def comparable(row: Row) -> str:
    return repr(sorted((name, repr(value)) for name, value in row.items()))


@settings(max_examples=depth(30), deadline=None)
@given(cases(), st.integers(4, 30), st.booleans(), st.sets(st.sampled_from(AGGREGATES), max_size=4))
def test_any_chunks_and_batches_give_what_the_definitions_say(
    case: tuple[list[Window], list[tuple[str, ...]], bool, list[list[Row]], int],
    chunk_rows: int,
    natural: bool,
    chosen: set[AggregateSpec],
) -> None:
    windows, scopes, substreams, batches, unit = case
    aggregates = [spec for spec in AGGREGATES if spec in chosen]
    kernel = group_by(windows, ["$k0"], aggregates, substreams, scopes)
    rows = [row for batch in batches for row in batch]
    found = play(kernel, batches, chunk_rows, natural)
    expected = oracle(windows, scopes, rows, unit)
    names = [spec.name for spec in aggregates]
    shown = sorted(
        comparable(
            {"$ts": row["$ts"], "group": (row.get("$substream"), row["$k0"]), **{n: row[n] for n in names}}
        )
        for row in found
    )
    wanted = sorted(
        comparable({"$ts": row["$ts"], "group": row["group"], **{n: row[n] for n in names}})
        for row in expected
    )
    assert shown == wanted
    at_once = play(kernel, [rows], len(rows), True)
    assert sorted(map(comparable, found)) == sorted(map(comparable, at_once))


@settings(max_examples=depth(10), deadline=None)
@given(cases())
def test_rows_of_one_batch_leave_in_an_order_that_depends_on_nothing_else(
    case: tuple[list[Window], list[tuple[str, ...]], bool, list[list[Row]], int],
) -> None:
    windows, scopes, substreams, batches, _ = case
    kernel = group_by(windows, ["$k0"], AGGREGATES[:3], substreams, scopes)
    rows = [row for batch in batches for row in batch]
    first = play(kernel, [rows], len(rows), True)
    second = play(kernel, [list(reversed(rows))], 3, False)
    assert [row["$ts"] for row in first] == sorted(row["$ts"] for row in first)
    assert len(first) == len(second)
    for left, right in zip(first, second, strict=True):
        assert all(same(left[name], right[name]) for name in left)
