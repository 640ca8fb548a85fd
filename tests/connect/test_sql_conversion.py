"""Values in columns of databases, each row of the service's table of typed sinks (`asa.md` 5.4)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.database import Database, PostgresServer, postgresql_server
from support.sql_tables import batch, rows, table_output
from support.tcp_proxy import proxy_to_socket
from tideglass.connect.refused_rows import RowsRefused
from tideglass.connect.sql.conversion import converted
from tideglass.connect.sql.postgres import Postgres
from tideglass.connect.sql.target_table import Family, SinkColumn
from tideglass.connect.sql.tsql import TransactSql, column_of
from tideglass.core.iso import flat
from tideglass.core.json_rows import table_of
from tideglass.core.time import parse_ticks
from tideglass.core.types import Type, types_of

NOON = "2024-02-29T12:00:00.1234567Z"
#: Stands for a value that is refused.
REFUSED = "refused"


def catalog(type_: str, size: int = 8, precision: int = 0, scale: int = 0) -> SinkColumn:
    """A column of SQL Server as its catalog describes it."""
    return column_of(("c", type_, size, precision, scale, True, None, 0, None))


def taken(value: Any, column: SinkColumn, level: str = "1.2", declared: Type | None = None) -> Any:
    """The value as SQL Server's column takes it."""
    table = table_of([{"v": value}, {"v": None}], {} if declared is None else {"v": declared})
    found, bad, _ = converted(flat(table["v"]), types_of(table)["v"], column, TransactSql().rules(level))
    assert (bad[1], found[1].as_py()) == (False, None)
    return REFUSED if bad[0] else found[0].as_py()


BIGINT, INT, TINYINT = catalog("bigint"), catalog("int"), catalog("tinyint")
FLOAT, REAL, DECIMAL = catalog("float"), catalog("real"), catalog("decimal", 9, 5, 2)
TEXT, SHORT, OLD = catalog("nvarchar", -1), catalog("nvarchar", 10), catalog("varchar", 4)
UUID, BIT = catalog("uniqueidentifier"), catalog("bit")
DATETIME, DATETIME2, OFFSET = (
    catalog("datetime"),
    catalog("datetime2", 8, 0, 7),
    catalog("datetimeoffset", 10, 0, 7),
)


@pytest.mark.parametrize(
    ("value", "column", "expected"),
    [
        (2**62, BIGINT, 2**62),
        (2**31 - 1, INT, 2**31 - 1),
        (2**31, INT, REFUSED),
        (255, TINYINT, 255),
        (-1, TINYINT, REFUSED),
        (5, TEXT, "5"),
        (5, FLOAT, 5.0),
        (2**53 + 1, FLOAT, REFUSED),
        (2**60, FLOAT, 2.0**60),
        (2**63 - 1, FLOAT, REFUSED),
        (2**24 + 1, REAL, REFUSED),
        (999, DECIMAL, "999.00"),
        (1000, DECIMAL, REFUSED),
        (1, BIT, True),
        (2, BIT, REFUSED),
        (1.5, FLOAT, 1.5),
        (math.nan, FLOAT, REFUSED),
        (math.inf, FLOAT, REFUSED),
        (1e39, REAL, REFUSED),
        (0.1, REAL, 0.1),
        (1.005, DECIMAL, "1.01"),
        (-1.005, DECIMAL, "-1.01"),
        (5e-324, DECIMAL, "0.00"),
        (999.995, DECIMAL, REFUSED),
        (math.nan, DECIMAL, REFUSED),
        (3.0, INT, 3),
        (3.5, INT, REFUSED),
        (1e300, BIGINT, REFUSED),
        (2.5, TEXT, "2.5"),
        (math.nan, TEXT, "NaN"),
        ("abc", TEXT, "abc"),
        ("", TEXT, ""),
        ("abcde", SHORT, "abcde"),
        ("abcdef", SHORT, REFUSED),
        ("ab😀😀", SHORT, REFUSED),
        ("a😀😀", SHORT, "a😀😀"),
        ("abcde", OLD, REFUSED),
        ("0E984725-C51C-4BF4-9960-E1C80E27ABA0", UUID, "0E984725-C51C-4BF4-9960-E1C80E27ABA0"),
        ("no uuid", UUID, REFUSED),
        ("5", INT, REFUSED),
        ("true", BIT, REFUSED),
        (NOON, DATETIME2, parse_ticks(NOON)),
        ("noon", DATETIME2, REFUSED),
        ("1700-01-01", DATETIME, REFUSED),
        ("1700-01-01", DATETIME2, parse_ticks("1700-01-01")),
        ("2024-02-29T12:00:00+02:00", OFFSET, "2024-02-29T12:00:00.0000000+02:00"),
        ("2024-02-29T12:00:00-0530", OFFSET, "2024-02-29T12:00:00.0000000-05:30"),
        ("2024-02-29T12:00:00Z", OFFSET, "2024-02-29T12:00:00.0000000Z"),
        ("2024-02-29", OFFSET, "2024-02-29T00:00:00.0000000Z"),
        (True, BIT, True),
        (False, TINYINT, 0),
        (True, TEXT, "true"),
        (True, FLOAT, REFUSED),
        ({"a": [1, None]}, TEXT, '{"a":[1,null]}'),
        ([1, "x"], TEXT, '[1,"x"]'),
        ({"a": 1}, SHORT, REFUSED),
        ({"a": 1}, INT, REFUSED),
        (5, UUID, REFUSED),
        (5, catalog("varbinary"), REFUSED),
    ],
)  # fmt: skip
def test_sql_server_at_level_1_2(value: Any, column: SinkColumn, expected: Any) -> None:
    assert taken(value, column) == expected


