"""Result rows as columns of fixed types."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tideglass.connect.dataframes.output import fixed_columns
from tideglass.core.errors import OutputError
from tideglass.core.json_rows import table_of
from tideglass.core.types import Type


def one(value: object, wanted: Type, given: Type | None = None) -> object:
    types = {} if given is None else {"x": given}
    return fixed_columns(table_of([{"x": value}], types), {"x": wanted})["x"][0].as_py()


@pytest.mark.parametrize(
    ("value", "wanted", "shown"),
    [
        (1, Type.BIGINT, 1),
        (1, Type.FLOAT, 1.0),
        (1.5, Type.FLOAT, 1.5),
        (True, Type.BIT, True),
        ("a", Type.NVARCHAR, "a"),
        (None, Type.BIGINT, None),
        ({"a": [1, None]}, Type.RECORD, '{"a":[1,null]}'),
        ([1, "b"], Type.ARRAY, '[1,"b"]'),
        ('a"b', Type.VARIANT, '"a\\"b"'),
        (1, Type.VARIANT, "1"),
        (1.0, Type.VARIANT, "1.0"),
        (True, Type.VARIANT, "true"),
        ({"a": 1}, Type.VARIANT, '{"a":1}'),
        (None, Type.VARIANT, None),
    ],
)
def test_a_value_is_shown_by_the_type_of_its_column(value: object, wanted: Type, shown: object) -> None:
    assert one(value, wanted) == shown


def test_the_seventh_digit_of_a_time_is_cut_downwards() -> None:
    after = one("2026-01-01T00:00:00.1234569Z", Type.DATETIME, Type.DATETIME)
    assert after == datetime(2026, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)
    before = one("1950-01-01T00:00:00.1234569Z", Type.DATETIME, Type.DATETIME)
    assert before == datetime(1950, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)


def test_a_column_of_several_types_is_json_texts() -> None:
    table = table_of([{"x": 1}, {"x": "1"}, {"x": None}, {"x": 1.5}])
    assert fixed_columns(table, {"x": Type.VARIANT})["x"].to_pylist() == ["1", '"1"', None, "1.5"]


def test_whole_numbers_among_floats_are_floats() -> None:
    table = table_of([{"x": 1}, {"x": 1.5}, {"x": None}])
    assert fixed_columns(table, {"x": Type.FLOAT})["x"].to_pylist() == [1.0, 1.5, None]


def test_a_column_that_no_row_has_is_null() -> None:
    assert fixed_columns(table_of([{"x": 1}]), {"y": Type.FLOAT})["y"].to_pylist() == [None]


def test_a_value_that_does_not_fit_its_column_is_named_with_the_remedy() -> None:
    with pytest.raises(
        OutputError, match=r"'x' is of type bigint(?s:.*)holds a value of type float(?s:.*)CAST\(x"
    ):
        one(1.5, Type.BIGINT)
