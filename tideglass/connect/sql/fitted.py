"""The rows of a batch as a table takes them: fields matched with columns by name, values converted.

What the table cannot take is found here, before anything is written, so that a batch is written wholly or not
at all (`asa.md` 6.6).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tideglass.connect.formats.layout import spread
from tideglass.connect.refused_rows import RefusalKind, RefusedRow
from tideglass.connect.sql.conversion import SinkRules, carrier, converted, excerpt
from tideglass.connect.sql.target_table import Family, SinkColumn, TargetTable
from tideglass.core.arrays import Mask
from tideglass.core.iso import flat
from tideglass.core.json_rows import rows_of
from tideglass.core.types import PAYLOAD, types_of

#: The column of a fitted table that numbers its rows in the batch, from 0.
ORDINAL = "n"


@dataclass(frozen=True, slots=True)
class FittedRows:
    """Rows that say something of the same columns, in the order of the batch.

    columns: of the table.
    rows: `ORDINAL`, then the values of each column as `conversion` holds them, named c0, c1 …
    """

    columns: Sequence[SinkColumn]
    rows: pa.Table

    def pieces(self, most_rows: int) -> Sequence[FittedRows]:
        """The same rows in pieces of so many."""
        return [
            FittedRows(self.columns, self.rows.slice(at, most_rows))
            for at in range(0, self.rows.num_rows, most_rows)
        ]


def fitted(
    staged: Sequence[pa.Table], target: TargetTable, keys: Sequence[str], rules: SinkRules
) -> tuple[Sequence[FittedRows], Sequence[RefusedRow]]:
    """The rows for a table, and those it cannot take, each for the first reason found.

    Neighbouring tables whose rows say something of the same columns are one. A row of a query with a listed
    set of columns says something of these, one of `SELECT *` of every column of the table: what it does not
    hold is NULL. So what a row writes does not depend on the rows that happen to be in its batch.
    """
    found: list[FittedRows] = []
    refused: list[RefusedRow] = []
    first = 0
    for number, table in enumerate(staged):
        part = _StagedPart(number, table, target, keys, rules)
        columns, arrays = part.fit()
        refused += [RefusedRow(number, row, *why) for row, why in sorted(part.refused.items())]
        ordinals = pa.array(np.arange(first, first + table.num_rows))
        rows = pa.table([ordinals, *arrays], names=[ORDINAL, *(f"c{n}" for n in range(len(arrays)))])
        if found and found[-1].columns == columns:
            found[-1] = FittedRows(columns, pa.concat_tables([found[-1].rows, rows]))
        else:
            found.append(FittedRows(columns, rows))
        first += table.num_rows
    return found, refused


class _StagedPart:
    """One of the tables of a batch; `refused` holds kind and reason by row."""

    def __init__(
        self, number: int, table: pa.Table, target: TargetTable, keys: Sequence[str], rules: SinkRules
    ) -> None:
        self.table, self.target, self.keys, self.rules = table, target, keys, rules
        self.refused: dict[int, tuple[RefusalKind, str]] = {}
        self.spreads = PAYLOAD in table.column_names
        self.listed = {name for name in table.column_names if not name.startswith("$")}

    def fit(self) -> tuple[list[SinkColumn], list[pa.Array]]:
        """The columns the rows say something of, in the order of the table, and their values."""
        shown = spread(self.table, self.rules.level)
        types = types_of(shown)
        values: dict[str, pa.Array] = {}
        for name in (each for each in shown.column_names if each != "$nothing"):
            column, array = self.target.column(name), flat(shown[name])
            there = np.asarray(array.is_valid())
            if column is None or column.computed:
                self._refuse(
                    there | (column is None and name in self.listed),
                    RefusalKind.COLUMN_NAME_INVALID,
                    f"the table {self.target.name} has no column {name!r}"
                    if column is None
                    else f"the database itself fills the column {column.name!r} of {self.target.name}",
                )
            elif column.name in values:
                self._refuse(
                    there,
                    RefusalKind.DUPLICATE_KEY,
                    f"another field of the row goes to the column {column.name!r} of {self.target.name}, too",
                )
            else:
                values[column.name], bad, why = converted(array, types[name], column, self.rules)
                if bad.any():
                    self._refuse_values(shown.select([name]), column, bad, why)
                if not column.nullable and column.default is None and name in self.listed:
                    self._refuse(
                        ~there,
                        RefusalKind.TYPE_CONVERSION_ERROR,
                        f"NULL does not go into the column {column.name!r} of {self.target.name}, "
                        "which is NOT NULL",
                    )
        self._refuse_missing(values)
        columns = [
            each
            for each in self.target.columns
            if each.name in values or (self.spreads and not each.computed and each.family is not Family.OTHER)
        ]
        rows = self.table.num_rows
        return columns, [values.get(each.name, pa.nulls(rows, carrier(each))) for each in columns]

    def _refuse_missing(self, values: dict[str, pa.Array]) -> None:
        everywhere = np.ones(self.table.num_rows, np.bool_)
        for column in self.target.columns:
            if column.required or column.name in self.keys:
                array = values.get(column.name)
                missing = everywhere if array is None else np.asarray(array.is_null())
                what = "is a key" if column.name in self.keys else "is NOT NULL and has no default"
                self._refuse(
                    missing,
                    RefusalKind.REQUIRED_COLUMN_MISSING,
                    f"the row has no value for the column {column.name!r} of {self.target.name}, "
                    f"which {what}",
                )

    def _refuse_values(self, values: pa.Table, column: SinkColumn, bad: Mask, why: str) -> None:
        places = np.flatnonzero(bad)
        field = values.schema.field(0)
        for place, row in zip(places, rows_of(values.take(pa.array(places))), strict=True):
            self.refused.setdefault(
                int(place),
                (
                    RefusalKind.TYPE_CONVERSION_ERROR,
                    f"{excerpt(row[field.name])} does not go into the column {column.name!r} "
                    f"({column.declared}) of {self.target.name}: {why}",
                ),
            )

    def _refuse(self, rows: Any, kind: RefusalKind, reason: str) -> None:
        for row in np.flatnonzero(rows):
            self.refused.setdefault(int(row), (kind, reason))
