"""Long lists of equal shape as columns: a status of hundreds of partitions is then a fourth of the size.

a list of at least 8 objects    {"rows": 8, "columns": COLUMNS}
COLUMNS                         {key: COLUMN}, of the rows that have the key; which have not is in
                                "lacks": {key: [row, …]} beside them, if there are any
COLUMN, of equal values         {"same": value}
of whole numbers                {"from": the least, "each": [how much more, …]}
of texts                        {"begin": what all begin with, "each": [the rest, …]}
of objects                      {"columns": COLUMNS}
of anything else                {"each": [value, …]}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

LEAST_ROWS = 8


def packed(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a document, its long lists as columns.

    >>> packed({"a": 1, "b": [{"c": 2, "d": 900 + n} for n in range(8)]})["b"]["columns"]
    {'c': {'same': 2}, 'd': {'from': 900, 'each': [0, 1, 2, 3, 4, 5, 6, 7]}}
    """
    return {name: _packed(value) for name, value in content.items()}


def unpacked(content: Mapping[str, Any]) -> dict[str, Any]:
    """What `packed` was made of.

    Raises ValueError, LookupError, TypeError or AttributeError for anything else.

    >>> rows = {"b": [{"c": "x", "d": {"e": n}} for n in range(9)]}
    >>> unpacked(packed(rows)) == rows
    True
    """
    return {name: _unpacked(value) for name, value in content.items()}


def _packed(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        return value
    rows = cast("Sequence[Any]", value)
    if len(rows) < LEAST_ROWS or not all(isinstance(row, dict) for row in rows):
        return rows
    return {"rows": len(rows), **_columns(rows)}


def _columns(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    lacks: dict[str, list[int]] = {}
    for key in dict.fromkeys(key for row in rows for key in row):
        having = [row[key] for row in rows if key in row]
        columns[key] = _column(having)
        if len(having) < len(rows):
            lacks[key] = [number for number, row in enumerate(rows) if key not in row]
    return {"columns": columns, "lacks": lacks} if lacks else {"columns": columns}


def _column(values: list[Any]) -> dict[str, Any]:
    first, types = values[0], {type(value) for value in values}
    if len(types) > 1:
        return {"each": values}
    if all(value == first for value in values):
        return {"same": first}
    if types == {int}:
        least = min(values)
        return {"from": least, "each": [value - least for value in values]}
    if types == {str}:
        begin = _common_begin(min(values), max(values))
        return {"begin": begin, "each": [value[len(begin) :] for value in values]}
    return _columns(values) if types == {dict} else {"each": values}


def _common_begin(first: str, last: str) -> str:
    """
    >>> _common_begin("2026-01-01", "2026-02-01")
    '2026-0'
    """
    length = next(
        (n for n, pair in enumerate(zip(first, last, strict=False)) if len(set(pair)) > 1), len(first)
    )
    return first[:length]


def _unpacked(value: Any) -> Any:
    if not (isinstance(value, dict) and "rows" in value and "columns" in value):
        return value
    found = cast("dict[str, Any]", value)
    return _rows(found, found["rows"])


def _rows(content: dict[str, Any], count: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{} for _ in range(count)]
    lacks = content.get("lacks", {})
    for key, column in content["columns"].items():
        lacking = set(lacks.get(key, ()))
        having = [row for number, row in enumerate(rows) if number not in lacking] if lacking else rows
        for row, value in zip(having, _values(column, len(having)), strict=True):
            row[key] = value
    return rows


def _values(column: dict[str, Any], count: int) -> Sequence[Any]:
    match column:
        case {"same": value}:
            return [value] * count
        case {"columns": _}:
            return _rows(column, count)
        case {"from": int() as least, "each": values}:
            return [least + value for value in values]
        case {"begin": str() as begin, "each": values}:
            return [begin + value for value in values]
        case {"each": list() as values}:
            return cast("list[Any]", values)
        case _:
            raise ValueError("a column is in no form it can have")
