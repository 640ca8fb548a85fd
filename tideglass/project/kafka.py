"""Kafka topics in the input and output files of a project: `"DataSourceType": "Kafka"`.

    {
      "Name": "toll", "Type": "Data Stream", "DataSourceType": "Kafka",
      "KafkaProperties": {"BootstrapServers": "localhost:9092", "Topic": "toll"},
      "Serialization": {"Type": "Json"}, "ScriptType": "Input"
    }

An input may also say `StartingOffsets`, `MaxOffsetsPerTrigger` and `ArrivalTime` (`LogAppendTime` or
`CreateTime`), an output `KeyColumn` and `PartitionColumn`; `Options` go to Spark's connector as they are.
Avro takes its schema from the file `Serialization` names as `SchemaFile`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from tideglass.connect.kafka.output import TopicOutput
from tideglass.connect.kafka.topic import MOST_MESSAGES, TopicFormat, TopicInput
from tideglass.core.suggest import did_you_mean
from tideglass.project.reading import Problems, json_kind, read_text, text_of

_KEY = "KafkaProperties"
_FORMATS: Mapping[str, TopicFormat] = {"json": "json", "csv": "csv", "avro": "avro"}
_COMMON = ("BootstrapServers", "Topic", "Options")
_OF_INPUT = (*_COMMON, "StartingOffsets", "MaxOffsetsPerTrigger", "ArrivalTime")
_OF_OUTPUT = (*_COMMON, "KeyColumn", "PartitionColumn")
_STAMPS = ("LogAppendTime", "CreateTime")


def is_topic(content: Mapping[str, Any]) -> bool:
    """Whether an input or output file describes a topic."""
    return str(content.get("DataSourceType", "")).strip().lower() == "kafka"


def read_topic_input(
    content: Mapping[str, Any], name: str, delimiter: str, file: Path, problems: Problems
) -> TopicInput | None:
    """The topic an input file describes; None after a reported problem."""
    before = len(problems.errors)
    properties = _properties(content, _OF_INPUT, file, problems)
    stamp = text_of(properties, "ArrivalTime", file, problems, required=False) or "LogAppendTime"
    if stamp not in _STAMPS:
        problems.error(file, f'"ArrivalTime" is {stamp!r}, it must be one of {", ".join(_STAMPS)}')
    most = properties.get("MaxOffsetsPerTrigger", MOST_MESSAGES)
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        problems.error(file, f'"MaxOffsetsPerTrigger" is {most!r}, it must be a whole number from 1')
    topic = TopicInput(
        name,
        text_of(properties, "BootstrapServers", file, problems) or "",
        text_of(properties, "Topic", file, problems) or "",
        _format(content, file, problems),
        delimiter,
        _schema(content, file, problems),
        "CreateTime" if stamp == "CreateTime" else "LogAppendTime",
        _starting(properties, file, problems),
        most if isinstance(most, int) else MOST_MESSAGES,
        _options(properties, file, problems),
    )
    return topic if len(problems.errors) == before else None


def read_topic_output(
    content: Mapping[str, Any], name: str, delimiter: str, file: Path, problems: Problems
) -> TopicOutput | None:
    """The topic an output file describes; None after a reported problem."""
    before = len(problems.errors)
    properties = _properties(content, _OF_OUTPUT, file, problems)
    file_format, schema = _format(content, file, problems), _schema(content, file, problems)
    if file_format == "avro" and schema is None:
        problems.error(file, 'writing Avro needs "SchemaFile" in "Serialization"')
    topic = TopicOutput(
        name,
        text_of(properties, "BootstrapServers", file, problems) or "",
        text_of(properties, "Topic", file, problems) or "",
        file_format,
        delimiter,
        schema,
        text_of(properties, "KeyColumn", file, problems, required=False),
        text_of(properties, "PartitionColumn", file, problems, required=False),
        _options(properties, file, problems),
    )
    return topic if len(problems.errors) == before else None


def _properties(
    content: Mapping[str, Any], known: tuple[str, ...], file: Path, problems: Problems
) -> dict[str, Any]:
    value = content.get(_KEY)
    if not isinstance(value, dict):
        problems.error(file, f'"{_KEY}" is {json_kind(value)} where an object {{...}} is expected')
        return {}
    properties = cast("dict[str, Any]", value)
    for key in properties:
        if key not in known:
            hint = did_you_mean(key, known) or f"known are {', '.join(known)}"
            problems.error(file, f'"{_KEY}" holds {key!r}, which is not known; {hint}')
    return properties


def _format(content: Mapping[str, Any], file: Path, problems: Problems) -> TopicFormat:
    told = _serialization(content).get("Type") or "Json"
    found = _FORMATS.get(str(told).lower())
    if found is None:
        problems.error(file, f"messages in the format {told!r} are not known here; use Json, Csv or Avro")
    return found or "json"


def _schema(content: Mapping[str, Any], file: Path, problems: Problems) -> str | None:
    """The text of the Avro schema, once it is known to be JSON."""
    named = text_of(_serialization(content), "SchemaFile", file, problems, required=False)
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


def _serialization(content: Mapping[str, Any]) -> dict[str, Any]:
    value = content.get("Serialization")
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _starting(properties: Mapping[str, Any], file: Path, problems: Problems) -> str | None:
    """`earliest`, `latest`, or an object of offsets by topic and partition, as Spark's connector takes it."""
    value = properties.get("StartingOffsets")
    if isinstance(value, dict):
        return json.dumps(value)
    if value is not None and value not in ("earliest", "latest"):
        problems.error(file, f'"StartingOffsets" is {value!r}, it must be "earliest", "latest" or an object')
    return value


def _options(properties: Mapping[str, Any], file: Path, problems: Problems) -> dict[str, str]:
    value = properties.get("Options", {})
    if not isinstance(value, dict):
        problems.error(file, f'"Options" is {json_kind(value)} where an object {{...}} is expected')
        return {}
    return {
        name: each if isinstance(each, str) else json.dumps(each)
        for name, each in cast("dict[str, Any]", value).items()
    }
