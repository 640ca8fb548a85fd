"""Aggregates of a GROUP BY: their arguments, their OVER, and the column each one becomes (`asa.md` 4.1)."""

from __future__ import annotations

from typing import Protocol

from tideglass.bind.clauses import Clause
from tideglass.bind.durations import constant
from tideglass.bind.grouping import GroupBinding
from tideglass.bind.scope import Scope
from tideglass.core.errors import Diagnostics
from tideglass.functions.registry import AggregateSignature
from tideglass.lang import nodes as tree
from tideglass.plan.calls import USERS, AggregateCall
from tideglass.plan.expressions import Expr, Literal

_PERCENTILES = frozenset(("percentile_cont", "percentile_disc"))
#: Without a value these take the whole event.
_OF_EVENTS = frozenset(("collect", "topone", "collecttop"))
_ORDERED = frozenset(("topone", "collecttop")) | _PERCENTILES
_COMPARED = frozenset(("min", "max"))
_EVENT_AS_RECORD = "the name of the input or step as the argument is its whole event, as a record"


class RowBinder(Protocol):
    """Binds expressions over the rows an aggregate reads."""

    @property
    def scope(self) -> Scope: ...
    def value(self, node: tree.Expr) -> Expr: ...


class AggregateBinder(RowBinder, Protocol):
    """What binding an aggregate needs from the binder of expressions around it."""

    @property
    def clause(self) -> Clause: ...
    @property
    def grouping(self) -> GroupBinding | None: ...
    @property
    def diagnostics(self) -> Diagnostics: ...
    def inside_aggregate(self) -> RowBinder: ...


_PLACE = {
    "AGGREGATE_WITHOUT_WINDOW": (
        "needs a GROUP BY with a window",
        "add GROUP BY TumblingWindow(minute, 1), or make it OVER (LIMIT DURATION(minute, 1))",
    ),
    "AGGREGATE_IN_WHERE": ("cannot be used in WHERE", "filter groups with HAVING"),
    "AGGREGATE_IN_GROUP_BY": (
        "cannot be used in GROUP BY",
        "compute it in a WITH step and group in the next one",
    ),
    "NESTED_AGGREGATE": (
        "cannot stand inside another aggregate",
        "compute the inner one in a WITH step first",
    ),
    "AGGREGATE_IN_ANALYTIC": (
        "cannot stand inside an analytic function",
        "analytic functions look at single rows; aggregate in a WITH step first",
    ),
    "AGGREGATE_NOT_ALLOWED": ("cannot be used here", ""),
}


def bind_aggregate(call: tree.CallExpr, signature: AggregateSignature, binder: AggregateBinder) -> Expr:
    """The column of the aggregate's result; what breaks a rule is reported and stands for NULL."""
    diagnostics, grouping = binder.diagnostics, binder.grouping
    if grouping is None:
        problem, hint = _PLACE[binder.clause.aggregate_error]
        diagnostics.error(
            binder.clause.aggregate_error, f"the aggregate {call.name.text} {problem}", call.span, hint
        )
    made = aggregate_call(call, signature, binder.inside_aggregate(), diagnostics)
    return Literal(None, call.span) if grouping is None or made is None else grouping.aggregate(made)


def aggregate_call(
    call: tree.CallExpr, signature: AggregateSignature, rows: RowBinder, diagnostics: Diagnostics
) -> AggregateCall | None:
    """The aggregate with its arguments bound over `rows`; None once an error is reported."""
    name = signature.name
    errors_before = len(diagnostics.errors)
    args, number = _split_constant(call, name, diagnostics)
    order_by = _order_by(call, name, rows, diagnostics)
    if call.distinct and not signature.distinct_allowed:
        diagnostics.error(
            "DISTINCT_HERE",
            f"{call.name.text} cannot have DISTINCT",
            call.span,
            "GROUP BY the value in a WITH step first",
        )
    if name in _PERCENTILES:
        arg = order_by[0][0] if order_by else None
    else:
        arg = _argument(call, name, args, signature, rows, diagnostics)
    if len(diagnostics.errors) > errors_before:
        return None
    as_text = name in _COMPARED and any(
        isinstance(arg, tree.CastExpr) and arg.type.upper().startswith("NVARCHAR") for arg in args
    )
    return AggregateCall(name, arg, call.distinct, order_by, number, as_text, call.span)


