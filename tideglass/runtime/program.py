"""Programs: expressions evaluated over Arrow tables, specialised by the types the rows bring.

A `Block` is a list of expressions. For one combination of column types it is one SQL statement, made
once; where the type of a sub-expression is known only from its values, that is computed first, by a
block of its own. Rows of VARIANT columns are evaluated in parts of uniform types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import duckdb
import numpy as np
import pyarrow as pa

from tideglass.core.columns import classify_json, settle, split_by_types, unify
from tideglass.core.errors import EvaluationError
from tideglass.core.iso import flat
from tideglass.core.sql import connection, query
from tideglass.core.types import ARROW_TYPE, Type, type_of, types_of
from tideglass.core.types import field as typed_field
from tideglass.functions.catalogue import prepare
from tideglass.functions.signature import Sql
from tideglass.plan.lower import (
    Lowered,
    Need,
    key_of,
    lower_all,
    lower_condition,
    quoted,
    references,
    substitute,
)
from tideglass.plan.nodes import Expr, Named, Path, Ref
from tideglass.runtime.extract import extract
from tideglass.runtime.failure import evaluated_parts, first_failing_row, message_of, shown_row

#: A column and its type.
Column: TypeAlias = tuple[pa.Array, Type]


def evaluate(expr: Expr, table: pa.Table, level: str = "1.2") -> Column:
    """The value of one expression for each row.

    Raises EvaluationError if a row makes it fail.
    """
    return Block((Need(expr, None),), level).run(table)[0]


# ---------------------------------------------------------------- blocks


@dataclass(frozen=True, slots=True)
class _Statement:
    """SQL for one combination of types. `values` has None for what is not computed by SQL."""

    values: tuple[Sql | None, ...]
    columns: tuple[str, ...]  # of the SELECT list; none if there is nothing to compute

    @property
    def sql(self) -> str:
        return f"SELECT {', '.join(self.columns)} FROM rows" if self.columns else ""


@dataclass(frozen=True, slots=True)
class _Together:
    """A condition and items as one statement; `passed` are the columns it only passes on."""

    values: tuple[Sql | None, ...]
    sql: str
    reads: tuple[str, ...]
    passed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Steps:
    """What to compute first, under which names, and what to do then."""

    first: Block
    names: tuple[str, ...]
    then: Block


@dataclass(slots=True, eq=False)
class Block:
    """Expressions evaluated together, each only where its guard holds (elsewhere it is NULL)."""

    items: tuple[Need, ...]
    level: str = "1.2"
    conditions: bool = False  # the values are conditions: true or false, never NULL
    depth: int = 0
    reads: tuple[str, ...] = field(init=False)
    _made: dict[tuple[Type, ...], _Statement | _Steps] = field(init=False)

    def __post_init__(self) -> None:
        names: set[str] = set()
        for item in self.items:
            if not isinstance(item.expr, Ref):  # a bare column is passed on whatever it holds
                names |= references(item.expr)
            if item.guard is not None:
                names |= references(item.guard)
        self.reads = tuple(sorted(names))
        self._made = {}

    def run(self, table: pa.Table) -> list[Column]:
        """The column of each expression, rows in the order of the table."""
        if table.num_rows == 0:
            return [
                (pa.array([], ARROW_TYPE[Type.BIT]), Type.BIT)
                if self.conditions
                else (pa.nulls(0), Type.NULL)
                for _ in self.items
            ]
        mixed = [name for name in self.reads if type_of(table.schema.field(name)) is Type.VARIANT]
        parts = split_by_types(table, mixed) if mixed else [(table, np.arange(0))]
        if len(parts) == 1:
            return self._run_uniform(parts[0][0])
        results = [_as_table(self._run_uniform(part)) for part, _ in parts]
        places = np.argsort(np.concatenate([rows for _, rows in parts]), kind="stable")
        whole = unify(results).take(pa.array(places))
        types = types_of(whole)
        return [settle(whole[name], types[name]) for name in whole.column_names]

    def _run_uniform(self, table: pa.Table) -> list[Column]:
        types = types_of(table)
        made = self._make(types)
        if isinstance(made, _Steps):
            columns = made.first.run(table)
            for name, (column, type_) in zip(made.names, columns, strict=True):
                table = table.append_column(typed_field(name, type_), column)
            return made.then.run(table)
        return self._compute(made, table, types)

    def _make(self, types: Mapping[str, Type]) -> _Statement | _Steps:
        signature = tuple(types[name] for name in self.reads)
        made = self._made.get(signature)
        if made is None:
            made = self._made[signature] = self._specialise(types)
        return made

    def _specialise(self, types: Mapping[str, Type]) -> _Statement | _Steps:
        lowered = self.lowered(types)
        if lowered.needs:
            return self._steps(lowered.needs)
        guards = self.lowered_guards(types)
        if guards is not None and guards.needs:
            return self._steps(guards.needs)
        values: list[Sql | None] = []
        place = 0
        for item, sql in zip(self.items, lowered.values, strict=True):
            guard = None
            if item.guard is not None and guards is not None:
                guard = guards.values[place]
                place += 1
            if isinstance(item.expr, Ref) or (isinstance(item.expr, Path) and sql.type is not Type.NULL):
                values.append(None)
            elif guard is not None and sql.type is not Type.NULL:
                text = f"CASE WHEN {guard.text} THEN {sql.text} ELSE NULL END"
                values.append(Sql(text, sql.type, True, sql.raw))
            else:
                values.append(sql)
        columns = tuple(
            f"{value.text} AS c{n}"
            for n, value in enumerate(values)
            if value is not None and value.type is not Type.NULL
        )
        return _Statement(tuple(values), columns)

    def statement(self, types: Mapping[str, Type]) -> _Statement | None:
        """The one statement for columns of these types; None if something must be computed before."""
        made = self._make(types)
        return made if isinstance(made, _Statement) else None

    def lowered(self, types: Mapping[str, Type]) -> Lowered:
        """SQL of the expressions without their guards."""
        exprs = [item.expr for item in self.items]
        if not self.conditions:
            return lower_all(exprs, types, self.level)
        each = [lower_condition(expr, types, self.level) for expr in exprs]
        return Lowered(tuple(e.values[0] for e in each), tuple(need for e in each for need in e.needs))

    def lowered_guards(self, types: Mapping[str, Type]) -> Lowered | None:
        guards = [item.guard for item in self.items if item.guard is not None]
        if not guards:
            return None
        each = [lower_condition(guard, types, self.level) for guard in guards]
        return Lowered(tuple(e.values[0] for e in each), tuple(need for e in each for need in e.needs))

    def _steps(self, needs: Sequence[Need]) -> _Steps:
        names = tuple(f"$x{self.depth}.{place}" for place in range(len(needs)))
        columns = {key_of(need.expr): name for need, name in zip(needs, names, strict=True)}
        rest = tuple(
            Need(
                substitute(item.expr, columns),
                None if item.guard is None else substitute(item.guard, columns),
            )
            for item in self.items
        )
        first = Block(tuple(needs), self.level, depth=self.depth + 100)
        return _Steps(first, names, Block(rest, self.level, self.conditions, self.depth + 1))

    def _compute(self, made: _Statement, table: pa.Table, types: Mapping[str, Type]) -> list[Column]:
        computed = self._query(made.sql, table) if made.sql else None
        fields = _fields(table, [item.expr for item in self.items])
        columns: list[Column] = []
        for place, (item, value) in enumerate(zip(self.items, made.values, strict=True)):
            if value is None:
                if isinstance(item.expr, Ref):
                    columns.append((flat(table[item.expr.name]), types[item.expr.name]))
                else:
                    columns.append(read_json(fields[key_of(item.expr)], self.level))
            elif value.type is Type.NULL or computed is None:
                columns.append((pa.nulls(table.num_rows), Type.NULL))
            else:
                columns.append(_column(flat(computed[f"c{place}"]), value, self.level))
        return columns

    def _query(self, sql: str, table: pa.Table) -> pa.Table:
        try:
            return self._ask(sql, table)
        except duckdb.Error as problem:
            raise self._explained(table, message_of(problem)) from None

    def _ask(self, sql: str, table: pa.Table) -> pa.Table:
        return _ask(sql, table, self.reads)

    def _explained(self, table: pa.Table, message: str) -> EvaluationError:
        """The error of the first row that fails, with the smallest expression that fails there."""
        for item in self.items:
            alone = Block((item,), self.level, self.conditions)
            if alone._fails(table):
                row = first_failing_row(alone._fails, table)
                return _culprit(item.expr, row, message, self.level)
        return EvaluationError(message)

    def _fails(self, table: pa.Table) -> bool:
        """Whether the statement for this table fails, without asking why."""
        made = self._make(types_of(table))
        if isinstance(made, _Steps) or not made.sql:
            return False
        try:
            self._ask(made.sql, table)
        except duckdb.Error:
            return True
        return False


def _culprit(expr: Expr, row: pa.Table, message: str, level: str) -> EvaluationError:
    for part in evaluated_parts(expr, lambda condition: _holds(condition, row, level)):
        try:
            evaluate(part, row, level)
        except EvaluationError as inner:
            return inner
    return EvaluationError(f"{message} {shown_row(expr, row)}".strip(), expr.span)


def _holds(condition: Expr, row: pa.Table, level: str) -> bool:
    column, _ = Block((Need(condition, None),), level, conditions=True).run(row)[0]
    return bool(column[0].as_py())


def _ask(sql: str, table: pa.Table, reads: Sequence[str]) -> pa.Table:
    prepare(connection())
    return query(sql, rows=table.select(reads) if reads else _counted(table.num_rows))


def _counted(rows: int) -> pa.Table:
    """A table of so many rows for statements that read no column."""
    return pa.table({"$none": pa.array(np.zeros(rows, np.int8))})


def _as_table(columns: Sequence[Column]) -> pa.Table:
    fields = [typed_field(f"c{place}", type_) for place, (_, type_) in enumerate(columns)]
    return pa.table([column for column, _ in columns], schema=pa.schema(fields))


def _fields(table: pa.Table, exprs: Sequence[Expr]) -> dict[str, pa.Array]:
    """JSON texts of all fields among the expressions, one parse a record column."""
    by_record: dict[str, list[Path]] = {}
    for expr in exprs:
        if not isinstance(expr, Path) or not isinstance(expr.base, Ref):
            continue
        if type_of(table.schema.field(expr.base.name)) is Type.RECORD:
            by_record.setdefault(expr.base.name, []).append(expr)
    found: dict[str, pa.Array] = {}
    for record, paths in by_record.items():
        texts = extract(table[record], [path.keys for path in paths])
        found.update((key_of(path), text) for path, text in zip(paths, texts, strict=True))
    return found


def read_json(texts: pa.Array, level: str) -> Column:
    """JSON texts as values. Raises EvaluationError for a number no type of the language can hold."""
    column, type_, unreadable = classify_json(texts, level)
    if unreadable is not None:
        text = texts[int(np.flatnonzero(unreadable)[0])].as_py()
        raise EvaluationError(f"The number {text} is outside the range of bigint and float.")
    return column, type_


def _column(column: pa.Array, value: Sql, level: str) -> Column:
    if value.raw:
        return read_json(column, level)
    if value.type is Type.VARIANT:
        return settle(column, Type.VARIANT)
    held = ARROW_TYPE[value.type]
    return column if column.type == held else column.cast(held), value.type


# ---------------------------------------------------------------- programs


@dataclass(slots=True, eq=False)
class Program:
    """Filter and projection: rows where `condition` holds, `items` computed, `keep` passed on unchanged.

    The rows stay in their order. `run` raises EvaluationError if a row makes an expression fail; an
    item is not evaluated on rows the condition drops.
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
        self._items = Block(tuple(Need(item.expr, None) for item in self.items), self.level)
        self._condition = (
            None
            if self.condition is None
            else Block((Need(self.condition, None),), self.level, conditions=True)
        )

    def run(self, table: pa.Table) -> pa.Table:
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
        """The result by one statement; None if more are needed, or if this one fails (then they tell why)."""
        types = types_of(table)
        signature = tuple(types.items())
        if signature not in self._together:
            self._together[signature] = self._make_together(types)
        made = self._together[signature]
        if made is None:
            return None
        try:
            found = _ask(made.sql, table, made.reads)
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
                columns.append(_column(flat(found[f"c{place}"]), value, self.level))
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

        What is computed first because only its values know its type stands above, as JSON text.
        """
        shown = {name: Type.NVARCHAR if type_ is Type.VARIANT else type_ for name, type_ in types.items()}
        lines: list[str] = []
        exprs = [item.expr for item in self.items]
        conditions = [] if self.condition is None else [self.condition]
        for _ in range(20):
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
            columns: dict[str, str] = {}
            for need in needs:
                key = key_of(need.expr)
                if key not in columns:
                    columns[key] = name = f"$x{len(shown)}"
                    text = lower_all((need.expr,), shown, self.level).values[0].text
                    lines.append(f"-- {quoted(name)} := {text}; its type is found in its values\n")
                    shown[name] = Type.FLOAT
            exprs = [substitute(expr, columns) for expr in exprs]
            conditions = [substitute(c, columns) for c in conditions]
        raise EvaluationError("The expression is nested too deeply to be shown.")