@pytest.mark.parametrize(
    ("value", "column", "expected"),
    [
        (2**31, INT, -(2**31)),
        (2**32 + 5, INT, 5),
        (-(2**63), INT, 0),
        (2**63 - 1, INT, -1),
        (300, TINYINT, 44),
        (-1, TINYINT, 255),
        (70_000, catalog("smallint"), 4464),
        ({"a": 1}, TEXT, "Record"),
        ([1], TEXT, "Array"),
        ("2024-02-29T12:00:00+02:00", OFFSET, "2024-02-29T10:00:00.0000000Z"),
        ("2024-02-29T12:00:00.5", OFFSET, "2024-02-29T12:00:00.5000000Z"),
    ],
)
@pytest.mark.parametrize("level", ["1.0", "1.1"])
def test_sql_server_below_level_1_2(value: Any, column: SinkColumn, expected: Any, level: str) -> None:
    assert taken(value, column, level) == expected


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (DATETIME2, parse_ticks(NOON)),
        (OFFSET, NOON),
        (TEXT, NOON),
        (BIGINT, REFUSED),
        (SHORT, REFUSED),
    ],
)
def test_instants_in_sql_server(column: SinkColumn, expected: Any) -> None:
    assert taken(NOON, column, declared=Type.DATETIME) == expected


def test_values_of_several_types_are_converted_each_by_its_own() -> None:
    table = table_of([{"v": v} for v in (1, "x", None, 2.5, True, [1], {"a": 1}, 7)])
    found, bad, why = converted(flat(table["v"]), types_of(table)["v"], INT, TransactSql().rules("1.2"))
    assert found.to_pylist() == [1, None, None, None, 1, None, None, 7]
    assert np.flatnonzero(bad).tolist() == [1, 3, 5, 6]
    assert why == "it takes no nvarchar(max); it holds integers; it takes no array; it takes no record"


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from([8, 16, 32]))
def test_an_integer_that_is_cut_keeps_its_low_bits(value: int, bits: int) -> None:
    column = catalog({8: "tinyint", 16: "smallint", 32: "int"}[bits])
    assert (taken(value, column, "1.1") - value) % 2**bits == 0


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(1, 38), st.integers(0, 10))
def test_a_decimal_never_has_more_digits_than_its_column(value: float, precision: int, scale: int) -> None:
    scale = min(scale, precision)
    found = taken(value, catalog("decimal", 9, precision, scale))
    if found is not REFUSED:
        whole, _, fraction = found.lstrip("-").partition(".")
        assert len(whole.lstrip("0")) <= precision - scale
        assert len(fraction) == scale
        assert "E" not in found


# ---------------------------------------------------------------- PostgreSQL, for real


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgresql_server() as found:
        yield found


