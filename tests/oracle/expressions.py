"""Expressions over one row (or one row of each joined source): names, logic, calls, analytic functions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from tideglass.core.errors import Span
from tideglass.lang import nodes as n

from . import aggregates, anomalies, scalars
from .javascript import Functions
from .metadata import metadata_property
from .rows import Row
from .values import CastFailed, Instant, OracleError, Value, cast, holds, lookup
from .values import equal as equals
from .windows import Window

ANALYTIC = {"lag", "last", "isfirst", *anomalies.NAMES}


@dataclass(frozen=True)
class Bound:
    """A source of FROM under its alias: its current row (None: no match) and all its rows in order."""

    alias: str
    row: Row | None
    stream: Sequence[Row]
    position: int = 0
    record: bool = False  # the alias of APPLY: shown by `*` as one record column
    made: tuple[str, ...] = ()  # the columns of that record


class Scope:
    """Evaluates expressions against the current rows of the sources."""

    #: The user-defined functions of this run; set by `interpreter.run`.
    functions: Functions | None = None

    def __init__(self, sources: Sequence[Bound], time: int, order: tuple[int, ...], level: tuple[int, int]):
        self.sources, self.time, self.order, self.level = tuple(sources), time, order, level

    # ------------------------------------------------------------ names

    def source(self, name: str) -> Bound | None:
        found = lookup({bound.alias: bound for bound in self.sources}, name)
        return next((bound for bound in self.sources if bound.alias == found), None)

    def find(self, path: Sequence[n.Name]) -> tuple[bool, Value]:
        """Whether the name leads to a column, and the value there; a missing field is NULL (A-40)."""
        names = [name.text for name in path]
        bound = self.source(names[0])
        if bound is not None and len(names) > 1:
            found, value = bound.row.find(names[1]) if bound.row else (True, None)
            return found, walk(value, names[2:])
        for candidate in self.sources:
            if candidate.row is not None and not candidate.record:
                found, value = candidate.row.find(names[0])
                if found:
                    return True, walk(value, names[1:])
        if bound is not None:
            return True, None if bound.row is None else dict(bound.row.values)
        return False, None

    def star(self) -> Iterator[tuple[str, Value]]:
        for bound in self.sources:
            if bound.record:
                yield bound.alias, dict(bound.row.values) if bound.row else None
            elif bound.row:
                yield from bound.row.values.items()

    def event(self) -> dict[str, Value]:
        """The whole row, as `LAG(*)` and `Collect()` see it."""
        record: dict[str, Value] = {}
        for name, value in self.star():
            record.setdefault(name, value)
        return record

    def event_or_value(self, expr: n.Expr) -> Value:
        """An argument of a UDF; the source's own name means the whole event."""
        if isinstance(expr, n.Column) and len(expr.path) == 1 and self.source(expr.path[0].text):
            return self.event()
        return self.value(expr)

    # ------------------------------------------------------------ expressions

    def intercept(self, expr: n.Expr) -> tuple[bool, Value]:
        """Hook for group scopes: (True, value) answers `expr` before anything else looks at it."""
        return False, None

    def value(self, expr: n.Expr) -> Value:
        answered, value = self.intercept(expr)
        if answered:
            return value
        match expr:
            case n.LiteralExpr():
                return expr.value
            case n.Column():
                return self.column(expr)
            case n.Member():
                return walk(self.value(expr.base), [expr.name.text])
            case n.CastExpr():
                try:
                    return cast(self.value(expr.expr), expr.type)
                except CastFailed as failure:
                    if expr.lenient:
                        return None
                    raise OracleError(str(failure)) from None
            case n.Unary(op="NOT") | n.Like() | n.Between() | n.IsNull() | n.In():
                return self.true(expr)
            case n.Unary(op="-", operand=n.LiteralExpr(value=int(number))):
                return -number
            case n.Unary():
                return scalars.unary(expr.op, self.value(expr.operand))
            case n.Binary(op="AND" | "OR" | "=" | "<>" | "<" | "<=" | ">" | ">="):
                return self.true(expr)
            case n.Binary():
                return scalars.arithmetic(expr.op, self.value(expr.left), self.value(expr.right))
            case n.CaseExpr():
                return self.case(expr)
            case n.CallExpr():
                return self.call(expr)
        raise OracleError(f"no value: {expr}")

    def column(self, expr: n.Column) -> Value:
        return expr.path[0].text if self.is_string(expr) else self.find(expr.path)[1]

    def is_string(self, expr: n.Column) -> bool:
        """Whether a word in double quotes is a string: no column is listed by that name (A-08)."""
        text = expr.path[0].text
        if expr.path[0].quote != '"' or len(expr.path) > 1 or "[" in text or "]" in text:
            return False
        listed = [name for b in self.sources for row in (b.row, *b.stream[:1]) if row for name in row.listed]
        listed += [bound.alias for bound in self.sources if bound.record]
        return text.lower() not in map(str.lower, listed)

    def true(self, expr: n.Expr) -> bool:
        """Two-valued logic (2.6): a comparison with NULL is false, and NOT of it true.

        NOT LIKE, NOT IN and NOT BETWEEN are comparisons too, and no NOT of one.
        """
        match expr:
            case n.Unary(op="NOT"):
                return not self.true(expr.operand)
            case n.Binary(op="AND"):
                return self.true(expr.left) and self.true(expr.right)
            case n.Binary(op="OR"):
                return self.true(expr.left) or self.true(expr.right)
            case n.Binary(op="=" | "<>" | "<" | "<=" | ">" | ">="):
                return holds(expr.op, *self.together(expr.left, expr.right))
            case n.IsNull():
                return (self.value(expr.value) is None) != expr.negated
            case n.In(negated=True):
                value, *options = self.together(expr.value, *expr.options)
                return None not in (value, *options) and not any(equals(value, o) for o in options)
            case n.In():
                return any(equals(*self.together(expr.value, option)) for option in expr.options)
            case n.Between(negated=True):
                value, low, high = self.together(expr.value, expr.low, expr.high)
                return None not in (value, low, high) and not (
                    holds(">=", value, low) and holds("<=", value, high)
                )
            case n.Between():
                at_least = holds(">=", *self.together(expr.value, expr.low))
                return at_least and holds("<=", *self.together(expr.value, expr.high))
            case n.Like():
                value, pattern = self.together(expr.value, expr.pattern)
                if value is None or pattern is None:
                    return False
                matched = scalars.like(scalars.text_argument(value), scalars.text_argument(pattern))
                return matched != expr.negated
            case _:
                value = self.value(expr)
                return isinstance(value, int) and value != 0

    def together(self, *sides: n.Expr) -> list[Value]:
        """Values that are compared; what fails beside a NULL is not attempted, and stands for a NULL."""
        values: list[Value] = []
        failures: list[OracleError] = []
        for side in sides:
            try:
                values.append(self.value(side))
            except OracleError as failure:
                failures.append(failure)
                values.append(None)
        if failures and values.count(None) == len(failures):
            raise failures[0]
        return values

    def case(self, expr: n.CaseExpr) -> Value:
        for when, then in expr.branches:
            if expr.operand is None:
                chosen = self.true(when)
            else:
                chosen = equals(self.value(expr.operand), self.value(when))
            if chosen:
                return self.value(then)
        return None if expr.otherwise is None else self.value(expr.otherwise)

    def call(self, expr: n.CallExpr) -> Value:
        name, prefix = expr.name.text.lower(), ".".join(part.text for part in expr.prefix).lower()
        if prefix == "system" and name == "timestamp":
            return Instant(self.time)
        if prefix == "udf" and self.functions is not None:
            arguments = [self.event_or_value(argument) for argument in expr.args]
            return self.functions.call(expr.name.text, arguments)
        if prefix:
            raise OracleError(f"not supported by the oracle: {prefix}.{name}")
        if is_analytic(expr):
            return self.analytic(expr)
        if name == "getmetadatapropertyvalue":
            return self.metadata(expr.args)
        if name not in scalars.FUNCTIONS:
            raise OracleError(f"not supported by the oracle: {name}")
        if name in scalars.TAKES_DATE_PART:
            arguments = [date_part(expr.args[0]), *map(self.value, expr.args[1:])]
        else:
            arguments = [self.value(argument) for argument in expr.args]
        if name not in scalars.TAKES_NULL and None in arguments:
            return None
        return scalars.FUNCTIONS[name](*arguments)

    def metadata(self, args: Sequence[n.Expr]) -> Value:
        """GetMetadataPropertyValue (4.9): see `tests.oracle.metadata`."""
        alias, path = args
        if not isinstance(alias, n.Column) or not isinstance(path, n.LiteralExpr):
            raise OracleError("an input and a path are wanted")
        bound = self.source(alias.path[0].text)
        if bound is None or bound.row is None:
            raise OracleError(f"no input {alias.path[0].text!r}")
        return metadata_property(str(path.value), bound.row.metadata, bound.row.values)

    # ------------------------------------------------------------ analytic functions (4.2)

    def history(self, expr: n.CallExpr) -> list[Scope]:
        """Scopes of all rows of the source `expr` speaks of, up to and including the current one."""
        aliases = [c.path[0].text.lower() for c in columns_in(expr) if len(c.path) > 1]
        named = [b for b in self.sources if b.alias.lower() in aliases]
        bound = (named or self.sources)[0]
        if bound.row is None:
            return []
        return [
            Scope([replace(bound, row=row, position=i)], row.time, row.order, self.level)
            for i, row in enumerate(bound.stream[: bound.position + 1])
        ]

    def refuses(self, expr: n.CallExpr) -> bool:
        """False; raises OracleError for a row that an analytic function cannot take."""
        over = expr.over or n.Over()
        for key in over.partition_by:
            self.value(key)
        if over.when is None or self.true(over.when):
            if expr.name.text.lower() in aggregates.NAMES:
                aggregate(expr, [self])
            elif expr.name.text.lower() in anomalies.NAMES:
                anomalies.number(self.value(expr.args[0]))
            elif expr.name.text.lower() != "isfirst" and not isinstance(expr.args[0], n.Star):
                self.value(expr.args[0])
        return False

    def analytic(self, expr: n.CallExpr) -> Value:
        name, over = expr.name.text.lower(), expr.over or n.Over()
        seen = self.history(expr)
        if not seen:
            return None
        current = seen[-1]
        keys = [current.value(key) for key in over.partition_by]
        matching = [
            scope
            for scope in seen
            if [aggregates.identity(scope.value(key)) for key in over.partition_by]
            == [aggregates.identity(key) for key in keys]
            and (over.when is None or scope.true(over.when))
        ]
        if name == "isfirst":
            return isfirst(expr, current, matching)
        if name in anomalies.NAMES:
            return anomaly(expr, current, matching)
        reach = math.inf if over.limit is None else ticks_of(over.limit)
        recent = [scope for scope in matching if scope.time > current.time - reach]  # (t - n, t], A-26
        if name in ("lag", "last"):
            arguments = list(expr.args)
            offset = 0
            default = arguments[1] if name == "last" and len(arguments) > 1 else None
            if name == "lag":
                offset = current.value(arguments[1]) if len(arguments) > 1 else 1
                default = arguments[2] if len(arguments) > 2 else None
            earlier = [s for s in recent if s is not current] if name == "lag" else recent
            index = len(earlier) - (offset if name == "lag" else 1)
            if index < 0:
                return None if default is None else current.value(default)
            chosen = earlier[index]
            return chosen.event() if isinstance(arguments[0], n.Star) else chosen.value(arguments[0])
        return aggregate(expr, recent)


