"""PostgreSQL by ADBC: rows go as Arrow to a temporary table by binary COPY, from there by one statement.

Names are quoted, values are parameters or binary: nothing of a row becomes SQL.
"""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from tideglass.connect.azure.endpoints import endpoint
from tideglass.connect.azure.secrets import masked
from tideglass.connect.environment import resolved
from tideglass.connect.output import Batch
from tideglass.connect.sql.conversion import SinkRules
from tideglass.connect.sql.fitted import ORDINAL, FittedRows
from tideglass.connect.sql.sql_session import BATCHES, Failure, SqlSession, TableAddress, Written
from tideglass.connect.sql.target_table import Family, SinkColumn, TargetTable
from tideglass.core.arrays import pc
from tideglass.core.errors import OutputError, OutputUnavailable
from tideglass.core.time import TICKS_PER_MICROSECOND
from tideglass.core.types import Type

if TYPE_CHECKING:
    from adbc_driver_manager.dbapi import Connection

#: A driver that is taken for dead holds its lock no longer, and nobody waits longer for one.
_SETTINGS = (
    "SET lock_timeout = '30s'",
    "SET idle_in_transaction_session_timeout = '60s'",
    "SET TIME ZONE 'UTC'",
)
_STAGE = "tideglass_rows"

_FAMILIES: Mapping[str, Family] = {
    "int8": Family.INTEGER,
    "float8": Family.FLOAT,
    "numeric": Family.DECIMAL,
    "text": Family.TEXT,
    "varchar": Family.TEXT,
    "bpchar": Family.TEXT,
    "timestamp": Family.DATETIME,
    "timestamptz": Family.DATETIME,
    "bit": Family.BIT,
    "bool": Family.BIT,
}
#: What a connection is refused with, where trying again is of no use. libpq gives no codes for these.
_REFUSALS = (
    *("authentication failed", "no password supplied", "no pg_hba.conf entry", "permission denied"),
    "does not exist",
)

_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), t.typname, a.atttypmod, a.attnotnull,
       pg_get_expr(d.adbin, d.adrelid), a.attidentity <> '' OR a.attgenerated <> ''
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = to_regclass($1)::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_KEYS = """
SELECT i.indexrelid::bigint, a.attname FROM pg_index i
JOIN LATERAL unnest(i.indkey::smallint[]) WITH ORDINALITY AS k(attnum, place) ON k.place <= i.indnkeyatts
LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indrelid = to_regclass($1)::oid AND i.indisunique AND i.indpred IS NULL
ORDER BY i.indisprimary DESC, i.indexrelid, k.place
"""


def quoted(name: str) -> str:
    """A name in SQL.

    >>> quoted('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class Postgres:
    """The dialect of PostgreSQL, Azure's among them."""

    @property
    def name(self) -> str:
        return "PostgreSQL"

    @property
    def enforces_keys(self) -> bool:
        return True

    def rules(self, level: str) -> SinkRules:
        return SinkRules(
            level,
            as_text=frozenset[Type](),
            bits_as_integers=False,
            wraps_integers=False,
            shifts_offsets=True,
            records_as_json=False,
            utf16_lengths=False,
            uuid_of_text=False,
            no_nul=True,
            not_finite=True,
        )

    def open(self, address: TableAddress) -> SqlSession:
        try:
            import adbc_driver_postgresql.dbapi as postgresql
        except ImportError as error:
            raise OutputError(
                "writing to PostgreSQL needs a package that is missing\n  hint: pip install 'tideglass[sql]'"
            ) from error
        password = _password(address)
        try:
            connection = postgresql.connect(_connection_text(address, password))
        except postgresql.Error as error:
            text = masked(str(error).strip(), [password])
            refused = any(each in text for each in _REFUSALS) or (
                "FATAL" in text and "does not exist" in text
            )
            if not refused:
                raise OutputUnavailable(f"PostgreSQL on {address.host} cannot be reached: {text}") from error
            raise OutputError(
                f"PostgreSQL on {address.host} refuses the connection: {text}\n"
                "  hint: look at Server, Database, User and Password of the output's file, and at the "
                "variables of the environment they name"
            ) from error
        session = PostgresSession(connection, address)
        try:
            for statement in _SETTINGS:
                session.run(statement)
            session.commit()
        except Exception:
            session.close()
            raise
        return session

    def failure(self, error: Exception) -> Failure:
        state = getattr(error, "sqlstate", None)
        if not state:  # libpq has none for a connection that is lost
            status = getattr(getattr(error, "status_code", None), "name", "")
            return Failure.UNAVAILABLE if status in ("IO", "TIMEOUT", "CANCELLED") else Failure.OTHER
        if state == "23505":
            return Failure.KEY
        if state[:2] in ("22", "23"):
            return Failure.ROW
        # Connections, resources, operators, systems, transactions; locks, cancelled, idle, a standby.
        passing = state[:2] in ("08", "53", "58", "40") or state in _PASSING
        return Failure.UNAVAILABLE if passing else Failure.OTHER

    def words(self, error: BaseException) -> str:
        fields = dict(getattr(error, "details", None) or ())
        texts = [fields.get(f"PG_DIAG_MESSAGE_{part}") for part in ("PRIMARY", "DETAIL")]
        parts = [each.decode(errors="replace") if isinstance(each, bytes) else each for each in texts if each]
        return ": ".join(parts) or str(error).strip()

    def batches_statement(self, address: TableAddress) -> str:
        return (
            f"CREATE TABLE IF NOT EXISTS {_qualified(address, BATCHES)} (\n"
            "  job text NOT NULL, output text NOT NULL, generation bigint, batch bigint,\n"
            "  writer bigint NOT NULL, row_count bigint NOT NULL, PRIMARY KEY (job, output)\n)"
        )


