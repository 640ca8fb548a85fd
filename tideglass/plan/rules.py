"""Rewrites of plan expressions: substitution, field push-down, simple facts about a tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tideglass.core.types import PAYLOAD
from tideglass.plan.nodes import (
    Aggregate,
    Analytic,
    Apply,
    Call,
    Case,
    Cast,
    Expr,
    Filter,
    Join,
    Literal,
    Lookup,
    Match,
    Node,
    Path,
    Project,
    Ref,
    Scan,
    StepRef,
    Union,
    rewrite,
)

#: A field of the payload that the scan decodes on its own is a column of this name.
FIELD_PREFIX = PAYLOAD + "."


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct sub-expressions."""
    match expr:
        case Literal() | Ref():
            return ()
        case Path(base=base):
            return (base,)
        case Call(args=args):
            return args
        case Cast(expr=inner):
            return (inner,)
        case Case(branches=branches, otherwise=otherwise):
            return (*(part for branch in branches for part in branch), otherwise)


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and everything inside it, outermost first."""
    yield expr
    for child in children(expr):
        yield from walk(child)


def substitute(expr: Expr, columns: Mapping[str, Expr]) -> Expr:
    """`expr` over the rows of an operator, as an expression over the rows of that operator's child.

    A path into a path becomes one path, so that fields stay recognisable after several steps.
    """

    def change(part: Expr) -> Expr | None:
        match part:
            case Ref(name=name) if name in columns:
                return columns[name]
            case Path(base=base, keys=keys, span=span):
                inner = rewrite(base, change)
                if isinstance(inner, Path):
                    return Path(inner.base, inner.keys + keys, span)
                return Path(inner, keys, span)
            case _:
                return None

    return rewrite(expr, change)


def field_column(keys: tuple[str, ...]) -> str:
    """The column in which the scan delivers a payload field."""
    return FIELD_PREFIX + ".".join(keys)


def fields_to_columns(expr: Expr) -> Expr:
    """Reads of payload fields turned into reads of the columns the scan decodes them into."""

    def change(part: Expr) -> Expr | None:
        match part:
            case Path(base=Ref(name=name), keys=keys, span=span) if name == PAYLOAD:
                return Ref(field_column(keys), span)
            case _:
                return None

    return rewrite(expr, change)


def payload_fields(expr: Expr) -> set[tuple[str, ...]]:
    """The payload fields an expression reads."""
    return {
        part.keys
        for part in walk(expr)
        if isinstance(part, Path) and isinstance(part.base, Ref) and part.base.name == PAYLOAD
    }


def references(expr: Expr) -> set[str]:
    """Names of all columns an expression reads."""
    return {part.name for part in walk(expr) if isinstance(part, Ref)}


def steps_read(node: Node) -> tuple[str, ...]:
    """The steps whose rows a step takes, in the order it names them."""
    match node:
        case Scan():
            return ()
        case StepRef(name=name):
            return (name,)
        case Join(left=left, right=right):
            return (*steps_read(left), *steps_read(right))
        case Lookup(left=left):
            return steps_read(left)
        case Union(children=branches):
            return tuple(name for branch in branches for name in steps_read(branch))
        case Filter() | Project() | Aggregate() | Analytic() | Apply() | Match():
            return steps_read(node.child)


def both(first: Expr | None, second: Expr | None) -> Expr | None:
    """The conjunction of two conditions, either of which may be missing."""
    if first is None or second is None:
        return first or second
    return Call("and", (first, second), second.span)
