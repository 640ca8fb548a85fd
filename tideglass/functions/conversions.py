"""Conversions between types: CAST and TRY_CAST, and what happens by itself (`asa.md` 5.2)."""

from __future__ import annotations

from collections.abc import Sequence

from tideglass.core.json_sql import variant_json_sql
from tideglass.core.time import parse_ticks
from tideglass.core.types import TAG, Type
from tideglass.functions.signature import ArgumentKind, Sql, literal_sql

#: DuckDB's name of the type a value is held in.
HELD: dict[Type, str] = {
    Type.BIGINT: "BIGINT",
    Type.FLOAT: "DOUBLE",
    Type.NVARCHAR: "VARCHAR",
    Type.DATETIME: "BIGINT",
    Type.BIT: "BOOLEAN",
    Type.RECORD: "VARCHAR",
    Type.ARRAY: "VARCHAR",
    Type.VARIANT: "VARCHAR",
}

# DuckDB reads more texts as numbers than the language does: 1_000, 0x10, nan, and 12.5 as an integer.
_MAY_BE_INTEGER = r"\s*[+-]?[0-9]+\s*"
_MAY_BE_FLOAT = r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*"

MACROS = (
    f"tg_bigint(s) AS CASE WHEN regexp_full_match(s, '{_MAY_BE_INTEGER}') "
    "THEN TRY_CAST(trim(s) AS BIGINT) END",
    f"tg_float(s) AS CASE WHEN regexp_full_match(s, '{_MAY_BE_FLOAT}') "
    "AND isfinite(TRY_CAST(s AS DOUBLE)) THEN TRY_CAST(s AS DOUBLE) END",
    "tg_bit(s) AS CASE lower(trim(s)) WHEN 'true' THEN true WHEN 'false' THEN false "
    "ELSE tg_float(s) <> 0 END",
    # A whole float is written without a point, as the service does; others as short as they read back.
    "tg_float_text(x) AS CASE WHEN abs(x) < 1e15 AND x = trunc(x) THEN CAST(CAST(x AS BIGINT) AS VARCHAR) "
    "ELSE CAST(x AS VARCHAR) END",
    "tg_float_json(x) AS CASE WHEN isfinite(x) THEN CAST(x AS VARCHAR) ELSE 'null' END",
    f"tg_variant_json(x) AS {variant_json_sql('x')}",
)

# SQL that is NULL where the conversion fails. Pairs that are missing cannot be converted at all.
_CONVERSION: dict[tuple[Type, Type], str] = {
    (Type.FLOAT, Type.BIGINT): "TRY_CAST(trunc({0}) AS BIGINT)",
    (Type.NVARCHAR, Type.BIGINT): "tg_bigint({0})",
    (Type.BIT, Type.BIGINT): "CAST({0} AS BIGINT)",
    (Type.BIGINT, Type.FLOAT): "CAST({0} AS DOUBLE)",
    (Type.NVARCHAR, Type.FLOAT): "tg_float({0})",
    (Type.BIT, Type.FLOAT): "CAST({0} AS DOUBLE)",
    (Type.BIGINT, Type.NVARCHAR): "CAST({0} AS VARCHAR)",
    (Type.FLOAT, Type.NVARCHAR): "tg_float_text({0})",
    (Type.DATETIME, Type.NVARCHAR): "tg_iso({0})",
    (Type.BIT, Type.NVARCHAR): "CASE WHEN {0} THEN '1' WHEN NOT {0} THEN '0' END",
    (Type.RECORD, Type.NVARCHAR): "{0}",
    (Type.ARRAY, Type.NVARCHAR): "{0}",
    (Type.NVARCHAR, Type.DATETIME): "tg_ticks({0})",
    (Type.BIGINT, Type.BIT): "({0} <> 0)",
    (Type.FLOAT, Type.BIT): "({0} <> 0)",
    (Type.NVARCHAR, Type.BIT): "tg_bit({0})",
}
_NEVER_FAILS = {
    (source, target)
    for source, target in _CONVERSION
    if target is Type.NVARCHAR
    or (source is not Type.NVARCHAR and (source, target) != (Type.FLOAT, Type.BIGINT))
}


def convert_sql(value: Sql, target: Type, *, lenient: bool, strict_message: str = "") -> Sql:
    """The value as `target`. What cannot be converted is NULL if `lenient`, else it stops the job."""
    if value.type in (target, Type.NULL):
        return value
    conversion = _CONVERSION.get((value.type, target))
    if conversion is None:
        message = f"Cannot cast value of type '{value.type.value}' to type '{target.value}'."
        return (
            Sql("NULL", Type.NULL, value.fallible)
            if lenient
            else refusal(value, target, strict_message or message)
        )
    if target is Type.DATETIME and isinstance(value.constant, str):
        # An instant written in the query is read once, not once a row.
        ticks = parse_ticks(value.constant)
        if ticks is not None:
            return Sql(f"CAST({ticks} AS BIGINT)", target, constant=ticks)
    converted = conversion.format(value.text)
    if lenient or (value.type, target) in _NEVER_FAILS:
        return Sql(converted, target, value.fallible)
    shown = f"left(CAST({value.text} AS VARCHAR), 100)"
    problem = strict_message or f"Cannot cast value of type '{value.type.value}' to type '{target.value}'."
    stop = f"error({literal_sql(problem + ' The value is ')} || {shown} || '.')"
    return Sql(
        f"CASE WHEN {value.text} IS NOT NULL THEN coalesce({converted}, {stop}) END", target, fallible=True
    )


