"""Rows as people and files see them."""

from __future__ import annotations

from tideglass.core.json_rows import json_lines, table_of


def test_a_bit_that_is_null_is_written_as_null() -> None:
    lines = json_lines(table_of([{"a": None}, {"a": True}, {"a": False}])).to_pylist()
    assert lines == ['{"a":null}', '{"a":true}', '{"a":false}']
