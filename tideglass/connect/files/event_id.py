"""EventId: the name of an event, the same whenever and wherever it is read (`asa.md` 4.9).

It names the source of the event and nothing else: the input, the partition, and the place there, which is
the offset of a topic or of a column, or the file and the place in it. So batches, restarts and the other
files of a folder do not change it.
"""

from __future__ import annotations

import uuid

import numpy as np
import pyarrow as pa

from tideglass.connect.files.reading import OFFSET_BITS
from tideglass.core.events import Chunk
from tideglass.core.iso import flat
from tideglass.core.sql import query
from tideglass.core.types import OFFSET

#: Of the names `event_ids` makes; any that never changes would do.
NAMESPACE = uuid.UUID("0c6e1a52-6a0f-4b1e-9a53-7d1f0e5b2c44")

_NAMESPACE_SQL = "'" + "".join(f"\\x{byte:02X}" for byte in NAMESPACE.bytes) + "'::BLOB"
# The version, 3, and the variant of a name made by MD5 (RFC 9562) stand in bits of their own.
_VARIANT = "translate(substr(h, 17, 1), '0123456789abcdef', '89ab89ab89ab89ab')"
_GUID = " || '-' || ".join(
    (
        "substr(h, 1, 8)",
        "substr(h, 9, 4)",
        "'3' || substr(h, 14, 3)",
        f"{_VARIANT} || substr(h, 18, 3)",
        "substr(h, 21)",
    )
)
_SQL = (
    f"SELECT {_GUID} AS id FROM "
    f"(SELECT md5({_NAMESPACE_SQL} || encode(source || '|' || place)) AS h FROM events)"
)


def event_ids(input_name: str, partition: str, chunk: Chunk) -> pa.Array:
    """The EventId of each event of a chunk: the GUID of the name `input|partition|file|place`."""
    places = chunk.table[OFFSET].to_numpy()
    if chunk.file:
        places = places & np.int64((1 << OFFSET_BITS) - 1)
    sources = pa.repeat(f"{input_name}|{partition}|{chunk.file}", len(places))
    return flat(query(_SQL, events=pa.table({"source": sources, "place": pa.array(places)}))["id"])
