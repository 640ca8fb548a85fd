"""Columns of typed values: what raw JSON becomes, and how columns of different types meet (`asa.md` 5.1).

A column whose values agree is held in its natural Arrow type, any other as VARIANT (`core.types`). All of
this works on whole columns; nothing here looks at one value after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Bytes, Ints, Mask, pc
from tideglass.core.iso import flat, string_buffers
from tideglass.core.sql import query
from tideglass.core.types import PAYLOAD, TAG, TYPE_OF_TAG, Type, arrow_type, field, type_of, types_of

# What a JSON text can be, by its first byte; numbers are split into integers and others afterwards.
_NOTHING, _STRING, _INTEGER, _BOOLEAN, _OBJECT, _LIST, _FRACTION = range(7)
_CLASS_OF_BYTE = np.zeros(256, np.uint8)
_CLASS_OF_BYTE[np.frombuffer(b"-0123456789", np.uint8)] = _INTEGER
_CLASS_OF_BYTE[np.frombuffer(b"tf", np.uint8)] = _BOOLEAN
_CLASS_OF_BYTE[ord('"')] = _STRING
_CLASS_OF_BYTE[ord("{")] = _OBJECT
_CLASS_OF_BYTE[ord("[")] = _LIST
_IN_FRACTION = np.zeros(256, np.bool_)
_IN_FRACTION[np.frombuffer(b".eE", np.uint8)] = True

_TYPE_OF_CLASS = {
    _STRING: Type.NVARCHAR,
    _INTEGER: Type.BIGINT,
    _FRACTION: Type.FLOAT,
    _BOOLEAN: Type.BIT,
    _OBJECT: Type.RECORD,
    _LIST: Type.ARRAY,
}


def classify_json(raw: pa.Array | pa.ChunkedArray, level: str = "1.2") -> tuple[pa.Array, Type, Mask | None]:
    """A column of JSON texts as typed values: the column, its type, and which rows cannot be read.

    Integers are BIGINT, numbers with fraction or exponent FLOAT, booleans BIT (BIGINT 0 or 1 below level
    1.2). JSON null is NULL. The mask marks integers outside int64 and floats outside double, whose value
    is NULL here; it is None when every row could be read (`asa.md` 5.1, 5.3).
    """
    texts = flat(raw)
    count = len(texts)
    if texts.null_count == count:
        return pa.nulls(count), Type.NULL, None
    classes = _classes(texts)
    present = [int(kind) for kind in np.flatnonzero(np.bincount(classes, minlength=7)) if kind != _NOTHING]
    if not present:
        return pa.nulls(count), Type.NULL, None
    if len(present) == 1:
        nothing = classes == _NOTHING
        known = (
            pc.if_else(pa.array(~nothing), texts, pa.scalar(None, pa.string())) if nothing.any() else texts
        )
        return _typed(known, present[0], level)
    variant: pa.Array = pa.nulls(count, pa.string())
    unreadable: Mask | None = None
    for kind in present:
        rows = classes == kind
        column, type_, bad = _typed(texts.filter(pa.array(rows)), kind, level)
        variant = pc.replace_with_mask(variant, pa.array(rows), to_variant(column, type_))
        if bad is not None:
            unreadable = np.zeros(count, np.bool_) if unreadable is None else unreadable
            unreadable[np.flatnonzero(rows)[bad]] = True
    column, type_ = settle(variant, Type.VARIANT)
    return column, type_, unreadable


def _classes(texts: pa.Array) -> Bytes:
    """What each text is; NULL and JSON null are _NOTHING."""
    offsets, data = string_buffers(texts)
    starts = offsets[:-1]
    if texts.null_count:
        known = np.asarray(texts.is_valid()) & (np.diff(offsets) > 0)
        classes = np.zeros(len(texts), np.uint8)
        classes[known] = _CLASS_OF_BYTE[data[starts[known]]]
    else:
        classes = _CLASS_OF_BYTE[data[starts]]
    numbers = classes == _INTEGER
    if numbers.any():
        marks = _IN_FRACTION[data[: offsets[-1]]]
        if marks.any():
            before = np.concatenate(([0], np.cumsum(marks, dtype=np.int32)))
            fractional = before[offsets[1:]] > before[starts]
            classes[numbers & fractional] = _FRACTION
    return classes


def _typed(texts: pa.Array, kind: int, level: str) -> tuple[pa.Array, Type, Mask | None]:
    """Texts that are all of one kind (or NULL) as values."""
    if kind == _INTEGER:
        column, bad = _integers(texts)
        return column, Type.BIGINT, bad
    if kind == _FRACTION:
        column = pc.cast(texts, pa.float64())
        finite = pc.is_finite(column)
        if pc.all(finite).as_py() is not False:
            return column, Type.FLOAT, None
        bad = ~np.asarray(pc.fill_null(finite, True))
        return pc.if_else(finite, column, pa.scalar(None, pa.float64())), Type.FLOAT, bad
    if kind == _BOOLEAN:
        column = pc.equal(texts, "true")
        return (column, Type.BIT, None) if level >= "1.2" else (column.cast(pa.int64()), Type.BIGINT, None)
    if kind == _STRING:
        return _unquoted(texts), Type.NVARCHAR, None
    return texts, _TYPE_OF_CLASS[kind], None


def _integers(texts: pa.Array) -> tuple[pa.Array, Mask | None]:
    try:
        return pc.cast(texts, pa.int64()), None
    except pa.ArrowInvalid:
        column = query("SELECT TRY_CAST(x AS BIGINT) AS y FROM t", t=pa.table({"x": texts}))["y"]
        bad = np.asarray(column.is_null()) & np.asarray(texts.is_valid())
        return flat(column), bad if bad.any() else None


def _unquoted(texts: pa.Array) -> pa.Array:
    """JSON strings without quotes and escapes."""
    plain = pc.utf8_slice_codeunits(texts, 1, -1)
    if b"\\" not in memoryview(plain.buffers()[2] or b"").tobytes():
        return plain
    escaped = pc.match_substring(plain, "\\")
    unescaped = query("SELECT CAST(x AS JSON) ->> '$' AS y FROM t", t=pa.table({"x": texts.filter(escaped)}))
    return pc.replace_with_mask(plain, pc.fill_null(escaped, False), flat(unescaped["y"]))


# ---------------------------------------------------------------- VARIANT


def to_variant(array: pa.Array | pa.ChunkedArray, type_: Type) -> pa.Array:
    """The column with each value as tagged text."""
    column = flat(array)
    if type_ is Type.VARIANT:
        return column
    if type_ is Type.NULL:
        return pa.nulls(len(column), pa.string())
    if type_ is Type.FLOAT:
        # DuckDB writes the shortest text that reads back as the same double, exactly as repr does.
        text = flat(query("SELECT CAST(x AS VARCHAR) AS y FROM t", t=pa.table({"x": column}))["y"])
    elif type_ is Type.BIT:
        text = pc.if_else(column, "1", "0")
    else:
        text = pc.cast(column, pa.string())
    return pc.binary_join_element_wise(TAG[type_], text, "")


def from_variant(array: pa.Array | pa.ChunkedArray, type_: Type) -> pa.Array:
    """The natural column of a VARIANT column all of whose values have `type_`; anything else is NULL."""
    column = flat(array)
    if type_ is Type.VARIANT:
        return column
    if type_ is Type.NULL:
        return pa.nulls(len(column))
    of_type = pc.starts_with(column, TAG[type_])
    if pc.all(of_type).as_py() is False:
        column = pc.if_else(of_type, column, pa.scalar(None, pa.string()))
    text = pc.utf8_slice_codeunits(column, 1)
    if type_ is Type.BIT:
        return pc.equal(text, "1")
    return pc.cast(text, arrow_type(type_))


def tags_of(array: pa.Array | pa.ChunkedArray) -> Bytes:
    """The tag byte of each value of a VARIANT column, 0 for NULL."""
    column = flat(array)
    offsets, data = string_buffers(column)
    known = np.asarray(column.is_valid())
    tags = np.zeros(len(column), np.uint8)
    tags[known] = data[offsets[:-1][known]]
    return tags


def settle(array: pa.Array | pa.ChunkedArray, type_: Type) -> tuple[pa.Array, Type]:
    """The column in its natural type if all its values agree, else as it is."""
    column = flat(array)
    if type_ is not Type.VARIANT:
        return (pa.nulls(len(column)), Type.NULL) if column.null_count == len(column) else (column, type_)
    tags = np.flatnonzero(np.bincount(tags_of(column), minlength=256)[1:]) + 1
    if len(tags) > 1:
        return column, type_
    found = TYPE_OF_TAG[chr(int(tags[0]))] if len(tags) else Type.NULL
    return from_variant(column, found), found


def split_by_types(table: pa.Table, columns: Sequence[str]) -> list[tuple[pa.Table, Ints]]:
    """Parts of the table in which each named VARIANT column has one natural type, and their row numbers.

    Columns that are not VARIANT are left alone. A NULL joins whatever else is in its part only if all
    other named columns agree too; row numbers ascend within a part.
    """
    types = types_of(table)
    mixed = [name for name in columns if types[name] is Type.VARIANT]
    everything = np.arange(table.num_rows)
    if not mixed:
        return [(table, everything)]
    signature = np.zeros(table.num_rows, np.int64)
    for name in mixed:
        signature = signature * 256 + tags_of(table[name])
        signature = np.unique(signature, return_inverse=True)[1].astype(np.int64)
    parts: list[tuple[pa.Table, Ints]] = []
    for kind in range(int(signature.max(initial=0)) + 1):
        rows = np.flatnonzero(signature == kind)
        part = table if len(rows) == table.num_rows else table.take(pa.array(rows))
        for name in mixed:
            column, type_ = settle(part[name], Type.VARIANT)
            part = part.set_column(part.column_names.index(name), field(name, type_), column)
        parts.append((part, rows))
    return parts


def unify(tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of all tables, one table after the other.

    A column missing in a table is NULL there; a type meets NULL unchanged and becomes VARIANT where it
    meets another type. Columns are in the order in which they are first seen.
    """
    if len(tables) == 1:
        return tables[0]
    fields: dict[str, list[Type]] = {}
    for table in tables:
        for name, type_ in types_of(table).items():
            fields.setdefault(name, []).append(type_)
    target: dict[str, Type] = {}
    for name, types in fields.items():
        distinct = set(types) - {Type.NULL}
        target[name] = Type.NULL if not distinct else distinct.pop() if len(distinct) == 1 else Type.VARIANT
    schema = pa.schema([field(name, type_) for name, type_ in target.items()])
    return pa.concat_tables([_as_types(table, target, schema) for table in tables])


