"""Values of a job as a column of a database takes them (`asa.md` 5.4): converted, or refused row by row.

Writing is lossless (`asa.md` 5.2): a value that a column cannot hold is refused, and never rounded, cut or
wrapped but where the service does so too: a float in a decimal column is rounded to its digits, an instant to
those of its column, and below level 1.2 an integer keeps its low bits in SQL Server.

A converted column is held as follows, whatever the database calls it:

    INTEGER int64 · FLOAT double · DECIMAL text · TEXT, UUID text · BIT bool · DATETIME ticks as int64
    OFFSET_DATETIME ISO text with its offset
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, cast

import numpy as np
import pyarrow as pa

from tideglass.connect.sql.target_table import Family, SinkColumn
from tideglass.core.arrays import Mask, pc
from tideglass.core.iso import flat, texts_of_ticks, ticks_of_texts
from tideglass.core.time import LAST_TICKS, ORIGIN_TICKS, parse_ticks
from tideglass.core.types import TYPE_OF_TAG, Type

#: Of a `real`.
LARGEST_REAL = 3.4028234663852886e38

_UUID = re.compile(r"\{?[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\}?")
_OFFSET = re.compile(r"([zZ]|[+-]\d{2}(?::?\d{2})?)\s*$")
_DATE_AND_TIME = re.compile(r"\s*\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}")
#: Of a value in a message.
_EXCERPT_CHARACTERS = 60
_DIGITS = Context(prec=400)


@dataclass(frozen=True, slots=True)
class SinkRules:
    """What of a database or a level decides about values.

    level: the job's compatibility level.
    as_text: types of values that a text column takes besides texts.
    bits_as_integers: whether a bit may go to an integer column.
    wraps_integers: whether an integer that is too large keeps its low bits; else it is refused.
    shifts_offsets: whether an instant with an offset becomes that of UTC; else it keeps its offset.
    records_as_json: whether records and arrays are JSON in a text column; else the word `Record` or `Array`.
    utf16_lengths: whether the length of a text counts in UTF-16 units; else in characters.
    uuid_of_text: whether a text may go to a column of UUIDs.
    no_nul: whether a text may hold no character 0.
    not_finite: whether a double column takes NaN and infinities.
    """

    level: str
    as_text: frozenset[Type]
    bits_as_integers: bool
    wraps_integers: bool
    shifts_offsets: bool
    records_as_json: bool
    utf16_lengths: bool
    uuid_of_text: bool
    no_nul: bool
    not_finite: bool


#: A converted column, which rows are refused, and why these.
Converted = tuple[pa.Array, Mask, str]

_Converter = Callable[[pa.Array, SinkColumn, SinkRules], Converted]


def converted(values: pa.Array, type_: Type, column: SinkColumn, rules: SinkRules) -> Converted:
    """A column of a job's rows as the table's column takes it; a refused value is NULL."""
    if type_ is Type.NULL:
        return pa.nulls(len(values), carrier(column)), np.zeros(len(values), np.bool_), ""
    if type_ is Type.VARIANT:
        return _variant(values, column, rules)
    convert = _CONVERTERS.get((type_, column.family))
    if convert is None or not _takes(type_, column, rules):
        bad = np.asarray(values.is_valid())
        return pa.nulls(len(values), carrier(column)), bad, f"it takes no {type_.value}"
    found, bad, why = convert(values, column, rules)
    if bad.any():
        found = pc.if_else(pa.array(~bad), found, pa.scalar(None, found.type))
    return flat(found), bad, why


def carrier(column: SinkColumn) -> pa.DataType:
    """The Arrow type converted values of a column are held in."""
    match column.family:
        case Family.INTEGER | Family.DATETIME:
            return pa.int64()
        case Family.FLOAT:
            return pa.float64()
        case Family.BIT:
            return pa.bool_()
        case _:
            return pa.string()


def excerpt(value: object) -> str:
    """The beginning of a value, for a message."""
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _EXCERPT_CHARACTERS else text[: _EXCERPT_CHARACTERS - 1] + "…"


def _takes(type_: Type, column: SinkColumn, rules: SinkRules) -> bool:
    if column.family is Family.TEXT:
        return type_ is Type.NVARCHAR or type_ in rules.as_text
    if column.family is Family.UUID:
        return rules.uuid_of_text
    return (type_, column.family) != (Type.BIT, Family.INTEGER) or rules.bits_as_integers


def _variant(values: pa.Array, column: SinkColumn, rules: SinkRules) -> Converted:
    """Values of several types: those of each type are converted by themselves."""
    tags = np.array(pc.utf8_slice_codeunits(values, 0, 1).to_pylist(), object)
    texts = pc.utf8_slice_codeunits(values, 1)
    bad = np.zeros(len(values), np.bool_)
    pieces: list[pa.Array] = []
    places: list[Any] = []
    reasons: list[str] = []
    for tag in dict.fromkeys(tags.tolist()):
        here = np.flatnonzero(tags == tag) if tag is not None else np.flatnonzero([t is None for t in tags])
        type_ = Type.NULL if tag is None else TYPE_OF_TAG[tag]
        part, refused, why = converted(_of_tag(texts.take(pa.array(here)), type_), type_, column, rules)
        pieces.append(part)
        places.append(here)
        bad[here] = refused
        reasons += [why] if refused.any() else []
    if not pieces:
        return pa.nulls(len(values), carrier(column)), bad, ""
    order = np.empty(len(values), np.int64)
    order[np.concatenate(places)] = np.arange(len(values))
    return pa.concat_arrays(pieces).take(pa.array(order)), bad, "; ".join(dict.fromkeys(reasons))


def _of_tag(texts: pa.Array, type_: Type) -> pa.Array:
    """Texts behind a tag as a column of their type (`core.types`)."""
    match type_:
        case Type.BIGINT | Type.DATETIME:
            return pc.cast(texts, pa.int64())
        case Type.FLOAT:
            return pa.array([None if v is None else float(v) for v in texts.to_pylist()], pa.float64())
        case Type.BIT:
            return pc.equal(texts, "1")
        case Type.NULL:
            return pa.nulls(len(texts))
        case _:
            return texts


# ---------------------------------------------------------------- integers, floats


def _mask(condition: Any) -> Mask:
    """Where a condition holds; NULL is nowhere."""
    return np.asarray(pc.fill_null(condition, False)).astype(np.bool_)


def _integer_of_bigint(values: pa.Array, column: SinkColumn, rules: SinkRules) -> Converted:
    least, most = column.least, column.most
    none = np.zeros(len(values), np.bool_)
    if least is None or most is None:
        return values, none, ""
    outside = _mask(pc.or_(pc.less(values, least), pc.greater(values, most)))
    if rules.wraps_integers and outside.any():
        held = np.asarray(pc.fill_null(values, 0))
        low = held & (most - least)  # the range is a power of two long
        wrapped = np.where(low > most, low - (most - least) - 1, low)
        return pc.if_else(values.is_valid(), pa.array(wrapped), pa.scalar(None, pa.int64())), none, ""
    return values, outside, f"it holds integers from {least} to {most}"


def _integer_of_float(values: pa.Array, column: SinkColumn, rules: SinkRules) -> Converted:
    held = np.asarray(pc.fill_null(values, 0.0))
    whole = np.isfinite(held) & (held == np.floor(held)) & (np.abs(held) < 2.0**63)
    integers = pa.array(np.where(whole, held, 0.0).astype(np.int64), mask=np.asarray(values.is_null()))
    found, outside, why = _integer_of_bigint(integers, column, rules)
    return found, ~whole | outside, why if whole.all() else "it holds integers"


def _integer_of_bit(values: pa.Array, column: SinkColumn, rules: SinkRules) -> Converted:
    return pc.cast(values, pa.int64()), np.zeros(len(values), np.bool_), ""


def _float_of_float(values: pa.Array, column: SinkColumn, rules: SinkRules) -> Converted:
    finite = pc.is_finite(values)
    bad = np.zeros(len(values), np.bool_) if rules.not_finite else _mask(pc.invert(finite))
    if column.largest is not None:
        bad |= _mask(pc.and_(finite, pc.greater(pc.abs(values), column.largest)))
    return values, bad, "it holds no such number"


def _float_of_bigint(values: pa.Array, column: SinkColumn, rules: SinkRules) -> Converted:
    held = np.asarray(pc.fill_null(values, 0))
    floats = held.astype(np.float64 if column.largest is None else np.float32).astype(np.float64)
    inside = np.abs(floats) < 2.0**63  # the float of the largest bigint is one more than any bigint
    exact = inside & (np.where(inside, floats, 0.0).astype(np.int64) == held) | (held == -(2**63))
    return (
        pa.array(floats, mask=np.asarray(values.is_null())),
        ~exact,
        "it holds no such integer without loss",
    )


def _decimal(values: pa.Array, column: SinkColumn, rules: SinkRules) -> Converted:
    """Texts of decimals in plain digits, rounded to the column's scale, half away from zero."""
    scale = column.scale
    limit = None if column.precision is None else Decimal(10) ** (column.precision - (scale or 0))
    step = None if scale is None else Decimal(1).scaleb(-scale)
    texts: list[str | None] = []
    bad = np.zeros(len(values), np.bool_)
    for place, value in enumerate(values.to_pylist()):
        if value is None:
            texts.append(None)
            continue
        number = Decimal(repr(value))
        if number.is_finite() and step is not None:
            number = number.quantize(step, ROUND_HALF_UP, _DIGITS)
        if not number.is_finite() or (limit is not None and abs(number) >= limit):
            bad[place] = True
            texts.append(None)
        else:
            texts.append(f"{number:f}")
    return pa.array(texts, pa.string()), bad, "it holds no such number"


