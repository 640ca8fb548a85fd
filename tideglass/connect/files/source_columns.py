"""Fields of an event that say where it was read: its EventId and the name of its blob (`asa.md` 4.9)."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from tideglass.connect.files.event_id import event_ids
from tideglass.connect.formats.decoded import column_name
from tideglass.core.events import Chunk, Fields
from tideglass.core.types import BLOB_NAME, EVENT_ID, Type, field


def with_source_columns(input_name: str, partition_name: str, chunk: Chunk, fields: Fields) -> Chunk:
    """The chunk with EVENT_ID and BLOB_NAME as fields of its events, if the query asks for them."""
    table = chunk.table
    if fields.blob_names:
        names = pa.array([chunk.file] * table.num_rows, pa.string())
        table = table.append_column(field(column_name((BLOB_NAME,)), Type.NVARCHAR), names)
    if fields.event_ids:
        ids = event_ids(input_name, partition_name, chunk)
        table = table.append_column(field(column_name((EVENT_ID,)), Type.NVARCHAR), ids)
    return chunk if table is chunk.table else replace(chunk, table=table)
