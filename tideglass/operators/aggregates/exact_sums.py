"""Sums of floats that are exact until the end, so that no order of addition can show in a result.

A float is a whole number of 2**-s for some s. A *lane* adds floats of one range of magnitudes as whole
numbers of 2**-s in 128 bits, where addition is exact and has no order. What fits no lane (huge, tiny,
infinite, NaN) is an *outlier* and is kept as it is. The sum of lanes, outliers and whole numbers is
rounded to a float once, to nearest, ties to even: as `math.fsum` does.

    lane   holds |x| in        why
    74     0, [2**-22, 2**20)  what most measurements are: usually the only lane
    32     [2**20, 2**62)
    116    [2**-64, 2**-22)
    158    [2**-106, 2**-64)

The lowest bit of a float in a lane is at least 2**-s, the float is below 2**(94 - s), so 2**32 floats
can be added before the 38 decimal digits of an Arrow decimal are not enough.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tideglass.core.arrays import Floats, Ints, Words, pc

#: scale of the lane: binary exponents of the magnitudes it holds, [low, high)
LANES: Mapping[int, tuple[int, int]] = {74: (-22, 20), 32: (20, 62), 116: (-64, -22), 158: (-106, -64)}
MAIN_LANE = 74
_LOWEST, _HIGHEST = 2.0**-106, 2.0**62
WIDE = pa.decimal128(38, 0)


@dataclass(frozen=True, slots=True)
class Magnitudes:
    """What is known of the floats of a chunk: bounds of their finite nonzero magnitudes, if any."""

    smallest: float | None
    largest: float | None
    has_special: bool  # an infinity or NaN

    @staticmethod
    def sql(expression: str) -> tuple[str, str, str]:
        """The three facts as SQL aggregates over a DOUBLE expression."""
        finite = f"FILTER (isfinite({expression}) AND {expression} <> 0)"
        return (
            f"min(abs({expression})) {finite}",
            f"max(abs({expression})) {finite}",
            f"coalesce(bool_or(NOT isfinite({expression})), false)",
        )

    @property
    def has_outliers(self) -> bool:
        if self.smallest is None or self.largest is None:
            return self.has_special
        return self.has_special or self.smallest < _LOWEST or self.largest >= _HIGHEST

    def needs(self, lane: int) -> bool:
        """Whether a float of the chunk belongs to the lane; the main lane also holds that there was one."""
        if lane == MAIN_LANE:
            return True
        if self.smallest is None or self.largest is None:
            return False
        low, high = LANES[lane]
        return self.smallest < 2.0**high and self.largest >= 2.0**low


def lane_sql(expression: str, magnitudes: Magnitudes) -> dict[str, str]:
    """SQL aggregates that add a DOUBLE expression into the lanes the chunk needs.

    Returns lane scale as text -> aggregate, and `x` -> list of outliers if there can be any.
    """
    lanes = [lane for lane in LANES if magnitudes.needs(lane)]
    outliers = magnitudes.has_outliers
    cells: dict[str, str] = {}
    for lane in lanes:
        low, high = LANES[lane]
        total = f"sum(({expression} * {2.0**lane!r})::HUGEINT)"
        within = f"abs({expression}) >= {2.0**low!r} AND abs({expression}) < {2.0**high!r}"
        if lane == MAIN_LANE:
            within = f"{expression} = 0 OR ({within})"
        if len(lanes) > 1 or outliers:
            # CASE, not FILTER: the product must not be cast for a float outside of the lane
            total = f"sum(CASE WHEN {within} THEN ({expression} * {2.0**lane!r})::HUGEINT END)"
        cells[str(lane)] = total
    if outliers:
        strange = (
            f"NOT isfinite({expression}) OR abs({expression}) >= {_HIGHEST!r}"
            f" OR (abs({expression}) < {_LOWEST!r} AND {expression} <> 0)"
        )
        cells["x"] = f"list({expression}) FILTER ({strange})"
    return cells


def _words(column: pa.Array) -> tuple[Words, Words]:
    """High and low 64 bits of 128-bit two's complement whole numbers; NULL is 0."""
    filled: Any = (
        pc.fill_null(column.cast(WIDE), pa.scalar(0, WIDE)) if column.null_count else column.cast(WIDE)
    )
    if len(filled) == 0:
        return np.empty(0, np.uint64), np.empty(0, np.uint64)
    pairs = np.frombuffer(filled.buffers()[1], np.uint64)[
        2 * filled.offset : 2 * (filled.offset + len(filled))
    ]
    return pairs[1::2], pairs[0::2]