def _bit_of_bit(values: pa.Array, column: SinkColumn, rules: SinkRules) -> Converted:
    return values, np.zeros(len(values), np.bool_), ""


def _bit_of_bigint(values: pa.Array, column: SinkColumn, rules: SinkRules) -> Converted:
    return (
        pc.equal(values, 1),
        _mask(pc.invert(pc.is_in(values, value_set=pa.array([0, 1, None], pa.int64())))),
        "it holds 0 and 1",
    )


# ---------------------------------------------------------------- texts


def _fitting(texts: pa.Array, column: SinkColumn, rules: SinkRules) -> Converted:
    """Texts no longer than the column, without what it cannot hold."""
    bad = np.zeros(len(texts), np.bool_)
    if column.characters is not None:
        length = np.asarray(pc.fill_null(pc.utf8_length(texts), 0)).astype(np.int64)
        if rules.utf16_lengths:
            units = pc.fill_null(pc.binary_length(pc.cast(texts, pa.binary())), 0)
            for place in np.flatnonzero(np.asarray(units) >= 4):
                # A character beyond the first plane has four bytes in UTF-8 and two units in UTF-16.
                text = cast("str", texts[int(place)].as_py())
                length[place] += sum(character > "\uffff" for character in text)
        bad |= length > column.characters
    if rules.no_nul:
        bad |= _mask(pc.match_substring(texts, "\0"))
        return texts, bad, "it holds no such text: too long, or with the character 0"
    return texts, bad, f"it holds {column.characters} characters"


