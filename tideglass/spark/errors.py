"""A failure inside Spark as the error that caused it, and such an error as Spark is to tell it."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tideglass.core import errors
from tideglass.core.errors import TideglassError
from tideglass.spark.interpreter import REMEDY

_OURS = re.compile(r"tideglass\.core\.errors\.(\w+): ")
#: What follows a Python error's message in Spark's text: Java's stack, or the next of Python's.
_AFTER = re.compile(
    r"\n\s*at [\w.$/]+\(|\n\nThe above exception|\n\nDuring handling|\nTraceback|\n\s*\n\s*JVM|\n SQLSTATE"
)
#: The line of a Python traceback with the error itself.
_PYTHON = re.compile(r"^(?!py4j|pyspark|org\.)[\w.]*(?:Error|Exception): .*$", re.MULTILINE)
#: A line of Java's stack.
_FRAME = re.compile(r"\n\s*(?:at [\w.$/]+\(|\.{3} \d+ more)[^\n]*")
#: Spark's words when its workers cannot work at all, and their meaning: one sentence, the remedy first.
_OF_WORKERS = (
    (
        re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'"),
        f"{REMEDY}, or install {{0}} for the Python of Spark's workers: it has no module {{0}}.",
    ),
    (
        re.compile(r"Python in worker has different version:? ?\(?([\d., ]+?)\)? than that in driver"),
        f"{REMEDY}: the Python of Spark's workers is of another version, {{0}}.",
    ),
    (
        re.compile(r"((?:PyArrow|pyarrow|Pandas|pandas|numpy|NumPy) >= [\d.]+) must be installed"),
        f"{REMEDY}, or install {{0}} for the Python of Spark's workers: it has none, or an older one.",
    ),
    (
        re.compile(r'Cannot run program "([^"]+)"'),
        f"{REMEDY}: Spark cannot start the Python of its workers, {{0}}.",
    ),
    (
        re.compile(r"Python worker (exited unexpectedly|failed to connect back)"),
        "Take fewer --cores or a smaller --batch-mb: a Python worker {0}, as one does that the system "
        "ends for want of memory.",
    ),
    (
        re.compile(r"java\.lang\.OutOfMemoryError: ([\w ]+)"),
        "Raise TIDEGLASS_DRIVER_MEMORY, or take a smaller --batch-mb: Spark's JVM has no memory left ({0}).",
    ),
)
#: From here on Spark lists offsets and plans, which may be pages.
_QUERY = "\n=== Streaming Query ==="

T = TypeVar("T")


def sentence_first(made: Iterable[T]) -> Iterator[T]:
    """What is made, in a task of Spark; an error of ours on the way leaves with its sentence first.

    Spark's message for a task that failed is the traceback as Python writes it, which begins with the cause
    of the error. A cause that was never raised has no traceback: its message is the first line.
    """
    try:
        yield from made
    except TideglassError as error:
        sentence = copy.copy(error)
        sentence.__cause__ = sentence.__context__ = sentence.__traceback__ = None
        raise error.with_traceback(None) from sentence


def explained(text: str) -> TideglassError:
    """The tideglass error in Spark's text of a failure.

    Where there is none: what is wrong with the workers and its remedy, the line of the Python error, or
    Spark's own words.
    """
    found = list(_OURS.finditer(text))
    for pattern, meant in _OF_WORKERS if not found else ():
        match = pattern.search(text)
        if match:
            return TideglassError(meant.format(match[1]))
    if not found:
        account = _FRAME.sub("", text.split(_QUERY, 1)[0]).strip()
        python = _PYTHON.findall(account)
        return TideglassError(f"Spark stopped the job:\n{python[0].strip() if python else account}")
    first = found[0]
    message = _AFTER.split(text[first.end() :], maxsplit=1)[0].strip()
    kind = getattr(errors, first[1], TideglassError)
    if kind is errors.QueryError:  # it takes diagnostics, which Spark's text does not hold
        return TideglassError(message)
    return kind(message)
