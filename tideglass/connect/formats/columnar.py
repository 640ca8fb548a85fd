"""Events stored as columns (CSV, Parquet): the fields a query needs, and the event as JSON text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from tideglass.connect.formats.declared import Declared, apply_types
from tideglass.connect.formats.decoded import Columns, Decoded, Refusals, column_name
from tideglass.connect.formats.json.decode import extract_from_records
from tideglass.core import types
from tideglass.core.arrays import Ints, Mask, pc
from tideglass.core.events import Fields
from tideglass.core.json_rows import json_lines
from tideglass.core.types import PAYLOAD, Type

_HIDING = "\ue000"  # a private character, before names that begin with $

TypedColumns = Mapping[str, tuple[pa.Array, Type]]


def match_name(names: Sequence[str], wanted: str) -> str | None:
    """The column meant by `wanted`: the one of that name, else the only one that differs in case (A-09)."""
    if wanted in names:
        return wanted
    found = [name for name in names if name.lower() == wanted.lower()]
    return found[0] if len(found) == 1 else None


def decode_columns(
    columns: TypedColumns, fields: Fields, level: str, lines: Ints, refusals: Refusals, keep: Mask
) -> Decoded:
    """Events from typed columns; those with `keep` false are refused already.

    A column that is not there is NULL, or refuses every event if CREATE TABLE names it (`asa.md` 2.13).
    """
    count = len(lines)
    names = list(columns)
    values: dict[tuple[str, ...], tuple[pa.Array, Type]] = {}
    for path in fields.paths:
        values[path] = _field(columns, names, path, level, count)
    shown = dict(columns)
    if fields.payload_types:
        texts = _shown(columns, count)
        found: list[Declared] = []
        for name, wanted in fields.payload_types:
            own = match_name(names, name)
            array, type_ = columns[own] if own is not None else (pa.nulls(count), Type.NULL)
            found.append(
                Declared(name, wanted, array, type_, np.full(count, own is None), blank_is_null=True)
            )
        apply_types(found, values, None, level, keep, refusals, lines, texts)
        for name, _ in fields.payload_types:
            own = match_name(names, name)
            if own is not None:
                shown[own] = values[(name,)]
    made = Columns()
    for path in fields.paths:
        made.add(column_name(path), *values[path])
    if fields.whole:
        made.add(PAYLOAD, _shown(shown, count), Type.RECORD)
    return Decoded(made.table(lines, keep), refusals.all())


def _field(
    columns: TypedColumns, names: Sequence[str], path: tuple[str, ...], level: str, count: int
) -> tuple[pa.Array, Type]:
    own = match_name(names, path[0])
    if own is None:
        return pa.nulls(count), Type.NULL
    array, type_ = columns[own]
    if len(path) == 1:
        return array, type_
    if type_ is not Type.RECORD:
        return pa.nulls(count), Type.NULL
    return extract_from_records(array, path[1:], level)


def _shown(columns: TypedColumns, count: int) -> pa.Array:
    """The events as JSON text."""
    if not columns:
        return pa.array(["{}"] * count, pa.string())
    # json_lines leaves out names that begin with $, which here are names like any other.
    names = [_HIDING + name if name.startswith("$") else name for name in columns]
    fields = [types.field(name, type_) for name, (_, type_) in zip(names, columns.values(), strict=True)]
    texts = json_lines(pa.table([array for array, _ in columns.values()], schema=pa.schema(fields)))
    return pc.replace_substring(texts, f'"{_HIDING}$', '"$') if names != list(columns) else texts
