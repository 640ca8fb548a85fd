"""How far event time has come at the input of an operator: one watermark, or one per substream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Ints, pc
from tideglass.core.time import BEFORE_ALL_TICKS

_AFTER_PARTITION = r"(?s)^([0-9]+/).*$"


@dataclass(frozen=True, slots=True)
class Progress:
    """`watermark_ticks` holds for every row to come; a substream may be ahead of it (`asa.md` 1.7).

    substreams: None, or a table (substream string, watermark_ticks int64) of what is ahead of
    `watermark_ticks`: single substreams, and by the name `<partition>/` all substreams of an input
    partition. So a partition may forget a substream it has caught up with (A-07), and whoever
    follows several partitions still knows how far that substream has come.
    """

    watermark_ticks: int = BEFORE_ALL_TICKS
    substreams: pa.Table | None = None

    @property
    def furthest_ticks(self) -> int:
        """No row at or before this can still be open for every substream; nothing past it can close."""
        if self.substreams is None or self.substreams.num_rows == 0:
            return self.watermark_ticks
        return max(self.watermark_ticks, int(pc.max(self.substreams["watermark_ticks"]).as_py()))

    def of(self, substreams: pa.Array | pa.ChunkedArray) -> Ints:
        """The watermark of each of the given substream keys."""
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

    def to_bytes(self) -> bytes:
        """The same bytes for equal progress, if its substreams are in the same order."""
        head = self.watermark_ticks.to_bytes(8, "little", signed=True)
        if self.substreams is None or self.substreams.num_rows == 0:
            return head
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.substreams.schema) as writer:
            writer.write_table(self.substreams)
        return head + sink.getvalue().to_pybytes()

    @classmethod
    def from_bytes(cls, held: bytes | None) -> Progress:
        """What `to_bytes` wrote; no progress where nothing was written."""
        if held is None:
            return cls()
        substreams = pa.ipc.open_stream(held[8:]).read_all() if len(held) > 8 else None
        return cls(int.from_bytes(held[:8], "little", signed=True), substreams)


def partition_name(partition: int) -> str:
    """What stands for all substreams of an input partition; their own names begin with it."""
    return f"{partition}/"
