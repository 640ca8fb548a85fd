"""Long lists of equal shape as columns: a status of hundreds of partitions is then a third of the size.

a list of at least 8 objects with the same keys   {"rows": 8, "columns": {key: COLUMN}}
COLUMN, where all values are equal                {"same": value}
where all are objects with the same keys          {"of": {key: COLUMN}}
else                                              {"each": [value, …]}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

LEAST_ROWS = 8


def packed(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a document, its long lists as columns.

    >>> packed({"a": 1, "b": [{"c": 2, "d": n} for n in range(8)]})["b"]["columns"]
    {'c': {'same': 2}, 'd': {'each': [0, 1, 2, 3, 4, 5, 6, 7]}}
    """
    return {name: _packed(value) for name, value in content.items()}


def unpacked(content: Mapping[str, Any]) -> dict[str, Any]:
    """What `packed` was made of. Raises ValueError, LookupError or TypeError for what it never makes.

    >>> rows = {"b": [{"c": 2, "d": {"e": n}} for n in range(9)]}
    >>> unpacked(packed(rows)) == rows
    True
    """
    return {name: _unpacked(value) for name, value in content.items()}


def _packed(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        return value
    rows = cast("Sequence[Any]", value)
    if len(rows) < LEAST_ROWS or not _alike(rows):
        return rows
    return {"rows": len(rows), "columns": _columns(rows)}


def _alike(rows: Sequence[Any]) -> bool:
    """Whether all are objects with the same keys."""
    if not isinstance(rows[0], dict):
        return False
    keys = cast("dict[str, Any]", rows[0]).keys()
    return all(isinstance(row, dict) and cast("dict[str, Any]", row).keys() == keys for row in rows)


def _columns(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {key: _column([row[key] for row in rows]) for key in rows[0]}


def _column(values: list[Any]) -> dict[str, Any]:
    first = values[0]
    if all(value == first and type(value) is type(first) for value in values):
        return {"same": first}
    return {"of": _columns(values)} if _alike(values) else {"each": values}


def _unpacked(value: Any) -> Any:
    if not (isinstance(value, dict) and cast("dict[str, Any]", value).keys() == {"rows", "columns"}):
        return value
    found = cast("dict[str, Any]", value)
    return _rows(found["columns"], found["rows"])


def _rows(columns: dict[str, Any], count: int) -> list[dict[str, Any]]:
    values = {key: _values(column, count) for key, column in columns.items()}
    return [{key: column[n] for key, column in values.items()} for n in range(count)]


def _values(column: dict[str, Any], count: int) -> Sequence[Any]:
    match column:
        case {"same": value}:
            return [value] * count
        case {"of": columns}:
            return _rows(columns, count)
        case {"each": list() as values}:
            if len(cast("list[Any]", values)) != count:
                raise ValueError(f"a column has {len(cast('list[Any]', values))} values, not {count}")
            return cast("list[Any]", values)
        case _:
            raise ValueError("a column is in no form it can have")
