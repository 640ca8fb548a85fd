"""A failure inside Spark as the error it began as."""

from __future__ import annotations

import re

from tideglass.core import errors
from tideglass.core.errors import TideglassError

_OURS = re.compile(r"tideglass\.core\.errors\.(\w+): ")
#: What follows a Python error's message in Spark's text: Java's stack, or the next of Python's.
_AFTER = re.compile(
    r"\n\s*at [\w.$/]+\(|\n\nThe above exception|\n\nDuring handling|\nTraceback|\n\s*\n\s*JVM|\n SQLSTATE"
)
#: The line in which a Python traceback says what went wrong.
_PYTHON = re.compile(r"^(?!py4j|pyspark|org\.)[\w.]*(?:Error|Exception): .*$", re.MULTILINE)
#: A line of Java's stack.
_FRAME = re.compile(r"\n\s*(?:at [\w.$/]+\(|\.{3} \d+ more)[^\n]*")
#: From here on Spark lists offsets and plans, which may be pages.
_QUERY = "\n=== Streaming Query ==="


def explained(text: str) -> TideglassError:
    """The error of ours that Spark's account of a failure holds.

    With none in it, the line in which a Python worker says what went wrong, or else Spark's own words; the
    whole account is the cause of the error that is raised.
    """
    found = list(_OURS.finditer(text))
    if not found:
        account = _FRAME.sub("", text.split(_QUERY, 1)[0]).strip()
        python = _PYTHON.findall(account)
        return TideglassError(f"Spark stopped the job:\n{python[0].strip() if python else account}")
    first = found[0]
    message = _AFTER.split(text[first.end() :], maxsplit=1)[0].strip()
    kind = getattr(errors, first[1], TideglassError)
    if kind is errors.QueryError:  # takes diagnostics, which did not travel
        return TideglassError(message)
    return kind(message)
