"""Blocks: expressions evaluated over Arrow tables, specialised by the types the rows bring.

A `Block` is a list of expressions. For one combination of column types it is one SQL statement, made
once; where the type of a sub-expression is known only from its values, that is computed first, by a
block of its own. Rows of VARIANT columns are evaluated in parts of uniform types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import duckdb
import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Mask
from tideglass.core.columns import classify_json, settle, split_by_types, unify
from tideglass.core.errors import EvaluationError, FailedRow
from tideglass.core.iso import flat
from tideglass.core.sql import catching_connection, connection, query, query_catching
from tideglass.core.types import Type, arrow_type, type_of, types_of
from tideglass.core.types import field as typed_field
from tideglass.evaluate.extract import extract
from tideglass.evaluate.failure import evaluated_parts, failed_row, first_failing_row, message_of
from tideglass.functions.registry import prepare
from tideglass.functions.signature import Sql
from tideglass.plan.expressions import Expr, Path, Ref, in_columns, references
from tideglass.plan.to_sql import Lowered, Need, lower_all, lower_condition

#: A column and its type.
Column: TypeAlias = tuple[pa.Array, Type]


def evaluate(expr: Expr, table: pa.Table, level: str = "1.2") -> Column:
    """The value of one expression for each row.

    Raises EvaluationError if a row makes it fail.
    """
    return Block((Need(expr, None),), level).run(table)[0]


# ---------------------------------------------------------------- blocks


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL for one combination of types. `values` has None for what is not computed by SQL."""

    values: tuple[Sql | None, ...]
    columns: tuple[str, ...]  # of the SELECT list; none if there is nothing to compute

    @property
    def sql(self) -> str:
        return f"SELECT {', '.join(self.columns)} FROM rows" if self.columns else ""


@dataclass(frozen=True, slots=True)
class _Steps:
    """What to compute first, under which names, and what to do then."""

    first: Block
    names: tuple[str, ...]
    then: Block


