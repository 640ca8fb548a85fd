"""Which number Spark should hash for each key group, so that every shuffle partition gets exactly one.

Spark sends a row to partition `pmod(murmur3(key), partitions)`. Numbering key groups 0, 1, 2 … would
leave some partitions empty and load others twice, so each group gets the smallest number that lands
in its own partition.
"""

from __future__ import annotations

_SEED = 42  # Spark's own, of `hash()` and of hash partitioning


def murmur3(value: int) -> int:
    """Spark's Murmur3_x86_32 of one INT, as a signed 32-bit number.

    >>> murmur3(1)
    -559580957
    """

    def rotated(x: int, bits: int) -> int:
        return ((x << bits) | (x >> (32 - bits))) & 0xFFFFFFFF

    mixed = (value & 0xFFFFFFFF) * 0xCC9E2D51 & 0xFFFFFFFF
    mixed = rotated(mixed, 15) * 0x1B873593 & 0xFFFFFFFF
    hashed = rotated(_SEED ^ mixed, 13) * 5 + 0xE6546B64 & 0xFFFFFFFF
    hashed ^= 4
    hashed = (hashed ^ (hashed >> 16)) * 0x85EBCA6B & 0xFFFFFFFF
    hashed = (hashed ^ (hashed >> 13)) * 0xC2B2AE35 & 0xFFFFFFFF
    hashed ^= hashed >> 16
    return hashed - (1 << 32) if hashed >= 1 << 31 else hashed


def key_numbers(key_groups: int) -> tuple[int, ...]:
    """The number of each key group: `pmod(murmur3(number), key_groups)` is the group itself."""
    found: dict[int, int] = {}
    number = 0
    while len(found) < key_groups:
        found.setdefault(murmur3(number) % key_groups, number)
        number += 1
    return tuple(found[group] for group in range(key_groups))
