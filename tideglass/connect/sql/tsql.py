"""SQL Server, Azure SQL and Synapse by pymssql: rows go by bulk copy to a temporary table, from there by SQL.

Names are quoted. Values of rows go by bulk copy only; what a statement holds as a parameter is the job's id,
the output's name, the table's name, and numbers.

No statement here has met a server: texts are held by tests, `tests/connect/test_sql_server.py` runs where
TIDEGLASS_MSSQL names one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from tideglass.connect.azure.endpoints import endpoint
from tideglass.connect.azure.secrets import masked
from tideglass.connect.environment import resolved
from tideglass.connect.output import Batch
from tideglass.connect.sql.conversion import LARGEST_REAL, SinkRules
from tideglass.connect.sql.fitted import FittedRows
from tideglass.connect.sql.sql_session import BATCHES, Failure, SqlSession, TableAddress, Written
from tideglass.connect.sql.target_table import Family, SinkColumn, TargetTable
from tideglass.connect.sql.tsql_texts import (
    COLUMNS,
    KEYS,
    STAGE,
    insert_statement,
    qualified,
    stage_statement,
    upsert_statements,
)
from tideglass.core.errors import OutputError, OutputUnavailable
from tideglass.core.iso import texts_of_ticks
from tideglass.core.time import parse_ticks
from tideglass.core.types import Type

if TYPE_CHECKING:
    import pymssql

_FAMILIES: Mapping[str, Family] = {
    **dict.fromkeys(("bigint", "int", "smallint", "tinyint"), Family.INTEGER),
    **dict.fromkeys(("float", "real"), Family.FLOAT),
    **dict.fromkeys(("decimal", "numeric"), Family.DECIMAL),
    **dict.fromkeys(("nvarchar", "nchar", "varchar", "char", "ntext", "text"), Family.TEXT),
    **dict.fromkeys(("datetime", "datetime2"), Family.DATETIME),
    "datetimeoffset": Family.OFFSET_DATETIME,
    "bit": Family.BIT,
    "uniqueidentifier": Family.UUID,
}
_INTEGERS = {"int": (-(2**31), 2**31 - 1), "smallint": (-(2**15), 2**15 - 1), "tinyint": (0, 255)}
#: The first instant of a `datetime`; its last one is that of every type.
_FIRST_DATETIME = "1753-01-01T00:00:00Z"

#: Numbers of errors that pass: lost connections, locks, throttling, a server that moves or is full.
PASSING = frozenset(
    (
        *(
            20,
            64,
            233,
            701,
            802,
            1105,
            1204,
            1205,
            1222,
            3960,
            4221,
            8645,
            8651,
            9002,
            10053,
            10054,
            10060,
            10928,
        ),
        *(10929, 10936, 40020, 40143, 40166, 40197, 40501, 40540, 40545, 40549, 40550, 40551, 40552, 40553),
        *(40613, 49918, 49919, 49920, 926, 615, 978, 983, 3989, 42108, 42109),
        *(20002, 20003, 20004, 20005, 20006, 20009, 20017, 20020, 20047),  # of the client's library
    )
)
#: Those of rows: not null, constraints, conversions, lengths, overflows.
_OF_ROWS = frozenset((515, 547, 2628, 8152, 8114, 8115, 8169, 8152, 220, 232, 241, 242, 244, 245, 248, 295))
_OF_KEYS = frozenset((2601, 2627))


@dataclass(frozen=True, slots=True)
class TransactSql:
    """The dialect of SQL Server and Azure SQL; with `synapse` that of a dedicated pool of Synapse."""

    synapse: bool = False

    @property
    def name(self) -> str:
        return "Synapse" if self.synapse else "SQL Server"

    @property
    def enforces_keys(self) -> bool:
        return not self.synapse

    def rules(self, level: str) -> SinkRules:
        newest = level == "1.2"
        return SinkRules(
            level,
            as_text=frozenset(
                (Type.BIGINT, Type.FLOAT, Type.DATETIME, Type.BIT, Type.RECORD, Type.ARRAY),
            ),
            bits_as_integers=True,
            wraps_integers=not newest,
            shifts_offsets=not newest,
            records_as_json=newest,
            utf16_lengths=True,
            uuid_of_text=True,
            no_nul=False,
            not_finite=False,
        )

    def open(self, address: TableAddress) -> SqlSession:
        try:
            import pymssql
        except ImportError as error:
            raise OutputError(
                "writing to SQL Server needs a package that is missing\n"
                "  hint: pip install 'tideglass[mssql]'"
            ) from error
        if address.entra:
            raise OutputError(
                f"the output to {address.shown} signs in with Entra ID, which the client for SQL Server "
                'cannot\n  hint: give it a user and a password, "AuthenticationMode": "ConnectionString"'
            )
        if "%" in address.schema:  # the client takes %s in a statement for a parameter
            raise OutputError(f"the output to {address.shown} has a schema with %, which is not supported")
        password = resolved(address.password, os.environ, f"the output to {address.shown}")
        try:
            connection = pymssql.connect(password=password, **connection_words(address))
        except pymssql.Error as error:
            text = masked(_text_of(error), [password])
            if self.failure(error) is Failure.UNAVAILABLE and "18456" not in text:
                raise OutputUnavailable(f"SQL Server on {address.host} cannot be reached: {text}") from error
            raise OutputError(
                f"SQL Server on {address.host} refuses the connection: {text}\n"
                "  hint: look at Server, Database, User and Password of the output's file, at the variables "
                "of the environment they name, and at the server's firewall"
            ) from error
        return TransactSqlSession(connection, address, self)

    def failure(self, error: Exception) -> Failure:
        number = number_of(error)
        if number is None:
            return Failure.OTHER
        if number in _OF_KEYS:
            return Failure.KEY
        if number in _OF_ROWS:
            return Failure.ROW
        return Failure.UNAVAILABLE if number in PASSING else Failure.OTHER

    def words(self, error: BaseException) -> str:
        return _text_of(error)

    def batches_statement(self, address: TableAddress) -> str:
        key = "NONCLUSTERED (job, output) NOT ENFORCED" if self.synapse else "(job, output)"
        table = qualified(address, BATCHES)
        return (
            f"IF OBJECT_ID(N'{table.replace(chr(39), chr(39) * 2)}') IS NULL\n"
            f"CREATE TABLE {table} (\n"
            "  job nvarchar(100) NOT NULL, output nvarchar(200) NOT NULL, generation bigint, batch bigint,\n"
            f"  writer bigint NOT NULL, row_count bigint NOT NULL, PRIMARY KEY {key}\n)"
        )


def number_of(error: BaseException) -> int | None:
    """The number of an error of SQL Server or of the client's library, wherever pymssql has put it."""
    for each in error.args:
        if isinstance(each, int):
            return each
        if isinstance(each, tuple) and each and isinstance(each[0], int):
            return each[0]
    return None


