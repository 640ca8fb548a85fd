"""Kafka topics in the input and output files of a project: `"DataSourceType": "Kafka"`.

    {
      "Name": "toll", "Type": "Data Stream", "DataSourceType": "Kafka",
      "KafkaProperties": {"BootstrapServers": "localhost:9092", "Topic": "toll"},
      "Serialization": {"Type": "Json"}, "ScriptType": "Input"
    }

An input may also say `StartingOffsets`, `MaxOffsetsPerTrigger` and `ArrivalTime` (`LogAppendTime` or
`CreateTime`), an output `KeyColumn`, `PartitionColumn` and `Delivery`; `Options` go to the connector as they
are. Avro takes its schema from the file `Serialization` names as `SchemaFile`.
"""

from __future__ import annotations

import json
from typing import Any, cast

from tideglass.connect.formats.table import formats_that, in_words
from tideglass.connect.kafka.hub_output import MOST_BYTES, PROGRESS_TOPIC, HubOutput
from tideglass.connect.kafka.output import TopicOutput
from tideglass.connect.kafka.topic import MOST_MESSAGES, TopicInput
from tideglass.project.connectors import Described, Properties
from tideglass.project.file_reader import json_kind, read_text, text_of
from tideglass.project.keys import objects_in

_OF_TRANSACTIONS = ("Delivery", "ProgressTopic", "MaxMessageBytes")
_COMMON = ("BootstrapServers", "Topic", "Options")
_STAMPS = ("LogAppendTime", "CreateTime")


def topic_input(described: Described) -> TopicInput:
    """The topic an input file describes."""
    own = described.properties(*_COMMON, "StartingOffsets", "MaxOffsetsPerTrigger", "ArrivalTime")
    stamp = own.choice("ArrivalTime", _STAMPS)
    return TopicInput(
        described.name,
        own.text("BootstrapServers"),
        own.text("Topic"),
        _format(described, formats_that("messages")),
        described.delimiter,
        avro_schema(described),
        "CreateTime" if stamp == "CreateTime" else "LogAppendTime",
        _starting(own),
        own.whole("MaxOffsetsPerTrigger", MOST_MESSAGES, least=1),
        _options(own),
    )


def topic_output(described: Described) -> TopicOutput | HubOutput:
    """The topic an output file describes; `Delivery` `Transactional` has the driver write it."""
    own = described.properties(*_COMMON, "KeyColumn", "PartitionColumn", *_OF_TRANSACTIONS)
    file_format, schema = _format(described, formats_that("encode")), avro_schema(described)
    if file_format == "avro" and schema is None:
        described.problems.error(described.file, 'writing Avro needs "SchemaFile" in "Serialization"')
    topic = TopicOutput(
        described.name,
        own.text("BootstrapServers"),
        own.text("Topic"),
        file_format,
        described.delimiter,
        schema,
        own.optional_text("KeyColumn"),
        own.optional_text("PartitionColumn"),
        _options(own),
    )
    if own.choice("Delivery", ("AtLeastOnce", "Transactional")) == "AtLeastOnce":
        return topic
    progress, most_bytes = own.optional_text("ProgressTopic"), own.whole("MaxMessageBytes", MOST_BYTES, 1024)
    return HubOutput(topic, (), True, progress or PROGRESS_TOPIC, most_bytes)


def _format(described: Described, known: tuple[str, ...]) -> str:
    if described.format not in known:
        named = objects_in(described.content.get("Serialization")).get("Type")
        described.problems.error(
            described.file, f"messages in the format {named!r} are not known here; use {in_words(known)}"
        )
        return known[0]
    return described.format


def avro_schema(described: Described) -> str | None:
    """The text of the Avro schema, once it is known to be JSON."""
    file, problems = described.file, described.problems
    serialization = objects_in(described.content.get("Serialization"))
    named = text_of(serialization, "SchemaFile", file, problems, required=False)
    if named is None:
        return None
    path = problems.path(file.parent, named, file, '"SchemaFile"', must_exist=False)
    text = None if path is None else read_text(path, problems)
    if path is None or text is None:
        return None
    try:
        return json.dumps(json.loads(text))
    except ValueError as error:
        problems.error(path, f"not JSON, which an Avro schema is: {error}")
        return None


def _starting(own: Properties) -> str | None:
    """`earliest`, `latest`, or an object of offsets by topic and partition, as Spark's connector takes it."""
    value = own.values.get("StartingOffsets")
    if isinstance(value, dict):
        return json.dumps(value)
    if value is not None and value not in ("earliest", "latest"):
        own.problems.error(
            own.file, f'"StartingOffsets" is {value!r}, it must be "earliest", "latest" or an object'
        )
    return value


def _options(own: Properties) -> dict[str, str]:
    value = own.values.get("Options", {})
    if not isinstance(value, dict):
        own.problems.error(own.file, f'"Options" is {json_kind(value)} where an object {{...}} is expected')
        return {}
    return {
        name: each if isinstance(each, str) else json.dumps(each)
        for name, each in cast("dict[str, Any]", value).items()
    }
