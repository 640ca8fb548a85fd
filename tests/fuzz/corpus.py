"""What the fuzzer begins with: the queries, projects and events that the repository has anyway."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from support.cases import FOLDER as CASES
from support.cases import Case
from support.cases import load as load_case
from support.cookbook import FOLDER as RECIPES

ROOT = Path(__file__).resolve().parents[2]
PROJECTS = ("tideglass/cli/template", "examples/tollbooth", "examples/flights")
#: Data of a project beyond this is not what is damaged.
_MOST_BYTES = 20_000


@cache
def cases() -> tuple[Case, ...]:
    """Every case and recipe that has rows of inputs, in a stable order."""
    paths = [*sorted(CASES.rglob("*.case")), *sorted(RECIPES.rglob("*.case"))]
    return tuple(load_case(path) for path in paths)


@cache
def queries() -> tuple[str, ...]:
    """Every text of a query in the repository."""
    texts = [case.query for case in cases()]
    texts += [path.read_text(encoding="utf-8-sig") for path in sorted(ROOT.glob("examples/**/*.asaql"))]
    texts += [path.read_text(encoding="utf-8-sig") for path in sorted(ROOT.glob("tideglass/**/*.asaql"))]
    return tuple(dict.fromkeys(texts))


@cache
def projects() -> tuple[dict[str, bytes], ...]:
    """The project folders of the repository, cut to what is small, and one as Windows tools write it."""
    found: list[dict[str, bytes]] = []
    for name in PROJECTS:
        folder = ROOT / name
        files = {
            path.relative_to(folder).as_posix(): path.read_bytes()[:_MOST_BYTES]
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.suffix in (".json", ".asaql", ".js", ".asaproj", ".csv")
        }
        found.append(files)
    return (*found, _windows_project())


def _windows_project() -> dict[str, bytes]:
    """One of everything the tools write."""
    serialization = {"Type": "Csv", "Encoding": "UTF8", "FieldDelimiter": "semicolon"}
    event_hub = {
        "Name": "exit",
        "Type": "Data Stream",
        "DataSourceType": "Event Hub",
        "EventHubProperties": {"EventHubName": "h", "ServiceBusNamespace": "n"},
        "Serialization": serialization,
        "ScriptType": "Input",
    }
    kafka = {
        "Name": "entry",
        "Type": "Data Stream",
        "DataSourceType": "Kafka",
        "KafkaProperties": {"BootstrapServers": "${SERVERS}", "Topic": "entries"},
        "Serialization": {"Type": "Json"},
        "ScriptType": "Input",
    }
    mock = {
        "InputAlias": "entry",
        "Type": "Data Stream",
        "Format": "Json",
        "FilePath": "..\\Data\\entry.json",
        "ScriptType": "InputMock",
    }
    reference = {
        **mock,
        "InputAlias": "plates",
        "Type": "Reference Data",
        "FilePath": "plates.csv",
        "Format": "Csv",
    }
    output = {
        "Name": "alerts",
        "DataSourceType": "Blob Storage",
        "Serialization": {"Type": "Json"},
        "ScriptType": "Output",
    }
    files: dict[str, Any] = {
        "asaproj.json": {
            "name": "Tolls",
            "startFile": "toll.asaql",
            "configurations": [
                {"filePath": "JobConfig.json", "subType": "JobConfig"},
                {"filePath": "Inputs\\exit.json", "subType": "Input"},
                {"filePath": "Inputs\\entry.json", "subType": "Input"},
                {"filePath": "Inputs\\Local_entry.json", "subType": "InputMock"},
                {"filePath": "Inputs\\Local_plates.json", "subType": "InputMock"},
                {"filePath": "Outputs\\alerts.json", "subType": "Output"},
                {"filePath": "Functions\\twice.js.json", "subType": "JSFunction"},
            ],
        },
        "toll.asaql": "SELECT e.plate, UDF.twice(e.toll) AS t INTO alerts "
        "FROM entry e JOIN plates p ON e.plate = p.plate",
        "JobConfig.json": {
            "EventsLateArrivalMaxDelayInSeconds": 5,
            "EventsOutOfOrderMaxDelayInSeconds": 0,
            "EventsOutOfOrderPolicy": "Drop",
            "OutputErrorPolicy": "Retry",
            "CompatibilityLevel": "1.2",
            "StreamingUnits": 3,
            "ScriptType": "JobConfig",
        },
        "Inputs/exit.json": event_hub,
        "Inputs/entry.json": kafka,
        "Inputs/Local_entry.json": mock,
        "Inputs/Local_plates.json": reference,
        "Inputs/plates.csv": "plate,owner\nA,x\nB,y\n",
        "Data/Entry.json": '{"plate":"A","toll":1.5}\n{"plate":"B","toll":2}\n',
        "Outputs/alerts.json": output,
        "Functions/twice.js.json": {"Name": "twice", "Type": "Scalar", "ScriptType": "JSFunction"},
        "Functions/twice.js": "function main(x) { return 2 * x; }",
        "test/testConfig.json": {
            "Script": "..\\toll.asaql",
            "TestCases": [
                {
                    "Name": "one",
                    "Inputs": [{**mock, "FilePath": "..\\Data\\entry.json"}],
                    "ExpectedOutputs": [
                        {"OutputAlias": "alerts", "FilePath": "expected.json", "Required": True}
                    ],
                }
            ],
        },
        "test/expected.json": '[{"plate":"A","t":3}]',
    }
    for name, described in _services().items():
        files[f"Outputs/{name}.json"] = {"Name": name, "ScriptType": "Output", **described}
        files["asaproj.json"]["configurations"].append(
            {"filePath": f"Outputs\\{name}.json", "subType": "Output"}
        )
    return {
        name: (content if isinstance(content, str) else json.dumps(content, indent=1)).encode()
        for name, content in files.items()
    }


def _services() -> dict[str, dict[str, Any]]:
    """Outputs that are services, in the spellings of the tools and of the interface."""
    policy = {"SharedAccessPolicyName": "send", "SharedAccessPolicyKey": "${KEY}"}
    return {
        "queue": {
            "DataSourceType": "Service Bus Queue",
            "ServiceBusQueueProperties": {
                "ServiceBusNamespace": "toll",
                "QueueName": "q",
                **policy,
                "PropertyColumns": ["plate"],
                "SystemPropertyColumns": {"SessionId": "plate"},
                "MaxMessageBytes": 1_000_000,
            },
            "Serialization": {"Type": "Csv", "FieldDelimiter": "comma"},
        },
        "calls": {
            "DataSourceType": "Azure Function",
            "AzureFunctionProperties": {
                "FunctionAppName": "toll",
                "FunctionName": "f",
                "ApiKey": "k",
                "RowIdColumn": "id",
                "MaxBatchCount": 10,
                "MaxBatchSize": 1000,
            },
        },
        "table": {
            "DataSourceType": "Azure Data Explorer",
            "AzureDataExplorerProperties": {
                "Cluster": "https://toll.kusto.windows.net",
                "Database": "d",
                "Table": "t",
                "AuthenticationMode": "Msi",
            },
        },
        "topic": {
            "properties": {
                "datasource": {
                    "type": "Microsoft.ServiceBus/Topic",
                    "properties": {
                        "serviceBusNamespace": "toll",
                        "topicName": "t",
                        "authenticationMode": "Msi",
                    },
                },
            }
        },
        "rows": {
            "DataSourceType": "SQL Database",
            "SQLDatabaseProperties": {
                "Server": "toll",
                "Database": "d",
                "Table": "t",
                "User": "u",
                "Password": "${KEY}",
                "MaxBatchCount": 1000,
                "MaxWriterCount": 1,
                "AuthenticationMode": "ConnectionString",
            },
        },
        "documents": {
            "DataSourceType": "DocumentDB",
            "DocumentDbProperties": {
                "AccountId": "toll",
                "AccountKey": "${KEY}",
                "Database": "d",
                "ContainerName": "c",
                "DocumentId": "id",
                "PartitionKey": "plate",
            },
        },
        "blobs": {
            "DataSourceType": "Blob Storage",
            "BlobStorageProperties": {
                "StorageAccounts": [{"AccountName": "toll", "AccountKey": "${KEY}"}],
                "Container": "rows",
                "PathPattern": "{date}/{time}",
                "DateFormat": "yyyy/MM/dd",
                "TimeFormat": "HH",
                "BlobWriteMode": "Once",
            },
            "Serialization": {"Type": "Delta", "DeltaTablePath": "f/t", "PartitionColumns": ["plate"]},
        },
    }


def event(rng: Random, n: int) -> dict[str, Any]:
    """An event as recorded files have it: mostly plain, now and then odd in a value."""
    row: dict[str, Any] = {
        "t": f"2026-01-01T00:{n // 60 % 60:02}:{n % 60:02}.{rng.randrange(10**7):07}Z",
        "a": rng.choice([n, n, n + 0.5, str(n), None, True, -n, 2**53 + n, 1e-7, 'é\n"\\', [n], {"b": n}]),
        "k": rng.choice(["x", "y", "z"]),
    }
    if rng.random() < 0.3:
        row["r"] = {"b": {"c": n}, "a": [1, "2", None]}
    if rng.random() < 0.05:
        row[rng.choice(["A", "a b", "$payload", "", "é", "a.b"])] = rng.choice(["", 0, [], "\u2028"])
    return row


def events(rng: Random, most: int = 40) -> list[dict[str, Any]]:
    return [event(rng, n) for n in range(rng.randrange(most))]
