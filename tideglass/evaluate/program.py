"""Programs: a filter and a projection over Arrow tables, whatever types the rows bring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Ints, Mask
from tideglass.core.errors import EvaluationError
from tideglass.core.failing_rows import OnFailure, of_sound_rows
from tideglass.core.iso import flat
from tideglass.core.sql import quoted
from tideglass.core.types import PAYLOAD, Type, type_of, types_of
from tideglass.core.types import field as typed_field
from tideglass.evaluate.block import Block, Column, ask, column_of, evaluate
from tideglass.functions.signature import Sql
from tideglass.plan.expressions import Call, Expr, Path, Ref, in_columns
from tideglass.plan.nodes import Named
from tideglass.plan.to_sql import Need, lower_all, lower_condition

__all__ = ["Column", "Program", "RowCondition", "evaluate"]


@dataclass(frozen=True, slots=True)
class _Together:
    """A condition and items as one statement; `passed` are the columns it only passes on."""

    values: tuple[Sql | None, ...]
    sql: str
    reads: tuple[str, ...]
    passed: tuple[str, ...]


def _record_of(item: Named) -> Expr:
    """The item's expression; a payload that is a value of an event becomes NULL where it is no record."""
    expr = item.expr
    is_value = isinstance(expr, Path) or (isinstance(expr, Ref) and not expr.name.endswith(PAYLOAD))
    return Call("record.merge", (expr,), expr.span) if item.name == PAYLOAD and is_value else expr


