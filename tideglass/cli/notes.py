"""What commands tell of a project besides their own answer: warnings, and notes where they explain a failure.

Both go to standard error, so that what a command prints can be read by programs.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager

INPUT_HELP = "Files or folder of an input; behind it ,arrival=FIELD and ,partitions=folders."


def report_warnings(*warnings: str) -> None:
    """Say what of the project's files is likely not meant as it is written."""
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)


@contextmanager
def reporting_notes(notes: Sequence[str]) -> Generator[None]:
    """Say what of the project is not supported when its query has errors: it is often why."""
    from tideglass.core.errors import QueryError

    try:
        yield
    except QueryError:
        for note in notes:
            print(f"note: {note}", file=sys.stderr)
        raise
