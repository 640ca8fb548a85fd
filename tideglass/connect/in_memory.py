"""Rows in memory as a finished input, for the test kit: the decoder files go through sees them too."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tideglass.connect.formats.decoded import LINE
from tideglass.connect.formats.json.decode import decode_json
from tideglass.connect.source import StreamInput
from tideglass.core.errors import InputError
from tideglass.core.events import Chunk, Fields
from tideglass.core.positions import Piece, Position, Positions
from tideglass.core.time import parse_ticks
from tideglass.core.types import ARRIVAL, OFFSET, Type
from tideglass.core.types import field as typed_field
from tideglass.storage import StoragePath

Row = Mapping[str, Any]

#: Fields of a row that are not payload.
ARRIVAL_FIELD = "_arrival"
PARTITION_FIELD = "_partition"


@dataclass(frozen=True, slots=True)
class RowsInput(StreamInput):
    """Rows in the order of their arrival; a row's place among them is its offset.

    batch_rows: how many a batch takes, over all partitions.
    """

    name: str
    rows: tuple[Row, ...]
    batch_rows: int

    def identity(self, directory: StoragePath) -> Mapping[str, Any]:
        return {"rows": len(self.rows)}

    def partitions(self) -> list[str]:
        return list(self._numbered())

    def _numbered(self) -> dict[str, list[tuple[int, Row]]]:
        """The numbered rows of each partition; there is always a partition 0."""
        found: dict[int, list[tuple[int, Row]]] = {0: []}
        for number, row in enumerate(self.rows):
            found.setdefault(partition_of(self.name, row), []).append((number, row))
        return {str(partition): rows for partition, rows in sorted(found.items())}

    def latest(self, position: Positions, limit_bytes: int | None = None) -> dict[str, list[Piece]]:
        """The next `batch_rows` rows; their size in bytes does not count."""
        taken = sum(_count(pieces) for pieces in position.values()) + self.batch_rows
        return {
            partition: [Piece("rows", 0, sum(number < taken for number, _ in rows), 0)]
            for partition, rows in self._numbered().items()
        }

    def read(
        self,
        partition: str,
        start: Position,
        end: Position,
        fields: Fields,
        level: str = "1.2",
    ) -> Iterator[Chunk]:
        rows = self._numbered()[partition][_count(start) : _count(end)]
        if rows:
            yield chunk_of_rows(self.name, rows, fields, level)

    def ended(self, position: Positions) -> frozenset[str]:
        return frozenset(
            partition
            for partition, rows in self._numbered().items()
            if _count(position.get(partition, [])) == len(rows)
        )


def _count(position: Position) -> int:
    return position[0].end if position else 0


def chunk_of_rows(name: str, rows: Sequence[tuple[int, Row]], fields: Fields, level: str) -> Chunk:
    """Numbered rows of one partition of the input `name` as a decoded chunk.

    A row without an arrival time has NULL there. Raises InputError for a row that cannot be taken.
    """
    payloads = [
        json.dumps({k: v for k, v in row.items() if k not in (ARRIVAL_FIELD, PARTITION_FIELD)})
        for _, row in rows
    ]
    decoded = decode_json(pa.array(payloads, pa.string()), fields, level)
    places = decoded.table[LINE].to_numpy()
    arrivals = pa.array([_arrival(name, row) for _, row in rows], pa.int64())
    offsets = np.array([number for number, _ in rows], dtype=np.int64)
    table = decoded.table.drop_columns([LINE])
    table = table.append_column(typed_field(ARRIVAL, Type.DATETIME), arrivals.take(pa.array(places)))
    table = table.append_column(typed_field(OFFSET, Type.BIGINT), pa.array(offsets[places], pa.int64()))
    return Chunk(table, decoded.rejected)


def partition_of(name: str, row: Row) -> int:
    """The partition a row of the input `name` belongs to. Raises InputError for what is no partition."""
    partition = row.get(PARTITION_FIELD, 0)
    if not isinstance(partition, int) or partition < 0:
        raise InputError(
            f"a row of {name!r} has {PARTITION_FIELD} {partition!r}; it must be a whole number from 0"
        )
    return partition


def _arrival(name: str, row: Row) -> int | None:
    text = row.get(ARRIVAL_FIELD)
    if text is None:
        return None
    ticks = parse_ticks(text) if isinstance(text, str) else None
    if ticks is None:
        raise InputError(
            f"a row of {name!r} has {ARRIVAL_FIELD} {text!r}; write an ISO time such as 2026-01-01T00:00:05Z"
        )
    return ticks
