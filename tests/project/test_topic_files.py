"""Kafka topics in project files: what is read, what is refused, and when a run uses them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tideglass.connect.files.input import FileInput
from tideglass.connect.files.output import FileOutput
from tideglass.connect.kafka.output import TopicOutput
from tideglass.connect.kafka.topic import TopicInput
from tideglass.core.errors import ProjectError
from tideglass.job.options import RunOptions
from tideglass.job.plan import plan_job
from tideglass.project.project import load_project

QUERY = "SELECT a, COUNT(*) AS n INTO counts FROM clicks TIMESTAMP BY t GROUP BY a, TumblingWindow(second, 1)"
INPUT: dict[str, Any] = {
    "Name": "clicks",
    "Type": "Data Stream",
    "DataSourceType": "Kafka",
    "KafkaProperties": {
        "BootstrapServers": "${SERVERS}",
        "Topic": "clicks-topic",
        "StartingOffsets": "earliest",
        "MaxOffsetsPerTrigger": 500,
        "ArrivalTime": "CreateTime",
        "Options": {"kafka.security.protocol": "SASL_SSL", "minPartitions": 4},
    },
    "Serialization": {"Type": "Avro", "SchemaFile": "clicks.avsc"},
    "ScriptType": "Input",
}
OUTPUT: dict[str, Any] = {
    "Name": "counts",
    "DataSourceType": "Kafka",
    "KafkaProperties": {"BootstrapServers": "s:9092", "Topic": "counts-topic", "KeyColumn": "a"},
    "Serialization": {"Type": "Csv", "FieldDelimiter": "semicolon"},
    "ScriptType": "Output",
}
SCHEMA = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}


def project(folder: Path, given: dict[str, Any] = INPUT, written: dict[str, Any] = OUTPUT) -> Path:
    (folder / "job.asaql").write_text(QUERY)
    for sub_folder, name, content in (("Inputs", "clicks", given), ("Outputs", "counts", written)):
        (folder / sub_folder).mkdir()
        (folder / sub_folder / f"{name}.json").write_text(json.dumps(content))
    (folder / "Inputs" / "clicks.avsc").write_text(json.dumps(SCHEMA))
    return folder


def test_topics_are_read_as_the_files_say(tmp_path: Path) -> None:
    loaded = load_project(project(tmp_path))
    assert loaded.inputs["clicks"].live == TopicInput(
        "clicks",
        "${SERVERS}",
        "clicks-topic",
        "avro",
        ",",
        json.dumps(SCHEMA),
        "CreateTime",
        "earliest",
        500,
        {"kafka.security.protocol": "SASL_SSL", "minPartitions": "4"},
    )
    assert loaded.outputs["counts"].connector == TopicOutput(
        "counts", "s:9092", "counts-topic", "csv", ";", key="a"
    )
    assert not any("Kafka" in notice for notice in loaded.unsupported)


def test_a_run_uses_topics_only_when_it_is_live(tmp_path: Path) -> None:
    loaded = load_project(project(tmp_path))
    with pytest.raises(ProjectError, match=r"clicks=PATH, or --live to read the topic"):
        plan_job(loaded, RunOptions(once=True))
    live = plan_job(loaded, RunOptions(once=True, live=True))
    assert (live.inputs, list(live.topics)) == ({}, ["clicks"])
    assert isinstance(live.outputs["counts"], TopicOutput)
    assert live.settings == loaded.settings, "the time policies are those of the job"

    events = tmp_path / "events.json"
    events.write_text('{"a": "x", "t": "2026-01-01T00:00:00Z"}')
    mixed = plan_job(
        loaded, RunOptions(live=True, inputs={"CLICKS": events}, outputs={"counts": str(tmp_path / "rows")})
    )
    assert isinstance(mixed.inputs["clicks"], FileInput)
    assert isinstance(mixed.outputs["counts"], FileOutput)
    assert not mixed.topics


def test_a_local_file_stands_in_for_a_topic_until_the_run_is_live(tmp_path: Path) -> None:
    folder = project(tmp_path)
    (folder / "events.json").write_text('{"a": "x", "t": "2026-01-01T00:00:00Z"}')
    mock = {"InputAlias": "clicks", "FilePath": "../events.json", "Format": "Json", "ScriptType": "InputMock"}
    (folder / "Inputs" / "Local_clicks.json").write_text(json.dumps(mock))
    loaded = load_project(folder)
    assert list(plan_job(loaded, RunOptions()).inputs) == ["clicks"]
    assert list(plan_job(loaded, RunOptions(live=True)).topics) == ["clicks"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"KafkaProperties": None}, '"KafkaProperties" is null where an object'),
        ({"KafkaProperties": {"Topic": "t"}}, '"BootstrapServers" is missing'),
        ({"KafkaProperties": INPUT["KafkaProperties"] | {"Topics": 1}}, "did you mean 'Topic'"),
        ({"KafkaProperties": INPUT["KafkaProperties"] | {"ArrivalTime": "Now"}}, "\"ArrivalTime\" is 'Now'"),
        ({"KafkaProperties": INPUT["KafkaProperties"] | {"MaxOffsetsPerTrigger": 0}}, "whole number from 1"),
        ({"KafkaProperties": INPUT["KafkaProperties"] | {"StartingOffsets": "first"}}, '"StartingOffsets"'),
        ({"KafkaProperties": INPUT["KafkaProperties"] | {"Options": []}}, '"Options" is an array'),
        ({"Serialization": {"Type": "Parquet"}}, "use Json, Csv or Avro"),
        ({"Serialization": {"Type": "Avro", "SchemaFile": "gone.avsc"}}, "the file does not exist"),
        ({"Serialization": {"Type": "Avro", "SchemaFile": "clicks.json~"}}, "clicks.json~"),
    ],
)
def test_what_is_wrong_with_a_topic_is_told_with_its_file(
    tmp_path: Path, words: dict[str, Any], told: str
) -> None:
    with pytest.raises(ProjectError, match=r"Inputs/") as refused:
        load_project(project(tmp_path, INPUT | words))
    assert told in str(refused.value)


def test_writing_avro_needs_a_schema(tmp_path: Path) -> None:
    with pytest.raises(ProjectError, match="writing Avro needs"):
        load_project(project(tmp_path, written=OUTPUT | {"Serialization": {"Type": "Avro"}}))
