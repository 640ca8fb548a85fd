"""Secrets that this process knows, so that no text for people holds one.

Whoever resolves a key or a password keeps it here; whatever shows or stores a text masks it here: messages of
errors, tracebacks, the status of a run. A secret also stands in other texts as it is quoted in URLs, JSON,
Python or base64; all of these are masked.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Iterator
from types import TracebackType
from urllib.parse import quote, quote_plus

#: What stands in place of a secret.
MASK = "***"
#: A shorter text would be found in words that are no secret.
LEAST_CHARACTERS = 6

_spellings: set[str] = set()
_pattern: list[re.Pattern[str]] = []


def keep_secret(text: str) -> str:
    """Mask a text from now on; returns it. One of fewer than LEAST_CHARACTERS is not masked."""
    if len(text) >= LEAST_CHARACTERS and text not in _spellings:
        _spellings.update(_spelled(text))
        longest_first = sorted(_spellings, key=lambda each: (-len(each), each))
        _pattern[:] = [re.compile("|".join(re.escape(each) for each in longest_first))]
    return text


def masked(text: str) -> str:
    """The text without the secrets this process knows."""
    return _pattern[0].sub(MASK, text) if _pattern else text


def mask_tracebacks() -> None:
    """Let what ends this process, or a thread of it, be printed without secrets."""
    import threading

    sys.excepthook = _print_masked

    def of_thread(found: threading.ExceptHookArgs) -> None:
        if found.exc_value is not None:
            _print_masked(found.exc_type, found.exc_value, found.exc_traceback)

    threading.excepthook = of_thread


def _print_masked(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    import traceback

    if not issubclass(kind, KeyboardInterrupt):
        sys.stderr.write(masked("".join(traceback.format_exception(kind, error, trace))))
        sys.stderr.flush()


def _spelled(text: str) -> Iterator[str]:
    yield from (text, quote(text, errors="replace"), quote(text, safe="", errors="replace"))
    yield quote_plus(text, errors="replace")
    yield from (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1])
    yield base64.b64encode(text.encode(errors="surrogatepass")).decode()
