"""A secret of every kind of output: the connector fails, and what it says, is and shows holds none."""

from __future__ import annotations

import json
import pickle
import traceback
from collections.abc import Iterable, Iterator
from inspect import getclosurevars
from pathlib import Path
from typing import Any

import pytest

from support.http_service import HttpService, Says, an_http_service
from tideglass.connect.azure import entra
from tideglass.connect.output import Batch
from tideglass.core import masking
from tideglass.core.json_rows import table_of
from tideglass.core.masking import masked
from tideglass.project import outputs
from tideglass.project.project import Project, load_project
from tideglass.storage import storage_path

CANARY = "canary/0f9c1d7e+5a=="
#: Base64 of 64 bytes, as keys of Azure are; the canary is in it.
KEY = "Y2FuYXJ5MGY5YzFkN2U1YWNhbmFyeTBmOWMxZDdlNWFjYW5hcnkwZjljMWQ3ZTVhY2FuYXJ5MGY5YzFkN2U1YWE="

ACCOUNT = {"AccountName": "canaries", "AccountKey": KEY}
POLICY = {"SharedAccessPolicyName": "send", "SharedAccessPolicyKey": CANARY}
LOGIN = {"User": "someone", "Password": CANARY}
#: Type of the output -> its block and what stands there.
OUTPUTS: dict[str, tuple[str, dict[str, Any]]] = {
    "Service Bus Queue": (
        "ServiceBusQueueProperties",
        {"ServiceBusNamespace": "canaries", "QueueName": "q", **POLICY},
    ),
    "Service Bus Topic": (
        "ServiceBusTopicProperties",
        {"ServiceBusNamespace": "canaries", "TopicName": "t", **POLICY},
    ),
    "Azure Function": (
        "AzureFunctionProperties",
        {"FunctionAppName": "canaries", "FunctionName": "f", "ApiKey": CANARY},
    ),
    "Azure Data Explorer": (
        "AzureDataExplorerProperties",
        {"Cluster": "https://canaries.kusto.windows.net", "Database": "d", "Table": "t"},
    ),
    "Event Hub": (
        "EventHubProperties",
        {"ServiceBusNamespace": "canaries", "EventHubName": "h", **POLICY},
    ),
    "Blob Storage": (
        "BlobStorageProperties",
        {"StorageAccounts": [ACCOUNT], "Container": "canaries", "PathPattern": "p"},
    ),
    "SQL Database": (
        "SQLDatabaseProperties",
        {"Server": "canaries.database.windows.net", "Database": "d", "Table": "t", **LOGIN},
    ),
    "Synapse": (
        "SynapseProperties",
        {"Server": "canaries.sql.azuresynapse.net", "Database": "d", "Table": "t", **LOGIN},
    ),
    "PostgreSQL": (
        "PostgreSQLProperties",
        {"Server": "canaries.postgres.database.azure.com", "Database": "d", "Table": "t", **LOGIN},
    ),
    "DocumentDB": (
        "DocumentDbProperties",
        {"AccountId": "canaries", "AccountKey": KEY, "Database": "d", "CollectionNamePattern": "c"}
        | {"ContainerName": "c", "DocumentId": "n"},
    ),
    "Table Storage": (
        "TableStorageProperties",
        {**ACCOUNT, "Table": "t", "PartitionKey": "n", "RowKey": "n", "BatchSize": 10},
    ),
    "Kafka": (
        "KafkaProperties",
        {
            "BootstrapServers": "127.0.0.1:1",
            "Topic": "t",
            "Options": {"kafka.sasl.jaas.config": "${A_TOKEN}"},
        },
    ),
}
HOSTS = (
    *("canaries.servicebus.windows.net", "canaries.azurewebsites.net", "canaries.kusto.windows.net"),
    *("canaries.documents.azure.com", "canaries.table.core.windows.net", "canaries.blob.core.windows.net"),
    *("canaries.dfs.core.windows.net", "login.microsoftonline.com"),
)