def by_columns(tables: Iterable[pa.Table]) -> list[list[pa.Table]]:
    """The tables with the same listed columns together, as rows of several statements for one output have.

    What a row holds must not depend on the rows of other statements beside it (`docs/decisions/0022`).
    """
    alike: dict[frozenset[str], list[pa.Table]] = {}
    for table in tables:
        alike.setdefault(frozenset(table.column_names) - {PAYLOAD}, []).append(table)
    return list(alike.values())


def _as_types(table: pa.Table, target: Mapping[str, Type], schema: pa.Schema) -> pa.Table:
    have = types_of(table)
    columns: list[pa.Array | pa.ChunkedArray] = []
    for name, type_ in target.items():
        own = have.get(name, Type.NULL)
        if own is type_ and name in have:
            columns.append(table[name])
        elif own is Type.NULL:
            columns.append(pa.nulls(table.num_rows, arrow_type(type_)))
        else:
            columns.append(to_variant(table[name], own))
    return pa.table(columns, schema=schema)


def convert(
    table: pa.Table, name: str, change: Callable[[pa.Array, Type], tuple[pa.Array, Type]]
) -> pa.Table:
    """The table with one column replaced by what `change` makes of it and its type."""
    place = table.column_names.index(name)
    column, type_ = change(flat(table[name]), type_of(table.schema.field(name)))
    return table.set_column(place, field(name, type_), column)