def _text_of_text(values: pa.Array, column: SinkColumn, rules: SinkRules) -> Converted:
    return _fitting(values, column, rules)


def _text_of_bigint(values: pa.Array, column: SinkColumn, rules: SinkRules) -> Converted:
    return _fitting(pc.cast(values, pa.string()), column, rules)


def _text_of_float(values: pa.Array, column: SinkColumn, rules: SinkRules) -> Converted:
    """As in CSV: the shortest digits that are read back as the number."""
    texts = [None if v is None else _WORDS.get(str(v), str(v)) for v in values.to_pylist()]
    return _fitting(pa.array(texts, pa.string()), column, rules)


_WORDS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _text_of_bit(values: pa.Array, column: SinkColumn, rules: SinkRules) -> Converted:
    return _fitting(pc.if_else(values, "true", "false"), column, rules)


def _text_of_datetime(values: pa.Array, column: SinkColumn, rules: SinkRules) -> Converted:
    return _fitting(texts_of_ticks(values), column, rules)


def _text_of_record(values: pa.Array, column: SinkColumn, rules: SinkRules) -> Converted:
    return _fitting(values if rules.records_as_json else _words(values, "Record"), column, rules)


def _text_of_array(values: pa.Array, column: SinkColumn, rules: SinkRules) -> Converted:
    return _fitting(values if rules.records_as_json else _words(values, "Array"), column, rules)


def _words(values: pa.Array, word: str) -> pa.Array:
    return pc.if_else(values.is_valid(), word, pa.scalar(None, pa.string()))


def _uuid_of_text(values: pa.Array, column: SinkColumn, rules: SinkRules) -> Converted:
    texts = values.to_pylist()
    bad = np.array([text is not None and _UUID.fullmatch(text) is None for text in texts], np.bool_)
    return values, bad, "the text is no UUID"


