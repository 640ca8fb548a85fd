"""Rows of a DataFrame as events: the columns Spark hands over become chunks, one per input partition.

The columns go through the decoder of Parquet files, so that a value is the same whichever way it came.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute

from tideglass.connect.formats.decoded import INVALID_DATA, LINE, Decoded, Fields, Mask, Refusals, Rejected
from tideglass.connect.formats.parquet import decode_parquet, value_column, wanted_columns
from tideglass.connect.inputs.arrival import arrival_ticks
from tideglass.connect.inputs.reading import Chunk
from tideglass.core.iso import flat
from tideglass.core.types import ARRIVAL, OFFSET, Type, field
from tideglass.core.values import unify

pc = cast("Any", pyarrow.compute)  # its functions are made at import, unseen by type checkers

_HEADER = b"tideglass.chunk"
#: The partition of an input that names no column for it.
ALONE = "0"


@dataclass(frozen=True, slots=True)
class FrameSpec:
    """Which columns of a DataFrame say where and when a row arrived.

    arrival: a timestamp, or ISO text; None: a row arrives at its event time. partition: any type, its
    text names the partition; None: there is one. offset: whole number that grows within the partition;
    None: rows are in the order of their arrival.
    """

    name: str
    arrival: str | None = None
    partition: str | None = None
    offset: str | None = None

    def columns(self, names: tuple[str, ...], fields: Fields) -> list[str]:
        """The columns of the DataFrame that are needed at all."""
        own = [name for name in (self.arrival, self.partition, self.offset) if name is not None]
        return list(dict.fromkeys((*wanted_columns(names, fields), *own)))


@dataclass(frozen=True, slots=True)
class FrameChunk:
    """Events of one partition, as far as one task saw them in one batch.

    order: of its making, task by task; decides where neither offset nor arrival time does. The table of
    the chunk lacks `$offset` when no column says it.
    """

    partition: str
    order: tuple[int, int]
    chunk: Chunk

    def to_bytes(self) -> bytes:
        header = {"order": self.order, "rejected": [asdict(each) for each in self.chunk.rejected]}
        table = self.chunk.table
        metadata = {**(table.schema.metadata or {}), _HEADER: json.dumps(header).encode()}
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema.with_metadata(metadata)) as writer:
            writer.write_table(table.combine_chunks())
        return sink.getvalue().to_pybytes()

    @staticmethod
    def from_bytes(partition: str, body: bytes) -> FrameChunk:
        with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
            table = reader.read_all()
        header = json.loads(table.schema.metadata[_HEADER])
        refused: list[dict[str, Any]] = header["rejected"]
        rejected = tuple(replace(Rejected(**each), examples=tuple(each["examples"])) for each in refused)
        task, number = header["order"]
        return FrameChunk(partition, (task, number), Chunk(table.replace_schema_metadata(), rejected))


def chunks_of_frame(
    table: pa.Table, spec: FrameSpec, fields: Fields, level: str, task: int, numbers: Iterator[int]
) -> Iterator[FrameChunk]:
    """The rows of a table as chunks, one per partition in it, numbered by the task that makes them."""
    for partition, rows in _by_partition(table, spec):
        yield FrameChunk(partition, (task, next(numbers)), _chunk(rows, spec, fields, level))


def in_order(chunks: list[FrameChunk], next_offset: int) -> tuple[list[Chunk], int]:
    """A partition's chunks of one batch by offset, else by arrival time and then as they appeared.

    Also the offset of the event to come, where offsets are counted here.
    """
    given = [each.chunk for each in sorted(chunks, key=lambda each: each.order)]
    if not given:
        return [], next_offset
    counted = OFFSET not in given[0].table.column_names
    tables = _sorted([chunk.table for chunk in given], ARRIVAL if counted else OFFSET)
    result: list[Chunk] = []
    for place, table in enumerate(tables):
        if counted:
            offsets = np.arange(next_offset, next_offset + table.num_rows, dtype=np.int64)
            table = table.append_column(field(OFFSET, Type.BIGINT), pa.array(offsets))
            next_offset += table.num_rows
        result.append(Chunk(table, _rejected(given) if place == 0 else ()))
    return result, next_offset


def _rejected(chunks: list[Chunk]) -> tuple[Rejected, ...]:
    return tuple(each for chunk in chunks for each in chunk.rejected)


def _sorted(tables: list[pa.Table], by: str) -> list[pa.Table]:
    """The tables in one ascending order; they stay what they are when they are in it already."""
    keys = [table[by].to_numpy() for table in tables if not table[by].null_count]
    if len(keys) < len(tables):  # rows that arrive at their event time stay as they came
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
    texts = pc.fill_null(pc.cast(column, pa.string()), "null")
    encoded = flat(texts).dictionary_encode()
    names = cast("list[str]", encoded.dictionary.to_pylist())
    codes = encoded.indices.to_numpy()
    for code in np.argsort(np.array(names)) if len(names) > 1 else range(len(names)):
        rows = codes == code
        yield names[int(code)], table if rows.all() else table.filter(pa.array(rows))


def _chunk(rows: pa.Table, spec: FrameSpec, fields: Fields, level: str) -> Chunk:
    wanted = wanted_columns(rows.column_names, fields)
    # A table without columns forgets how many rows it has.
    chosen = rows.select(wanted) if wanted else pa.table({"$nothing": pa.nulls(rows.num_rows)})
    decoded = decode_parquet(chosen, fields, level)
    refusals = Refusals()
    decoded = _with_column(decoded, rows, ARRIVAL, spec.arrival, refusals)
    if spec.offset is not None:
        decoded = _with_column(decoded, rows, OFFSET, spec.offset, refusals)
    return Chunk(decoded.table.drop_columns([LINE]), (*decoded.rejected, *refusals.all()))


def _with_column(
    decoded: Decoded, rows: pa.Table, target: str, source: str | None, refusals: Refusals
) -> Decoded:
    """The events with `$arrival` or `$offset`; those that have none are refused."""
    lines = decoded.table[LINE].to_numpy()
    type_ = Type.DATETIME if target == ARRIVAL else Type.BIGINT
    if source is None:
        column = pa.nulls(len(lines), pa.int64())
        return replace(decoded, table=decoded.table.append_column(field(target, type_), column))
    values, own_type, _ = value_column(flat(rows[source]))
    if target == ARRIVAL:
        holder = pa.table([values], schema=pa.schema([field(source, own_type)]))
        ticks, readable = arrival_ticks(holder, source, "iso")
        numbers = pa.array(ticks)
        message = f"the arrival column {source} is missing or holds no time"
    else:
        readable = cast("Mask", np.asarray(values.is_valid()))
        numbers = pc.fill_null(pc.cast(values, pa.int64()), 0)
        message = f"the offset column {source} is missing"
    good = readable[lines]
    if not good.all():
        refusals.add(INVALID_DATA, message, lines[~good])
    kept = decoded.table.filter(pa.array(good)) if not good.all() else decoded.table
    column = numbers.take(pa.array(lines[good]))
    return replace(decoded, table=kept.append_column(field(target, type_), column))
