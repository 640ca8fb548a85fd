"""What each aggregate makes of each type of value (`asa.md` 4.1), and that partials stay small."""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa
import pytest

from support.window_rows import Instant, S, at_once, group_by, one, same, table
from tideglass.core.errors import EvaluationError
from tideglass.core.time import AFTER_ALL_TICKS
from tideglass.core.types import Type, arrow_type, field, types_of
from tideglass.operators.progress import Progress
from tideglass.operators.state.store import MemoryState
from tideglass.plan.specs import FUNCTIONS, AggregateSpec
from tideglass.plan.windows import Hopping, Session

UP, DOWN = (("$x", False),), (("$x", True),)
MORE: dict[str, dict[str, Any]] = {
    "percentile_cont": {"constant": 0.5, "order_by": UP},
    "percentile_disc": {"constant": 0.5, "order_by": UP},
    "collecttop": {"constant": 2, "order_by": UP},
    "topone": {"order_by": UP},
}


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("values", [[None, None], [None]])
def test_a_group_of_nulls_gives_null_and_counts_zero(function: str, values: list[None]) -> None:
    assert one(function, values, **MORE.get(function, {})) == (0 if function == "count" else None)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_null_among_values_changes_nothing(function: str) -> None:
    more = MORE.get(function, {})
    assert same(one(function, [2, None, 5], **more), one(function, [2, 5], **more))


@pytest.mark.parametrize(
    ("function", "values", "expected"),
    [
        ("sum", [1, 2], 3),
        ("sum", [1, 2.5], 3.5),
        ("sum", ["1", "2"], 3.0),
        ("sum", [1, " 2.5e1 "], 26.0),
        ("avg", [1, 2], 1.5),
        ("avg", [4, 4], 4.0),
        ("min", [3, 1, 2], 1),
        ("max", [3, 1.5, 2], 3),
        ("max", [1, 1.0], 1),
        ("min", [1, 1.0], 1),
        ("max", [2**53 + 1, 2.0**53], 2**53 + 1),
        ("min", [True, False], False),
        ("max", [True, 0], True),
        ("max", [Instant(5), Instant(7)], 7),
        ("max", ["9", "10"], 10.0),
        ("max", [math.nan, 1.0], math.nan),
        ("min", [-0.0], 0.0),
        ("varp", [1, 3], 1.0),
        ("var", [7], None),
        ("stdev", [1, 3], math.sqrt(2.0)),
        ("var", ["1", 3, 5.0], 4.0),
    ],
)
def test_numbers_meet_as_numbers_and_keep_their_type(function: str, values: list[Any], expected: Any) -> None:
    assert same(one(function, values), expected)


@pytest.mark.parametrize(
    ("function", "value", "type_name", "allowed"),
    [
        ("sum", "one", "nvarchar(max)", "'bigint', 'float'"),
        ("sum", "1_000", "nvarchar(max)", "'bigint', 'float'"),
        ("avg", "inf", "nvarchar(max)", "'bigint', 'float'"),
        ("sum", True, "bit", "'bigint', 'float'"),
        ("stdev", Instant(1), "datetime", "'bigint', 'float'"),
        ("max", "high", "nvarchar(max)", "'bigint', 'float', 'datetime', 'bit'"),
        ("percentile_cont", "x", "nvarchar(max)", "'bigint', 'float'"),
    ],
)
@pytest.mark.parametrize("others", [[], [1]])
def test_a_value_of_another_type_stops_the_job_with_its_name(
    function: str, value: Any, type_name: str, allowed: str, others: list[int]
) -> None:
    message = (
        f"The 1st argument of function {function} has invalid type '{type_name}'. Only {allowed} is allowed. "
        "The value is "
    )
    with pytest.raises(EvaluationError) as caught:
        one(function, [value, *others], **MORE.get(function, {}))
    assert caught.value.message.startswith(message)


@pytest.mark.parametrize("type_", [Type.RECORD, Type.ARRAY])
def test_records_and_arrays_cannot_be_added(type_: Type) -> None:
    rows = table([{"$ts": 1}]).append_column(field("$x", type_), pa.array(["{}"], arrow_type(type_)))
    kernel = group_by([Hopping(S, S)], [], [AggregateSpec("$a0", "sum", "$x")])
    with pytest.raises(EvaluationError, match=f"invalid type '{type_}'"):
        kernel.partial(rows)


