"""What is said about text that is no SAQL: the words for what was found and what was expected.

Codes: SYNTAX (not understood), NOT_IN_LANGUAGE (understood, but the language has no such thing),
UNKNOWN_TYPE.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from lark import Token

from tideglass.core.errors import Diagnostic, Span
from tideglass.lang.tokens import RESERVED


class Malformed(Exception):
    """Text that fits the grammar but not the language; holds the one diagnostic."""

    def __init__(self, code: str, message: str, span: Span, hint: str = "") -> None:
        super().__init__(message)
        self.diagnostic = Diagnostic(code, message, span, hint)


_SYMBOLS = {
    "LPAR": "(",
    "RPAR": ")",
    "COMMA": ",",
    "LBRACE": "{",
    "RBRACE": "}",
    "EQ": "=",
    "DOT": ".",
    "STAR": "*",
    "PIPE": "|",
    "PLUS": "+",
    "QUESTION": "?",
}
_OPERATORS = frozenset(
    """PLUS MINUS STAR SLASH PERCENT AMP PIPE CARET EQ NE GT GE LT LE LIKE BETWEEN IN IS NOT AND OR TILDE
    DOT""".split()  # noqa: SIM905 - a list of words reads better as words
)
_NAMES = frozenset({"NAME", "BRACKETED", "QUOTED"})
_LITERALS = frozenset({"NUMBER", "STRING"})
_OPERAND_WORDS = frozenset({"CASE", "CAST", "TRY_CAST", "NULL", "DISTINCT", "LPAR"})
# Always possible or rarely meant: left out of what "was expected".
_UNTOLD = frozenset(
    """$END SEMI QLPAR ALIAS ALIAS_STRING OVER OVER_KEYS TIMESTAMP PARTITION MATCH_RECOGNIZE CROSS OUTER
    INNER ALL""".split()  # noqa: SIM905
)
_CLAUSES = {"GROUP": "GROUP BY", "LEFT": "LEFT JOIN"}
_OVER_PARTS = frozenset({"PARTITION", "ORDER", "LIMIT", "WHEN"})
_CASTS = frozenset({"CAST", "TRY_CAST"})
_KEEPERS = (
    "TopOne() OVER (ORDER BY ...) and CollectTop(n) OVER (ORDER BY ...) keep the first rows of a window"
)

# Keywords of other dialects: what to say, and what to do instead.
_FOREIGN = {
    "ORDER": (
        "ORDER BY has no place in a streaming query",
        "rows come out in the order of time; ORDER BY stands in OVER ( ) only",
    ),
    "TOP": ("TOP is not in the language", _KEEPERS),
    "LIMIT": ("LIMIT is not in the language", _KEEPERS),
    "DISTINCT": (
        "SELECT DISTINCT is not in the language",
        "group by the columns in a window, or count with COUNT(DISTINCT x)",
    ),
    "RIGHT": ("RIGHT JOIN is not in the language", "swap the sides and write LEFT JOIN"),
    "FULL": ("FULL JOIN is not in the language", "write a LEFT JOIN each way and UNION the two"),
    "EXCEPT": (
        "EXCEPT is not in the language",
        "UNION is the only set operator; LEFT JOIN and IS NULL find what is missing",
    ),
    "INTERSECT": (
        "INTERSECT is not in the language",
        "UNION is the only set operator; JOIN finds what both sides have",
    ),
    "EXISTS": ("EXISTS (SELECT ...) is not in the language", "put the query into a WITH step and JOIN it"),
}

# Statements of other dialects, which begin with a word that is a name here.
_FOREIGN_STATEMENTS = {
    "INSERT": "write SELECT ... INTO output FROM input",
    **dict.fromkeys(
        ("UPDATE", "DELETE", "MERGE"), "rows are never changed; write SELECT ... INTO output FROM input"
    ),
    **dict.fromkeys(("DECLARE", "SET"), "there are no variables; write the value where it is used"),
    **dict.fromkeys(("USE", "GO", "EXEC"), "a job is one script of SELECT statements; leave it out"),
}


def unexpected(tokens: Sequence[Token], index: int, expected: frozenset[str]) -> Diagnostic:
    """The diagnostic for `tokens[index]` (or the end of the text), where one of `expected` fits."""
    if index >= len(tokens):
        end = (tokens[-1].end_pos or 0) if tokens else 0
        found, span = "the query ends", Span(max(end - 1, 0), end)
        if not tokens:
            return Diagnostic("SYNTAX", "the query is empty", span, "write SELECT ... FROM ...")
    else:
        foreign = _not_in_language(tokens, index, expected)
        if foreign is not None:
            return foreign
        found = "a query begins" if tokens[index].type == "QLPAR" else f"'{tokens[index]}' stands"
        span = _span(tokens[index])
    message = f"{expectation(expected)} was expected where {found}"
    return Diagnostic("SYNTAX", message, span, _hint(tokens, index, expected))


def expectation(expected: frozenset[str]) -> str:
    """The terminals that fit, in words: "FROM, INTO, ',' or an alias"."""
    told = expected - _UNTOLD
    operand = told.issuperset(_NAMES | _LITERALS) and "CASE" in told
    words: list[str] = []
    if operand:
        words.append("an expression")
        if "STAR" in told:
            words.append("'*'")
        told -= _OPERAND_WORDS | _OPERATORS | _NAMES | _LITERALS
    elif told >= _NAMES:
        words.append("an alias" if "AS" in told else "a name")
        told -= _NAMES | _LITERALS | {"AS"}
    elif told & _NAMES:
        words.append("a word")
        told -= _NAMES
    if "NUMBER" in told:
        words.append("a number")
        told -= _LITERALS
    if "AND" in told and "OR" not in told:
        words.append("AND")  # of BETWEEN
    if len(told & _OPERATORS) > 5:
        words.append("an operator")
        told -= _OPERATORS | {"LPAR"}
    keywords = sorted(_CLAUSES.get(name, name) for name in told if name not in _SYMBOLS)
    symbols = sorted(f"'{_SYMBOLS[name]}'" for name in told if name in _SYMBOLS)
    words = [*keywords, *symbols, *words] or ["'('" if "QLPAR" in expected else "the end of the statement"]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _not_in_language(tokens: Sequence[Token], index: int, expected: frozenset[str]) -> Diagnostic | None:
    """A construct of other SQL dialects, named."""
    token, previous = tokens[index], tokens[index - 1] if index else None
    span = _span(token)
    following = tokens[index + 1].type if index + 1 < len(tokens) else ""
    if token.type in _FOREIGN and following != "DURATION":
        message, hint = _FOREIGN[token.type]
        return Diagnostic("NOT_IN_LANGUAGE", message, span, hint)
    if "SELECT" in expected and token.type == "NAME" and token.upper() in _FOREIGN_STATEMENTS:
        message = f"{token.upper()} is not in the language"
        return Diagnostic("NOT_IN_LANGUAGE", message, span, _FOREIGN_STATEMENTS[token.upper()])
    if previous is None:
        return None
    if token.type == "GROUP" and previous.upper() == "WITHIN":
        place = Span(previous.start_pos or 0, span.end)
        hint = "write PERCENTILE_CONT(0.5) OVER (ORDER BY x)"
        return Diagnostic("NOT_IN_LANGUAGE", "WITHIN GROUP is not in the language", place, hint)
    if token.type == "QLPAR" and "NUMBER" in expected:
        return Diagnostic(
            "NOT_IN_LANGUAGE",
            "a subquery cannot be a value",
            span,
            "put the query into a WITH step and JOIN it",
        )
    if token.type == "QLPAR" and previous.type == "IN":
        place = Span(previous.start_pos or 0, span.end)
        hint = "put the query into a WITH step and JOIN it"
        return Diagnostic("NOT_IN_LANGUAGE", "IN (SELECT ...) is not in the language", place, hint)
    if token.type == "COMMA" and previous.type in _NAMES and "JOIN" in expected:
        hint = "write JOIN ... ON ... AND DATEDIFF(second, a, b) BETWEEN 0 AND 10"
        return Diagnostic("NOT_IN_LANGUAGE", "FROM takes one input; others are joined", span, hint)
    return None


def _hint(tokens: Sequence[Token], index: int, expected: frozenset[str]) -> str:
    """Advice for the slips people make most; the first that fits."""
    token = tokens[index] if index < len(tokens) else Token("$END", "")
    previous = tokens[index - 1] if index else Token("$START", "")
    following = tokens[index + 1] if index + 1 < len(tokens) else Token("$END", "")
    before = previous.upper()
    misspelt = _misspelt(previous, expected_before=True) or _misspelt(token, expected=expected)
    advice = [
        (
            previous.type == "COMMA" and token.type in ("FROM", "INTO", "WHERE", "HAVING", "RPAR", "SELECT"),
            "remove the comma before it",
        ),
        (previous.type == "COMMA" and token.type == "LIMIT", "remove the comma before it"),
        (
            _opened_by(tokens, index) == "OVER" and token.type == "WHERE",
            "inside OVER ( ) the condition is written WHEN ...",
        ),
        (
            _opened_by(tokens, index) == "OVER" and token.type in _OVER_PARTS,
            "inside OVER ( ) the order is PARTITION BY, ORDER BY, LIMIT DURATION, WHEN",
        ),
        (
            _opened_by(tokens, index) == "DURATION" and token.type == "NUMBER",
            "write DURATION(unit, n), as in DURATION(minute, 5)",
        ),
        (
            token.type == "INTO" and "FROM" not in expected,
            "INTO stands before FROM: SELECT ... INTO output FROM input",
        ),
        (
            token.upper() == "ESCAPE",
            "in a pattern [%] and [_] stand for the characters themselves",
        ),
        (
            _is_index(tokens, index),
            "an element of an array is GetArrayElement(a, 0), a field of a record r.name or r.[a name]",
        ),
        (
            token.type == "WHERE" and "HAVING" in expected,
            "WHERE stands before GROUP BY; groups are filtered by HAVING",
        ),
        (
            token.type in ("TIMESTAMP", "PARTITION") and following.type == "BY" and "UNION" in expected,
            f"{token.upper()} BY stands behind an input, in FROM",
        ),
        (
            expected == frozenset({"LPAR"}) and index > 1 and tokens[index - 2].type == "APPLY",
            f"write APPLY GetArrayElements({previous}) AS e or APPLY GetRecordProperties({previous}) AS p",
        ),
        (
            expected == _NAMES | {"AS"} and previous.type == "RPAR",
            "what APPLY makes needs a name: APPLY GetArrayElements(...) AS a",
        ),
        (
            "AS" in expected and token.type in _NAMES | {"COMMA"} and _opened_by(tokens, index) in _CASTS,
            f"write {_opened_by(tokens, index)}(value AS type)",
        ),
        (
            previous.type == "NAME" and before in ("TIMESTAMP", "PARTITION", "ORDER"),
            f"the clause is {before} BY",
        ),
        (
            token.type == "MINUS" and previous.type == following.type == "NAME",
            f"a name with a hyphen is written in brackets: [{previous}-{following}]",
        ),
        (token.type == previous.type == "EQ", "equality is written with one ="),
        (token.type == previous.type == "PIPE", "strings are joined with +, conditions with OR"),
        (token.type == previous.type == "AMP", "conditions are joined with AND"),
        (bool(misspelt), f"did you mean {misspelt}?"),
        (
            token.type in RESERVED and bool(expected & _NAMES) and _stands_as_name(following),
            f"{token.upper()} is a reserved word; as a name it is written [{token}]",
        ),
        ("BY" in expected and token.type != "BY", f"the clause is {before} BY"),
        (
            expected == frozenset({"AS"}) and token.type == "QLPAR",
            "a step is written WITH name AS (SELECT ... FROM ...)",
        ),
        (
            "QLPAR" in expected and previous.type == "AS",
            "a step is written WITH name AS (SELECT ... FROM ...)",
        ),
        (
            "COMMA" in expected and token.type in _NAMES | _LITERALS | {"CASE", "CAST", "TRY_CAST", "LPAR"},
            "a comma may be missing before it",
        ),
        ("END" in expected, "a CASE ends with END"),
        (
            "RPAR" in expected and (token.type == "$END" or token.type in RESERVED),
            "a parenthesis is not closed",
        ),
        (token.type == "RPAR" and _open(tokens[:index]) <= 0, "this parenthesis closes nothing"),
        ("ON" in expected, "a JOIN says what matches: ON ..."),
    ]
    return next((text for fits, text in advice if fits), "")


_CLAUSE_WORDS = (
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "HAVING",
    "UNION",
    "TIMESTAMP",
    "PARTITION",
    "JOIN",
    "LIMIT",
)


def _misspelt(token: Token, expected: frozenset[str] = frozenset(), expected_before: bool = False) -> str:
    """The keyword a bare word was probably meant to be, or ''."""
    words = _CLAUSE_WORDS if expected_before else sorted(expected & set(_CLAUSE_WORDS))
    if token.type != "NAME" or token.upper() in _CLAUSE_WORDS:
        return ""
    return next(iter(get_close_matches(token.upper(), words, 1, 0.75)), "")


def _stands_as_name(following: Token) -> bool:
    """Whether a keyword stands where a name would: what follows is what follows names."""
    return following.type in _OPERATORS | {"COMMA", "FROM", "RPAR", "AS", "SEMI", "$END"}


def _is_index(tokens: Sequence[Token], index: int) -> bool:
    """Whether brackets before `index` touch what stands before them, as in `a[0]`."""
    if index < 2 or tokens[index - 1].type != "BRACKETED":
        return False
    return tokens[index - 2].type in _NAMES and tokens[index - 2].end_pos == tokens[index - 1].start_pos


def _opened_by(tokens: Sequence[Token], index: int) -> str:
    """The word before the innermost parenthesis that is open at `index`, or ''."""
    closed = 0
    for at in range(index - 1, 0, -1):
        if tokens[at].type == "RPAR":
            closed += 1
        elif tokens[at].type in ("LPAR", "QLPAR"):
            if not closed:
                return tokens[at - 1].upper()
            closed -= 1
    return ""


def _open(tokens: Sequence[Token]) -> int:
    """How many parentheses are open behind the tokens; negative if some close nothing."""
    opened = sum(token.type in ("LPAR", "QLPAR") for token in tokens)
    return opened - sum(token.type == "RPAR" for token in tokens)


def _span(token: Token) -> Span:
    return Span(token.start_pos or 0, token.end_pos or 0)
