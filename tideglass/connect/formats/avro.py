"""Avro events: one in plain Avro per message, or those of an object container (`asa.md` 5.3).

Avro                             value
int, long                        BIGINT
float, double, decimal           FLOAT (a decimal's nearest double)
boolean                          BIT, BIGINT 0 or 1 below level 1.2
string, enum, uuid; bytes        NVARCHAR; bytes as base64 text
date, timestamps                 DATETIME
times of the day                 NVARCHAR
record, map; array               RECORD; ARRAY
union                            each value has the type of its own branch
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import cache
from typing import Any, BinaryIO, cast

import fastavro
import numpy as np
import pyarrow as pa

from tideglass.connect.formats.columnar import decode_columns
from tideglass.connect.formats.decoded import INVALID_DATA, Decoded, Refusals, merge_rejected
from tideglass.connect.formats.parquet import json_text, value_column, wanted_columns
from tideglass.core.arrays import Ints
from tideglass.core.columns import classify_json
from tideglass.core.errors import InputError
from tideglass.core.events import Fields
from tideglass.core.types import Type

avro = cast("Any", fastavro)  # compiled; its functions carry no types

#: The first bytes of an object container, which brings its schema along.
_CONTAINER = b"Obj\x01"
_LEFT_OVER = "the message is longer than an event of the schema"
_NOT_AVRO = "the message does not hold an event of the schema"
_NO_CONTAINER = "the message is no Avro object container, and the input names no schema"

_Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _DecodedRecords:
    """Records in order, the message of each, and the names of their fields."""

    records: list[_Record]
    message_of: Ints
    names: tuple[str, ...]


def checked_schema(text: str) -> str:
    """The schema's text, if it is one of a record. Raises InputError if it is not."""
    parsed = _parsed(text)
    if not isinstance(parsed, dict) or parsed.get("type") != "record" or not parsed.get("fields"):
        raise InputError("the Avro schema of an event must be that of a record with fields")
    return text


def decode_avro(
    messages: Sequence[bytes | None], schema: str | None, fields: Fields, level: str = "1.2"
) -> tuple[Decoded, Ints]:
    """The events of messages, and the message of each event by its `$line`; refusals name messages.

    schema: of plain messages, as JSON text; None: each message is a container. A message without a
    payload is no event. Raises InputError for what is no schema.
    """
    refusals = Refusals()
    read = _containers(messages, refusals) if schema is None else _plain(messages, schema, refusals)
    decoded = _decoded(read, fields, level, np.arange(len(read.records)))
    refused = [replace(each, first_line=int(read.message_of[each.first_line])) for each in decoded.rejected]
    return Decoded(decoded.table, merge_rejected([*refusals.all(), *refused])), read.message_of


@dataclass(frozen=True, slots=True)
class ContainerBlock:
    """Records of an object container that stand in one block of it, and the names of their fields."""

    records: list[_Record]
    names: tuple[str, ...]


def container_blocks(file: BinaryIO) -> Iterator[ContainerBlock]:
    """The events of an object container, a block at a time. Raises ValueError where it is no whole one."""
    try:
        reader = avro.block_reader(file)
        schema = reader.writer_schema
        if not isinstance(schema, dict) or cast("dict[str, Any]", schema).get("type") != "record":
            raise ValueError("its events are no Avro records")
        names = tuple(str(each["name"]) for each in cast("dict[str, Any]", schema)["fields"])
        for block in reader:
            yield ContainerBlock(list(block), names)
    except (OSError, ValueError):
        raise
    except Exception as error:  # bytes that are no Avro make the reader raise whatever they lead it to
        raise ValueError(f"{type(error).__name__}: {error}") from error


def decode_records(
    records: list[_Record], names: tuple[str, ...], fields: Fields, level: str, lines: Ints
) -> Decoded:
    """Events from the records of a container; `lines` are their places in the file."""
    return _decoded(_DecodedRecords(records, lines, names), fields, level, lines)


def _decoded(read: _DecodedRecords, fields: Fields, level: str, lines: Ints) -> Decoded:
    """Events from records, at `lines`."""
    columns = {
        name: _column([record.get(name) for record in read.records], level)
        for name in wanted_columns(read.names, fields)
    }
    return decode_columns(columns, fields, level, lines, Refusals(), np.ones(len(lines), np.bool_))


@cache
def _parsed(schema: str) -> Any:
    try:
        return avro.parse_schema(json.loads(schema))
    except (ValueError, TypeError, AttributeError, avro.schema.SchemaParseException) as error:
        raise InputError(f"the Avro schema cannot be read: {error}") from error


def _plain(messages: Sequence[bytes | None], schema: str, refusals: Refusals) -> _DecodedRecords:
    parsed = _parsed(schema)
    read = avro.schemaless_reader
    records: list[_Record] = []
    places: list[int] = []
    for place, message in enumerate(messages):
        if message is None:
            continue
        stream = io.BytesIO(message)
        try:
            record = read(stream, parsed, None)
        except Exception:  # bytes that are no Avro make the reader raise whatever they lead it to
            refusals.add(INVALID_DATA, _NOT_AVRO, [place], [message])
            continue
        if stream.tell() != len(message):
            refusals.add(INVALID_DATA, _LEFT_OVER, [place], [message])
            continue
        records.append(record)
        places.append(place)
    return _DecodedRecords(
        records, np.array(places, np.int64), tuple(each["name"] for each in parsed["fields"])
    )


def _containers(messages: Sequence[bytes | None], refusals: Refusals) -> _DecodedRecords:
    records: list[_Record] = []
    places: list[int] = []
    for place, message in enumerate(messages):
        if message is None:
            continue
        if not message.startswith(_CONTAINER):
            refusals.add(INVALID_DATA, _NO_CONTAINER, [place], [message])
            continue
        try:
            held = list(avro.reader(io.BytesIO(message)))
        except Exception:  # as above
            refusals.add(INVALID_DATA, "the message is a broken Avro object container", [place], [message])
            continue
        if not all(isinstance(record, dict) for record in held):
            refusals.add(INVALID_DATA, "the event is no Avro record", [place], [message])
            continue
        records += held
        places += [place] * len(held)
    names = tuple(dict.fromkeys(name for record in records for name in record))
    return _DecodedRecords(records, np.array(places, np.int64), names)


def _column(values: list[Any], level: str) -> tuple[pa.Array, Type]:
    """The values of one field in its natural type; of several kinds as VARIANT."""
    kinds = {type(value) for value in values} - {type(None)}
    if len(kinds) == 1 and not kinds & {dict, list, tuple}:
        kind = kinds.pop()
        if not issubclass(kind, bool | int | float | str | bytes | datetime | date):
            values = [_plain_value(value) for value in values]
        array, type_, _ = value_column(pa.array(values), level)
        return array, type_
    texts = [None if value is None else json_text(value) for value in values]
    array, type_, _ = classify_json(pa.array(texts, pa.string()), level)
    return array, type_


def _plain_value(value: Any) -> Any:
    """A decimal as float; a uuid or a time of the day as text."""
    if value is None:
        return None
    return float(value) if hasattr(value, "as_tuple") else str(value)
