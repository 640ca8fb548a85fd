"""What the argument of an aggregate may be, as SQL by type of value (`asa.md` 4.1, 4 head, 5.2).

An argument column has a type per chunk; each aggregate wants it split into the families it adds or
compares. Text that looks like a number is taken as one; anything else the function does not know stops
the job with the service's own message (A-33).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Ints, pc
from tideglass.core.columns import from_variant, to_variant
from tideglass.core.errors import EvaluationError, FailedRow, Span
from tideglass.core.iso import flat, ticks_of_texts
from tideglass.core.sql import query, quoted
from tideglass.core.types import ORDER_COLUMNS, TAG, Type
from tideglass.plan.specs import EXTREMES, PERCENTILES, SPREADS, SUMS, TOPS, AggregateSpec

#: Ends the name of a column that stands for one of ORDER BY.
BY = "~by"

_DATED = r"^\s*[0-9]{4}-"
_NUMBER = r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$"

NUMERIC = (Type.BIGINT, Type.FLOAT)
ORDERED = (Type.BIGINT, Type.FLOAT, Type.DATETIME, Type.BIT)
SORTABLE = (Type.BIGINT, Type.FLOAT, Type.DATETIME)


@dataclass(frozen=True, slots=True)
class Families:
    """SQL of the values of a column by family; each is NULL for values of the other families. None: there
    are no such values.

    whole: BIGINT
    float: DOUBLE
    datetime: ticks, as BIGINT
    bit: BOOLEAN
    refused: the type of a value the aggregate refuses
    """

    whole: str | None = None
    float: str | None = None
    datetime: str | None = None
    bit: str | None = None
    refused: str | None = None

    @property
    def doubles(self) -> str | None:
        """Whole numbers and floats together, as DOUBLE."""
        parts = [f"{part}::DOUBLE" for part in (self.float, self.whole) if part is not None]
        return f"coalesce({', '.join(parts)})" if len(parts) > 1 else parts[0] if parts else None


def _number_of_text(text: str) -> str:
    cast = f"TRY_CAST({text} AS DOUBLE)"
    return f"CASE WHEN regexp_matches({text}, '{_NUMBER}') AND isfinite({cast}) THEN {cast} + 0.0 END"


def split(column: str, type_: Type, allowed: tuple[Type, ...]) -> Families:
    """The families of a column; `refused` names the type of a value that is not `allowed`.

    The float family holds numeric-looking text too, and never -0.0.
    """
    match type_:
        case Type.NULL:
            return Families()
        case Type.VARIANT:
            return _split_variant(column, allowed)
        case Type.NVARCHAR:
            number = _number_of_text(column)
            refused = f"CASE WHEN {column} IS NOT NULL AND ({number}) IS NULL THEN '{type_}' END"
            return Families(float=number, refused=refused)
        case _ if type_ not in allowed:
            return Families(refused=f"CASE WHEN {column} IS NOT NULL THEN '{type_}' END")
        case Type.BIGINT:
            return Families(whole=column)
        case Type.FLOAT:
            return Families(float=f"({column} + 0.0)")
        case Type.DATETIME:
            return Families(datetime=column)
        case _:
            return Families(bit=column)


def _split_variant(column: str, allowed: tuple[Type, ...]) -> Families:
    tag, rest = f"left({column}, 1)", f"substring({column}, 2)"
    number = _number_of_text(rest)
    kinds = [(TAG[kind], kind) for kind in TAG if kind not in allowed and kind is not Type.NVARCHAR]
    refused = f"WHEN {tag} = 's' AND ({number}) IS NULL THEN '{Type.NVARCHAR}' "
    refused += " ".join(f"WHEN {tag} = '{mark}' THEN '{kind}'" for mark, kind in kinds)

    def of(kind: Type, value: str) -> str | None:
        return f"CASE WHEN {tag} = '{TAG[kind]}' THEN {value} END" if kind in allowed else None

    return Families(
        whole=of(Type.BIGINT, f"{rest}::BIGINT"),
        float=f"CASE {tag} WHEN 'f' THEN {rest}::DOUBLE + 0.0 WHEN 's' THEN {number} END",
        datetime=of(Type.DATETIME, f"{rest}::BIGINT"),
        bit=of(Type.BIT, f"{rest} = '1'"),
        refused=f"CASE {refused} END",
    )


def text_of(column: str, type_: Type) -> str:
    """The text of a value that was cast to nvarchar."""
    return f"substring({column}, 2)" if type_ is Type.VARIANT else f"{column}::VARCHAR"


def json_sql(column: str, type_: Type) -> str:
    """A value as JSON text; a datetime is ISO text, a float that JSON cannot write is null."""
    match type_:
        case Type.NULL:
            return "NULL::VARCHAR"
        case Type.BIGINT:
            return f"{column}::VARCHAR"
        case Type.FLOAT:
            finite = f"WHEN isfinite({column}) THEN {column}::VARCHAR"
            return f"CASE {finite} WHEN {column} IS NOT NULL THEN 'null' END"
        case Type.NVARCHAR:
            return f"to_json({column})::VARCHAR"
        case Type.DATETIME:
            # floor, not truncation: before 1970 the ticks are negative
            micros = f"(({column} - ({column} % 10 + 10) % 10) // 10)"
            tick = f"(({column} % 10 + 10) % 10)"
            return f"""strftime(make_timestamp({micros}), '"%Y-%m-%dT%H:%M:%S.%f') || {tick} || 'Z"'"""
        case Type.BIT:
            return f"CASE WHEN {column} THEN 'true' WHEN NOT {column} THEN 'false' END"
        case Type.RECORD | Type.ARRAY:
            return column
        case Type.VARIANT:
            rest = f"substring({column}, 2)"
            casts = {
                Type.BIGINT: rest,
                Type.FLOAT: json_sql(f"{rest}::DOUBLE", Type.FLOAT),
                Type.NVARCHAR: json_sql(rest, Type.NVARCHAR),
                Type.DATETIME: json_sql(f"{rest}::BIGINT", Type.DATETIME),
                Type.BIT: f"CASE {rest} WHEN '1' THEN 'true' ELSE 'false' END",
                Type.RECORD: rest,
                Type.ARRAY: rest,
            }
            branches = " ".join(f"WHEN '{TAG[kind]}' THEN {sql}" for kind, sql in casts.items())
            return f"CASE left({column}, 1) {branches} END"


def tagged_sql(column: str, type_: Type) -> str:
    """A value as VARIANT text (`core.types`)."""
    match type_:
        case Type.NULL:
            return "NULL::VARCHAR"
        case Type.VARIANT:
            return column
        case Type.BIT:
            return f"CASE WHEN {column} THEN 'b1' WHEN NOT {column} THEN 'b0' END"
        case _:
            return f"'{TAG[type_]}' || {column}::VARCHAR"


def as_ordered(column: pa.Array, type_: Type) -> tuple[pa.Array, Type]:
    """A column of ORDER BY in which text that is an ISO time is the datetime (`asa.md` 4.1, 5.2).

    Text that is a number is left to `split`; other text stays, and is refused there.
    """
    if type_ not in (Type.NVARCHAR, Type.VARIANT):
        return column, type_
    texts = from_variant(column, Type.NVARCHAR) if type_ is Type.VARIANT else column
    dated = pc.match_substring_regex(texts, _DATED)  # only these are worth a closer look
    ticks = ticks_of_texts(pc.if_else(dated, texts, pa.scalar(None, pa.string())))
    if ticks.null_count == len(ticks):
        return column, type_
    if ticks.null_count == column.null_count:
        return ticks, Type.DATETIME
    return pc.coalesce(to_variant(ticks, Type.DATETIME), to_variant(column, type_)), Type.VARIANT


@dataclass(frozen=True, slots=True)
class SortKey:
    """SQL of a value of ORDER BY.

    struct: a struct that sorts as the value does
    refused: the type of a value that has no order, else NULL; None: all have
    number: whether a value is a number
    time: whether a value is a time; numbers and times have no order among each other
    """

    struct: str
    refused: str | None
    number: str
    time: str


def sort_key_sql(column: str, type_: Type, descending: bool) -> SortKey:
    """A struct that sorts as the value does (NULL first, NaN after every number), and `refused`.

    A whole number sorts by its nearest double, then by what that double leaves of it: so whole numbers
    and floats compare exactly. Descending is the same with all signs turned.
    """
    families = split(column, type_, ORDERED)
    sign = "-" if descending else ""
    whole, double = families.whole, families.float
    if families.bit is not None:
        as_number = f"({families.bit})::BIGINT"
        whole = as_number if whole is None else f"coalesce({whole}, {as_number})"
    kinds: list[str] = []
    numbers = [part for part in (whole and f"({whole})::DOUBLE", double) if part]
    if double is not None:
        kinds.append(f"WHEN isnan({double}) THEN 2")
    if numbers:
        kinds.append(f"WHEN coalesce({', '.join(numbers)}) IS NOT NULL THEN 1")
    if families.datetime is not None:
        kinds.append(f"WHEN {families.datetime} IS NOT NULL THEN 3")
    kind = f"CASE {' '.join(kinds)} ELSE 0 END" if kinds else "0"
    number = f"coalesce({', '.join([*numbers, '0.0'])})" if numbers else "0.0"
    if double is not None:
        number = f"CASE WHEN isnan({number}) THEN 0.0 ELSE {number} END"
    rests: list[str] = []
    if whole is not None:
        rests.append(f"(({whole})::HUGEINT - ({whole})::DOUBLE::HUGEINT)::BIGINT")
    if families.datetime is not None:
        rests.append(families.datetime)
    rest = f"coalesce({', '.join([*rests, '0'])})"
    struct = (
        f"{{'k': {sign}({kind})::BIGINT, 'd': {sign}({number})::DOUBLE + 0.0, 'r': {sign}({rest})::BIGINT}}"
    )
    parts = [part for part in (whole, double) if part is not None]
    is_number = " OR ".join(f"({part}) IS NOT NULL" for part in parts)
    is_time = f"({families.datetime}) IS NOT NULL" if families.datetime is not None else "false"
    return SortKey(struct, families.refused, f"({is_number})" if parts else "false", is_time)


def refused_rows(rows: pa.Table, refusals: Iterable[str | None]) -> Ints:
    """The places of all rows in which one of several `refused` is a type, by one statement."""
    asked = dict.fromkeys(f"({refused}) IS NOT NULL" for refused in refusals if refused is not None)
    if not asked:
        return np.array([], np.int64)
    found = flat(query(f"SELECT {' OR '.join(asked)} AS x FROM rows", rows=rows)["x"])
    return np.flatnonzero(np.asarray(found))


def refuse(
    rows: pa.Table, refused: str, value: str, argument: str, allowed: tuple[Type, ...], span: Span
) -> None:
    """Raises EvaluationError, in the service's words, for the first row whose `refused` is a type.

    value: SQL of the argument as JSON text, to be shown. argument: which one of which function.
    """
    order = [quoted(name) for name in ORDER_COLUMNS if name in rows.column_names]
    shown = f"left(CAST({value} AS VARCHAR), 100)"
    found = query(
        f"SELECT {refused} AS x, {', '.join([*order, shown])} FROM rows WHERE ({refused}) IS NOT NULL "
        f"ORDER BY {', '.join([*order, '1'])} LIMIT 1",
        rows=rows,
    )
    if found.num_rows == 0:
        return
    type_name, *numbers, text = (cell[0].as_py() for cell in found.columns)
    names = ", ".join(f"'{kind}'" for kind in allowed)
    raise EvaluationError(
        f"The {argument} has invalid type '{type_name}'. Only {names} is allowed. The value is {text}.",
        span,
        FailedRow(place=tuple(numbers) if len(numbers) == len(ORDER_COLUMNS) else None),
    )


def argument_types(spec: AggregateSpec) -> tuple[Type, ...] | None:
    """The types of value an aggregate's argument may have, beside text that is a number; None: any."""
    if spec.function in (*SUMS, *SPREADS, *PERCENTILES):
        return NUMERIC
    return ORDERED if spec.function in EXTREMES and not spec.as_text else None


def refusals_sql(spec: AggregateSpec, types: Mapping[str, Type]) -> Iterator[str | None]:
    """SQL of what an aggregate refuses in each column it reads; types: of the columns."""
    if spec.arg is None or types[spec.arg] is Type.NULL:
        return
    allowed = argument_types(spec)
    if allowed is not None:
        yield split(quoted(spec.arg), types[spec.arg], allowed).refused
    if spec.function in TOPS:
        for name, descending in spec.order_by:
            by = ordered_name(name, types)
            yield refused_values_sql(spec, sort_key_sql(quoted(by), types[by], descending).refused)


def refused_values_sql(spec: AggregateSpec, refused: str | None) -> str | None:
    """What is refused where there is a value: NULL is ignored, whatever it would be ordered by."""
    if refused is None:
        return None
    return f"CASE WHEN {quoted(str(spec.arg))} IS NOT NULL THEN {refused} END"


def ordered_name(name: str, columns: Collection[str]) -> str:
    """The column that stands for one of ORDER BY."""
    return f"{name}{BY}" if f"{name}{BY}" in columns else name
