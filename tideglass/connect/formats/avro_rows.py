"""Rows as an Avro object container: its schema is made of the rows it holds (`asa.md` 5.3, 6.5).

A field is a union of null and the types its values have, so values of several types fit one schema. A column
without values is a nullable string. A name that Avro does not allow has `_` for each character that is not.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any, BinaryIO, cast

import fastavro
import pyarrow as pa

from tideglass.connect.formats.layout import spread
from tideglass.core.json_rows import rows_of

avro = cast("Any", fastavro)  # compiled; its functions carry no types

_OTHER = re.compile(r"[^A-Za-z0-9_]")
_LONGS = range(-(2**63), 2**63)
#: In this order, since fastavro takes the first branch of a union that can hold a value.
_PLAIN: dict[type, str] = {bool: "boolean", int: "long", float: "double", str: "string"}
#: An entry of a record: its field's name in Avro.
_Names = dict[str, str]


def write_avro(table: pa.Table, delimiter: str, file: BinaryIO) -> None:
    """One container; the same rows are the same bytes."""
    shown = spread(table)
    shown = shown.select([name for name in shown.column_names if not name.startswith("$")])
    rows = rows_of(shown) if shown.num_columns else [{} for _ in range(table.num_rows)]
    schema, values = _record(rows, "row", shown.column_names)
    marker = hashlib.md5(json.dumps(schema).encode(), usedforsecurity=False).digest()
    avro.writer(file, avro.parse_schema(schema), values, sync_marker=marker)


def _record(
    rows: Sequence[dict[str, Any]], name: str, fields: Sequence[str]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The schema of records, and the records as it has them."""
    values: list[dict[str, Any]] = [{} for _ in rows]
    made: list[dict[str, Any]] = []
    for field, avro_name in _names(fields).items():
        type_, column = _typed([row.get(field) for row in rows], f"{name}_{avro_name}")
        made.append({"name": avro_name, "type": type_})
        for value, entry in zip(values, column, strict=True):
            value[avro_name] = entry
    return {"type": "record", "name": name, "fields": made}, values


def _typed(values: Sequence[Any], name: str) -> tuple[list[Any], list[Any]]:
    """The union of the types of values, and the values as it has them. name: of records among them."""
    shown = [float(each) if type(each) is int and each not in _LONGS else each for each in values]
    found = {type(each) for each in shown}
    branches: list[Any] = [avro_type for type_, avro_type in _PLAIN.items() if type_ in found]
    if at := [place for place, each in enumerate(shown) if isinstance(each, dict)]:
        records = [cast("dict[str, Any]", shown[place]) for place in at]
        fields = list(dict.fromkeys(field for record in records for field in record))
        schema, made = _record(records, name, fields)
        branches.append(schema)
        for place, record in zip(at, made, strict=True):
            shown[place] = record
    if at := [place for place, each in enumerate(shown) if isinstance(each, list)]:
        lists = [cast("list[Any]", shown[place]) for place in at]
        items, made_items = _typed([item for each in lists for item in each], f"{name}_item")
        branches.append({"type": "array", "items": items})
        start = 0
        for place, each in zip(at, lists, strict=True):
            shown[place] = made_items[start : start + len(each)]
            start += len(each)
    return ["null", *(branches or ["string"])], shown


def _names(fields: Sequence[str]) -> _Names:
    """A name of Avro for each field, another for each."""
    made: _Names = {}
    taken: set[str] = set()
    for field in fields:
        plain = _OTHER.sub("_", field) or "_"
        plain = f"_{plain}" if plain[0].isdigit() else plain
        name, number = plain, 1
        while name in taken:
            number += 1
            name = f"{plain}_{number}"
        taken.add(name)
        made[field] = name
    return made
