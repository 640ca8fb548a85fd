"""CREATE TABLE takes from events what the oracle takes, for every type, level and kind of value."""

from __future__ import annotations

from typing import Any

import pytest

from oracle import run as oracle_run
from support.cases import compare_outputs
from tideglass.testing import run

TYPES = ["bigint", "float", "nvarchar(max)", "datetime", "record", "array"]
VALUES: list[Any] = [
    *(1, 0, -5, 2**53 + 1, 1.0, 1.5, 1e300, 9.0e15, 9.3e18, True, False, None, {"a": 1}, [1]),
    *(
        "7",
        " 7 ",
        "7.0",
        "7.5",
        "1e3",
        "x",
        "",
        " ",
        "true",
        "0",
        "1",
        "inf",
        "-Infinity",
        "9223372036854775808",
    ),
    *("2026-01-01", "2026-01-01T00:00:00.1234567Z", "2026-01-01T02:00:00+02:00", "12:00"),
]


@pytest.mark.parametrize(
    ("type_", "level"),
    [(type_, level) for level in ("1.0", "1.1", "1.2") for type_ in TYPES] + [("bit", "1.2")],
)
def test_a_declared_column_takes_what_converts_without_loss(type_: str, level: str) -> None:
    query = f"CREATE TABLE events (v {type_}); SELECT n, v, GetType(v) AS type, * FROM events"
    inputs = {"events": [{"n": n, "v": value} for n, value in enumerate(VALUES)]}
    settings = {"compatibility_level": level}
    expected = oracle_run(query, inputs, settings=settings)
    assert len(expected["output"]) > 1
    assert compare_outputs(run(query, inputs, settings=settings), expected) == []
