"""Rows as messages for a broker: values in each format, keys, partitions, and what is refused."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from tideglass.connect.environment import resolved
from tideglass.connect.kafka.encoding import RECORD_SCHEMA, records
from tideglass.connect.kafka.output import TopicOutput
from tideglass.connect.kafka.topic import TopicInput
from tideglass.core.errors import OutputError, ProjectError
from tideglass.core.json_rows import table_of
from tideglass.core.types import Type

ROWS: list[dict[str, Any]] = [
    {"plate": "A", "n": 1, "at": "2026-01-01T00:00:00.0000005Z", "mixed": "x", "p": 2},
    {"plate": "Bé", "n": 2, "at": "2026-01-01T00:00:01Z", "mixed": 7, "p": None},
]


def table() -> pa.Table:
    return table_of(ROWS, {"at": Type.DATETIME})


def output(**words: Any) -> TopicOutput:
    return TopicOutput("o", "localhost:9092", "t", **words)


def test_a_row_is_an_object_without_key_or_partition() -> None:
    made = records(table(), output())
    assert made.schema == RECORD_SCHEMA
    assert made["key"].to_pylist() == made["partition"].to_pylist() == [None, None]
    assert [json.loads(value)["plate"] for value in made["value"].to_pylist()] == ["A", "Bé"]
    assert json.loads(made["value"][0].as_py())["at"] == "2026-01-01T00:00:00.0000005Z"


@pytest.mark.parametrize(
    ("column", "keys"),
    [
        ("PLATE", [b"A", "Bé".encode()]),
        ("n", [b"1", b"2"]),
        ("mixed", [b"x", b"7"]),
        ("p", [b"2", None]),
        ("at", [b'"2026-01-01T00:00:00.0000005Z"', b'"2026-01-01T00:00:01.0000000Z"']),
    ],
)
def test_a_key_is_the_text_of_its_column(column: str, keys: list[bytes | None]) -> None:
    assert records(table(), output(key=column))["key"].to_pylist() == keys


def test_a_partition_is_a_whole_number_or_left_to_the_connector() -> None:
    assert records(table(), output(partition="p"))["partition"].to_pylist() == [2, None]
    for wrong in ("plate", "mixed"):
        with pytest.raises(OutputError, match="says partitions"):
            records(table(), output(partition=wrong))
    with pytest.raises(OutputError, match="says partitions"):
        records(table_of([{"p": -1}]), output(partition="p"))
    with pytest.raises(OutputError, match="do not have; they have"):
        records(table(), output(key="nothing"))


def test_a_csv_message_has_the_header_and_one_row() -> None:
    made = records(table_of([{"a": 'x"\n', "b": 1}, {"a": "y", "b": None}]), output(format="csv"))
    assert made["value"].to_pylist() == [b'a,b\n"x""\n",1\n', b"a,b\ny,\n"]


def test_an_avro_message_is_what_the_schema_says() -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "plate", "type": ["null", "string"]},
            {"name": "n", "type": "long"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        ],
    }
    avro = output(format="avro", avro_schema=json.dumps(schema))
    parsed = fastavro.parse_schema(schema)
    read = [
        fastavro.schemaless_reader(io.BytesIO(value), parsed, None)
        for value in records(table(), avro)["value"].to_pylist()
    ]
    assert [(row["plate"], row["n"], row["at"].second) for row in read] == [("A", 1, 0), ("Bé", 2, 1)]
    with pytest.raises(OutputError, match="does not fit its Avro schema"):
        records(table_of([{"plate": "A", "n": "many", "at": "2026-01-01T00:00:00Z"}]), avro)


def test_secrets_are_looked_up_and_missing_ones_named() -> None:
    assert resolved("a ${USER_X} ${P}", {"USER_X": "u", "P": "p"}) == "a u p"
    with pytest.raises(ProjectError, match="KAFKA_PASSWORD, which is not set"):
        resolved("${KAFKA_PASSWORD}", {})
    assert TopicInput("i", "s", "t").arrival == "LogAppendTime"
