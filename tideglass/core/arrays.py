"""Arrow's functions and the types of numpy's arrays, by one name each for all that computes over columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute

#: The functions of `pyarrow.compute`. They are made at import, unseen by type checkers, hence `Any`.
pc: Any = pyarrow.compute

#: Ticks, places of rows, codes of keys, counts.
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
#: A flag for each row.
Mask = npt.NDArray[np.bool_]
#: Text or JSON as it was read, or small codes.
Bytes = npt.NDArray[np.uint8]
#: Hashes, and what is computed modulo 2^64.
Words = npt.NDArray[np.uint64]
