"""Builds plan expressions by hand and evaluates them on one row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tideglass.core.json_rows import rows_of, table_of
from tideglass.core.types import Type, field
from tideglass.evaluate.program import evaluate
from tideglass.plan.expressions import Call, Cast, Expr, Literal, Ref


def lift(value: Any) -> Expr:
    """A constant as an expression; expressions stay."""
    return value if not isinstance(value, int | float | str | bool | None) else Literal(value)


def call(function: str, *args: Any) -> Call:
    return Call(function, tuple(lift(arg) for arg in args))


def cast(value: Any, type_: Type, *, lenient: bool = False) -> Cast:
    return Cast(lift(value), type_, lenient)


def column(values: list[Any], types: Type | None = None) -> pa.Table:
    """A table with one column x."""
    return table_of([{"x": value} for value in values], {"x": types} if types else None)


def values(expr: Expr, table: pa.Table, level: str = "1.2") -> list[Any]:
    found, type_ = evaluate(expr, table, level)
    return [row["v"] for row in rows_of(pa.table([found], schema=pa.schema([field("v", type_)])))]


def value(expr: Expr, level: str = "1.2", **columns: Any) -> Any:
    """The value of the expression on one row with these columns (a column `x_t` is the datetime x)."""
    rows: Mapping[str, Any] = columns or {"none": None}
    (result,) = values(expr, table_of([rows]), level)
    return result


def by_column(function: str, *args: Any) -> Any:
    """The function with its arguments in columns instead of constants, on one row."""
    names = [f"a{place}" for place in range(len(args))]
    return value(Call(function, tuple(map(Ref, names))), **dict(zip(names, args, strict=True)))
