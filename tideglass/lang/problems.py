"""What is said about text that is no SAQL: the words for what was found and what was expected.

Codes: SYNTAX (not understood), NOT_IN_LANGUAGE (understood, but the language has no such thing),
UNKNOWN_TYPE.
"""

from __future__ import annotations

from collections.abc import Sequence

from lark import Token

from tideglass.core.errors import Diagnostic, Span
from tideglass.lang.tokens import RESERVED


class Malformed(Exception):
    """Text that fits the grammar but not the language; holds the one diagnostic."""

    def __init__(self, code: str, message: str, span: Span, hint: str = "") -> None:
        super().__init__(message)
        self.diagnostic = Diagnostic(code, message, span, hint)


_SYMBOLS = {
    "LPAR": "(", "RPAR": ")", "COMMA": ",", "SEMI": ";", "DOT": ".", "EQ": "=", "LBRACE": "{", "RBRACE": "}",
    "QLPAR": "(", "STAR": "*", "PIPE": "|", "PLUS": "+", "QUESTION": "?",
}  # fmt: skip
_OPERATORS = frozenset(
    "PLUS MINUS STAR SLASH PERCENT AMP PIPE CARET EQ NE GT GE LT LE LIKE BETWEEN IN IS NOT AND OR TILDE DOT".split()
)
_NAMES = frozenset({"NAME", "BRACKETED", "QUOTED"})
_LITERALS = frozenset({"NUMBER", "STRING"})
# Worth naming only when nothing more telling is expected.
_FAINT = frozenset(
    {"SEMI", "OVER", "OVER_KEYS", "TIMESTAMP", "PARTITION", "MATCH_RECOGNIZE", "CROSS", "OUTER", "INNER"}
)

_CLAUSES_ELSEWHERE = {
    "ORDER": ("ORDER BY has no place in a streaming query", "rows come out in the order of time; ORDER BY stands in OVER ( ) only"),
    "TOP": ("TOP is not in the language", "TopOne() OVER (ORDER BY ...) or CollectTop(n) OVER (ORDER BY ...) keep the first rows of a window"),
    "LIMIT": ("LIMIT is not in the language", "LIMIT DURATION(unit, n) stands in OVER ( ); TopOne() and CollectTop(n) keep the first rows of a window"),
    "DISTINCT": ("SELECT DISTINCT is not in the language", "group by the columns in a window, or count with COUNT(DISTINCT x)"),
    "RIGHT": ("RIGHT JOIN is not in the language", "swap the sides and write LEFT JOIN"),
    "FULL": ("FULL JOIN is not in the language", "write a LEFT JOIN each way and UNION the two"),
    "EXCEPT": ("EXCEPT is not in the language", "UNION is the only set operator; LEFT JOIN and IS NULL find what is missing"),
    "INTERSECT": ("INTERSECT is not in the language", "UNION is the only set operator; JOIN finds what both sides have"),
    "ALL": ("UNION ALL is not in the language", "write UNION: it keeps duplicates, as UNION ALL does elsewhere"),
}  # fmt: skip


def unexpected(tokens: Sequence[Token], index: int, expected: frozenset[str], text: str) -> Diagnostic:
    """The diagnostic for `tokens[index]` (or the end of the text), where one of `expected` fits."""
    token = tokens[index] if index < len(tokens) else None
    previous = tokens[index - 1] if index else None
    if token is not None:
        foreign = _not_in_language(tokens, index, expected)
        if foreign is not None:
            return foreign
        span = Span(token.start_pos or 0, token.end_pos or 0)
        found = "a query" if token.type == "QLPAR" else f"'{token}'"
    else:
        end = len(text.rstrip())
        span = Span(max(end - 1, 0), end)
        found = "the end of the query"
    message = f"{expectation(expected)} was expected, but here is {found}"
    return Diagnostic("SYNTAX", message, span, _hint(token, previous, tokens, index, expected))


def _not_in_language(tokens: Sequence[Token], index: int, expected: frozenset[str]) -> Diagnostic | None:
    """A construct of other SQL dialects, named."""
    token = tokens[index]
    span = Span(token.start_pos or 0, token.end_pos or 0)
    before = tokens[index - 1].type if index else ""
    if token.type in _CLAUSES_ELSEWHERE:
        return Diagnostic("NOT_IN_LANGUAGE", *_foreign(_CLAUSES_ELSEWHERE[token.type], span))
    previous = tokens[index - 1] if index else None
    if token.type == "NUMBER" and previous is not None and previous.upper() in ("LIMIT", "TOP", "OFFSET"):
        place = Span(previous.start_pos or 0, token.end_pos or 0)
        return Diagnostic("NOT_IN_LANGUAGE", *_foreign(_CLAUSES_ELSEWHERE["LIMIT"], place))
    if token.type == "QLPAR" and ("NUMBER" in expected or "LPAR" in expected):
        name = previous.upper() if previous is not None else ""
        what = name if name in ("EXISTS", "IN", "ANY", "SOME", "ALL") else ""
        message = f"{what} (SELECT ...) is not in the language" if what else "a subquery cannot be a value"
        place = Span(previous.start_pos or 0, span.end) if what and previous is not None else span
        return Diagnostic("NOT_IN_LANGUAGE", message, place, "put the query into a WITH step and JOIN it")
    if token.type == "COMMA" and before in _NAMES and "JOIN" in expected:
        message = "FROM takes one input; others are joined"
        return Diagnostic(
            "NOT_IN_LANGUAGE",
            message,
            span,
            "write JOIN ... ON ... AND DATEDIFF(second, a, b) BETWEEN 0 AND 10",
        )
    return None


