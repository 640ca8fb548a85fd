"""Values of the oracle: plain Python objects, compared, converted and shown as `asa.md` 2.6 and 5 say.

NULL is None, bigint int, float float, nvarchar str, bit bool, record dict, array list, and datetime
`Instant`, which counts ticks of 100 ns from 0001-01-01 (not from 1970, as the engine does).
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from datetime import date
from typing import Any

Value = Any

LEAST_BIGINT, MOST_BIGINT = -(2**63), 2**63 - 1
SECOND = 10_000_000
DAY = 86_400 * SECOND
LAST_INSTANT = date(9999, 12, 31).toordinal() * DAY - 1

ISO = re.compile(
    r"\s*(\d{4})-(\d\d)-(\d\d)"
    r"(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?\s*([Zz]|[+-]\d\d(?::?\d\d)?)?)?\s*"
)


class OracleError(Exception):
    """The job stops: a runtime error (A-33), or a query the oracle does not understand."""


@dataclass(frozen=True, order=True)
class Instant:
    """A datetime; `ticks` counts 100 ns from 0001-01-01T00:00:00Z."""

    ticks: int


def instant_of_text(text: str) -> Instant | None:
    """The instant an ISO 8601 text names, or None; without a zone it is UTC (A-32)."""
    match = ISO.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    try:
        days = date(int(year), int(month), int(day)).toordinal() - 1
    except ValueError:
        return None
    hour, minute, second = int(hour or 0), int(minute or 0), int(second or 0)
    if hour > 23 or minute > 59 or second > 59:
        return None
    ticks = days * DAY + (hour * 3600 + minute * 60 + second) * SECOND
    ticks += int(((fraction or "") + "0000000")[:7])
    if zone and zone not in "zZ":
        digits = (zone[1:].replace(":", "") + "00")[:4]
        shift = (int(digits[:2]) * 60 + int(digits[2:])) * 60 * SECOND
        ticks += shift if zone[0] == "-" else -shift
    return Instant(ticks) if 0 <= ticks <= LAST_INSTANT else None


def text_of_instant(instant: Instant) -> str:
    """`2019-10-07T00:03:55.0000000Z` (`asa.md` 5.3)."""
    days, rest = divmod(instant.ticks, DAY)
    seconds, fraction = divmod(rest, SECOND)
    day = date.fromordinal(days + 1)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{day.year:04d}-{day.month:02d}-{day.day:02d}T{clock}.{fraction:07d}Z"


def type_name(value: Value) -> str:
    """The type's name in the language, as GetType returns it."""
    for kind, name in (
        (bool, "bit"),
        (int, "bigint"),
        (float, "float"),
        (str, "nvarchar(max)"),
        (Instant, "datetime"),
        (dict, "record"),
        (list, "array"),
    ):
        if isinstance(value, kind):
            return name
    return "null"


def is_number(value: Value) -> bool:
    """bigint, float and bit compare numerically with each other (A-30)."""
    return isinstance(value, int | float)


def identity(value: Value) -> Any:
    """What two equal values share: the key for grouping and DISTINCT. NULL equals NULL here."""
    if is_number(value):
        return ("number", value)
    if isinstance(value, dict):
        return ("record", tuple(sorted((name, identity(item)) for name, item in value.items())))
    if isinstance(value, list):
        return ("array", tuple(identity(item) for item in value))
    if isinstance(value, Instant):
        return ("datetime", value.ticks)
    return (type_name(value), value or "")


def compare(left: Value, right: Value) -> int:
    """-1, 0 or 1 for two values that are not NULL.

    A text is read as what stands on the other side, a number or a datetime (5.2); what cannot be
    read, and types without an order, stop the job.
    """
    if isinstance(left, str) and not isinstance(right, str):
        return -compare(right, left)
    if isinstance(right, str) and is_number(left):
        right = number_argument(right)
    if isinstance(right, str) and isinstance(left, Instant):
        right = datetime_argument(right)
    same = (
        (is_number(left) and is_number(right))
        or (isinstance(left, str) and isinstance(right, str))
        or (isinstance(left, Instant) and isinstance(right, Instant))
    )
    if not same:
        raise OracleError(f"values of type {type_name(left)} and {type_name(right)} have no order")
    return (left > right) - (left < right)


def equal(left: Value, right: Value) -> bool:
    """`=`: false when either side is NULL; a number equals no text (A-30)."""
    if left is None or right is None:
        return False
    if isinstance(left, Instant) != isinstance(right, Instant) and (
        isinstance(left, str) or isinstance(right, str)
    ):
        return compare(left, right) == 0
    return identity(left) == identity(right)


