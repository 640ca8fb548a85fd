"""A Kafka topic as an output; Spark's own connector writes its messages (at least once, `asa.md` 6.4).

It writes them before the driver hears of the batch; one that runs again is written again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from tideglass.connect.environment import resolved
from tideglass.connect.output import Batch, OutputConnector

if TYPE_CHECKING:
    import pyarrow as pa

    from tideglass.storage import StoragePath


@dataclass(frozen=True, slots=True)
class TopicOutput(OutputConnector):
    """A topic that takes rows, a message each.

    name: of the output in the query.
    servers: the brokers, `host:port` joined by commas.
    topic: the topic's name.
    format: one of FORMATS that messages are written in.
    delimiter: of CSV.
    avro_schema: of Avro, as JSON text; None for other formats.
    key: the column whose text is the key of the message; None: messages have no key.
    partition: the column with the message's partition; where it is NULL, and without such a column, the
        connector chooses.
    options: further ones of Spark's Kafka sink.
    """

    name: str
    servers: str
    topic: str
    format: str = "json"
    delimiter: str = ","
    avro_schema: str | None = None
    key: str | None = None
    partition: str | None = None
    options: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def kafka_options(self) -> Mapping[str, str]:
        return {"kafka.bootstrap.servers": self.servers, **self.options, "topic": self.topic}

    def stage(self, rows: pa.Table, sender: str) -> pa.Table:
        from tideglass.connect.kafka.encoding import records

        return records(rows, self)

    def publish(self, batch: Batch, staged: Sequence[pa.Table]) -> Sequence[pa.Table]:
        """The broker has them by now."""
        return ()

    def identity(self, directory: StoragePath) -> Mapping[str, Any]:
        """A topic is the same however it is reached: servers and options may change, and may be secret."""
        words = {
            key: value for key, value in asdict(self).items() if key not in ("name", "servers", "options")
        }
        return words | {"path": None}

    def describe(self) -> str:
        return f"the topic {resolved(self.topic, os.environ)}"
