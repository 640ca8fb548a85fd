"""The console as an output: the first rows of each batch as a table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tideglass.connect.formats.layout import spread
from tideglass.connect.output import Batch, OutputConnector
from tideglass.core.json_rows import rows_of
from tideglass.storage import StoragePath

#: Rows of a batch that are shown.
ROWS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class ConsoleOutput(OutputConnector):
    """Rows for who watches the run."""

    name: str

    def publish(self, batch: Batch, staged: Sequence[pa.Table]) -> Sequence[pa.Table]:
        return staged

    def identity(self, directory: StoragePath) -> Mapping[str, Any]:
        return {"path": None, "format": "console", "delimiter": ",", "rows_shown": ROWS_SHOWN}

    def describe(self) -> str:
        return "the console"


def show(
    table: pa.Table, name: str, batch_id: int, console: Console | None = None, rows_shown: int = ROWS_SHOWN
) -> None:
    """Print the first rows of a batch of the output `name`, and how many there are; without rows nothing."""
    if table.num_rows == 0:
        return
    first = spread(table.slice(0, rows_shown))
    names = [each for each in first.column_names if not each.startswith("$")]
    shown = Table()
    for column in names:
        shown.add_column(Text(column), no_wrap=True)
    for row in rows_of(first):
        shown.add_row(*(Text(_text(row[column])) for column in names))
    console = console or Console()
    console.print(f"{name}, batch {batch_id}: {table.num_rows} rows", markup=False, highlight=False)
    console.print(shown)


def _text(value: object) -> str:
    if value is None:
        return "NULL"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
