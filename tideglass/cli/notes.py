"""What commands print besides their answer: warnings, and notes where they explain a failure.

Both go to standard error, so that what a command prints can be read by programs.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager

INPUT_HELP = "Files or folder of an input; after it ,arrival=FIELD and ,partitions=folders."


def report_warnings(*warnings: str) -> None:
    """Print what in the project's files is likely not meant as it is written."""
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)


@contextmanager
def reporting_notes(notes: Sequence[str]) -> Generator[None]:
    """Print what in the project is not supported when its query has errors: it is often the cause."""
    from tideglass.core.errors import QueryError

    try:
        yield
    except QueryError:
        for note in notes:
            print(f"note: {note}", file=sys.stderr)
        raise
