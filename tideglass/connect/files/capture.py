"""Avro files that Event Hubs Capture writes: the messages of a partition of a hub, with their metadata.

field               what it is
SequenceNumber      of the message; the offset of a message through the hub's Kafka endpoint
Offset              in the hub's log, as text
EnqueuedTimeUtc     when the hub took the message: the arrival of its events; month first, or ISO
SystemProperties    what the hub has set, such as x-opt-partition-key
Properties          what the sender has set
Body                the message, in the format the hub is read in

The partition stands in the path (`namespace/hub/partition/year/…`), so each of its folders is an input
partition. An event's place in its file counts the events before it there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal, cast

import numpy as np
import pyarrow as pa

from tideglass.connect.formats.avro import container_blocks
from tideglass.connect.formats.decoded import INVALID_DATA, LINE, Decoded, Refusals, column_name
from tideglass.connect.formats.payloads import Payload, decode_messages
from tideglass.connect.kafka.hub_records import asked_of, is_of_message, records_of
from tideglass.core import profile
from tideglass.core.events import Fields
from tideglass.core.time import TICKS_PER_MILLISECOND, format_ticks, parse_ticks, ticks_of_datetime
from tideglass.core.types import ARRIVAL, EVENT_HUB, Type, field

HUB = "EventHub"
_FIELDS = frozenset(("SequenceNumber", "Offset", "EnqueuedTimeUtc", "SystemProperties", "Properties", "Body"))
_ENQUEUED_MS, _KEY = "x-opt-enqueued-time", "x-opt-partition-key"
_MONTH_FIRST = ("%m/%d/%Y %I:%M:%S %p", "%m/%d/%Y %H:%M:%S")

CaptureBody = Literal["json", "csv", "avro"]


@dataclass(frozen=True, slots=True)
class _Message:
    """A message of a hub. partition: by its path. record: of the file."""

    body: bytes
    arrival_ticks: int
    partition: str
    record: dict[str, Any]


def read_capture(
    file: Any, path: str, partition: str, payload: Payload, fields: Fields, level: str
) -> Iterator[Decoded]:
    """The events of a file, block by block, with `$arrival` of each.

    partition: its name. A record without a readable time, and what is no record of Capture, is refused.
    """
    blocks = container_blocks(file)
    place = number = 0
    while True:
        refusals = Refusals()
        try:
            with profile.part("reading inputs"):
                block = next(blocks, None)
        except ValueError as error:
            refusals.add(INVALID_DATA, f"the file cannot be read as Avro: {error}", [number], [path])
            yield _decoded([], place, payload, fields, level, refusals)[0]
            return
        if block is None:
            return
        if not set(block.names) >= _FIELDS:
            lines = np.arange(number, number + len(block.records))
            refusals.add(INVALID_DATA, "the record is none of Event Hubs Capture", lines, [path])
            yield _decoded([], place, payload, fields, level, refusals)[0]
            number += len(block.records)
            continue
        messages: list[_Message] = []
        for record in block.records:
            arrival_ticks = enqueued_ticks(record)
            if arrival_ticks is None:
                reason = "the record holds no time in EnqueuedTimeUtc"
                refusals.add(INVALID_DATA, reason, [number], [str(record["EnqueuedTimeUtc"])])
            else:
                messages.append(_Message(record["Body"] or b"", arrival_ticks, partition, record))
            number += 1
        with profile.part("decoding events"):
            decoded, events = _decoded(messages, place, payload, fields, level, refusals)
        place += events
        yield decoded


def enqueued_ticks(record: dict[str, Any]) -> int | None:
    """When the hub took a message; None for a time that cannot be read.

    >>> enqueued_ticks({"EnqueuedTimeUtc": "3/1/2026 8:00:05 PM"}) == parse_ticks("2026-03-01T20:00:05Z")
    True
    """
    exact_ms = (record.get("SystemProperties") or {}).get(_ENQUEUED_MS)
    if isinstance(exact_ms, int) and not isinstance(exact_ms, bool):
        return exact_ms * TICKS_PER_MILLISECOND
    text = str(record.get("EnqueuedTimeUtc") or "")
    for form in _MONTH_FIRST:
        try:
            return ticks_of_datetime(datetime.strptime(text, form).replace(tzinfo=UTC))
        except ValueError:
            continue
    return parse_ticks(text)


def _decoded(
    messages: Sequence[_Message], place: int, payload: Payload, fields: Fields, level: str, refusals: Refusals
) -> tuple[Decoded, int]:
    """The events of messages, whose places begin at `place`, and how many places they take."""
    bodies = pa.array([each.body for each in messages], pa.binary())
    decoded, message_of = decode_messages(bodies, payload, fields, level)
    table = decoded.table
    messages_of = message_of[table[LINE].to_numpy()]
    asked = tuple(path for path in fields.paths if is_of_message(path, HUB))
    if asked and len(messages):
        wanted = replace(
            fields, paths=asked, whole=False, payload_types=(), event_ids=False, blob_names=False
        )
        texts = pa.array([_records(each, asked) for each in messages], pa.string())
        found = decode_messages(texts, Payload(), wanted, level)[0].table
        for path in asked:
            name = column_name(path)
            values = found[name].take(pa.array(messages_of))
            table = table.set_column(table.column_names.index(name), found.schema.field(name), values)
    arrivals = np.array([each.arrival_ticks for each in messages], np.int64)[messages_of]
    lines = pa.array(table[LINE].to_numpy() + place, pa.int64())
    table = table.set_column(table.column_names.index(LINE), table.schema.field(LINE), lines)
    table = table.append_column(field(ARRIVAL, Type.DATETIME), pa.array(arrivals, pa.int64()))
    return Decoded(table, (*decoded.rejected, *refusals.all())), len(message_of)


def _records(message: _Message, asked: Sequence[tuple[str, ...]]) -> str:
    """The asked-for fields of the records of a message, as JSON."""
    record = message.record
    system = cast("dict[str, Any]", record["SystemProperties"] or {})
    properties = {**system, **cast("dict[str, Any]", record["Properties"] or {})}
    plain = {
        name: value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        for name, value in properties.items()
    }
    key = plain.get(_KEY)
    partition: object = int(message.partition) if message.partition.isdigit() else message.partition
    arrived, number = format_ticks(message.arrival_ticks), int(record["SequenceNumber"])
    found = records_of(plain, None if key is None else str(key), arrived, partition, number, HUB)
    found[EVENT_HUB]["Offset"] = str(record["Offset"])
    return json.dumps(asked_of(found, asked))
