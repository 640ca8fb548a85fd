"""Tables of databases in the output files of a project (`asa.md` 10.1, 10.3), as ASA's tools write them.

    {
      "Name": "toll", "DataSourceType": "SQL Database",
      "SQLDatabaseProperties": {
        "Server": "tollserver", "Database": "toll", "User": "writer", "Password": null, "Table": "dbo.toll",
        "MaxBatchCount": 10000, "MaxWriterCount": 1, "AuthenticationMode": "ConnectionString"
      },
      "ScriptType": "Output"
    }

`KeyColumns`, a list of columns, is our own: a row replaces the one of the same key. A row is written by the
one writer of the run, whatever `MaxWriterCount` says.
"""

from __future__ import annotations

import re
from typing import Any, cast

from tideglass.connect.sql.output import LEAST_ROWS, MOST_ROWS, SqlOutput
from tideglass.connect.sql.postgres import Postgres
from tideglass.connect.sql.sql_session import Dialect, TableAddress
from tideglass.connect.sql.tsql import TransactSql
from tideglass.project.azure import secret_of_output
from tideglass.project.connectors import Described, Properties
from tideglass.project.file_reader import json_kind
from tideglass.project.keys import canonical, warn_of_misspelt

_KEYS = (
    *("Server", "Database", "User", "Password", "Table", "MaxBatchCount", "MaxWriterCount"),
    *("AuthenticationMode", "KeyColumns", "Port"),
)
_SQL_BLOCKS = ("SQLDatabaseProperties", "AzureSqlDatabaseProperties", "AzureSQLDatabaseProperties")
_SYNAPSE_BLOCKS = (
    *("SynapseProperties", "AzureSynapseProperties", "AzureSynapseAnalyticsProperties"),
    *("SQLDataWarehouseProperties", "AzureSqlDataWarehouseProperties"),
)
_POSTGRES_BLOCKS = (
    *("PostgreSQLProperties", "AzurePostgreSQLProperties", "PostgreSQLDatabaseProperties"),
    "AzureDatabaseForPostgreSQLProperties",
)
_MODES = ("ConnectionString", "Msi", "UserToken")

#: `schema.table`, each part plain, in brackets, or in double quotes.
_PART = r'\[(?:[^\]]|\]\])+\]|"(?:[^"]|"")+"|[^.\[\]"]+'
_TABLE = re.compile(rf"\s*(?:({_PART})\s*\.\s*)?({_PART})\s*")
_SERVER = re.compile(r"(?:tcp:)?([^,:\s]+)(?:[,:](\d+))?")


def sql_server_output(described: Described) -> SqlOutput:
    """The table of SQL Server or Azure SQL an output file describes."""
    return _output(described, _SQL_BLOCKS, TransactSql(), ".database.windows.net")


def synapse_output(described: Described) -> SqlOutput:
    """The table of a dedicated pool of Synapse an output file describes."""
    return _output(described, _SYNAPSE_BLOCKS, TransactSql(synapse=True), ".sql.azuresynapse.net")


def postgres_output(described: Described) -> SqlOutput:
    """The table of PostgreSQL an output file describes."""
    return _output(described, _POSTGRES_BLOCKS, Postgres(), ".postgres.database.azure.com")


def _output(described: Described, blocks: tuple[str, ...], dialect: Dialect, suffix: str) -> SqlOutput:
    own = _properties(described, blocks)
    host, port = _server(own, suffix)
    schema, table = _table(own)
    mode = own.optional_text("AuthenticationMode") or _MODES[0]
    if mode.casefold() not in [each.casefold() for each in _MODES]:
        own.problems.error(
            own.file, f'"AuthenticationMode" is {mode!r}, it must be one of {", ".join(_MODES)}'
        )
    address = TableAddress(
        host,
        own.whole("Port", port),
        own.text("Database"),
        own.optional_text("User") or "",
        schema,
        table,
        secret_of_output(described, own.values.get("Password"), "Password"),
        entra=mode.casefold() != _MODES[0].casefold(),
    )
    most_rows = max(LEAST_ROWS, own.whole("MaxBatchCount", MOST_ROWS, least=1))
    return SqlOutput(described.name, address, dialect, most_rows, _key_columns(own))


def _properties(described: Described, blocks: tuple[str, ...]) -> Properties:
    """The object of the type's keys. Keys the service's tools may add are passed over."""
    known = {each.casefold() for each in blocks}
    found = [value for name, value in described.content.items() if name.casefold() in known and value]
    file, problems = described.file, described.problems
    if not found or not isinstance(found[0], dict):
        kind = json_kind(found[0] if found else None)
        problems.error(file, f'"{blocks[0]}" is {kind} where an object {{...}} is expected')
        return Properties({}, file, problems)
    values = canonical(cast("dict[str, Any]", found[0]), _KEYS)
    warn_of_misspelt(values, _KEYS, file, problems)
    # The interface writes numbers as numbers with a fraction, and leaves out what it does not know.
    plain = {name: _whole(value) for name, value in values.items() if value is not None}
    return Properties(plain, file, problems)


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _server(own: Properties, suffix: str) -> tuple[str, int]:
    """Host and port, 0 for that of the protocol; a bare name is that of a server in Azure."""
    text = own.text("Server")
    match = _SERVER.fullmatch(text.strip())
    if match is None:
        if text:
            own.problems.error(own.file, f'"Server" is {text!r}, which names no server')
        return "", 0
    host, port = match[1], int(match[2] or 0)
    bare = "." not in host and not port and host.casefold() != "localhost" and "$" not in host
    return (host + suffix if bare else host), port


def _table(own: Properties) -> tuple[str, str]:
    text = own.text("Table")
    match = _TABLE.fullmatch(text)
    if match is None:
        if text:
            own.problems.error(own.file, f'"Table" is {text!r}, which is neither table nor schema.table')
        return "", ""
    return _unquoted(match[1] or ""), _unquoted(match[2])


def _unquoted(part: str) -> str:
    part = part.strip()
    if part.startswith("["):
        return part[1:-1].replace("]]", "]")
    return part[1:-1].replace('""', '"') if part.startswith('"') else part


def _key_columns(own: Properties) -> tuple[str, ...]:
    value: object = own.values.get("KeyColumns", [])
    names = cast("list[object]", value) if isinstance(value, list) else [value]
    if not all(isinstance(name, str) and name for name in names):
        own.problems.error(
            own.file, f'"KeyColumns" is {json_kind(value)} where names of columns are expected'
        )
        return ()
    return tuple(cast("list[str]", names))