@dataclass(slots=True, eq=False)
class Block:
    """Expressions evaluated together, each only where its guard holds (elsewhere it is NULL).

    items: the expressions with their guards
    level: the compatibility level, such as `1.2`
    conditions: the values are conditions: true or false, never NULL
    depth: number of blocks this one is nested in
    reads: columns of the rows that the expressions read
    """

    items: tuple[Need, ...]
    level: str = "1.2"
    conditions: bool = False  # the values are conditions: true or false, never NULL
    depth: int = 0
    reads: tuple[str, ...] = field(init=False)
    _made: dict[tuple[Type, ...], Statement | _Steps] = field(init=False)

    def __post_init__(self) -> None:
        names: set[str] = set()
        for item in self.items:
            if not isinstance(item.expr, Ref):  # a bare column is passed on whatever it holds
                names |= references(item.expr)
            if item.guard is not None:
                names |= references(item.guard)
        self.reads = tuple(sorted(names))
        self._made = {}

    def run(self, table: pa.Table, *, explain: bool = True) -> list[Column]:
        """The column of each expression, rows in the order of the table.

        Raises EvaluationError if a row makes one fail; to `explain` which and why takes further looks.
        """
        if table.num_rows == 0:
            return [
                (pa.array([], arrow_type(Type.BIT)), Type.BIT)
                if self.conditions
                else (pa.nulls(0), Type.NULL)
                for _ in self.items
            ]
        mixed = [name for name in self.reads if type_of(table.schema.field(name)) is Type.VARIANT]
        parts = split_by_types(table, mixed) if mixed else [(table, np.arange(0))]
        if len(parts) == 1:
            return self._run_uniform(parts[0][0], explain)
        results = [_as_table(self._run_uniform(part, explain)) for part, _ in parts]
        places = np.argsort(np.concatenate([rows for _, rows in parts]), kind="stable")
        whole = unify(results).take(pa.array(places))
        types = types_of(whole)
        return [settle(whole[name], types[name]) for name in whole.column_names]

    def failing(self, table: pa.Table) -> Mask:
        """Which rows make an expression fail; the number of statements does not depend on how many."""
        failed = np.zeros(table.num_rows, np.bool_)
        if table.num_rows == 0:
            return failed
        mixed = [name for name in self.reads if type_of(table.schema.field(name)) is Type.VARIANT]
        for part, rows in split_by_types(table, mixed) if mixed else [(table, np.arange(table.num_rows))]:
            failed[rows] = self._failing_uniform(part)
        return failed

    def _failing_uniform(self, table: pa.Table) -> Mask:
        types = types_of(table)
        made = self._make(types)
        if isinstance(made, Statement):
            return self._failing_statement(made, table)
        failed = made.first.failing(table)
        sound = table.filter(pa.array(~failed))
        columns = made.first.run(sound, explain=False)
        for name, (column, type_) in zip(made.names, columns, strict=True):
            sound = sound.append_column(typed_field(name, type_), column)
        failed[~failed] = made.then.failing(sound)
        return failed

    def _failing_statement(self, made: Statement, table: pa.Table) -> Mask:
        failed = np.zeros(table.num_rows, np.bool_)
        texts: list[pa.Array] = []  # what is read as JSON after the statement, and may be no number of ours
        computed = {
            f"c{place}": value
            for place, value in enumerate(made.values)
            if value is not None and value.type is not Type.NULL
        }
        if computed:
            # A record: NULL is a value, and only a record that could not be made is a failure.
            record = ", ".join(f"'{name}': {value.text}" for name, value in computed.items())
            raw = [name for name, value in computed.items() if value.raw]
            chosen = ", ".join(("made IS NULL AS failed", *(f"made.{name} AS {name}" for name in raw)))
            found = caught(
                f"SELECT {chosen} FROM (SELECT TRY({{{record}}}) AS made FROM rows)", table, self.reads
            )
            failed = flat(found["failed"]).to_numpy(zero_copy_only=False).copy()
            texts += [flat(found[name]) for name in raw]
        fields = _fields(table, [item.expr for item in self.items])
        for item, value in zip(self.items, made.values, strict=True):
            if value is None and not isinstance(item.expr, Ref):
                texts.append(fields[item.expr])
        for column in texts:
            _, _, unreadable = classify_json(column, self.level)
            if unreadable is not None:
                failed |= unreadable
        return failed

    def _run_uniform(self, table: pa.Table, explain: bool) -> list[Column]:
        types = types_of(table)
        made = self._make(types)
        if isinstance(made, _Steps):
            columns = made.first.run(table, explain=explain)
            for name, (column, type_) in zip(made.names, columns, strict=True):
                table = table.append_column(typed_field(name, type_), column)
            return made.then.run(table, explain=explain)
        return self._compute(made, table, types, explain)

    def _make(self, types: Mapping[str, Type]) -> Statement | _Steps:
        signature = tuple(types[name] for name in self.reads)
        made = self._made.get(signature)
        if made is None:
            made = self._made[signature] = self._specialise(types)
        return made

    def _specialise(self, types: Mapping[str, Type]) -> Statement | _Steps:
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
        return Statement(tuple(values), columns)

    def statement(self, types: Mapping[str, Type]) -> Statement | None:
        """The one statement for columns of these types; None if something must be computed before."""
        made = self._make(types)
        return made if isinstance(made, Statement) else None

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
        columns = {need.expr: name for need, name in zip(needs, names, strict=True)}
        rest = tuple(
            Need(
                in_columns(item.expr, columns),
                None if item.guard is None else in_columns(item.guard, columns),
            )
            for item in self.items
        )
        first = Block(tuple(needs), self.level, depth=self.depth + 100)
        return _Steps(first, names, Block(rest, self.level, self.conditions, self.depth + 1))

    def _compute(
        self, made: Statement, table: pa.Table, types: Mapping[str, Type], explain: bool
    ) -> list[Column]:
        computed = self._query(made.sql, table, explain) if made.sql else None
        fields = _fields(table, [item.expr for item in self.items])
        columns: list[Column] = []
        for place, (item, value) in enumerate(zip(self.items, made.values, strict=True)):
            if value is None:
                if isinstance(item.expr, Ref):
                    columns.append((flat(table[item.expr.name]), types[item.expr.name]))
                else:
                    columns.append(self._read(fields[item.expr], item.expr, table))
            elif value.type is Type.NULL or computed is None:
                columns.append((pa.nulls(table.num_rows), Type.NULL))
            else:
                column = flat(computed[f"c{place}"])
                if value.raw:
                    columns.append(self._read(column, item.expr, table))
                else:
                    columns.append(column_of(column, value, self.level))
        return columns

    def _read(self, texts: pa.Array, expr: Expr, table: pa.Table) -> Column:
        try:
            return read_json(texts, self.level)
        except UnreadableNumber as problem:
            row = failed_row(None, table.slice(problem.place, 1))
            raise EvaluationError(problem.message, expr.span, FailedRow(place=row.place)) from None

    def _query(self, sql: str, table: pa.Table, explain: bool) -> pa.Table:
        try:
            return self._ask(sql, table)
        except duckdb.Error as problem:
            message = message_of(problem)
            raise (self._explained(table, message) if explain else EvaluationError(message)) from None

    def _ask(self, sql: str, table: pa.Table) -> pa.Table:
        return ask(sql, table, self.reads)

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
    return EvaluationError(message, expr.span, failed_row(expr, row))


