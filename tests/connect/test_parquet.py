"""Parquet columns as values."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tideglass.connect.formats.parquet import decode_parquet, value_column, wanted_columns
from tideglass.core.events import Fields
from tideglass.core.time import parse_ticks
from tideglass.core.types import Type

DAY = parse_ticks("2020-01-02T03:04:05.1234567Z")


@pytest.mark.parametrize(
    ("column", "values", "type_"),
    [
        (pa.array([1, None], pa.int8()), [1, None], Type.BIGINT),
        (pa.array([2**63 - 1], pa.uint64()), [2**63 - 1], Type.BIGINT),
        (pa.array([1.5], pa.float32()), [1.5], Type.FLOAT),
        (pa.array([Decimal("1.10")]), [1.1], Type.FLOAT),
        (pa.array([True, None]), [True, None], Type.BIT),
        (pa.array(["x"], pa.large_string()), ["x"], Type.NVARCHAR),
        (pa.array(["x", "y", "x"]).dictionary_encode(), ["x", "y", "x"], Type.NVARCHAR),
        (pa.array([b"\x00\xff"]), ["AP8="], Type.NVARCHAR),
        (pa.array([DAY * 100 + 99], pa.timestamp("ns")), [DAY], Type.DATETIME),
        (pa.array([-1, -100, -101, 99], pa.timestamp("ns")), [-1, -1, -2, 0], Type.DATETIME),
        (pa.array([datetime(1970, 1, 1, 0, 0, 1)], pa.timestamp("us")), [10_000_000], Type.DATETIME),
        (pa.array([-1], pa.timestamp("s", "UTC")), [-10_000_000], Type.DATETIME),
        (pa.array([date(1970, 1, 2)]), [864_000_000_000], Type.DATETIME),
        (pa.array([time(1, 2, 3)]), ["01:02:03.000000"], Type.NVARCHAR),
        (pa.array([5], pa.duration("ms")), [5], Type.BIGINT),
        (pa.array([[1, None], None]), ["[1,null]", None], Type.ARRAY),
        (pa.array([{"a": float("nan"), "t": datetime(2020, 1, 1, tzinfo=UTC)}]),
         ['{"a":null,"t":"2020-01-01T00:00:00.0000000Z"}'], Type.RECORD),
        (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())), ['[{"key":"k","value":1}]'], Type.ARRAY),
        (pa.nulls(2), [None, None], Type.NULL),
        (pa.array([None, None], pa.int32()), [None, None], Type.NULL),
    ],
)  # fmt: skip
def test_each_arrow_type_is_a_value_type(column: pa.Array, values: list[Any], type_: Type):
    array, found, unreadable = value_column(column)
    assert (array.to_pylist(), found, unreadable) == (values, type_, None)


def test_booleans_are_bigint_below_level_1_2():
    array, type_, _ = value_column(pa.array([True, False]), "1.1")
    assert (array.to_pylist(), type_) == ([1, 0], Type.BIGINT)


def test_only_needed_columns_are_read():
    names = ["a", "b", "C", "d"]
    assert wanted_columns(names, Fields((("b", "x"), ("c",), ("zz",)), False, (("d", Type.BIGINT),))) == [
        "b",
        "C",
        "d",
    ]
    assert wanted_columns(names, Fields((), True)) == names


def test_fields_of_structs_and_the_whole_event_are_found():
    table = pa.table({"a": [{"b": {"c": 1}}, None], "$x": [1, 2]})
    decoded = decode_parquet(table, Fields((("a", "b", "c"), ("a", "zz")), True)).table
    assert decoded["$payload.a.b.c"].to_pylist() == [1, None]
    assert decoded["$payload.a.zz"].to_pylist() == [None, None]
    assert decoded["$payload"].to_pylist()[0] == '{"a":{"b":{"c":1}},"$x":1}'
