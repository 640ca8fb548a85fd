"""What to tell when a row makes an expression fail: which row, which part of the query, and why (A-33).

Nothing here runs unless a statement has failed; then the cost of looking again does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from tideglass.core.rows import compact_json, rows_of
from tideglass.core.types import ORDER_COLUMNS, types_of
from tideglass.functions.mathematics import OVERFLOW
from tideglass.plan.lower import children, references
from tideglass.plan.nodes import Call, Case, Expr

_LONGEST_SHOWN = 300


def message_of(problem: Exception) -> str:
    """What went wrong in a statement, in the words of the language."""
    text = str(problem)
    if "EvaluationError: " in text:
        return text.split("EvaluationError: ", 1)[1].split("\n")[0].strip()
    if text.startswith(("Out of Range Error", "Conversion Error")):
        return OVERFLOW
    return text.removeprefix("Invalid Input Error: ").split("\n\nLINE ")[0].strip()


def first_failing_row(fails: Callable[[pa.Table], bool], table: pa.Table) -> pa.Table:
    """The first row on which `fails`, which is true for the whole table, is true."""
    start, count = 0, table.num_rows
    while count > 1:
        half = count // 2
        if fails(table.slice(start, half)):
            count = half
        else:
            start, count = start + half, count - half
    return table.slice(start, 1)


def evaluated_parts(expr: Expr, holds: Callable[[Expr], bool]) -> Iterator[Expr]:
    """The direct sub-expressions that are evaluated on a row, in their order; `holds` decides conditions."""
    match expr:
        case Call(function="and" | "or"):
            for arg in expr.args:
                yield arg
                if holds(arg) is (expr.function == "or"):
                    return
        case Call(function="coalesce"):
            for arg in expr.args:
                yield arg
                if not holds(Call("isnull", (arg,))):
                    return
        case Case():
            for condition, value in expr.branches:
                yield condition
                if holds(condition):
                    yield value
                    return
            yield expr.otherwise
        case _:
            yield from children(expr)


def shown_row(expr: Expr, row: pa.Table) -> str:
    """The values the expression reads in a row, and the row's place among the others."""
    names = sorted(name for name in references(expr) if name in row.column_names)
    values = rows_of(row.select(names).rename_columns([name.lstrip("$") or name for name in names]))
    if not names:
        return ""
    place = ""
    if all(name in row.column_names for name in ORDER_COLUMNS):
        types = types_of(row)
        number = {name: row[name][0].as_py() for name in ORDER_COLUMNS if name in types}
        place = " at " + ", ".join(f"{name[1:]} {value}" for name, value in number.items())
    return f"The row{place} has {compact_json(values[0])[:_LONGEST_SHOWN]}."
