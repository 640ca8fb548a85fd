"""Keys of project files: one spelling for each, and a warning for one that is not known (`asa.md` 10).

The service's tools write `EventsOutOfOrderPolicy`, its interface (`asa.md` 10.3) `eventsOutOfOrderPolicy`,
and people write either. A key is known whatever its case, and has one spelling here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from tideglass.core.suggest import did_you_mean
from tideglass.project.file_reader import Problems

#: Keys of a `JobConfig.json` that decide about the job's rows.
SETTINGS = (
    "EventsLateArrivalMaxDelayInSeconds",
    "EventsOutOfOrderMaxDelayInSeconds",
    "EventsOutOfOrderPolicy",
    "CompatibilityLevel",
    "OutputErrorPolicy",
    "RowErrorPolicy",
    "JavaScriptTimeoutInSeconds",
    "JavaScriptMemoryInMB",
    "OutputTimestamps",
    "Watermarks",
    "EarlyPanes",
    "DataLocale",
)
#: Its keys about the cloud, as the tools and the interface have spelled it over the years.
_OF_THE_CLOUD = (
    *("ScriptType", "StreamingUnits", "Sku", "UseSystemAssignedIdentity", "UserAssignedIdentities", "Tags"),
    *("GlobalStorage", "GlobalStorageAccountName", "GlobalStorageAccountKey", "ContentStoragePolicy"),
    *("CustomCodeStorage", "AccountName", "AccountKey", "ContainerName", "Path", "UploadFromLocal"),
    *("DataSourceCredentialDomain", "VirtualNetworkConfiguration", "Cluster", "JobStorageAccount", "JobType"),
    *("OutputStartMode", "OutputStartTime", "LastOutputEventTime", "JobId", "JobState", "ProvisioningState"),
    *("CreatedDate", "Etag", "Externals", "Identity", "Name", "Id", "Type", "Location", "ApiVersion"),
    *("Properties", "Inputs", "Outputs", "Functions", "Transformation", "$schema", "Scope", "DependsOn"),
    *("JobPlacement", "Package", "EnableDiagnostics", "MonitorSettings"),
)
JOB_CONFIG = (*SETTINGS, *_OF_THE_CLOUD)

_SERIALIZERS = (
    *("SerializationDllPath", "SerializationClassName", "SerializationDllPathInLocal"),
    "SerializationProjectPath",
)
_OF_A_FILE = ("Name", "DataSourceType", "Serialization", "ScriptType", "DataSourceCredentialDomain", "Sample")
_OF_AN_INPUT = (*_OF_A_FILE, "Type", "PartitionKey", "InputPartionKey", "InputPartitionKey", "Properties")
_OF_A_LIVE_INPUT = (
    *("EventHubProperties", "IoTHubProperties", "BlobStorageProperties", "BlobReferenceProperties"),
    *("SqlReferenceInputInfo", "KafkaProperties", "CompresssionType", "CompressionType", "Compression"),
    *("WatermarkSettings", "Datasource"),
)
INPUT = (*_OF_AN_INPUT, *_OF_A_LIVE_INPUT)
LOCAL_INPUT = (
    *(*_OF_AN_INPUT, *_OF_A_LIVE_INPUT, *_SERIALIZERS),
    *("InputAlias", "Format", "FilePath", "FieldDelimiter", "Encoding"),
    *("ArrivalTimeField", "ArrivalTimeFormat", "Partitions", "Rotation", "DateFormat", "TimeFormat"),
    *("ConnectionString", "RefreshType", "RefreshRate", "FullSnapshotQuery", "FullSnapshotPath"),
    *("SnapshotQuery", "SnapshotPath", "DeltaSnapshotQuery", "DeltaSnapshotPath", "DeltaQuery", "DeltaPath"),
)
OUTPUT = (
    *(*_OF_A_FILE, "Properties", "Datasource", "MinimumRows", "MaximumTime", "SizeWindow", "TimeWindow"),
    *("EventHubProperties", "BlobStorageProperties", "SQLDatabaseProperties", "TableStorageProperties"),
    *("ServiceBusQueueProperties", "ServiceBusTopicProperties", "DocumentDbProperties", "KafkaProperties"),
    *("PowellBIProperties", "PowerBIProperties", "AzureDataLakeStoreProperties", "AzureFunctionProperties"),
    *(
        "PostgreSQLProperties",
        "SynapseProperties",
        "AzureDataExplorerProperties",
        "GatewayMessageBusProperties",
    ),
    "DeltaLakeProperties",
)
SERIALIZATION = (*_SERIALIZERS, "Type", "Encoding", "FieldDelimiter", "Format", "Properties", "SchemaFile")
FUNCTION = (
    *("Name", "Type", "ScriptType", "FunctionInputs", "OutputType", "Script", "Properties"),
    *("FilePath", "ScriptFilePath", "ScriptPath", "Path", "AssemblyName", "ClassName", "MethodName"),
    *("LibraryPathInLocal", "DllPath", "CodeBehind", "ProjectPath", "UpdateMode"),
)
MANIFEST = ("name", "startFile", "configurations")
MANIFEST_ENTRY = ("filePath", "subType")
TEST_CONFIG = ("Script", "TestCases")
TEST_CASE = ("Name", "Inputs", "ExpectedOutputs")
EXPECTED_OUTPUT = ("OutputAlias", "FilePath", "IgnoreFields", "Required")


def canonical(content: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
    """The object with its known keys in the spelling of `known`; one that is spelled so exactly comes first.

    >>> canonical({"eventsOutOfOrderPolicy": "drop", "x": 1}, ["EventsOutOfOrderPolicy"])
    {'EventsOutOfOrderPolicy': 'drop', 'x': 1}
    """
    spelling = {key.casefold(): key for key in known}
    found: dict[str, Any] = {}
    for key, value in content.items():
        name = spelling.get(key.casefold(), key)
        if name == key or name not in content:
            found.setdefault(name, value)
    return found


def objects_in(value: object) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def warn_of_misspelt(
    content: Mapping[str, Any], known: Sequence[str], file: Path, problems: Problems
) -> None:
    """Warn of keys that are close to a known one.

    Others are passed over: the service's tools add keys, and not all of them are known here.
    """
    for key in content:
        hint = "" if key in known else did_you_mean(key, [name for name in known if name not in content])
        if hint:
            problems.warn(file, f'the key "{key}" is not known and not read; {hint}')


# ---------------------------------------------------------------- JobConfig.json


def job_config(content: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a `JobConfig.json`; the interface nests them under `properties`."""
    found = canonical(content, JOB_CONFIG)
    inner = found.pop("Properties", None)
    return canonical(objects_in(inner), JOB_CONFIG) | found