#: Type of a column, value, and what PostgreSQL says of it as text.
KEPT: list[tuple[str, Any, str]] = [
    ("bigint", 2**63 - 1, "9223372036854775807"),
    ("bigint", 3.0, "3"),
    ("double precision", 0.1, "0.1"),
    ("double precision", math.nan, "NaN"),
    ("double precision", -math.inf, "-Infinity"),
    ("double precision", 5, "5"),
    ("numeric", 0.30000000000000004, "0.30000000000000004"),
    ("numeric", 1e-7, "0.0000001"),
    ("numeric", 2**63 - 1, "9223372036854775807"),
    ("numeric(5,2)", 1.005, "1.01"),
    ("numeric(5,2)", -999.99, "-999.99"),
    ("numeric(2,-3)", 12_345, "12000"),
    ("text", "ü😀\n'\"\\", "ü😀\n'\"\\"),
    ("text", "", ""),
    ("varchar(3)", "ü😀x", "ü😀x"),
    ("char(3)", "ab", "ab "),
    ("bit", True, "1"),
    ("bit(1)", False, "0"),
    ("bit", 1, "1"),
    ("boolean", True, "true"),
    ("timestamptz", "2024-02-29T12:00:00.1234567Z", "2024-02-29 12:00:00.123456+00"),
    ("timestamptz", "0001-01-01T00:00:00.0000001Z", "0001-01-01 00:00:00+00"),
    ("timestamp", "2024-02-29T14:00:00+02:00", "2024-02-29 12:00:00"),
    ("timestamp", "9999-12-31T23:59:59.9999999Z", "9999-12-31 23:59:59.999999"),
]
#: As in the service, and what it has no word for.
NOT_KEPT: list[tuple[str, Any]] = [
    *(("smallint", 1), ("integer", 1), ("real", 1.5), ("bigint", "1"), ("bigint", 1.5), ("bigint", True)),
    *(("double precision", 2**53 + 1), ("double precision", "1"), ("numeric(5,2)", 1000)),
    *(("numeric(5,2)", 999.995), ("numeric", math.nan), ("numeric", math.inf), ("numeric(2,-3)", 99_999)),
    *(("text", 1), ("text", 1.5), ("text", True), ("text", {"a": 1}), ("text", [1]), ("text", "a\0b")),
    *(("varchar(3)", "abcd"), ("bit", 2), ("bit(2)", True), ("boolean", "true")),
    *(("timestamptz", "noon"), ("timestamptz", 5), ("jsonb", {"a": 1}), ("jsonb", "{}")),
    ("date", "2024-01-01"),
    *(("uuid", "0E984725-C51C-4BF4-9960-E1C80E27ABA0"), ("bigint[]", [1]), ("bytea", "a")),
]  # fmt: skip


@pytest.mark.long
def test_every_value_that_postgresql_takes_is_there_as_it_was(server: PostgresServer) -> None:
    database = Database(server.uri)
    columns = ", ".join(f"c{number} {type_}" for number, (type_, _, _) in enumerate(KEPT))
    database.run(f"CREATE TABLE kept ({columns})")
    with proxy_to_socket(server.socket) as proxy:
        row = {f"c{number}": value for number, (_, value, _) in enumerate(KEPT)}
        table_output(proxy.port, "kept").publish(batch(0), [rows(row), rows(dict.fromkeys(row))])
    texts = ", ".join(f"c{number}::text" for number in range(len(KEPT)))
    database.run("SET TIME ZONE 'UTC'")
    found, nothing = database.rows(f"SELECT {texts} FROM kept")
    # A char column is padded, and the cast to text takes the spaces off.
    assert [each.rstrip(" ") if each else each for each in found] == [
        text.rstrip(" ") if text else text for _, _, text in KEPT
    ]
    assert set(nothing) == {None}


@pytest.mark.long
def test_an_instant_of_the_query_goes_to_both_kinds_of_columns(server: PostgresServer) -> None:
    database = Database(server.uri)
    database.run("CREATE TABLE instants (a timestamptz, b timestamp, c bigint, d text); SET TIME ZONE 'UTC'")
    with proxy_to_socket(server.socket) as proxy:
        output = table_output(proxy.port, "instants")
        output.publish(batch(0), [rows({"a": NOON, "b": NOON}, a=Type.DATETIME, b=Type.DATETIME)])
        with pytest.raises(RowsRefused):
            output.publish(batch(1), [rows({"c": NOON}, c=Type.DATETIME)])
        with pytest.raises(RowsRefused):
            output.publish(batch(1), [rows({"d": NOON}, d=Type.DATETIME)])
    assert database.rows("SELECT a::text, b::text FROM instants") == [
        ("2024-02-29 12:00:00.123456+00", "2024-02-29 12:00:00.123456")
    ]


@pytest.mark.long
def test_every_value_that_postgresql_does_not_take_is_refused_by_its_row(server: PostgresServer) -> None:
    database = Database(server.uri)
    columns = ", ".join(f"c{number} {type_}" for number, (type_, _) in enumerate(NOT_KEPT))
    database.run(f"CREATE TABLE not_kept ({columns})")
    given_rows = [rows({f"c{number}": value}) for number, (_, value) in enumerate(NOT_KEPT)]
    with proxy_to_socket(server.socket) as proxy, pytest.raises(RowsRefused) as refused:
        table_output(proxy.port, "not_kept").publish(batch(0), given_rows)
    assert [(each.part, each.row) for each in refused.value.rows] == [(n, 0) for n in range(len(NOT_KEPT))]
    assert {each.kind.value for each in refused.value.rows} == {"TypeConversionError"}
    assert database.rows("SELECT * FROM not_kept") == []


def test_what_a_database_is_not_known_to_hold_is_refused() -> None:
    column = SinkColumn("c", "jsonb", Family.OTHER)
    table = table_of([{"v": "x"}])
    _, bad, why = converted(flat(table["v"]), types_of(table)["v"], column, Postgres().rules("1.2"))
    assert (bad.tolist(), why) == ([True], "it takes no nvarchar(max)")
