"""How deep tests go: all examples and all of a long list with `make test-deep` and in CI, else a share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from hypothesis import settings

T = TypeVar("T")

#: What a property without a word of its own has in the profile `deep`.
DEEP = 100
#: Of these, a property has one in so many in the profile `default`.
SHALLOW = 16


def depth(examples: int) -> int:
    """`examples` of the profile `deep` in the profile that is loaded, rounded up."""
    return -(-examples * settings.default.max_examples // DEEP)


def some(items: Iterable[T], share: int = 8) -> list[T]:
    """All items in the profile `deep`, else every `share`-th, for long lists whose items are alike."""
    return list(items)[:: 1 if settings.default.max_examples >= DEEP else share]