def _foreign(entry: tuple[str, str], span: Span) -> tuple[str, Span, str]:
    message, hint = entry
    return message, span, hint


def expectation(expected: frozenset[str]) -> str:
    """The terminals that fit, in words, the most telling first: "FROM, ',' or an alias"."""
    words: list[str] = []
    if expected >= _NAMES | _LITERALS and "CASE" in expected:
        words.append("an expression")
        if "STAR" in expected and "PLUS" in expected and "SLASH" not in expected:
            words.append("*")
    elif expected >= _NAMES:
        words.append("an alias" if "AS" in expected else "a name")
    else:
        if "NUMBER" in expected:
            words.append("a number")
        if expected & _NAMES:
            words.append("a word")
    started = "an expression" in words
    keywords = sorted(
        name
        for name in expected
        if name not in _OPERATORS | _NAMES | _LITERALS | _FAINT | set(_SYMBOLS)
        and name not in ("$END", "ALIAS", "ALIAS_STRING", "AS" if "an alias" in words else "")
        and not (started and name in ("CASE", "CAST", "TRY_CAST", "NULL", "DISTINCT"))
    )
    symbols = sorted(
        name
        for name in expected & set(_SYMBOLS)
        if name not in _OPERATORS and not (started and name == "LPAR")
    )
    words = [*keywords, *(f"'{_SYMBOLS[name]}'" for name in symbols if name not in _FAINT), *words]
    if not started and len(expected & _OPERATORS) > 5:
        words.append("an operator")
    if not words:
        words = sorted(f"'{_SYMBOLS[name]}'" if name in _SYMBOLS else name for name in expected - {"$END"})
    if not words:
        return "the end of the query"
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _hint(
    token: Token | None, previous: Token | None, tokens: Sequence[Token], index: int, expected: frozenset[str]
) -> str:
    """Advice for the slips people make most."""
    word = token.upper() if token is not None else ""
    before = previous.upper() if previous is not None else ""
    names = bool(expected & _NAMES)
    if token is not None and token.type in RESERVED and before == "," and names:
        if token.type in ("FROM", "INTO", "WHERE", "GROUP", "HAVING"):
            return "remove the comma before it"
    if token is not None and token.type == "RPAR" and before == ",":
        return "remove the comma before it"
    if previous is not None and previous.type == "NAME" and before in ("TIMESTAMP", "PARTITION", "ORDER"):
        return f"the clause is {before} BY"
    if token is not None and token.type in _NAMES | _LITERALS | {"CASE", "LPAR"} and "COMMA" in expected:
        return "a comma may be missing before it"
    if token is not None and token.type == "MINUS" and previous is not None and previous.type == "NAME":
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        if following is not None and following.type == "NAME":
            return f"a name with a hyphen is written in brackets: [{previous}-{following}]"
    if token is not None and token.type in RESERVED and names and _could_be_name(tokens, index):
        return f"{word} is a reserved word; as a name it is written [{token}]"
    if token is None and "RPAR" in expected:
        return "a parenthesis is not closed"
    if token is not None and token.type == "RPAR" and "RPAR" not in expected:
        return "this parenthesis closes nothing" if _depth(tokens, index) <= 0 else ""
    if (
        "QLPAR" in expected
        and "SELECT" not in expected
        and token is not None
        and token.type in ("LPAR", "SELECT")
    ):
        return "a step is written WITH name AS (SELECT ... FROM ...)"
    return ""


def _could_be_name(tokens: Sequence[Token], index: int) -> bool:
    """Whether a keyword stands where a name would: something that follows a name comes next."""
    following = tokens[index + 1].type if index + 1 < len(tokens) else "$END"
    return following in (
        "COMMA",
        "FROM",
        "RPAR",
        "DOT",
        "AS",
        "SEMI",
        "$END",
        "EQ",
        "PLUS",
        "MINUS",
        "GT",
        "LT",
    )


def _depth(tokens: Sequence[Token], index: int) -> int:
    opened = sum(token.type in ("LPAR", "QLPAR") for token in tokens[:index])
    return opened - sum(token.type == "RPAR" for token in tokens[:index])