_PASSING = ("55P03", "57014", "57P01", "57P02", "57P03", "57P05", "25P03", "25006")


class PostgresSession:
    """A connection to PostgreSQL."""

    def __init__(self, connection: Connection, address: TableAddress) -> None:
        self._connection, self._address = connection, address
        self._table = _qualified(address, address.table)
        self._batches = _qualified(address, BATCHES)

    def run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows a statement returns."""
        with self._connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return cast("list[tuple[Any, ...]]", cursor.fetchall()) if cursor.description else []

    def now_microseconds(self) -> int:
        return int(self.run("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")[0][0])

    def target(self) -> TargetTable | None:
        columns = [_column(row) for row in self.run(_COLUMNS, self._table)]
        if not columns:
            return None
        keys: dict[int, list[str | None]] = {}
        for index, name in self.run(_KEYS, self._table):
            keys.setdefault(index, []).append(name)
        # A key of an expression is not one of columns; ON CONFLICT knows it nevertheless.
        named = [tuple(cast("list[str]", each)) for each in keys.values() if None not in each]
        return TargetTable(self._address.shown, columns, named)

    def has_rows(self) -> bool:
        return bool(self.run(f"SELECT 1 FROM {self._table} LIMIT 1"))

    def make_batches(self) -> None:
        if not self.run("SELECT to_regclass($1)::oid::bigint", self._batches)[0][0]:
            self.run(Postgres().batches_statement(self._address))

    def newest(self, job_id: str, output: str) -> tuple[int, int] | None:
        select = f"SELECT generation, batch FROM {self._batches} WHERE job = $1 AND output = $2"
        found = self.run(f"{select} AND batch IS NOT NULL", job_id, output)
        return (int(found[0][0]), int(found[0][1])) if found else None

    def lock(self, batch: Batch, output: str, writer: int) -> Written:
        key = (batch.job_id, output)
        self.run(
            f"INSERT INTO {self._batches} (job, output, writer, row_count) VALUES ($1, $2, $3::bigint, 0) "
            "ON CONFLICT (job, output) DO NOTHING",
            *(*key, writer),
        )
        found = self.run(
            f"UPDATE {self._batches} SET writer = greatest(writer, $3::bigint) "
            "WHERE job = $1 AND output = $2 RETURNING generation, batch, writer",
            *(*key, writer),
        )
        generation, number, newest = found[0]
        return Written(None if generation is None else (generation, number), newest)

    def record(self, batch: Batch, output: str, rows: int) -> None:
        self.run(
            f"UPDATE {self._batches} SET generation = $3::bigint, batch = $4::bigint, "
            "row_count = row_count + $5::bigint WHERE job = $1 AND output = $2",
            *(batch.job_id, output, batch.generation, batch.number, rows),
        )

    def insert(self, rows: FittedRows, target: TargetTable) -> int:
        """A row with a key that is there is skipped (`asa.md` 6.4)."""
        return self._insert(rows, f"pg_temp.{_STAGE}", " ON CONFLICT DO NOTHING")

    def upsert(self, rows: FittedRows, target: TargetTable, keys: Sequence[str]) -> int:
        named = [column.name for column in rows.columns]
        partition = ", ".join(_value(rows, named.index(key), default=False) for key in keys)
        newest = (
            f"(SELECT *, row_number() OVER (PARTITION BY {partition} ORDER BY {ORDINAL} DESC) AS newest "
            f"FROM pg_temp.{_STAGE}) AS s WHERE newest = 1"
        )
        others = [quoted(name) for name in named if name not in keys]
        changes = ", ".join(f"{name} = EXCLUDED.{name}" for name in others)
        update = f"DO UPDATE SET {changes}" if changes else "DO NOTHING"
        return self._insert(rows, newest, f" ON CONFLICT ({', '.join(map(quoted, keys))}) {update}")

    def _insert(self, rows: FittedRows, source: str, conflict: str) -> int:
        with self._connection.cursor() as cursor:
            cursor.adbc_ingest(_STAGE, _staged(rows), mode="create", temporary=True)
        names = ", ".join(quoted(column.name) for column in rows.columns)
        values = ", ".join(_value(rows, place) for place in range(len(rows.columns)))
        with self._connection.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO {self._table} ({names}) SELECT {values} FROM {source} "
                f"ORDER BY {ORDINAL}{conflict}"
            )
            inserted = cursor.rowcount
        self.run(f"DROP TABLE pg_temp.{_STAGE}")
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


def _column(row: tuple[Any, ...]) -> SinkColumn:
    name, declared, type_, modifier, required, default, computed = row
    family = _FAMILIES.get(type_, Family.OTHER)
    precision = scale = characters = None
    if modifier >= 0 and family is Family.DECIMAL:
        precision, scale = (modifier - 4) >> 16, ((modifier - 4) & 0x7FF ^ 0x400) - 0x400
    if modifier >= 0 and family is Family.TEXT:
        characters = modifier - 4
    if type_ == "bit" and modifier != 1:
        family = Family.OTHER
    return SinkColumn(
        name,
        declared,
        family,
        precision=precision,
        scale=scale,
        characters=characters,
        nullable=not required,
        default=None if computed else default,
        computed=computed,
    )


def _staged(rows: FittedRows) -> pa.Table:
    """Rows in the types of the temporary table; of an instant PostgreSQL keeps microseconds."""
    staged = rows.rows
    for place, column in enumerate(rows.columns, 1):
        if column.family is Family.DATETIME:
            ticks = staged.column(place)
            rest = pa.chunked_array([_floor_microseconds(chunk) for chunk in ticks.chunks], pa.int64())
            staged = staged.set_column(
                place, staged.column_names[place], rest.cast(pa.timestamp("us", tz="UTC"))
            )
    return staged


def _floor_microseconds(ticks: pa.Array) -> pa.Array:
    held = np.asarray(pc.fill_null(ticks, 0))
    return pa.array(held // TICKS_PER_MICROSECOND, mask=np.asarray(ticks.is_null()))


def _value(rows: FittedRows, place: int, default: bool = True) -> str:
    """The SQL of a column's value in a row of the temporary table; NULL is the default, if there is one."""
    column, name = rows.columns[place], f"c{place}"
    match column.family:
        case Family.DECIMAL:
            text = f"{name}::numeric"
        case Family.BIT if column.declared.startswith("bit"):
            text = f"CASE WHEN {name} THEN B'1' WHEN NOT {name} THEN B'0' END"
        case Family.DATETIME if "without" in column.declared:
            text = f"{name} AT TIME ZONE 'UTC'"
        case _:
            text = name
    return text if column.default is None or not default else f"coalesce({text}, {column.default})"


