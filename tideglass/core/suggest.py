"""Suggestions for misspelt names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, candidates: Iterable[str], least: float = 0.6) -> str:
    """A hint naming the closest candidate, or '' when none is close.

    least: how much alike they must be, from 0 to 1.

    >>> did_you_mean("Clikcs", ["Views", "Clicks"])
    "did you mean 'Clicks'?"
    """
    by_key = {candidate.casefold(): candidate for candidate in candidates}
    close = difflib.get_close_matches(name.casefold(), list(by_key), n=1, cutoff=least)
    return f"did you mean {by_key[close[0]]!r}?" if close else ""
