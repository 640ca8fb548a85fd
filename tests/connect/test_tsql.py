"""What SQL Server would be asked: statements as texts, since no server stands in for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pymssql
import pytest

from support.sql_tables import batch, rows
from tideglass.connect.refused_rows import RowsRefused
from tideglass.connect.sql.output import SqlOutput
from tideglass.connect.sql.sql_session import TableAddress
from tideglass.connect.sql.tsql import TransactSql, TransactSqlSession, connection_words
from tideglass.core.errors import OutputError, OutputUnavailable

HOST = "toll.database.windows.net"


@dataclass
class Recorder:
    """A connection that notes what it is asked.

    columns, keys: of the table, as the catalog has them.
    raises: errors by a piece of the statement that raises one.
    """

    columns: Sequence[tuple[Any, ...]]
    keys: Sequence[tuple[int, str]] = ()
    raises: dict[str, Exception] = field(default_factory=dict)
    written: dict[str, Any] = field(default_factory=dict)
    asked: list[Any] = field(default_factory=list)
    description: Any = None
    _answer: Sequence[tuple[Any, ...]] = ()

    @contextmanager
    def cursor(self) -> Iterator[Recorder]:
        yield self

    def execute(self, statement: str, values: tuple[Any, ...] | None = None) -> None:
        self.asked.append((statement, *values) if values else statement)
        for piece, error in self.raises.items():
            if piece in statement:
                raise error
        self._answer, self.description = self._answers(statement), True
        if "SET generation" in statement:
            self.written["batch"] = (values or ())[:2]

    def _answers(self, statement: str) -> Sequence[tuple[Any, ...]]:
        if "DATEDIFF_BIG" in statement:
            return [(17,)]
        if "FROM sys.columns" in statement:
            return self.columns
        if "FROM sys.indexes" in statement:
            return self.keys
        if statement.startswith("SELECT generation"):
            return [(*self.written.get("batch", (None, None)), self.written.get("writer", 17))]
        return [(2,)]

    def fetchall(self) -> Sequence[tuple[Any, ...]]:
        return self._answer

    def bulk_copy(self, table: str, elements: Sequence[tuple[Any, ...]], batch_size: int) -> None:
        self.asked.append(("bulk copy", table, list(elements), batch_size))

    def commit(self) -> None:
        self.asked.append("commit")

    def rollback(self) -> None:
        self.asked.append("rollback")

    def close(self) -> None:
        self.asked.append("close")


def column(name: str, type_: str, *sizes: int, **more: Any) -> tuple[Any, ...]:
    size, precision, scale = (*sizes, 0, 0, 0)[:3]
    words = {"nullable": True, "default": None, "computed": 0, "collation": None} | more
    return (name, type_, size, precision, scale, *words.values())


COLUMNS = [
    column("id", "int", 4, 10, nullable=False),
    column("name]", "nvarchar", 40, collation="Latin1_General_CI_AS"),
    column("at", "datetime", 8),
    column("price", "decimal", 9, 9, 2, default="((1))"),
]
NOON = "2024-02-29T12:00:00.1234567Z"
ROWS = [{"id": 1, "name]": "", "at": NOON, "price": 2.5}, {"id": 2, "name]": "b", "at": None, "price": None}]


def output(recorder: Recorder, monkeypatch: pytest.MonkeyPatch, **more: Any) -> SqlOutput:
    monkeypatch.setattr(pymssql, "connect", lambda **words: recorder)
    return SqlOutput("hot", TableAddress(HOST, 0, "d", "u", "dbo", "t", "p"), TransactSql(), **more)


def written(recorder: Recorder) -> list[Any]:
    """What was asked from the temporary table on."""
    return recorder.asked[
        next(n for n, each in enumerate(recorder.asked) if "#tideglass_rows" in each[:40]) :
    ]


LOCK = [
    (
        "INSERT INTO [dbo].[tideglass_batches] (job, output, writer, row_count) SELECT %s, %s, %s, 0 "
        "WHERE NOT EXISTS (SELECT 1 FROM [dbo].[tideglass_batches] WHERE job = %s AND output = %s)",
        *("job", "hot", 17, "job", "hot"),
    ),
    (
        "UPDATE [dbo].[tideglass_batches] SET row_count = row_count WHERE job = %s AND output = %s",
        *("job", "hot"),
    ),
    (
        "UPDATE [dbo].[tideglass_batches] SET writer = %s WHERE job = %s AND output = %s AND writer <= %s",
        *(17, "job", "hot", 17),
    ),
    (
        "SELECT generation, batch, writer FROM [dbo].[tideglass_batches] WHERE job = %s AND output = %s",
        *("job", "hot"),
    ),
]
STAGED = [
    "CREATE TABLE #tideglass_rows (n bigint NOT NULL, c0 bigint NULL, c1 nvarchar(max) NULL, "
    "c2 nvarchar(40) NULL, c3 nvarchar(400) NULL)",
    (
        "bulk copy",
        "#tideglass_rows",
        [(0, 1, "=", "2024-02-29T12:00:00.1234567", "2.50"), (1, 2, "=b", None, None)],
        2,
    ),
]
VALUES = (
    "CONVERT(int, s.c0), SUBSTRING(s.c1, 2, 2147483647), "
    "CONVERT(datetime, CONVERT(datetime2(7), s.c2, 126)), COALESCE(CONVERT(decimal(9,2), s.c3), ((1)))"
)
INTO = "INSERT INTO [dbo].[t] ([id], [name]]], [at], [price])"
RECORDED = [
    "DROP TABLE #tideglass_rows",
    (
        "UPDATE [dbo].[tideglass_batches] SET generation = %s, batch = %s, row_count = row_count + %s "
        "WHERE job = %s AND output = %s",
        *(1, 0, 2, "job", "hot"),
    ),
    "commit",
]


def test_rows_go_by_bulk_copy_and_one_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(COLUMNS)
    made = output(recorder, monkeypatch)
    made.publish(batch(0), [rows(*ROWS)])
    assert recorder.asked[-len(LOCK) - 6 : -6] == LOCK
    assert written(recorder) == [
        *STAGED,
        f"SET NOCOUNT ON; {INTO} SELECT {VALUES} FROM #tideglass_rows s ORDER BY n; "
        "SELECT CAST(@@ROWCOUNT AS bigint)",
        *RECORDED,
    ]
    made.publish(batch(0), [rows(*ROWS)])
    assert recorder.asked[-2:] == [LOCK[-1], "commit"]


def test_rows_with_a_key_that_is_there_are_skipped_as_if_they_came_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorder = Recorder(COLUMNS, [(1, "id"), (2, "name]"), (2, "price"), (3, "elsewhere")])
    output(recorder, monkeypatch).publish(batch(0), [rows(*ROWS)])
    name = "SUBSTRING(s.c1, 2, 2147483647) COLLATE Latin1_General_CI_AS"
    price = "COALESCE(CONVERT(decimal(9,2), s.c3), ((1)))"
    there = "EXISTS (SELECT 1 FROM [dbo].[t] t WITH (UPDLOCK, HOLDLOCK) WHERE EXISTS"
    assert written(recorder) == [
        *STAGED,
        "SET NOCOUNT ON; DECLARE @rows bigint = 0; WHILE 1 = 1 BEGIN\n"
        f"DELETE s FROM #tideglass_rows s WHERE {there} (SELECT t.[id] INTERSECT SELECT CONVERT(int, s.c0))) "
        f"OR {there} (SELECT t.[name]]], t.[price] INTERSECT SELECT {name}, {price}));\n"
        "IF NOT EXISTS (SELECT 1 FROM #tideglass_rows) BREAK;\n"
        f"{INTO} SELECT {VALUES} FROM (SELECT s.*, "
        "ROW_NUMBER() OVER (PARTITION BY CONVERT(int, s.c0) ORDER BY n) AS r0, "
        f"ROW_NUMBER() OVER (PARTITION BY {name}, {price} ORDER BY n) AS r1 FROM #tideglass_rows s) s "
        "WHERE r0 = 1 AND r1 = 1 ORDER BY n;\n"
        "SET @rows = @rows + @@ROWCOUNT;\n"
        "END; SELECT @rows",
        *RECORDED,
    ]


def test_rows_replace_those_of_their_key(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(COLUMNS, [(1, "id")])
    output(recorder, monkeypatch, keys=("ID",)).publish(batch(0), [rows(*ROWS)])
    _, name, at, price = VALUES.replace(", CONVERT(datetime,", "|CONVERT(datetime,").replace(
        ", SUBSTRING", "|SUBSTRING"
    ).replace(", COALESCE", "|COALESCE").split("|")  # fmt: skip
    same = "t.[id] = CONVERT(int, s.c0)"
    assert written(recorder) == [
        *STAGED,
        "SET NOCOUNT ON; WITH ranked AS (SELECT ROW_NUMBER() OVER (PARTITION BY CONVERT(int, s.c0) "
        "ORDER BY n DESC) AS r FROM #tideglass_rows s) DELETE FROM ranked WHERE r > 1",
        f"UPDATE t SET [name]]] = {name}, [at] = {at}, [price] = {price} FROM [dbo].[t] t "
        f"WITH (UPDLOCK, HOLDLOCK) JOIN #tideglass_rows s ON {same}",
        f"SET NOCOUNT ON; {INTO} SELECT {VALUES} FROM #tideglass_rows s WHERE NOT EXISTS "
        f"(SELECT 1 FROM [dbo].[t] t WITH (UPDLOCK, HOLDLOCK) WHERE {same}) ORDER BY n; "
        "SELECT CAST(@@ROWCOUNT AS bigint)",
        *RECORDED,
    ]


def test_the_table_of_batches_is_made_where_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(COLUMNS)
    output(recorder, monkeypatch).prepare()
    assert recorder.asked[-3] == (
        "IF OBJECT_ID(N'[dbo].[tideglass_batches]') IS NULL\n"
        "CREATE TABLE [dbo].[tideglass_batches] (\n"
        "  job nvarchar(100) NOT NULL, output nvarchar(200) NOT NULL, generation bigint, batch bigint,\n"
        "  writer bigint NOT NULL, row_count bigint NOT NULL, PRIMARY KEY (job, output)\n)"
    )
    assert "NONCLUSTERED (job, output) NOT ENFORCED" in TransactSql(synapse=True).batches_statement(
        TableAddress(HOST, 0, "d", "u", "it's", "t")
    )


def test_a_newer_writer_ends_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(COLUMNS, written={"writer": 18})
    with pytest.raises(OutputError, match="another run of this job"):
        output(recorder, monkeypatch).publish(batch(0), [rows(*ROWS)])


@pytest.mark.parametrize("number", [1205, 40501, 40613, 49918, 10928, 20003, 20047])
def test_what_passes_is_tried_again_with_smaller_statements(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(COLUMNS, raises={"INSERT INTO [dbo].[t]": pymssql.OperationalError(number, b"busy")})
    made = output(recorder, monkeypatch, most_rows=1000)
    for most in (500, 250, 125, 100, 100):
        with pytest.raises(OutputUnavailable, match="busy"):
            made.publish(batch(0), [rows(*ROWS)])
        assert made._held.most_rows == most
    recorder.raises.clear()
    for most in (200, 400, 800, 1000):
        made.publish(batch(most), [rows(*ROWS)])
        assert made._held.most_rows == most


def test_a_row_the_server_refuses_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    error = pymssql.IntegrityError(547, b"The INSERT statement conflicted with the CHECK constraint")
    recorder = Recorder(COLUMNS, raises={"INSERT INTO [dbo].[t]": error})
    with pytest.raises(RowsRefused, match="conflicted with the CHECK") as refused:
        output(recorder, monkeypatch).publish(batch(0), [rows(*ROWS)])
    assert [(each.part, each.row) for each in refused.value.rows] == [(0, 0), (0, 1)]
    assert "commit" not in recorder.asked[recorder.asked.index("rollback") :]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (pymssql.OperationalError(18456, b"Login failed for user 'u'."), OutputError),
        (pymssql.OperationalError((20009, b"Unable to connect: not available")), OutputUnavailable),
        (pymssql.OperationalError(40613, b"Database is not currently available"), OutputUnavailable),
    ],
)
def test_a_refused_sign_in_ends_the_start_and_a_server_away_does_not(
    error: Exception, kind: type[OutputError], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: Any) -> None:
        raise error

    made = output(Recorder(COLUMNS), monkeypatch)
    monkeypatch.setattr(pymssql, "connect", refuse)
    with pytest.raises(OutputError) as raised:
        made.prepare()
    assert type(raised.value) is kind


def test_entra_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    address = TableAddress(HOST, 0, "d", "u", "dbo", "t", entra=True)
    with pytest.raises(OutputError, match='"AuthenticationMode": "ConnectionString"'):
        SqlOutput("hot", address, TransactSql()).prepare()


def test_a_stand_in_takes_the_place_of_a_host_in_azure(monkeypatch: pytest.MonkeyPatch) -> None:
    address = TableAddress(HOST, 0, "d", "u", "dbo", "t")
    there = connection_words(address)
    assert (there["server"], there["port"], there["encryption"]) == (HOST, "1433", "require")
    monkeypatch.setenv("TIDEGLASS_ENDPOINTS", f'{{"{HOST}": "tds://127.0.0.1:11433"}}')
    here = connection_words(address)
    assert (here["server"], here["port"], here.get("encryption")) == ("127.0.0.1", "11433", None)


def test_a_session_keeps_to_the_protocol() -> None:
    recorder = Recorder(COLUMNS)
    session = TransactSqlSession(recorder, TableAddress(HOST, 0, "d", "u", "", "t"), TransactSql())  # type: ignore[arg-type]
    assert session.now_microseconds() == 17
    found = session.target()
    assert found is not None
    assert [each.declared for each in found.columns] == ["int", "nvarchar(20)", "datetime", "decimal(9,2)"]
