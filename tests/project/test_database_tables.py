"""Output files of ASA's tools and of its interface that name tables of databases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tideglass.connect.sql.output import SqlOutput
from tideglass.connect.sql.postgres import Postgres
from tideglass.connect.sql.sql_session import TableAddress
from tideglass.connect.sql.tsql import TransactSql
from tideglass.core.errors import ProjectError
from tideglass.job.options import RunOptions
from tideglass.job.plan import plan_job
from tideglass.project.project import Project, load_project

#: As the tools write it, with names of their own.
OWN: dict[str, Any] = {
    "Database": "toll",
    "Server": "toll-host",
    "User": "writer",
    "Password": None,
    "Table": "t_file_backup",
    "MaxWriterCount": 1,
    "MaxBatchCount": 10000,
    "AuthenticationMode": "ConnectionString",
}
SQL = "SQLDatabaseProperties"
PASSWORD = "${Outputs_o_DataSource_Password}"


def project(folder: Path, content: dict[str, Any], config: dict[str, Any] | None = None) -> Project:
    (folder / "Outputs").mkdir()
    (folder / "job.asaql").write_text("SELECT a INTO o FROM i")
    (folder / "i.json").write_text('{"a": 1}')
    (folder / "Outputs" / "o.json").write_text(json.dumps(content))
    if config is not None:
        (folder / "JobConfig.json").write_text(json.dumps(config))
    return load_project(folder)


def tools(type_: str, block: str, **changes: Any) -> dict[str, Any]:
    file = {"Name": "o", "DataSourceType": type_, block: OWN | changes, "ScriptType": "Output"}
    return file | {"DataSourceCredentialDomain": "f4298651.StreamAnalystics", "EventHubProperties": None}


def interface(type_: str, **own: Any) -> dict[str, Any]:
    return {"name": "o", "properties": {"datasource": {"type": type_, "properties": own}}}


def output_of(loaded: Project) -> SqlOutput:
    made = loaded.outputs["o"].connector
    assert isinstance(made, SqlOutput)
    return made


def test_a_file_of_the_tools_is_read_unchanged(tmp_path: Path) -> None:
    loaded = project(tmp_path, tools("SQL Database", SQL))
    assert not loaded.warnings
    host = "toll-host.database.windows.net"
    address = TableAddress(host, 0, "toll", "writer", "", "t_file_backup", PASSWORD)
    assert output_of(loaded) == SqlOutput("o", address, TransactSql(), 10_000)


@pytest.mark.parametrize(
    ("type_", "block", "dialect", "host"),
    [
        ("SQL Database", SQL, TransactSql(), "toll-host.database.windows.net"),
        (
            "Azure SQL Database",
            "AzureSqlDatabaseProperties",
            TransactSql(),
            "toll-host.database.windows.net",
        ),
        (
            "Azure Synapse Analytics",
            "SynapseProperties",
            TransactSql(True),
            "toll-host.sql.azuresynapse.net",
        ),
        ("Azure PostgreSQL", "PostgreSQLProperties", Postgres(), "toll-host.postgres.database.azure.com"),
    ],
)
def test_each_kind_has_its_dialect(
    type_: str, block: str, dialect: object, host: str, tmp_path: Path
) -> None:
    found = output_of(project(tmp_path, tools(type_, block)))
    assert (found.dialect, found.address.host) == (dialect, host)


@pytest.mark.parametrize(
    ("type_", "dialect"),
    [
        ("Microsoft.Sql/Server/Database", TransactSql()),
        ("Microsoft.Sql/Server/DataWarehouse", TransactSql(synapse=True)),
        ("Microsoft.DBForPostgreSQL/servers/databases", Postgres()),
    ],
)
def test_the_spelling_of_the_interface_is_known(type_: str, dialect: object, tmp_path: Path) -> None:
    own = {"server": "s.example.org", "database": "d", "user": "u", "table": "x.t", "maxBatchCount": 500.0}
    found = output_of(project(tmp_path, interface(type_, **own, maxWriterCount=None)))
    address = TableAddress("s.example.org", 0, "d", "u", "x", "t", PASSWORD)
    assert found == SqlOutput("o", address, dialect, 500)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("server", "host", "port"),
    [
        ("db.example.org", "db.example.org", 0),
        ("tcp:db.example.org,1444", "db.example.org", 1444),
        ("localhost", "localhost", 0),
        ("bare:5433", "bare", 5433),
    ],
)
def test_a_server_may_have_a_port(server: str, host: str, port: int, tmp_path: Path) -> None:
    found = output_of(project(tmp_path, tools("SQL Database", SQL, Server=server)))
    assert (found.address.host, found.address.port) == (host, port)


@pytest.mark.parametrize(
    ("text", "schema", "table"),
    [("t", "", "t"), ("dbo.t", "dbo", "t"), ("[a.b].[c]]d]", "a.b", "c]d"), ('"A"."b ""c"', "A", 'b "c')],
)
def test_a_table_may_have_a_schema_and_quotes(text: str, schema: str, table: str, tmp_path: Path) -> None:
    found = output_of(project(tmp_path, tools("SQL Database", SQL, Table=text)))
    assert (found.address.schema, found.address.table) == (schema, table)


def test_key_columns_are_our_own(tmp_path: Path) -> None:
    assert output_of(project(tmp_path, tools("SQL Database", SQL, KeyColumns=["a", "b"]))).keys == ("a", "b")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"Server": None}, '"Server" is missing'),
        ({"Table": "a.b.c"}, "which is neither table nor schema.table"),
        ({"KeyColumns": [1]}, '"KeyColumns" is'),
        ({"MaxBatchCount": "many"}, '"MaxBatchCount" is'),
        ({"AuthenticationMode": "Magic"}, "it must be one of ConnectionString, Msi, UserToken"),
    ],
)
def test_what_is_wrong_is_said(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ProjectError, match=said):
        project(tmp_path, tools("SQL Database", SQL, **changes))


def test_a_password_in_the_file_is_never_shown(tmp_path: Path) -> None:
    loaded = project(tmp_path, tools("Azure PostgreSQL", "PostgreSQLProperties", Password="hunter2"))
    found = output_of(loaded)
    assert found.address.password == "hunter2"
    shown = (repr(found), found.describe(), str(found.identity(tmp_path)))  # type: ignore[arg-type]
    assert "hunter2" not in "".join(shown)
    assert any("Outputs_o_DataSource_Password" in each for each in loaded.unsupported)


def test_a_live_run_writes_at_the_level_of_the_job(tmp_path: Path) -> None:
    config = {"CompatibilityLevel": "1.1", "ScriptType": "JobConfig", "StreamingUnits": 1}
    loaded = project(tmp_path, tools("SQL Database", SQL), config)
    options = RunOptions(inputs={"i": tmp_path / "i.json"}, live=True)
    made = plan_job(loaded, options).outputs["o"]
    assert isinstance(made, SqlOutput)
    assert made.level == "1.1"