def _qualified(address: TableAddress, table: str) -> str:
    return f"{quoted(address.schema)}.{quoted(table)}" if address.schema else quoted(table)


def _password(address: TableAddress) -> str:
    if address.entra:
        from tideglass.connect.azure.entra import entra_token

        return entra_token("https://ossrdbms-aad.database.windows.net/.default").text
    return resolved(address.password, os.environ, f"the output to {address.shown}")


def _connection_text(address: TableAddress, password: str) -> str:
    """A connection string of libpq. What stands in for the host is a URL: `postgresql://127.0.0.1:5433`."""
    words: dict[str, str | int] = {"host": address.host, "port": address.port or 5432}
    found = endpoint(address.host)
    if found is not None:
        url = urllib.parse.urlsplit(found)
        words = {"host": url.hostname or "", "port": url.port or 5432}
    elif address.host.endswith(".postgres.database.azure.com"):
        words["sslmode"] = "require"
    words |= {
        "dbname": resolved(address.database, os.environ),
        "user": resolved(address.user, os.environ),
        "password": password,
        "application_name": "tideglass",
        "connect_timeout": 10,
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "tcp_user_timeout": 60_000,
    }
    return " ".join(f"{word}={_literal(value)}" for word, value in words.items() if value != "")


def _literal(value: str | int) -> str:
    escaped = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
