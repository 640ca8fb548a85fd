"""The columns of the outputs of a query over DataFrames, before anything runs.

A column passed through unchanged keeps Spark's type where the language has none for its values (decimal,
binary) or none as narrow (struct, array, map). A query that computes with decimals or binary is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import types as sql_types

from tideglass.core.errors import Diagnostics, Source, Span
from tideglass.core.types import Type
from tideglass.plan.nodes import Plan
from tideglass.plan.passed_through import Field, Origin, computed_fields, origins
from tideglass.spark.dataframes.sql_columns import column_type, is_opaque, kept_type

#: Spark's type of a field of an input; None where only its values tell.
SqlTypes = Callable[[Field], "sql_types.DataType | None"]


@dataclass(frozen=True, slots=True)
class OutputColumns:
    """The columns of an output, in their order.

    types: of the values inside the query. kept: Spark's types of those passed through that keep theirs.
    """

    types: Mapping[str, Type]
    kept: Mapping[str, sql_types.DataType]

    @property
    def schema(self) -> sql_types.StructType:
        """The columns as Spark has them."""
        found = {name: self.kept.get(name) or column_type(type_) for name, type_ in self.types.items()}
        return sql_types.StructType([sql_types.StructField(name, of) for name, of in found.items()])


def output_columns(
    plan: Plan, source: Source, types: Mapping[str, Mapping[str, Type]], sql_type: SqlTypes
) -> dict[str, OutputColumns]:
    """The columns of every output.

    types: per output of the values of its columns inside the query.
    Raises QueryError for an expression that computes with a decimal or binary value, and for a column in
    which such values meet others.
    """
    diagnostics = Diagnostics()
    _refuse_computing(plan, source, sql_type, diagnostics)
    found: dict[str, OutputColumns] = {}
    for name, origins_of in origins(plan).items():
        kept: dict[str, sql_types.DataType] = {}
        for column, origin in origins_of.items():
            type_ = _kept(origin, plan.compatibility_level, sql_type)
            if type_ is not None:
                kept[column] = type_
            elif any(is_opaque(sql_type(each)) for each in origin.fields):
                _refuse_mixed(plan, name, column, _named(origin.fields, sql_type), diagnostics)
        found[name] = OutputColumns(types[name], kept)
    diagnostics.raise_if_any(source)
    return found


def _kept(origin: Origin, level: str, sql_type: SqlTypes) -> sql_types.DataType | None:
    if not origin.only:
        return None
    nested = any(len(each.path) > 1 for each in origin.fields)
    type_ = kept_type([sql_type(each) for each in origin.fields], nested=nested)
    # Below level 1.1 the names of fields are lower-cased (asa.md 5.5), so a record has another shape.
    return type_ if type_ is None or level > "1.0" or is_opaque(type_) else None


def _refuse_computing(plan: Plan, source: Source, sql_type: SqlTypes, diagnostics: Diagnostics) -> None:
    def alike(fields: Iterable[Field]) -> bool:
        return len({_text(sql_type(each)) for each in fields}) <= 1

    for each in computed_fields(plan, alike):
        type_ = sql_type(each.field)
        if not is_opaque(type_):
            continue
        words = " ".join(source.text[each.span.start : each.span.end].split()) or ".".join(each.field.path)
        diagnostics.error(
            "OPAQUE_TYPE",
            f"{words} is {_text(type_)}, for which the language has no type: its values can be passed on, "
            "grouped by, and compared with values of the same type, not computed with",
            each.span,
            f"CAST({words} AS float) is the nearest double, CAST({words} AS nvarchar(max)) the digits as text"
            if isinstance(type_, sql_types.DecimalType)
            else f"CAST({words} AS nvarchar(max)) is the value as base64 text",
        )


def _refuse_mixed(plan: Plan, output: str, column: str, types: str, diagnostics: Diagnostics) -> None:
    span = next((each.span for each in plan.outputs if each.name == output), Span())
    diagnostics.error(
        "OPAQUE_TYPE",
        f"the column {column!r} of {output!r} holds values of several types, of which {types} can only be "
        "passed on",
        span,
        "CAST all of them to float or to nvarchar(max)",
    )


def _named(fields: Iterable[Field], sql_type: SqlTypes) -> str:
    types = [sql_type(each) for each in fields]
    return " and ".join(sorted({_text(each) for each in types if is_opaque(each)}))


def _text(type_: sql_types.DataType | None) -> str:
    return "unknown" if type_ is None else type_.simpleString()
