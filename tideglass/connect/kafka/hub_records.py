"""Metadata of messages of event hubs and IoT hubs, as the records a query reads (`asa.md` 4.9).

record         of it
$EventHub      what GetMetadataPropertyValue calls `EventHub`: times, partition, offset, key
$User          the properties the sender has set, which it calls `User`
IoTHub         the device and its message; of an IoT hub it is a field of the event as well

The first two are no fields of the event, which may have fields named `EventHub` and `User` of its own.
Through the Kafka endpoint the offset of a message is its sequence number; its offset in bytes does not come
along, and `Offset` is the text of the sequence number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from tideglass.connect.azure.amqp_values import PropertyValue, property_value
from tideglass.core.types import EVENT_HUB, USER

if TYPE_CHECKING:
    import pyarrow as pa

    from tideglass.core.events import Fields

IOT_HUB = "IoTHub"
#: Columns of a message that the records are made of, as `spark.kafka.input` names them.
MESSAGE_COLUMNS = ("key", "headers")

_OF_DEVICES = {
    "IoTConnectionDeviceId": "iothub-connection-device-id",
    "IoTAuthMethod": "iothub-connection-auth-method",
    "IoTAuthGenerationId": "iothub-connection-auth-generation-id",
    "IoTEnqueueTime": "iothub-enqueuedtime",
    "IoTMessageSource": "iothub-message-source",
    "IoTConnectionModuleId": "iothub-connection-module-id",
    "IoTInterfaceName": "iothub-interface-name",
}
_OF_IOT_HUB = {
    "ConnectionDeviceId": "iothub-connection-device-id",
    "AuthMethod": "iothub-connection-auth-method",
    "AuthGenerationId": "iothub-connection-auth-generation-id",
    "ConnectionDeviceGenerationId": "iothub-connection-auth-generation-id",
    "MessageSource": "iothub-message-source",
    "ConnectionModuleId": "iothub-connection-module-id",
    "InterfaceName": "iothub-interface-name",
    "CorrelationId": "correlation-id",
    "MessageId": "message-id",
}
_OF_THE_SYSTEM = ("iothub-", "x-opt-")
_PUBLISHER = "x-opt-publisher"


def is_of_message(path: Sequence[str], records: str) -> bool:
    """Whether a field of an event is of these records of its message.

    records: `EventHub` or `IoTHub`, whose messages they are; empty: of neither.
    """
    if not records:
        return False
    name = path[0].casefold()
    return name in _MADE or (records == IOT_HUB and name == IOT_HUB.casefold())


_MADE = (EVENT_HUB.casefold(), USER.casefold())


def fields_of_messages(
    messages: pa.Table, arrived: Sequence[str], partition: str, offset: str, fields: Fields, records: str
) -> tuple[pa.Array, Fields]:
    """The asked-for fields of the records as JSON, an object for each message, and those fields.

    messages: with the columns of MESSAGE_COLUMNS; the others are named here.
    arrived: when each message arrived, as ISO text.
    """
    import pyarrow as pa

    paths = tuple(path for path in fields.paths if is_of_message(path, records))
    texts: list[str] = []
    headers = cast("list[list[dict[str, Any]] | None]", messages["headers"].to_pylist())
    keys, numbers = messages["key"].to_pylist(), messages[offset].to_pylist()
    partitions = messages[partition].to_pylist()
    for place, time in enumerate(arrived):
        found = records_of(
            {each["key"]: property_value(each["value"]) for each in headers[place] or ()},
            keys[place],
            time,
            partitions[place],
            numbers[place],
            records,
        )
        texts.append(json.dumps(asked_of(found, paths)))
    return pa.array(texts, pa.string()), replace(
        fields, paths=paths, whole=False, payload_types=(), event_ids=False
    )


def records_of(
    properties: Mapping[str, PropertyValue],
    key: str | None,
    arrived: str,
    partition: object,
    offset: int,
    records: str,
) -> dict[str, Any]:
    """The records of a message. properties: its headers."""
    of_system = set(_OF_IOT_HUB.values()) if records == IOT_HUB else set[str]()
    user = {
        name: value
        for name, value in properties.items()
        if name not in of_system and not name.startswith(_OF_THE_SYSTEM)
    }
    event_hub = {
        "EventEnqueuedUtcTime": arrived,
        "EventProcessedUtcTime": arrived,
        "PartitionId": partition,
        "Offset": str(offset),
        "SequenceNumber": offset,
        "PartitionKey": key,
        "Publisher": properties.get(_PUBLISHER),
    }
    devices = {name: properties.get(header) for name, header in _OF_DEVICES.items()}
    if any(value is not None for value in devices.values()):  # of messages an IoT hub has routed here
        event_hub |= devices
    found: dict[str, Any] = {EVENT_HUB: event_hub, USER: user}
    if records == IOT_HUB:
        device = {name: properties.get(header) for name, header in _OF_IOT_HUB.items()}
        found[IOT_HUB] = device | {"EnqueuedTime": arrived}
    return found


def asked_of(found: Mapping[str, Any], paths: Iterable[tuple[str, ...]]) -> dict[str, Any]:
    """The fields of paths, in the spelling of the paths; names are found whatever their case."""
    result: dict[str, Any] = {}
    for path in sorted(paths, key=len):  # a record, then fields of it
        value: Any = found
        for name in path:
            value = _member(value, name)
        inner = result
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
            if not isinstance(inner, dict):
                break
        else:
            inner[path[-1]] = dict(value) if isinstance(value, dict) else value
    return result


def _member(value: Any, name: str) -> Any:
    if not isinstance(value, dict):
        return None
    names = cast("dict[str, Any]", value)
    if name in names:
        return names[name]
    return next((each for key, each in names.items() if key.casefold() == name.casefold()), None)