def _text_of(error: BaseException) -> str:
    found = [each for each in error.args if not isinstance(each, int)] or [str(error)]
    parts = found[0] if isinstance(found[0], tuple) else found
    return " ".join(each.decode(errors="replace") if isinstance(each, bytes) else str(each) for each in parts)


def connection_words(address: TableAddress) -> dict[str, Any]:
    """What pymssql connects by. What stands in for the host is a URL: `tds://127.0.0.1:1433`."""
    found = endpoint(address.host)
    url = None if found is None else urlsplit(found)
    words: dict[str, Any] = {
        "server": address.host if url is None else url.hostname or "",
        "port": str((address.port if url is None else url.port) or 1433),
        "user": resolved(address.user, os.environ),
        "database": resolved(address.database, os.environ),
        "login_timeout": 15,
        "timeout": 300,
        "appname": "tideglass",
        "autocommit": False,
    }
    if url is None and address.host.endswith((".database.windows.net", ".sql.azuresynapse.net")):
        words["encryption"] = "require"
    return words


class TransactSqlSession:
    """A connection to SQL Server."""

    def __init__(self, connection: pymssql.Connection, address: TableAddress, dialect: TransactSql) -> None:
        self._connection, self._address, self._dialect = connection, address, dialect
        self._table = qualified(address, address.table)
        self._batches = qualified(address, BATCHES)

    def run(self, statement: str, *values: str | int) -> list[tuple[Any, ...]]:
        """The rows a statement returns."""
        with self._connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return cast("list[tuple[Any, ...]]", cursor.fetchall()) if cursor.description else []

    def now_microseconds(self) -> int:
        return int(self.run("SELECT DATEDIFF_BIG(microsecond, '1970-01-01', SYSUTCDATETIME())")[0][0])

    def target(self) -> TargetTable | None:
        columns = [column_of(row) for row in self.run(COLUMNS, self._table)]
        if not columns:
            return None
        keys: dict[int, list[str]] = {}
        for index, name in [] if self._dialect.synapse else self.run(KEYS, self._table):
            keys.setdefault(index, []).append(name)
        return TargetTable(self._address.shown, columns, [tuple(each) for each in keys.values()])

    def has_rows(self) -> bool:
        return bool(self.run(f"SELECT TOP 1 1 FROM {self._table}"))

    def make_batches(self) -> None:
        self.run(self._dialect.batches_statement(self._address))

    def newest(self, job_id: str, output: str) -> tuple[int, int] | None:
        select = f"SELECT generation, batch FROM {self._batches} WHERE job = %s AND output = %s"
        found = self.run(f"{select} AND batch IS NOT NULL", job_id, output)
        return (int(found[0][0]), int(found[0][1])) if found else None

    def lock(self, batch: Batch, output: str, writer: int) -> Written:
        """The update holds a lock on the row to the transaction's end, without any hint."""
        key = (batch.job_id, output)
        update = f"UPDATE {self._batches} SET writer = %s WHERE job = %s AND output = %s AND writer <= %s"
        touch = f"UPDATE {self._batches} SET row_count = row_count WHERE job = %s AND output = %s"
        select = f"SELECT generation, batch, writer FROM {self._batches} WHERE job = %s AND output = %s"
        self.run(
            f"INSERT INTO {self._batches} (job, output, writer, row_count) SELECT %s, %s, %s, 0 "
            f"WHERE NOT EXISTS (SELECT 1 FROM {self._batches} WHERE job = %s AND output = %s)",
            *(*key, writer, *key),
        )
        self.run(touch, *key)
        self.run(update, writer, *key, writer)
        generation, number, newest = self.run(select, *key)[0]
        return Written(None if generation is None else (generation, number), newest)

    def record(self, batch: Batch, output: str, rows: int) -> None:
        self.run(
            f"UPDATE {self._batches} SET generation = %s, batch = %s, row_count = row_count + %s "
            "WHERE job = %s AND output = %s",
            *(batch.generation, batch.number, rows, batch.job_id, output),
        )

    def insert(self, rows: FittedRows, target: TargetTable) -> int:
        return self._put(rows, [insert_statement(self._table, rows, target)])

    def upsert(self, rows: FittedRows, target: TargetTable, keys: Sequence[str]) -> int:
        return self._put(rows, upsert_statements(self._table, rows, keys, locking=not self._dialect.synapse))

    def _put(self, rows: FittedRows, statements: Sequence[str]) -> int:
        self.run(stage_statement(rows))
        values = list(staged_values(rows))
        self._connection.bulk_copy(STAGE, values, batch_size=max(1, len(values)))
        for statement in statements[:-1]:
            self.run(statement)
        inserted = int(self.run(statements[-1])[0][0])
        self.run(f"DROP TABLE {STAGE}")
        return inserted

    def commit(self) -> None:
        self._connection.commit()

    def rollback(self) -> None:
        self._connection.rollback()

    def close(self) -> None:
        try:
            self._connection.close()
        except Exception:  # a connection that is lost cannot be closed
            return