def anomaly(expr: n.CallExpr, current: Scope, matching: Sequence[Scope]) -> Value:
    """The detector's record for the current row; NULL if it does not match or has no value (4.3)."""
    assert expr.over is not None
    assert expr.over.limit is not None
    value, *constants = expr.args
    points = [anomalies.Point(s.time, s.value(value)) for s in matching]
    taking_part = current in matching and points[-1].value is not None
    return (
        anomalies.result(
            expr.name.text.lower(),
            [point for point in points if point.value is not None],
            ticks_of(expr.over.limit),
            *(current.value(constant) for constant in constants),
        )
        if taking_part
        else None
    )


def isfirst(expr: n.CallExpr, current: Scope, matching: Sequence[Scope]) -> int:
    """1 for the first matching row of its interval (start, end], aligned like a tumbling window."""
    if current not in matching:
        return 0
    length = ticks_of(n.Duration(n.Name(date_part(expr.args[0])), expr.args[1]))
    interval = -(-current.time // length)
    return int(not any(-(-s.time // length) == interval for s in matching if s is not current))


def walk(value: Value, names: Sequence[str]) -> Value:
    """Dots into records; anything that is not there is NULL."""
    for name in names:
        found = lookup(value, name) if isinstance(value, dict) else None
        value = None if found is None else value[found]
    return value


def date_part(expr: n.Expr) -> str:
    """A date part is written as a bare name."""
    if not isinstance(expr, n.Column) or len(expr.path) != 1:
        raise OracleError("a date part is a bare word")
    return expr.path[0].text


def constant(expr: n.Expr) -> Any:
    return Scope((), 0, (), (1, 2)).value(expr)


def ticks_of(duration: n.Duration) -> int:
    """Length in ticks; fractions are rounded to ticks (A-14)."""
    return round(constant(duration.amount) * scalars.unit_ticks(duration.unit.text))


def columns_in(node: Any) -> Iterator[n.Column]:
    """All column names inside an expression."""
    if isinstance(node, n.Column):
        yield node
    elif isinstance(node, tuple):
        for item in node:
            yield from columns_in(item)
    elif is_dataclass(node):
        for part in fields(node):
            yield from columns_in(getattr(node, part.name))


def canonical(node: Any, aliases: set[str]) -> Any:
    """An expression without spelling: two that mean the same name, whatever case, quotes or source."""
    if isinstance(node, n.Column):
        path = [name.text.lower() for name in node.path]
        return ("Column", *(path[1:] if len(path) > 1 and path[0] in aliases else path))
    if isinstance(node, n.Name):
        return node.text.lower()
    if isinstance(node, tuple):
        return tuple(canonical(item, aliases) for item in node)
    if is_dataclass(node):
        parts = [getattr(node, part.name) for part in fields(node)]
        return (
            type(node).__name__,
            *(canonical(part, aliases) for part in parts if not isinstance(part, Span)),
        )
    return (type(node).__name__, node)


# ---------------------------------------------------------------- aggregates over scopes (4.1)


def is_users(call: n.CallExpr) -> bool:
    """Whether the aggregate is one of the user, `uda.name`."""
    return [part.text.lower() for part in call.prefix] == ["uda"]


def is_aggregate(expr: n.Expr) -> bool:
    return isinstance(expr, n.CallExpr) and (
        is_users(expr)
        or (
            not expr.prefix
            and expr.name.text.lower() in aggregates.NAMES
            and not (expr.over and expr.over.limit)
        )
    )


def calls_in(node: Any) -> Iterator[n.CallExpr]:
    """All calls inside a piece of the syntax tree, the outer before the inner."""
    if isinstance(node, n.CallExpr):
        yield node
    if isinstance(node, tuple):
        for item in node:
            yield from calls_in(item)
    elif is_dataclass(node):
        for part in fields(node):
            yield from calls_in(getattr(node, part.name))


def aggregates_in(node: Any) -> list[n.CallExpr]:
    return [call for call in calls_in(node) if is_aggregate(call)]


def analytics_in(select: n.Select) -> list[n.CallExpr]:
    parts = (select.items, select.where, select.group_by, select.having)
    return [call for call in calls_in(parts) if is_analytic(call)]


def is_analytic(call: n.CallExpr) -> bool:
    name = call.name.text.lower()
    return name in ANALYTIC or (name in aggregates.NAMES and bool(call.over and call.over.limit))


def aggregate(expr: n.CallExpr, scopes: Sequence[Scope]) -> Value:
    """The aggregate of its argument over the rows."""
    name = expr.name.text.lower()
    arguments = [a for a in expr.args if not isinstance(a, n.Star)]
    if is_users(expr):
        assert Scope.functions is not None
        given = [(scope.event_or_value(arguments[0]), Instant(scope.time)) for scope in scopes]
        return Scope.functions.aggregate(expr.name.text, given)
    order = expr.over.order_by if expr.over else ()
    if name in ("collecttop", "topone"):
        count = constant(arguments.pop(0)) if name == "collecttop" else 1
        if arguments:  # NULLs are ignored, as by every aggregate but COUNT(*)
            scopes = [scope for scope in scopes if scope.value(arguments[0]) is not None]
        keys = [[scope.value(item.expr) for item in order] for scope in scopes]
        positions = aggregates.ordered_rows(keys, [item.descending for item in order])[:count]
        chosen = [scopes[i].value(arguments[0]) if arguments else scopes[i].event() for i in positions]
        if name == "topone":
            return chosen[0] if chosen else None
        return [{"rank": rank, "value": value} for rank, value in enumerate(chosen, 1)] or None
    if name in ("percentile_cont", "percentile_disc"):
        function = getattr(aggregates, name)
        values = [scope.value(order[0].expr) for scope in scopes]
        return function(values, constant(arguments[0]), order[0].descending)
    values = [scope.value(arguments[0]) if arguments else scope.event() for scope in scopes]
    if expr.distinct:
        values = aggregates.distinct(values)
    if name in ("min", "max"):
        as_text = isinstance(arguments[0], n.CastExpr) and arguments[0].type.upper().startswith("NVARCHAR")
        return aggregates.extreme(values, as_text, -1 if name == "min" else 1)
    return aggregates.SIMPLE[name](values)


class GroupScope(Scope):
    """Evaluates SELECT and HAVING over one group of one window."""

    def __init__(
        self,
        members: Sequence[Scope],
        keys: Sequence[n.Expr],
        end: int,
        window: Window,
        aliases: dict[str, n.Expr] | None = None,
        pane: str = "final",
    ):
        self.pane = pane
        first = members[0]
        super().__init__(first.sources, end, first.order, first.level)
        self.members, self.end, self.window, self.aliases = members, end, window, aliases or {}
        self.names = {bound.alias.lower() for bound in first.sources}
        self.keys = {canonical(key, self.names): first.value(key) for key in keys}

    def intercept(self, expr: n.Expr) -> tuple[bool, Value]:
        if is_aggregate(expr):
            return True, aggregate(expr, self.members)
        if isinstance(expr, n.CallExpr) and [p.text.lower() for p in expr.prefix] == ["system"]:
            if expr.name.text.lower() == "timestamp":
                return True, Instant(self.end)  # also when it is a key
            if expr.name.text.lower() == "pane":
                return True, self.pane
            if expr.name.text.lower() == "window":
                return True, {"Id": self.window.id}
        meaning = canonical(expr, self.names)
        if meaning in self.keys:
            return True, self.keys[meaning]
        if isinstance(expr, n.Column):
            for length in range(len(meaning) - 1, 1, -1):
                if meaning[:length] in self.keys:
                    return True, walk(self.keys[meaning[:length]], meaning[length:])
            if len(expr.path) == 1 and expr.path[0].text.lower() in self.aliases:
                return True, self.value(self.aliases[expr.path[0].text.lower()])
            raise OracleError(f"{meaning[1:]} is neither a key nor an aggregate")
        if (
            isinstance(expr, n.CallExpr)
            and expr.name.text.lower() in scalars.TAKES_DATE_PART
            and not expr.prefix
        ):
            part = n.LiteralExpr(date_part(expr.args[0]))
            arguments = [part.value, *map(self.value, expr.args[1:])]
            return True, None if None in arguments else scalars.FUNCTIONS[expr.name.text.lower()](*arguments)
        return False, None
