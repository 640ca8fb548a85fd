"""Record, array, JSON and type functions (`asa.md` 4.4), and the engine's own functions on records."""

from __future__ import annotations

from collections.abc import Sequence

from tideglass.core.types import Type
from tideglass.functions.conversions import json_sql
from tideglass.functions.signature import (
    NULL_SQL,
    ArgumentKind,
    ScalarSignature,
    Sql,
    literal_sql,
    scalar,
    template,
)

MACROS = (
    # DuckDB's parser also takes NaN, infinities, comments and a comma at the end, which JSON has not.
    "tg_strict_json(s) AS json_valid(s) AND NOT regexp_matches(regexp_replace(s, "
    "'\"(?:[^\"\\\\]|\\\\.)*\"', '\"\"', 'g'), '(?i)nan|inf|/|,\\s*[}\\]]')",
    # `json` makes the text compact.
    "tg_json_parse(s) AS CASE WHEN tg_strict_json(s) AND json_type(s) = 'OBJECT' "
    "THEN CAST(json(s) AS VARCHAR) END",
    "tg_members(r) AS list_zip(json_keys(r), json_extract(r, '$.*'))",
    "tg_field(r, k) AS list_filter(tg_members(r), lambda p: p[1] = k)[1][2]",
    # The members of b that a lacks follow those of a.
    "tg_merge(a, b) AS CASE WHEN b IS NULL OR b = '{}' THEN a WHEN a IS NULL OR a = '{}' THEN b "
    "WHEN list_has_any(json_keys(a), json_keys(b)) THEN a[:-2] || coalesce(array_to_string(list_transform("
    "list_filter(tg_members(b), lambda p: NOT list_contains(json_keys(a), p[1])), "
    "lambda p: ',' || CAST(to_json(p[1]) AS VARCHAR) || ':' || CAST(p[2] AS VARCHAR)), ''), '') || '}' "
    "ELSE a[:-2] || ',' || b[2:] END",
)


def path_of(keys: Sequence[str]) -> str | None:
    """The JSON path to a field; None for names a path cannot hold: the empty one, and stars, even quoted."""
    if any(key == "" or "*" in key for key in keys):
        return None
    return "$" + "".join('."' + key.replace("\\", "\\\\").replace('"', '\\"') + '"' for key in keys)


def field_sql(record: str, keys: Sequence[str]) -> str:
    """SQL of the JSON text of a field of a record, NULL if there is none."""
    path = path_of(keys)
    if path is not None:
        return f"json_extract({record}, {literal_sql(path)})"
    for key in keys:
        record = f"tg_field({record}, {literal_sql(key)})"
    return record


def _raw(text: str) -> Sql:
    return Sql(f"CAST({text} AS VARCHAR)", Type.VARIANT, raw=True)


def _array_element(args: Sequence[Sql]) -> Sql:
    array, place = args
    if isinstance(place.constant, int):
        if place.constant < 0:
            return Sql("NULL", Type.NULL)
        return _raw(f"json_extract({array.text}, '$[{place.constant}]')")
    path = f"CASE WHEN {place.text} >= 0 THEN '$[' || {place.text} || ']' END"
    return _raw(f"json_extract({array.text}, {path})")


def _property(args: Sequence[Sql]) -> Sql:
    record, name = args
    if isinstance(name.constant, str):
        return _raw(field_sql(record.text, (name.constant,)))
    return _raw(f"tg_field({record.text}, {name.text})")


def _gettype(args: Sequence[Sql]) -> Sql:
    name = literal_sql(args[0].type.value)
    return Sql(f"CASE WHEN {args[0].text} IS NOT NULL THEN {name} END", Type.NVARCHAR)


def _record_of(args: Sequence[Sql]) -> Sql:
    members = [
        f"CAST(to_json({name.text}) AS VARCHAR) || ':' || {json_sql(value)}"
        for name, value in zip(args[::2], args[1::2], strict=True)
    ]
    return Sql(f"('{{' || {' || chr(44) || '.join(members) or repr('')} || '}}')", Type.RECORD)


def _record_merge(args: Sequence[Sql]) -> Sql:
    known = [arg for arg in args if arg.type is Type.RECORD]
    if not known:
        return Sql("'{}'", Type.RECORD)
    merged = known[0].text
    for record in known[1:]:
        merged = f"tg_merge({merged}, {record.text})"
    return Sql(f"coalesce({merged}, '{{}}')", Type.RECORD)


def _record_has(args: Sequence[Sql]) -> Sql:
    record, name = args
    if record.type is not Type.RECORD:
        return Sql("false", Type.BIT)
    return Sql(f"coalesce(list_contains(json_keys({record.text}), {name.text}), false)", Type.BIT)


_FAMILY = "record and array"


def _json_parse(args: Sequence[Sql]) -> Sql:
    (text,) = args
    return Sql(f"tg_json_parse({text.text})", Type.RECORD) if text.type is Type.NVARCHAR else NULL_SQL


SCALARS: tuple[ScalarSignature, ...] = (
    scalar(
        "getarrayelement",
        _FAMILY,
        (ArgumentKind.ARRAY, ArgumentKind.INTEGER),
        "The element at a position counted from 0; NULL if there is none.",
        _array_element,
    ),
    scalar(
        "getarraylength",
        _FAMILY,
        (ArgumentKind.ARRAY,),
        "The number of elements.",
        template("CAST(json_array_length({0}) AS BIGINT)", Type.BIGINT),
    ),
    scalar(
        "getrecordpropertyvalue",
        _FAMILY,
        (ArgumentKind.RECORD, ArgumentKind.TEXT),
        "The field of a record with this name; NULL if there is none.",
        _property,
    ),
    scalar(
        "json_parse",
        _FAMILY,
        (ArgumentKind.ANY,),
        "The record a JSON text holds; NULL if it is no text, or no JSON object.",
        _json_parse,
    ),
    scalar("gettype", _FAMILY, (ArgumentKind.ANY,), "The name of the value's type.", _gettype),
)

#: What the binder may call and users cannot.
ENGINE_SCALARS: tuple[ScalarSignature, ...] = (
    scalar(
        "record.of",
        "engine",
        (ArgumentKind.ANY,),
        "The record with these names and values, given in turn.",
        _record_of,
        min_args=0,
        variadic=True,
        strict=False,
    ),
    scalar(
        "record.merge",
        "engine",
        (ArgumentKind.ANY,),
        "The fields of all that are records; of fields with one name the first.",
        _record_merge,
        min_args=1,
        variadic=True,
        strict=False,
    ),
    scalar(
        "record.has",
        "engine",
        (ArgumentKind.ANY, ArgumentKind.TEXT),
        "Whether a record has a field of this name, be it NULL.",
        _record_has,
        strict=False,
    ),
)
