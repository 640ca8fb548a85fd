"""Expressions of the plan, and functions over them: their parts, the columns it reads, another in place.

`Ref(name)` reads a listed or `$`-column of the operator's child, nothing else. A field of an open
relation is `Path(Ref("$payload"), (name, ...))`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tideglass.core.errors import Span
from tideglass.core.tags import tag
from tideglass.core.types import PAYLOAD, Type, payload_column


def span_field() -> Span:
    """A field with the place of a node in the text; nodes that differ in nothing else are equal."""
    return field(default_factory=Span, compare=False, repr=False)


@tag("Literal")
@dataclass(frozen=True, slots=True)
class Literal:
    """A constant: int BIGINT, float FLOAT, str NVARCHAR, None NULL, bool BIT (only made by the binder).

    1, 1.0 and true are three constants, though Python holds them equal: `kind` distinguishes them.
    """

    value: int | float | str | bool | None
    span: Span = span_field()
    kind: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", type(self.value).__name__)


@tag("Ref")
@dataclass(frozen=True, slots=True)
class Ref:
    """The value of a column of the child."""

    name: str
    span: Span = span_field()


@tag("Path")
@dataclass(frozen=True, slots=True)
class Path:
    """Walks from a record into its fields; anything that is not there is NULL (A-40)."""

    base: Expr
    keys: tuple[str, ...]
    span: Span = span_field()


@tag("Call")
@dataclass(frozen=True, slots=True)
class Call:
    """A scalar function of the catalogue; operators are functions too.

    `function` is the catalogue's lower-case name: `dateadd`, `getarrayelement`, `udf.<name>`, or an
    operator: `+ - * / % & | ^ neg pos ~ = <> < <= > >= and or not like in between isnull`, and
    `not like`, `not in`, `not between`, which are not `not` around another one: NULL makes both false.
    `in` and `not in` have the value first, then the options.
    Date parts are string Literals in their canonical spelling (`minute`, `dayofyear`, ...).
    """

    function: str
    args: tuple[Expr, ...]
    span: Span = span_field()


@tag("Cast")
@dataclass(frozen=True, slots=True)
class Cast:
    expr: Expr
    type: Type
    lenient: bool = False
    span: Span = span_field()


@tag("Case")
@dataclass(frozen=True, slots=True)
class Case:
    """The searched form; the simple form is rewritten to `=` comparisons."""

    branches: tuple[tuple[Expr, Expr], ...]
    otherwise: Expr
    span: Span = span_field()


Expr: TypeAlias = Literal | Ref | Path | Call | Cast | Case


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


def rewrite(expr: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """`expr` with every outermost sub-expression for which `change` returns another one replaced by it."""
    changed = change(expr)
    if changed is not None:
        return changed
    match expr:
        case Literal() | Ref():
            return expr
        case Path(base=base, keys=keys, span=span):
            return Path(rewrite(base, change), keys, span)
        case Call(function=function, args=args, span=span):
            return Call(function, tuple(rewrite(arg, change) for arg in args), span)
        case Cast(expr=inner, type=type_, lenient=lenient, span=span):
            return Cast(rewrite(inner, change), type_, lenient, span)
        case Case(branches=branches, otherwise=otherwise, span=span):
            return Case(
                tuple((rewrite(when, change), rewrite(then, change)) for when, then in branches),
                rewrite(otherwise, change),
                span,
            )


def substitute(expr: Expr, columns: Mapping[str, Expr]) -> Expr:
    """`expr` over the rows of an operator, as an expression over the rows of that operator's child.

    A path into a path becomes one path, so that fields stay recognisable after several steps.
    """

    def change(part: Expr) -> Expr | None:
        match part:
            case Ref(name=name, span=span) if name in columns:
                found = columns[name]
                # a column that is only passed on stays at its place in the text
                return Ref(found.name, span) if isinstance(found, Ref) and found.span == Span() else found
            case Path(base=base, keys=keys, span=span):
                inner = rewrite(base, change)
                if isinstance(inner, Path):
                    return Path(inner.base, inner.keys + keys, span)
                return Path(inner, keys, span)
            case _:
                return None

    return rewrite(expr, change)


def references(expr: Expr) -> set[str]:
    """Names of all columns an expression reads."""
    return {part.name for part in walk(expr) if isinstance(part, Ref)}


def height_and_size(expr: Expr) -> tuple[int, int]:
    """How many levels an expression has, and how many parts.

    >>> height_and_size(Call("+", (Ref("a"), Call("neg", (Ref("b"),)))))
    (3, 4)
    """
    height, size, level = 0, 0, [expr]
    while level:
        height, size = height + 1, size + len(level)
        level = [child for part in level for child in children(part)]
    return height, size


def is_plain(expr: Expr) -> bool:
    """Whether an expression only names something."""
    return isinstance(expr, Ref | Literal) or (isinstance(expr, Path) and isinstance(expr.base, Ref))


def is_large(expr: Expr) -> bool:
    """Whether an expression should be computed as a column before another one reads it.

    Queries may be nested 100 deep (`bind.depth`), and functions that walk expressions can go into some 200
    levels. The limit of the size keeps repeated parts, as in a + a, from doubling with every step.
    """
    height, size = height_and_size(expr)
    return height > 50 or size > 2000


#: Shorter chains of AND and OR are written from the left, as they are written.
_LONGEST_CHAIN = 16


def connected(function: str, parts: Sequence[Expr]) -> Expr:
    """AND or OR of all parts, evaluated from the left.

    A long chain becomes a tree of few levels, because walks recurse into each level.
    """
    if len(parts) > _LONGEST_CHAIN:
        middle = len(parts) // 2
        parts = (connected(function, parts[:middle]), connected(function, parts[middle:]))
    whole, *others = parts
    for part in others:
        whole = Call(function, (whole, part), whole.span.to(part.span))
    return whole


def both(first: Expr | None, second: Expr | None) -> Expr | None:
    """The conjunction of two conditions, either of which may be missing."""
    if first is None or second is None:
        return first or second
    return Call("and", (first, second), second.span)


def conjunction(exprs: Sequence[Expr]) -> Expr | None:
    """All conditions, evaluated from the left; None for nothing."""
    return connected("and", exprs) if exprs else None


def conjuncts(condition: Expr) -> Iterator[Expr]:
    """The conditions that all have to hold, in the order in which they are evaluated."""
    match condition:
        case Call(function="and", args=args):
            for arg in args:
                yield from conjuncts(arg)
        case _:
            yield condition


def in_columns(expr: Expr, columns: Mapping[Expr, str]) -> Expr:
    """`expr` with each outermost sub-expression that is in a column replaced by that column."""
    return rewrite(expr, lambda part: Ref(columns[part], part.span) if part in columns else None)


def payload_field(name: str, *more: str, span: Span | None = None) -> Path:
    """The expression for a field of an open relation."""
    return Path(Ref(PAYLOAD), (name, *more), span or Span())


def field_column(keys: tuple[str, ...]) -> str:
    """The column in which the scan delivers a payload field."""
    return payload_column(keys)


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
