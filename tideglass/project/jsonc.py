"""JSON as editors of projects write it: with comments, and with commas after the last element.

VS Code takes its own files so (JSON with Comments), and projects are found that have them. Events and test
data are plain JSON (`docs/bad-input.md`).
"""

from __future__ import annotations

import json
import re
from typing import Any

_PIECES = re.compile(
    r"""(?P<text>"(?:[^"\\\n]|\\.)*")
      | (?P<comment>//[^\n]*|/\*.*?\*/)
      | (?P<comma>,(?=(?:\s|//[^\n]*|/\*.*?\*/)*[\]}]))
    """,
    re.VERBOSE | re.DOTALL,
)

#: What to do about an error, by a piece of the message of Python's reader.
_REMEDIES = (
    ("escape", r"write a backslash twice, as in C:\\data, or use / in paths"),
    ("property name", 'names stand in double quotes: {"Name": "value"}'),
    ("',' delimiter", "a comma or a quote is missing before it"),
    ("':' delimiter", 'a name and its value are joined by a colon: "Name": "value"'),
    ("Unterminated", 'end the text with "'),
    ("control character", 'end the text with " on its line; a line break inside is written \\n'),
    ("Extra data", "one object {...} is all that a file holds"),
    ("Expecting value", 'a value is missing, or a text without double quotes: "text", 1, true, false, null'),
)


def read_json(text: str) -> Any:
    """The value a text holds, comments and trailing commas left out.

    >>> read_json('{"a": [1, 2,] } // two numbers')
    {'a': [1, 2]}
    >>> read_json('{"a": "http://x", /* b */ }')
    {'a': 'http://x'}

    Raises JSONDecodeError, whose line and column are those of the text.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return json.loads(_PIECES.sub(_blank, text))


def remedy(error: json.JSONDecodeError) -> str:
    """What to do about text that is no JSON; '' if nothing is known."""
    return next((advice for piece, advice in _REMEDIES if piece in error.msg), "")


def _blank(piece: re.Match[str]) -> str:
    """A text as it is; blanks for anything else, so that all places stay where they are."""
    return piece[0] if piece["text"] is not None else re.sub(r"[^\n]", " ", piece[0])
