"""Every function of the language by its lower-case name (`asa.md` 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tideglass.functions import (
    choices,
    conversions,
    dates,
    geospatial,
    mathematics,
    operators,
    records,
    strings,
)
from tideglass.functions.dates import DATEPARTS
from tideglass.functions.duckdb_functions import install
from tideglass.functions.signature import AggregateSignature, ScalarSignature

if TYPE_CHECKING:
    import duckdb

__all__ = ["AGGREGATES", "DATEPARTS", "ENGINE", "SCALARS", "AggregateSignature", "ScalarSignature", "prepare"]

_FAMILIES = (dates, mathematics, strings, records, geospatial, choices)

#: Functions a query may call. CASE and CAST are syntax and not among them.
SCALARS: Mapping[str, ScalarSignature] = {s.name: s for family in _FAMILIES for s in family.SCALARS}

#: Functions only the binder writes.
ENGINE: Mapping[str, ScalarSignature] = {s.name: s for s in records.ENGINE_SCALARS}

AGGREGATES: Mapping[str, AggregateSignature] = {
    a.name: a
    for a in (
        AggregateSignature(
            "count", 1, 1, "How many rows, or how many values that are not NULL.", True, distinct_allowed=True
        ),
        AggregateSignature("sum", 1, 1, "The sum of the values."),
        AggregateSignature("avg", 1, 1, "The mean of the values."),
        AggregateSignature("min", 1, 1, "The smallest value."),
        AggregateSignature("max", 1, 1, "The largest value."),
        AggregateSignature("stdev", 1, 1, "The standard deviation of a sample.", over_allowed=False),
        AggregateSignature("stdevp", 1, 1, "The standard deviation of a population.", over_allowed=False),
        AggregateSignature("var", 1, 1, "The variance of a sample.", over_allowed=False),
        AggregateSignature("varp", 1, 1, "The variance of a population.", over_allowed=False),
        AggregateSignature(
            "percentile_cont",
            1,
            1,
            "The interpolated value at a share of the ordered values.",
            needs_order_by=True,
            constant_first=True,
            over_allowed=False,
        ),
        AggregateSignature(
            "percentile_disc",
            1,
            1,
            "The first value whose cumulative share reaches the given one.",
            needs_order_by=True,
            constant_first=True,
            over_allowed=False,
        ),
        AggregateSignature("collect", 0, 1, "All values, or all events, as an array.", True),
        AggregateSignature(
            "collecttop",
            1,
            2,
            "The first n values, or events, by an order, as an array of rank and value.",
            True,
            needs_order_by=True,
            constant_first=True,
        ),
        AggregateSignature(
            "topone", 0, 1, "The first value, or event, by an order.", True, needs_order_by=True
        ),
    )
}


def prepare(duck: duckdb.DuckDBPyConnection, catching: duckdb.DuckDBPyConnection) -> None:
    """Makes what the functions need known to a DuckDB connection and the one that catches errors, once."""
    from tideglass.functions.callables import PYTHON_FUNCTIONS as CALLABLES
    from tideglass.functions.javascript import PYTHON_FUNCTIONS

    python_functions = (
        *dates.PYTHON_FUNCTIONS,
        *mathematics.PYTHON_FUNCTIONS,
        *strings.PYTHON_FUNCTIONS,
        *geospatial.PYTHON_FUNCTIONS,
        *PYTHON_FUNCTIONS,
        *CALLABLES,
    )
    macros = (
        *conversions.MACROS,
        *dates.MACROS,
        *mathematics.MACROS,
        *strings.MACROS,
        *records.MACROS,
        *operators.MACROS,
    )
    install(duck, catching, macros, python_functions)
