"""The kernel of analytic functions: when rows come out, what their values are, what the state keeps."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.depth import depth
from tideglass.core.errors import EvaluationError
from tideglass.core.json_rows import rows_of, table_of
from tideglass.core.time import AFTER_ALL_TICKS, TICKS_PER_SECOND
from tideglass.core.types import ORDER_COLUMNS, SYSTEM_TIMESTAMP
from tideglass.operators.analytic.functions import AnalyticFunctions
from tideglass.operators.progress import Progress
from tideglass.operators.state.store import MemoryState
from tideglass.plan.calls import AnomalyModel
from tideglass.plan.specs import AggregateSpec, AnalyticSpec, AnomalySpec

SECOND = TICKS_PER_SECOND
LAG = AnalyticSpec("l", "lag", 10 * SECOND, keys=("k",), arg="v")


def total(length_ticks: int = 10 * SECOND) -> AnalyticSpec:
    return AnalyticSpec("s", "sum", length_ticks, ("k",), aggregate=AggregateSpec("s", "sum", "v"))


def rows(*given: tuple[float, str, Any], first_offset: int = 0) -> pa.Table:
    """Rows (second, key, value), arriving in this order."""
    made = [
        {
            **dict.fromkeys(ORDER_COLUMNS, 0),
            "$ts": int(at * SECOND),
            "$offset": first_offset + n,
            "k": k,
            "v": v,
        }
        for n, (at, k, v) in enumerate(given)
    ]
    return table_of(made)


def advance(
    kernel: AnalyticFunctions, state: MemoryState, second: float, *tables: pa.Table
) -> list[dict[str, Any]]:
    out = kernel.advance(tables, Progress(int(second * SECOND)), state)
    return [] if out is None else rows_of(out)


def held_rows(state: MemoryState) -> int:
    return sum(chunk.num_rows for bucket in state.buckets() for chunk in state.read(bucket))


def test_rows_come_out_in_order_once_the_watermark_is_past_them() -> None:
    kernel, state = AnalyticFunctions([LAG]), MemoryState()
    assert advance(kernel, state, 3, rows((3, "a", 30), (2, "a", 20))) == [{"k": "a", "v": 20, "l": None}]
    assert advance(kernel, state, 3.5, rows((3, "a", 31), first_offset=2)) == [
        {"k": "a", "v": 30, "l": 20},
        {"k": "a", "v": 31, "l": 30},
    ]


def test_nothing_comes_of_nothing() -> None:
    kernel, state = AnalyticFunctions([LAG, total()]), MemoryState()
    assert kernel.advance([], Progress(5), state) is None
    assert state.buckets() == []


def test_a_row_exactly_the_duration_old_is_out_of_reach() -> None:
    kernel = AnalyticFunctions([LAG, total()])
    out = advance(kernel, MemoryState(), 99, rows((1, "a", 1), (10.9999999, "a", 2), (11, "a", 4)))
    assert [(row["l"], row["s"]) for row in out] == [(None, 1), (1, 3), (2, 6)]
    alone = advance(kernel, MemoryState(), 99, rows((1, "a", 1), (11, "a", 4)))
    assert [(row["l"], row["s"]) for row in alone] == [(None, 1), (None, 4)]


def test_state_is_freed_as_the_watermark_passes() -> None:
    kernel, state = AnalyticFunctions([LAG, total(), AnalyticSpec("f", "isfirst", 5 * SECOND)]), MemoryState()
    advance(kernel, state, 1.5, rows((1, "a", 1), (2, "b", 2)))
    assert held_rows(state) > 0
    advance(kernel, state, 20)
    assert state.buckets() == []


def test_lag_keeps_the_last_rows_of_a_key_only() -> None:
    spec = AnalyticSpec("l", "lag", 1000 * SECOND, keys=("k",), arg="v", offset=2)
    kernel, state = AnalyticFunctions([spec]), MemoryState()
    batch = [(n / 100, f"k{n % 10}", n) for n in range(100)]
    for number in range(100):
        shifted = [(number + at, k, v) for at, k, v in batch]
        out = advance(kernel, state, number + 1, rows(*shifted))
        assert len(out) == 100
        if number:  # the second last of the batch before
            assert [row["l"] for row in out[:10]] == list(range(80, 90))
    # 10 keys of 2 rows in each of at most 9 buckets, and what is not merged yet
    assert held_rows(state) <= 10 * 2 * (9 + 16)


def test_moving_aggregates_keep_the_duration_only() -> None:
    kernel, state = AnalyticFunctions([total(8 * SECOND)]), MemoryState()
    for second in range(100):
        advance(kernel, state, second + 0.5, rows((second, "a", 1), (second, "b", 1)))
        assert held_rows(state) <= 2 * (8 + 2)


def test_rows_that_do_not_match_are_not_kept() -> None:
    kernel = AnalyticFunctions([AnalyticSpec("l", "lag", 10 * SECOND, keys=("k",), when="v", arg="k")])
    state = MemoryState()
    advance(kernel, state, 9, rows(*[(1, "a", False)] * 5))
    assert held_rows(state) == 0


def test_keys_are_equal_whatever_type_their_chunk_has() -> None:
    kernel, state = AnalyticFunctions([LAG]), MemoryState()
    advance(kernel, state, 2, rows((1, 1, "whole"), (1, "x", "text")))
    out = advance(kernel, state, 3, rows((2, 1.0, "float"), (2, None, "null")))
    assert [row["l"] for row in out] == ["whole", None]
    assert [row["l"] for row in advance(kernel, state, 4, rows((3, None, 5)))] == ["null"]


def test_the_default_stands_only_where_no_row_is() -> None:
    spec = AnalyticSpec("l", "lag", 10 * SECOND, arg="v", default="k")
    out = advance(AnalyticFunctions([spec]), MemoryState(), 9, rows((1, "a", None), (2, "b", 5), (3, "c", 6)))
    assert [row["l"] for row in out] == ["a", None, 5]


def test_a_sum_of_words_stops_the_job() -> None:
    with pytest.raises(EvaluationError, match="1st argument of function sum has invalid type"):
        advance(AnalyticFunctions([total()]), MemoryState(), 9, rows((1, "a", "word")))


NUMBERS = st.sampled_from([1, 2, 0.1, -0.25, 1e16, -1e16, 1e300, -1e300, 5e-324, None])


@given(
    st.lists(st.tuples(st.integers(0, 12), st.sampled_from("ab"), NUMBERS), max_size=25),
    st.lists(st.integers(0, 25), max_size=4),
    st.integers(1, 9),
)
@settings(max_examples=depth(60), deadline=None)
def test_moving_sums_are_exact_and_do_not_depend_on_batches(
    inline_rows: list[tuple[int, str, Any]], cuts: list[int], length: int
) -> None:
    ordered = sorted(inline_rows, key=lambda row: row[0])
    kernel, state = AnalyticFunctions([total(length * SECOND)]), MemoryState()
    found: list[dict[str, Any]] = []
    start = 0
    for cut in sorted({min(cut, len(ordered)) for cut in cuts} | {len(ordered)}):
        part = rows(*ordered[start:cut], first_offset=start) if cut > start else None
        watermark = Progress(ordered[cut][0] * SECOND if cut < len(ordered) else AFTER_ALL_TICKS)
        out = kernel.advance([] if part is None else [part], watermark, state)
        found += [] if out is None else rows_of(out)
        start = cut
    expected: list[Any] = []
    for n, (at, key, _) in enumerate(ordered):
        frame = [v for t, k, v in ordered[: n + 1] if k == key and t > at - length and v is not None]
        whole = all(isinstance(v, int) for v in frame)
        expected.append(None if not frame else sum(frame) if whole else math.fsum(frame))
    assert [(repr(row["s"])) for row in found] == [repr(value) for value in expected]


def test_rows_keep_every_column_they_came_with() -> None:
    table = rows((1, "a", 1)).append_column("$payload", pa.array(['{"x":1}']))
    out = AnalyticFunctions([LAG]).advance([table], Progress(AFTER_ALL_TICKS), MemoryState())
    assert out is not None
    assert out.column_names == [*table.column_names, "l"]
    assert out[SYSTEM_TIMESTAMP].to_numpy().tolist() == [SECOND]


def test_a_small_batch_does_not_sort_what_is_kept_of_other_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    from tideglass.operators.analytic import functions

    spec = AnalyticSpec("l", "lag", 1000 * SECOND, keys=("k",), arg="v")
    kernel, state = AnalyticFunctions([spec]), MemoryState()
    advance(kernel, state, 2, rows(*[(1, f"k{n}", n) for n in range(5000)]))
    sorted_rows: list[int] = []
    of = functions.Sorted.of

    def counted(table: pa.Table, keys: Any, matching: Any) -> Any:
        sorted_rows.append(table.num_rows)
        return of(table, keys, matching)

    monkeypatch.setattr(functions.Sorted, "of", counted)
    assert [row["l"] for row in advance(kernel, state, 4, rows((3, "k17", 0)))] == [17]
    assert max(sorted_rows) <= 2
    assert np.sum(sorted_rows) <= 4


def detector(size: int, change_point: bool, seconds: float = 10) -> AnomalySpec:
    model = AnomalyModel(95.0, size, change_point=change_point)
    return AnomalySpec(f"d{change_point}", "anomaly", int(seconds * SECOND), ("k",), arg="v", model=model)


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.sampled_from("ab"), st.floats(-1e9, 1e9)), min_size=1, max_size=60
    ),
    st.lists(st.integers(1, 9), min_size=1, max_size=9),
)
@settings(deadline=None, max_examples=depth(40))
def test_detectors_give_the_same_bits_in_any_batches(
    inline_rows: list[tuple[int, str, float]], sizes: list[int]
) -> None:
    inline_rows.sort()
    specs = [detector(12, change_point, seconds) for change_point, seconds in ((False, 15), (True, 20))]
    at_once = advance(AnalyticFunctions(specs), MemoryState(), 99, rows(*inline_rows))
    kernel, state, place, found = AnalyticFunctions(specs), MemoryState(), 0, list[dict[str, Any]]()
    while place < len(inline_rows):
        batch = inline_rows[place : place + sizes[place % len(sizes)]]
        found += advance(kernel, state, batch[0][0], rows(*batch, first_offset=place))
        place += len(batch)
    found += advance(kernel, state, 99)
    assert found == at_once


def test_detectors_keep_the_history_of_a_key_only() -> None:
    kernel = AnalyticFunctions([detector(5, change_point, 1000) for change_point in (False, True)])
    state = MemoryState()
    for second in range(300):
        advance(kernel, state, second + 1, rows(*[(second + n / 20, f"k{n % 3}", n) for n in range(20)]))
    assert len(kernel.specs) == 2
    # of 3 keys the latest 5 rows in each of at most 9 buckets, and what is not merged yet
    assert held_rows(state) <= 3 * 5 * (9 + 16) + 20 * 16
    advance(kernel, state, 2000)
    assert state.buckets() == []


def test_a_value_as_large_as_floats_go_is_judged() -> None:
    kernel = AnalyticFunctions([detector(2, False)])
    inline_rows = [(n / 10, "a", value) for n, value in enumerate((1e308, -1e308, 1e308, -1.7e308, 1.7e308))]
    out = advance(kernel, MemoryState(), 99, rows(*inline_rows))
    scores = [json.loads(row["dFalse"]) if isinstance(row["dFalse"], str) else row["dFalse"] for row in out]
    below_one_deviation = (math.erfc(0.0) + math.erfc(math.sqrt(2))) / 4
    assert scores[0] == {"IsAnomaly": 0, "Score": 0.5}
    assert scores[2]["Score"] == pytest.approx(below_one_deviation)
    assert all(0 < score["Score"] < 1 for score in scores)


def test_values_that_agree_are_as_expected_even_at_half_confidence() -> None:
    model = AnomalyModel(50.0, 7, change_point=True)
    kernel = AnalyticFunctions([AnomalySpec("d", "anomaly", 100 * SECOND, ("k",), arg="v", model=model)])
    out = advance(kernel, MemoryState(), 99, rows(*[(n, "a", 0.1) for n in range(20)]))
    assert [row["d"]["IsAnomaly"] for row in out] == [0] * 20
