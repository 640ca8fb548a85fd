"""The scalar functions of `asa.md` 4.4 to 4.7 and the operators, one Python function each.

Unless a function is in `TAKES_NULL`, the caller answers NULL when any argument is NULL.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from datetime import date
from decimal import ROUND_HALF_UP, Decimal

from . import geography
from .values import (
    DAY,
    LAST_INSTANT,
    SECOND,
    Instant,
    OracleError,
    Value,
    bigint,
    datetime_argument,
    equal,
    finite,
    integer_argument,
    lookup,
    number_argument,
    text_argument,
    text_of,
    type_name,
)

# ---------------------------------------------------------------- operators (2.2, A-19, A-31)


def arithmetic(op: str, left: Value, right: Value) -> Value:
    if left is None or right is None:
        return None
    if op in "&|^":
        return _bitwise(op, left, right)
    if op == "+" and isinstance(left, str) and isinstance(right, str):
        return left + right
    a, b = number_argument(left), number_argument(right)
    if op in "/%" and b == 0:
        raise OracleError("division by zero")
    if isinstance(a, int) and isinstance(b, int):
        if op in "/%":
            quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            return bigint(quotient) if op == "/" else a - quotient * b
        return bigint({"+": a + b, "-": a - b, "*": a * b}[op])
    a, b = float(a), float(b)
    if op == "/":
        return finite(a / b)
    if op == "%":
        return math.fmod(a, b)
    return finite({"+": a + b, "-": a - b, "*": a * b}[op])


def _bitwise(op: str, left: Value, right: Value) -> Value:
    if not isinstance(left, int) or not isinstance(right, int):
        raise OracleError(f"'{op}' takes bit and bigint, not {type_name(left)} and {type_name(right)}")
    # Python keeps bool for bool op bool and gives int otherwise: bit x bit -> bit, else bigint.
    return {"&": left & right, "|": left | right, "^": left ^ right}[op]


def unary(op: str, value: Value) -> Value:
    if value is None:
        return None
    if op == "~":
        if isinstance(value, bool):
            return not value
        if isinstance(value, int):
            return ~value
        raise OracleError(f"'~' takes bit and bigint, not {type_name(value)}")
    number = number_argument(value)
    if op == "+":
        return number
    return bigint(-number) if isinstance(number, int) else -number


def like(text: str, pattern: str) -> bool:
    """LIKE: `%` any run, `_` one character, `[set]`, `[^set]`; case counts (A-29)."""
    if len(pattern) > 8000:
        raise OracleError("the pattern is too long")
    places = {0}  # how much of the text the pattern so far may have taken
    for item in like_items(pattern):
        if item == "%":
            places = set(range(min(places), len(text) + 1)) if places else places
        else:
            places = {i + 1 for i in places if i < len(text) and re.fullmatch(item, text[i], re.DOTALL)}
    return len(text) in places


def like_items(pattern: str) -> list[str]:
    """The parts of a pattern: `%`, or a regular expression of one character."""
    out: list[str] = []
    i = 0
    while i < len(pattern):
        close = pattern.find("]", i + 1) if pattern[i] == "[" else -1
        if pattern[i] == "%":
            out.append("%")
        elif pattern[i] == "_":
            out.append(".")
        elif close > i:
            inner = pattern[i + 1 : close]
            negated, inner = inner.startswith("^"), inner.removeprefix("^")
            one = "[" + ("^" if negated else "") + re.sub(r"([\\\[\]^&~|])", r"\\\1", inner) + "]"
            out.append(one if is_set(one) else "(?!)")
            i = close
        else:
            out.append(re.escape(pattern[i]))
        i += 1
    return out


def is_set(regex: str) -> bool:
    """Whether a set holds anything: one such as [z-a] does not."""
    try:
        re.compile(regex)
    except re.error:
        return False
    return True


# ---------------------------------------------------------------- date and time (4.5)

PARTS = {
    "year": "year yy yyyy",
    "quarter": "quarter qq q",
    "month": "month mm m",
    "dayofyear": "dayofyear dy y",
    "day": "day dd d days",
    "week": "week wk ww",
    "weekday": "weekday dw w",
    "hour": "hour hh hours",
    "minute": "minute mi n minutes",
    "second": "second ss s seconds",
    "millisecond": "millisecond ms milliseconds",
    "microsecond": "microsecond mcs microseconds",
}
PART_OF_WORD = {word: part for part, words in PARTS.items() for word in words.split()}
PART_TICKS = {
    "day": DAY,
    "hour": 3600 * SECOND,
    "minute": 60 * SECOND,
    "second": SECOND,
    "millisecond": SECOND // 1000,
    "microsecond": SECOND // 1_000_000,
}
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
WEEKDAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]


def part_of(word: str) -> str:
    if word.lower() not in PART_OF_WORD:
        raise OracleError(f"no date part is called {word!r}")
    return PART_OF_WORD[word.lower()]


def unit_ticks(word: str) -> int:
    return PART_TICKS[part_of(word)]


def day_of(instant: Instant) -> date:
    return date.fromordinal(instant.ticks // DAY + 1)


def dateadd(part: str, count: Value, instant: Value) -> Instant:
    part, n, start = part_of(part), int(number_argument(count)), datetime_argument(instant)
    months = {"year": 12, "quarter": 3, "month": 1}.get(part)
    if months is not None:
        day = day_of(start)
        total = day.year * 12 + day.month - 1 + n * months
        year, month = total // 12, total % 12 + 1
        if not 1 <= year <= 9999:
            raise OracleError("DATEADD leaves the range of datetime")
        for last in (day.day, 30, 29, 28):
            if last <= day.day:
                try:
                    moved = date(year, month, last)
                except ValueError:
                    continue
                return Instant((moved.toordinal() - 1) * DAY + start.ticks % DAY)
    length = 7 * DAY if part == "week" else PART_TICKS.get(part, DAY)
    ticks = start.ticks + n * length
    if not 0 <= ticks <= LAST_INSTANT:
        raise OracleError("DATEADD leaves the range of datetime")
    return Instant(ticks)


def boundary_number(part: str, instant: Instant) -> int:
    """How many boundaries of `part` lie at or before the instant, from a common origin."""
    day = day_of(instant)
    if part in ("year", "quarter", "month"):
        return {"year": day.year, "quarter": day.year * 4 + (day.month - 1) // 3}.get(
            part, day.year * 12 + day.month
        )
    if part == "week":
        return (day.toordinal() + 0) // 7  # ordinal 7 is a Sunday: weeks turn on Sundays, as in T-SQL
    return instant.ticks // PART_TICKS.get(part, DAY)


def datediff(part: str, first: Value, second: Value) -> int:
    """Boundaries of `part` crossed from the first to the second instant, signed."""
    part = part_of(part)
    return boundary_number(part, datetime_argument(second)) - boundary_number(part, datetime_argument(first))


def datepart(part: str, instant: Value) -> int:
    part, moment = part_of(part), datetime_argument(instant)
    day, ticks = day_of(moment), moment.ticks
    weekday = day.isoweekday() % 7  # Sunday is 0
    day_of_year = day.toordinal() - date(day.year, 1, 1).toordinal() + 1
    return {
        "year": day.year,
        "quarter": (day.month + 2) // 3,
        "month": day.month,
        "dayofyear": day_of_year,
        "day": day.day,
        "week": (day_of_year - 1 + date(day.year, 1, 1).isoweekday() % 7) // 7 + 1,
        "weekday": weekday + 1,
        "hour": ticks // (3600 * SECOND) % 24,
        "minute": ticks // (60 * SECOND) % 60,
        "second": ticks // SECOND % 60,
        "millisecond": ticks // 10_000 % 1000,
        "microsecond": ticks // 10 % 1_000_000,
    }[part]


def datename(part: str, instant: Value) -> str:
    number = datepart(part, instant)
    names = {"month": MONTHS, "weekday": WEEKDAYS}.get(part_of(part))
    return names[number - 1] if names else str(number)


def datetimefromparts(*parts: Value) -> Instant:
    year, month, day, hour, minute, second, millisecond = (integer_argument(part) for part in parts)
    try:
        days = date(year, month, day).toordinal() - 1
    except (ValueError, OverflowError) as error:
        raise OracleError(f"DATETIMEFROMPARTS: {error}") from None
    if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60 and 0 <= millisecond < 1000):
        raise OracleError("DATETIMEFROMPARTS: a part is out of range")
    seconds = hour * 3600 + minute * 60 + second
    return Instant(days * DAY + seconds * SECOND + millisecond * 10_000)


# ---------------------------------------------------------------- mathematics (4.6)


def power(base: Value, exponent: Value) -> Value:
    """The type of the base: a bigint base cuts the result to a bigint."""
    x, y = number_argument(base), number_argument(exponent)
    if isinstance(x, int) and isinstance(y, int) and y >= 0:
        if abs(x) > 1 and y > 64:
            raise OracleError("bigint overflow")
        return bigint(x**y)
    if x == 0 and y < 0:
        raise OracleError("division by zero")
    try:
        result = math.pow(x, y)
    except (ValueError, OverflowError) as error:
        raise OracleError(f"POWER: {error}") from None
    return bigint(int(result)) if isinstance(x, int) else finite(result)


def exp(value: Value) -> float:
    try:
        return math.exp(number_argument(value))
    except OverflowError as error:
        raise OracleError(f"EXP: {error}") from None


def sqrt(value: Value) -> float:
    number = number_argument(value)
    if number < 0:
        raise OracleError("SQRT of a negative number")
    return math.sqrt(number)


def round_(value: Value, length: Value) -> Value:
    """Half away from zero, on the decimal digits one sees."""
    number, digits = number_argument(value), integer_argument(length)
    if digits > 300 or (digits >= 0 and isinstance(number, int)):
        return number
    if digits < -310:
        return type(number)(0)
    exact = Decimal(repr(number))
    unit = Decimal(1).scaleb(-digits)
    rounded = (
        (exact / unit).quantize(Decimal(1), ROUND_HALF_UP) * unit if abs(exact / unit) < 10**25 else exact
    )
    return bigint(int(rounded)) if isinstance(number, int) else finite(float(rounded))


# ---------------------------------------------------------------- strings (4.7)

WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


def _length(value: Value) -> int:
    number = integer_argument(value)
    if number < 0:
        raise OracleError("invalid length: it is negative")
    return number


def substring(text: Value, start: Value, length: Value) -> str:
    s, first, count = text_argument(text), integer_argument(start), _length(length)
    if first < 1:
        return s[: max(first + count - 1, 0)]
    return s[first - 1 : first - 1 + count]


def stuff(text: Value, start: Value, length: Value, insert: Value) -> str:
    s, first, count = text_argument(text), max(integer_argument(start), 1), _length(length)
    if first > len(s):
        return ""
    return s[: first - 1] + text_argument(insert) + s[first - 1 + count :]


def right(text: Value, length: Value) -> str:
    s, count = text_argument(text), _length(length)
    return s[max(len(s) - count, 0) :]


def charindex(find: Value, text: Value, start: Value = 1) -> int:
    s, wanted = text_argument(text), text_argument(find)
    return s.find(wanted, max(integer_argument(start), 1) - 1) + 1 if wanted else 0


def patindex(pattern: Value, text: Value) -> int:
    p, s = text_argument(pattern), text_argument(text)
    if not p.startswith("%"):
        return 1 if like(s, p) else 0
    rest = p.lstrip("%") or "%"
    return next((i + 1 for i in range(len(s) + 1) if like(s[i:], rest)), 0)


def regexmatch(text: Value, pattern: Value) -> int:
    try:
        found = re.search(text_argument(pattern), text_argument(text), re.IGNORECASE | re.DOTALL | re.ASCII)
    except re.error:
        return 0
    return found.start() + 1 if found else 0


def translate(text: Value, old: Value, new: Value) -> str:
    a, b = text_argument(old), text_argument(new)
    if len(a) != len(b):
        raise OracleError("TRANSLATE: the second and third argument differ in length")
    return "".join(b[a.index(c)] if c in a else c for c in text_argument(text))


def concat(*values: Value) -> str:
    return "".join(text_of(value) for value in values if value is not None)


def concat_ws(separator: Value, *values: Value) -> str:
    joint = "" if separator is None else text_argument(separator)
    return joint.join(text_of(value) for value in values if value is not None)


def replace(text: Value, find: Value, new: Value) -> str:
    s, p, r = text_argument(text), text_argument(find), text_argument(new)
    if p == "":
        return s
    check_length(len(s) + s.count(p) * (len(r) - len(p)))
    return s.replace(p, r)


def replicate(text: Value, count: Value) -> str | None:
    n = integer_argument(count)
    if n < 0:
        return None
    check_length(len(text_argument(text)) * n)
    return text_argument(text) * n


def check_length(characters: int) -> None:
    """A text a function makes has at most 16 Mi characters (the project's page on limits)."""
    if characters > 1 << 24:
        raise OracleError("the text would be too long")


def nchar(code: Value) -> str | None:
    number = integer_argument(code)
    is_half = 0xD800 <= number <= 0xDFFF  # of a character
    return chr(number) if 0 <= number <= 0x10FFFF and not is_half else None


# ---------------------------------------------------------------- arrays, records, JSON (4.4)


def array_argument(value: Value) -> list[Value]:
    if not isinstance(value, list):
        raise OracleError(f"cannot cast value of type '{type_name(value)}' to type 'array'")
    return value


def record_argument(value: Value) -> dict[str, Value]:
    if not isinstance(value, dict):
        raise OracleError(f"cannot cast value of type '{type_name(value)}' to type 'record'")
    return value


def getarrayelement(array: Value, index: Value) -> Value:
    items, i = array_argument(array), integer_argument(index)
    return items[i] if 0 <= i < len(items) else None


def getrecordpropertyvalue(record: Value, name: Value) -> Value:
    fields = record_argument(record)
    found = lookup(fields, text_argument(name))
    return None if found is None else fields[found]


def json_parse(text: Value) -> Value:
    if not isinstance(text, str):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def coalesce(*values: Value) -> Value:
    return next((value for value in values if value is not None), None)


def same_type(value: Value, whole: Callable[[float], int]) -> Value:
    number = number_argument(value)
    return number if isinstance(number, int) else float(whole(number))


def absolute(value: Value) -> Value:
    number = number_argument(value)
    return bigint(abs(number)) if isinstance(number, int) else abs(number)


def sign(value: Value) -> Value:
    number = number_argument(value)
    return type(number)((number > 0) - (number < 0))


FUNCTIONS: dict[str, Callable[..., Value]] = {
    **geography.FUNCTIONS,
    "getarrayelement": getarrayelement,
    "getarraylength": lambda array: len(array_argument(array)),
    "getrecordpropertyvalue": getrecordpropertyvalue,
    "json_parse": json_parse,
    "gettype": type_name,
    "coalesce": coalesce,
    "nullif": lambda a, b: None if equal(a, b) else a,
    "dateadd": dateadd,
    "datediff": datediff,
    "datepart": datepart,
    "datename": datename,
    "day": lambda d: day_of(datetime_argument(d)).day,
    "month": lambda d: day_of(datetime_argument(d)).month,
    "year": lambda d: day_of(datetime_argument(d)).year,
    "datetimefromparts": datetimefromparts,
    "abs": absolute,
    "ceiling": lambda x: same_type(x, math.ceil),
    "floor": lambda x: same_type(x, math.floor),
    "sign": sign,
    "power": power,
    "exp": exp,
    "sqrt": sqrt,
    "square": lambda x: finite(float(number_argument(x)) * float(number_argument(x))),
    "round": round_,
    "len": lambda s: len(text_argument(s).rstrip(" ")),
    "substring": substring,
    "left": lambda s, n: text_argument(s)[: _length(n)],
    "right": right,
    "stuff": stuff,
    "charindex": charindex,
    "patindex": patindex,
    "regexmatch": regexmatch,
    "replace": replace,
    "translate": translate,
    "concat": concat,
    "concat_ws": concat_ws,
    "ltrim": lambda s: text_argument(s).lstrip(WHITE_SPACE),
    "rtrim": lambda s: text_argument(s).rstrip(WHITE_SPACE),
    "trim": lambda s: text_argument(s).strip(WHITE_SPACE),
    "lower": lambda s: text_argument(s).lower(),
    "upper": lambda s: text_argument(s).upper(),
    "reverse": lambda s: text_argument(s)[::-1],
    "replicate": replicate,
    "space": lambda n: replicate(" ", n),
    "nchar": nchar,
    "unicode": lambda s: ord(text_argument(s)[0]) if s else None,
}
TAKES_NULL = {"coalesce", "concat", "concat_ws", "nullif"}
TAKES_DATE_PART = {"dateadd", "datediff", "datepart", "datename"}
