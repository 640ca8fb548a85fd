"""What was probably meant where reading stopped, found by trying it.

Each small change of the text near the place (a word spelled as a keyword, a name put into brackets, a token
left out, put in or replaced) is read again. The message shows the one with which reading gets furthest, so a
hint names something that works. Reading then goes on as if it were written so, and finds the next mistake.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from lark import Lark, Token, UnexpectedToken

from tideglass.core.errors import Span
from tideglass.lang.other_dialects import FOREIGN_KEYWORDS, NAMES, keyword
from tideglass.lang.spelling import distance, keywords_like
from tideglass.lang.tokens import RESERVED, classified

#: Tokens after the place that are read again: enough to see that a change fits.
_AHEAD = 200
#: How far a change must get, in tokens, unless all is read: the spelling of a word, brackets, and any other.
_LEAST_OF_SPELLING, _LEAST_OF_BRACKETS, _LEAST = 1, 2, 5
#: Tokens before the place that are read again; a change makes none before them another.
_BEFORE = 8
_FOLLOW_NAMES = frozenset(
    """COMMA FROM INTO RPAR AS SEMI $END DOT EQ NE GT GE LT LE PLUS MINUS STAR SLASH PERCENT LIKE BETWEEN IN
    IS NOT AND OR ASC DESC GROUP WHERE HAVING""".split()  # noqa: SIM905 - a list of words reads better as words
)
_CLAUSES = frozenset({"SELECT", "FROM", "INTO", "WHERE", "GROUP", "HAVING", "UNION", "JOIN", "WITH"})
_SPELLED = {"COMMA": ",", "LPAR": "(", "RPAR": ")", "DOT": ".", "EQ": "="}
_PUT_IN = ("COMMA", "RPAR", "END", "FROM", "AS", "BY", "ON", "THEN", "AND", "SELECT", "LPAR", "WHEN")
_PUT_IN_PLACE = ("AND", "AS", "THEN", "END", "RPAR")
#: What people write in place of another word: BETWEEN 1 TO 5, CAST(x, float).
_REPLACED = frozenset({"NAME", "OR", "COMMA", "MINUS", "LIKE", "IN", "IS"})


@dataclass(frozen=True, slots=True)
class Repair:
    """A change with which reading gets further.

    tokens: the tokens with the change, as they were scanned
    hint: what to do
    message: what is wrong; empty: the expected tokens are enough
    span: where; empty: the expected tokens are enough
    changes: reading can go on with it
    least: how many tokens must be read after it, so that it counts
    """

    tokens: list[Token]
    hint: str
    message: str = ""
    span: Span = field(default_factory=Span)
    changes: bool = True
    least: int = _LEAST


class Trial:
    """Reads changed tokens from a little before the place where reading stopped."""

    def __init__(self, automaton: Lark, tokens: Sequence[Token], failed: int) -> None:
        self._start = max(failed - _BEFORE, 0)
        self._failed = failed
        self._state: Any = automaton.parse_interactive()
        conf = copy(self._state.parser_state.parse_conf)
        conf.callbacks = {}  # nothing is made of what is read
        self._state.parser_state.parse_conf = conf
        for token in tokens[: self._start]:
            self._state.feed_token(token)

    def unread(self, tokens: Sequence[Token]) -> int:
        """How many tokens are left where reading stops, the end of the text among them; 0 if it reads all."""
        state = self._state.copy(deepcopy_values=False)
        for index in range(self._start, len(tokens)):
            if index > self._failed + _AHEAD:
                return len(tokens) - index
            try:
                state.feed_token(tokens[index])
            except UnexpectedToken:
                return len(tokens) - index + 1
        try:
            state.feed_token(Token("$END", ""))
        except UnexpectedToken:
            return 1
        return 0


def repaired(
    automaton: Lark, scanned: Sequence[Token], failed: int, expected: frozenset[str]
) -> Repair | None:
    """The change at `scanned[failed]`, or near it, with which most can be read; None if none helps.

    scanned: the tokens by their shape alone. expected: the terminals that fit at the place.
    """
    tokens = classified(scanned)
    trial = Trial(automaton, tokens, failed)
    best, least = None, len(tokens) - failed + 1
    for repair in _repairs(scanned, tokens, failed, expected):
        unread = trial.unread(classified(repair.tokens))
        gained = len(tokens) - failed + 1 - unread
        if (unread == 0 or gained >= repair.least) and unread < least:
            best, least = repair, unread
        if unread == 0:
            break
    return best or _foreign_word(scanned, tokens, failed)


def _foreign_word(scanned: Sequence[Token], tokens: Sequence[Token], failed: int) -> Repair | None:
    """A keyword of another dialect that is misspelt, such as ODER BY; nothing can be read after it."""
    for at in (failed, failed - 1):
        if not 0 <= at < len(tokens) or scanned[at].type != "NAME" or not at:
            continue
        for word in FOREIGN_KEYWORDS:
            if distance(scanned[at].upper(), word) != 1 or len(word) < 4:
                continue
            meant = classified(_changed(scanned, at, at + 1, [_like("NAME", word, scanned[at])]))
            if meant[at].type == word:
                shown = keyword(meant, at)
                return Repair(list(scanned), shown.hint, shown.message, shown.span, changes=False)
    return None


def _repairs(
    scanned: Sequence[Token], tokens: Sequence[Token], failed: int, expected: frozenset[str]
) -> Iterator[Repair]:
    """Changes to try, the likeliest first."""
    near = [at for at in (failed, failed - 1, failed + 1, failed - 2, failed - 3) if 0 <= at < len(tokens)]
    for at in near:
        yield from _spellings(scanned, tokens, at)
    for at in (failed, failed - 1):
        if at == failed - 1 and (at < 0 or tokens[at].type not in ("CASE", "NOT")):
            continue  # any other word was read as the keyword it is
        if at < len(tokens) and _is_reserved_name(tokens, at, expected):
            token = scanned[at]
            hint = f"as a name it is written [{token}]"
            bracketed = [_like("BRACKETED", f"[{token}]", token)]
            message = f"{token.upper()} is a reserved word"
            changed = _changed(scanned, at, at + 1, bracketed)
            yield Repair(changed, hint, message, _span(token), least=_LEAST_OF_BRACKETS)
    for at in (failed - 1, failed):
        if 0 <= at < len(tokens) and not _is_word_of_its_own(tokens, at):
            yield Repair(_changed(scanned, at, at + 1, []), _leave_out(scanned[at], at < failed))
    for terminal in (name for name in _PUT_IN if name in expected):
        if terminal == "AND" and failed + 1 >= len(scanned) and "OR" in expected:
            continue  # nothing would follow it
        before = scanned[failed] if failed < len(scanned) else _end_of(scanned)
        put_in = [_like("NAME" if terminal not in _SPELLED else terminal, _written(terminal), before)]
        yield Repair(_changed(scanned, failed, failed, put_in), _put_in(terminal, failed < len(scanned)))
    if 1 < failed < len(scanned) and "FROM" in expected:
        put_in = [_like("NAME", "FROM", scanned[failed - 1])]
        yield Repair(
            _changed(scanned, failed - 1, failed - 1, put_in),
            f"FROM may be missing before '{scanned[failed - 1]}'",
        )
    if failed < len(scanned) and tokens[failed].type in _REPLACED:
        for terminal in (name for name in _PUT_IN_PLACE if _is_only(name, expected)):
            kind = "NAME" if terminal not in _SPELLED else terminal
            other = [_like(kind, _written(terminal), scanned[failed])]
            yield Repair(
                _changed(scanned, failed, failed + 1, other),
                f"write {_shown(terminal)} in place of '{scanned[failed]}'",
            )


def _spellings(scanned: Sequence[Token], tokens: Sequence[Token], at: int) -> Iterator[Repair]:
    token = scanned[at]
    if token.type != "NAME" or (at and tokens[at - 1].type == "DOT"):
        return
    for words in keywords_like(token):
        meant = [_like("NAME", word, token) for word in words.split()]
        yield Repair(
            _changed(scanned, at, at + 1, meant),
            f"did you mean {words}?",
            f"'{token}' is no word that fits here",
            _span(token),
            least=_LEAST_OF_SPELLING,
        )


def _is_reserved_name(tokens: Sequence[Token], at: int, expected: frozenset[str]) -> bool:
    """Whether a keyword stands where a name would: what follows is what follows names."""
    if tokens[at].type not in RESERVED:
        return False
    if expected <= NAMES | {"QLPAR"}:
        return True
    following = tokens[at + 1].type if at + 1 < len(tokens) else "$END"
    is_clause = following == "$END" and tokens[at].type in _CLAUSES
    return following in _FOLLOW_NAMES and not is_clause and tokens[at].type not in ("NOT", "NULL")


def _is_only(terminal: str, expected: frozenset[str]) -> bool:
    """Whether a word must stand here: the AND of BETWEEN, the AS of CAST."""
    others = {"AND": {"OR"}, "AS": NAMES}
    return terminal in expected and not expected & others.get(terminal, set())


def _is_word_of_its_own(tokens: Sequence[Token], at: int) -> bool:
    """Whether a token has a meaning of its own, so that it is no slip, unless it is there twice."""
    if tokens[at].type in ("COMMA", "SEMI", "RPAR", "LPAR", "DOT"):
        return False
    return not (at and tokens[at - 1].upper() == tokens[at].upper())


def _leave_out(token: Token, is_before: bool) -> str:
    names = {"COMMA": "the comma", "SEMI": "the semicolon", "DOT": "the dot"}
    if token.type == "RPAR":
        return "this parenthesis closes nothing"
    if token.type in names:
        return f"remove {names[token.type]}" + (" before it" if is_before else "")
    return f"'{token}' stands here twice" if token.type != "LPAR" else "a parenthesis is not closed"


def _put_in(terminal: str, inside: bool) -> str:
    match terminal:
        case "RPAR":
            return "a parenthesis is not closed"
        case "END":
            return "a CASE ends with END"
        case "COMMA":
            return "a comma may be missing before it"
        case _:
            return f"{_shown(terminal)} may be missing " + ("before it" if inside else "at the end")


def _written(terminal: str) -> str:
    return _SPELLED.get(terminal, terminal)


def _shown(terminal: str) -> str:
    return f"'{_SPELLED[terminal]}'" if terminal in _SPELLED else terminal


def _changed(tokens: Sequence[Token], start: int, end: int, others: Sequence[Token]) -> list[Token]:
    return [*tokens[:start], *others, *tokens[end:]]


def _end_of(scanned: Sequence[Token]) -> Token:
    """The end of the text, after its last token."""
    place = scanned[-1].end_pos if scanned else 0
    return Token("$END", "", start_pos=place, end_pos=place)


def _like(kind: str, text: str, token: Token) -> Token:
    """A token that stands where another one does."""
    return Token(kind, text, start_pos=token.start_pos, end_pos=token.end_pos)


def _span(token: Token) -> Span:
    return Span(token.start_pos or 0, token.end_pos or 0)
