"""The console as an output: the first rows of each batch as a table."""

from __future__ import annotations

import json

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tideglass.connect.formats.layout import spread
from tideglass.connect.spec import OutputSpec
from tideglass.core.rows import rows_of


def show(table: pa.Table, spec: OutputSpec, batch_id: int, console: Console | None = None) -> None:
    """Print the first rows of a batch, and how many there are; nothing if there are none."""
    if table.num_rows == 0:
        return
    first = spread(table.slice(0, spec.rows_shown))
    names = [name for name in first.column_names if not name.startswith("$")]
    shown = Table()
    for name in names:
        shown.add_column(Text(name), no_wrap=True)
    for row in rows_of(first):
        shown.add_row(*(Text(_text(row[name])) for name in names))
    console = console or Console()
    console.print(f"{spec.name}, batch {batch_id}: {table.num_rows} rows", markup=False, highlight=False)
    console.print(shown)


def _text(value: object) -> str:
    if value is None:
        return "NULL"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
