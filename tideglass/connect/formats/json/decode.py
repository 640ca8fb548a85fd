"""JSON events as typed columns: one parse for all fields, then one look at each column's types.

Every event is judged by itself: one that is no JSON object, or holds what JSON or the service forbids,
is refused and counted, whatever fields the query needs (`asa.md` 5.3, 6.2).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import cast

import duckdb
import numpy as np
import pyarrow as pa

from tideglass.connect.formats.declared import Declared, apply_types
from tideglass.connect.formats.decoded import INVALID_DATA, Columns, Decoded, Refusals, column_name
from tideglass.connect.formats.json.fast import FEWEST_EVENTS, plain_columns
from tideglass.connect.formats.json.levels import at_level, datetimes_of
from tideglass.connect.formats.json.strict import lines_beyond_json
from tideglass.core.arrays import Ints, Mask, pc
from tideglass.core.columns import classify_json
from tideglass.core.events import Fields
from tideglass.core.iso import flat
from tideglass.core.profile import measured
from tideglass.core.sql import connection
from tideglass.core.types import PAYLOAD, Type

_NO_OBJECT = "the event is not a JSON object"
_NO_UTF8 = "the event is not valid UTF-8"
_BEYOND = "the event holds NaN, Infinity or a trailing comma, which JSON forbids"
_TOO_LARGE = "the event holds an integer outside the 64-bit range of bigint"
_SAME_NAMES = "the event has two fields whose names differ only in case"
_TOO_LARGE_NUMBER = "the field {name} holds a number outside the range of float"


@measured("decoding events")
def decode_json(
    texts: pa.Array,
    fields: Fields,
    level: str = "1.2",
    lines: Ints | None = None,
    *,
    one_line_each: bool = False,
) -> Decoded:
    """Events from JSON texts, one each (blank ones are skipped).

    texts: string or binary; of strings the bytes need not be valid UTF-8. level: compatibility level.
    lines: `$line` of each text, ascending; by default its index. one_line_each: no text has a line feed
    but at its end.
    """
    lines = np.arange(len(texts)) if lines is None else lines
    if len(texts) >= FEWEST_EVENTS and level == "1.2":
        plain = _plain(_as_string(texts), fields, lines)
        if plain is not None:
            return plain
    refusals = Refusals()
    texts, lines = _valid_text(_as_string(texts), lines, refusals)
    texts, lines = _objects(texts, lines, refusals)
    beyond = lines_beyond_json(texts, one_line_each) if len(texts) else None
    if beyond is not None:
        not_json, too_large = beyond
        refusals.add_rows(INVALID_DATA, _BEYOND, not_json, lines, texts)
        refusals.add_rows(INVALID_DATA, _TOO_LARGE, too_large & ~not_json, lines, texts)
        texts, lines = _only(texts, lines, ~(not_json | too_large))
    declared = tuple((name,) for name, _ in fields.payload_types)
    paths = tuple(dict.fromkeys((*fields.paths, *declared)))
    try:
        raw, whole = _extract(texts, paths, fields.whole)
    except (duckdb.Error, UnicodeDecodeError):  # the latter from a message that quotes half a character
        valid = valid_json(texts)
        refusals.add_rows(INVALID_DATA, _reason(texts, valid), ~valid, lines, texts)
        texts, lines = _only(texts, lines, valid)
        raw, whole = _extract(texts, paths, fields.whole)
    rewritten, refused = at_level(texts, level)
    if refused is not None:
        refusals.add_rows(INVALID_DATA, _SAME_NAMES, refused, lines, texts)
        rewritten, lines = _only(rewritten, lines, ~refused)
    if rewritten is not texts:
        texts = rewritten
        raw, whole = _extract(texts, paths, fields.whole)
    raw = [_in_other_case(texts, path, column) for path, column in zip(paths, raw, strict=True)]

    keep = np.ones(len(texts), np.bool_)
    values: dict[tuple[str, ...], tuple[pa.Array, Type]] = {}
    for path, column in zip(paths, raw, strict=True):
        array, type_, unreadable = _classified(column, level)
        values[path] = datetimes_of(array, type_, level)
        if unreadable is not None:
            message = _TOO_LARGE_NUMBER.format(name=".".join(path))
            refusals.add_rows(INVALID_DATA, message, unreadable & keep, lines, texts)
            keep &= ~unreadable
    if fields.payload_types:
        absent = {path[0]: np.asarray(column.is_null()) for path, column in zip(paths, raw, strict=True)}
        found = [
            Declared(name, type_, *values[(name,)], absent[name]) for name, type_ in fields.payload_types
        ]
        whole = apply_types(found, values, whole, level, keep, refusals, lines, texts)
    columns = Columns()
    for path in fields.paths:
        columns.add(column_name(path), *values[path])
    if whole is not None:
        columns.add(PAYLOAD, whole, Type.RECORD)
    return Decoded(columns.table(lines, keep), refusals.all())


def _plain(texts: pa.Array, fields: Fields, lines: Ints) -> Decoded | None:
    """The events, if all of them are plain and what is asked for is."""
    if fields.whole or fields.payload_types or any(len(path) > 1 for path in fields.paths):
        return None
    found = plain_columns(texts, [name for (name,) in fields.paths])
    if found is None:
        return None
    columns = Columns()
    for path, column in zip(fields.paths, found, strict=True):
        columns.add(column_name(path), *column)
    return Decoded(columns.table(lines))


def _classified(column: pa.Array, level: str) -> tuple[pa.Array, Type, Mask | None]:
    # No valid JSON text but an integer casts to int64, and most columns are integers: try that first,
    # unless the ends of the column show otherwise (a cast that fails costs more than one that works).
    ends = [column[0].as_py(), column[-1].as_py()] if len(column) else []
    if any(text is not None for text in ends) and all(
        text is None or text.lstrip("-").isdigit() for text in ends
    ):
        try:
            return pc.cast(column, pa.int64()), Type.BIGINT, None
        except pa.ArrowInvalid:
            return classify_json(column, level)
    return classify_json(column, level)


def extract_from_records(records: pa.Array, path: Sequence[str], level: str) -> tuple[pa.Array, Type]:
    """A field inside the records of a column; NULL where the record is NULL or has no such field."""
    raw, _ = _extract(records, [tuple(path)], False)
    array, type_, _ = _classified(raw[0], level)
    return array, type_


# ---------------------------------------------------------------- which texts are events


def as_binary(texts: pa.Array) -> pa.Array:
    """The same bytes without the promise that they are UTF-8."""
    return pa.Array.from_buffers(pa.binary(), len(texts), texts.buffers(), texts.null_count, texts.offset)


def _as_string(texts: pa.Array) -> pa.Array:
    if pa.types.is_string(texts.type):
        return texts
    plain = texts.cast(pa.binary())
    return pa.Array.from_buffers(pa.string(), len(plain), plain.buffers(), plain.null_count, plain.offset)


def _only(texts: pa.Array, lines: Ints, rows: Mask) -> tuple[pa.Array, Ints]:
    return (texts, lines) if rows.all() else (texts.filter(pa.array(rows)), lines[rows])


def _valid_text(texts: pa.Array, lines: Ints, refusals: Refusals) -> tuple[pa.Array, Ints]:
    """Refuse what is no UTF-8; NULL payloads are no events."""
    if texts.null_count:
        known = np.asarray(texts.is_valid())
        texts, lines = _only(texts, lines, known)
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        raw = as_binary(texts)
        valid = np.array([_is_utf8(value) for value in cast("list[bytes]", raw.to_pylist())], np.bool_)
        refusals.add_rows(INVALID_DATA, _NO_UTF8, ~valid, lines, raw)
        return _as_string(raw.filter(pa.array(valid))), lines[valid]
    return texts, lines


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _objects(texts: pa.Array, lines: Ints, refusals: Refusals) -> tuple[pa.Array, Ints]:
    """Skip blank texts, refuse those that do not begin an object; blanks and byte order marks go."""
    if len(texts) == 0:
        return texts, lines
    if _all_begin_objects(texts):
        return texts, lines
    trimmed = pc.ascii_trim_whitespace(pc.replace_substring_regex(texts, r"^\s*\x{FEFF}", ""))
    blank = np.asarray(pc.equal(trimmed, ""))
    begins = np.asarray(pc.starts_with(trimmed, "{"))
    refusals.add_rows(INVALID_DATA, _NO_OBJECT, ~begins & ~blank, lines, texts)
    return _only(trimmed, lines, begins)


def _all_begin_objects(texts: pa.Array) -> bool:
    """Whether the first character of each text is a brace; of none of them NULL."""
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    data = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    return not texts.null_count and bool(
        (offsets[:-1] < offsets[1:]).all() and (data[offsets[:-1]] == ord("{")).all()
    )


def valid_json(texts: pa.Array) -> Mask:
    """Which texts are JSON of any kind. Raises UnicodeDecodeError or duckdb.Error for what is no UTF-8."""
    return np.asarray(_ask("SELECT json_valid(line) AS y FROM lines", texts)["y"], np.bool_)


def _reason(texts: pa.Array, valid: Mask) -> str:
    """What is wrong with the first bad text, in words that do not depend on it."""
    text = texts[int(np.flatnonzero(~valid)[0])].as_py()
    try:
        json.loads(text)
    except ValueError:
        return "the event is not valid JSON"
    return "the event is not valid JSON (a surrogate without its pair)"


# ---------------------------------------------------------------- fields of valid events


def _ask(sql: str, texts: pa.Array) -> pa.Table:
    # Not core.sql.query: its cursor result copies the rows once more, a tenth of the whole decode.
    duck = connection()
    duck.register("lines", pa.table({"line": texts}))
    try:
        return duck.sql(sql).to_arrow_table()
    finally:
        duck.unregister("lines")


def _extract(
    texts: pa.Array, paths: Sequence[tuple[str, ...]], whole: bool
) -> tuple[list[pa.Array], pa.Array | None]:
    """The JSON text of each field (NULL where absent), and of the event.

    Raises duckdb.Error if any text is no JSON.
    """
    wanted = [json_path(path) for path in paths] + (["$"] if whole else [])
    if not wanted:
        if not valid_json(texts).all():
            raise duckdb.InvalidInputException("not valid JSON")
        return [], None
    listed = ", ".join(_literal(path) for path in wanted)
    chosen = ", ".join(f"CAST(x[{n + 1}] AS VARCHAR) AS c{n}" for n in range(len(wanted)))
    table = _ask(f"SELECT {chosen} FROM (SELECT json_extract(line, [{listed}]) AS x FROM lines)", texts)
    columns = [flat(column) for column in table.columns]
    return (columns[:-1], _first_of_duplicates(texts, columns[-1])) if whole else (columns, None)


def json_path(path: Sequence[str]) -> str:
    """The path of a field in DuckDB's notation; any name is taken literally.

    >>> json_path(("a", 'b"c'))
    '$."a"."b\\\\"c"'
    """
    if any(name in ("", "*") or "\\" in name for name in path):  # the dotted notation cannot write these
        return "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in path)
    return "$" + "".join('."' + name.replace('"', '\\"') + '"' for name in path)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _first_of_duplicates(texts: pa.Array, payload: pa.Array) -> pa.Array:
    """Of fields with one name in an event the first counts; rewrite the events that have such."""
    shapes = _ask(
        "SELECT any_value(k) AS y FROM (SELECT json_keys(line) AS k FROM lines) GROUP BY hash(k)", texts
    )
    if all(len(set(shape)) == len(shape) for shape in cast("list[list[str]]", shapes["y"].to_pylist())):
        return payload
    repeats = "len(list_distinct(json_keys(line))) < len(json_keys(line))"
    mask = np.asarray(_ask(f"SELECT {repeats} AS y FROM lines", texts)["y"], np.bool_)
    doubled = np.flatnonzero(mask)
    places = pa.array(doubled)
    rewritten = [_without_repeats(text) for text in cast("list[str]", payload.take(places).to_pylist())]
    return pc.replace_with_mask(payload, pa.array(mask), pa.array(rewritten, pa.string()))


def _without_repeats(event: str) -> str:
    names = cast("list[str]", json.loads(event, object_pairs_hook=lambda pairs: [n for n, _ in pairs]))
    wanted = list(dict.fromkeys(names))
    raw, _ = _extract(pa.array([event]), [(name,) for name in wanted], False)
    pairs = zip(wanted, raw, strict=True)
    return (
        "{"
        + ",".join(f"{json.dumps(n, ensure_ascii=False)}:{column[0].as_py()}" for n, column in pairs)
        + "}"
    )


def _in_other_case(texts: pa.Array, path: tuple[str, ...], column: pa.Array) -> pa.Array:
    """Fill in events that spell the path otherwise: the exact name, else a unique one (A-09)."""
    if column.null_count == 0:
        return column
    missing = column.is_null()
    rest = texts if column.null_count == len(column) else texts.filter(missing)
    possible = None
    for name in path:
        written = json.dumps(name, ensure_ascii=False)
        named = pc.match_substring(rest, written, ignore_case=True)
        possible = named if possible is None else pc.and_(possible, named)
    if possible is None or not pc.any(possible).as_py():
        return column
    rows = np.flatnonzero(np.asarray(missing))[np.asarray(possible)]
    found = _unique_match(texts.take(pa.array(rows)), path)
    mask = np.zeros(len(column), np.bool_)
    mask[rows] = True
    return pc.replace_with_mask(column, pa.array(mask), found)


def _unique_match(texts: pa.Array, path: tuple[str, ...]) -> pa.Array:
    value = texts
    for name in path:
        wanted = _literal(name)
        same = f"list_filter(list_distinct(json_keys(line)), lambda k: lower(k) = lower({wanted}))"
        key = f"CASE WHEN list_contains(same, {wanted}) THEN {wanted} WHEN len(same) = 1 THEN same[1] END"
        pointer = f"'/' || replace(replace({key}, '~', '~0'), '/', '~1')"
        matched = f"(SELECT line, {same} AS same FROM lines)"
        found = _ask(f"SELECT CAST(json_extract(line, {pointer}) AS VARCHAR) AS y FROM {matched}", value)
        value = flat(found["y"])
    return value
