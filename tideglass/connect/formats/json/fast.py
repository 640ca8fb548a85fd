"""Plain events: flat JSON objects without escapes, read to typed columns in one compiled pass.

Most events are plain, and reading them is most of what a scan does, so they have a reader of their own: it
holds an event to the whole grammar of JSON and takes the wanted fields on the way. Whatever else it meets (an
escape, a record that is asked for, a column of two types, anything that is no JSON), it leaves the chunk to
the general decoder, which is the measure of what is right (`docs/decisions/0018`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Ints, Mask, pc
from tideglass.core.types import Type

#: Of fewer events a chunk, loading the compiled code costs more than it saves.
FEWEST_EVENTS = 4096

#: A column and its type, one for each field asked for.
Typed: TypeAlias = "list[tuple[pa.Array, Type]]"


def load() -> None:
    """Load the compiled code, or make it and keep it, so that no event has to wait for that."""
    plain_columns(pa.array(['{"a":1.5,"b":"x"}']), ["a", "b"])


def plain_columns(texts: pa.Array, names: Sequence[str]) -> Typed | None:
    """The fields of that name in every event; None when an event is not plain, or is no event.

    texts: strings, one event each, of bytes that need not be valid UTF-8.
    """
    if texts.null_count or len(texts) == 0:
        return None
    from tideglass.connect.formats.json import fast_pass

    rows, wanted = len(texts), len(names)
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + rows + 1].astype(np.int64)
    encoded = [name.encode() for name in names]
    name_ends = np.cumsum([0, *map(len, encoded)])
    joined = pa.py_buffer(b"".join(encoded))
    values = np.zeros((wanted, rows), np.int64)
    spans = np.empty((wanted, rows), np.int64)
    nulls = np.zeros((wanted, rows), np.bool_)
    kinds = np.zeros(wanted, np.uint8)
    rough = np.zeros(wanted, np.bool_)
    address = 0 if data is None else data.address
    plain, beyond_ascii = fast_pass.read_events(
        address, bounds, joined.address, name_ends, values, spans, nulls, kinds, rough
    )
    if plain < rows or (kinds == fast_pass.UNKNOWN).any():
        return None
    if beyond_ascii:
        try:
            texts.validate(full=True)
        except pa.ArrowInvalid:
            return None
    columns: Typed = []
    for place, kind in enumerate(kinds.tolist()):
        mask = nulls[place] if nulls[place].any() else None
        if kind == fast_pass.INTEGER:
            columns.append((pa.array(values[place], pa.int64(), mask=mask), Type.BIGINT))
        elif kind == fast_pass.BOOLEAN:
            columns.append((pa.array(values[place].astype(np.bool_), pa.bool_(), mask=mask), Type.BIT))
        elif kind == fast_pass.STRING:
            columns.append((_texts(address, spans[place], mask), Type.NVARCHAR))
        elif not rough[place]:
            columns.append((pa.array(values[place].view(np.float64), mask=mask), Type.FLOAT))
        else:
            numbers = pc.cast(_texts(address, spans[place], mask), pa.float64())
            if not pc.all(pc.is_finite(numbers)).as_py():
                return None
            columns.append((numbers, Type.FLOAT))
    return columns


def _texts(address: int, spans: Ints, nulls: Mask | None) -> pa.Array:
    """The pieces of memory after an address, each a place and a length in one number, as strings."""
    from tideglass.connect.formats.json import fast_pass

    bounds = np.zeros(len(spans) + 1, np.int32)
    np.cumsum(spans & ((1 << fast_pass.SPAN_BITS) - 1), out=bounds[1:])
    joined = np.empty(int(bounds[-1]), np.uint8)
    fast_pass.gather(address, spans, bounds, joined)
    known = None if nulls is None else pa.array(~nulls).buffers()[1]
    buffers = [known, pa.py_buffer(bounds), pa.py_buffer(cast("Any", joined))]
    return pa.Array.from_buffers(pa.string(), len(spans), cast("Any", buffers))
