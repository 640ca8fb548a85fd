"""Aggregates over the rows of a window, as cells that merge (`asa.md` 4.1).

A cell holds a quantity of a set of rows. The cell of two sets together follows from their cells, in any
order (`grouping`). NULL is ignored by all but COUNT(*) and users' own aggregates; so it
is by TopOne, Collect and CollectTop. Cells of the same argument are shared: SUM, AVG and COUNT of one
column keep one count.

    cell                    holds
    |n.rows                 number of rows
    <arg>|n.values          number of values
    <arg>|whole.sum         exact sum of the bigints
    <arg>|lane.<s>          exact sum of floats by lane, <arg>|list.x the outliers (`exact`)
    <arg>|lane.v<s>         the same for all values as floats, list.vx; lane.q<s>, list.qx: of their squares
    <arg>|list.raw          values whose square does not fit a float twice over
    <arg>|min.<family>      smallest value of a family (max likewise)
    <arg>|list.whole        all bigints (list.float: all floats), for percentiles
    <arg>|set.values        distinct values as canonical text
    <arg>|list.rows         row order and JSON of each value
    <arg>|list.events       row order and tagged text of each value, NULL too, for a user's aggregate
    <name>|top.<n>          the first n by the ORDER BY, ties by row order
    <name>|min.number<i>    the first row whose i-th value of ORDER BY is a number, and the value; min.time<i>
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Floats, Ints, pc
from tideglass.core.columns import canonical_text
from tideglass.core.iso import flat
from tideglass.core.sql import query, quoted
from tideglass.core.types import ORDER_COLUMNS, Type, field, type_of, types_of
from tideglass.operators.aggregates.arguments import (
    BY,
    SORTABLE,
    Families,
    argument_types,
    as_ordered,
    json_sql,
    ordered_name,
    refusals_sql,
    refuse,
    refused_rows,
    refused_values_sql,
    sort_key_sql,
    split,
    tagged_sql,
    text_of,
)
from tideglass.operators.aggregates.exact_sums import Magnitudes, lane_sql
from tideglass.plan.specs import TOPS, AggregateSpec

COUNT_OF_ROWS = "|n.rows"


#: Beyond these a square, or its rounding error, is no longer a float.
_SQUARE_LOW, _SQUARE_HIGH = 2.0**-400, 2.0**400


class Cells:
    """The cells of a chunk of rows, for all aggregates of a step.

    `rows` is the chunk with columns added that cells read; `sql` maps a cell to its aggregate over it, or,
    with `over`, to the window function that aggregates that frame.
    Raises EvaluationError when a value has a type its function does not know.
    """

    def __init__(
        self, rows: pa.Table, specs: Sequence[AggregateSpec], count_rows: bool = False, over: str = ""
    ) -> None:
        self.rows = with_ordered(rows, specs)
        self._over = over
        self.sql: dict[str, str] = {}
        self._types = _types_read(self.rows, specs)
        self._families: dict[tuple[str, tuple[Type, ...]], Families] = {}
        if count_rows:
            self.sql[COUNT_OF_ROWS] = f"count(*) {self._over}"
        for spec in specs:
            self._add(spec)

    def _add(self, spec: AggregateSpec) -> None:
        if spec.arg is None:
            self.sql[COUNT_OF_ROWS] = f"count(*) {self._over}"
            return
        if spec.is_users:
            value = tagged_sql(quoted(spec.arg), self._types[spec.arg])
            self.sql[spec.cell("list.events")] = f"list({{{self._row_order()}, 'v': {value}}})"
            return
        if self._types[spec.arg] is Type.NULL:
            return
        match spec.function:
            case "count" if spec.distinct:
                self._distinct(spec)
            case "count":
                self._count(spec)
            case "sum" | "avg":
                self._count(spec)
                self._sum(spec)
            case "var" | "varp" | "stdev" | "stdevp":
                self._count(spec)
                self._spread(spec)
            case "min" | "max":
                self._extreme(spec)
            case "percentile_cont" | "percentile_disc":
                self._values(spec)
            case "collect":
                order = self._row_order()
                value = json_sql(quoted(str(spec.arg)), self._types[spec.arg])
                struct = f"{{{order}, 'v': {value}}}"
                self.sql[spec.cell("list.rows")] = (
                    f"list({struct}) FILTER ({quoted(spec.arg)} IS NOT NULL) {self._over}"
                )
            case _:
                self._top(spec)

    def _count(self, spec: AggregateSpec) -> None:
        self.sql[spec.cell("n.values")] = f"count({quoted(str(spec.arg))}) {self._over}"

    def _distinct(self, spec: AggregateSpec) -> None:
        column, text = str(spec.arg), f"{spec.arg}~"
        self._append(text, canonical_text(self.rows.select([column]), [column]))
        self.sql[spec.cell("set.values")] = (
            f"list(DISTINCT {quoted(text)}) FILTER ({quoted(column)} IS NOT NULL)"
        )

    def _sum(self, spec: AggregateSpec) -> None:
        families = self._split(spec)
        if families.whole is not None:
            self.sql[spec.cell("whole.sum")] = f"sum({families.whole}) {self._over}"
        if families.float is not None:
            self._lanes(families.float, spec.cell("lane."), spec.cell("list."))

    def _lanes(self, expression: str, lane: str, outliers: str) -> None:
        if f"{lane}74" in self.sql:
            return
        facts = query(f"SELECT {', '.join(Magnitudes.sql(expression))} FROM rows", rows=self.rows)
        magnitudes = Magnitudes(*(column[0].as_py() for column in facts.columns))
        for name, sql in lane_sql(expression, magnitudes).items():
            self.sql[outliers + name if name == "x" else lane + name] = f"{sql} {self._over}"

    def _spread(self, spec: AggregateSpec) -> None:
        if spec.cell("lane.v74") in self.sql:
            return
        column = self._split(spec).doubles
        if column is None:
            return
        held = query(f"SELECT {column} AS x FROM rows", rows=self.rows)["x"].combine_chunks()
        known = np.asarray(held.is_valid())
        x: Floats = np.asarray(pc.fill_null(held, 0.0))
        size = np.abs(x)
        inside = known & ((x == 0) | ((size >= _SQUARE_LOW) & (size <= _SQUARE_HIGH)))
        safe = np.where(inside, x, 0.0)
        # Veltkamp's split and Dekker's product: square + error is the square of x, exactly
        wide = safe * 134217729.0
        upper = wide - (wide - safe)
        lower = safe - upper
        square = safe * safe
        error = ((upper * upper - square) + 2.0 * upper * lower) + lower * lower
        names = {kind: f"{spec.arg}~{kind}" for kind in ("value", "square", "error", "raw")}
        for kind, values in (("value", safe), ("square", square), ("error", error)):
            self._append(names[kind], pa.array(values, mask=~inside))
        outside = known & ~inside
        self._lanes(quoted(names["value"]), spec.cell("lane.v"), spec.cell("list.v"))
        self._lanes(quoted(names["square"]), spec.cell("lane.q"), spec.cell("list.q"))
        self._lanes(quoted(names["error"]), spec.cell("lane.e"), spec.cell("list.e"))
        if outside.any():
            self._append(names["raw"], pa.array(x, mask=~outside))
            raw = quoted(names["raw"])
            self.sql[spec.cell("list.raw")] = f"list({raw}) FILTER ({raw} IS NOT NULL)"

    def _extreme(self, spec: AggregateSpec) -> None:
        column, type_ = quoted(str(spec.arg)), self._types[str(spec.arg)]
        if spec.as_text:
            self.sql[spec.cell(f"{spec.function}.text")] = (
                f"{spec.function}({text_of(column, type_)}) {self._over}"
            )
            return
        families = self._split(spec)
        for family in ("whole", "float", "datetime", "bit"):
            expression = getattr(families, family)
            if expression is not None:
                self.sql[spec.cell(f"{spec.function}.{family}")] = (
                    f"{spec.function}({expression}) {self._over}"
                )

    def _values(self, spec: AggregateSpec) -> None:
        families = self._split(spec)
        for family in ("whole", "float"):
            expression = getattr(families, family)
            if expression is not None:
                self.sql[spec.cell(f"list.{family}")] = (
                    f"list({expression}) FILTER ({expression} IS NOT NULL)"
                )

    def _top(self, spec: AggregateSpec) -> None:
        keys: list[str] = []
        for place, (name, descending) in enumerate(spec.order_by):
            by = ordered_name(name, self._types)
            key = sort_key_sql(quoted(by), self._types[by], descending)
            self._refuse(spec, name, refused_values_sql(spec, key.refused), SORTABLE, "ORDER BY")
            keys.append(f"'o{place}': {key.struct}")
            shown = json_sql(quoted(by), self._types[by])
            for kind, holds in ((spec.number_cell(place), key.number), (spec.time_cell(place), key.time)):
                if holds != "false":
                    self.sql[kind] = (
                        f"min({{{self._row_order()}, 'v': {shown}}}) "
                        f"FILTER ({quoted(str(spec.arg))} IS NOT NULL AND {holds}) {self._over}"
                    )
        column, type_ = quoted(str(spec.arg)), self._types[str(spec.arg)]
        value = tagged_sql(column, type_) if spec.function == "topone" else json_sql(column, type_)
        struct = f"{{{', '.join([*keys, self._row_order()])}, 'v': {value}}}"
        limit = spec.top_cell.rpartition(".")[2]
        self.sql[spec.top_cell] = (
            f"list_sort(list({struct}) FILTER ({column} IS NOT NULL) {self._over})[1:{limit}]"
        )

    def _row_order(self) -> str:
        return ", ".join(f"'p{place}': {quoted(name)}" for place, name in enumerate(ORDER_COLUMNS))

    def _split(self, spec: AggregateSpec) -> Families:
        """The families of the argument; those that need text read are columns of their own."""
        column, allowed = str(spec.arg), argument_types(spec) or ()
        if (column, allowed) in self._families:
            return self._families[column, allowed]
        families = split(quoted(column), self._types[column], allowed)
        self._refuse(spec, column, families.refused, allowed, "1st")
        if self._types[column] in (Type.VARIANT, Type.NVARCHAR):
            families = self._materialised(f"{column}~{len(allowed)}", families)
        self._families[column, allowed] = families
        return families

    def _materialised(self, prefix: str, families: Families) -> Families:
        names: dict[str, str | None] = {}
        for family in ("whole", "float", "datetime", "bit"):
            expression = getattr(families, family)
            if expression is not None:
                held = query(f"SELECT {expression} AS x FROM rows", rows=self.rows)["x"]
                if held.null_count < len(held):
                    self._append(f"{prefix}{family}", held)
                    names[family] = quoted(f"{prefix}{family}")
        return Families(**names)

    def _refuse(
        self,
        spec: AggregateSpec,
        column: str,
        refused: str | None,
        allowed: tuple[Type, ...],
        place: str,
    ) -> None:
        if refused is not None:
            value = json_sql(quoted(column), self._types[column])
            refuse(
                self.rows, refused, value, f"{place} argument of function {spec.function}", allowed, spec.span
            )

    def _append(self, name: str, column: Any) -> None:
        if name not in self.rows.column_names:
            self.rows = self.rows.append_column(name, column)


def with_ordered(rows: pa.Table, specs: Sequence[AggregateSpec]) -> pa.Table:
    """The rows with another column beside each that is text and orders rows: see `as_ordered`."""
    for name in {name for spec in specs if spec.function in TOPS for name, _ in spec.order_by}:
        values = flat(rows[name])
        column, type_ = as_ordered(values, type_of(rows.schema.field(name)))
        if column is not values and ordered_name(name, rows.column_names) == name:
            rows = rows.append_column(field(f"{name}{BY}", type_), column)
    return rows


def refused_by(specs: Sequence[AggregateSpec], rows: pa.Table) -> Ints:
    """The places of the rows with a value that some of the aggregates refuses."""
    rows = with_ordered(rows, specs)
    types = _types_read(rows, specs)
    return refused_rows(rows, (refused for spec in specs for refused in refusals_sql(spec, types)))


def _types_read(rows: pa.Table, specs: Sequence[AggregateSpec]) -> Mapping[str, Type]:
    names = {spec.arg for spec in specs if spec.arg} | {c for spec in specs for c, _ in spec.order_by}
    names |= {ordered_name(name, rows.column_names) for name in names}
    return types_of(rows.select(sorted(names)))
