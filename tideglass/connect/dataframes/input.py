"""Rows of a DataFrame as events: the columns Spark hands over become chunks, one per input partition.

The columns go through the decoder of Parquet files, so that a value is the same in a file and in a DataFrame,
decimals and maps aside (`exact_values`). So does a column of messages, whose payloads are the events, through
those of files of their format.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

import numpy as np
import pyarrow as pa

from tideglass.connect.dataframes.exact_values import exact_column
from tideglass.connect.formats.arrival import arrival_ticks
from tideglass.connect.formats.decoded import INVALID_DATA, LINE, Decoded, Refusals, column_name
from tideglass.connect.formats.parquet import decode_parquet, value_column, wanted_columns
from tideglass.connect.formats.payloads import Payload, decode_messages
from tideglass.connect.kafka.hub_records import MESSAGE_COLUMNS, fields_of_messages, is_of_message
from tideglass.core.arrays import Ints, Mask, pc
from tideglass.core.columns import unify
from tideglass.core.errors import InputError
from tideglass.core.events import Chunk, Fields, Rejected
from tideglass.core.ipc import from_bytes, to_bytes
from tideglass.core.iso import flat
from tideglass.core.time import format_ticks
from tideglass.core.types import ARRIVAL, OFFSET, Type, field

_HEADER = b"tideglass.chunk"
#: What crosses Spark is copied there half a dozen times, which takes longer than LZ4 does.
#: Offsets of messages are spread so that each event of one has its own.
EVENTS_OF_A_MESSAGE = 1 << 20
#: The partition of an input that names no column for it.
ALONE = "0"


@dataclass(frozen=True, slots=True)
class FrameSpec:
    """The columns of a DataFrame with where and when a row arrived.

    name: of the input in the query.
    arrival: a timestamp, or ISO text; None: a row arrives at its event time.
    partition: any type, its text names the partition; None: there is one.
    offset: whole number that grows within the partition; None: rows are in the order of their arrival.
    payload: the column that holds messages, each with one event or more; None: the columns are the event.
    metadata: of a message, names a query may use for other columns, each with its column.
    payload_as: how a message holds its events.
    records: which records of metadata a message has (`kafka.hub_records`); empty: none.
    """

    name: str
    arrival: str | None = None
    partition: str | None = None
    offset: str | None = None
    payload: str | None = None
    metadata: tuple[tuple[str, str], ...] = ()
    payload_as: Payload = Payload()
    records: str = ""

    def columns(self, names: tuple[str, ...], fields: Fields) -> list[str]:
        """The columns of the DataFrame that are needed at all."""
        own = [name for name in (self.arrival, self.partition, self.offset) if name is not None]
        if self.payload is None:
            return list(dict.fromkeys((*wanted_columns(names, fields), *own)))
        asked = {path[0] for path in fields.paths}
        extra = [column for name, column in self.metadata if name in asked]
        if any(is_of_message(path, self.records) for path in fields.paths):
            extra += MESSAGE_COLUMNS
        return list(dict.fromkeys((self.payload, *extra, *own)))


@dataclass(frozen=True, slots=True)
class FrameChunk:
    """Events of one partition, as far as one task saw them in one batch.

    order: of its making, task by task; decides where neither offset nor arrival time does. The table of
    the chunk lacks `$offset` when no column holds it.
    """

    partition: str
    order: tuple[int, int]
    chunk: Chunk

    def to_bytes(self) -> bytes:
        header = {
            "order": self.order,
            "rejected": [asdict(each) for each in self.chunk.rejected],
            "bytes": self.chunk.bytes_read,
            "sources": self.chunk.sources,
        }
        table = self.chunk.table
        metadata = {**(table.schema.metadata or {}), _HEADER: json.dumps(header).encode()}
        return to_bytes(table.replace_schema_metadata(metadata))

    @staticmethod
    def from_bytes(partition: str, body: bytes) -> FrameChunk:
        table = from_bytes(body)
        header = json.loads(table.schema.metadata[_HEADER])
        refused: list[dict[str, Any]] = header["rejected"]
        rejected = tuple(replace(Rejected(**each), examples=tuple(each["examples"])) for each in refused)
        task, number = header["order"]
        sources = header.get("sources", 0)  # kept by an earlier version
        chunk = Chunk(table.replace_schema_metadata(), rejected, header["bytes"], sources=sources)
        return FrameChunk(partition, (task, number), chunk)


def chunks_of_frame(
    table: pa.Table, spec: FrameSpec, fields: Fields, level: str, task: int, numbers: Iterator[int]
) -> Iterator[FrameChunk]:
    """The rows of a table as chunks, one per partition in it, numbered by the task that makes them."""
    for partition, rows in _by_partition(table, spec):
        yield FrameChunk(partition, (task, next(numbers)), chunk_of_frame(rows, spec, fields, level))


def in_order(chunks: list[FrameChunk], next_offset: int) -> tuple[list[Chunk], int]:
    """A partition's chunks of one batch by offset, else by arrival time and then as they appeared.

    Also the offset of the next event, where offsets are counted here.
    """
    ordered = [each.chunk for each in sorted(chunks, key=lambda each: each.order)]
    if not ordered:
        return [], next_offset
    counted = OFFSET not in ordered[0].table.column_names
    tables = _sorted([chunk.table for chunk in ordered], ARRIVAL if counted else OFFSET)
    result: list[Chunk] = []
    for place, table in enumerate(tables):
        if counted:
            offsets = np.arange(next_offset, next_offset + table.num_rows, dtype=np.int64)
            table = table.append_column(field(OFFSET, Type.BIGINT), pa.array(offsets))
            next_offset += table.num_rows
        if place == 0:
            bytes_read = sum(chunk.bytes_read for chunk in ordered)
            sources = sum(chunk.sources for chunk in ordered)
            result.append(Chunk(table, _rejected(ordered), bytes_read, sources=sources))
        else:
            result.append(Chunk(table))
    return result, next_offset


def _rejected(chunks: list[Chunk]) -> tuple[Rejected, ...]:
    return tuple(each for chunk in chunks for each in chunk.rejected)


def _sorted(tables: list[pa.Table], by: str) -> list[pa.Table]:
    """The tables in one ascending order; they stay what they are when they are in it already."""
    keys = [table[by].to_numpy() for table in tables if not table[by].null_count]
    if len(keys) < len(tables):  # rows that arrive at their event time keep their order
        return tables
    every = np.concatenate(keys)
    if (every[1:] >= every[:-1]).all():
        return tables
    return [unify(tables).take(pa.array(np.argsort(every, kind="stable")))]


def _by_partition(table: pa.Table, spec: FrameSpec) -> Iterator[tuple[str, pa.Table]]:
    if table.num_rows == 0:
        return
    if spec.partition is None:
        yield ALONE, table
        return
    column = value_column(flat(table[spec.partition]))[0]
    values = column.dictionary_encode(null_encoding="encode")  # only what differs is made a text
    texts = pc.fill_null(pc.cast(values.dictionary, pa.string()), "null").dictionary_encode()
    names = cast("list[str]", texts.dictionary.to_pylist())
    codes = texts.indices.to_numpy()[values.indices.to_numpy()]
    for code in np.argsort(np.array(names)) if len(names) > 1 else range(len(names)):
        rows = codes == code
        yield names[int(code)], table if rows.all() else table.filter(pa.array(rows))


def chunk_of_frame(rows: pa.Table, spec: FrameSpec, fields: Fields, level: str) -> Chunk:
    """The rows of one partition as events. `$offset` is left out where no column holds it."""
    if spec.payload is None:
        wanted = wanted_columns(rows.column_names, fields)
        # A table without columns forgets how many rows it has.
        chosen = rows.select(wanted) if wanted else pa.table({"$nothing": pa.nulls(rows.num_rows)})
        decoded = decode_parquet(chosen, fields, level, values=exact_column)
        message_of = np.arange(rows.num_rows)
        bytes_read = 0
    else:
        payloads = flat(rows[spec.payload])
        decoded, message_of = decode_messages(payloads, spec.payload_as, fields, level)
        decoded = Decoded(decoded.table, _with_offsets(decoded.rejected, rows, spec.offset))
        bytes_read = pc.sum(pc.binary_length(payloads)).as_py() or 0
    events = _Events(decoded.table, message_of, rows)
    events.add_metadata(spec.metadata, fields, level)
    if any(is_of_message(path, spec.records) for path in fields.paths):
        events.add_records(spec, fields, level)
    refusals = Refusals()
    events.add_arrival(spec.arrival, refusals)
    if spec.offset is not None:
        events.add_offset(spec.offset, spec.payload is not None, refusals)
    rejected = (*decoded.rejected, *refusals.all())
    return Chunk(events.table.drop_columns([LINE]), rejected, bytes_read, sources=rows.num_rows)


def _with_offsets(
    rejected: tuple[Rejected, ...], messages: pa.Table, offset: str | None
) -> tuple[Rejected, ...]:
    """What was refused, its first place being the offset of the message where a column holds it."""
    if offset is None:
        return rejected
    offsets = messages[offset]
    return tuple(replace(each, first_line=offsets[each.first_line].as_py() or 0) for each in rejected)


@dataclass(slots=True)
class _Events:
    """Decoded events and their rows: `message_of` has the row of each event, by `$line`."""

    table: pa.Table
    message_of: Ints
    rows: pa.Table

    @property
    def places(self) -> Ints:
        """The row of each event that is left."""
        return self.message_of[self.table[LINE].to_numpy()]

    def add_metadata(self, names: tuple[tuple[str, str], ...], fields: Fields, level: str) -> None:
        """Fields the query asks for that are columns of the message."""
        for name, column in names:
            if (name,) in fields.paths:
                values, type_, _ = exact_column(flat(self.rows[column]), level)
                place = self.table.column_names.index(column_name((name,)))
                column_values = values.take(pa.array(self.places))
                self.table = self.table.set_column(place, field(column_name((name,)), type_), column_values)

    def add_records(self, spec: FrameSpec, fields: Fields, level: str) -> None:
        """Fields the query asks for that are of the records of a hub's message."""
        arrival, partition, offset = spec.arrival, spec.partition, spec.offset
        if arrival is None or partition is None or offset is None:
            raise InputError(f"the messages of {spec.name!r} have no time, partition or offset of a hub")
        ticks = flat(pc.cast(self.rows[arrival], pa.timestamp("us"), safe=False)).cast(pa.int64())
        arrived = [format_ticks(10 * (each or 0)) for each in ticks.to_pylist()]
        texts, asked = fields_of_messages(self.rows, arrived, partition, offset, fields, spec.records)
        found = decode_messages(texts, Payload(), asked, level)[0].table
        for path in asked.paths:
            name = column_name(path)
            place = self.table.column_names.index(name)
            values = found[name].take(pa.array(self.places))
            self.table = self.table.set_column(place, found.schema.field(name), values)

    def add_arrival(self, source: str | None, refusals: Refusals) -> None:
        """`$arrival`, NULL without a source; an event whose row has no time is refused."""
        if source is None:
            nothing = pa.nulls(self.table.num_rows, pa.int64())
            self.table = self.table.append_column(field(ARRIVAL, Type.DATETIME), nothing)
            return
        values, type_, _ = value_column(flat(self.rows[source]))
        holder = pa.table([values], schema=pa.schema([field(source, type_)]))
        ticks, readable = arrival_ticks(holder, source, "iso")
        self._keep(readable, f"the arrival column {source} is missing or holds no time", refusals)
        self.table = self.table.append_column(field(ARRIVAL, Type.DATETIME), pa.array(ticks[self.places]))

    def add_offset(self, source: str, messages: bool, refusals: Refusals) -> None:
        """`$offset`; of a message with several events it is the message's, and the place in it."""
        values = value_column(flat(self.rows[source]))[0]
        self._keep(np.asarray(values.is_valid()), f"the offset column {source} is missing", refusals)
        offsets = pc.fill_null(pc.cast(values, pa.int64()), 0).to_numpy()[self.places]
        if messages:  # whether or not one of these holds several: offsets must ascend over batches
            lines = self.table[LINE].to_numpy()
            within = lines - np.searchsorted(self.message_of, self.message_of[lines])
            offsets = offsets * EVENTS_OF_A_MESSAGE + within
        self.table = self.table.append_column(field(OFFSET, Type.BIGINT), pa.array(offsets))

    def _keep(self, readable: Mask, message: str, refusals: Refusals) -> None:
        good = readable[self.places]
        if not good.all():
            refusals.add(INVALID_DATA, message, self.table[LINE].to_numpy()[~good])
            self.table = self.table.filter(pa.array(good))
