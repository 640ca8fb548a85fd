"""Kafka topics as inputs and outputs, as plain data; nothing here talks to a broker.

A value of `servers`, `topic` and `options` may refer to the environment (`${KAFKA_PASSWORD}`), so that no
secret need stand in a project; the reference stays what it is until Spark's connector gets its options
(`connect.environment`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from tideglass.connect.environment import resolved
from tideglass.connect.kafka.stand_in import at_stand_in, topic_at_stand_in
from tideglass.connect.source import InputConnector
from tideglass.core.types import ARRIVAL, EVENT_HUB, PARTITION

if TYPE_CHECKING:
    from tideglass.storage import StoragePath

#: Messages of a batch at most, unless a project sets it: a batch is put into order in memory. One of a
#: million took 4.3 s where one of four messages took 0.8 s, so half as many would be dearer. A power of two,
#: as Spark rounds each partition's share down: of a whole multiple of the limit, as made recordings are, some
#: messages would be left for a batch of their own.
MOST_MESSAGES = 1 << 21

#: Options of Spark's source for where a query begins, in lower case as Spark compares them.
STARTING_OPTIONS = ("startingoffsets", "startingoffsetsbytimestamp", "startingtimestamp")

#: How Kafka's client fetches unless the user sets it. Spark's connector asks the broker twice how far
#: a partition goes whenever the client hands over messages, which by itself is 500 at a time. Better it hands
#: over all of one answer of the broker (`max.partition.fetch.bytes`, 1 MiB); only then it asks
#: for more while these are taken. Its own buffer of 64 KiB holds a sixteenth of such an answer.
FETCHING = {"kafka.max.poll.records": "10000", "kafka.receive.buffer.bytes": str(1 << 20)}


@dataclass(frozen=True, slots=True)
class TopicInput(InputConnector):
    """A topic whose messages are events.

    name: of the input in the query.
    servers: the brokers, `host:port` joined by commas.
    topic: the topic's name.
    format, delimiter, avro_schema: as of `connect.formats.payloads.Payload`.
    arrival: whose stamps the messages bear.
    starting: `earliest`, `latest`, or offsets as Spark's connector takes them; None: the earliest of what a
        run is to read to its end, else the latest.
    most_messages: of a batch.
    options: further ones of Spark's Kafka source.
    records: which records of metadata the events have (`asa.md` 4.9): those of an event hub or of an IoT hub,
        or none.
    compression: of the payload of each message.
    """

    name: str
    servers: str
    topic: str
    format: str = "json"
    delimiter: str = ","
    avro_schema: str | None = None
    arrival: Literal["LogAppendTime", "CreateTime"] = "LogAppendTime"
    starting: str | None = None
    most_messages: int = MOST_MESSAGES
    options: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    records: Literal["", "EventHub", "IoTHub"] = ""
    compression: Literal["none", "gzip", "deflate"] = "none"

    def as_topic(self) -> TopicInput:
        return self

    @property
    def known_columns(self) -> tuple[str, ...]:
        return (PARTITION, ARRIVAL, EVENT_HUB) if self.records else (PARTITION,)

    def identity(self, directory: StoragePath) -> Mapping[str, Any]:
        """A topic is the same however it is reached: servers and options may change, and may be secret."""
        left_out = ("name", "servers", "options", "most_messages", "starting", "records")
        words = {name: value for name, value in asdict(self).items() if name not in left_out}
        if self.compression == "none":  # as every topic was before there was another
            del words["compression"]
        return words | {"path": None}

    def place(self, environment: Mapping[str, str]) -> str:
        """The name of the topic on the broker that is spoken to. Raises ProjectError."""
        servers = resolved(self.servers, environment)
        return topic_at_stand_in(resolved(self.topic, environment), servers)

    def connector_options(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The brokers and `options` for Spark's connector, with what they refer to, secrets too.

        Raises ProjectError for a variable that is not set, and for brokers nobody knows.
        """
        options = {"kafka.bootstrap.servers": self.servers, **self.options}
        return at_stand_in({name: resolved(value, environment) for name, value in options.items()})


@dataclass(frozen=True, slots=True)
class HeldPartition:
    """What a broker holds of a partition of a topic, as one moment showed it.

    earliest: offset of the first message.
    end: the offset after that of the last message.
    oldest_ms: when the first message is stamped; None for no message.
    found: the first offset stamped at the time that was asked for or later; None where there is none, or no
        time was asked for.
    """

    earliest: int
    end: int
    oldest_ms: int | None = None
    found: int | None = None