def _split_constant(
    call: tree.CallExpr, name: str, diagnostics: Diagnostics
) -> tuple[tuple[tree.Expr, ...], int | float | None]:
    """The arguments without the leading literal of PERCENTILE_* and CollectTop, and that literal."""
    if name not in _PERCENTILES and name != "collecttop":
        return call.args, None
    number = constant(call.args[0]) if call.args else None
    if name == "collecttop":
        if not isinstance(number, int) or number < 1:
            place = call.args[0].span if call.args else call.span
            diagnostics.error(
                "NOT_A_CONSTANT", "CollectTop takes how many as an integer literal, 1 or more", place
            )
    elif number is None or not 0 <= number <= 1 or len(call.args) != 1:
        place = call.args[0].span if call.args else call.span
        diagnostics.error(
            "NOT_A_CONSTANT",
            f"{call.name.text} takes one literal between 0 and 1",
            place,
            f"write {call.name.text}(0.5) OVER (ORDER BY value)",
        )
    return call.args[1:], number


def _argument(
    call: tree.CallExpr,
    name: str,
    args: tuple[tree.Expr, ...],
    signature: AggregateSignature,
    rows: RowBinder,
    diagnostics: Diagnostics,
) -> Expr | None:
    match args:
        case (tree.Star() as star,):
            if not signature.star_allowed:
                message = f"{call.name.text} cannot take *"
                hint = _EVENT_AS_RECORD if name.startswith(USERS) else "only COUNT takes *; name a column"
                diagnostics.error("STAR_ARGUMENT", message, star.span, hint)
            elif call.distinct:
                return _whole_event(rows, star, diagnostics)
            return None
        case () if name in _OF_EVENTS:
            return _whole_event(rows, call, diagnostics)
        case (tree.Column(path=(source,)) as column,) if name == "count" or _takes_events(name):
            relation = rows.scope.source(source)
            if relation is None:
                return rows.value(column)
            return None if name == "count" and not call.distinct else relation.event(column.span)
        case (arg,):
            return rows.value(arg)
        case _:
            for arg in args:
                if not isinstance(arg, tree.Star):
                    rows.value(arg)
            wanted = "at most 1 value" if name in _OF_EVENTS else "1 argument"
            message = f"{call.name.text} takes {wanted}, not {len(args)}"
            hint = "write COUNT(*)" if name == "count" else f"write {call.name.text}(x)"
            hint = "" if name in _OF_EVENTS else hint
            hint = _EVENT_AS_RECORD if name.startswith(USERS) else hint
            diagnostics.error("ARGUMENT_COUNT", message, call.span, hint)
            return None


def _takes_events(name: str) -> bool:
    """Whether the name of a source as the argument is its whole event."""
    return name in _OF_EVENTS or name.startswith(USERS)


def _whole_event(rows: RowBinder, place: tree.Star | tree.CallExpr, diagnostics: Diagnostics) -> Expr:
    first, *others = rows.scope.relations
    if others:
        diagnostics.error(
            "AMBIGUOUS_COLUMN",
            "the whole event is not clear with several sources",
            place.span,
            "name a source as the argument: " + " or ".join(relation.alias for relation in (first, *others)),
        )
    return first.event(place.span)


def _order_by(
    call: tree.CallExpr, name: str, rows: RowBinder, diagnostics: Diagnostics
) -> tuple[tuple[Expr, bool], ...]:
    over = call.over
    order_by = (
        () if over is None else tuple((rows.value(item.expr), item.descending) for item in over.order_by)
    )
    if over is not None and (over.partition_by or over.when is not None):
        diagnostics.error(
            "LIMIT_DURATION_MISSING",
            "PARTITION BY and WHEN in OVER need LIMIT DURATION as well",
            over.span,
            "an aggregate over a window is split by the keys of GROUP BY",
        )
    if name in _ORDERED:
        if not order_by:
            message = f"{call.name.text} needs OVER (ORDER BY ...)"
            diagnostics.error(
                "ORDER_BY_MISSING", message, call.span, f"write {call.name.text}(...) OVER (ORDER BY x)"
            )
        elif name in _PERCENTILES and len(order_by) > 1:
            diagnostics.error(
                "ARGUMENT_COUNT", f"{call.name.text} orders by exactly one expression", call.span
            )
    elif order_by and over is not None:
        diagnostics.error("ORDER_BY_HERE", f"{call.name.text} does not take ORDER BY", over.span)
    return order_by