def refusal(value: Sql, type_: Type, message: str) -> Sql:
    """SQL that stops the job with `message` wherever the value is not NULL."""
    # The message depends on the row, so that DuckDB cannot compute it before it looks at the rows.
    late = f"error({literal_sql(message)} || left(CAST({value.text} AS VARCHAR), 0))"
    return Sql(
        f"CAST(CASE WHEN {value.text} IS NOT NULL THEN {late} END AS {HELD[type_]})", type_, fallible=True
    )


_ORDINALS = {1: "st", 2: "nd", 3: "rd"}


def invalid_type(function: str, place: int, found: Type, kind: ArgumentKind) -> str:
    """The service's message for an argument of a wrong type (`asa.md` 4)."""
    ordinal = f"{place}{_ORDINALS.get(place if place < 20 else place % 10, 'th')}"
    allowed = ", ".join(f"'{type_.value}'" for type_ in kind.allowed)
    return (
        f"The {ordinal} argument of function {function} has invalid type '{found.value}'. "
        f"Only {allowed} is allowed."
    )


def implicit(value: Sql, kind: ArgumentKind, function: str, place: int) -> Sql:
    """The value as an argument of this kind: lossless conversions happen by themselves, others stop the job.

    `place` counts from 1. Text that looks like a number becomes one, ISO text becomes a datetime.
    """
    allowed = kind.allowed
    if not allowed or value.type in allowed or value.type is Type.NULL:
        return value
    message = invalid_type(function, place, value.type, kind)
    match value.type, kind:
        case Type.BIT, ArgumentKind.NUMBER | ArgumentKind.INTEGER:
            return convert_sql(value, Type.BIGINT, lenient=False)
        case Type.NVARCHAR, ArgumentKind.NUMBER:
            return convert_sql(value, Type.FLOAT, lenient=False, strict_message=message)
        case Type.NVARCHAR, ArgumentKind.INTEGER:
            return convert_sql(value, Type.BIGINT, lenient=False, strict_message=message)
        case Type.NVARCHAR, ArgumentKind.DATE:
            return convert_sql(value, Type.DATETIME, lenient=False, strict_message=message)
        case _:
            return refusal(value, allowed[-1], message)


def text_sql(value: Sql) -> str:
    """SQL of the value as nvarchar, NULL if it is NULL."""
    if value.type is Type.NULL:
        return "CAST(NULL AS VARCHAR)"
    return convert_sql(value, Type.NVARCHAR, lenient=False).text


def json_sql(value: Sql) -> str:
    """SQL of the value's JSON text; never NULL."""
    match value.type:
        case Type.NULL:
            return "'null'"
        case Type.FLOAT:
            text = f"tg_float_json({value.text})"
        case Type.NVARCHAR:
            text = f"CAST(to_json({value.text}) AS VARCHAR)"
        case Type.DATETIME:
            text = f"'\"' || tg_iso({value.text}) || '\"'"
        case Type.BIT:
            text = f"CASE WHEN {value.text} THEN 'true' WHEN NOT {value.text} THEN 'false' END"
        case Type.VARIANT:
            text = value.text if value.raw else f"tg_variant_json({value.text})"
        case _:
            text = f"CAST({value.text} AS VARCHAR)"
    return f"coalesce({text}, 'null')"


def variant_sql(value: Sql) -> str:
    """SQL of the value as tagged text."""
    match value.type:
        case Type.NULL:
            return "CAST(NULL AS VARCHAR)"
        case Type.VARIANT:
            return value.text
        case Type.BIT:
            return f"CASE WHEN {value.text} THEN 'b1' WHEN NOT {value.text} THEN 'b0' END"
        case _:
            return f"('{TAG[value.type]}' || CAST({value.text} AS VARCHAR))"


def combine(values: Sequence[Sql], *, to_float: bool = False) -> tuple[Type, list[str]]:
    """One type for values of which each row takes one, and their SQL in it.

    Different types are VARIANT: the type of the row's value must not depend on other rows. `to_float`:
    the query itself has a float among the results, so bigints become floats (`asa.md` 2.12).
    """
    types = {value.type for value in values} - {Type.NULL}
    if not types:
        return Type.NULL, ["NULL" for _ in values]
    if to_float and Type.BIGINT in types and types <= {Type.BIGINT, Type.FLOAT}:
        values = [convert_sql(value, Type.FLOAT, lenient=False) for value in values]
        types = {Type.FLOAT}
    if len(types) > 1:
        return Type.VARIANT, [variant_sql(value) for value in values]
    type_ = types.pop()
    return type_, [f"CAST(NULL AS {HELD[type_]})" if v.type is Type.NULL else v.text for v in values]
