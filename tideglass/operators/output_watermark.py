"""The output watermark of an operator that holds rows it may emit with a time before its input watermark."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tideglass.core.time import AFTER_ALL_TICKS, BEFORE_ALL_TICKS
from tideglass.core.types import SUBSTREAM, SYSTEM_TIMESTAMP
from tideglass.operators.progress import Progress
from tideglass.operators.state.store import State


def held_back(
    progress: Progress,
    waiting: Sequence[pa.Table],
    substreams: bool,
    state: State,
    later_ticks: int = 0,
    back_ticks: int = 0,
) -> Progress:
    """`progress`, held back by the stamps of rows that wait, and of later rows stamped before it.

    waiting: with `$ts`, and `$substream` if there are `substreams`. later_ticks: how much later than that
    such a row is stamped. back_ticks: how far before their own time later rows may be stamped, 0 or less.
    With substreams, the progress it reported before is kept in the state, so that no watermark goes back.
    """
    stamps_ticks = np.concatenate(
        [np.empty(0, np.int64), *(rows[SYSTEM_TIMESTAMP].to_numpy() + later_ticks for rows in waiting)]
    )
    base_ticks = min(
        _moved(progress.watermark_ticks, back_ticks), int(stamps_ticks.min(initial=AFTER_ALL_TICKS))
    )
    if not substreams:
        return Progress(base_ticks)
    before = Progress.from_bytes(state.get("came"))
    named: dict[str, int] = {}
    for reached in (before, progress):
        if reached.substreams is not None:
            named.update(dict.fromkeys(reached.substreams["substream"].to_pylist(), 0))
    oldest: dict[str, int] = {}
    holding = [name for rows in waiting for name in rows[SUBSTREAM].to_pylist()]
    for name, stamp in zip(holding, stamps_ticks.tolist(), strict=True):
        for key in (name, name.partition("/")[0] + "/"):
            oldest[key] = min(oldest.get(key, stamp), stamp)
    names = sorted(named.keys() | oldest.keys())
    if not names:
        return Progress(base_ticks)
    keys = pa.array(names)
    ahead: dict[str, int] = {}
    for name, now, was in zip(names, progress.of(keys).tolist(), before.of(keys).tolist(), strict=True):
        ahead[name] = max(was, min(_moved(now, back_ticks), oldest.get(name, AFTER_ALL_TICKS)))
    kept = [name for name in names if ahead[name] > base_ticks]
    table = pa.table(
        {"substream": pa.array(kept, pa.string()), "watermark_ticks": [ahead[name] for name in kept]},
        schema=pa.schema([("substream", pa.string()), ("watermark_ticks", pa.int64())]),
    )
    reached = Progress(base_ticks, table)
    if before.to_bytes() != reached.to_bytes():
        state.put("came", reached.to_bytes())
    return reached


def _moved(watermark_ticks: int, ticks: int) -> int:
    """A watermark moved; beginning and end of all time stay where they are."""
    if watermark_ticks in (BEFORE_ALL_TICKS, AFTER_ALL_TICKS):
        return watermark_ticks
    return watermark_ticks + ticks
