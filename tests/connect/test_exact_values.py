"""Values of DataFrames that are passed through a query come back as they were."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tideglass.connect.dataframes.exact_values import column_of, exact_column
from tideglass.core.types import Type

INNER = pa.struct(
    [
        ("d", pa.decimal128(38, 20)),
        ("at", pa.timestamp("us", "UTC")),
        ("on", pa.date32()),
        ("b", pa.binary()),
        ("m", pa.map_(pa.string(), pa.list_(pa.decimal128(5, 2)))),
        ("n", pa.map_(pa.int32(), pa.bool_())),
    ]
)
ROW = {
    "d": Decimal("-0.00000000000000000001"),
    "at": datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    "on": date(1969, 12, 31),
    "b": b"\x00\xff",
    "m": [("ä", [Decimal("1.10"), None]), ("", None)],
    "n": [(2, True), (1, None)],
}


@pytest.mark.parametrize(
    ("kind", "values", "type_"),
    [
        (pa.decimal128(38, 9), [Decimal("12345678901234567890123456789.123456789"), None], Type.NVARCHAR),
        (pa.decimal128(38, 20), [Decimal(0), Decimal("-1")], Type.NVARCHAR),
        (pa.binary(), [b"", b"\x00\xff", None], Type.NVARCHAR),
        (INNER, [ROW, None, dict.fromkeys(ROW)], Type.RECORD),
        (pa.list_(INNER), [[ROW, None], [], None], Type.ARRAY),
        (pa.map_(pa.string(), INNER), [[("k", ROW)], [], None], Type.RECORD),
        (pa.map_(pa.int64(), INNER), [[(7, ROW)], None], Type.ARRAY),
    ],
)
def test_what_goes_in_comes_out(kind: pa.DataType, values: list[Any], type_: Type):
    column = pa.array(values, kind)
    texts, found, unreadable = exact_column(column)
    assert found is type_
    assert unreadable is None
    assert texts.type == pa.string()
    assert column_of(texts, kind).equals(column)


def test_a_number_that_json_lacks_is_null_within_a_record():
    kind = pa.struct([("x", pa.float64())])
    texts, _, _ = exact_column(pa.array([{"x": math.nan}, {"x": 0.1}], kind))
    assert column_of(texts, kind).to_pylist() == [{"x": None}, {"x": 0.1}]


def test_equal_decimals_of_a_column_are_equal_texts():
    texts, _, _ = exact_column(
        pa.array([Decimal("1.5"), Decimal("1.50"), Decimal("0E-2")], pa.decimal128(9, 2))
    )
    assert texts.to_pylist() == ["1.50", "1.50", "0.00"]
