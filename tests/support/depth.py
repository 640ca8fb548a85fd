"""How many random examples a property is tried on: all of them with `make test-deep`, else a quarter."""

from __future__ import annotations

from hypothesis import settings

#: What a property without a word of its own has in the profile `deep`.
DEEP = 100


def depth(examples: int) -> int:
    """`examples` of the profile `deep` in the profile that is loaded, at least two."""
    return max(2, -(-examples * settings.default.max_examples // DEEP))
