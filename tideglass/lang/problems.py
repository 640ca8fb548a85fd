"""Messages about text that is no SAQL: the words for what was found and what was expected.

Codes: SYNTAX (not understood), NOT_IN_LANGUAGE (understood, but the language has no such thing),
UNKNOWN_TYPE.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lark import Token

from tideglass.core.errors import Diagnostic, Span
from tideglass.lang.tokens import RESERVED

if TYPE_CHECKING:
    from tideglass.lang.repairs import Repair


class Malformed(Exception):
    """Text that fits the grammar but not the language; holds the one diagnostic.

    stand_in: a word with which reading can go on in place of the text; '' if it cannot.
    """

    def __init__(self, code: str, message: str, span: Span, hint: str = "", stand_in: str = "") -> None:
        super().__init__(message)
        self.diagnostic = Diagnostic(code, message, span, hint)
        self.stand_in = stand_in


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
_UNSHOWN = frozenset(
    """$END SEMI QLPAR ALIAS ALIAS_STRING OVER OVER_KEYS TIMESTAMP PARTITION MATCH_RECOGNIZE CROSS OUTER
    INNER ALL""".split()  # noqa: SIM905
)
_CLAUSES = {"GROUP": "GROUP BY", "LEFT": "LEFT JOIN"}
_OVER_PARTS = frozenset({"PARTITION", "ORDER", "LIMIT", "WHEN"})
_CASTS = frozenset({"CAST", "TRY_CAST"})


def unexpected(
    tokens: Sequence[Token], index: int, expected: frozenset[str], repair: Repair | None = None
) -> Diagnostic:
    """The diagnostic for `tokens[index]` (or the end of the text), where one of `expected` fits.

    repair: the change with which reading gets further, if there is one.
    """
    if index >= len(tokens):
        end = (tokens[-1].end_pos or 0) if tokens else 0
        found, span = "the query ends", Span(max(end - 1, 0), end)
        if not tokens:
            return Diagnostic("SYNTAX", "the query is empty", span, "write SELECT ... FROM ...")
    else:
        found = "a query begins" if tokens[index].type == "QLPAR" else f"'{tokens[index]}' stands"
        span = _span(tokens[index])
    if repair is not None and repair.message:
        return Diagnostic("SYNTAX", repair.message, repair.span, repair.hint)
    message = f"{expectation(expected)} was expected where {found}"
    hint = _hint(tokens, index, expected) or (repair.hint if repair is not None else "")
    return Diagnostic("SYNTAX", message, span, hint or _last_resort(tokens, index, expected))


def expectation(expected: frozenset[str]) -> str:
    """The terminals that fit, in words: "FROM, INTO, ',' or an alias"."""
    shown = expected - _UNSHOWN
    operand = shown.issuperset(_NAMES | _LITERALS) and "CASE" in shown
    words: list[str] = []
    if operand:
        words.append("an expression")
        if "STAR" in shown:
            words.append("'*'")
        shown -= _OPERAND_WORDS | _OPERATORS | _NAMES | _LITERALS
    elif shown >= _NAMES:
        words.append("an alias" if "AS" in shown else "a name")
        shown -= _NAMES | _LITERALS | {"AS"}
    elif shown & _NAMES:
        words.append("a word")
        shown -= _NAMES
    if "NUMBER" in shown:
        words.append("a number")
        shown -= _LITERALS
    if "AND" in shown and "OR" not in shown:
        words.append("AND")  # of BETWEEN
    if len(shown & _OPERATORS) > 5:
        words.append("an operator")
        shown -= _OPERATORS | {"LPAR"}
    keywords = sorted(_CLAUSES.get(name, name) for name in shown if name not in _SYMBOLS)
    symbols = sorted(f"'{_SYMBOLS[name]}'" for name in shown if name in _SYMBOLS)
    words = [*keywords, *symbols, *words] or ["'('" if "QLPAR" in expected else "the end of the statement"]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _hint(tokens: Sequence[Token], index: int, expected: frozenset[str]) -> str:
    """Advice for the slips people make most; the first that fits."""
    token = tokens[index] if index < len(tokens) else Token("$END", "")
    previous = tokens[index - 1] if index else Token("$START", "")
    following = tokens[index + 1] if index + 1 < len(tokens) else Token("$END", "")
    before = previous.upper()
    advice = [
        (
            token.startswith("#") or previous.startswith("#"),
            "a comment is -- up to the end of the line, or /* between these */",
        ),
        (
            expected == frozenset({"TO"}) and token.upper() == "PAST",
            "the one way to go on is AFTER MATCH SKIP TO NEXT ROW",
        ),
        (
            token.type == "COMMA" and _opened_by(tokens, index) == "COUNT",
            "COUNT(DISTINCT x) takes one value; count several as one text: COUNT(DISTINCT CONCAT(a, '|', b))",
        ),
        (
            token.type in ("WHERE", "GROUP", "HAVING") and {"FROM", "COMMA"} <= expected,
            f"FROM stands before it: SELECT ... FROM input {_CLAUSES.get(token.type, token.type)} ...",
        ),
        (
            previous.type == "STRING" and index > 1 and tokens[index - 2].end_pos == previous.start_pos,
            f"a text has no letter before it: {previous}",
        ),
        (token.type == "QUESTION", "what depends on a condition is CASE WHEN ... THEN ... ELSE ... END"),
        (token.type in ("LBRACE", "RBRACE"), "braces stand in PATTERN of MATCH_RECOGNIZE only"),
        (
            expected == frozenset({"LPAR"})
            and token.type == "AS"
            and index > 2
            and tokens[index - 2].type == "TABLE",
            "CREATE TABLE declares columns: name type, ...; a query with a name is a WITH step",
        ),
        (
            previous.type == "IS"
            or (previous.type == "NOT" and index > 1 and tokens[index - 2].type == "IS"),
            "IS stands before NULL and NOT NULL only; values are compared with = and <>",
        ),
        (previous.type == "NOT" and token.type == "IS", "write IS NOT NULL"),
        (
            previous.type == "NOT" and expected == frozenset({"BETWEEN", "IN", "LIKE"}),
            "not equal is written <>",
        ),
        (
            token.type in ("IN", "LIKE", "BETWEEN", "IS") and "NUMBER" in expected,
            f"say what is compared: x {'NOT ' if previous.type == 'NOT' else ''}{token.upper()} ...",
        ),
        (
            expected <= _NAMES | {"STRING"} and token.type in _CLAUSE_WORDS | {"SEMI", "$END"},
            f"a name is missing after {before}",
        ),
        ("WHEN" in expected and token.type == "THEN", "write CASE WHEN condition THEN value"),
        (expected == frozenset({"DURATION"}), "write LIMIT DURATION(minute, 5)"),
        (
            bool(expected) and expected <= {"JOIN", "OUTER", "APPLY"},
            "the joins are JOIN and LEFT JOIN, and CROSS APPLY and OUTER APPLY of arrays and records",
        ),
        (
            token.type == "NAME" and token.upper() in ("INNER", "LEFT") and "JOIN" in expected,
            f"the clause is {token.upper()} JOIN",
        ),
        (token.type == "BY", "the clause is GROUP BY, or after an input TIMESTAMP BY or PARTITION BY"),
        (
            expected <= {"LPAR", "RPAR", "COMMA"}
            and token.type in _NAMES | RESERVED
            and _declares(tokens, index),
            "a column of CREATE TABLE is a name and a type",
        ),
        (
            index > 1 and tokens[index - 2].type == "AS" and previous.type == token.type == "NAME",
            f"a name of several words is written in brackets: [{previous} {token}]",
        ),
        (
            previous.type == "IN" and expected == frozenset({"LPAR"}),
            "the values of IN stand in parentheses: x IN (1, 2)",
        ),
        (previous.type == "EQ" and token.type in ("GT", "LT"), f"write {token}="),
        (
            token.type == "EQ" and previous.type in _OPERATORS - {"EQ"},
            "= compares; columns are not assigned to",
        ),
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
            previous.type in ("LPAR", "QLPAR")
            and "PARTITION" in expected
            and _opened_by(tokens, index) == "OVER",
            "inside OVER ( ) stand PARTITION BY, ORDER BY, LIMIT DURATION or WHEN",
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
            token.type == "WHERE" and "UNION" in expected and tokens[index - 1].type != "FROM",
            "WHERE stands before GROUP BY; groups are filtered by HAVING",
        ),
        (
            token.type in ("TIMESTAMP", "PARTITION") and following.type == "BY" and "UNION" in expected,
            f"{token.upper()} BY stands after an input, in FROM",
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
            bool(_name_in_pieces(tokens, index)),
            f"a name with other characters in it is written in brackets: [{_name_in_pieces(tokens, index)}]",
        ),
        (
            "ON" in expected and token.type in _CLAUSE_WORDS | {"SEMI", "$END"},
            "a JOIN says what matches: ON ...",
        ),
        (token.type == previous.type == "EQ", "equality is written with one ="),
        (token.type == previous.type == "PIPE", "strings are joined with +, conditions with OR"),
        (token.type == previous.type == "AMP", "conditions are joined with AND"),
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
    ]
    return next((text for fits, text in advice if fits), "")


def _last_resort(tokens: Sequence[Token], index: int, expected: frozenset[str]) -> str:
    """Advice where no slip is known and no change near the place helps; the first that fits."""
    token = tokens[index] if index < len(tokens) else Token("$END", "")
    advice = [
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
        (
            token.type in ("SEMI", "$END") and "FROM" in expected,
            "a query says where its rows come from: SELECT ... FROM input",
        ),
        (
            token.type in ("SEMI", "$END") and {"SELECT", "COMMA"} <= expected,
            "after the steps of WITH follows a SELECT that reads them",
        ),
        ("CREATE" in expected, "a query begins with SELECT, or with WITH name AS (SELECT ...)"),
        (
            "NUMBER" in expected and token.type in _CLAUSE_WORDS,
            f"something is missing before {token.upper()}",
        ),
        ("NUMBER" in expected and token.type in ("$END", "SEMI"), "something is missing at the end"),
    ]
    return next((text for fits, text in advice if fits), "")


_CLAUSE_WORDS = frozenset({"FROM", "INTO", "WHERE", "GROUP", "HAVING", "UNION", "AS", "AND", "OR"})


def _name_in_pieces(tokens: Sequence[Token], index: int) -> str:
    """The name that a hyphen, a dot or the like at `index` is part of, when the pieces touch; else ''."""
    if index >= len(tokens) or tokens[index].type not in ("MINUS", "DOT", "SLASH") or not index:
        return ""
    if tokens[index - 1].type == "DOT":
        return ""
    start = end = index
    while start and tokens[start - 1].end_pos == tokens[start].start_pos and _is_piece(tokens[start - 1]):
        start -= 1
    while (
        end + 1 < len(tokens)
        and tokens[end + 1].start_pos == tokens[end].end_pos
        and _is_piece(tokens[end + 1])
    ):
        end += 1
    return "" if start == index else "".join(tokens[start : end + 1])


def _declares(tokens: Sequence[Token], index: int) -> bool:
    """Whether `index` is between the columns of a CREATE TABLE."""
    opened = [at for at in range(index) if tokens[at].type == "CREATE"]
    return bool(opened) and not any(token.type in ("SEMI", "SELECT") for token in tokens[opened[-1] : index])


def _is_piece(token: Token) -> bool:
    return token.type in ("NAME", "NUMBER", "MINUS", "DOT", "SLASH") or token.type in RESERVED


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
    """How many parentheses are open after the tokens; negative if some close nothing."""
    opened = sum(token.type in ("LPAR", "QLPAR") for token in tokens)
    return opened - sum(token.type == "RPAR" for token in tokens)


def _span(token: Token) -> Span:
    return Span(token.start_pos or 0, token.end_pos or 0)
