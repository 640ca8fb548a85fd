"""Substreams that are ahead of a watermark: how many, the slowest of them and the fastest.

A job may have very many of them, so only some are reported, by name.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tideglass.core.arrays import Ints, pc
from tideglass.operators.progress import Progress

MOST_SLOWEST, MOST_FASTEST = 20, 5


@dataclass(frozen=True, slots=True)
class SubstreamWatermark:
    """A substream at an operator.

    name: number of the input partition, `/`, canonical text of its keys (`core.columns.canonical_text`).
    watermark_ticks: for its own rows.
    """

    name: str
    watermark_ticks: int


@dataclass(frozen=True, slots=True)
class SubstreamsAhead:
    """The substreams of an operator that are ahead of its watermark.

    count: how many.
    slowest: the slowest 20 of them, slowest first.
    fastest: the fastest 5, fastest first; they may be among the slowest.
    """

    count: int = 0
    slowest: tuple[SubstreamWatermark, ...] = ()
    fastest: tuple[SubstreamWatermark, ...] = ()

    @staticmethod
    def of(progress: Progress) -> SubstreamsAhead:
        """Those of a progress; what it says of all substreams of a partition is not among them."""
        if progress.substreams is None or progress.substreams.num_rows == 0:
            return SubstreamsAhead()
        names, ticks = progress.substreams["substream"], progress.substreams["watermark_ticks"].to_numpy()
        # A name that ends with its first slash stands for all substreams of a partition.
        single = pc.less(pc.add(pc.find_substring(names, "/"), 1), pc.binary_length(names))
        places = np.flatnonzero((ticks > np.int64(progress.watermark_ticks)) & np.asarray(single))
        own_ticks = ticks[places]

        def chosen(of: Ints) -> list[SubstreamWatermark]:
            found = zip(names.take(places[of]).to_pylist(), own_ticks[of].tolist(), strict=True)
            return sorted((SubstreamWatermark(*each) for each in found), key=_order)

        slowest, fastest = least_places(own_ticks, MOST_SLOWEST), least_places(-own_ticks, MOST_FASTEST)
        return SubstreamsAhead(len(places), tuple(chosen(slowest)), tuple(chosen(fastest)[::-1]))


def least_places(values: Ints, count: int) -> Ints:
    """The places of so many of the least values, in no order."""
    if len(values) <= count:
        return np.arange(len(values))
    return np.argpartition(values, count)[:count]


def _order(each: SubstreamWatermark) -> tuple[int, str]:
    return each.watermark_ticks, each.name
