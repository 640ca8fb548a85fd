"""The newest messages of a topic, for people to look at, by a consumer of its own.

It is no member of a consumer group, commits nothing, and reads no further than the topic was at the start, so
neither the job nor the broker's books change.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, cast

import pyarrow as pa

from tideglass.connect.dataframes.input import FrameSpec, chunks_of_frame, in_order
from tideglass.connect.formats.payloads import Payload
from tideglass.connect.kafka.topic import TopicInput
from tideglass.core.errors import InputError
from tideglass.core.events import Chunk, Fields

_JAAS = "kafka.sasl.jaas.config"
_USER = re.compile(r'username="((?:[^"\\]|\\.)*)"')
_PASSWORD = re.compile(r'password="((?:[^"\\]|\\.)*)"')
#: What the client for Java and librdkafka call the same.
_SAME = ("security.protocol", "sasl.mechanism", "ssl.endpoint.identification.algorithm")
_NO_STAMP = 0
_MESSAGES = pa.schema(
    [
        ("key", pa.string()),
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


def newest_topic_chunks(
    topic: TopicInput,
    environment: Mapping[str, str],
    fields: Fields,
    level: str,
    most_messages: int,
    most_bytes: int,
    until: float,
) -> Iterator[tuple[str, Chunk]]:
    """The last messages of each partition as events, each chunk with the name of the partition.

    most_messages: of a partition. most_bytes: of all. until: of `time.monotonic`.
    Raises InputError for a broker that does not answer and a topic that is not there, ProjectError for a
    variable that is not set.
    """
    table = _newest(topic, environment, most_messages, most_bytes, until)
    payload_as = Payload(topic.format, topic.delimiter, topic.avro_schema, compression=topic.compression)
    metadata = tuple((name, name) for name in ("key", "topic", "headers") if name in table.column_names)
    spec = FrameSpec(
        topic.name,
        arrival="timestamp",
        partition="partition",
        offset="offset",
        payload="value",
        metadata=metadata if not topic.records else (),
        payload_as=payload_as,
        records=topic.records,
    )
    for found in chunks_of_frame(table, spec, fields, level, 0, count()):
        chunks, _ = in_order([found], 0)
        for chunk in chunks:
            yield found.partition, chunk


@dataclass(slots=True)
class _Left:
    """What is still to come: of each partition the offset after its last message."""

    ends: dict[int, int]
    bytes: int


def _newest(
    topic: TopicInput, environment: Mapping[str, str], most_messages: int, most_bytes: int, until: float
) -> pa.Table:
    try:
        import confluent_kafka
    except ImportError:
        raise InputError(
            "looking at a topic needs the package confluent-kafka\n  hint: pip install confluent-kafka"
        ) from None
    kafka = cast("Any", confluent_kafka)
    name = topic.place(environment)
    complaints: list[str] = []

    def complained(error: object) -> None:
        complaints.append(str(error))

    consumer: Any = kafka.Consumer(client_settings_of(topic, environment) | {"error_cb": complained})
    try:
        try:
            listed = consumer.list_topics(name, timeout=max(1.0, until - time.monotonic()))
        except kafka.KafkaException as error:
            reason = "; ".join(dict.fromkeys(complaints)) or str(error)
            raise InputError(f"the broker of the topic {name} does not answer: {reason}") from None
        found = listed.topics[name]
        if found.error is not None or not found.partitions:
            raise InputError(f"there is no topic {name}: {found.error}")
        left = _Left({}, most_bytes)
        assigned: list[Any] = []
        for partition in found.partitions:
            place = kafka.TopicPartition(name, partition)
            low, high = consumer.get_watermark_offsets(place, timeout=max(1.0, until - time.monotonic()))
            if high > low:
                left.ends[partition] = high
                assigned.append(kafka.TopicPartition(name, partition, max(low, high - most_messages)))
        consumer.assign(assigned)
        return pa.Table.from_pylist(list(_messages(consumer, left, until)), schema=_MESSAGES)
    finally:
        consumer.close()


def _messages(consumer: Any, left: _Left, until: float) -> Iterator[dict[str, Any]]:
    while left.ends and left.bytes > 0 and time.monotonic() < until:
        for message in consumer.consume(500, timeout=0.5):
            if message.error() is not None:
                raise InputError(f"the topic cannot be read: {message.error()}")
            partition, offset, value = message.partition(), message.offset(), message.value()
            if offset + 1 >= left.ends.get(partition, 0):
                left.ends.pop(partition, None)
            left.bytes -= len(value or b"")
            kind, stamp_ms = message.timestamp()
            key = message.key()
            yield {
                "key": None if key is None else key.decode("utf-8", "replace"),
                "value": value,
                "partition": partition,
                "offset": offset,
                "timestamp": None if kind == _NO_STAMP else stamp_ms * 1000,
                "headers": [{"key": name, "value": each} for name, each in message.headers() or ()],
            }
        done = {each.partition for each in consumer.position(consumer.assignment()) if _is_done(each, left)}
        for partition in done:  # its last offsets may be marks of transactions, which no consumer gets
            left.ends.pop(partition, None)


def _is_done(place: Any, left: _Left) -> bool:
    return place.offset >= left.ends.get(place.partition, 0)


def client_settings_of(topic: TopicInput, environment: Mapping[str, str]) -> dict[str, Any]:
    """Settings of librdkafka for what a project says of a topic in the words of the client for Java.

    Raises InputError for a way to sign in that is not known here, ProjectError for a variable that is
    not set.
    """
    options = topic.connector_options(environment)
    found: dict[str, Any] = {
        "bootstrap.servers": options["kafka.bootstrap.servers"],
        "group.id": "tideglass-peek",  # the library asks for one; what is assigned joins none
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "log_level": 0,
    }
    found |= {name: options[f"kafka.{name}"] for name in _SAME if f"kafka.{name}" in options}
    mechanism = str(found.get("sasl.mechanism", ""))
    if not str(found.get("security.protocol", "")).upper().startswith("SASL"):
        return found
    if mechanism.upper() not in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        raise InputError(
            f"looking at a topic that is signed in to by {mechanism or 'another way'} is not yet supported\n"
            "  hint: give the input a connection string or a password, or record events and name the files"
        )
    jaas = options.get(_JAAS, "")
    user, password = _USER.search(jaas), _PASSWORD.search(jaas)
    if user is None or password is None:
        raise InputError("the options of the topic hold no user and password for signing in")
    return found | {"sasl.username": _plain(user[1]), "sasl.password": _plain(password[1])}


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)
