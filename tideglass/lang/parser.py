"""Text to syntax tree: `parse(Source) -> Script`, or a QueryError with every syntax error found.

tokens.py cuts the text, saql.lark orders the tokens, builder.py makes the nodes. After an error
reading goes on at the next statement, so that one run reports several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, Literal, cast

from lark import Lark, Token, UnexpectedToken
from lark.lexer import Lexer

from tideglass.core.cache import cache_folder
from tideglass.core.errors import Diagnostic, QueryError, Source, Span
from tideglass.lang.builder import Builder
from tideglass.lang.nodes import Script
from tideglass.lang.other_dialects import foreign
from tideglass.lang.problems import Malformed, unexpected
from tideglass.lang.repairs import repaired
from tideglass.lang.tokens import classified, scan, unclassified


def parse(source: Source) -> Script:
    """The syntax tree of a script (`asa.md` 2.1).

    Raises QueryError with all lexical and syntax errors, one a statement at least.
    """
    scanned, problems = scan(source.text)
    script = _read(scanned, source.text, problems)
    if problems or script is None:
        raise QueryError(problems, source)
    return replace(script, span=Span(0, len(source.text)))


class _NoLexer(Lexer):
    """Lark asks for a lexer; the tokens are fed to its parser one by one instead."""

    def __init__(self, lexer_conf: Any) -> None:
        self.lexer_conf = lexer_conf

    def lex(self, lexer_state: Any, parser_state: Any) -> Any:
        return iter(())


@cache
def _automaton() -> Lark:
    """The parsing tables: read from the user's cache, else built (some 0.2 s) and kept there.

    Lark holds a digest of the grammar and the versions beside them, and builds them again when that
    differs or the file is damaged, half written by a command started at the same time, or cannot be kept.
    """
    grammar = resources.files("tideglass.lang").joinpath("saql.lark").read_text(encoding="utf-8")
    return Lark(
        grammar,
        parser="lalr",
        lexer=_NoLexer,
        start="script",
        keep_all_tokens=True,
        maybe_placeholders=True,
        transformer=cast(Any, Builder()),
        cache=_tables_file(),
    )


def _tables_file() -> str | Literal[False]:
    """The file of the parsing tables; False where nothing can be kept."""
    try:
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return False
    return str(folder / "saql-tables")


#: Mistakes of one script after which reading goes on as if they had not been made.
_MOST_REPAIRS = 50


def _read(scanned: list[Token], text: str, problems: list[Diagnostic]) -> Script | None:
    """Parses to the end; an error is added to `problems` and corrected or skipped."""
    tokens = classified(scanned)
    start, prefix, repairs = 0, list[Token](), 0
    while True:
        reading = [*prefix, *tokens[start:]]
        script, malformed, index = _attempt(reading)
        if index is None:
            return script
        failed = start + index - len(prefix)
        found = _diagnosed(reading, index, malformed, repairs < _MOST_REPAIRS)
        if not _is_echo(tokens, start, failed, problems, text):
            problems.append(found.diagnostic)
        if found.reading is not None:
            repairs += 1
            scanned = [*scanned[:start], *found.reading[len(prefix) :]]
            tokens = classified(scanned)
            continue
        resumed = _next_start(tokens, failed)
        if resumed is None:
            return None
        start, prefix = resumed


@dataclass(frozen=True, slots=True)
class _Found:
    """An error, and the corrected tokens as scanned; None if reading can only go on after the error."""

    diagnostic: Diagnostic
    reading: list[Token] | None = None


def _diagnosed(reading: Sequence[Token], index: int, malformed: Malformed | None, repairs: bool) -> _Found:
    """What is wrong at `reading[index]`."""
    if malformed is not None:
        span = malformed.diagnostic.span
        if not malformed.stand_in or not repairs:
            return _Found(malformed.diagnostic)
        before = [token for token in reading if (token.end_pos or 0) <= span.start]
        after = [token for token in reading if (token.start_pos or 0) >= span.end]
        word = Token("NAME", malformed.stand_in, start_pos=span.start, end_pos=span.end)
        return _Found(malformed.diagnostic, [unclassified(t) for t in (*before, word, *after)])
    expected = _expected(reading[:index])
    known = foreign(reading, index, expected) if index < len(reading) else None
    if known is not None:
        return _Found(known)
    repair = None
    if repairs:
        repair = repaired(_automaton(), [unclassified(token) for token in reading], index, expected)
    diagnostic = unexpected(reading, index, expected, repair)
    is_shown = repair is not None and diagnostic.hint == repair.hint and repair.changes
    return _Found(diagnostic, repair.tokens if repair is not None and is_shown else None)


def _is_echo(
    tokens: Sequence[Token], start: int, failed: int, problems: Sequence[Diagnostic], text: str
) -> bool:
    """Whether an error only follows from one before it: unreadable text, or a step that was left unread."""
    place = (tokens[failed].start_pos or 0) if failed < len(tokens) else len(text)
    closes_broken = start > 0 and failed < len(tokens) and tokens[failed].type == "RPAR"
    if closes_broken and _open_parentheses(tokens[start:failed]) <= 0:
        return True
    return any(
        problem.span.start <= place and ";" not in text[problem.span.end : place]
        for problem in problems
        if problem.message.endswith(("has no end", "means nothing here", "begins no comment"))
        or problem.message.startswith("a query begins with SELECT")
    )


def _attempt(tokens: Sequence[Token]) -> tuple[Script | None, Malformed | None, int | None]:
    """The script; or the index of the first token that does not fit, or at which something malformed ends."""
    state = _automaton().parse_interactive()
    index = 0
    try:
        while index < len(tokens):
            state.feed_token(tokens[index])
            index += 1
        script = state.feed_token(Token("$END", ""))
    except Malformed as malformed:
        return None, malformed, index
    except UnexpectedToken:
        return None, None, index
    return script.value, None, None


def _expected(tokens: Sequence[Token]) -> frozenset[str]:
    """The terminals that may follow these tokens.

    The prefix is read again: at the error the parser has already reduced on the wrong token, and
    would name too few.
    """
    state = _automaton().parse_interactive()
    for token in tokens:
        state.feed_token(token)
    return frozenset(state.accepts())


def _next_start(tokens: Sequence[Token], failed_at: int) -> tuple[int, list[Token]] | None:
    """Where reading can go on after an error at `failed_at`: the index and tokens to put before it.

    A statement begins after `;` or at a SELECT that no UNION or parenthesis leads to; a step of
    WITH at `, name AS (SELECT`.
    """
    for index in range(failed_at, len(tokens)):
        token, previous = tokens[index], tokens[index - 1].type if index else ""
        if token.type == "SEMI":
            following = index + 1
            while following < len(tokens) and tokens[following].type == "SEMI":
                following += 1
            return (following, []) if following < len(tokens) else None
        if index == failed_at:
            continue
        if token.type in ("CREATE", "WITH") or (
            token.type == "SELECT" and previous not in ("QLPAR", "UNION", "ALL", "EXCEPT", "INTERSECT")
        ):
            return index, []
        if previous == "COMMA" and [t.type for t in tokens[index + 1 : index + 3]] == ["AS", "QLPAR"]:
            return index, [Token("WITH", "WITH", start_pos=token.start_pos, end_pos=token.start_pos)]
    return None


def _open_parentheses(tokens: Sequence[Token]) -> int:
    opened = sum(token.type in ("LPAR", "QLPAR") for token in tokens)
    return opened - sum(token.type == "RPAR" for token in tokens)