@pytest.fixture(scope="module")
def service() -> Iterator[HttpService]:
    with an_http_service() as running:
        yield running


@pytest.fixture(autouse=True)
def surroundings(service: HttpService, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every host is one service, and the environment has secrets, too."""

    monkeypatch.setattr(masking, "_spellings", set())
    monkeypatch.setattr(masking, "_pattern", [])
    monkeypatch.setattr(entra, "_kept", {})
    monkeypatch.setenv("TIDEGLASS_ENDPOINTS", json.dumps(dict.fromkeys(HOSTS, service.url)))
    monkeypatch.setenv("A_TOKEN", CANARY)
    monkeypatch.setenv("AZURE_TENANT_ID", "tenant")
    monkeypatch.setenv("AZURE_CLIENT_ID", "client")
    monkeypatch.setenv("AZURE_CLIENT_SECRET", CANARY)


def project(folder: Path, type_: str, block: str, values: dict[str, Any]) -> Project:
    output = {"Name": "hot", "DataSourceType": type_, "ScriptType": "Output", block: values}
    files = {
        "job.asaql": "SELECT n INTO hot FROM clicks",
        "Outputs/hot.json": json.dumps(output | {"Serialization": {"Type": "Json"}}),
        "Inputs/clicks.json": json.dumps(
            {"InputAlias": "clicks", "Type": "Data Stream", "Format": "Json", "FilePath": "c.txt"}
        ),
        "Inputs/c.txt": '{"n":1}',
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return load_project(folder)


def referring(values: dict[str, Any]) -> dict[str, Any]:
    """The same with a reference in place of each secret."""
    return {
        name: "${A_TOKEN}"
        if each in (CANARY, KEY)
        else [referring(e) for e in each]
        if name.endswith("ts")
        else each
        for name, each in values.items()
    }


def test_every_kind_of_output_has_a_row_here() -> None:
    """But for Power BI, which is refused, and Delta Lake, whose store is that of Blob Storage."""

    def readers(types: Iterable[str]) -> set[str]:
        makers = (outputs.OUTPUTS.own[each] for each in types if each in outputs.OUTPUTS.own)
        return {getclosurevars(make).nonlocals["name"] for make in makers}

    here = readers(each.casefold() for each in OUTPUTS)
    assert readers(outputs.OUTPUTS.own) - here <= {"service_outputs.power_bi", "delta.delta_table"}


@pytest.mark.parametrize("type_", [each for each in OUTPUTS if outputs.OUTPUTS.makes(each)])
@pytest.mark.parametrize("where", ["in the project", "in the environment"])
def test_an_output_that_fails_holds_and_says_no_secret(
    tmp_path: Path, service: HttpService, monkeypatch: pytest.MonkeyPatch, type_: str, where: str
) -> None:
    block, values = OUTPUTS[type_]
    sent = [each for each in (CANARY, KEY) if each in json.dumps(values)]
    service.says = lambda request: Says(
        401, json.dumps([request.headers, request.body.decode(), *sent]).encode()
    )
    if where == "in the environment":
        monkeypatch.setenv("A_TOKEN", KEY if KEY in json.dumps(values) else CANARY)
        values = referring(values)
    loaded = project(tmp_path, type_, block, values)
    found = loaded.outputs["hot"].connector
    assert found is not None
    said = [repr(loaded), *loaded.unsupported, *loaded.warnings, repr(found), found.describe()]
    said.append(json.dumps(found.identity(storage_path(tmp_path)), default=str))
    for call in (
        found.prepare,
        lambda: found.publish(Batch(1, 0, "job"), [found.stage(table_of([{"n": 1}]), "a")]),
    ):
        try:
            call()
        except Exception as error:
            said.append(str(error))
            said.append(masked("".join(traceback.format_exception(error))))  # as `mask_tracebacks` prints it
    for text in said:
        assert CANARY not in text
        assert KEY not in text
    if where == "in the environment":
        assert CANARY.encode() not in pickle.dumps(found), "what goes to tasks"
        assert KEY.encode() not in pickle.dumps(found), "what goes to tasks"
