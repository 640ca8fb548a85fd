"""Rows in a real SQL Server, which the variable TIDEGLASS_MSSQL names: mssql://user:password@host:port/database."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

import pytest

from support.sql_tables import batch, rows
from tideglass.connect.refused_rows import RowsRefused
from tideglass.connect.sql.output import SqlOutput
from tideglass.connect.sql.sql_session import TableAddress
from tideglass.connect.sql.tsql import TransactSql, TransactSqlSession
from tideglass.core.errors import OutputError
from tideglass.core.types import Type

NAMED = os.environ.get("TIDEGLASS_MSSQL", "")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not NAMED, reason="SKIPPED, UNTESTED HERE: TIDEGLASS_MSSQL names no SQL Server"),
]

COLUMNS = (
    "id bigint, name nvarchar(20), at datetime2, price decimal(9,2) DEFAULT 1, flag bit, body nvarchar(max)"
)


def output(table: str, **more: object) -> SqlOutput:
    url = urlsplit(NAMED)
    address = TableAddress(
        url.hostname or "",
        url.port or 0,
        url.path.strip("/"),
        unquote(url.username or ""),
        "dbo",
        table,
        unquote(url.password or ""),
    )
    return SqlOutput(table, address, TransactSql(), **more)  # type: ignore[arg-type]


def run(statement: str) -> list[tuple[object, ...]]:
    made = output("t")
    session = made.dialect.open(made.address)
    assert isinstance(session, TransactSqlSession)
    found = session.run(statement)
    session.commit()
    session.close()
    return found


@pytest.fixture
def table() -> Iterator[str]:
    name = f"tideglass_{uuid.uuid4().hex[:10]}"
    run(f"CREATE TABLE dbo.{name} ({COLUMNS})")
    yield name
    run(f"DROP TABLE dbo.{name}")


ROW = {"id": 1, "name": "ü😀", "at": "2024-02-29T12:00:00.1234567Z", "flag": True, "body": {"a": [1]}}


def test_a_batch_is_there_once(table: str) -> None:
    for _ in range(2):
        made = output(table)
        made.prepare()
        for _ in range(2):
            made.publish(batch(0), [rows(ROW, {"id": 2, "name": ""}, at=Type.DATETIME)])
    found = run(
        f"SELECT id, name, CONVERT(varchar(40), at, 126), price, flag, body FROM dbo.{table} ORDER BY id"
    )
    assert [str(each) for each in found[0]] == [
        *("1", "ü😀", "2024-02-29T12:00:00.1234567", "1.00", "True", '{"a":[1]}')
    ]
    assert found[1][:2] == (2, "")


def test_keys_are_skipped_as_if_rows_came_one_by_one(table: str) -> None:
    run(f"CREATE UNIQUE INDEX a ON dbo.{table} (id); CREATE UNIQUE INDEX b ON dbo.{table} (name)")
    given_rows = [
        {"id": 1, "name": "x"},
        {"id": 2, "name": "X"},
        {"id": 2, "name": "y"},
        {"id": 1, "name": "z"},
    ]
    output(table).publish(batch(0), [rows(*given_rows)])
    assert run(f"SELECT id, name FROM dbo.{table} ORDER BY id") in (
        [(1, "x"), (2, "y")],  # a collation that does not tell x from X
        [(1, "x"), (2, "X")],
    )


def test_rows_replace_those_of_their_key(table: str) -> None:
    run(f"CREATE UNIQUE INDEX a ON dbo.{table} (id); INSERT INTO dbo.{table} (id, name) VALUES (1, 'first')")
    made = output(table, keys=("id",))
    made.publish(batch(0), [rows({"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 2, "name": "c"})])
    assert run(f"SELECT id, name FROM dbo.{table} ORDER BY id") == [(1, "a"), (2, "c")]


def test_a_constraint_refuses_its_row_and_the_older_of_two_drivers_ends(table: str) -> None:
    run(f"ALTER TABLE dbo.{table} ADD CHECK (id < 100)")
    older, newer = output(table), output(table)
    older.prepare()
    newer.prepare()
    with pytest.raises(RowsRefused) as refused:
        newer.publish(batch(0), [rows({"id": 1}, {"id": 500}, {"id": 2})])
    assert [each.row for each in refused.value.rows] == [1]
    newer.publish(batch(0), [rows({"id": 1})])
    with pytest.raises(OutputError, match="another run of this job"):
        older.publish(batch(1), [rows({"id": 2})])
    assert run(f"SELECT id FROM dbo.{table}") == [(1,)]
