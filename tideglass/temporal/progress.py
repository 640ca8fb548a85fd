"""How far event time has come at the input of an operator: one watermark, or one per substream."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tideglass.core.time import BEFORE_ALL_TICKS


@dataclass(frozen=True, slots=True)
class Progress:
    """`watermark_ticks` holds for every row to come; a substream may be ahead of it (`asa.md` 1.7).

    substreams: None, or a table (substream string, watermark_ticks int64) of keys that are ahead of
    `watermark_ticks`; a key not in it is at `watermark_ticks`.
    """

    watermark_ticks: int = BEFORE_ALL_TICKS
    substreams: pa.Table | None = None

    @property
    def furthest_ticks(self) -> int:
        """No row at or before this can still be open for every substream; nothing past it can close."""
        if self.substreams is None or self.substreams.num_rows == 0:
            return self.watermark_ticks
        return max(self.watermark_ticks, int(pc.max(self.substreams["watermark_ticks"]).as_py()))

    def of(self, substreams: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.int64]:
        """The watermark of each of the given substream keys."""
        result = np.full(len(substreams), self.watermark_ticks, dtype=np.int64)
        if self.substreams is None or self.substreams.num_rows == 0:
            return result
        places = pc.index_in(substreams, value_set=self.substreams["substream"])
        found = np.asarray(pc.is_valid(places))
        own = self.substreams["watermark_ticks"].to_numpy()
        result[found] = np.maximum(own[places.drop_null().to_numpy()], self.watermark_ticks)
        return result
