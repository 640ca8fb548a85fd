"""Arrow tables as bytes: what tasks send one another, what state stores keep."""

from __future__ import annotations

import pyarrow as pa

from tideglass.core.profile import measured

#: Bytes of a table from which on it is compressed: what crosses Spark is copied half a dozen times there
#: (socket, JVM heap, shuffle file, state store) and LZ4 takes less time than one of these copies.
COMPRESSED_FROM_BYTES = 1 << 14

_PLAIN = pa.ipc.IpcWriteOptions()
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")


@measured("encoding messages")
def to_bytes(table: pa.Table) -> bytes:
    """The table as one Arrow IPC stream, field metadata (and so every type) included."""
    sink = pa.BufferOutputStream()
    options = _COMPRESSED if table.nbytes >= COMPRESSED_FROM_BYTES else _PLAIN
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue().to_pybytes()


@measured("decoding messages")
def from_bytes(body: bytes) -> pa.Table:
    """The table `to_bytes` made `body` of."""
    with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
        return reader.read_all()
