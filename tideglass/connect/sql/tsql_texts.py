"""The statements of T-SQL that write rows from the temporary table to the table of an output."""

from __future__ import annotations

from collections.abc import Sequence

from tideglass.connect.sql.fitted import ORDINAL, FittedRows
from tideglass.connect.sql.sql_session import TableAddress
from tideglass.connect.sql.target_table import Family, SinkColumn, TargetTable

#: The temporary table of a session.
STAGE = "#tideglass_rows"

#: Columns of a table: the catalog has lengths in bytes, -1 for `max`.
COLUMNS = """
SELECT c.name, COALESCE(t.name, N'?'), c.max_length, c.precision, c.scale, c.is_nullable, d.definition,
       CASE WHEN c.is_identity = 1 OR c.is_computed = 1 OR t.name = N'timestamp' THEN 1 ELSE 0 END,
       c.collation_name
FROM sys.columns c LEFT JOIN sys.types t ON t.user_type_id = c.system_type_id
LEFT JOIN sys.default_constraints d ON d.object_id = c.default_object_id
WHERE c.object_id = OBJECT_ID(%s) ORDER BY c.column_id
"""
#: Columns of its unique keys; an index of some rows only is none.
KEYS = """
SELECT i.index_id, c.name FROM sys.indexes i
JOIN sys.index_columns k ON k.object_id = i.object_id AND k.index_id = i.index_id
JOIN sys.columns c ON c.object_id = k.object_id AND c.column_id = k.column_id
WHERE i.object_id = OBJECT_ID(%s) AND i.is_unique = 1 AND i.has_filter = 0 AND i.is_disabled = 0
  AND k.is_included_column = 0
ORDER BY i.is_primary_key DESC, i.index_id, k.key_ordinal
"""

_CARRIERS = {
    Family.INTEGER: "bigint",
    Family.FLOAT: "float",
    Family.DECIMAL: "nvarchar(400)",
    Family.DATETIME: "nvarchar(40)",
    Family.OFFSET_DATETIME: "nvarchar(40)",
    Family.BIT: "bit",
    Family.UUID: "nvarchar(40)",
}


def quoted(name: str) -> str:
    """A name in SQL.

    >>> quoted("a]b")
    '[a]]b]'
    """
    return "[" + name.replace("]", "]]") + "]"


def qualified(address: TableAddress, table: str) -> str:
    """A table of the output's schema in SQL."""
    return f"{quoted(address.schema)}.{quoted(table)}" if address.schema else quoted(table)


def stage_statement(rows: FittedRows) -> str:
    """Makes the temporary table."""
    columns = "".join(
        f", c{place} {_CARRIERS.get(column.family, 'nvarchar(max)')} NULL"
        for place, column in enumerate(rows.columns)
    )
    return f"CREATE TABLE {STAGE} ({ORDINAL} bigint NOT NULL{columns})"


def insert_statement(table: str, rows: FittedRows, target: TargetTable) -> str:
    """Inserts the rows in their order, without those that have a key that is there (`asa.md` 6.4).

    A row may have the key of an earlier one of the batch. So those rows go that have no earlier one with a
    key of theirs, then those that have a key that is there by now are removed, until none is left: as if
    the rows came one by one.
    """
    names = [column.name for column in rows.columns]
    into = f"INSERT INTO {table} ({', '.join(map(quoted, names))})"
    values = ", ".join(_value(column, place) for place, column in enumerate(rows.columns))
    # The keys the rows say something of; a key with another column has its default or NULL there.
    keys = [key for key in target.unique_keys if set(key) <= set(names)]
    if not keys:
        return (
            f"SET NOCOUNT ON; {into} SELECT {values} FROM {STAGE} s ORDER BY {ORDINAL}; "
            "SELECT CAST(@@ROWCOUNT AS bigint)"
        )
    there = " OR ".join(
        f"EXISTS (SELECT 1 FROM {table} t WITH (UPDLOCK, HOLDLOCK) WHERE {_same(rows, names, key)})"
        for key in keys
    )
    ranks = ", ".join(
        f"ROW_NUMBER() OVER (PARTITION BY {_keys(rows, names, key)} ORDER BY {ORDINAL}) AS r{number}"
        for number, key in enumerate(keys)
    )
    first = " AND ".join(f"r{number} = 1" for number in range(len(keys)))
    return (
        "SET NOCOUNT ON; DECLARE @rows bigint = 0; WHILE 1 = 1 BEGIN\n"
        f"DELETE s FROM {STAGE} s WHERE {there};\n"
        f"IF NOT EXISTS (SELECT 1 FROM {STAGE}) BREAK;\n"
        f"{into} SELECT {values} FROM (SELECT s.*, {ranks} FROM {STAGE} s) s WHERE {first} "
        f"ORDER BY {ORDINAL};\n"
        "SET @rows = @rows + @@ROWCOUNT;\n"
        "END; SELECT @rows"
    )