def column_of(row: tuple[Any, ...]) -> SinkColumn:
    """A column by its row of the catalog: name, type, bytes, precision, scale, and so on."""
    name, type_, size, precision, scale, nullable, default, computed, collation = row
    family = _FAMILIES.get(type_, Family.OTHER)
    characters = None
    declared = str(type_)
    least, most = _INTEGERS.get(type_, (None, None))
    if family is Family.TEXT and size > 0 and type_ not in ("ntext", "text"):
        characters = size // 2 if type_ in ("nvarchar", "nchar") else size
    if family is Family.TEXT and type_ not in ("ntext", "text"):
        declared = f"{type_}({'max' if characters is None else characters})"
    if family is Family.DECIMAL:
        declared = f"{type_}({precision},{scale})"
    if type_ in ("datetime2", "datetimeoffset"):
        declared = f"{type_}({scale})"
    if type_ == "datetime":
        least = parse_ticks(_FIRST_DATETIME)
    return SinkColumn(
        name,
        declared,
        family,
        least=least,
        most=most,
        largest=LARGEST_REAL if type_ == "real" else None,
        precision=precision if family is Family.DECIMAL else None,
        scale=scale if family is Family.DECIMAL else None,
        characters=characters,
        nullable=bool(nullable),
        default=default,
        computed=bool(computed),
        collation=collation if collation and re.fullmatch(r"\w+", collation) else None,
    )


def staged_values(rows: FittedRows) -> Iterator[tuple[Any, ...]]:
    """Rows for the temporary table.

    A text has a character in front, which SQL takes off: the client's library makes NULL of an empty one.
    """
    columns: list[list[Any]] = [rows.rows.column(0).to_pylist()]
    for place, column in enumerate(rows.columns, 1):
        array = rows.rows.column(place)
        if column.family is Family.DATETIME:
            texts = texts_of_ticks(array).to_pylist()
            columns.append([None if text is None else text.removesuffix("Z") for text in texts])
        elif column.family is Family.TEXT:
            columns.append([None if text is None else f"={text}" for text in array.to_pylist()])
        else:
            columns.append(array.to_pylist())
    return zip(*columns, strict=True)
