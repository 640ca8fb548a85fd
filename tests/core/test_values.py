"""Columns and rows of typed values."""

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
from tideglass.core.columns import (
    canonical_text,
    classify_json,
    from_variant,
    split_by_types,
    to_variant,
    unify,
)
from tideglass.core.iso import texts_of_ticks, ticks_of_texts
from tideglass.core.json_rows import json_lines, rows_of, table_of
from tideglass.core.time import LAST_TICKS, ORIGIN_TICKS, format_ticks, parse_ticks
from tideglass.core.types import Type, field, types_of

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8),
)
json_values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text("abcxyz \"\\'", max_size=4), inner, max_size=3),
    ),
    max_leaves=6,
)


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def values_of(column: pa.Array, type_: Type) -> list[Any]:
    return [row["x"] for row in rows_of(pa.table([column], schema=pa.schema([field("x", type_)])))]


@pytest.mark.parametrize(
    ("texts", "type_", "values"),
    [
        (["17", None, "-3"], Type.BIGINT, [17, None, -3]),
        (["1.5", "1e3", "null"], Type.FLOAT, [1.5, 1000.0, None]),
        (["true", "false", None], Type.BIT, [True, False, None]),
        (['"a"', '"q\\"\\n\\u0041"', "null", None], Type.NVARCHAR, ["a", 'q"\nA', None, None]),
        (['{"a":1}', None], Type.RECORD, [{"a": 1}, None]),
        (["[1,2]", "[]"], Type.ARRAY, [[1, 2], []]),
        (["null", None], Type.NULL, [None, None]),
        ([], Type.NULL, []),
        (["1", "1.0", '"1"', "true", "{}", "[]", None], Type.VARIANT, [1, 1.0, "1", True, {}, [], None]),
    ],
)
def test_json_texts_become_values_of_their_own_type(
    texts: list[str | None], type_: Type, values: list[Any]
) -> None:
    column, found, unreadable = classify_json(pa.array(texts, pa.string()))
    assert found is type_
    assert unreadable is None
    assert [(type(v), v) for v in values_of(column, found)] == [(type(v), v) for v in values]


def test_booleans_are_bigints_below_level_1_2() -> None:
    column, type_, _ = classify_json(pa.array(["true", "false", None]), level="1.1")
    assert (type_, column.to_pylist()) == (Type.BIGINT, [1, 0, None])


@pytest.mark.parametrize("others", [["1"], ['"a"', "2.5"]])
def test_an_integer_outside_int64_is_reported(others: list[str]) -> None:
    texts = ["9223372036854775808", *others, "-9223372036854775808", "1e400"]
    column, type_, unreadable = classify_json(pa.array(texts))
    assert unreadable is not None
    assert np.flatnonzero(unreadable).tolist() == [0, len(texts) - 1]
    assert values_of(column, type_)[-2] == -(2**63)
    assert values_of(column, type_)[0] is None


def test_a_slice_of_a_column_is_read_from_its_own_rows() -> None:
    column, type_, _ = classify_json(pa.array(['"x"', "1", "2"]).slice(1))
    assert (type_, column.to_pylist()) == (Type.BIGINT, [1, 2])


@given(st.lists(json_values, max_size=12))
@settings(max_examples=depth(150), deadline=None)
def test_classified_json_has_the_values_json_has(values: list[Any]) -> None:
    column, type_, unreadable = classify_json(pa.array([compact(v) for v in values], pa.string()))
    assert unreadable is None
    got = values_of(column, type_)
    assert got == values
    assert [type(v) for v in got] == [type(v) for v in values]


@given(st.lists(st.tuples(json_values, json_values), min_size=1, max_size=10))
@settings(max_examples=depth(100), deadline=None)
def test_rows_json_lines_and_tables_hold_the_same(pairs: list[tuple[Any, Any]]) -> None:
    rows = [{"a": a, 'b"c': b} for a, b in pairs]
    table = table_of(rows)
    assert rows_of(table) == rows
    assert [json.loads(line) for line in json_lines(table).to_pylist()] == rows


@given(st.lists(json_values, min_size=1, max_size=12))
@settings(max_examples=depth(100), deadline=None)
def test_split_parts_are_uniform_and_together_are_the_whole(values: list[Any]) -> None:
    table = table_of([{"x": v, "n": i} for i, v in enumerate(values)])
    parts = split_by_types(table, ["x"])
    assert all(types_of(part)["x"] is not Type.VARIANT for part, _ in parts)
    assert sorted(int(i) for _, rows in parts for i in rows) == list(range(len(values)))
    whole = unify([part for part, _ in parts])
    assert sorted(rows_of(whole), key=lambda row: row["n"]) == rows_of(table)


