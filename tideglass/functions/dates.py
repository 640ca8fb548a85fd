"""Date and time functions (`asa.md` 4.5), exact to 100 ns: a datetime is its int64 ticks.

Macros count from 0001-01-01 (`tg_since`), so that integer division always rounds down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tideglass.core.time import (
    LAST_TICKS,
    ORIGIN_TICKS,
    TICKS_PER_DAY,
    TICKS_PER_HOUR,
    TICKS_PER_MICROSECOND,
    TICKS_PER_MILLISECOND,
    TICKS_PER_MINUTE,
    TICKS_PER_SECOND,
)
from tideglass.core.types import Type
from tideglass.functions.duckdb_functions import PythonFunction
from tideglass.functions.signature import ArgumentKind, ScalarSignature, Sql, scalar, template, unless

if TYPE_CHECKING:
    import pyarrow as pa

#: Every spelling of a date part and the canonical one.
DATEPARTS: Mapping[str, str] = {
    spelling: names[0]
    for names in (
        ("year", "yy", "yyyy"),
        ("quarter", "qq", "q"),
        ("month", "mm", "m"),
        ("dayofyear", "dy", "y"),
        ("day", "dd", "d"),
        ("week", "wk", "ww"),
        ("weekday", "dw", "w"),
        ("hour", "hh"),
        ("minute", "mi", "n"),
        ("second", "ss", "s"),
        ("millisecond", "ms"),
        ("microsecond", "mcs"),
    )
    for spelling in names
}

_OUT_OF_RANGE = "the datetime is outside the years 0001 to 9999."

MACROS = (
    f"tg_since(t) AS t - ({ORIGIN_TICKS})",
    f"tg_day(t) AS tg_since(t) // {TICKS_PER_DAY}",
    "tg_date(t) AS DATE '0001-01-01' + CAST(tg_day(t) AS INTEGER)",
    f"tg_of_date(d) AS (d - DATE '0001-01-01') * {TICKS_PER_DAY} + ({ORIGIN_TICKS})",
    f"tg_moment(t) AS {unless(f't NOT BETWEEN {ORIGIN_TICKS} AND {LAST_TICKS}', _OUT_OF_RANGE, 't')}",
    "tg_add_months(n, t) AS "
    + unless(
        "n NOT BETWEEN -120000 AND 120000",
        _OUT_OF_RANGE,
        "tg_moment(tg_of_date(CAST(tg_date(t) + to_months(CAST(n AS INTEGER)) AS DATE)) "
        f"+ tg_since(t) % {TICKS_PER_DAY})",
    ),
    # A count beyond every datetime is cut to one just beyond, so that the sum cannot overflow.
    f"tg_add(n, unit, t) AS tg_moment(t + least(greatest(n, -{LAST_TICKS - ORIGIN_TICKS} // unit - 1), "
    f"{LAST_TICKS - ORIGIN_TICKS} // unit + 1) * unit)",
    # To a constant: how far it is from both ends of time is known.
    "tg_add_to(t, n, unit, low, high) AS "
    + unless("n NOT BETWEEN low AND high", _OUT_OF_RANGE, "t + n * unit"),
    # Weeks begin on Sunday and the first of January is in week 1, as in T-SQL.
    "tg_week(t) AS (dayofyear(tg_date(t)) - 1 + dayofweek(date_trunc('year', tg_date(t)))) // 7 + 1",
    "tg_from_parts(y, mo, d, h, mi, s, ms) AS "
    + unless(
        "NOT (y BETWEEN 1 AND 9999 AND mo BETWEEN 1 AND 12 AND d BETWEEN 1 AND 31 AND h BETWEEN 0 AND 23 "
        "AND mi BETWEEN 0 AND 59 AND s BETWEEN 0 AND 59 AND ms BETWEEN 0 AND 999) "
        "OR (d > 28 AND d > day(last_day(make_date(least(greatest(y, 1), 9999), "
        "least(greatest(mo, 1), 12), 1))))",
        "DATETIMEFROMPARTS got values that are no date and time.",
        f"tg_of_date(make_date(y, mo, d)) + h * {TICKS_PER_HOUR} + mi * {TICKS_PER_MINUTE} "
        f"+ s * {TICKS_PER_SECOND} + ms * {TICKS_PER_MILLISECOND}",
    ),
)


def _ticks(texts: pa.Array) -> pa.Array:
    from tideglass.core.iso import ticks_of_texts

    return ticks_of_texts(texts)


def _iso(ticks: pa.Array) -> pa.Array:
    from tideglass.core.iso import texts_of_ticks

    return texts_of_ticks(ticks)


PYTHON_FUNCTIONS = (
    PythonFunction("tg_ticks", _ticks, ("VARCHAR",), "BIGINT"),
    PythonFunction("tg_iso", _iso, ("BIGINT",), "VARCHAR"),
)

#: Date parts of a fixed length. Their boundaries lie at whole numbers of it since 0001-01-01, a Monday;
#: those of weeks before Sundays.
PART_TICKS = {
    "week": 7 * TICKS_PER_DAY,
    "day": TICKS_PER_DAY,
    "dayofyear": TICKS_PER_DAY,
    "weekday": TICKS_PER_DAY,
    "hour": TICKS_PER_HOUR,
    "minute": TICKS_PER_MINUTE,
    "second": TICKS_PER_SECOND,
    "millisecond": TICKS_PER_MILLISECOND,
    "microsecond": TICKS_PER_MICROSECOND,
}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}

# Value of a part of {0}; each is SQL of a BIGINT.
_PART = {
    "year": "year(tg_date({0}))",
    "quarter": "quarter(tg_date({0}))",
    "month": "month(tg_date({0}))",
    "dayofyear": "dayofyear(tg_date({0}))",
    "day": "day(tg_date({0}))",
    "week": "tg_week({0})",
    "weekday": "(tg_day({0}) + 1) % 7 + 1",  # 0001-01-01 is a Monday, and Sunday is 1
    "hour": f"tg_since({{0}}) % {TICKS_PER_DAY} // {TICKS_PER_HOUR}",
    "minute": f"tg_since({{0}}) % {TICKS_PER_HOUR} // {TICKS_PER_MINUTE}",
    "second": f"tg_since({{0}}) % {TICKS_PER_MINUTE} // {TICKS_PER_SECOND}",
    "millisecond": f"tg_since({{0}}) % {TICKS_PER_SECOND} // {TICKS_PER_MILLISECOND}",
    "microsecond": f"tg_since({{0}}) % {TICKS_PER_SECOND} // {TICKS_PER_MICROSECOND}",
}

# Number of the unit {0} lies in, counted from any fixed instant: DATEDIFF is the difference of two.
_BOUNDARY = {
    "year": "year(tg_date({0}))",
    "quarter": "(year(tg_date({0})) * 4 + quarter(tg_date({0})))",
    "month": "(year(tg_date({0})) * 12 + month(tg_date({0})))",
    "week": "((tg_day({0}) + 1) // 7)",
    **{part: f"(tg_since({{0}}) // {ticks})" for part, ticks in PART_TICKS.items() if part != "week"},
}


def _part(args: Sequence[Sql]) -> str:
    return str(args[0].constant)


def _dateadd(args: Sequence[Sql]) -> Sql:
    part, count, moment = _part(args), args[1], args[2].text
    whole = count.text if count.type is Type.BIGINT else f"CAST(trunc({count.text}) AS BIGINT)"
    if part in _MONTHS:
        # Far beyond every datetime already, and the product cannot overflow.
        months = f"least(greatest({whole}, -200000), 200000) * {_MONTHS[part]}"
        return Sql(f"tg_add_months({months}, {moment})", Type.DATETIME, fallible=True)
    unit, ticks = PART_TICKS[part], args[2].constant
    if isinstance(ticks, int):
        low, high = -((ticks - ORIGIN_TICKS) // unit), (LAST_TICKS - ticks) // unit
        return Sql(f"tg_add_to({moment}, {whole}, {unit}, {low}, {high})", Type.DATETIME, fallible=True)
    return Sql(f"tg_add({whole}, {unit}, {moment})", Type.DATETIME, fallible=True)


def _datediff(args: Sequence[Sql]) -> Sql:
    number = _BOUNDARY[_part(args)]
    return Sql(f"({number.format(args[2].text)} - {number.format(args[1].text)})", Type.BIGINT)


def _datepart(args: Sequence[Sql]) -> Sql:
    return Sql(f"({_PART[_part(args)].format(args[1].text)})", Type.BIGINT)


def _datename(args: Sequence[Sql]) -> Sql:
    part, moment = _part(args), args[1].text
    named = {"month": f"monthname(tg_date({moment}))", "weekday": f"dayname(tg_date({moment}))"}
    number = f"CAST({_PART[part].format(moment)} AS VARCHAR)"
    return Sql(named.get(part, number), Type.NVARCHAR)


_FAMILY = "date and time"
SCALARS: tuple[ScalarSignature, ...] = (
    scalar(
        "dateadd",
        _FAMILY,
        (ArgumentKind.DATEPART, ArgumentKind.NUMBER, ArgumentKind.DATE),
        "The datetime that lies n parts later; n is truncated.",
        _dateadd,
    ),
    scalar(
        "datediff",
        _FAMILY,
        (ArgumentKind.DATEPART, ArgumentKind.DATE, ArgumentKind.DATE),
        "How many boundaries of the part lie between two datetimes, negative if the second is earlier.",
        _datediff,
    ),
    scalar(
        "datename",
        _FAMILY,
        (ArgumentKind.DATEPART, ArgumentKind.DATE),
        "The part of a datetime as text; months and weekdays by their English name.",
        _datename,
    ),
    scalar(
        "datepart",
        _FAMILY,
        (ArgumentKind.DATEPART, ArgumentKind.DATE),
        "The part of a datetime as number.",
        _datepart,
    ),
    *(
        scalar(
            part,
            _FAMILY,
            (ArgumentKind.DATE,),
            f"The {part} of a datetime.",
            template(_PART[part], Type.BIGINT),
        )
        for part in ("day", "month", "year")
    ),
    scalar(
        "datetimefromparts",
        _FAMILY,
        (ArgumentKind.INTEGER,) * 7,
        "The datetime with this year, month, day, hour, minute, second and millisecond.",
        template("tg_from_parts({0}, {1}, {2}, {3}, {4}, {5}, {6})", Type.DATETIME, fallible=True),
    ),
)
