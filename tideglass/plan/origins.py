"""Which field of which input an expression is, followed back through the steps that pass it on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tideglass.core.errors import Span
from tideglass.core.types import PAYLOAD, Type
from tideglass.plan.calls import AggregateCall
from tideglass.plan.expressions import Cast, Expr, Path, Ref
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
)

_EXTREMES = frozenset(("min", "max"))


@dataclass(frozen=True, slots=True)
class Extreme:
    """MIN or MAX of a field of an input as it arrives.

    function: `min` or `max`
    input: the input
    field: names from the top of the event downwards
    times_events: the field is what TIMESTAMP BY reads, as it is or cast to datetime
    span: the call
    """

    function: str
    input: str
    field: tuple[str, ...]
    times_events: bool
    span: Span


def extremes_of_fields(plan: Plan) -> tuple[Extreme, ...]:
    """Every MIN and MAX of the plan over a field of an input without a CAST.

    Fields whose type is declared, as anything but text, are left out.
    """
    steps = dict(plan.steps)
    nodes = [*steps.values(), *(output.node for output in plan.outputs)]
    found = [
        Extreme(function, scan.input, keys, _times(scan, keys), span)
        for root in nodes
        for node in _inside(root)
        for child, function, arg, span in _extremes(node)
        for scan, keys in _fields(child, arg, steps)
    ]
    return tuple({(each.span.start, each.input, each.field): each for each in found}.values())


def _extremes(node: Node) -> Iterator[tuple[Node, str, Expr, Span]]:
    """MIN and MAX of a node: the rows they are of, the function, its argument and place."""
    calls: list[AggregateCall] = []
    match node:
        case Aggregate(child=child, aggregates=aggregates):
            calls = [call for _, call in aggregates]
        case Analytic(child=child, calls=analytic):
            calls = [call.aggregate for _, call in analytic if call.aggregate is not None]
        case Match(child=child, values=values):
            for value in values:
                if value.function in _EXTREMES and value.arg is not None:
                    yield child, value.function, value.arg, value.span
            return
        case _:
            return
    for call in calls:
        if call.function in _EXTREMES and not call.as_text and call.arg is not None:
            yield child, call.function, call.arg, call.span


def _fields(node: Node, expr: Expr, steps: Mapping[str, Node]) -> Iterator[tuple[InputScan, tuple[str, ...]]]:
    """The fields of inputs that an expression over the rows of a node is, one for each branch of a union.

    An input whose columns are known has known types too; its columns are not among these fields.
    """
    keys: tuple[str, ...] = ()
    base = expr
    while isinstance(base, Path):
        base, keys = base.base, base.keys + keys
    if not isinstance(base, Ref):
        return
    name = base.name
    match node:
        case InputScan():
            declared = dict(node.payload_types)
            if name == PAYLOAD and keys and declared.get(keys[0], Type.NVARCHAR) is Type.NVARCHAR:
                yield node, keys
        case StepRef():
            yield from _fields(steps[node.name], expr, steps)
        case Union(children=children):
            for child in children:
                yield from _fields(child, _listed(child, name, keys, expr), steps)
        case Projection(child=child, items=items, spread=spread):
            made = next((item.expr for item in items if item.name == name), None)
            made = spread if name == PAYLOAD else made
            if made is not None:
                yield from _fields(child, Path(made, keys) if keys else made, steps)
        case Join(left=left, right=right, left_prefix=own, right_prefix=other):
            for side, prefix in ((right, other), (left, own)):
                if name.startswith(prefix):
                    yield from _fields(side, _read(name.removeprefix(prefix), keys), steps)
                    return
        case Lookup(left=left, left_prefix=own, right_prefix=other):
            if not name.startswith(other) and name.startswith(own):
                yield from _fields(left, _read(name.removeprefix(own), keys), steps)
        case Filter(child=child) | Analytic(child=child) | Apply(child=child):
            yield from _fields(child, expr, steps)
        case Aggregate(child=child, keys=group):
            made = next((key.expr for key in group if key.name == name), None)
            if made is not None:
                yield from _fields(child, Path(made, keys) if keys else made, steps)
        case Match():
            return


def _listed(branch: Node, name: str, keys: tuple[str, ...], expr: Expr) -> Expr:
    """A column of a union as its branch has it: one that is not listed there is a field of its events."""
    if name == PAYLOAD or name in branch.columns or not branch.open:
        return expr
    return Path(Ref(PAYLOAD), (name, *keys))


def _read(name: str, keys: tuple[str, ...]) -> Expr:
    return Path(Ref(name), keys) if keys else Ref(name)


def _times(scan: InputScan, keys: tuple[str, ...]) -> bool:
    by = scan.timestamp.expr if isinstance(scan.timestamp, Cast) else scan.timestamp
    return by == Path(Ref(PAYLOAD), keys)


def _inside(node: Node) -> Iterator[Node]:
    """The node and all below it, up to the steps it reads."""
    yield node
    match node:
        case InputScan() | StepRef():
            return
        case Union(children=children):
            below: tuple[Node, ...] = children
        case Join(left=left, right=right):
            below = (left, right)
        case Lookup(left=left):
            below = (left,)
        case _:
            below = (node.child,)
    for each in below:
        yield from _inside(each)
