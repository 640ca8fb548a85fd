"""String functions (`asa.md` 4.7): positions count characters from 1, comparison is ordinal."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tideglass.core.errors import EvaluationError
from tideglass.core.types import Type, arrow_type
from tideglass.functions.conversions import text_sql
from tideglass.functions.duckdb_functions import PythonFunction
from tideglass.functions.javascript import match_positions
from tideglass.functions.signature import (
    NULL_SQL,
    ArgumentKind,
    ScalarSignature,
    Sql,
    literal_sql,
    scalar,
    template,
    unless,
)

if TYPE_CHECKING:
    import pyarrow as pa

#: White space by .NET's Char.IsWhiteSpace.
WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
)

#: The most characters of a text that a function makes out of shorter ones. Sixteen events of the largest size
#: the service takes; a row of them still fits into the memory of a task many times.
LONGEST_TEXT = 1 << 24

#: Of PATINDEX in the service (`asa.md` 8.4); to compile a pattern of a row takes longer than in proportion.
LONGEST_PATTERN = 8000

_TOO_LONG = (
    f"the text would be longer than {LONGEST_TEXT} characters; use a smaller number or a shorter text."
)
_NEGATIVE = "the length must not be negative."

#: More characters than any text has, and the most that DuckDB counts.
_MOST = 2**31 - 1


def _place(number: str) -> str:
    """SQL of a number as a place in a text; before the first is at the first."""
    return _within(number, 1)


def _count(number: str) -> str:
    """SQL of a number as a count of characters."""
    return _within(number, 0)


def _within(number: str, least: int) -> str:
    """SQL of a number brought within `least` and _MOST; NULL stays NULL, which least() would pass over."""
    low, high = f"WHEN {number} < {least} THEN {least}", f"WHEN {number} > {_MOST} THEN {_MOST}"
    return f"CAST(CASE {low} {high} ELSE {number} END AS BIGINT)"


_LEFT_OF_LENGTH = "len::HUGEINT + CASE WHEN start < 1 THEN start::HUGEINT - 1 ELSE 0 END"
_LEFT = f"left(s, {_count('n')})"

MACROS = (
    "tg_len(s) AS length(rtrim(s, ' '))",
    # Starting before the text uses up part of the length.
    "tg_substring(s, start, len) AS "
    + unless(
        "len < 0 AND s IS NOT NULL AND start IS NOT NULL",
        f"SUBSTRING: {_NEGATIVE}",
        f"substring(s, {_place('start')}, {_count(_LEFT_OF_LENGTH)})",
    ),
    f"tg_left(s, n) AS {unless('n < 0 AND s IS NOT NULL', f'LEFT: {_NEGATIVE}', _LEFT)}",
    f"tg_right(s, n) AS {unless('n < 0 AND s IS NOT NULL', f'RIGHT: {_NEGATIVE}', 'right(s, n)')}",
    "tg_stuff(s, start, len, ins) AS "
    + unless(
        "len < 0 AND s IS NOT NULL AND start IS NOT NULL AND ins IS NOT NULL",
        f"STUFF: {_NEGATIVE}",
        "CASE WHEN start > length(s) THEN CASE WHEN ins IS NULL THEN NULL ELSE '' END "
        f"ELSE left(s, {_place('start')} - 1) || ins "
        f"|| substring(s, {_count(_place('start') + ' + ' + _count('len'))}) END",
    ),
    "tg_charindex(find, s, start) AS CASE WHEN find = '' THEN 0 "
    f"WHEN instr(substring(s, {_place('start')}), find) = 0 THEN 0 "
    f"ELSE instr(substring(s, {_place('start')}), find) + {_place('start')} - 1 END",
    "tg_translate(s, a, b) AS "
    + unless(
        "length(a) <> length(b) AND s IS NOT NULL",
        "TRANSLATE: the second and third argument must have the same number of characters.",
        "translate(s, a, b)",
    ),
    "tg_nchar(i) AS CASE WHEN i BETWEEN 0 AND 55295 OR i BETWEEN 57344 AND 1114111 "
    "THEN chr(CAST(i AS INTEGER)) END",
    "tg_replicate(s, n) AS CASE WHEN n >= 0 THEN "
    + unless(f"length(s)::HUGEINT * n > {LONGEST_TEXT}", f"REPLICATE: {_TOO_LONG}", "repeat(s, n)")
    + " END",
    # How often the text is found is counted only where the result might be too long.
    "tg_replace(s, p, r) AS "
    f"CASE WHEN length(s)::HUGEINT * length(r) <= {LONGEST_TEXT} THEN replace(s, p, r) "
    "WHEN p = '' THEN s ELSE "
    + unless(
        "length(replace(s, p, '')) + (length(s) - length(replace(s, p, '')))::HUGEINT "
        f"// greatest(length(p), 1) * length(r) > {LONGEST_TEXT}",
        f"REPLACE: {_TOO_LONG}",
        "replace(s, p, r)",
    )
    + " END",
    "tg_unicode(s) AS CASE WHEN s <> '' THEN CAST(unicode(s) AS BIGINT) END",
)


# ---------------------------------------------------------------- LIKE patterns


@lru_cache(maxsize=1024)
def pattern_regex(pattern: str) -> str:
    """The regular expression of a LIKE pattern: `%`, `_`, `[set]`, `[^set]`; an open bracket is itself.

    >>> pattern_regex("a%[^x-z]_")
    'a.*[^x-z].'
    """
    parts: list[str] = []
    place = 0
    while place < len(pattern):
        char = pattern[place]
        close = pattern.find("]", place + 2) if char == "[" else -1
        if char == "%":
            if parts[-1:] != [".*"]:
                parts.append(".*")
        elif char == "_":
            parts.append(".")
        elif close > 0:
            inner = pattern[place + 1 : close]
            negated = inner.startswith("^")
            inner = inner[1:] if negated else inner
            parts.append("[" + "^" * negated + re.sub(r"([\\\[\]^&~|])", r"\\\1", inner) + "]")
            place = close
        else:
            parts.append(re.escape(char))
        place += 1
    return "".join(parts)


@lru_cache(maxsize=1024)
def _compiled(regex: str) -> Any:
    """The expression, compiled for a matcher whose time grows with the text and never explodes."""
    import re2  # by hand: `re` tries every way to spread a text over several `%`

    options = re2.Options()
    options.dot_nl = True
    options.log_errors = False
    options.max_mem = 1 << 26  # of a pattern of 8000 characters
    try:
        return re2.compile(regex, options)
    except re2.error:  # a set such as [z-a] holds nothing
        return re2.compile(r"[^\x00-\x{10FFFF}]", options)


def _pairwise(function: Callable[[str, str], Any], type_: Type) -> Callable[..., pa.Array]:
    def evaluate(left: pa.Array, right: pa.Array) -> pa.Array:
        import pyarrow as pa

        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return pa.array(
            [None if a is None or b is None else function(a, b) for a, b in pairs], arrow_type(type_)
        )

    return evaluate


def _check_pattern(function: str, pattern: str) -> None:
    if len(pattern) > LONGEST_PATTERN:
        raise EvaluationError(f"{function}: the pattern is longer than {LONGEST_PATTERN} characters.")


def _like(text: str, pattern: str) -> bool:
    _check_pattern("LIKE", pattern)
    return _compiled(pattern_regex(pattern)).fullmatch(text) is not None


def _patindex(pattern: str, text: str) -> int:
    _check_pattern("PATINDEX", pattern)
    body = pattern.lstrip("%")
    anchored = len(body) == len(pattern)
    ending = "" if body.endswith("%") or not body else r"\z"
    compiled = _compiled(pattern_regex(body.rstrip("%")) + ending)
    found = compiled.match(text) if anchored else compiled.search(text)
    return 0 if found is None else found.start() + 1


PYTHON_FUNCTIONS = (
    PythonFunction("tg_like", _pairwise(_like, Type.BIT), ("VARCHAR", "VARCHAR"), "BOOLEAN"),
    PythonFunction("tg_patindex", _pairwise(_patindex, Type.BIGINT), ("VARCHAR", "VARCHAR"), "BIGINT"),
    PythonFunction("tg_regexmatch", match_positions, ("VARCHAR", "VARCHAR"), "BIGINT"),
)


def like_sql(value: Sql, pattern: Sql) -> str:
    """SQL of LIKE; a pattern without sets is DuckDB's own, a constant one with sets a RE2 expression."""
    if not isinstance(pattern.constant, str):
        return f"tg_like({value.text}, {pattern.text})"
    if "[" not in pattern.constant:
        return f"({value.text} LIKE {pattern.text})"
    regex = pattern_regex(pattern.constant)
    if _compiled(regex).pattern != regex:
        return f"({value.text} <> {value.text})"
    return f"regexp_full_match({value.text}, {literal_sql('(?s)' + regex)})"


