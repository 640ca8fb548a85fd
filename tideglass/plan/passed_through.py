"""Columns that are fields of inputs, passed on unchanged: which, and where a field is computed with instead.

A field whose type the language has not can be passed on all the same, since nothing looks at its values:
through projections, filters, joins, steps and unions, as a key of a group, by LAG and LAST, and as a branch
of CASE and COALESCE. This follows fields through a plan; what their types are is for the caller to know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import TypeAlias

from tideglass.core.errors import Span
from tideglass.core.types import ARRIVAL, PARTITION, PAYLOAD, SYSTEM_TIMESTAMP, Type
from tideglass.plan.expressions import Call, Case, Cast, Expr, Literal, Path, Ref, children
from tideglass.plan.nodes import (
    Aggregate,
    Analytic,
    Apply,
    Filter,
    InputScan,
    Join,
    Lookup,
    Match,
    Node,
    Plan,
    Projection,
    StepRef,
    Union,
    walk,
)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an input: names from the top of the event downwards; none for the event itself."""

    input: str
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """What the values of a column are.

    fields: fields of inputs whose values they are; none: the column is always NULL
    only: they are nothing else besides
    """

    fields: frozenset[Field] = frozenset()
    only: bool = True

    def joined(self, other: Origin) -> Origin:
        return Origin(self.fields | other.fields, self.only and other.only)


@dataclass(frozen=True, slots=True)
class ComputedField:
    """A field that an expression computes with; span: its place in the query."""

    field: Field
    span: Span


#: Of what is computed.
_COMPUTED = Origin(only=False)
_Columns: TypeAlias = Mapping[str, Origin]
#: Types to which a cast is how a field is computed with on purpose.
_CAST_TO = frozenset((Type.FLOAT, Type.NVARCHAR))
_PASSING_CALLS = frozenset(("lag", "last"))
_PASSING_VALUES = frozenset(("first", "last"))
_EQUALITY = frozenset(("=", "<>"))


def origins(plan: Plan) -> dict[str, dict[str, Origin]]:
    """Per output the columns whose values are, among others, those of fields of inputs."""
    following = _Following(dict(plan.steps))
    result: dict[str, dict[str, Origin]] = {}
    for output in plan.outputs:
        columns = following.columns(output.node)
        merged = result.setdefault(output.name, {})
        for name in output.node.columns:
            origin = columns.get(name, _COMPUTED)
            merged[name] = merged[name].joined(origin) if name in merged else origin
    return result


def computed_fields(plan: Plan, alike: Callable[[Iterable[Field]], bool]) -> list[ComputedField]:
    """The fields an expression of the plan computes with, in the order the plan has them.

    A CAST to float or text, IS NULL and COUNT are not counted, nor an equality of fields that are `alike`.
    """
    following = _Following(dict(plan.steps), alike)
    roots = [*following.steps.values(), *(output.node for output in plan.outputs)]
    found = [each for root in roots for node in walk(root) for each in following.of_node(node)]
    return list(dict.fromkeys(found))