def test_a_datetime_and_a_number_cannot_be_compared() -> None:
    with pytest.raises(EvaluationError, match=r"'bigint' and 'datetime' cannot be compared by function max"):
        one("max", [Instant(5), 7])


def test_values_cast_to_text_compare_as_text() -> None:
    assert one("max", ["9", "10"], as_text=True) == "9"
    assert one("min", ["b", "B", "a"], as_text=True) == "B"


def test_distinct_counts_equal_numbers_once_and_other_types_apart() -> None:
    assert one("count", [1, 1.0, "1", True, None, 1, "1"], distinct=True) == 3
    assert one("count", ["a", "b", "a"], distinct=True) == 2


@pytest.mark.parametrize(
    ("share", "order", "expected"),
    [(0, UP, 1), (0.5, UP, 2), (0.07, UP, 1), (1, UP, 4), (0.25, UP, 1), (0.26, UP, 2), (0.25, DOWN, 4)],
)
def test_percentile_disc_is_the_first_value_with_that_share(share: float, order: Any, expected: int) -> None:
    assert one("percentile_disc", [3, 1, 4, 2], constant=share, order_by=order) == expected


def test_percentile_disc_takes_the_share_as_the_decimal_it_was_written() -> None:
    # 0.07 * 100 is 7.000000000000001 in floats, and would give the eighth
    assert one("percentile_disc", list(range(1, 101)), constant=0.07, order_by=UP) == 7


def test_percentile_disc_keeps_the_type_and_percentile_cont_is_float() -> None:
    assert same(one("percentile_disc", [1, 2.5], constant=0.5, order_by=UP), 1)
    assert same(one("percentile_disc", [1, 2.5], constant=0.9, order_by=UP), 2.5)
    assert same(one("percentile_cont", [1, 2], constant=0.5, order_by=UP), 1.5)
    assert same(one("percentile_cont", [1, 2, 4], constant=0.25, order_by=DOWN), 3.0)


def test_collect_is_an_array_in_row_order_with_every_type_as_json() -> None:
    values = [1, 2.5, 'say "hi"\n', Instant(1), Instant(-1), True, None]
    text = one("collect", values)
    assert json.loads(text) == [
        1,
        2.5,
        'say "hi"\n',
        "1970-01-01T00:00:00.0000001Z",
        "1969-12-31T23:59:59.9999999Z",
        True,
    ]


def test_rows_of_one_instant_are_collected_by_arrival_input_partition_and_offset() -> None:
    places = [(5, 0, 0, 1), (4, 1, 0, 0), (4, 0, 1, 0), (4, 0, 0, 9), (4, 0, 0, 2)]
    rows = [
        {"$ts": 1, "$arrival": a, "$input": i, "$partition": p, "$offset": o, "$x": number}
        for number, (a, i, p, o) in enumerate(places)
    ]
    (found,) = at_once([Hopping(S, S)], rows, [AggregateSpec("$a0", "collect", "$x")])
    assert found["$a0"] == "[4,3,2,1,0]"


@pytest.mark.parametrize(
    ("function", "order", "expected"),
    [
        ("topone", (("$y", False),), "null"),
        ("topone", (("$y", True),), "big"),
        ("topone", (("$y", True), ("$z", True)), "big too"),
        ("collecttop", (("$y", False),), '[{"rank":1,"value":"null"},{"rank":2,"value":"small"}]'),
        ("collecttop", (("$y", True),), '[{"rank":1,"value":"big"},{"rank":2,"value":"big too"}]'),
    ],
)
def test_top_rows_sort_null_first_and_break_ties_by_row_order(
    function: str, order: Any, expected: str
) -> None:
    rows = [
        {"$ts": 1, "$x": "small", "$y": 2**53, "$z": 1},
        {"$ts": 2, "$x": "big", "$y": 2**53 + 1, "$z": 1},
        {"$ts": 3, "$x": "big too", "$y": 2**53 + 1, "$z": 2},
        {"$ts": 4, "$x": "null", "$y": None, "$z": 0},
        {"$ts": 5, "$x": "float", "$y": 2.0**53, "$z": 0},
    ]
    spec = AggregateSpec("$a0", function, "$x", order_by=order, constant=2)
    (found,) = at_once([Hopping(S, S)], rows, [spec])
    assert found["$a0"] == expected