def _holds(condition: Expr, row: pa.Table, level: str) -> bool:
    column, _ = Block((Need(condition, None),), level, conditions=True).run(row)[0]
    return bool(column[0].as_py())


def ask(sql: str, table: pa.Table, reads: Sequence[str]) -> pa.Table:
    prepare(connection(), catching_connection())
    return query(sql, rows=table.select(reads) if reads else _counted(table.num_rows))


def caught(sql: str, table: pa.Table, reads: Sequence[str]) -> pa.Table:
    """The result of a statement in which TRY holds what may fail."""
    prepare(connection(), catching_connection())
    return query_catching(sql, rows=table.select(reads) if reads else _counted(table.num_rows))


def _counted(rows: int) -> pa.Table:
    """A table of so many rows for statements that read no column."""
    return pa.table({"$none": pa.array(np.zeros(rows, np.int8))})


def _as_table(columns: Sequence[Column]) -> pa.Table:
    fields = [typed_field(f"c{place}", type_) for place, (_, type_) in enumerate(columns)]
    return pa.table([column for column, _ in columns], schema=pa.schema(fields))


def _fields(table: pa.Table, exprs: Sequence[Expr]) -> dict[Expr, pa.Array]:
    """JSON texts of all fields among the expressions, one parse a record column."""
    by_record: dict[str, list[Path]] = {}
    for expr in exprs:
        if not isinstance(expr, Path) or not isinstance(expr.base, Ref):
            continue
        if type_of(table.schema.field(expr.base.name)) is Type.RECORD:
            by_record.setdefault(expr.base.name, []).append(expr)
    found: dict[Expr, pa.Array] = {}
    for record, paths in by_record.items():
        texts = extract(table[record], [path.keys for path in paths])
        found.update((path, text) for path, text in zip(paths, texts, strict=True))
    return found


class UnreadableNumber(EvaluationError):
    """A number no type of the language can hold, and its place among the texts."""

    def __init__(self, text: str, place: int) -> None:
        super().__init__(f"The number {text} is outside the range of bigint and float.")
        self.place = place


def read_json(texts: pa.Array, level: str) -> Column:
    """JSON texts as values. Raises UnreadableNumber for a number no type of the language can hold."""
    column, type_, unreadable = classify_json(texts, level)
    if unreadable is not None:
        place = int(np.flatnonzero(unreadable)[0])
        raise UnreadableNumber(texts[place].as_py(), place)
    return column, type_


def column_of(column: pa.Array, value: Sql, level: str) -> Column:
    if value.raw:
        return read_json(column, level)
    if value.type is Type.VARIANT:
        return settle(column, Type.VARIANT)
    held = arrow_type(value.type)
    return column if column.type == held else column.cast(held), value.type
