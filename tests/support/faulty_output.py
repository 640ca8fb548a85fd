"""An output in memory that can be dead, refuse rows, or die; what it holds is what a reader would see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tideglass.connect.output import Batch, OutputConnector
from tideglass.connect.refused_rows import RefusalKind, RefusedRow, RowsRefused
from tideglass.core.errors import OutputUnavailable
from tideglass.core.json_rows import rows_of
from tideglass.storage import StoragePath


@dataclass(frozen=True, slots=True)
class FaultyOutput(OutputConnector):
    """Holds rows by batch; the same batch again replaces its rows.

    name: of the output.
    held: the rows, by generation and number of their batch.
    refuses: which rows it never takes.
    dead: what happens before it takes rows; raises where it is dead.
    published: the batches it was called with, in order.
    away: an entry for each try to prepare it that fails.
    """

    name: str
    held: dict[tuple[int, int], list[dict[str, Any]]] = field(
        default_factory=dict[tuple[int, int], list[dict[str, Any]]]
    )
    refuses: Callable[[Mapping[str, Any]], bool] = lambda row: False
    dead: list[bool] = field(default_factory=list[bool])
    published: list[int] = field(default_factory=list[int])
    away: list[bool] = field(default_factory=list[bool])

    def prepare(self) -> None:
        if self.away:
            self.away.pop()
            raise OutputUnavailable("the server is gone")

    def publish(self, batch: Batch, staged: Sequence[pa.Table]) -> Sequence[pa.Table]:
        self.published.append(batch.number)
        if self.dead:
            raise OutputUnavailable("the server is gone")
        refused = [
            RefusedRow(part, number, RefusalKind.TYPE_CONVERSION_ERROR, "the column n holds no such number")
            for part, table in enumerate(staged)
            for number, row in enumerate(rows_of(table))
            if self.refuses(row)
        ]
        if refused:
            raise RowsRefused(refused)
        self.held[batch.generation, batch.number] = [row for table in staged for row in rows_of(table)]
        return ()

    def withdraw(self, after: Batch) -> None:
        for generation, number in list(self.held):
            if generation == after.generation and number > after.number:
                del self.held[generation, number]

    def clear(self, *, rows: bool) -> None:
        if rows:
            self.held.clear()

    def identity(self, directory: StoragePath) -> Mapping[str, Any]:
        return {"path": None, "name": self.name}

    def describe(self) -> str:
        return "memory"

    def rows(self) -> list[dict[str, Any]]:
        """What a reader sees, in the order of the batches."""
        return [row for _, rows in sorted(self.held.items()) for row in rows]
