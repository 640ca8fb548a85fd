"""Messages as rows of Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from tideglass.engine.messages import Message

ARROW_SCHEMA = pa.schema(
    [
        ("key_group", pa.int32()),
        ("level", pa.int32()),
        ("kind", pa.string()),
        ("target", pa.int32()),
        ("sender", pa.string()),
        ("body", pa.binary()),
    ]
)


def record_batches(messages: Iterable[Message], key_numbers: tuple[int, ...]) -> Iterator[pa.RecordBatch]:
    """The messages as Arrow record batches of MESSAGE_SCHEMA, one message each: bodies are large."""
    for m in messages:
        yield pa.record_batch(
            [[key_numbers[m.key_group]], [m.level], [m.kind.value], [m.target], [m.sender], [m.body]],
            schema=ARROW_SCHEMA,
        )
