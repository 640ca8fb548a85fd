"""How far event time is at the input of an operator: one watermark, or one per substream.

Watermarks of several places meet by two rules: `Progress.of_senders`, and `Progress.of_inputs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Ints, pc
from tideglass.core.ipc import from_bytes, to_bytes
from tideglass.core.time import BEFORE_ALL_TICKS
from tideglass.core.types import SUBSTREAM

_AFTER_PARTITION = r"(?s)^([0-9]+/).*$"


@dataclass(frozen=True, slots=True)
class Progress:
    """`watermark_ticks` holds for every later row; a substream may be ahead of it (`asa.md` 1.7).

    substreams: None, or a table (substream string, watermark_ticks int64) of what is ahead of
    `watermark_ticks`: single substreams, and by the name `<partition>/` all substreams of an input
    partition. So a partition may forget a substream it has caught up with (A-07), and a reader
    of several partitions still knows the watermark of that substream.
    early_ticks: by percentage, the watermark at so many percent of the events in flight, never before
    `watermark_ticks`; only of inputs whose windows have early panes.
    """

    watermark_ticks: int = BEFORE_ALL_TICKS
    substreams: pa.Table | None = None
    early_ticks: tuple[tuple[int, int], ...] = ()

    @property
    def furthest_ticks(self) -> int:
        """No row at or before this can still be open for every substream; nothing past it can close."""
        if self.substreams is None or self.substreams.num_rows == 0:
            return self.watermark_ticks
        return max(self.watermark_ticks, int(pc.max(self.substreams["watermark_ticks"]).as_py()))

    def of(self, substreams: pa.Array | pa.ChunkedArray) -> Ints:
        """The watermark of each of these substream keys."""
        if self.substreams is None or self.substreams.num_rows == 0:
            return np.full(len(substreams), self.watermark_ticks, dtype=np.int64)
        encoded: Any = substreams.dictionary_encode()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.unify_dictionaries().combine_chunks()
        if len(encoded) == 0:
            return np.empty(0, dtype=np.int64)
        texts = encoded.dictionary
        own = self.substreams["watermark_ticks"].to_numpy()
        result = np.full(len(texts), self.watermark_ticks, dtype=np.int64)
        for names in (texts, pc.replace_substring_regex(texts, _AFTER_PARTITION, r"\1")):
            places = pc.index_in(names, value_set=self.substreams["substream"])
            found = np.asarray(pc.is_valid(places))
            result[found] = np.maximum(result[found], own[places.drop_null().to_numpy()])
        return result[np.asarray(encoded.indices)]

    def of_rows(self, rows: pa.Table) -> Ints | int:
        """The watermark of each row, by its `$substream` if it has one: one number a row, or one for all."""
        return self.of(rows[SUBSTREAM]) if SUBSTREAM in rows.column_names else self.watermark_ticks

    @classmethod
    def of_senders(cls, senders: Sequence[Progress]) -> Progress:
        """The progress of all senders of one exchange, which share the rows of one stream.

        The watermark is their least; without a sender there is none. All rows of a substream are of one
        input partition (`asa.md` 1.7: PartitionId is among its keys): the report of any sender about it
        holds.
        """
        if not senders:
            return cls()
        watermark_ticks = min(sender.watermark_ticks for sender in senders)
        tables = [sender.substreams for sender in senders if sender.substreams is not None]
        if not tables:
            return cls(watermark_ticks, early_ticks=_least_early(senders))
        table = pa.concat_tables(tables)
        ahead = table.filter(pa.array(table["watermark_ticks"].to_numpy() > np.int64(watermark_ticks)))
        return cls(watermark_ticks, ahead)

    @classmethod
    def of_inputs(cls, inputs: Sequence[Progress]) -> Progress:
        """The progress of all inputs of an operator, each of which may have rows of every substream.

        The watermark is their least (`asa.md` 1.6), and so is that of each substream.
        """
        if len(inputs) == 1:
            return inputs[0]
        watermark_ticks = min(each.watermark_ticks for each in inputs)
        tables = [each.substreams for each in inputs if each.substreams is not None]
        if not tables:
            return cls(watermark_ticks, early_ticks=_least_early(inputs))
        keys = pc.unique(pa.concat_tables(tables)["substream"])
        ticks = np.minimum.reduce([each.of(keys) for each in inputs])
        return cls(watermark_ticks, pa.table({"substream": keys, "watermark_ticks": pa.array(ticks)}))

    def early_at(self, percent: int) -> int:
        """The watermark at a percentage; the watermark itself where none is known."""
        return max(self.watermark_ticks, dict(self.early_ticks).get(percent, BEFORE_ALL_TICKS))

    def to_bytes(self) -> bytes:
        """The same bytes for equal progress, if its substreams are in the same order; no `early_ticks`."""
        head = self.watermark_ticks.to_bytes(8, "little", signed=True)
        if self.substreams is None or self.substreams.num_rows == 0:
            return head
        return head + to_bytes(self.substreams)

    @classmethod
    def from_bytes(cls, held: bytes | None) -> Progress:
        """What `to_bytes` wrote; no progress where nothing was written."""
        if held is None:
            return cls()
        substreams = from_bytes(held[8:]) if len(held) > 8 else None
        return cls(int.from_bytes(held[:8], "little", signed=True), substreams)


def _least_early(places: Sequence[Progress]) -> tuple[tuple[int, int], ...]:
    """By percentage, the least watermark of all places; of one that names none, its own."""
    percents = sorted({percent for each in places for percent, _ in each.early_ticks})
    return tuple((percent, min(each.early_at(percent) for each in places)) for percent in percents)


def partition_name(partition: int) -> str:
    """What stands for all substreams of an input partition; their own names begin with it."""
    return f"{partition}/"
