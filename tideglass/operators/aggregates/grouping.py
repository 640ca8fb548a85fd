"""Rows of one group brought together: GROUP BY over typed key columns, and merging of partial aggregates.

A table of partial aggregates has plain columns (times, substream), key columns (typed values), and
*cells*: columns named `<subject>|<kind>`, whose kind decides how two values of the cell become one. A cell
that is missing in a chunk is NULL, and NULL changes nothing; so chunks with different cells simply meet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Ints, pc
from tideglass.core.columns import canonical_text, unify
from tideglass.core.iso import flat
from tideglass.core.sql import query, quoted
from tideglass.core.types import Type, arrow_type, field, types_of

CELL_MARK = "|"

#: How cells of a kind are merged: `{}` is the cell, `[over]` the place for an OVER clause, `[n]` what the
#: cell's name has after the kind.
MERGE_SQL: Mapping[str, str] = {
    "n": "(sum({}) [over])::BIGINT",
    "whole": "sum({}) [over]",
    "lane": "sum({}) [over]",
    "min": "min({}) [over]",
    "max": "max({}) [over]",
    "list": "flatten(list({}) FILTER ({} IS NOT NULL) [over])",
    "set": "list_distinct(flatten(list({}) FILTER ({} IS NOT NULL) [over]))",
    "top": "list_sort(flatten(list({}) FILTER ({} IS NOT NULL) [over]))[1:[n]]",
}


def is_cell(name: str) -> bool:
    return CELL_MARK in name


def merge_sql(cell: str, over: str = "") -> str:
    """The SQL aggregate that merges the values of a cell; with `over` as a window function."""
    kind, _, argument = cell.rsplit(CELL_MARK, 1)[1].partition(".")
    template = MERGE_SQL[kind].replace("[n]", argument).replace("[over]", over)
    return template.replace("{}", quoted(cell))


def stack(tables: Sequence[pa.Table], keys: Sequence[str]) -> pa.Table:
    """The rows of all tables; key columns of different types become VARIANT, a missing cell is NULL."""
    if len(tables) == 1:
        return tables[0]
    own_keys = [[key for key in keys if key in table.column_names] for table in tables]
    rest = pa.concat_tables(
        [table.drop_columns(own) for table, own in zip(tables, own_keys, strict=True)],
        promote_options="permissive",
    )
    if not any(own_keys):
        return rest
    united = unify([table.select(own) for table, own in zip(tables, own_keys, strict=True)])
    for place, key in enumerate(united.column_names):
        rest = rest.add_column(place, united.schema.field(key), united[key])
    return rest


@dataclass(frozen=True, slots=True)
class GroupKeys:
    """Which columns identify a group: `plain` by their Arrow values, `keys` as typed values.

    Two key values are one group if `canonical_text` is equal for them; of 1 and 1.0 in one group the
    float stands for it, and -0.0 is 0.0.
    """

    plain: tuple[str, ...]
    keys: tuple[str, ...]

    def aggregate(self, rows: pa.Table, cells: Mapping[str, str]) -> pa.Table:
        """One row per group: plain columns, keys, and the cells by their SQL over `rows`."""
        types = types_of(rows.select(self.keys)) if self.keys else {}
        sources = rows
        by = [quoted(name) for name in self.plain]
        chosen = [quoted(name) for name in self.plain]
        for key in self.keys:
            match types[key]:
                case Type.NULL:
                    continue
                case Type.VARIANT:
                    same = f"{key}~"
                    sources = sources.append_column(same, canonical_text(rows.select([key]), [key]))
                    by.append(quoted(same))
                    chosen.append(f"min({quoted(key)}) AS {quoted(key)}")
                case Type.FLOAT:
                    by.append(f"{quoted(key)} + 0.0")
                    chosen.append(f"{quoted(key)} + 0.0 AS {quoted(key)}")
                case _:
                    by.append(quoted(key))
                    chosen.append(quoted(key))
        chosen += [f"{sql} AS {quoted(name)}" for name, sql in cells.items()]
        grouped = "GROUP BY " + ", ".join(by) if by else "HAVING count(*) > 0"
        result = query(f"SELECT {', '.join(chosen or ['1'])} FROM rows {grouped}", rows=sources)
        columns: dict[str, Any] = {name: result[name] for name in self.plain}
        fields: list[pa.Field] = [rows.schema.field(name) for name in self.plain]
        for key in self.keys:
            held = types[key] is not Type.NULL
            columns[key] = result[key].cast(arrow_type(types[key])) if held else pa.nulls(result.num_rows)
            fields.append(field(key, types[key]))
        for name in cells:
            columns[name] = result[name]
            fields.append(pa.field(name, result[name].type))
        return pa.table(list(columns.values()), schema=pa.schema(fields)) if fields else result

    def stack(self, tables: Sequence[pa.Table]) -> pa.Table:
        """The rows of all tables."""
        return stack(tables, self.keys)

    def merge(self, partials: pa.Table) -> pa.Table:
        """One row per group of a table of partial aggregates."""
        cells = [name for name in partials.column_names if is_cell(name)]
        return self.aggregate(partials, {cell: merge_sql(cell) for cell in cells})


def group_codes(rows: pa.Table, plain: Sequence[str], keys: Sequence[str]) -> Ints:
    """A number per row, equal for two rows exactly if their plain columns and keys are equal.

    The numbers follow the order of first appearance: they name groups, they do not order them.
    """
    codes: Ints | None = None
    types = types_of(rows.select(keys)) if keys else {}
    for name in (*plain, *keys):
        type_ = types.get(name)
        if type_ is Type.NULL:
            continue
        column = canonical_text(rows.select([name]), [name]) if type_ is Type.VARIANT else flat(rows[name])
        if type_ is Type.FLOAT:
            column = pc.add(column, 0.0)
        encoded: Any = column.dictionary_encode(null_encoding="encode")
        own = np.asarray(encoded.indices).astype(np.int64)
        if codes is None:
            codes = own
            continue
        codes = codes * max(1, len(encoded.dictionary)) + own
        # renumbered at once, so that the product of the next round cannot overflow
        codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
    return np.zeros(rows.num_rows, np.int64) if codes is None else codes
