"""Tables of Table storage in the output files of projects."""

from __future__ import annotations

from typing import Any

import pytest

from tideglass.connect.tables.output import EntityColumns, TableStorageOutput
from tideglass.project.file_reader import Problems
from tideglass.project.outputs import read_output
from tideglass.project.rest_spelling import tool_output

OWN: dict[str, Any] = {
    "AccountName": "account",
    "AccountKey": None,
    "Table": "hot",
    "PartitionKey": "device",
    "RowKey": "at",
    "BatchSize": 50,
    "ColumnsToRemove": ["at", "x"],
}
KEY = "${Outputs_hot_DataSource_AccountKey}"


def test_the_tools_and_the_interface_describe_the_same_table(tmp_path):
    properties = {name[0].lower() + name[1:]: value for name, value in OWN.items()}
    source = {"type": "Microsoft.Storage/Table", "properties": properties}
    for content in (
        {"Name": "hot", "DataSourceType": "Table Storage", "TableStorageProperties": OWN},
        {"name": "hot", "properties": {"datasource": source}},
    ):
        problems = Problems(tmp_path)
        found = read_output(tool_output(content), tmp_path / "hot.json", problems)
        columns = EntityColumns("device", "at", ("at", "x"))
        wanted = TableStorageOutput("hot", "account", "hot", columns, KEY, 50)
        assert (found.connector, problems.errors) == (wanted, [])
        assert wanted.host == "account.table.core.windows.net"


@pytest.mark.parametrize(("removed", "wanted"), [(None, ()), ("a, b", ("a", "b")), ([], ())])
def test_columns_to_remove_may_be_missing_or_one_text(tmp_path, removed, wanted):
    content = {"Name": "hot", "DataSourceType": "Table Storage"}
    content["TableStorageProperties"] = OWN | {"ColumnsToRemove": removed}
    found = read_output(content, tmp_path / "hot.json", Problems(tmp_path)).connector
    assert isinstance(found, TableStorageOutput)
    assert found.columns.removed == wanted


def test_more_entities_than_a_transaction_takes_are_a_problem(tmp_path):
    problems = Problems(tmp_path)
    content = {"Name": "hot", "DataSourceType": "Table Storage"}
    content["TableStorageProperties"] = OWN | {"BatchSize": 101}
    assert read_output(content, tmp_path / "hot.json", problems).connector is None
    assert "100 at most" in problems.errors[0]
