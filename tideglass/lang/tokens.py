"""SAQL text to tokens (`asa.md` 2.2), each word already classified as keyword or name.

Few words are reserved. All others (`time`, `value`, `limit`, `left`, ...) are keywords only where
the words around them make them so: LIMIT before DURATION, LEFT before JOIN, OVER before a parenthesis.
That is decided here in one pass, so the grammar stays free of such questions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from lark import Token

from tideglass.core.errors import Diagnostic, Span
from tideglass.lang.characters import unreadable

# Keywords wherever they stand, except after a dot; as a column they are written [word].
RESERVED = frozenset(
    """AND AS BETWEEN BY CASE ELSE END FROM GROUP HAVING IN INTO IS JOIN LIKE NOT NULL ON OR SELECT THEN UNION
    WHEN WHERE WITH""".split()  # noqa: SIM905 - a list of words reads better as words
)

# Keywords only when the next token is one of these.
_BEFORE: dict[str, frozenset[str]] = {
    "CREATE": frozenset({"TABLE"}),
    "TIMESTAMP": frozenset({"BY"}),
    "PARTITION": frozenset({"BY"}),
    "ORDER": frozenset({"BY"}),
    "INNER": frozenset({"JOIN"}),
    "LEFT": frozenset({"JOIN", "OUTER"}),
    "RIGHT": frozenset({"JOIN", "OUTER"}),
    "FULL": frozenset({"JOIN", "OUTER"}),
    "CROSS": frozenset({"JOIN", "APPLY"}),
    "OUTER": frozenset({"JOIN", "APPLY"}),
    "CAST": frozenset({"("}),
    "TRY_CAST": frozenset({"("}),
    "MATCH_RECOGNIZE": frozenset({"("}),
    "EXCEPT": frozenset({"SELECT", "("}),
    "INTERSECT": frozenset({"SELECT", "("}),
    "EXISTS": frozenset({"("}),
}

# Keywords only after one of these tokens.
_AFTER: dict[str, frozenset[str]] = {
    "TABLE": frozenset({"CREATE"}),
    "APPLY": frozenset({"CROSS", "OUTER"}),
    "DURATION": frozenset({"LIMIT"}),
    "ALL": frozenset({"UNION"}),
    "TOP": frozenset({"SELECT", "DISTINCT"}),
    "DISTINCT": frozenset({"SELECT", "LPAR"}),
}

# Keywords directly inside the parentheses of MATCH_RECOGNIZE.
_MATCH_WORDS = frozenset({"MEASURES", "AFTER", "MATCH", "SKIP", "TO", "NEXT", "ROW", "PATTERN", "DEFINE"})

_OF_OTHERS = frozenset({"RIGHT", "FULL", "EXCEPT", "INTERSECT", "EXISTS", "TOP"})
#: Every word of the language that is a keyword somewhere.
KEYWORDS = (
    RESERVED | _BEFORE.keys() | _AFTER.keys() | _MATCH_WORDS | {"OVER", "ASC", "DESC", "LIMIT"}
) - _OF_OTHERS

_PUNCTUATION = {
    "<>": "NE", "!=": "NE", ">=": "GE", "<=": "LE", "!>": "LE", "!<": "GE", "=": "EQ", ">": "GT", "<": "LT",
    "(": "LPAR", ")": "RPAR", ",": "COMMA", ";": "SEMI", ".": "DOT", "+": "PLUS", "-": "MINUS", "*": "STAR",
    "/": "SLASH", "%": "PERCENT", "&": "AMP", "|": "PIPE", "^": "CARET", "~": "TILDE", "?": "QUESTION",
    "{": "LBRACE", "}": "RBRACE",
}  # fmt: skip

_SHAPES = frozenset({*_PUNCTUATION.values(), "NAME", "NUMBER", "STRING", "QUOTED", "BRACKETED"})
_BY_SHAPE = {"'": "STRING", '"': "QUOTED", "[": "BRACKETED"}

_SCAN = re.compile(
    r"""(?P<skip>[\s\ufeff]+|--[^\n]*|/\*.*?\*/)
      | (?P<NAME>[^\W\d][\w@$\#]*|[@$\#][\w@$\#]+)
      | (?P<NUMBER>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<STRING>'[^']*(?:''[^']*)*')
      | (?P<QUOTED>"[^"]*(?:""[^"]*)*")
      | (?P<BRACKETED>\[[^\]\n]*(?:\]\][^\]\n]*)*\])
      | (?P<punctuation><>|[!<>]=|![<>]|[=<>(),;.+\-*%&|^~?{}]|/(?![*/]))
    """,
    re.VERBOSE | re.DOTALL,
)
_MEMBER = re.compile(r"\w+")  # after a dot a name may begin with a digit: a.0.b
_ENDS_PATH = frozenset({"NAME", "BRACKETED", "QUOTED", "RPAR"})
_ENDS_OPERAND = _ENDS_PATH | {"STRING", "NUMBER", "NULL", "END"}
_OPERAND_TYPES = frozenset({"NAME", "BRACKETED", "QUOTED", "STRING", "NUMBER"})
_AFTER_OPERAND = frozenset({"FROM", "AS", "INTO", "AND", "OR", "IS", "IN", "LIKE", "BETWEEN"})


@dataclass(slots=True)
class _Frame:
    """What is known between one pair of parentheses (or at the top)."""

    selecting: bool = False  # between SELECT and its INTO or FROM
    ordering: bool = False  # after ORDER BY
    open_cases: int = 0  # CASE without its END yet, whose WHEN is its own
    stamping: bool = False  # after TIMESTAMP BY, whose OVER has not been read yet
    matching: bool = False  # directly inside MATCH_RECOGNIZE ( )


def tokenize(text: str) -> tuple[list[Token], list[Diagnostic]]:
    """The tokens of a script, and what could not be read as one.

    Token types are the terminals of saql.lark. After a lexical error reading goes on, so that one
    run finds several. Codes: SYNTAX.
    """
    tokens, problems = scan(text)
    return classified(tokens), problems


def classified(scanned: Sequence[Token]) -> list[Token]:
    """The tokens of `scan`, with keywords marked where a word is one."""
    tokens = [Token(t.type, t.value, start_pos=t.start_pos, end_pos=t.end_pos) for t in scanned]
    _classify(tokens)
    return tokens


def unclassified(token: Token) -> Token:
    """A token as `scan` makes it: a word is a name, whatever stands around it."""
    kind = _BY_SHAPE.get(token[:1], "NAME") if token.type not in _SHAPES else token.type
    kind = "LPAR" if token.type == "QLPAR" else kind
    return Token(kind, token.value, start_pos=token.start_pos, end_pos=token.end_pos)


def scan(text: str) -> tuple[list[Token], list[Diagnostic]]:
    """Pieces of text by shape alone: words are all NAME."""
    tokens: list[Token] = []
    problems: list[Diagnostic] = []
    position = 0
    while position < len(text):
        dotted = bool(tokens) and tokens[-1].type == "DOT"
        member = _MEMBER.match(text, position) if dotted else None
        found = member or _SCAN.match(text, position)
        if found is None:
            problem, end, kind = unreadable(text, position)
            problems.append(problem)
            if kind:
                tokens.append(_token(kind, text, position, end))
            position = end
            continue
        kind, end = ("NAME", found.end()) if member else (found.lastgroup or "", found.end())
        if kind == "NUMBER" and text[position] == "." and _joined(tokens, position):
            kind, end = "DOT", position + 1
        elif kind == "punctuation":
            kind = _PUNCTUATION[found.group()]
        elif kind == "NUMBER" and (word := _MEMBER.match(text, end)):
            written = text[position : word.end()]
            problems.append(
                Diagnostic(
                    "SYNTAX",
                    f"'{written}' is neither a number nor a name",
                    Span(position, word.end()),
                    f"a name that begins with a digit is written [{written}]",
                )
            )
            kind, end = "NAME", word.end()
        if kind != "skip":
            tokens.append(_token(kind, text, position, end))
        position = end
    return tokens, problems


def _token(kind: str, text: str, start: int, end: int) -> Token:
    return Token(kind, text[start:end], start_pos=start, end_pos=end)


def _joined(tokens: list[Token], position: int) -> bool:
    """Whether a dot here touches an operand, as in `a.0`, rather than begins a number, as in `.5`."""
    return bool(tokens) and tokens[-1].end_pos == position and tokens[-1].type in _ENDS_PATH


def _classify(tokens: list[Token]) -> None:
    """Turns words that are keywords where they stand into tokens of their own type."""
    frames = [_Frame()]
    for index, token in enumerate(tokens):
        previous = tokens[index - 1].type if index else ""
        if token.type == "NAME" and previous != "DOT":
            word = token.upper()
            following = tokens[index + 1] if index + 1 < len(tokens) else None
            if _is_keyword(word, previous, following, frames[-1]):
                token.type = word
        frame = frames[-1]
        match token.type:
            case "LPAR":
                if _opens_query(tokens, index):
                    token.type = "QLPAR"
                frames.append(_Frame(matching=previous == "MATCH_RECOGNIZE"))
            case "RPAR":
                if len(frames) > 1:
                    frames.pop()
            case "SEMI":
                frames = [_Frame()]
            case "SELECT":
                frame.selecting, frame.stamping = True, False
            case "FROM" | "INTO":
                frame.selecting = False
            case "TIMESTAMP":
                frame.stamping = True
            case "ORDER":
                frame.ordering = True
            case "CASE":
                frame.open_cases += 1
            case "END":
                frame.open_cases -= 1
            case "LIMIT" | "WHEN" if frame.open_cases <= 0:
                frame.ordering = False
            case "OVER" if frame.stamping and not _opens_over_clause(tokens, index + 1):
                token.type = "OVER_KEYS"
                frame.stamping = False
            case "JOIN" | "ON" | "PARTITION" | "WHERE" | "GROUP" | "HAVING" | "MATCH_RECOGNIZE" | "UNION":
                frame.stamping = False
            case "NAME" | "BRACKETED" | "QUOTED" | "STRING" if frame.selecting and previous in (
                "SELECT",
                "COMMA",
            ):
                if index + 1 < len(tokens) and tokens[index + 1].type == "EQ":
                    token.type = "ALIAS_STRING" if token.type == "STRING" else "ALIAS"
            case _:
                continue


def _is_keyword(word: str, previous: str, following: Token | None, frame: _Frame) -> bool:
    if word in RESERVED:
        return True
    after = following.upper() if following is not None else ""
    match word:
        case "OVER":
            after_call = previous == "RPAR" and after in ("(", "PARTITION", "ORDER", "LIMIT", "WHEN")
            return after_call or (frame.stamping and previous in _ENDS_OPERAND)
        case "ASC" | "DESC":
            return frame.ordering and previous in _ENDS_OPERAND
        case "LIMIT":
            return after == "DURATION" or (following is not None and following.type == "NUMBER")
        case "OUTER":
            return after in _BEFORE[word] and previous != "AS"
        case "EXISTS":
            return after == "(" and previous in ("WHERE", "HAVING", "AND", "OR", "NOT", "ON", "WHEN", "LPAR")
        case "TOP":
            return previous in _AFTER[word] and following is not None and following.type in ("NUMBER", "LPAR")
        case "DISTINCT":
            return previous in _AFTER[word] and _begins_operand(following, after, previous == "SELECT")
        case _ if word in _MATCH_WORDS:
            return frame.matching and previous not in ("AS", "BY", "COMMA")
        case _ if word in _BEFORE:
            is_name = previous == "AS" and word not in ("CAST", "TRY_CAST")  # as in FROM a AS left JOIN b
            return after in _BEFORE[word] and not is_name
        case _:
            return previous in _AFTER.get(word, ())


def _begins_operand(token: Token | None, word: str, selecting: bool) -> bool:
    """Whether what follows DISTINCT is its operand, rather than something after a column of that name."""
    if token is None or word in _AFTER_OPERAND:
        return False
    return token.type in _OPERAND_TYPES or word in ("-", "+", "~", "(") or (selecting and word == "*")


def _opens_over_clause(tokens: list[Token], index: int) -> bool:
    """Whether an analytic function's OVER ( ) begins here, rather than the keys of substreams."""
    words = [token.upper() for token in tokens[index : index + 3]]
    return words[:2] in (["(", ")"], ["(", "WHEN"]) or words in (
        ["(", "PARTITION", "BY"],
        ["(", "ORDER", "BY"],
        ["(", "LIMIT", "DURATION"],
    )


def _opens_query(tokens: list[Token], index: int) -> bool:
    """Whether the parenthesis here is around a query: `(SELECT`, `((SELECT`."""
    while index < len(tokens) and tokens[index].type in ("LPAR", "QLPAR"):
        index += 1
    return index < len(tokens) and tokens[index].type == "NAME" and tokens[index].upper() == "SELECT"
