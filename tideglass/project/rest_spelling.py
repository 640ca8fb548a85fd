"""The spelling of the service's interface (`asa.md` 10.3) in the form of the tools' files (`asa.md` 10.1).

    {"name": "entry", "properties": {"type": "Stream",
        "datasource": {"type": "Microsoft.ServiceBus/EventHub", "properties": {...}},
        "serialization": {"type": "Csv", "properties": {"fieldDelimiter": ","}}}}

becomes an object with `Name`, `Type`, `DataSourceType`, `EventHubProperties` and a flat `Serialization`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tideglass.project.keys import FUNCTION, INPUT, OUTPUT, SERIALIZATION, canonical, objects_in

#: Types of sources and sinks, as the tools name them, and the block of the tools' files that describes one.
_SOURCES = {
    "microsoft.servicebus/eventhub": ("Event Hub", "EventHubProperties"),
    "microsoft.eventhub/eventhub": ("Event Hub", "EventHubProperties"),
    "microsoft.devices/iothubs": ("IoT Hub", "IoTHubProperties"),
    "microsoft.storage/blob": ("Blob Storage", "BlobStorageProperties"),
    "microsoft.sql/server/database": ("SQL Database", "SQLDatabaseProperties"),
    "microsoft.sql/server/datawarehouse": ("Synapse", "SynapseProperties"),
    "microsoft.dbforpostgresql/servers/databases": ("PostgreSQL", "PostgreSQLProperties"),
    "microsoft.storage/table": ("Table Storage", "TableStorageProperties"),
    "microsoft.storage/documentdb": ("DocumentDB", "DocumentDbProperties"),
    "microsoft.servicebus/queue": ("Service Bus Queue", "ServiceBusQueueProperties"),
    "microsoft.servicebus/topic": ("Service Bus Topic", "ServiceBusTopicProperties"),
    "microsoft.azurefunction": ("Azure Function", "AzureFunctionProperties"),
    "microsoft.kusto/clusters/databases": ("Azure Data Explorer", "AzureDataExplorerProperties"),
    "microsoft.datalake/accounts": ("Data Lake Store", "AzureDataLakeStoreProperties"),
    "powerbi": ("Power BI", "PowellBIProperties"),
}
_OF_REFERENCE = {
    "BlobStorageProperties": "BlobReferenceProperties",
    "SQLDatabaseProperties": "SqlReferenceInputInfo",
}
#: Types of a function's binding, and what the tools call such a function.
_BINDINGS = {
    "microsoft.streamanalytics/javascriptudf": "JSFunction",
    "microsoft.streamanalytics/clrudf": "CSharpFunction",
    "microsoft.machinelearning/webservice": "MLFunction",
    "microsoft.machinelearningservices": "MLFunction",
}


def tool_input(content: Mapping[str, Any], known: tuple[str, ...] = INPUT) -> dict[str, Any]:
    """An input in the form of the tools' files, whichever it was in."""
    found = _flat(content, known)
    reference = "reference" in str(found.get("Type", "")).lower()
    return _with_source(found, reference)


def tool_output(content: Mapping[str, Any]) -> dict[str, Any]:
    """An output in the form of the tools' files, whichever it was in."""
    return _with_source(_flat(content, OUTPUT), reference=False)


def tool_function(content: Mapping[str, Any]) -> dict[str, Any]:
    """A function in the form of the tools' files, whichever it was in.

    Its `properties` nest twice: `{"type": "Scalar", "properties": {"binding": ...}}`.
    """
    found = _flat(content, FUNCTION)
    inner = canonical(objects_in(found.pop("Properties", None)), ("binding",))
    binding = canonical(objects_in(inner.get("binding")), ("type", "properties"))
    kind = _BINDINGS.get(str(binding.get("type", "")).lower())
    if kind is not None:
        found.setdefault("ScriptType", kind)
        found = canonical(objects_in(binding.get("properties")), FUNCTION) | found
    return found


def _flat(content: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    """Known keys in one spelling, those under `properties` among them; `Serialization` is flat, too."""
    found = canonical(content, known)
    inner = canonical(objects_in(found.pop("Properties", None)), known)
    found.pop("Type", None) if "Type" in inner else None  # that of the resource, not of the input
    found = inner | found
    serialization = canonical(objects_in(found.get("Serialization")), SERIALIZATION)
    if serialization:
        deeper = canonical(objects_in(serialization.pop("Properties", None)), SERIALIZATION)
        found["Serialization"] = deeper | serialization
    return found


def _with_source(found: dict[str, Any], reference: bool) -> dict[str, Any]:
    """The object with `DataSourceType` and its block in place of `datasource`."""
    source = canonical(objects_in(found.pop("Datasource", None)), ("type", "properties"))
    if not source:
        return found
    type_name = str(source.get("type", ""))
    name, block = _SOURCES.get(type_name.lower(), (type_name.rpartition("/")[2] or "live source", ""))
    block = _OF_REFERENCE.get(block, block) if reference else block
    found.setdefault("DataSourceType", name)
    if block:
        found.setdefault(block, source.get("properties"))
    return found
