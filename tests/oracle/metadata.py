"""GetMetadataPropertyValue, from the text of `asa.md` 4.9 and the pages of the project on recorded events."""

from __future__ import annotations

import re
import uuid

from .values import Instant, OracleError, Value, instant_of_text, lookup

Record = dict[str, Value]

#: What a row keeps its EventId under; no column has this name.
EVENT_ID = "$EventId"

EVENT_HUB = [
    *("EventEnqueuedUtcTime", "EventProcessedUtcTime", "PartitionId", "Offset", "SequenceNumber"),
    *("PartitionKey", "Publisher", "IoTConnectionDeviceId", "IoTAuthMethod", "IoTAuthGenerationId"),
    *("IoTEnqueueTime", "IoTMessageSource", "IoTConnectionModuleId", "IoTInterfaceName"),
]
IOT_HUB = [
    *("ConnectionDeviceId", "AuthMethod", "AuthGenerationId", "EnqueuedTime", "MessageSource"),
    *("ConnectionModuleId", "InterfaceName", "CorrelationId", "MessageId", "ConnectionDeviceGenerationId"),
]
COLUMNS = ["EventEnqueuedUtcTime", "EventProcessedUtcTime", "PartitionId", "BlobLastModifiedUtcTime"]


def event_id(input_name: str, partition: int, number: int) -> str:
    """The GUID of an event in the test kit, whose place is its number among all rows of the input."""
    namespace = uuid.UUID("0c6e1a52-6a0f-4b1e-9a53-7d1f0e5b2c44")
    return str(uuid.uuid3(namespace, f"{input_name}|{partition}||{number}"))


def metadata_property(path: str, known: Record, event: Record) -> Value:
    """The property: what the input says, else what the event's own record says, else a field of that name."""
    names = [part.strip("[]") for part in re.findall(r"\[[^]]*\]|[^.]+", path)]
    if len(names) == 1 and "." in names[0]:
        names = names[0].split(".")
    root = names[0].lower()
    if root == "user":
        return within(record(event, "User"), names[1:])
    if root == "eventid":
        return known[EVENT_ID]
    if root == "blobname":
        return field(event, "BlobName")
    if len(names) == 1 and root in ("eventhub", "iothub"):
        recorded = record(event, names[0])
        if recorded is None and root == "eventhub":
            return {name: column(name, known, event) for name in COLUMNS[:3]}
        return recorded
    if len(names) == 1:
        return column(spelled(names[0], COLUMNS), known, event)
    name = spelled(names[1], {"eventhub": EVENT_HUB, "iothub": IOT_HUB}[root])
    value = typed(name, within(record(event, names[0]), [name]))
    name = "EventEnqueuedUtcTime" if name == "EnqueuedTime" else name
    if name in known or (value is None and name in COLUMNS):
        return column(name, known, event)
    return value


def column(name: str, known: Record, event: Record) -> Value:
    if name == "EventProcessedUtcTime":  # which no input says
        said = typed(name, field(event, name))
        return known["EventEnqueuedUtcTime"] if said is None else said
    return known["EventEnqueuedUtcTime" if name == "BlobLastModifiedUtcTime" else name]


def typed(name: str, value: Value) -> Value:
    if name in ("EventEnqueuedUtcTime", "EventProcessedUtcTime", "EnqueuedTime", "IoTEnqueueTime"):
        value = instant_of_text(value) if isinstance(value, str) else value
        return value if isinstance(value, Instant) else None
    return value


def spelled(name: str, names: list[str]) -> str:
    found = lookup(dict.fromkeys(names), name)
    if found is None:
        raise OracleError(f"no metadata property {name!r}")
    return found


def field(event: Record, name: str) -> Value:
    found = lookup(event, name)
    return None if found is None else event[found]


def record(event: Record, name: str) -> Record | None:
    value = field(event, name)
    return value if isinstance(value, dict) else None


def within(value: Value, names: list[str]) -> Value:
    for name in names:
        value = field(value, name) if isinstance(value, dict) else None
    return value