@dataclass(slots=True)
class _Following:
    steps: Mapping[str, Node]
    alike: Callable[[Iterable[Field]], bool] = field(default=lambda _: False)

    def columns(self, node: Node) -> dict[str, Origin]:
        """The origins of a node's columns; a column that is left out is computed."""
        match node:
            case InputScan(input=name, payload_types=declared):
                return _of_input(name, node.columns, declared)
            case StepRef(name=name):
                return self.columns(self.steps[name])
            case Filter(child=child) | Apply(child=child):
                return self.columns(child)
            case Projection(child=child, items=items, spread=spread):
                below = self.columns(child)
                made = {item.name: of(item.expr, below) for item in items}
                return made if spread is None else {**made, PAYLOAD: of(spread, below)}
            case Union(children=branches):
                return _of_union([(self.columns(each), each) for each in branches], node.columns)
            case Aggregate(child=child, keys=keys):
                below = self.columns(child)
                return {key.name: of(key.expr, below) for key in keys}
            case Analytic(child=child, calls=calls):
                below = self.columns(child)
                passed = {
                    name: reduce(
                        Origin.joined, (of(e, below) for e in (call.arg, call.default) if e is not None)
                    )
                    for name, call in calls
                    if call.function in _PASSING_CALLS and call.arg is not None
                }
                return {**below, **passed}
            case Match(child=child, values=values):
                below = self.columns(child)
                return {
                    value.name: of(value.arg, below)
                    for value in values
                    if value.arg is not None and value.function in _PASSING_VALUES
                }
            case Join(left=left, right=right):
                return _side(self.columns(left), node.left_prefix) | _side(
                    self.columns(right), node.right_prefix
                )
            case Lookup(left=left, input=name, payload_types=declared):
                met = _of_input(name, node.reference_columns, declared)
                return _side(self.columns(left), node.left_prefix) | _side(met, node.right_prefix)

    def of_node(self, node: Node) -> Iterator[ComputedField]:
        """The fields that the expressions of a node compute with."""
        match node:
            case InputScan(timestamp=timestamp):
                below = self.columns(node)
                yield from () if timestamp is None else self.computed(timestamp, below)
            case StepRef() | Union():
                return
            case Filter(child=child, condition=condition):
                yield from self.computed(condition, self.columns(child))
            case Projection(child=child, items=items):
                below = self.columns(child)
                for item in items:
                    yield from self.passed(item.expr, below)
            case Apply(child=child, argument=argument):
                yield from self.passed(argument, self.columns(child))
            case Aggregate(child=child, keys=keys, aggregates=aggregates):
                below = self.columns(child)
                for key in keys:
                    yield from self.passed(key.expr, below)
                for _, call in aggregates:
                    counts = call.function == "count" and call.arg is not None
                    yield from self.passed(call.arg, below) if counts else self.computed(call.arg, below)
                    for expr, _ in call.order_by:
                        yield from self.computed(expr, below)
            case Analytic(child=child, calls=calls):
                below = self.columns(child)
                for _, call in calls:
                    passes = call.function in _PASSING_CALLS
                    for expr in (call.arg, call.default):
                        yield from self.passed(expr, below) if passes else self.computed(expr, below)
                    arg = None if call.aggregate is None else call.aggregate.arg
                    counts = call.function == "count"
                    yield from self.passed(arg, below) if counts else self.computed(arg, below)
                    yield from self.computed(call.when, below)
                    for expr in call.partition_by:
                        yield from self.passed(expr, below)
            case Match(child=child, values=values, variables=variables):
                below, matched = self.columns(child), self.columns(node)
                for value in values:
                    passes = value.function in _PASSING_VALUES
                    yield from self.passed(value.arg, below) if passes else self.computed(value.arg, below)
                for variable in variables:
                    yield from self.computed(variable.condition, matched)
            case Join(keys=keys, condition=condition) | Lookup(keys=keys, condition=condition):
                below = self.columns(node)
                for pair in keys:
                    yield from self.computed(Call("=", pair), below)
                yield from self.computed(condition, below)

    def passed(self, expr: Expr | None, columns: _Columns) -> Iterator[ComputedField]:
        """The fields computed with in an expression whose own value is passed on."""
        match expr:
            case None | Literal() | Ref():
                return
            case Path(base=base):
                yield from self.passed(base, columns)
            case Case(branches=branches, otherwise=otherwise) if _is_passed(expr, columns):
                for condition, value in branches:
                    yield from self.computed(condition, columns)
                    yield from self.passed(value, columns)
                yield from self.passed(otherwise, columns)
            case Call(function="coalesce", args=args) if _is_passed(expr, columns):
                for arg in args:
                    yield from self.passed(arg, columns)
            case _:
                yield from self.computed(expr, columns)

    def computed(self, expr: Expr | None, columns: _Columns) -> Iterator[ComputedField]:
        """The fields computed with in an expression whose value is computed with."""
        if expr is None:
            return
        if isinstance(expr, Ref | Path):
            for each in sorted(of(expr, columns).fields, key=lambda each: (each.input, each.path)):
                yield ComputedField(each, expr.span)
        inner = children(expr)
        match expr:
            case Path(base=Ref()):
                return
            case Cast(type=type_) if type_ in _CAST_TO:
                passes = True
            case Call(function="isnull"):
                passes = True
            case Call(function=function, args=args) if function in _EQUALITY:
                sides = [of(arg, columns) for arg in args]
                passes = all(side.only for side in sides) and self.alike(
                    each for side in sides for each in side.fields
                )
            case _:
                passes = False
        for part in inner:
            yield from self.passed(part, columns) if passes else self.computed(part, columns)


def of(expr: Expr, columns: _Columns) -> Origin:
    """What the values of an expression over columns are."""
    match expr:
        case Literal(value=None):
            return Origin()
        case Ref(name=name):
            return columns.get(name, _COMPUTED)
        case Path(base=base, keys=keys):
            found = of(base, columns)
            within = frozenset(Field(each.input, each.path + keys) for each in found.fields)
            return Origin(within, found.only)
        case Case(branches=branches, otherwise=otherwise):
            values = [value for _, value in branches]
            return reduce(Origin.joined, (of(value, columns) for value in (*values, otherwise)))
        case Call(function="coalesce", args=args):
            return reduce(Origin.joined, (of(arg, columns) for arg in args))
        case _:
            return _COMPUTED


def _is_passed(expr: Expr, columns: _Columns) -> bool:
    return of(expr, columns).only


def _of_input(name: str, columns: Iterable[str], declared: Iterable[tuple[str, Type]]) -> dict[str, Origin]:
    """An input's columns; one that CREATE TABLE declares has the type it says there."""
    converted = {column for column, _ in declared}
    listed = {column: Origin(frozenset((Field(name, (column,)),))) for column in columns}
    whole = {PAYLOAD: Origin(frozenset((Field(name, ()),)))}
    return {**listed, **whole, **dict.fromkeys(converted, _COMPUTED)}


def _of_union(branches: Iterable[tuple[_Columns, Node]], columns: Iterable[str]) -> dict[str, Origin]:
    result: dict[str, Origin] = {}
    for name in (*columns, PAYLOAD):
        origin = Origin()
        for found, node in branches:
            if name in node.columns or name == PAYLOAD:
                origin = origin.joined(found.get(name, _COMPUTED))
            elif node.open:  # a field of its events that it does not list
                origin = origin.joined(of(Path(Ref(PAYLOAD), (name,)), found))
        result[name] = origin
    return result


def _side(columns: _Columns, prefix: str) -> dict[str, Origin]:
    """The columns of one side of a join, as the join names them."""
    engine = {prefix + name: _COMPUTED for name in (SYSTEM_TIMESTAMP, ARRIVAL, PARTITION)}
    return (engine if prefix else {}) | {prefix + name: origin for name, origin in columns.items()}