@dataclass(slots=True, eq=False)
class Program:
    """Filter and projection: rows where `condition` holds, `items` computed, `keep` passed on unchanged.

    The rows stay in their order. `run` raises EvaluationError if a row makes an expression fail; with
    `on_failure` it reports such rows there and leaves them out. An item is not evaluated on rows the
    condition drops.

    items: the columns to compute, in their order
    condition: which rows stay; None: all
    keep: columns of the rows that are passed on as they are
    level: the compatibility level, such as `1.2`
    """

    items: tuple[Named, ...]
    condition: Expr | None = None
    keep: tuple[str, ...] = ()
    level: str = "1.2"
    _items: Block = field(init=False)
    _condition: Block | None = field(init=False)
    _together: dict[tuple[tuple[str, Type], ...], _Together | None] = field(init=False)

    def __post_init__(self) -> None:
        self._together = {}
        self._items = Block(tuple(Need(_record_of(item), None) for item in self.items), self.level)
        self._condition = (
            None
            if self.condition is None
            else Block((Need(self.condition, None),), self.level, conditions=True)
        )

    def run(self, table: pa.Table, on_failure: OnFailure | None = None) -> pa.Table:
        return of_sound_rows(self._run, table, on_failure, failing=self.failing)

    def failing(self, table: pa.Table) -> Ints:
        """The places of the rows that make an expression fail."""
        evaluated = np.arange(table.num_rows)
        failed = np.zeros(table.num_rows, np.bool_)
        if self._condition is not None:
            failed = self._condition.failing(table)
            evaluated = np.flatnonzero(~failed)
            holds, _ = self._condition.run(table.take(pa.array(evaluated)), explain=False)[0]
            evaluated = evaluated[np.asarray(holds).astype(np.bool_)]
        failed[evaluated] = self._items.failing(table.take(pa.array(evaluated)))
        return np.flatnonzero(failed)

    def _run(self, table: pa.Table) -> pa.Table:
        if self._condition is not None and table.num_rows:
            together = self._run_together(table)
            if together is not None:
                return together
            holds, _ = self._condition.run(table)[0]
            if holds.true_count < table.num_rows:
                table = table.filter(holds)
        return self._result(table, self._items.run(table))

    def _result(self, rows: pa.Table, columns: Sequence[Column]) -> pa.Table:
        fields = [typed_field(item.name, type_) for item, (_, type_) in zip(self.items, columns, strict=True)]
        arrays: list[Any] = [column for column, _ in columns]
        for name in self.keep:
            fields.append(typed_field(name, type_of(rows.schema.field(name))))
            arrays.append(rows[name])
        return pa.table(arrays, schema=pa.schema(fields))

    def _run_together(self, table: pa.Table) -> pa.Table | None:
        """The result by one statement; None if more are needed, or if it fails (then they find out why)."""
        types = types_of(table)
        signature = tuple(types.items())
        if signature not in self._together:
            self._together[signature] = self._make_together(types)
        made = self._together[signature]
        if made is None:
            return None
        try:
            found = ask(made.sql, table, made.reads)
        except duckdb.Error:
            return None
        rows = pa.table(
            [
                found[f"k{place}"] if f"k{place}" in found.column_names else pa.nulls(found.num_rows)
                for place in range(len(made.passed))
            ],
            schema=pa.schema([typed_field(name, types[name]) for name in made.passed]),
        )
        columns: list[Column] = []
        for place, (item, value) in enumerate(zip(self.items, made.values, strict=True)):
            if value is None:
                assert isinstance(item.expr, Ref)
                columns.append((flat(rows[item.expr.name]), types[item.expr.name]))
            elif value.type is Type.NULL:
                columns.append((pa.nulls(found.num_rows), Type.NULL))
            else:
                columns.append(column_of(flat(found[f"c{place}"]), value, self.level))
        return self._result(rows, columns)

    def _make_together(self, types: Mapping[str, Type]) -> _Together | None:
        assert self._condition is not None
        if any(types[name] is Type.VARIANT for name in (*self._items.reads, *self._condition.reads)):
            return None
        items, condition = self._items.statement(types), self._condition.statement(types)
        if items is None or condition is None or not items.columns or not condition.columns:
            return None
        if any(
            v is None and not isinstance(i.expr, Ref) for i, v in zip(self.items, items.values, strict=True)
        ):
            return None
        bare = [item.expr.name for item in self.items if isinstance(item.expr, Ref)]
        passed = tuple(dict.fromkeys((*self.keep, *bare)))
        kept = [f"{quoted(n)} AS k{i}" for i, n in enumerate(passed) if types[n] is not Type.NULL]
        where = condition.values[0]
        assert where is not None
        sql = f"SELECT {', '.join((*items.columns, *kept))} FROM rows WHERE {where.text}"
        reads = tuple(dict.fromkeys((*self._items.reads, *self._condition.reads, *passed)))
        return _Together(items.values, sql, reads, passed)

    def sql(self, types: Mapping[str, Type]) -> str:
        """The SQL for columns of these types, for people; VARIANT columns are shown as text.

        A part whose type depends on its values is computed first, and is shown above as JSON text.
        """
        shown = {name: Type.NVARCHAR if type_ is Type.VARIANT else type_ for name, type_ in types.items()}
        lines: list[str] = []
        exprs = [item.expr for item in self.items]
        conditions = [] if self.condition is None else [self.condition]
        for _ in range(200):
            lowered = lower_all(exprs, shown, self.level)
            where = [lower_condition(c, shown, self.level) for c in conditions]
            needs = [*lowered.needs, *(need for one in where for need in one.needs)]
            if not needs:
                chosen = ",\n       ".join(
                    f"{value.text} AS {quoted(item.name)}"
                    for item, value in zip(self.items, lowered.values, strict=True)
                )
                kept = "".join(f",\n       {quoted(name)}" for name in self.keep)
                filtered = f"\nWHERE {where[0].values[0].text}" if where else ""
                return "".join(lines) + f"SELECT {chosen}{kept}\nFROM rows{filtered}"
            columns: dict[Expr, str] = {}
            for need in needs:
                key = need.expr
                if key not in columns:
                    columns[key] = name = f"$x{len(shown)}"
                    text = lower_all((need.expr,), shown, self.level).values[0].text
                    lines.append(f"-- {quoted(name)} := {text}; its type is found in its values\n")
                    shown[name] = Type.FLOAT
            exprs = [in_columns(expr, columns) for expr in exprs]
            conditions = [in_columns(c, columns) for c in conditions]
        raise EvaluationError("The expression is nested too deeply to be shown.")


#: The place of a row among those a condition is asked about.
_NUMBER = "$pair"


class RowCondition:
    """For which rows of a table a condition holds; it does not hold for a row on which it fails."""

    def __init__(self, expr: Expr, level: str) -> None:
        self._program = Program((), expr, (_NUMBER,), level=level)

    def __call__(self, rows: pa.Table, on_failure: OnFailure | None) -> Mask:
        result = np.zeros(rows.num_rows, np.bool_)
        result[self._program.run(_numbered(rows), on_failure)[_NUMBER].to_numpy()] = True
        return result

    def failing(self, rows: pa.Table) -> Ints:
        """The places of the rows on which it fails."""
        return self._program.failing(_numbered(rows))


def row_condition(expr: Expr | None, level: str) -> RowCondition | None:
    """The condition as a program; None if there is none."""
    return None if expr is None else RowCondition(expr, level)


def _numbered(rows: pa.Table) -> pa.Table:
    return rows.append_column(typed_field(_NUMBER, Type.BIGINT), pa.array(np.arange(rows.num_rows)))
