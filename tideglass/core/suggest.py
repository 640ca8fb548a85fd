"""Suggestions for misspelt names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """A hint naming the closest candidate, or '' when none is close.

    >>> did_you_mean("Clikcs", ["Views", "Clicks"])
    "did you mean 'Clicks'?"
    """
    by_key = {candidate.casefold(): candidate for candidate in candidates}
    close = difflib.get_close_matches(name.casefold(), list(by_key), n=1, cutoff=0.6)
    return f"did you mean {by_key[close[0]]!r}?" if close else ""
