"""Containers of Cosmos DB in the output files of projects."""

from __future__ import annotations

import pytest

from tideglass.connect.cosmos.output import CosmosOutput
from tideglass.project.file_reader import Problems
from tideglass.project.outputs import read_output
from tideglass.project.rest_spelling import tool_output

OWN = {
    "AccountId": "account",
    "AccountKey": None,
    "Database": "db",
    "CollectionNamePattern": "hot",
    "PartitionKey": "device",
    "DocumentId": "device",
}
WANTED = CosmosOutput("hot", "account", "db", "hot", "${Outputs_hot_DataSource_AccountKey}", "device")


def test_the_tools_and_the_interface_describe_the_same_container(tmp_path):
    of_tools = {"Name": "hot", "DataSourceType": "Cosmos DB", "DocumentDbProperties": OWN}
    properties = {name[0].lower() + name[1:]: value for name, value in OWN.items()}
    source = {"type": "Microsoft.Storage/DocumentDB", "properties": properties}
    of_interface = {"name": "hot", "properties": {"datasource": source}}
    for content in (of_tools, of_interface):
        problems = Problems(tmp_path)
        found = read_output(tool_output(content), tmp_path / "hot.json", problems)
        assert (found.connector, problems.errors) == (WANTED, [])
        assert WANTED.host == "account.documents.azure.com"


def test_several_containers_of_one_output_are_not_supported(tmp_path):
    problems = Problems(tmp_path)
    content = {"Name": "hot", "DataSourceType": "DocumentDB"}
    content["DocumentDbProperties"] = OWN | {"CollectionNamePattern": "hot{partition}"}
    assert read_output(tool_output(content), tmp_path / "hot.json", problems).connector is None
    assert "not yet supported" in problems.errors[0]


@pytest.mark.parametrize("mode", ["Msi", "msi"])
def test_a_managed_identity_needs_no_key(tmp_path, mode):
    content = {"Name": "hot", "DataSourceType": "Cosmos DB"}
    content["DocumentDbProperties"] = OWN | {"AuthenticationMode": mode}
    found = read_output(tool_output(content), tmp_path / "hot.json", Problems(tmp_path)).connector
    assert isinstance(found, CosmosOutput)
    assert found.key == ""