def upsert_statements(table: str, rows: FittedRows, keys: Sequence[str], locking: bool) -> Sequence[str]:
    """Replaces rows of the same keys, and inserts the others; the last one says how many are new."""
    names = [column.name for column in rows.columns]
    hint = " WITH (UPDLOCK, HOLDLOCK)" if locking else ""
    same = " AND ".join(
        f"t.{quoted(key)} = {_key(rows.columns[names.index(key)], names.index(key))}" for key in keys
    )
    changes = ", ".join(
        f"{quoted(column.name)} = {_value(column, place)}"
        for place, column in enumerate(rows.columns)
        if column.name not in keys
    )
    values = ", ".join(_value(column, place) for place, column in enumerate(rows.columns))
    newest = (
        f"SET NOCOUNT ON; WITH ranked AS (SELECT ROW_NUMBER() OVER (PARTITION BY {_keys(rows, names, keys)} "
        f"ORDER BY {ORDINAL} DESC) AS r FROM {STAGE} s) DELETE FROM ranked WHERE r > 1"
    )
    update = f"UPDATE t SET {changes} FROM {table} t{hint} JOIN {STAGE} s ON {same}"
    insert = (
        f"SET NOCOUNT ON; INSERT INTO {table} ({', '.join(map(quoted, names))}) SELECT {values} "
        f"FROM {STAGE} s WHERE NOT EXISTS (SELECT 1 FROM {table} t{hint} WHERE {same}) ORDER BY {ORDINAL}; "
        "SELECT CAST(@@ROWCOUNT AS bigint)"
    )
    return [newest, *([update] if changes else []), insert]


def _same(rows: FittedRows, names: Sequence[str], key: Sequence[str]) -> str:
    """Whether a row of the table `t` has a key of the row `s`; in a unique key one NULL is like another."""
    own = ", ".join(f"t.{quoted(name)}" for name in key)
    return f"EXISTS (SELECT {own} INTERSECT SELECT {_keys(rows, names, key)})"


def _keys(rows: FittedRows, names: Sequence[str], key: Sequence[str]) -> str:
    return ", ".join(_key(rows.columns[names.index(name)], names.index(name)) for name in key)


def _key(column: SinkColumn, place: int) -> str:
    """A value as the key compares it: by the collation of the column."""
    value = _value(column, place)
    return f"{value} COLLATE {column.collation}" if column.collation else value


def _value(column: SinkColumn, place: int) -> str:
    """The SQL of a column's value in the staged row `s`; NULL is its default, if it has one."""
    name = f"s.c{place}"
    match column.family:
        case Family.TEXT:
            # Not converted here: that would cut what is too long. The first character is the mark.
            text = f"SUBSTRING({name}, 2, 2147483647)"
        case Family.DATETIME:
            text = f"CONVERT(datetime2(7), {name}, 126)"
            text = text if column.declared == "datetime2(7)" else f"CONVERT({column.declared}, {text})"
        case Family.OFFSET_DATETIME | Family.UUID | Family.DECIMAL | Family.INTEGER | Family.FLOAT:
            text = f"CONVERT({column.declared}, {name})"
        case _:
            text = name
    return text if column.default is None else f"COALESCE({text}, {column.default})"
