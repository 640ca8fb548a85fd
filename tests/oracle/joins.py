"""Joins as nested loops: stream with stream by DATEDIFF (2.8), stream with reference data (2.9)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tideglass.lang import nodes as n

from .expressions import Bound, Scope, constant, date_part
from .rows import Row, Settings, read_event
from .scalars import datediff, unit_ticks
from .values import Instant, OracleError, Value, instant_of_text


class OnScope(Scope):
    """Evaluates ON: `DATEDIFF(part, a, b)` with source names means their timestamps."""

    def intercept(self, expr: n.Expr) -> tuple[bool, Value]:
        sides = bound_sides(expr)
        if sides is None:
            return False, None
        part, left, right = sides
        first, second = self.source(left), self.source(right)
        if first is None or second is None:
            return False, None
        if first.row is None or second.row is None:
            return True, None
        return True, datediff(part, Instant(first.row.time), Instant(second.row.time))


def bound_sides(expr: n.Expr) -> tuple[str, str, str] | None:
    """(part, first source, second source) of a DATEDIFF over two bare names."""
    if not (isinstance(expr, n.CallExpr) and expr.name.text.lower() == "datediff" and len(expr.args) == 3):
        return None
    part, first, second = expr.args
    if (
        isinstance(first, n.Column)
        and isinstance(second, n.Column)
        and len(first.path) == len(second.path) == 1
    ):
        return date_part(part), first.path[0].text, second.path[0].text
    return None


def conjuncts(expr: n.Expr) -> Iterator[n.Expr]:
    if isinstance(expr, n.Binary) and expr.op == "AND":
        yield from conjuncts(expr.left)
        yield from conjuncts(expr.right)
    else:
        yield expr


def upper_bounds(on: n.Expr, right_alias: str) -> list[int]:
    """Ticks by which a right row may follow the left one, one number for each condition that says so."""
    found: list[int] = []

    def note(difference: n.Expr, op: str, limit: n.Expr) -> None:
        sides = bound_sides(difference)
        if sides is None:
            return
        value, unit = constant(limit), unit_ticks(sides[0])
        if sides[2].lower() != right_alias.lower():
            value, op = -value, {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "="}[op]
        if op in ("<", "<=", "="):
            found.append((value - (op == "<")) * unit)

    flipped = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "="}
    for condition in conjuncts(on):
        match condition:
            case n.Between(negated=False):
                note(condition.value, "<=", condition.high)
                note(condition.value, ">=", condition.low)
            case n.Binary(op="<" | "<=" | ">" | ">=" | "="):
                note(condition.left, condition.op, condition.right)
                note(condition.right, flipped[condition.op], condition.left)
            case _:
                continue
    return found


def temporal_join(
    lefts: Sequence[Scope],
    join: n.JoinClause,
    rights: Sequence[Bound],
    level: tuple[int, int],
    attempt: Callable[[Callable[[], bool], bool], bool],
    stamp: str = "",
) -> list[Scope]:
    """Every pair that satisfies ON, stamped with the later time; unmatched left rows of a LEFT JOIN
    are stamped left + upper bound (1.3, A-25). `attempt` says what of a pair on which ON fails.
    With the stamp `element of x` both have the time of the row of x (11.4)."""
    on = join.on
    if on is None:
        raise OracleError("a join of streams needs ON")
    alias = (join.relation.alias or join.relation.name or n.Name("")).text
    found: list[Scope] = []
    for left in lefts:
        matched = False
        for right in rights:
            assert right.row is not None
            time = max(left.time, right.row.time)
            if stamp:
                time = right.row.time if stamp == f"element of {alias}" else left.time
            order = (time, *left.order[1:], *right.row.order)
            pair = OnScope([*left.sources, right], time, order, level)
            if attempt(lambda pair=pair: pair.true(on), False):
                matched = True
                found.append(Scope(pair.sources, time, order, level))
        if not matched and join.kind == "LEFT":
            bounds = upper_bounds(on, alias)
            if not bounds:
                raise OracleError("the join has no upper bound")
            time = left.time if stamp else left.time + min(bounds)
            unmatched = Bound(alias, None, [])
            found.append(Scope([*left.sources, unmatched], time, (time, *left.order[1:]), level))
    return found


#: Rows that hold for all times, or by the ISO time from which they hold.
Reference = list[dict[str, Any]] | dict[str, list[dict[str, Any]]]


def holding(snapshots: Sequence[tuple[str | None, list[dict[str, Any]]]], time: int) -> list[dict[str, Any]]:
    """The rows of the snapshot with the greatest effective time not after `time` (A-21)."""
    latest: tuple[int, list[dict[str, Any]]] | None = None
    for text, rows in snapshots:
        effective = instant_of_text(text) if text is not None else Instant(0)
        assert effective is not None
        if effective.ticks <= time and (latest is None or effective.ticks > latest[0]):
            latest = (effective.ticks, rows)
    if latest is None:
        raise OracleError("no snapshot of the reference data holds for this row")
    return latest[1]


def reference_join(
    lefts: Sequence[Scope],
    join: n.JoinClause,
    table: Reference,
    accept: Callable[[dict[str, Value]], dict[str, Value] | None],
    settings: Settings,
    attempt: Callable[[Callable[[], bool], bool], bool],
) -> list[Scope]:
    """Reference data: no time bound, timestamps unchanged; of several snapshots the one that holds (6.3)."""
    alias = (join.relation.alias or join.relation.name or n.Name("")).text
    snapshots = [(None, table)] if isinstance(table, list) else list(table.items())
    found: list[Scope] = []
    on = join.on
    for left in lefts:
        read = (read_event(event, settings) for event in holding(snapshots, left.time))
        fitting = (accept(values) for values in read if values is not None)
        rows = [Row(values) for values in fitting if values is not None]
        pairs = [
            Scope([*left.sources, Bound(alias, row, rows, i)], left.time, (*left.order, i), left.level)
            for i, row in enumerate(rows)
        ]
        matches = [p for p in pairs if on is None or attempt(lambda p=p: p.true(on), False)]
        if not matches and join.kind == "LEFT":
            matches = [Scope([*left.sources, Bound(alias, None, [])], left.time, left.order, left.level)]
        found.extend(matches)
    return found
