"""Short ways from a query text to its plan or to what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tideglass.bind.binder import Bound, bind
from tideglass.bind.catalog import InputInfo
from tideglass.core.errors import Diagnostic, QueryError, Source
from tideglass.lang.parser import parse
from tideglass.plan.expressions import Expr, Literal, Path, Ref
from tideglass.plan.nodes import Aggregate, Filter, InputScan, Named, Node, Plan, Projection

PAYLOAD = Ref("$payload")
TIME = Ref("$ts")


def bound(
    text: str,
    inputs: Mapping[str, InputInfo] | None = None,
    level: str = "1.2",
    functions: Mapping[str, str] | None = None,
) -> Bound:
    source = Source(text)
    return bind(parse(source), source, inputs, level, functions)


def plan(text: str, inputs: Mapping[str, InputInfo] | None = None, level: str = "1.2") -> Plan:
    return bound(text, inputs, level).plan


def node(text: str, inputs: Mapping[str, InputInfo] | None = None, level: str = "1.2") -> Node:
    """The node of the only statement."""
    (output,) = plan(text, inputs, level).outputs
    return output.node


def project(text: str, inputs: Mapping[str, InputInfo] | None = None, level: str = "1.2") -> Projection:
    """The SELECT list of the only statement."""
    top = node(text, inputs, level)
    assert isinstance(top, Projection)
    return top


def columns(text: str, inputs: Mapping[str, InputInfo] | None = None, level: str = "1.2") -> dict[str, Expr]:
    return {item.name: item.expr for item in project(text, inputs, level).items}


def value(expression: str, inputs: Mapping[str, InputInfo] | None = None, level: str = "1.2") -> Expr:
    """What one SELECT item over the input `s` is bound to."""
    (item,) = project(f"SELECT {expression} AS v FROM s", inputs, level).items
    return item.expr


def where(condition: str) -> Expr:
    below = project(f"SELECT a FROM s WHERE {condition}").child
    assert isinstance(below, Filter)
    return below.condition


def aggregate(text: str, inputs: Mapping[str, InputInfo] | None = None) -> Aggregate:
    """The Aggregate under the SELECT list (and HAVING) of the only statement."""
    below = project(text, inputs).child
    if isinstance(below, Filter):
        below = below.child
    assert isinstance(below, Aggregate)
    return below


def scan(text: str, inputs: Mapping[str, InputInfo] | None = None, level: str = "1.2") -> InputScan:
    """The Scan a plain statement reads."""
    below = project(text, inputs, level).child
    assert isinstance(below, InputScan)
    return below


def errors(text: str, inputs: Mapping[str, InputInfo] | None = None, level: str = "1.2") -> list[Diagnostic]:
    with pytest.raises(QueryError) as caught:
        bound(text, inputs, level)
    return list(caught.value.diagnostics)


def found(
    text: str, inputs: Mapping[str, InputInfo] | None = None, level: str = "1.2"
) -> list[tuple[str, str]]:
    """Code and words of every error, in the order of their place."""
    return [
        (diagnostic.code, text[diagnostic.span.start : diagnostic.span.end])
        for diagnostic in errors(text, inputs, level)
    ]


def warned(
    text: str, inputs: Mapping[str, InputInfo] | None = None, level: str = "1.2"
) -> list[tuple[str, str]]:
    """Code and words of every warning."""
    return [(w.code, text[w.span.start : w.span.end]) for w in bound(text, inputs, level).warnings]


def field(*keys: str) -> Path:
    return Path(PAYLOAD, keys)


def literals(*values: int | float | str | bool | None) -> tuple[Literal, ...]:
    return tuple(Literal(each) for each in values)


def named(**exprs: Expr) -> tuple[Named, ...]:
    return tuple(Named(name, expr) for name, expr in exprs.items())


CLOSED = {"s": InputInfo("s", columns=("Id", "name", "pos"))}
