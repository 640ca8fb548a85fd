"""The number of a partition, as PartitionId shows it and the total order sorts by it.

A partition whose name is a number gets that number, if no other partition has it; otherwise it gets the least
free number. A number once assigned stays.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable


def number_in(name: str) -> int | None:
    """The number that is a partition's name, in ASCII digits; None for any other name.

    >>> number_in("07"), number_in("JFK"), number_in("²"), number_in("٣")
    (7, None, None, None)
    """
    return int(name) if name.isascii() and name.isdecimal() else None


def partition_numbers(names: Iterable[str], taken: Iterable[int] = ()) -> dict[str, int]:
    """The numbers of partitions that appear in this order. taken: those of the partitions already there.

    >>> partition_numbers(["1", "7", "JFK", "LGA"])
    {'1': 1, '7': 7, 'JFK': 0, 'LGA': 2}
    >>> partition_numbers(["1", "7"], taken=[0, 1])
    {'1': 2, '7': 7}
    """
    numbers: dict[str, int] = {}
    known = set(taken)
    for name in names:
        number = number_in(name)
        if number is None or number in known:
            number = next(free for free in itertools.count() if free not in known)
        known.add(number)
        numbers[name] = number
    return numbers
