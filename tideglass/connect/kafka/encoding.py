"""Rows as messages for a broker: a key, a value and a partition each (`asa.md` 5.3, 6.4).

format    value
json      the row as an object, as a line of a JSON file
csv       a header, and the row
avro      the row in plain Avro, by the output's schema; a datetime is ISO text, or a timestamp where
          the schema wants one, whose finer digits are cut
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import fastavro
import numpy as np
import pyarrow as pa

from tideglass.connect.formats.csv import row_bounds
from tideglass.connect.formats.layout import csv_bytes, spread
from tideglass.connect.formats.table import FORMATS, function
from tideglass.core.arrays import pc
from tideglass.core.columns import to_variant
from tideglass.core.errors import OutputError
from tideglass.core.iso import flat
from tideglass.core.json_rows import json_lines, rows_of
from tideglass.core.json_sql import variant_json_sql
from tideglass.core.sql import query
from tideglass.core.time import parse_ticks
from tideglass.core.types import Type, types_of

if TYPE_CHECKING:
    from tideglass.connect.kafka.output import TopicOutput

avro = cast("Any", fastavro)  # compiled; its functions carry no types

#: Rows as the values of messages.
Encode: TypeAlias = Callable[[pa.Table, "TopicOutput"], pa.Array]

RECORD_SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("partition", pa.int32())])

_TICKS_OF_TIMESTAMP = {"timestamp-millis": 10_000, "timestamp-micros": 10}
#: A text is its own key, any other value its JSON text.
_KEY_SQL = f"CASE WHEN left(x, 1) = 's' THEN substring(x, 2) ELSE {variant_json_sql('x')} END"


def records(table: pa.Table, spec: TopicOutput) -> pa.Table:
    """The rows as messages of RECORD_SCHEMA, in their order.

    Raises OutputError for a column that is not there or holds no partition, and for a row that does not fit
    the Avro schema.
    """
    shown = spread(table) if spec.key or spec.partition else table
    encode = cast("Encode", function(FORMATS[spec.format].encode or ""))
    columns = [_keys(shown, spec), encode(table, spec), _partitions(shown, spec)]
    return pa.table(columns, schema=RECORD_SCHEMA)


def encode_json(table: pa.Table, spec: TopicOutput) -> pa.Array:
    """A row as an object."""
    return json_lines(table).cast(pa.binary())


def encode_csv(table: pa.Table, spec: TopicOutput) -> pa.Array:
    """A header and a row each."""
    body = csv_bytes(table, spec.delimiter)
    bounds = row_bounds(np.frombuffer(body, np.uint8), spec.delimiter).tolist()
    header = body[: bounds[1]]
    return pa.array([header + body[start:end] for start, end in pairwise(bounds[1:])], pa.binary())


def encode_avro(table: pa.Table, spec: TopicOutput) -> pa.Array:
    """A row in plain Avro. Raises OutputError for one that does not fit the schema."""
    if spec.avro_schema is None:
        raise OutputError(f"the output {spec.name!r} writes Avro and names no schema")
    schema = avro.parse_schema(json.loads(spec.avro_schema))
    readers = {each["name"]: reader for each in schema["fields"] if (reader := _timestamp(each["type"]))}
    values: list[bytes] = []
    for row in rows_of(table):
        for name, reader in readers.items():
            if isinstance(row.get(name), str):
                row[name] = reader(row[name])
        stream = io.BytesIO()
        try:
            avro.schemaless_writer(stream, schema, row)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise OutputError(
                f"a row of {spec.name!r} does not fit its Avro schema: {error}\n  hint: the row is {row}"
            ) from error
        values.append(stream.getvalue())
    return pa.array(values, pa.binary())


def _timestamp(wanted: Any) -> Callable[[str], int | str] | None:
    """Reads ISO text where the field (or a branch of it) is a timestamp; None where it is none."""
    branches = cast("list[Any]", wanted if isinstance(wanted, list) else [wanted])
    logical = [cast("dict[str, Any]", each).get("logicalType") for each in branches if isinstance(each, dict)]
    units = [_TICKS_OF_TIMESTAMP[each] for each in logical if each in _TICKS_OF_TIMESTAMP]
    if not units:
        return None

    def read(text: str) -> int | str:
        ticks = parse_ticks(text)
        return text if ticks is None else ticks // units[0]

    return read


def _column(table: pa.Table, name: str, spec: TopicOutput) -> str:
    shown = [each for each in table.column_names if not each.startswith("$")]
    found = [each for each in shown if each == name] or [e for e in shown if e.lower() == name.lower()]
    if len(found) != 1:
        raise OutputError(
            f"the output {spec.name!r} takes keys or partitions from the column {name!r}, which its rows do "
            f"not have; they have {', '.join(shown)}"
        )
    return found[0]


def _keys(table: pa.Table, spec: TopicOutput) -> pa.Array:
    if spec.key is None:
        return pa.nulls(table.num_rows, pa.binary())
    name = _column(table, spec.key, spec)
    tagged = pa.table({"x": to_variant(flat(table[name]), types_of(table)[name])})
    return flat(query(f"SELECT {_KEY_SQL} AS y FROM t", t=tagged)["y"]).cast(pa.binary())


def _partitions(table: pa.Table, spec: TopicOutput) -> pa.Array:
    if spec.partition is None:
        return pa.nulls(table.num_rows, pa.int32())
    name = _column(table, spec.partition, spec)
    type_ = types_of(table)[name]
    column = flat(table[name])
    if type_ is Type.NULL:
        return pa.nulls(table.num_rows, pa.int32())
    least = pc.min(column).as_py() if type_ is Type.BIGINT else -1
    if least is not None and least < 0:
        raise OutputError(
            f"the column {name!r} of the output {spec.name!r} says partitions and must hold whole numbers "
            "from 0"
        )
    return pc.cast(column, pa.int32())