def holds(op: str, left: Value, right: Value) -> bool:
    """A comparison; with NULL every one is false (2.6)."""
    if left is None or right is None:
        return False
    if op in ("=", "<>"):
        return equal(left, right) == (op == "=")
    order = compare(left, right)
    return {"<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[op]


def bigint(value: int) -> int:
    """`value`, if an int64 holds it; else the job stops (A-19)."""
    if not LEAST_BIGINT <= value <= MOST_BIGINT:
        raise OracleError(f"bigint overflow: {value}")
    return value


def finite(value: float) -> float:
    """`value`, if it is a number; else the job stops (A-19)."""
    if not math.isfinite(value):
        raise OracleError("float overflow")
    return value


def text_of_float(value: float) -> str:
    """Shortest text that reads back; whole numbers carry no fraction."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def float_of_text(text: str) -> float | None:
    """The number a text spells, if it spells one."""
    if re.fullmatch(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", text, re.ASCII) is None:
        return None
    number = float(text)
    return number if math.isfinite(number) else None


def text_of(value: Value) -> str:
    """A non-NULL value as nvarchar(max)."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, float):
        return text_of_float(value)
    if isinstance(value, Instant):
        return text_of_instant(value)
    if isinstance(value, dict | list):
        return json.dumps(plain(value), separators=(",", ":"), ensure_ascii=False)
    return str(value)


class CastFailed(Exception):
    """CAST cannot convert this value."""


def cast(value: Value, type_: str) -> Value:
    """CAST; raises CastFailed where CAST would stop the job and TRY_CAST give NULL."""
    if value is None:
        return None
    kind = type_.upper().split("(")[0]
    result = {
        "BIGINT": _to_bigint,
        "FLOAT": _to_float,
        "NVARCHAR": text_of,
        "DATETIME": _to_datetime,
        "BIT": _to_bit,
        "RECORD": lambda v: v if isinstance(v, dict) else None,
        "ARRAY": lambda v: v if isinstance(v, list) else None,
    }[kind](value)
    if result is None:
        raise CastFailed(f"cannot cast value of type '{type_name(value)}' to type '{type_.lower()}'")
    return result


def _to_bigint(value: Value) -> int | None:
    if isinstance(value, str):
        value = int(value) if re.fullmatch(r"\s*[+-]?\d+\s*", value, re.ASCII) else None
    if isinstance(value, float):
        value = int(value)
    if not isinstance(value, int) or not LEAST_BIGINT <= value <= MOST_BIGINT:
        return None
    return int(value)


def _to_float(value: Value) -> float | None:
    if isinstance(value, str):
        return float_of_text(value)
    return float(value) if is_number(value) else None


def _to_datetime(value: Value) -> Instant | None:
    if isinstance(value, str):
        return instant_of_text(value)
    return value if isinstance(value, Instant) else None


def _to_bit(value: Value) -> bool | None:
    if isinstance(value, str):
        words = {"true": True, "false": False}
        value = words.get(value.strip().lower(), float_of_text(value))
    return value != 0 if is_number(value) else None


def lossless(value: Value, type_: str, level: tuple[int, int]) -> Value:
    """The value as CREATE TABLE reads it (2.13), or None for one that does not fit without loss."""
    kind = type_.split("(")[0]
    if kind == "BIT":
        words: dict[Any, bool] = {"true": True, "false": False, "1": True, "0": False, 1: True, 0: False}
        key = value.strip().lower() if isinstance(value, str) else value
        return None if isinstance(key, dict | list) else words.get(key)
    if kind == "NVARCHAR" and isinstance(value, dict | list):
        return None
    if kind == "BIGINT" and isinstance(value, float) and not value.is_integer():
        return None
    special = isinstance(value, str) and re.fullmatch(r"\s*[+-]?(nan|inf|infinity)\s*", value, re.I)
    if kind == "FLOAT" and level == (1, 0) and special:
        return float(value)
    try:
        return cast(value, kind)
    except CastFailed:
        return None


# Arguments: what a function takes where a value of another type may stand (`asa.md` 4, 5.2).


def number_argument(value: Value) -> int | float:
    """bigint or float; a text that spells a number is a float; anything else stops the job."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int | float):
        return value
    number = float_of_text(value) if isinstance(value, str) else None
    if number is None:
        raise OracleError(f"invalid type '{type_name(value)}', only 'bigint', 'float' is allowed: {value!r}")
    return number


def integer_argument(value: Value) -> int:
    """A bigint, or a text that spells one."""
    if isinstance(value, str):
        value = _to_bigint(value)
    if not isinstance(value, int):
        raise OracleError(f"invalid type '{type_name(value)}', only 'bigint' is allowed")
    return int(value)


def text_argument(value: Value) -> str:
    if not isinstance(value, str):
        raise OracleError(f"invalid type '{type_name(value)}', only 'nvarchar(max)' is allowed")
    return value


def datetime_argument(value: Value) -> Instant:
    """A datetime, or an ISO text of one."""
    found = _to_datetime(value)
    if found is None:
        raise OracleError(f"invalid type '{type_name(value)}', only 'datetime' is allowed: {value!r}")
    return found


def plain(value: Value) -> Any:
    """The value as a test sees it: datetimes are ISO text, at any depth."""
    if isinstance(value, Instant):
        return text_of_instant(value)
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def lookup(record: dict[str, Value], name: str) -> str | None:
    """The field `name` stands for: as spelled, else the only one equal but for case (A-09), else None."""
    if name in record:
        return name
    alike = [field for field in record if field.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None
