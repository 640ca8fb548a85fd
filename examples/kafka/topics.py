"""Topics of a broker: made, filled and read from Python, without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import confluent_kafka
from confluent_kafka.admin import AdminClient

kafka = cast("Any", confluent_kafka)

#: A read ends once every partition has said so; this long at most after the last message.
_SILENCE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it is sent or read; `time_ms` of one that is sent counts in topics of CreateTime."""

    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    time_ms: int = 0
    headers: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    offset: int = -1


def create_topic(
    address: str, name: str, partitions: int, stamp: Literal["LogAppendTime", "CreateTime"] = "LogAppendTime"
) -> None:
    """Make a topic whose messages bear the broker's stamps, or their producers'."""
    admin: Any = AdminClient({"bootstrap.servers": address})
    config = {"message.timestamp.type": stamp, "retention.ms": "-1"}
    made = admin.create_topics([kafka.admin.NewTopic(name, partitions, 1, config=config)])
    made[name].result(60)


def send(address: str, topic: str, messages: Iterable[Message]) -> int:
    """Send messages, each to its partition, in their order there; answers how many once they are in."""
    refused: list[Any] = []
    producer: Any = kafka.Producer(
        {
            "bootstrap.servers": address,
            "linger.ms": 50,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    count = 0
    for each in messages:
        while True:
            try:
                producer.produce(
                    topic,
                    each.value,
                    each.key,
                    each.partition,
                    on_delivery=lambda error, _: refused.append(error) if error else None,
                    timestamp=each.time_ms,
                    headers=dict(each.headers) or None,
                )
                break
            except BufferError:
                producer.poll(0.1)
        count += 1
        if count % 10_000 == 0:
            producer.poll(0)
    producer.flush()
    if refused:
        raise RuntimeError(f"{len(refused)} of {count} messages were refused: {refused[0]}")
    return count


def read(address: str, topic: str) -> list[Message]:
    """All messages of a topic, by partition and offset."""
    consumer: Any = kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "tideglass-read",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        partitions = consumer.list_topics(topic, 30).topics[topic].partitions
        consumer.assign([kafka.TopicPartition(topic, number, 0) for number in partitions])
        found: list[Message] = []
        left = set(partitions)
        while left:
            got = consumer.poll(_SILENCE_SECONDS)
            if got is None:
                raise RuntimeError(f"the topic {topic} was not read to its end")
            if got.error() is None:
                headers = dict(got.headers() or [])
                at = got.timestamp()[1]
                found.append(Message(got.value(), got.key(), got.partition(), at, headers, got.offset()))
            elif got.error().code() == kafka.KafkaError._PARTITION_EOF:
                left.discard(got.partition())
            else:
                raise RuntimeError(str(got.error()))
        return sorted(found, key=lambda each: (each.partition, each.offset))
    finally:
        consumer.close()