# ---------------------------------------------------------------- catalogue


def _charindex(args: Sequence[Sql]) -> Sql:
    start = args[2].text if len(args) > 2 else "1"
    return Sql(f"tg_charindex({args[0].text}, {args[1].text}, {start})", Type.BIGINT)


def _concat(args: Sequence[Sql]) -> Sql:
    return Sql(f"concat({', '.join(text_sql(arg) for arg in args)})", Type.NVARCHAR)


def _concat_ws(args: Sequence[Sql]) -> Sql:
    separator = "''" if args[0] == NULL_SQL else f"coalesce({text_sql(args[0])}, '')"
    return Sql(f"concat_ws({separator}, {', '.join(text_sql(arg) for arg in args[1:])})", Type.NVARCHAR)


def _text(text: str, *, fallible: bool = False) -> Callable[[Sequence[Sql]], Sql]:
    return template(text, Type.NVARCHAR, fallible=fallible)


def _number(text: str, *, fallible: bool = False) -> Callable[[Sequence[Sql]], Sql]:
    return template(text, Type.BIGINT, fallible=fallible)


_FAMILY = "string"
_T, _I = ArgumentKind.TEXT, ArgumentKind.INTEGER
_BLANKS = literal_sql(WHITE_SPACE)
SCALARS: tuple[ScalarSignature, ...] = (
    scalar(
        "len",
        _FAMILY,
        (_T,),
        "The number of characters, blanks at the end not counted.",
        _number("tg_len({0})"),
    ),
    scalar(
        "substring",
        _FAMILY,
        (_T, _I, _I),
        "The part of a text that starts at a position and has a length.",
        _text("tg_substring({0}, {1}, {2})", fallible=True),
    ),
    scalar("left", _FAMILY, (_T, _I), "The first n characters.", _text("tg_left({0}, {1})", fallible=True)),
    scalar("right", _FAMILY, (_T, _I), "The last n characters.", _text("tg_right({0}, {1})", fallible=True)),
    scalar(
        "stuff",
        _FAMILY,
        (_T, _I, _I, _T),
        "The text with a part deleted and another text put in its place.",
        _text("tg_stuff({0}, {1}, {2}, {3})", fallible=True),
    ),
    scalar(
        "charindex",
        _FAMILY,
        (_T, _T, _I),
        "The position of a text in another one, searched from a start position; 0 if it is not there.",
        _charindex,
        min_args=2,
    ),
    scalar(
        "patindex",
        _FAMILY,
        (_T, _T),
        "The position of the first match of a LIKE pattern; 0 if there is none.",
        _number("tg_patindex({0}, {1})", fallible=True),
    ),
    scalar(
        "regexmatch",
        _FAMILY,
        (_T, _T),
        "The position of the first match of an ECMAScript regular expression; 0 if there is none.",
        _number("tg_regexmatch({0}, {1})", fallible=True),
    ),
    scalar(
        "replace",
        _FAMILY,
        (_T, _T, _T),
        "The text with every occurrence of the second text replaced by the third.",
        _text("tg_replace({0}, {1}, {2})", fallible=True),
    ),
    scalar(
        "translate",
        _FAMILY,
        (_T, _T, _T),
        "The text with each character of the second text replaced by its fellow in the third.",
        _text("tg_translate({0}, {1}, {2})", fallible=True),
    ),
    scalar(
        "concat",
        _FAMILY,
        (ArgumentKind.ANY,),
        "All arguments as one text; NULL is nothing.",
        _concat,
        min_args=2,
        variadic=True,
        strict=False,
    ),
    scalar(
        "concat_ws",
        _FAMILY,
        (ArgumentKind.ANY,),
        "All arguments but the first as one text, with the first between them; NULLs are skipped.",
        _concat_ws,
        min_args=3,
        variadic=True,
        strict=False,
    ),
    scalar(
        "ltrim", _FAMILY, (_T,), "The text without white space in front.", _text(f"ltrim({{0}}, {_BLANKS})")
    ),
    scalar(
        "rtrim", _FAMILY, (_T,), "The text without white space at the end.", _text(f"rtrim({{0}}, {_BLANKS})")
    ),
    scalar(
        "trim", _FAMILY, (_T,), "The text without white space around it.", _text(f"trim({{0}}, {_BLANKS})")
    ),
    scalar("lower", _FAMILY, (_T,), "The text in lower case.", _text("lower({0})")),
    scalar("upper", _FAMILY, (_T,), "The text in upper case.", _text("upper({0})")),
    scalar(
        "reverse", _FAMILY, (_T,), "The text from its last character to its first.", _text("reverse({0})")
    ),
    scalar(
        "replicate",
        _FAMILY,
        (_T, _I),
        "The text n times; NULL if n is negative.",
        _text("tg_replicate({0}, {1})", fallible=True),
    ),
    scalar(
        "space",
        _FAMILY,
        (_I,),
        "n blanks; NULL if n is negative.",
        _text("tg_replicate(' ', {0})", fallible=True),
    ),
    scalar(
        "nchar",
        _FAMILY,
        (_I,),
        "The character with this code; NULL if there is none.",
        _text("tg_nchar({0})"),
    ),
    scalar("unicode", _FAMILY, (_T,), "The code of the first character.", _number("tg_unicode({0})")),
)
