"""The types of a plan's columns, as far as they can be known before any row is seen.

Types belong to values, so a query needs none of this to run. A Spark DataFrame does: its columns have fixed
types. The types of its inputs' columns are known, and the translation to SQL that makes the programs yields
the types of all other columns. A column whose type it does not yield is VARIANT.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tideglass.core.errors import TideglassError
from tideglass.core.types import (
    ARRIVAL,
    INPUT,
    OFFSET,
    PANE,
    PARTITION,
    PAYLOAD,
    SUBSTREAM,
    SYSTEM_TIMESTAMP,
    WINDOW_ID,
    Type,
)
from tideglass.plan.calls import AggregateCall, AnalyticCall
from tideglass.plan.expressions import Expr, Path, Ref, fields_to_columns, in_columns, references, rewrite
from tideglass.plan.nodes import (
    Aggregate,
    Analytic,
    Apply,
    Filter,
    InputScan,
    Join,
    Lookup,
    Match,
    Named,
    Node,
    Plan,
    Projection,
    StepRef,
    Union,
)
from tideglass.plan.patterns import MatchedValue
from tideglass.plan.to_sql import lower_all

#: Types of an input's fields, by their path from the top of the event.
FieldTypes = Mapping[tuple[str, ...], Type]

_ENGINE: Mapping[str, Type] = {
    SYSTEM_TIMESTAMP: Type.DATETIME,
    ARRIVAL: Type.DATETIME,
    INPUT: Type.BIGINT,
    PARTITION: Type.BIGINT,
    OFFSET: Type.BIGINT,
    PAYLOAD: Type.RECORD,
    SUBSTREAM: Type.NVARCHAR,
    WINDOW_ID: Type.NVARCHAR,
    PANE: Type.NVARCHAR,
}

#: What a value of unknown type is tried as: when all lead to one type, that is the type.
_TRIED = (Type.BIGINT, Type.FLOAT, Type.NVARCHAR, Type.DATETIME, Type.BIT, Type.RECORD, Type.ARRAY)
#: Unknown values tried with types that differ from each other by so many places in the list above.
_TURNS = (0, 1, 2)
#: Nesting of unknown values within unknown values that is looked into.
_DEPTH = 8

#: Between the names of a field within a column; no name holds it.
_WITHIN = "\x00"

_FLOATS = frozenset(("avg", "var", "varp", "stdev", "stdevp", "percentile_cont"))
_ARRAYS = frozenset(("collect", "collecttop"))
_AS_ARGUMENT = frozenset(("sum", "min", "max", "percentile_disc", "topone"))


def output_types(plan: Plan, inputs: Mapping[str, FieldTypes]) -> dict[str, dict[str, Type]]:
    """The columns of every output and their types, VARIANT where values decide.

    inputs: what is known of the fields of each input, by its name in the plan.
    """
    typing = _Typing(plan.compatibility_level, inputs)
    for name, node in plan.steps:
        typing.steps[name] = typing.columns(node)
    result: dict[str, list[Mapping[str, Type]]] = {}
    for output in plan.outputs:
        found = typing.columns(output.node)
        listed = {name: type_ for name, type_ in found.items() if name in output.node.columns}
        result.setdefault(output.name, []).append(listed)
    return {name: _merged(parts) for name, parts in result.items()}


def _merged(parts: Iterable[Mapping[str, Type]]) -> dict[str, Type]:
    """Columns of streams that meet: one type if they agree, NULL aside."""
    result: dict[str, Type] = {}
    for part in parts:
        for name, type_ in part.items():
            before = result.get(name, Type.NULL)
            if type_ is Type.NULL or before is type_:
                type_ = before
            elif before is not Type.NULL:
                type_ = Type.VARIANT
            result[name] = type_
    return result


@dataclass(slots=True)
class _Typing:
    level: str
    inputs: Mapping[str, FieldTypes]
    steps: dict[str, dict[str, Type]] = field(default_factory=dict[str, dict[str, Type]])

    def columns(self, node: Node) -> dict[str, Type]:
        """The types of a node's columns; of an input also those of its fields, as `$payload.<path>`."""
        match node:
            case InputScan(input=name, payload_types=declared):
                return self.scan(name, declared, node.columns)
            case StepRef(name=name):
                return self.steps[name]
            case Filter(child=child):
                return self.columns(child)
            case Projection(child=child, items=items):
                return self.items(items, self.columns(child))
            case Union(children=children):
                found = [self.columns(child) for child in children]
                return _merged({name: _found(each, name) for name in node.columns} for each in found)
            case Aggregate():
                return self.aggregate(node)
            case Analytic(child=child, calls=calls):
                columns = self.columns(child)
                return {**columns, **{name: self.of_analytic(call, columns) for name, call in calls}}
            case Apply(child=child, function=function, made=made):
                first = Type.BIGINT if function == "getarrayelements" else Type.NVARCHAR
                return {**self.columns(child), made[0]: first, made[1]: Type.VARIANT}
            case Match(child=child, values=values):
                columns = self.columns(child)
                return {value.name: self.of_matched(value, columns) for value in values}
            case Join(left=left, right=right):
                sides = (left, node.left_prefix), (right, node.right_prefix)
                return {n: t for side, prefix in sides for n, t in _side(self.columns(side), prefix).items()}
            case Lookup(left=left, input=name, payload_types=declared):
                met = self.scan(name, declared, node.reference_columns)
                return _side(self.columns(left), node.left_prefix) | _side(met, node.right_prefix)

    def scan(
        self, name: str, declared: Iterable[tuple[str, Type]], columns: Iterable[str]
    ) -> dict[str, Type]:
        """An input with the columns it is known to have; declared: by CREATE TABLE."""
        fields = {**self.inputs.get(name, {}), **{(column,): type_ for column, type_ in declared}}
        whole = {".".join((PAYLOAD, *path)): type_ for path, type_ in fields.items()}
        within = {_WITHIN.join((PAYLOAD, *path)): type_ for path, type_ in fields.items()}
        within |= {_WITHIN.join(path): type_ for path, type_ in fields.items() if len(path) > 1}
        listed = {column: fields.get((column,), Type.VARIANT) for column in columns}
        return {**whole, **within, **listed}

    def items(self, items: Iterable[Named], columns: Mapping[str, Type]) -> dict[str, Type]:
        result = {item.name: self.of(item.expr, columns) for item in items}
        for item in items:
            if isinstance(item.expr, Ref):  # takes the types of its fields along
                start = item.expr.name + _WITHIN
                result |= {
                    item.name + _WITHIN + name.removeprefix(start): type_
                    for name, type_ in columns.items()
                    if name.startswith(start)
                }
        return result

    def aggregate(self, node: Aggregate) -> dict[str, Type]:
        columns = self.columns(node.child)
        result = self.items(node.keys, columns)
        result |= {name: self.of_aggregate(call, columns) for name, call in node.aggregates}
        return result | {WINDOW_ID: Type.NVARCHAR, PANE: Type.NVARCHAR}

    def of_aggregate(self, call: AggregateCall, columns: Mapping[str, Type]) -> Type:
        if call.function == "count":
            return Type.BIGINT
        if call.function in _FLOATS:
            return Type.FLOAT
        if call.function in _ARRAYS:
            return Type.ARRAY
        if call.function not in _AS_ARGUMENT or call.arg is None:
            return Type.VARIANT
        type_ = self.of(call.arg, columns)
        return Type.BIGINT if call.function == "sum" and type_ is Type.BIT else type_

    def of_analytic(self, call: AnalyticCall, columns: Mapping[str, Type]) -> Type:
        if call.aggregate is not None:
            return self.of_aggregate(call.aggregate, columns)
        if call.model is not None:
            return Type.RECORD
        if call.arg is None:  # ISFIRST
            return Type.BIGINT
        found = [self.of(expr, columns) for expr in (call.arg, call.default) if expr is not None]
        return _merged({"": type_} for type_ in found)[""]

    def of_matched(self, value: MatchedValue, columns: Mapping[str, Type]) -> Type:
        if value.arg is None:  # Classifier()
            return Type.ARRAY
        type_ = self.of(value.arg, columns)
        return Type.FLOAT if type_ is Type.NVARCHAR and value.function in ("min", "max") else type_

    def of(self, expr: Expr, columns: Mapping[str, Type]) -> Type:
        """The type of an expression over columns; NULL for what is always NULL."""
        expr = _paths_to_columns(fields_to_columns(expr), columns)
        types = {name: _found(columns, name) for name in references(expr)}
        return self._settled(expr, types, 0)

    def _settled(self, expr: Expr, types: Mapping[str, Type], depth: int) -> Type:
        if isinstance(expr, Ref) and types[expr.name] is Type.VARIANT:
            return Type.VARIANT
        try:
            lowered = lower_all((expr,), types, self.level)
        except TideglassError:
            return Type.VARIANT
        if not lowered.needs:
            value = lowered.values[0]
            return Type.VARIANT if value.raw else value.type
        if depth == _DEPTH:
            return Type.VARIANT
        names = {need.expr: f"$unknown{depth}.{n}" for n, need in enumerate(lowered.needs)}
        rest = in_columns(expr, names)
        found: set[Type] = set()
        for turn in _TURNS if len(names) > 1 else _TURNS[:1]:
            for first in range(len(_TRIED)):
                tried = {
                    name: _TRIED[(first + turn * place) % len(_TRIED)]
                    for place, name in enumerate(names.values())
                }
                found.add(self._settled(rest, {**types, **tried}, depth + 1))
                if len(found - {Type.NULL}) > 1:
                    return Type.VARIANT
        found -= {Type.NULL}
        return found.pop() if len(found) == 1 else Type.VARIANT


def _side(columns: Mapping[str, Type], prefix: str) -> dict[str, Type]:
    """The columns of one side of a join, as the join names them."""
    engine = {prefix + name: _ENGINE[name] for name in (SYSTEM_TIMESTAMP, ARRIVAL, PARTITION, PAYLOAD)}
    return (engine if prefix else {}) | {prefix + name: type_ for name, type_ in columns.items()}


def _found(columns: Mapping[str, Type], name: str) -> Type:
    return columns.get(name) or _ENGINE.get(name, Type.VARIANT)


def _paths_to_columns(expr: Expr, columns: Mapping[str, Type]) -> Expr:
    """Reads of fields within a column whose types are known, as columns of their own."""

    def change(part: Expr) -> Expr | None:
        if isinstance(part, Path) and isinstance(part.base, Ref):
            name = _WITHIN.join((part.base.name, *part.keys))
            if name in columns:
                return Ref(name, part.span)
        return None

    return rewrite(expr, change)
