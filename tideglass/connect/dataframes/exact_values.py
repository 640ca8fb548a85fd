"""Values of types the language has not, as texts that lose nothing, and back again.

Arrow               inside a query                         within a record or array
decimal             text of its digits: 12.50              the same text
binary              base64 text                            the same text
timestamp, date     DATETIME                               ISO text
struct              RECORD                                 object
map, keys are text  RECORD                                 object
map, other keys     ARRAY of {"key", "value"}              the same
list                ARRAY                                  array

Numbers that JSON has not, NaN and the infinities, are NULL within a record or array.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any, TypeAlias, cast

import pyarrow as pa

from tideglass.connect.formats.parquet import json_text, value_column
from tideglass.core.arrays import Mask
from tideglass.core.time import TICKS_PER_DAY, parse_ticks
from tideglass.core.types import Type

_TICKS_PER_MICROSECOND = 10

#: Makes one value of another; None stands for one that leaves every value as it is.
_Convert: TypeAlias = "Callable[[Any], Any] | None"


def exact_column(array: pa.Array, level: str = "1.2") -> tuple[pa.Array, Type, Mask | None]:
    """A column of a DataFrame as values, and which rows cannot be (None when all can)."""
    kind = array.type
    if pa.types.is_decimal(kind) and array.null_count < len(array):
        return pa.array([_digits(each) for each in array.to_pylist()], pa.string()), Type.NVARCHAR, None
    if pa.types.is_nested(kind) and array.null_count < len(array):
        convert = _to_json(kind)
        values = cast("list[Any]", array.to_pylist())
        plain = values if convert is None else [None if each is None else convert(each) for each in values]
        texts = [None if each is None else json_text(each) for each in plain]
        record = pa.types.is_struct(kind) or _has_text_keys(kind)
        return pa.array(texts, pa.string()), Type.RECORD if record else Type.ARRAY, None
    return value_column(array, level)


def column_of(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Texts that `exact_column` made, or that were read from within its JSON, as the column they were.

    Raises ValueError for a text that is none of these.
    """
    convert = _of_json(kind)
    nested = pa.types.is_nested(kind)
    made: list[Any] = []
    for text in cast("list[str | None]", texts.to_pylist()):
        value = json.loads(text) if nested and text is not None else text
        made.append(value if convert is None or value is None else convert(value))
    return pa.array(made, kind)


def _digits(value: Decimal | None) -> str | None:
    return None if value is None else format(value, "f")


def _has_text_keys(kind: Any) -> bool:
    return pa.types.is_map(kind) and (
        pa.types.is_string(kind.key_type) or pa.types.is_large_string(kind.key_type)
    )


# ---------------------------------------------------------------- into JSON


def _to_json(kind: Any) -> _Convert:
    """What makes of Arrow's Python values those that `json_text` writes; it knows times and bytes itself."""
    if pa.types.is_decimal(kind):
        return _digits
    if pa.types.is_map(kind):
        key, value = _to_json(kind.key_type), _to_json(kind.item_type)
        return partial(_plain_object if _has_text_keys(kind) else _plain_pairs, key, value)
    if pa.types.is_struct(kind):
        fields = {each.name: _to_json(each.type) for each in kind}
        changed = {name: convert for name, convert in fields.items() if convert is not None}
        return partial(_changed, changed) if changed else None
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        element = _to_json(kind.value_type)
        return None if element is None else partial(_each, element)
    return None


def _plain_object(key: _Convert, value: _Convert, pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
    return {name: _by(value, each) for name, each in pairs}


def _plain_pairs(key: _Convert, value: _Convert, pairs: list[tuple[Any, Any]]) -> list[dict[str, Any]]:
    return [{"key": _by(key, name), "value": _by(value, each)} for name, each in pairs]


def _changed(converts: dict[str, Callable[[Any], Any]], row: dict[str, Any]) -> dict[str, Any]:
    return {name: _by(converts.get(name), value) for name, value in row.items()}


def _each(convert: Callable[[Any], Any], values: list[Any]) -> list[Any]:
    return [_by(convert, value) for value in values]


def _by(convert: _Convert, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)


# ---------------------------------------------------------------- out of JSON


def _of_json(kind: Any) -> _Convert:
    """What makes of values read from JSON those that Arrow takes for a type."""
    is_ = pa.types
    if is_.is_decimal(kind):
        return Decimal
    if is_.is_binary(kind):
        return base64.b64decode
    if is_.is_timestamp(kind):
        return _microseconds
    if is_.is_date(kind):
        return _days
    if is_.is_struct(kind):
        return partial(_struct, {each.name: _of_json(each.type) for each in kind})
    if is_.is_map(kind):
        key, value = _of_json(kind.key_type), _of_json(kind.item_type)
        return partial(_pairs_of_object if _has_text_keys(kind) else _pairs, key, value)
    if is_.is_list(kind):
        element = _of_json(kind.value_type)
        return None if element is None else partial(_each, element)
    return None


def _ticks(text: str) -> int:
    ticks = parse_ticks(text)
    if ticks is None:
        raise ValueError(f"{text!r} is no time")
    return ticks


def _microseconds(text: str) -> int:
    return _ticks(text) // _TICKS_PER_MICROSECOND


def _days(text: str) -> int:
    return _ticks(text) // TICKS_PER_DAY


def _struct(fields: dict[str, _Convert], row: dict[str, Any]) -> dict[str, Any]:
    return {name: _by(convert, row.get(name)) for name, convert in fields.items()}


def _pairs_of_object(key: _Convert, value: _Convert, row: dict[str, Any]) -> list[tuple[Any, Any]]:
    return [(name, _by(value, each)) for name, each in row.items()]


def _pairs(key: _Convert, value: _Convert, rows: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    return [(_by(key, row["key"]), _by(value, row["value"])) for row in rows]
