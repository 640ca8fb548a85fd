"""The reorder buffer releases what the watermark allows, in the total order, however the rows come."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from support.depth import depth
from tideglass.core.columns import unify
from tideglass.core.time import AFTER_ALL_TICKS, BEFORE_ALL_TICKS
from tideglass.core.types import ARRIVAL, INPUT, OFFSET, ORDER_COLUMNS, PARTITION, SUBSTREAM, SYSTEM_TIMESTAMP
from tideglass.operators.progress import Progress
from tideglass.operators.state.reorder import in_order, released_up_to

COLUMNS = (SYSTEM_TIMESTAMP, ARRIVAL, INPUT, PARTITION, OFFSET, SUBSTREAM, "v")


def table(rows):
    columns = [list(c) for c in zip(*rows, strict=True)] if rows else [[] for _ in COLUMNS]
    types = [pa.int64()] * 5 + [pa.string(), pa.int64()]
    return pa.table([pa.array(c, type=t) for c, t in zip(columns, types, strict=True)], names=list(COLUMNS))


def row(timestamp, offset=0, *, arrival=0, partition=0, key="k", v=0):
    return (timestamp, arrival, 0, partition, offset, key, v)


def order_of(result):
    return [tuple(r[name] for name in ORDER_COLUMNS) for r in result.to_pylist()]


def test_rows_at_the_watermark_are_released_and_later_ones_held():
    rows = table([row(30, 0), row(10, 1), row(21, 2), row(20, 3)])
    released, held = released_up_to(rows, Progress(20))
    assert released[SYSTEM_TIMESTAMP].to_pylist() == [10, 20]
    assert held is not None
    assert held[SYSTEM_TIMESTAMP].to_pylist() == [30, 21]
    released, held = released_up_to(unify([held, table([row(25, 4)])]), Progress(AFTER_ALL_TICKS))
    assert released[SYSTEM_TIMESTAMP].to_pylist() == [21, 25, 30]
    assert held is None


def test_nothing_is_released_before_there_is_a_watermark():
    released, held = released_up_to(table([row(1)]), Progress(BEFORE_ALL_TICKS))
    assert released.num_rows == 0
    assert released.column_names == list(COLUMNS)
    assert held is not None
    assert held.num_rows == 1


def test_no_rows_give_no_rows_with_the_same_columns():
    released, held = released_up_to(table([]), Progress(5))
    assert (released.num_rows, released.column_names, held) == (0, list(COLUMNS), None)


def test_a_substream_ahead_releases_its_rows_and_the_others_wait():
    ahead = pa.table({"substream": ["a"], "watermark_ticks": pa.array([50], type=pa.int64())})
    rows = table([row(40, 0, key="b"), row(50, 1, key="a"), row(51, 2, key="a"), row(10, 3, key="b")])
    released, held = released_up_to(rows, Progress(10, ahead))
    assert released[OFFSET].to_pylist() == [3, 1]
    assert held is not None
    assert held[OFFSET].to_pylist() == [0, 2]


def test_a_column_whose_type_changes_between_chunks_is_held_all_the_same():
    first = table([row(10, 0, v=7)])
    second = first.set_column(COLUMNS.index("v"), "v", pa.array(["seven"]))
    _, held = released_up_to(first, Progress(0))
    released, _ = released_up_to(unify([held, second]), Progress(10))
    assert released["v"].to_pylist() == ["i7", "sseven"]


rows_ = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.integers(0, 3),
        st.integers(0, 1),
        st.integers(0, 1),
        st.integers(0, 99),
        st.sampled_from("ab"),
        st.just(0),
    ),
    max_size=12,
)


@settings(max_examples=depth(200), deadline=None)
@given(rows_)
def test_rows_in_any_order_come_out_in_the_total_order(rows):
    assert order_of(in_order(table(rows))) == sorted(r[:5] for r in rows)


@settings(max_examples=depth(200), deadline=None)
@given(rows_, st.lists(st.integers(0, 12), max_size=5))
def test_successive_releases_make_one_ordered_sequence_of_every_row(rows, cuts):
    """One partition, in arrival order; no row is behind the watermark before, as the ingress sees to."""
    rows = [(*r[:2], 0, 0, offset, *r[5:]) for offset, r in enumerate(sorted(rows, key=lambda r: r[1]))]
    bounds = sorted({min(c, len(rows)) for c in cuts} | {0, len(rows)})
    held, watermark, sequence, sent = None, -1, [], []
    for start, end in zip(bounds, [*bounds[1:], None], strict=True):
        part = [(max(r[0], watermark), *r[1:]) for r in rows[start:end]]
        sent += part
        watermark = max([watermark, *(r[0] - 3 for r in part)]) if end is not None else AFTER_ALL_TICKS
        released, held = released_up_to(
            table(part) if held is None else unify([held, table(part)]), Progress(watermark)
        )
        sequence += order_of(released)
    assert held is None
    assert sequence == sorted(r[:5] for r in sent)
