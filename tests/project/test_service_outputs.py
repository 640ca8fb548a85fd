"""Outputs that are services behind HTTP in project files: as the tools and the interface spell them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tideglass.connect.http.azure_functions import AzureFunctionOutput
from tideglass.connect.http.data_explorer import DataExplorerOutput
from tideglass.connect.http.sending import RequestLimits
from tideglass.connect.http.service_bus import ServiceBusOutput
from tideglass.connect.output import OutputConnector
from tideglass.connect.refused_output import RefusedOutput
from tideglass.core.errors import OutputError, ProjectError
from tideglass.project.project import Project, load_project

QUERY = "SELECT a INTO hot FROM clicks"
QUEUE: dict[str, Any] = {
    "Name": "hot",
    "DataSourceType": "Service Bus Queue",
    "EventHubProperties": None,
    "ServiceBusQueueProperties": {
        "ServiceBusNamespace": "toll",
        "QueueName": "hot-queue",
        "SharedAccessPolicyName": "send",
        "SharedAccessPolicyKey": None,
        "PropertyColumns": ["a"],
        "SystemPropertyColumns": {"MessageId": "a"},
        "AuthenticationMode": "ConnectionString",
    },
    "ServiceBusTopicProperties": None,
    "Serialization": {"Type": "Csv", "Encoding": "UTF8", "FieldDelimiter": ";", "Format": None},
    "ScriptType": "Output",
}


def loaded(folder: Path, output: dict[str, Any]) -> Project:
    (folder / "job.asaql").write_text(QUERY)
    (folder / "Outputs").mkdir()
    (folder / "Outputs" / "hot.json").write_text(json.dumps(output))
    (folder / "Inputs").mkdir()
    (folder / "Inputs" / "clicks.json").write_text(
        json.dumps({"InputAlias": "clicks", "Type": "Data Stream", "Format": "Json", "FilePath": "c.json"})
    )
    (folder / "Inputs" / "c.json").write_text('{"a":1}')
    return load_project(folder)


def connector(folder: Path, output: dict[str, Any]) -> OutputConnector | None:
    return loaded(folder, output).outputs["hot"].connector


def of_interface(kind: str, **properties: Any) -> dict[str, Any]:
    """An output as the service's interface has it."""
    return {"name": "hot", "properties": {"datasource": {"type": kind, "properties": properties}}}


def test_a_queue_as_the_tools_write_it(tmp_path: Path) -> None:
    assert connector(tmp_path, QUEUE) == ServiceBusOutput(
        "hot",
        "queue",
        "toll",
        "hot-queue",
        "send",
        "${Outputs_hot_DataSource_SharedAccessPolicyKey}",
        "csv",
        ";",
        ("a",),
        {"MessageId": "a"},
    )


def test_a_topic_as_the_interface_writes_it(tmp_path: Path) -> None:
    output = of_interface(
        "Microsoft.ServiceBus/Topic",
        serviceBusNamespace="toll",
        topicName="hot-topic",
        authenticationMode="Msi",
        propertyColumns=["a", "b"],
        systemPropertyColumns={"sessionId": "a"},
    )
    assert connector(tmp_path, output) == ServiceBusOutput(
        "hot", "topic", "toll", "hot-topic", properties=("a", "b"), system_properties={"SessionId": "a"}
    )


def test_a_function_has_the_services_sizes_unless_named(tmp_path: Path) -> None:
    output = of_interface(
        "Microsoft.AzureFunction", functionAppName="toll", functionName="hot", apiKey="${KEY}"
    )
    assert connector(tmp_path, output) == AzureFunctionOutput(
        "hot", "toll", "hot", "${KEY}", RequestLimits(100, 262_144)
    )


def test_a_function_with_sizes_and_a_column_for_ids(tmp_path: Path) -> None:
    output = {
        "Name": "hot",
        "DataSourceType": "Azure Function",
        "ScriptType": "Output",
        "AzureFunctionProperties": {
            "FunctionAppName": "toll",
            "FunctionName": "hot",
            "ApiKey": "${KEY}",
            "MaxBatchCount": 7,
            "MaxBatchSize": 1000,
            "RowIdColumn": "id",
        },
    }
    found = connector(tmp_path, output)
    assert isinstance(found, AzureFunctionOutput)
    assert (found.limits, found.row_id_column) == (RequestLimits(7, 1000), "id")


def test_a_table_of_data_explorer(tmp_path: Path) -> None:
    output = of_interface(
        "Microsoft.Kusto/clusters/databases",
        cluster="https://toll.westeurope.kusto.windows.net/",
        database="db",
        table="hot",
        authenticationMode="Msi",
    )
    host = "toll.westeurope.kusto.windows.net"
    assert connector(tmp_path, output) == DataExplorerOutput("hot", host, "db", "hot")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"QueueName": None}, "QueueName"),
        ({"SystemPropertyColumns": {"Colour": "a"}}, "properties are MessageId"),
        ({"SystemPropertyColumns": "{"}, "must be an object"),
        ({"PropertyColumns": [1]}, "list of names"),
        ({"MaxMessageBytes": 2 << 20}, "at most"),
        ({"MaxMessageBytes": "many"}, "whole number"),
    ],
    ids=str,
)
def test_what_is_wrong_with_a_queue_is_said_with_its_file(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    block = QUEUE["ServiceBusQueueProperties"] | change
    with pytest.raises(ProjectError, match=message) as raised:
        loaded(tmp_path, QUEUE | {"ServiceBusQueueProperties": block})
    assert "hot.json" in str(raised.value)


def test_a_block_that_is_not_there_and_a_format_that_is_not_sent(tmp_path: Path) -> None:
    with pytest.raises(ProjectError, match='"ServiceBusQueueProperties" is null') as raised:
        loaded(tmp_path, QUEUE | {"ServiceBusQueueProperties": None, "Serialization": {"Type": "Avro"}})
    assert "use JSON or CSV" in str(raised.value)


def test_keys_that_the_tools_add_are_passed_over_and_misspelt_ones_named(tmp_path: Path) -> None:
    block = QUEUE["ServiceBusQueueProperties"] | {"MaxMesageBytes": 1, "NewOfTheirs": 1}
    project = loaded(tmp_path, QUEUE | {"ServiceBusQueueProperties": block})
    assert any("MaxMesageBytes" in warning for warning in project.warnings)
    assert not any("NewOfTheirs" in warning for warning in project.warnings)


def test_a_key_in_the_file_is_noted_and_shown_nowhere(tmp_path: Path) -> None:
    block = QUEUE["ServiceBusQueueProperties"] | {"SharedAccessPolicyKey": "canary-key"}
    project = loaded(tmp_path, QUEUE | {"ServiceBusQueueProperties": block})
    assert any("holds a secret itself" in note for note in project.unsupported)
    assert "canary-key" not in repr(project)


def test_power_bi_is_refused_with_the_reason_where_rows_would_go_there(tmp_path: Path) -> None:
    project = loaded(tmp_path, {"Name": "hot", "DataSourceType": "Power BI", "ScriptType": "Output"})
    assert any("Microsoft retires" in note for note in project.unsupported)
    output = project.outputs["hot"].connector
    assert isinstance(output, RefusedOutput)
    with pytest.raises(OutputError, match="--output hot=PATH"):
        output.check([])