def warn_of_job_config(content: Mapping[str, Any], file: Path, problems: Problems) -> None:
    """Warn of every key of a `JobConfig.json` that is not read and not one of the cloud's.

    A tolerance under a misspelt key, or inside another object, would be unlimited without a word.
    """
    found = job_config(content)
    for key in found:
        if key in JOB_CONFIG or key.startswith(("_", "$")):
            continue
        inner = [name for _, name in _settings_within(found[key])]
        if not inner:
            near = did_you_mean(key, [name for name in SETTINGS if name not in found])
            near = (
                near
                or did_you_mean(key, ("StreamingUnits", "ScriptType"))
                or f"known settings are {', '.join(SETTINGS)}"
            )
            problems.warn(file, f'the key "{key}" is not known and not read; {near}{_consequence(near)}')
    for key, value in found.items():
        if key == "Tags":  # free texts of the user's
            continue
        for path, name in _settings_within(value):
            where = ".".join((key, *path))
            problems.warn(
                file,
                f'"{name}" stands inside "{where}", where it is not read; write it at the top of the file'
                + ("" if name in found else _consequence(name)),
            )


def _settings_within(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Settings inside a nested value, each with the names that lead to the object it stands in."""
    if isinstance(value, list):
        for each in cast("list[object]", value):
            yield from _settings_within(each, path)
    for key, inner in objects_in(value).items():
        name = next((name for name in SETTINGS if name.casefold() == key.casefold()), None)
        if name is not None:
            yield path, name
        else:
            yield from _settings_within(inner, (*path, key))


def _consequence(text: str) -> str:
    """What the job does while the setting named in a text is not read."""
    if "EventsLateArrivalMaxDelayInSeconds'" in text or text == "EventsLateArrivalMaxDelayInSeconds":
        return " (without it the late tolerance is unlimited)"
    return ""
