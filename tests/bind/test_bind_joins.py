"""JOIN: bounds, keys and rules of ON, and what is wrong with it at its place."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from support.binding import errors, found, plan, project
from tideglass.bind.catalog import InputInfo
from tideglass.core.time import TICKS_PER_MINUTE, TICKS_PER_SECOND
from tideglass.plan.nodes import Filter, Join, Node
from tideglass.plan.spans import input_spans_ticks

S, M = TICKS_PER_SECOND, TICKS_PER_MINUTE


def joined(on: str, kind: str = "JOIN", inputs: Mapping[str, InputInfo] | None = None) -> Join:
    node: Node = project(f"SELECT a.v FROM x a {kind} y b ON {on}", inputs).child
    while isinstance(node, Filter):
        node = node.child
    assert isinstance(node, Join)
    return node


@pytest.mark.parametrize(
    ("on", "lowest", "highest"),
    [
        ("DATEDIFF(second, a, b) BETWEEN 0 AND 10", 0, 10),
        ("DATEDIFF(second, a, b) BETWEEN -5 AND -2", -5, -2),
        ("DATEDIFF(second, b, a) BETWEEN 0 AND 10", -10, 0),
        ("DATEDIFF(second, a, b) >= 1 AND DATEDIFF(second, a, b) < 4", 1, 3),
        ("4 > DATEDIFF(second, a, b) AND 1 < DATEDIFF(second, a, b)", 2, 3),
        ("DATEDIFF(second, b, a) > -3 AND DATEDIFF(second, a, b) >= -1", -1, 2),
        ("DATEDIFF(second, a, b) = 2", 2, 2),
        ("DATEDIFF(second, a, b) BETWEEN -0.5 AND 2.5", 0, 2),
        ("DATEDIFF(second, a, b) BETWEEN 0 AND 10 AND DATEDIFF(second, a, b) <= 7", 0, 7),
    ],
)
def test_bounds_are_found_however_they_are_written(on: str, lowest: int, highest: int) -> None:
    (bound,) = joined(on).bounds
    assert (bound.base, bound.unit_ticks, bound.lowest, bound.highest) == ("a.$ts", S, lowest, highest)


def test_a_bound_counts_boundaries_and_the_stamp_of_an_unmatched_row_does_not() -> None:
    join = joined("DATEDIFF(minute, a, b) BETWEEN -2 AND 10", "LEFT JOIN")
    assert (join.kind, join.unmatched_ticks) == ("left", 10 * M)
    assert (join.lower_ticks, join.upper_ticks) == (-3 * M + 1, 11 * M - 1)


def test_equations_between_the_sides_are_keys_and_the_rest_is_a_condition() -> None:
    join = joined("b.k = a.k AND a.n = 1 AND b.v > a.v AND DATEDIFF(second, a, b) BETWEEN 0 AND 9")
    assert [[repr(side) for side in pair] for pair in join.keys] == [
        ["Path(base=Ref(name='a.$payload'), keys=('k',))", "Path(base=Ref(name='b.$payload'), keys=('k',))"]
    ]
    assert join.condition is not None


def test_a_datetime_is_no_key_as_texts_may_equal_it() -> None:
    bound = " AND DATEDIFF(second, a, b) BETWEEN 0 AND 9"
    assert joined("CAST(a.t AS datetime) = b.t" + bound).keys == ()


def test_the_span_of_a_join_is_the_distance_its_rows_may_have() -> None:
    job = plan("SELECT a.v FROM x a JOIN y b ON DATEDIFF(minute, a, b) BETWEEN -2 AND 10")
    assert max(input_spans_ticks(job).values()) == 14 * M - 2


BOUND = "DATEDIFF(second, a, b) BETWEEN 0 AND 9"


@pytest.mark.parametrize(
    ("query", "code", "place"),
    [
        ("SELECT a.v FROM x a JOIN y b ON a.k = b.k", "JOIN_NOT_BOUNDED", "a.k = b.k"),
        (
            "SELECT a.v FROM x a JOIN y b ON DATEDIFF(second, a, b) > 0",
            "JOIN_NOT_BOUNDED",
            "DATEDIFF(second, a, b) > 0",
        ),
        (
            "SELECT a.v FROM x a JOIN y b ON DATEDIFF(second, a, b) BETWEEN 0 AND a.n",
            "JOIN_NOT_BOUNDED",
            "DATEDIFF(second, a, b) BETWEEN 0 AND a.n",
        ),
        (
            "SELECT a.v FROM x a JOIN y b ON DATEDIFF(month, a, b) BETWEEN 0 AND 0",
            "JOIN_NOT_BOUNDED",
            "DATEDIFF(month, a, b) BETWEEN 0 AND 0",
        ),
        (
            "SELECT a.v FROM x a JOIN y b ON DATEDIFF(day, a, b) BETWEEN -4 AND 4",
            "JOIN_TOO_LONG",
            "DATEDIFF(day, a, b) BETWEEN -4 AND 4",
        ),
        (
            f"SELECT a.v FROM x a JOIN y b ON {BOUND} JOIN z c ON c.k = a.k",
            "JOIN_NOT_BOUNDED",
            "c.k = a.k",
        ),
        (
            f"SELECT a.v FROM x a JOIN y b ON {BOUND} JOIN z c ON {BOUND}",
            "JOIN_NOT_BOUNDED",
            BOUND,
        ),
        ("SELECT a.v FROM x a CROSS JOIN y b", "CROSS_JOIN_OF_STREAMS", "CROSS JOIN y b"),
        (f"SELECT a.v FROM x a JOIN y a ON {BOUND}", "DUPLICATE_SOURCE", f"JOIN y a ON {BOUND}"),
        (f"SELECT v FROM x a JOIN y b ON {BOUND}", "AMBIGUOUS_COLUMN", "v"),
        (f"SELECT * FROM x a JOIN y b ON {BOUND}", "STAR_WITH_JOIN", "*"),
        (
            f"SELECT a.v FROM x a TIMESTAMP BY t OVER k JOIN y b TIMESTAMP BY t OVER k ON {BOUND}",
            "SUBSTREAM_KEY_NOT_JOINED",
            BOUND,
        ),
        (
            f"SELECT a.v FROM x a PARTITION BY PartitionId JOIN y b PARTITION BY PartitionId ON {BOUND}",
            "PARTITION_KEY_NOT_JOINED",
            BOUND,
        ),
    ],
)
def test_what_is_wrong_with_a_join_is_reported_at_its_place(query: str, code: str, place: str) -> None:
    assert (code, place) in found(query)


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT a.v FROM x a PARTITION BY k JOIN y b PARTITION BY m ON b.m = a.k AND {BOUND}",
        f"SELECT a.v FROM x a PARTITION BY k JOIN y b ON {BOUND}",
        f"SELECT a.v FROM x a TIMESTAMP BY t OVER k JOIN y b TIMESTAMP BY t OVER m ON a.k = b.m AND {BOUND}",
        "SELECT a.v FROM x a TIMESTAMP BY t OVER k JOIN x b TIMESTAMP BY t OVER k "
        f"ON a.k = b.k AND {BOUND} LEFT JOIN x c TIMESTAMP BY t OVER k "
        "ON c.k = b.k AND DATEDIFF(second, b, c) BETWEEN -3 AND 3",
    ],
)
def test_what_the_rules_of_joins_allow(query: str) -> None:
    assert plan(query).outputs


def test_a_distance_between_columns_is_answered_with_one_between_sources() -> None:
    on = "a.k = b.k AND DATEDIFF(second, a.t, b.t) BETWEEN 0 AND 5"
    (error,) = errors(f"SELECT a.v FROM x a TIMESTAMP BY t JOIN y b TIMESTAMP BY t ON {on}")
    assert error.code == "JOIN_NOT_BOUNDED"
    assert "names of the sources" in error.hint
