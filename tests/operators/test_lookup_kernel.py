"""The kernel of joins with reference data against a nested loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from support.depth import depth
from tideglass.core.events import Fields
from tideglass.core.json_rows import rows_of, table_of
from tideglass.core.types import ORDER_COLUMNS
from tideglass.operators.joins import reference
from tideglass.operators.joins.reference import ReferenceJoin, ReferenceTable, by_snapshot
from tideglass.plan.specs import ReferenceJoinSpec, RowProgram

VALUES = st.sampled_from([None, 0, 1, 1.0, True, False, 2.5, "", "1", "a", "żółć", 2**62, -(2**62), 1e300])
ROWS = st.lists(st.tuples(VALUES, VALUES), max_size=12)


def equal(left: Any, right: Any) -> bool:
    """The operator `=`: numbers and bits by their value, texts by theirs, NULL equals nothing."""
    if left is None or right is None or isinstance(left, str) is not isinstance(right, str):
        return False
    return left == right


def table(rows: list[tuple[Any, Any]], first: str, **more: list[Any]) -> pa.Table:
    named = [
        {"k0": k, "k1": j, first: n, **{name: values[n] for name, values in more.items()}}
        for n, (k, j) in enumerate(rows)
    ]
    return table_of(named)


def lookup(kind: str) -> ReferenceJoin:
    """A join of the columns `left` and `right`."""
    return ReferenceJoin(
        ReferenceJoinSpec(
            input="r",
            kind=kind,
            keys=(),
            condition=None,
            left_columns=("left",),
            right_columns=("right",),
            reference=RowProgram((), None, ()),
            fields=Fields(),
            substreams=False,
        )
    )


@given(ROWS, ROWS, st.sampled_from(["inner", "left"]), st.integers(0, 2), st.integers(1, 3))
@examples(max_examples=depth(200), deadline=None)
def test_a_lookup_gives_the_pairs_of_a_nested_loop_in_their_order(
    lefts: list[tuple[Any, Any]], rights: list[tuple[Any, Any]], kind: str, keys: int, at_once: int
) -> None:
    if not lefts or not rights:
        return
    before, reference.PAIRS_AT_ONCE = reference.PAIRS_AT_ONCE, at_once
    try:
        own = table(lefts, "left", **{name: list(range(len(lefts))) for name in ORDER_COLUMNS})
        other = ReferenceTable(table(rights, "right"), tuple(f"k{n}" for n in range(keys)))
        made = lookup(kind).join(own, other)
    finally:
        reference.PAIRS_AT_ONCE = before
    expected: list[dict[str, Any]] = []
    for n, left in enumerate(lefts):
        matches = [m for m, right in enumerate(rights) if all(equal(left[k], right[k]) for k in range(keys))]
        expected += [{"left": n, "right": m} for m in matches or ([None] if kind == "left" else [])]
    assert rows_of(made.drop_columns(list(ORDER_COLUMNS))) == expected


@pytest.mark.parametrize("text", [False, True])
def test_many_keys_are_all_found_and_no_other(text: bool) -> None:
    numbers = np.random.default_rng(1).permutation(np.arange(0, 400_000, 2))
    keys = pa.array(numbers).cast(pa.string()) if text else pa.array(numbers)
    other = ReferenceTable(pa.table({"k": keys, "right": numbers}), ("k",))
    asked = np.arange(1000)
    own = pa.table(
        {"k": pa.array(asked).cast(keys.type), "left": asked, **dict.fromkeys(ORDER_COLUMNS, asked)}
    )
    found = lookup("inner").join(own, other)
    assert found["left"].to_pylist() == found["right"].to_pylist() == list(range(0, 1000, 2))


@given(st.lists(st.integers(-5, 15), max_size=10), st.sets(st.integers(0, 10)))
@examples(deadline=None)
def test_a_row_has_the_latest_snapshot_that_is_effective_by_its_time(
    times: list[int], effective: set[int]
) -> None:
    ordered = sorted(effective)
    parts = by_snapshot(np.array(times, np.int64), ordered)
    found = {int(row): place for place, rows in parts.items() for row in rows}
    expected = {row: sum(each <= time for each in ordered) - 1 for row, time in enumerate(times)}
    assert found == expected
