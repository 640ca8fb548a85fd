"""Fields of record columns as JSON texts: all paths into one record with one parse.

A name is looked up exactly first, then regardless of case if that finds one field only (A-09).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Mask, pc
from tideglass.core.iso import flat
from tideglass.core.sql import catching_connection, connection, query
from tideglass.functions.records import field_sql, path_of
from tideglass.functions.registry import prepare
from tideglass.functions.signature import literal_sql

Keys = tuple[str, ...]

# Spellings of one field tried on whole columns before the rest is looked up row by row.
_MOST_SPELLINGS = 4


def extract_sql(record: str, paths: Sequence[Keys]) -> str:
    """SQL of a table with one column `c<n>` of JSON text per path; `record` is SQL, the table is `rows`."""
    together = {n: path for n, keys in enumerate(paths) if (path := path_of(keys)) is not None}
    place = {n: position for position, n in enumerate(together, 1)}
    columns = ", ".join(
        f"CAST({f'found[{place[n]}]' if n in place else field_sql('record', keys)} AS VARCHAR) AS c{n}"
        for n, keys in enumerate(paths)
    )
    found = (
        f"json_extract({record}, [{', '.join(map(literal_sql, together.values()))}])" if together else "NULL"
    )
    return f"SELECT {columns} FROM (SELECT {record} AS record, {found} AS found FROM rows)"


def extract(records: pa.Array | pa.ChunkedArray, paths: Sequence[Keys]) -> list[pa.Array]:
    """The JSON text each path leads to in each record; NULL where it leads nowhere."""
    prepare(connection(), catching_connection())
    texts = flat(records)
    found = query(extract_sql("r", paths), rows=pa.table({"r": texts}))
    return [_other_spellings(texts, keys, flat(found[f"c{n}"])) for n, keys in enumerate(paths)]


def _other_spellings(texts: pa.Array, keys: Keys, found: pa.Array) -> pa.Array:
    """The column with rows filled in whose record has the field in another spelling."""
    if found.null_count == 0:
        return found
    rows = np.flatnonzero(np.asarray(found.is_null()) & np.asarray(texts.is_valid()))
    if len(rows):
        rows = rows[_may_hold(texts if len(rows) == len(texts) else texts.take(pa.array(rows)), keys)]
    tried: set[Keys] = {keys}
    while len(rows):
        spelling = _spelling(cast("str", texts[int(rows[0])].as_py()), keys)
        if spelling is None or spelling in tried or len(tried) > _MOST_SPELLINGS:
            return _row_by_row(texts, keys, found, rows)
        tried.add(spelling)
        part = texts.take(pa.array(rows))
        # A record with two fields that differ only by case has none of the two; those go row by row.
        unique = _holds_once(part, keys)
        values = extract_exact(part, spelling)
        hit = np.asarray(values.is_valid()) & unique
        if not hit.any():
            return _row_by_row(texts, keys, found, rows)
        found = _filled(found, rows[hit], values.filter(pa.array(hit)))
        rows = rows[~hit]
    return found


def extract_exact(texts: pa.Array, keys: Keys) -> pa.Array:
    return flat(query(extract_sql("r", [keys]), rows=pa.table({"r": texts}))["c0"])


def _filled(column: pa.Array, rows: np.ndarray[Any, Any], values: pa.Array) -> pa.Array:
    mask = np.zeros(len(column), np.bool_)
    mask[rows] = True
    return pc.replace_with_mask(column, pa.array(mask), values)


def _needle(key: str) -> str:
    return json.dumps(key, ensure_ascii=False).lower()


def _may_hold(texts: pa.Array, keys: Keys) -> Mask:
    """A cheap look whether each record's text has every name, in whatever case."""
    tests = [f"contains(lower(r), {literal_sql(_needle(key))})" for key in keys]
    held = query(f"SELECT {' AND '.join(tests)} AS y FROM rows", rows=pa.table({"r": texts}))["y"]
    return np.asarray(flat(held))


def _holds_once(texts: pa.Array, keys: Keys) -> Mask:
    """Whether the text of each record has each name once, so that no other field can be meant."""
    tests = [
        f"length(lower(r)) - length(replace(lower(r), {literal_sql(_needle(key))}, '')) = {len(_needle(key))}"
        for key in keys
    ]
    return np.asarray(
        flat(query(f"SELECT {' AND '.join(tests)} AS y FROM rows", rows=pa.table({"r": texts}))["y"])
    )


def _spelling(record: str, keys: Keys) -> Keys | None:
    """How the record itself spells the path, or None if it has no such field or more than one."""
    value: Any = json.loads(record)
    spelled: list[str] = []
    for key in keys:
        if not isinstance(value, dict):
            return None
        fields = cast("dict[str, Any]", value)
        names = [key] if key in fields else [name for name in fields if name.lower() == key.lower()]
        if len(names) != 1:
            return None
        spelled.append(names[0])
        value = fields[names[0]]
    return tuple(spelled)


def _row_by_row(texts: pa.Array, keys: Keys, found: pa.Array, rows: np.ndarray[Any, Any]) -> pa.Array:
    by_spelling: dict[Keys, list[int]] = {}
    for row, text in zip(rows.tolist(), texts.take(pa.array(rows)).to_pylist(), strict=True):
        spelling = _spelling(cast("str", text), keys)
        if spelling is not None and spelling != keys:
            by_spelling.setdefault(spelling, []).append(row)
    for spelling, own in by_spelling.items():
        values = extract_exact(texts.take(pa.array(own)), spelling)
        found = _filled(found, np.array(own), values)
    return found
