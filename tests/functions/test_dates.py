"""Date and time functions (asa.md 4.5)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.depth import depth
from support.evaluating import by_column, call, column, value, values
from support.times import ticks_of
from tideglass.core.errors import EvaluationError
from tideglass.core.time import LAST_TICKS, ORIGIN_TICKS, TICKS_PER_DAY, format_ticks
from tideglass.core.types import Type
from tideglass.functions.registry import DATEPARTS
from tideglass.plan.expressions import Ref


@pytest.mark.parametrize(
    ("part", "n", "moment", "expected"),
    [
        ("microsecond", 1, "2020-01-01T00:00:00.1234567Z", "2020-01-01T00:00:00.1234577Z"),
        ("millisecond", 1577836800000, "1970-01-01T00:00:00Z", "2020-01-01T00:00:00.0000000Z"),
        ("second", -1, "2020-01-01T00:00:00Z", "2019-12-31T23:59:59.0000000Z"),
        ("minute", 90, "1969-12-31T23:00:00.0000001Z", "1970-01-01T00:30:00.0000001Z"),
        ("hour", 1.9, "2020-01-01", "2020-01-01T01:00:00.0000000Z"),
        ("hour", -1.9, "2020-01-01", "2019-12-31T23:00:00.0000000Z"),
        ("day", 1, "2020-02-28", "2020-02-29T00:00:00.0000000Z"),
        ("dayofyear", 1, "2020-02-28", "2020-02-29T00:00:00.0000000Z"),
        ("weekday", 1, "2020-02-28", "2020-02-29T00:00:00.0000000Z"),
        ("week", 2, "2020-01-01", "2020-01-15T00:00:00.0000000Z"),
        ("month", 1, "2020-01-31T01:02:03.0000004Z", "2020-02-29T01:02:03.0000004Z"),
        ("quarter", -1, "1960-05-31", "1960-02-29T00:00:00.0000000Z"),
        ("year", 1, "2020-02-29", "2021-02-28T00:00:00.0000000Z"),
        ("year", "1", "2020-01-01", "2021-01-01T00:00:00.0000000Z"),
    ],
)
def test_dateadd(part: str, n: Any, moment: str, expected: str) -> None:
    assert value(call("dateadd", part, n, moment)) == expected
    assert values(call("dateadd", part, n, Ref("x")), column([moment], Type.DATETIME)) == [expected]


@pytest.mark.parametrize(
    ("part", "n", "moment"),
    [
        ("day", 1, "9999-12-31"),
        ("year", 9000, "2000-01-01"),
        ("month", 2**62, "2000-01-01"),
        ("second", -(2**62), "2000-01-01"),
    ],
)
def test_a_datetime_outside_the_calendar_is_an_error(part: str, n: int, moment: str) -> None:
    with pytest.raises(EvaluationError, match="outside the years"):
        value(call("dateadd", part, n, moment))


@pytest.mark.parametrize(
    ("part", "start", "end", "expected"),
    [
        ("minute", "2020-01-01T10:00:59Z", "2020-01-01T10:01:00Z", 1),
        ("minute", "2020-01-01T10:01:00Z", "2020-01-01T10:00:59Z", -1),
        ("second", "1969-12-31T23:59:59.9999999Z", "1970-01-01T00:00:00Z", 1),
        ("year", "2019-12-31T23:59:59Z", "2020-01-01", 1),
        ("quarter", "2019-12-31", "2020-04-01", 2),
        ("month", "2020-01-31", "2020-02-01", 1),
        ("week", "2020-01-04", "2020-01-05", 1),
        ("week", "2020-01-05", "2020-01-11", 0),
        ("day", "2020-01-01T23:59Z", "2020-01-02T00:00Z", 1),
        ("dayofyear", "2020-01-01", "2021-01-01", 366),
        ("weekday", "2020-01-01", "2020-01-03", 2),
        ("hour", "2020-01-01T00:59Z", "2020-01-01T01:00Z", 1),
        ("millisecond", "2020-01-01T00:00:00.0009999Z", "2020-01-01T00:00:00.001Z", 1),
        ("microsecond", "2020-01-01T00:00:00.0000009Z", "2020-01-01T00:00:00.000001Z", 1),
    ],
)
def test_datediff_counts_boundaries(part: str, start: str, end: str, expected: int) -> None:
    assert value(call("datediff", part, start, end)) == expected


@pytest.mark.parametrize(
    ("part", "number", "name"),
    [
        ("year", 2020, "2020"),
        ("quarter", 3, "3"),
        ("month", 9, "September"),
        ("dayofyear", 251, "251"),
        ("day", 7, "7"),
        ("week", 37, "37"),
        ("weekday", 2, "Monday"),
        ("hour", 13, "13"),
        ("minute", 14, "14"),
        ("second", 15, "15"),
        ("millisecond", 123, "123"),
        ("microsecond", 123456, "123456"),
    ],
)
def test_datepart_and_datename(part: str, number: int, name: str) -> None:
    moment = "2020-09-07T13:14:15.1234567Z"
    assert value(call("datepart", part, moment)) == number
    assert value(call("datename", part, moment)) == name


def test_day_month_and_year() -> None:
    assert [by_column(f, "1969-12-31T23:59:59.9999999Z") for f in ("day", "month", "year")] == [31, 12, 1969]


def test_text_with_a_zone_is_converted_to_utc() -> None:
    assert value(call("datepart", "hour", "2020-01-01T01:00:00+02:00")) == 23


def test_datetimefromparts() -> None:
    assert by_column("datetimefromparts", 2020, 2, 29, 23, 59, 58, 7) == "2020-02-29T23:59:58.0070000Z"


@pytest.mark.parametrize(
    "parts",
    [
        (2021, 2, 29, 0, 0, 0, 0),
        (2020, 13, 1, 0, 0, 0, 0),
        (2020, 1, 1, 24, 0, 0, 0),
        (0, 1, 1, 0, 0, 0, 0),
        (2020, 1, 1, 0, 0, 0, 1000),
    ],
)
def test_datetimefromparts_stops_at_invalid_parts(parts: tuple[int, ...]) -> None:
    with pytest.raises(EvaluationError, match="no date and time"):
        value(call("datetimefromparts", *parts))


@pytest.mark.parametrize(
    "expr",
    [
        call("dateadd", "day", None, "2020-01-01"),
        call("dateadd", "day", 1, None),
        call("year", None),
        call("datediff", "day", None, "2020-01-01"),
    ],
)
def test_null_in_null_out(expr: Any) -> None:
    assert value(expr) is None


def test_text_that_is_no_date_stops_the_job() -> None:
    with pytest.raises(EvaluationError, match="2nd argument of function datepart has invalid type 'nvarchar"):
        value(call("datepart", "year", "noon"))
    with pytest.raises(EvaluationError, match="1st argument of function year has invalid type 'bigint'"):
        value(call("year", 5))


moments = st.integers(ORIGIN_TICKS, LAST_TICKS)


@given(moments, moments)
@settings(max_examples=depth(60), deadline=None)
def test_parts_of_any_datetime_are_pythons(a: int, b: int) -> None:
    texts = [format_ticks(t) for t in (a, b)]
    first, second = (
        datetime(1, 1, 1, tzinfo=UTC) + timedelta(microseconds=(t - ORIGIN_TICKS) // 10) for t in (a, b)
    )
    table = column(texts, Type.DATETIME)
    expected = {
        "year": lambda d: d.year,
        "quarter": lambda d: (d.month + 2) // 3,
        "month": lambda d: d.month,
        "day": lambda d: d.day,
        "dayofyear": lambda d: d.timetuple().tm_yday,
        "weekday": lambda d: d.isoweekday() % 7 + 1,
        "week": lambda d: (d.timetuple().tm_yday - 1 + datetime(d.year, 1, 1).isoweekday() % 7) // 7 + 1,
        "hour": lambda d: d.hour,
        "minute": lambda d: d.minute,
        "second": lambda d: d.second,
        "millisecond": lambda d: d.microsecond // 1000,
        "microsecond": lambda d: d.microsecond,
    }
    assert set(expected) == set(DATEPARTS.values())
    for part, of in expected.items():
        assert values(call("datepart", part, Ref("x")), table) == [of(first), of(second)]
    days = (b - ORIGIN_TICKS) // TICKS_PER_DAY - (a - ORIGIN_TICKS) // TICKS_PER_DAY
    assert value(call("datediff", "day", *texts)) == days == (second.date() - first.date()).days


@given(moments, st.integers(-5000, 5000), st.sampled_from(["day", "hour", "second", "microsecond"]))
@settings(max_examples=depth(40), deadline=None)
def test_adding_and_taking_away_again_is_nothing(moment: int, n: int, part: str) -> None:
    text = format_ticks(
        min(max(moment, ORIGIN_TICKS + 5001 * TICKS_PER_DAY), LAST_TICKS - 5001 * TICKS_PER_DAY)
    )
    there = call("dateadd", part, n, text)
    assert value(call("dateadd", part, -n, there)) == text
    assert value(call("datediff", part, text, there)) == n
    assert (
        ticks_of(value(there)) - ticks_of(text)
        == n
        * {"day": TICKS_PER_DAY, "hour": TICKS_PER_DAY // 24, "second": 10_000_000, "microsecond": 10}[part]
    )