def test_top_one_keeps_the_type_of_the_value() -> None:
    kernel = group_by(
        [Hopping(S, S)], ["$k0"], [AggregateSpec("$a0", "topone", "$x", order_by=(("$y", True),))]
    )
    rows = [
        {"$ts": 1, "$k0": "a", "$x": Instant(7), "$y": 1},
        {"$ts": 1, "$k0": "b", "$x": 3, "$y": 1},
        {"$ts": 1, "$k0": "c", "$x": None, "$y": 1},
    ]

    def result(chosen: list[dict[str, Any]]) -> pa.Table:
        return kernel.advance([kernel.partial(table(chosen))], Progress(AFTER_ALL_TICKS), MemoryState())

    assert types_of(result(rows[:1]))["$a0"] is Type.DATETIME
    assert types_of(result(rows))["$a0"] is Type.VARIANT
    assert result(rows)["$a0"].to_pylist() == ["d7", "i3", None]


def test_chunks_whose_columns_have_different_types_meet() -> None:
    specs = [
        AggregateSpec("$a0", "sum", "$x"),
        AggregateSpec("$a1", "max", "$x"),
        AggregateSpec("$a2", "count", "$x"),
    ]
    kernel = group_by([Hopping(S, S)], ["$k0"], specs)
    chunks = [[(1, 1)], [(1.0, 2.5)], [("1", None)], [(None, None)], [(1, "4"), ("1", 8)]]
    partials = [
        kernel.partial(table([{"$ts": 1, "$k0": key, "$x": x} for key, x in chunk])) for chunk in chunks
    ]
    result = kernel.advance(partials, Progress(AFTER_ALL_TICKS), MemoryState())
    found = dict(
        zip(
            result["$k0"].to_pylist(),
            zip(*(result[s.name].to_pylist() for s in specs), strict=True),
            strict=True,
        )
    )
    assert found == {"f1.0": ("f7.5", "f4.0", 3), "s1": ("i8", "i8", 1), None: (None, None, 0)}


def test_a_step_without_keys_and_with_a_session_scope_beside_another_window() -> None:
    windows = [Hopping(10 * S, 10 * S, id="h"), Session(S, 100 * S, (), id="s")]
    rows = [{"$ts": 1, "$p0": "x"}, {"$ts": 2, "$p0": "y"}]
    found = at_once(windows, rows, [AggregateSpec("$a0", "count")], session_keys=[(), ("$p0",)])
    assert [(row["$ts"], row["$window"], row["$a0"]) for row in found] == [
        (S + 1, "s", 1),
        (S + 2, "s", 1),
        (10 * S, "h", 2),
    ]


def test_a_group_by_without_aggregates_lists_its_groups() -> None:
    rows = [{"$ts": 1, "$k0": "a"}, {"$ts": 2, "$k0": "a"}, {"$ts": 2, "$k0": "b"}]
    assert [row["$k0"] for row in at_once([Hopping(S, S)], rows, [], ["$k0"])] == ["a", "b"]


def test_a_partial_has_one_row_per_group_and_no_more_cells_than_it_needs() -> None:
    specs = [
        AggregateSpec("$a0", "sum", "$x"),
        AggregateSpec("$a1", "avg", "$x"),
        AggregateSpec("$a2", "count", "$x"),
    ]
    kernel = group_by([Hopping(S, S)], ["$k0"], specs)
    partial = kernel.partial(table([{"$ts": n % 10, "$k0": "a", "$x": 0.5 * n} for n in range(1, 500)]))
    assert partial.num_rows == 2  # an instant on the boundary, and the window after it
    assert sorted(name for name in partial.column_names if "|" in name) == ["$x|lane.74", "$x|n.values"]


def test_an_aggregate_the_kernels_do_not_know_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="median is no aggregate"):
        AggregateSpec("$a0", "median", "$x")
