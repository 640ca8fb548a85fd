"""The syntax tree of SAQL (`asa.md` 2.1): what the parser makes and the binder reads.

Nodes are frozen, compare by content (spans excepted) and keep the user's spelling. Nothing is
resolved here: a name is a name, a function is whatever was written in front of a parenthesis.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TypeAlias, TypeVar, cast

from tideglass.core.errors import Span


def _span() -> Span:
    return field(default_factory=Span, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier as written; `quote` is '' (bare), '[' or '"'."""

    text: str
    quote: str = ""
    span: Span = _span()


# ---------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True)
class LiteralExpr:
    """NULL, an int, a float or a string."""

    value: int | float | str | None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Column:
    """A dotted name: `[source.]name{.name}`; the binder decides which part is a source."""

    path: tuple[Name, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Member:
    """Field access on an expression that is no plain name: `LAG(*) OVER (...).speed`, `f(x).a`."""

    base: Expr
    name: Name
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Star:
    """`*` as a function argument: `COUNT(*)`, `LAG(*)`."""

    span: Span = _span()


@dataclass(frozen=True, slots=True)
class OrderItem:
    expr: Expr
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Duration:
    """`(unit, n)` of LIMIT DURATION; `unit` as written."""

    unit: Name
    amount: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Over:
    """`OVER ([PARTITION BY ...] [ORDER BY ...] [LIMIT DURATION(unit, n)] [WHEN condition])`.

    partition_by: PARTITION BY; empty without it
    order_by: ORDER BY; empty without it
    limit: LIMIT DURATION; None without it
    when: WHEN; None without it
    span: where it stands in the text
    """

    partition_by: tuple[Expr, ...] = ()
    order_by: tuple[OrderItem, ...] = ()
    limit: Duration | None = None
    when: Expr | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class CallExpr:
    """`name(args) [OVER (...)]`.

    `System.Timestamp()` and the bare `System.Timestamp` are both CallExpr(prefix=System, name=Timestamp).

    prefix: what stands before the last dot: `System`, `UDF`, `uda`
    name: the function
    args: the arguments; date parts and window units are one-name Columns
    distinct: DISTINCT stands before the arguments
    over: OVER; None without it
    span: where it stands in the text
    """

    prefix: tuple[Name, ...]
    name: Name
    args: tuple[Expr, ...]
    distinct: bool = False
    over: Over | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class CastExpr:
    """`CAST(e AS type)` or `TRY_CAST(e AS type)`.

    expr: the value
    type: the type in upper case: BIGINT, FLOAT, NVARCHAR, ...
    lenient: TRY_CAST
    span: where it stands in the text
    """

    expr: Expr
    type: str
    lenient: bool = False
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Unary:
    """`op` is one of - + ~ NOT."""

    op: str
    operand: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Binary:
    """An operator between two values.

    op: one of + - * / % & | ^ = <> > >= < <= AND OR (`!=` is `<>`, `!>` is `<=`, `!<` is `>=`)
    left: what stands before it
    right: what stands after it
    span: where it stands in the text
    """

    op: str
    left: Expr
    right: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Like:
    value: Expr
    pattern: Expr
    negated: bool = False
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Between:
    value: Expr
    low: Expr
    high: Expr
    negated: bool = False
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class IsNull:
    value: Expr
    negated: bool = False
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class In:
    value: Expr
    options: tuple[Expr, ...]
    negated: bool = False
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class CaseExpr:
    """`CASE [operand] WHEN ... THEN ... [ELSE ...] END`.

    operand: what WHEN is compared with; None: each WHEN is a condition
    branches: WHEN and THEN of each branch
    otherwise: ELSE; None: it is missing, which the binder reports
    span: where it stands in the text
    """

    operand: Expr | None
    branches: tuple[tuple[Expr, Expr], ...]
    otherwise: Expr | None
    span: Span = _span()


Expr: TypeAlias = (
    LiteralExpr
    | Column
    | Member
    | Star
    | CallExpr
    | CastExpr
    | Unary
    | Binary
    | Like
    | Between
    | IsNull
    | In
    | CaseExpr
)


# ---------------------------------------------------------------- SELECT


@dataclass(frozen=True, slots=True)
class Item:
    """One thing in a SELECT list with its alias, if any (`e`, `e AS a`, `e a`, `a = e`)."""

    expr: Expr
    alias: Name | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class StarItem:
    """`*` (empty path), `source.*` or `record.path.*`."""

    path: tuple[Name, ...] = ()
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class TimestampBy:
    expr: Expr
    over: tuple[Expr, ...] = ()
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class PartitionBy:
    exprs: tuple[Expr, ...]
    into: int | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class FromItem:
    """What stands in FROM: an input, a step, or (as an extension) a parenthesised query.

    name: the input or step; None of a query
    query: the parenthesised query; None of a name
    alias: AS; None without it
    timestamp_by: TIMESTAMP BY; None without it
    partition_by: PARTITION BY; None without it
    span: where it stands in the text
    """

    name: Name | None
    query: Query | None = None
    alias: Name | None = None
    timestamp_by: TimestampBy | None = None
    partition_by: PartitionBy | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class JoinClause:
    """`[INNER|LEFT|CROSS] JOIN relation [ON condition]`.

    kind: INNER, LEFT or CROSS
    relation: what is joined
    on: the condition; None for CROSS only
    span: where it stands in the text
    """

    kind: str
    relation: FromItem
    on: Expr | None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class ApplyClause:
    """`CROSS|OUTER APPLY GetArrayElements|GetElements|GetRecordProperties (expr) [AS] alias`."""

    kind: str  # CROSS or OUTER
    function: Name
    arg: Expr
    alias: Name
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class PatternName:
    name: Name
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class PatternAny:
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class PatternSequence:
    parts: tuple[Pattern, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class PatternChoice:
    options: tuple[Pattern, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class PatternRepeat:
    """A part of a pattern, several times.

    part: what is repeated
    least: least number of times
    most: largest number of times; None: any number
    span: where it stands in the text
    """

    part: Pattern
    least: int
    most: int | None
    span: Span = _span()


Pattern: TypeAlias = PatternName | PatternAny | PatternSequence | PatternChoice | PatternRepeat


@dataclass(frozen=True, slots=True)
class MatchRecognize:
    """`MATCH_RECOGNIZE (...)` after a source.

    limit: LIMIT DURATION: how long a match may last
    partition_by: PARTITION BY; empty without it
    measures: MEASURES: what a match yields
    pattern: PATTERN
    define: the conditions of DEFINE by variable
    alias: AS; None without it
    span: where it stands in the text
    """

    limit: Duration
    partition_by: tuple[Expr, ...]
    measures: tuple[Item, ...]
    pattern: Pattern
    define: tuple[tuple[Name, Expr], ...]
    alias: Name | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class WindowCall:
    """A window in GROUP BY.

    kind: tumbling, hopping, sliding, session or snapshot
    args: the lengths as written, by their role: size, hop, offset, timeout, max_duration
    over: PARTITION BY of a session window
    id: of Window('id', ...); None without an id
    span: where it stands in the text
    """

    kind: str
    args: tuple[tuple[str, Duration], ...]
    over: tuple[Expr, ...] = ()
    id: LiteralExpr | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class WindowsCall:
    """`Windows(w, ...)`."""

    members: tuple[WindowCall, ...]
    span: Span = _span()


GroupItem: TypeAlias = WindowCall | WindowsCall | Expr


@dataclass(frozen=True, slots=True)
class Select:
    """`SELECT ... [INTO ...] FROM ...`

    items: the SELECT list
    into: the output; None without INTO
    source: the first source of FROM
    joins: JOIN and APPLY, in the order of the text
    match: MATCH_RECOGNIZE; None without it
    where: WHERE; None without it
    group_by: GROUP BY: keys and windows; empty without it
    having: HAVING; None without it
    span: where it stands in the text
    """

    items: tuple[Item | StarItem, ...]
    into: Name | None
    source: FromItem
    joins: tuple[JoinClause | ApplyClause, ...] = ()
    match: MatchRecognize | None = None
    where: Expr | None = None
    group_by: tuple[GroupItem, ...] = ()
    having: Expr | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class UnionQuery:
    """Two or more queries, rows of all of them, duplicates too; UNION and UNION ALL are the same."""

    terms: tuple[Query, ...]
    span: Span = _span()


Query: TypeAlias = Select | UnionQuery


@dataclass(frozen=True, slots=True)
class Step:
    name: Name
    query: Query
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class TableColumn:
    name: Name
    type: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class CreateTable:
    name: Name
    columns: tuple[TableColumn, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Script:
    tables: tuple[CreateTable, ...] = ()
    steps: tuple[Step, ...] = ()
    statements: tuple[Query, ...] = ()
    span: Span = _span()


_Part = TypeVar("_Part")


def parts(node: object, kind: type[_Part]) -> Iterator[_Part]:
    """Every part of a kind inside a piece of the tree, itself among them, from the outside in."""
    waiting = [node]
    while waiting:
        here = waiting.pop()
        if isinstance(here, kind):
            yield here
        if isinstance(here, tuple):
            waiting += reversed(cast(tuple[object, ...], here))
        elif is_dataclass(here):
            waiting += [getattr(here, part.name) for part in reversed(fields(here))]


def chained(node: Binary) -> list[Expr]:
    """What a chain of one operator joins, from the left: a, b and c of `a AND b AND c`."""
    found: list[Expr] = []
    part: Expr = node
    while isinstance(part, Binary) and part.op.upper() == node.op.upper():
        found.append(part.right)
        part = part.left
    return [part, *reversed(found)]