@given(st.lists(st.tuples(scalars, scalars), min_size=2, max_size=10))
@settings(max_examples=depth(100), deadline=None)
def test_canonical_texts_are_equal_exactly_for_equal_tuples(pairs: list[tuple[Any, Any]]) -> None:
    def key(value: Any) -> Any:
        return ("bit", value) if isinstance(value, bool) else value

    keys = [(key(a), key(b)) for a, b in pairs]
    texts = canonical_text(table_of([{"a": a, "b": b} for a, b in pairs]), ["a", "b"]).to_pylist()
    for i in range(len(pairs)):
        for j in range(i):
            assert (texts[i] == texts[j]) == (keys[i] == keys[j])


def test_canonical_text_does_not_depend_on_how_a_column_is_held() -> None:
    alone = canonical_text(table_of([{"a": 1.5}, {"a": 2.0}]), ["a"]).to_pylist()
    mixed = canonical_text(table_of([{"a": 1.5}, {"a": 2.0}, {"a": "x"}]), ["a"]).to_pylist()
    assert mixed[:2] == alone


def test_no_key_columns_give_one_key() -> None:
    assert canonical_text(table_of([{"a": 1}, {"a": 2}]), []).to_pylist() == ["", ""]


@pytest.mark.parametrize("type_", [Type.BIGINT, Type.FLOAT, Type.NVARCHAR, Type.BIT, Type.DATETIME])
def test_variant_and_back_is_the_same(type_: Type) -> None:
    values = {
        Type.BIGINT: [1, None, -5],
        Type.FLOAT: [0.1, None, 1e300],
        Type.NVARCHAR: ["", None, "sé"],
        Type.BIT: [True, None, False],
        Type.DATETIME: [0, None, 17],
    }[type_]
    column = pa.array(values)
    assert from_variant(to_variant(column, type_), type_).to_pylist() == values


def test_unify_fills_missing_columns_and_mixes_types() -> None:
    whole = unify([table_of([{"a": 1, "b": "x"}]), table_of([{"a": 1.5, "c": None}]), table_of([{"a": 2}])])
    assert types_of(whole) == {"a": Type.VARIANT, "b": Type.NVARCHAR, "c": Type.NULL}
    assert rows_of(whole) == [
        {"a": 1, "b": "x", "c": None},
        {"a": 1.5, "b": None, "c": None},
        {"a": 2, "b": None, "c": None},
    ]


def test_listed_columns_win_over_payload_fields() -> None:
    table = table_of([{"$ts": 0, "b": 9, "$payload": {"a": 1, "b": 2}}, {"$ts": 0, "b": 8, "$payload": {}}])
    assert rows_of(table) == [{"b": 9, "a": 1}, {"b": 8}]
    assert json_lines(table).to_pylist() == ['{"b":9,"a":1}', '{"b":8}']
    assert json_lines(table.select(["$payload"])).to_pylist() == ['{"a":1,"b":2}', "{}"]


def test_json_lines_write_null_for_what_json_lacks_and_keep_record_text() -> None:
    table = table_of([{"f": math.inf, "r": {"x": 1.10}, "d": "2020-01-01"}], {"d": Type.DATETIME})
    assert json_lines(table).to_pylist() == ['{"f":null,"r":{"x":1.1},"d":"2020-01-01T00:00:00.0000000Z"}']


def test_a_datetime_in_a_mixed_column_is_written_as_iso_text() -> None:
    column = pa.array([f"d{ORIGIN_TICKS}", "d-1", f"d{LAST_TICKS}", "sx"])
    table = pa.table([column], schema=pa.schema([field("x", Type.VARIANT)]))
    assert [json.loads(line) for line in json_lines(table).to_pylist()] == rows_of(table)


@given(
    st.lists(
        st.one_of(
            st.integers(ORIGIN_TICKS, LAST_TICKS).map(format_ticks),
            st.from_regex(
                r"(20|19)\d\d-[01]\d-[0-3]\d([T ][0-2]\d:[0-6]\d(:[0-6]\d([.,]\d{1,9})?)?"
                r"(Z|[+-]\d\d:?\d\d)?)?",
                fullmatch=True,
            ),
            st.text(max_size=28),
            st.none(),
        ),
        max_size=20,
    )
)
@settings(max_examples=depth(200), deadline=None)
def test_texts_are_read_as_times_by_the_rule_for_one_text(texts: list[str | None]) -> None:
    expected = [None if text is None else parse_ticks(text) for text in texts]
    assert ticks_of_texts(pa.array(texts, pa.string())).to_pylist() == expected


@given(st.lists(st.one_of(st.none(), st.integers(ORIGIN_TICKS, LAST_TICKS)), max_size=20))
@settings(deadline=None)
def test_times_are_written_by_the_rule_for_one_time(ticks: list[int | None]) -> None:
    expected = [None if t is None else format_ticks(t) for t in ticks]
    assert texts_of_ticks(pa.array(ticks, pa.int64())).to_pylist() == expected
