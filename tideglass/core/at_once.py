"""Calls that wait for an answer from elsewhere, such as an object store, made at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_Item = TypeVar("_Item")
_Made = TypeVar("_Made")

#: An answer of an object store takes some 30 ms; so many together load neither it nor this machine.
MOST_AT_ONCE = 16


def at_once(call: Callable[[_Item], _Made], items: Iterable[_Item], most: int = MOST_AT_ONCE) -> list[_Made]:
    """What `call` returns for each item, in their order. Raises the first error after all calls have ended.

    most: how many calls run together; 1: one after the other in this thread.

    >>> at_once(len, ["a", "bcd"])
    [1, 3]
    """
    each_item = list(items)
    if len(each_item) < 2 or most == 1:
        return [call(each) for each in each_item]
    with ThreadPoolExecutor(min(most, len(each_item))) as threads:
        return list(threads.map(call, each_item))