def _rounded(high: Words, low: Words, scale: int) -> Floats:
    """The 128-bit whole numbers times 2**-scale, rounded to nearest, ties to even."""
    negative = high >> np.uint64(63) != 0
    low_size = np.where(negative, ~low + np.uint64(1), low)
    high_size = np.where(negative, ~high + (low == 0), high)
    # Round to odd: keep 64 bits, and let the last one show whether anything below was lost. The one
    # real rounding is then the hardware's, from 64 bits to 53.
    _, shift = np.frexp(high_size.astype(np.float64))
    shift = np.minimum(np.where(high_size == 0, 0, shift), 64).astype(np.uint64)
    rest = np.where(shift > 0, np.uint64(64) - shift, np.uint64(0))
    inside = np.minimum(shift, np.uint64(63))
    kept = np.where(
        shift == 0,
        low_size,
        np.where(
            shift == 64, high_size, (high_size << np.minimum(rest, np.uint64(63))) | (low_size >> inside)
        ),
    )
    lost = np.where(shift == 64, low_size, low_size & ((np.uint64(1) << inside) - np.uint64(1)))
    kept = kept | (lost != 0)
    size = np.ldexp(kept.astype(np.float64), shift.astype(np.int64) - scale)
    return np.where(negative, -size, size)


def whole_of_float(value: float) -> int:
    """A finite float as a whole number of 2**-1074."""
    numerator, denominator = value.as_integer_ratio()
    return numerator * (2**1074 // denominator)


def float_of_ratio(numerator: int, denominator: int) -> float:
    """The quotient rounded once; beyond the largest float it is infinite."""
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf if (numerator > 0) == (denominator > 0) else -math.inf


@dataclass(frozen=True, slots=True)
class ExactSums:
    """Sums of several groups, one place each: lanes by scale (0: whole numbers) and outliers."""

    lanes: Mapping[int, pa.Array]
    outliers: pa.Array | None
    length: int

    def special(self) -> Floats:
        """NaN or an infinity where such a value was added, else 0."""
        result = np.zeros(self.length)
        for place, values in self._outlying():
            strange = [value for value in values if not math.isfinite(value)]
            if strange:
                same = all(value == strange[0] for value in strange)
                result[place] = strange[0] if same else math.nan
        return result

    def _outlying(self) -> list[tuple[int, list[float]]]:
        if self.outliers is None:
            return []
        return [(place, values) for place, values in enumerate(self.outliers.to_pylist()) if values]

    def wholes(self, places: Ints | None = None) -> list[int]:
        """The finite part of the sums as whole numbers of 2**-1074."""
        chosen = np.arange(self.length) if places is None else places
        totals = [0] * len(chosen)
        for scale, column in self.lanes.items():
            for at, value in enumerate(column.take(pa.array(chosen)).to_pylist()):
                if value is not None:
                    totals[at] += int(value) << (1074 - scale)
        if self.outliers is not None:
            for at, values in enumerate(self.outliers.take(pa.array(chosen)).to_pylist()):
                for value in values or ():
                    if math.isfinite(value):
                        totals[at] += whole_of_float(value)
        return totals

    def floats(self) -> Floats:
        """The sums, each rounded once."""
        busy = {scale: _words(column) for scale, column in self.lanes.items()}
        result = np.zeros(self.length)
        used = np.zeros(self.length, np.int64)
        for scale, (high, low) in busy.items():
            nonzero = (high | low) != 0
            used += nonzero
            alone = _rounded(high, low, scale)
            result = np.where(nonzero, alone, result)
        hard = used > 1
        if self.outliers is not None:
            hard |= np.asarray(pc.fill_null(pc.list_value_length(self.outliers), 0)) > 0
        if 32 in busy and MAIN_LANE in busy:
            result, hard = self._two_lanes(busy, used, result, hard)
        places = np.flatnonzero(hard)
        if len(places):
            result[places] = [float_of_ratio(whole, 2**1074) for whole in self.wholes(places)]
            special = self.special()
            result = np.where(special != 0, special, result)
        return result

    def _two_lanes(
        self,
        busy: Mapping[int, tuple[Words, Words]],
        used: npt.NDArray[Any],
        result: Floats,
        hard: npt.NDArray[Any],
    ) -> tuple[Floats, npt.NDArray[Any]]:
        """Adds the two common lanes in 128 bits where that cannot overflow."""
        high, low = busy[MAIN_LANE]
        upper_high, upper_low = busy[32]
        shift = np.uint64(MAIN_LANE - 32)
        moved_high = (upper_high << shift) | (upper_low >> (np.uint64(64) - shift))
        moved_low = upper_low << shift
        # 2**20 of headroom in the high word: |upper| < 2**84, so that shifting by 42 stays below 2**126
        signed = upper_high.view(np.int64)
        small = (signed < 2**20) & (signed >= -(2**20))
        main = high.view(np.int64)
        small &= (main < 2**61) & (main >= -(2**61))
        both = ((high | low) != 0) & ((upper_high | upper_low) != 0)
        plain = both & small & (used == 2)
        if self.outliers is not None:
            plain &= np.asarray(pc.fill_null(pc.list_value_length(self.outliers), 0)) == 0
        sum_low = low + moved_low
        sum_high = high + moved_high + (sum_low < low)
        return np.where(plain, _rounded(sum_high, sum_low, MAIN_LANE), result), hard & ~plain
