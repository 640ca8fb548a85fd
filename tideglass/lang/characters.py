"""Characters that begin nothing in SAQL: the message about them, and where reading goes on."""

from __future__ import annotations

import re
import unicodedata

from tideglass.core.errors import Diagnostic, Span

_UNCLOSED = {
    "'": ("string", "'", "STRING"),
    '"': ("quoted name", '"', "QUOTED"),
    "[": ("bracketed name", "]", "BRACKETED"),
}

_NO_QUOTES = "these are no quotes of the language"
#: Quotes of word processors and other dialects with what is between: the kind of token, and the message.
_QUOTES = (
    (
        re.compile("[‘’´][^‘’´\\n]*[‘’´]"),
        "STRING",
        _NO_QUOTES,
        "use plain quotes: '{}'",
    ),
    (
        re.compile("[“”„][^“”„\\n]*[“”„]"),
        "STRING",
        _NO_QUOTES,
        "use plain quotes: '{}'",
    ),
    (
        re.compile("`[^`\\n]+`"),
        "BRACKETED",
        "backticks quote no names",
        "write [{}] to quote a name",
    ),
)
_STRANGE = {
    "‘": "use the plain quote '",
    "’": "use the plain quote '",
    "“": "use plain quotes",
    "”": "use plain quotes",
    "!": "not equal is written != or <>, negation NOT",
    "`": "write [name] to quote a name",
    ":": "a field of a record is r.name; what depends on a condition is CASE WHEN ... THEN ... ELSE ... END",
    "\\": "a quote inside a string is written twice: 'it''s'",
    "−": "use the plain minus -",
    "–": "use the plain minus -",
    "—": "use the plain minus -; a comment begins with --",
    "×": "multiplication is *",
    "÷": "division is /",
    "≤": "write <=",
    "≥": "write >=",
    "≠": "write <> or !=",
    "，": "use the plain comma",
    "；": "use the plain semicolon",
    "（": "use plain parentheses",
    "）": "use plain parentheses",
}
_COMMENT_HINT = "a comment is -- up to the end of the line, or /* between these */"


def unreadable(text: str, position: int) -> tuple[Diagnostic, int, str]:
    """The problem at `position`, where reading goes on, and the kind of token to assume (or '')."""
    character = text[position]
    line_end = text.find("\n", position)
    line_end = len(text) if line_end < 0 else line_end
    if character in _UNCLOSED:
        what, closing, kind = _UNCLOSED[character]
        span = Span(position, len(text[:line_end].rstrip()))
        hint = f"end it with {closing}"
        if character == "'":
            hint += "; a quote inside a string is written twice: 'it''s'"
        return Diagnostic("SYNTAX", f"this {what} has no end", span, hint), line_end, kind
    if text.startswith("/*", position):
        span = Span(position, position + 2)
        return Diagnostic("SYNTAX", "this comment has no end", span, "end it with */"), len(text), ""
    if text.startswith("//", position) or character == "#":
        sign = "//" if character == "/" else "#"
        span = Span(position, position + len(sign))
        return Diagnostic("SYNTAX", f"{sign} begins no comment", span, _COMMENT_HINT), line_end, ""
    if text.startswith("::", position):
        span = Span(position, position + 2)
        return (
            Diagnostic("SYNTAX", "'::' means nothing here", span, "write CAST(value AS type)"),
            position + 2,
            "",
        )
    for quoted, kind, message, hint in _QUOTES:
        found = quoted.match(text, position)
        if found is not None:
            span = Span(position, found.end())
            return Diagnostic("SYNTAX", message, span, hint.format(found[0][1:-1])), found.end(), kind
    span = Span(position, position + 1)
    if not character.isprintable() or unicodedata.category(character) in ("Cf", "Zs", "Mn"):
        name = unicodedata.name(character, "control character").lower()
        message = f"a character that is not seen stands here: U+{ord(character):04X}, {name}"
        return Diagnostic("SYNTAX", message, span, "delete it"), position + 1, ""
    hint = _STRANGE.get(character, "")
    return Diagnostic("SYNTAX", f"'{character}' means nothing here", span, hint), position + 1, ""