# ---------------------------------------------------------------- keys


def canonical_text(table: pa.Table, columns: Sequence[str]) -> pa.Array:
    """One text per row that is equal for two rows exactly if the named values are equal.

    Numbers that are equal have the same text (1 and 1.0), all else differs by type; NULL equals NULL.
    """
    if not columns:
        return pa.repeat("", table.num_rows)
    types = types_of(table)
    parts = [_canonical_sql(f'"c{place}"', types[name]) for place, name in enumerate(columns)]
    chosen = pa.table([table[name] for name in columns], names=[f"c{place}" for place in range(len(columns))])
    return flat(query(f"SELECT {' || '.join(parts)} AS y FROM t", t=chosen)["y"])


def coded_text(table: pa.Table, columns: Sequence[str]) -> tuple[np.ndarray[Any, Any], pa.Array]:
    """The canonical text of each row as a code into a list of texts, so that each is made once.

    A text may stand in the list twice (for 1 and for 1.0): equal texts are equal keys, codes need not be.
    """
    if len(columns) != 1:
        encoded = flat(canonical_text(table.select(columns), columns).dictionary_encode())
        return encoded.indices.to_numpy(), encoded.dictionary
    name = columns[0]
    encoded = flat(flat(table[name]).dictionary_encode(null_encoding="encode"))
    distinct = pa.table([encoded.dictionary], schema=pa.schema([table.schema.field(name)]))
    return encoded.indices.to_numpy(), canonical_text(distinct, columns)


def _canonical_sql(column: str, type_: Type) -> str:
    def counted(tag: str, text: str) -> str:
        return f"'{tag}' || length({text}) || ':' || {text}"

    def double(value: str) -> str:
        whole = f"{value} = trunc({value}) AND abs({value}) < 9223372036854775808.0"
        return f"CASE WHEN {whole} THEN 'i' || CAST({value} AS BIGINT) ELSE 'f' || {value} END || ','"

    match type_:
        case Type.NULL:
            return "'n'"
        case Type.BIGINT | Type.DATETIME:
            text = f"'{TAG[type_]}' || {column} || ','"
        case Type.BIT:
            text = f"CASE WHEN {column} THEN 'b1' ELSE 'b0' END"
        case Type.FLOAT:
            text = double(column)
        case Type.VARIANT:
            rest = f"substring({column}, 2)"
            text = (
                f"CASE left({column}, 1) WHEN 'b' THEN {column} "
                f"WHEN 'f' THEN {double(f'CAST({rest} AS DOUBLE)')} "
                + "".join(f"WHEN '{tag}' THEN {counted(tag, rest)} " for tag in "sra")
                + f"ELSE {column} || ',' END"
            )
        case _:
            text = counted(TAG[type_], column)
    return f"CASE WHEN {column} IS NULL THEN 'n' ELSE {text} END"