# ---------------------------------------------------------------- instants


def _datetime_of_datetime(values: pa.Array, column: SinkColumn, rules: SinkRules) -> Converted:
    least = ORIGIN_TICKS if column.least is None else column.least
    most = LAST_TICKS if column.most is None else column.most
    bad = _mask(pc.or_(pc.less(values, least), pc.greater(values, most)))
    return values, bad, "the instant is outside of its range"


def _datetime_of_text(values: pa.Array, column: SinkColumn, rules: SinkRules) -> Converted:
    ticks, no_instant = _instants(values)
    found, outside, _ = _datetime_of_datetime(ticks, column, rules)
    return found, no_instant | outside, "the text names no instant of its range in ISO 8601"


def _offset_of_datetime(values: pa.Array, column: SinkColumn, rules: SinkRules) -> Converted:
    found, bad, why = _datetime_of_datetime(values, column, rules)
    return texts_of_ticks(found), bad, why


def _offset_of_text(values: pa.Array, column: SinkColumn, rules: SinkRules) -> Converted:
    """The instant of a text; at level 1.2 with the text's own offset, before as that of UTC."""
    ticks, no_instant = _instants(values)
    found = texts_of_ticks(ticks)
    if not rules.shifts_offsets:
        found = pa.array(
            [
                own if utc is None or text is None else _with_offset(text, utc)
                for text, utc, own in zip(
                    values.to_pylist(), ticks.to_pylist(), found.to_pylist(), strict=True
                )
            ],
            pa.string(),
        )
    return found, no_instant, "the text names no instant in ISO 8601"


def _instants(values: pa.Array) -> tuple[pa.Array, Mask]:
    ticks = flat(ticks_of_texts(values))
    return ticks, np.asarray(ticks.is_null()) & np.asarray(values.is_valid())


def _with_offset(text: str, utc_ticks: int) -> str:
    """The local time of a text with its offset, `+hh:mm`, in ISO 8601; seven digits, as SQL Server has."""
    zone = _OFFSET.search(text) if _DATE_AND_TIME.match(text) else None
    digits = "" if zone is None or zone[1] in "zZ" else zone[1][1:].replace(":", "").ljust(4, "0")
    if not digits.strip("0"):
        return cast("str", texts_of_ticks(pa.array([utc_ticks], pa.int64()))[0].as_py())
    assert zone is not None
    local = parse_ticks(text[: zone.start()])
    assert local is not None
    shown = cast("str", texts_of_ticks(pa.array([local], pa.int64()))[0].as_py())
    return f"{shown.removesuffix('Z')}{zone[1][0]}{digits[:2]}:{digits[2:]}"


#: How values of a type go to a column of a family; what is not in it is refused (`asa.md` 5.4, 5.2).
_CONVERTERS: Mapping[tuple[Type, Family], _Converter] = {
    (Type.BIGINT, Family.INTEGER): _integer_of_bigint,
    (Type.BIGINT, Family.FLOAT): _float_of_bigint,
    (Type.BIGINT, Family.DECIMAL): _decimal,
    (Type.BIGINT, Family.BIT): _bit_of_bigint,
    (Type.BIGINT, Family.TEXT): _text_of_bigint,
    (Type.FLOAT, Family.INTEGER): _integer_of_float,
    (Type.FLOAT, Family.FLOAT): _float_of_float,
    (Type.FLOAT, Family.DECIMAL): _decimal,
    (Type.FLOAT, Family.TEXT): _text_of_float,
    (Type.NVARCHAR, Family.TEXT): _text_of_text,
    (Type.NVARCHAR, Family.UUID): _uuid_of_text,
    (Type.NVARCHAR, Family.DATETIME): _datetime_of_text,
    (Type.NVARCHAR, Family.OFFSET_DATETIME): _offset_of_text,
    (Type.DATETIME, Family.DATETIME): _datetime_of_datetime,
    (Type.DATETIME, Family.OFFSET_DATETIME): _offset_of_datetime,
    (Type.DATETIME, Family.TEXT): _text_of_datetime,
    (Type.BIT, Family.BIT): _bit_of_bit,
    (Type.BIT, Family.INTEGER): _integer_of_bit,
    (Type.BIT, Family.TEXT): _text_of_bit,
    (Type.RECORD, Family.TEXT): _text_of_record,
    (Type.ARRAY, Family.TEXT): _text_of_array,
}
