"""Text to syntax tree: `parse(Source) -> Script`, or a QueryError with every syntax error found.

tokens.py cuts the text, saql.lark orders the tokens, builder.py makes the nodes. After an error
reading goes on at the next statement, so that one run reports several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any, Literal, cast

from lark import Lark, Token, UnexpectedToken
from lark.lexer import Lexer

from tideglass.core.cache import cache_folder
from tideglass.core.errors import Diagnostic, QueryError, Source, Span
from tideglass.lang.builder import Builder
from tideglass.lang.nodes import Script
from tideglass.lang.problems import Malformed, unexpected
from tideglass.lang.tokens import tokenize


def parse(source: Source) -> Script:
    """The syntax tree of a script (`asa.md` 2.1).

    Raises QueryError with all lexical and syntax errors, one a statement at least.
    """
    tokens, problems = tokenize(source.text)
    script = _read(tokens, source.text, problems)
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


def _read(tokens: list[Token], text: str, problems: list[Diagnostic]) -> Script | None:
    """Parses; on an error adds to `problems` and tries again behind it, until the tokens end."""
    script, error, failed_at = _attempt(tokens, text)
    offset = 0
    while error is not None:
        rest = tokens[offset:]
        place = (rest[failed_at].start_pos or 0) if failed_at < len(rest) else len(text)
        closes_broken = offset > 0 and failed_at < len(rest) and rest[failed_at].type == "RPAR"
        follows = (closes_broken and _open_parentheses(rest[:failed_at]) <= 0) or _follows(
            place, problems, text
        )
        if not follows:
            problems.append(error)
        resumed = _next_start(tokens, offset + failed_at)
        if resumed is None:
            return None
        offset, prefix = resumed
        _, error, failed_at = _attempt([*prefix, *tokens[offset:]], text)
        failed_at -= len(prefix)
    return script


def _follows(place: int, problems: Sequence[Diagnostic], text: str) -> bool:
    """Whether an error at `place` only echoes something unreadable before it in the same statement."""
    return any(
        problem.span.start <= place and ";" not in text[problem.span.end : place]
        for problem in problems
        if problem.message.endswith("has no end")
    )


def _attempt(tokens: Sequence[Token], text: str) -> tuple[Script | None, Diagnostic | None, int]:
    """The script, or the first error and the index of the token it was found at."""
    state = _automaton().parse_interactive()
    index = 0
    try:
        while index < len(tokens):
            state.feed_token(tokens[index])
            index += 1
        script = state.feed_token(Token("$END", ""))
    except Malformed as malformed:
        return None, malformed.diagnostic, index
    except UnexpectedToken:
        return None, unexpected(tokens, index, _expected(tokens[:index])), index
    return script.value, None, index


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

    A statement begins behind `;` or at a SELECT that no UNION or parenthesis leads to; a step of
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
