"""Kafka topics as inputs and outputs, as plain data; nothing here talks to a broker.

A value of `servers`, `topic` and `options` may refer to the environment (`${KAFKA_PASSWORD}`), so that no
secret need stand in a project; the reference stays what it is until Spark's connector is given its options.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tideglass.core.errors import ProjectError

TopicFormat = Literal["json", "csv", "avro"]

#: Messages of a batch at most, unless a project says otherwise: a batch is put into order in memory. One of a
#: million took 4.3 s where one of four messages took 0.8 s, so half as many would be dearer. A power of two,
#: as Spark rounds each partition's share down: of a whole multiple of the limit, as made recordings are, some
#: messages would be left for a batch of their own.
MOST_MESSAGES = 1 << 21

#: Options of Spark's source that say where a query begins, in lower case as Spark compares them.
STARTING_OPTIONS = ("startingoffsets", "startingoffsetsbytimestamp", "startingtimestamp")

#: How Kafka's client fetches unless the user says otherwise. Spark's connector asks the broker twice how far
#: a partition goes whenever the client hands over messages, which by itself is 500 at a time. Better it hands
#: over all that comes with one answer of the broker (`max.partition.fetch.bytes`, 1 MiB); only then it asks
#: for more while these are taken. Its own buffer of 64 KiB holds a sixteenth of such an answer.
FETCHING = {"kafka.max.poll.records": "10000", "kafka.receive.buffer.bytes": str(1 << 20)}

_REFERENCE = re.compile(r"\$\{([^}]*)\}")


@dataclass(frozen=True, slots=True)
class TopicInput:
    """A topic whose messages are events.

    format, delimiter, avro_schema: as of `connect.formats.messages.Payload`. arrival: whose stamps the
    messages bear. starting: `earliest`, `latest`, or offsets as Spark's connector takes them; None: the
    earliest of what a run is to read to its end, else the latest. most_messages: of a batch. options: further
    ones of Spark's Kafka source.
    """

    name: str
    servers: str
    topic: str
    format: TopicFormat = "json"
    delimiter: str = ","
    avro_schema: str | None = None
    arrival: Literal["LogAppendTime", "CreateTime"] = "LogAppendTime"
    starting: str | None = None
    most_messages: int = MOST_MESSAGES
    options: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class HeldPartition:
    """What a broker holds of a partition of a topic, as one moment showed it.

    earliest, end: the offset of the first message, and the one behind the last. oldest_ms: when the first
    is stamped; None for no message. found: the first offset stamped at the time that was asked for or
    later; None where there is none, or no time was asked for.
    """

    earliest: int
    end: int
    oldest_ms: int | None = None
    found: int | None = None


def resolved(text: str, environment: Mapping[str, str]) -> str:
    """The text with what it refers to. Raises ProjectError for a variable that is not set.

    >>> resolved("user-${NAME}", {"NAME": "a"})
    'user-a'
    """
    missing = [name for name in _REFERENCE.findall(text) if name not in environment]
    if missing:
        raise ProjectError(
            f"the project refers to the environment variable {missing[0]}, which is not set\n"
            f"  hint: export {missing[0]}=... before the run"
        )
    return _REFERENCE.sub(lambda found: environment[found[1]], text)
