"""Analytic functions of one query block: which rows they see, and the column each becomes (`asa.md` 4.2).

They are evaluated first, over all rows of a source as they enter the block, before WHERE, APPLY, JOIN and
GROUP BY. So each belongs to one source of FROM and is bound in the scope of that source alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any, Protocol

from tideglass.bind.aggregates import aggregate_call
from tideglass.bind.anomalies import ANOMALY_DETECTION, anomaly_call
from tideglass.bind.clauses import ANALYTIC_OVER, ANALYTIC_VALUE, Clause
from tideglass.bind.durations import constant, positive_ticks
from tideglass.bind.grouping import same
from tideglass.bind.scope import Relation, Scope
from tideglass.core.errors import Diagnostics
from tideglass.functions.registry import AGGREGATES
from tideglass.lang import nodes as tree
from tideglass.plan.calls import AnalyticCall
from tideglass.plan.expressions import Call, Expr, Literal, Path, Ref
from tideglass.plan.nodes import Analytic, Node


class SourceBinder(Protocol):
    """Binds expressions over the rows of one source."""

    @property
    def scope(self) -> Scope: ...
    def value(self, node: tree.Expr) -> Expr: ...
    def condition(self, node: tree.Expr) -> Expr: ...


class Analytics:
    """The analytic functions of one query block, collected while its clauses are bound.

    The sources are the inputs and steps of FROM in the order of the text. Their columns are named
    without a prefix here, as each source is read before it meets the others. `later` are the aliases of
    APPLY and of reference data, whose columns are there only afterwards, each with the clause it is of.
    """

    def __init__(self) -> None:
        self._sources: list[tuple[Relation, Node]] = []
        self._calls: dict[str, list[AnalyticCall]] = {}
        self.later: dict[str, str] = {}

    def enter(self, relation: Relation, node: Node) -> None:
        """A source of FROM: how the block names its columns, and the node its rows come from."""
        self._sources.append((relation, node))

    @property
    def relations(self) -> tuple[Relation, ...]:
        return tuple(relation for relation, _ in self._sources)

    def add(self, relation: Relation, call: AnalyticCall) -> Ref:
        """The column holding the value of `call`; equal calls are computed once."""
        calls = self._calls.setdefault(relation.alias, [])
        for n, other in enumerate(calls):
            if _same_call(call, other):
                return Ref(f"{relation.prefix}$l{n}", call.span)
        calls.append(call)
        return Ref(f"{relation.prefix}$l{len(calls) - 1}", call.span)

    def field(self, of: Expr, key: str) -> Expr | None:
        """The column with one field of LAG(*) or LAST(*), so that whole events need not be kept for it.

        None if `of` is something else, or if its default is wanted.
        """
        for relation, _ in self._sources:
            for n, call in enumerate(self._calls.get(relation.alias, ())):
                if of != Ref(f"{relation.prefix}$l{n}") or call.arg is None or call.default is not None:
                    continue
                event = replace(relation, prefix="").event(call.span)
                value = _field_of_event(event, key) if same(call.arg, event) else None
                return None if value is None else self.add(relation, replace(call, arg=value))
        return None

    def computed(self, node: Node) -> Node:
        """The node of the whole block with every call computed right above its source."""
        for relation, source in self._sources:
            calls = self._calls.get(relation.alias, ())
            if calls:
                named = tuple((f"$l{n}", call) for n, call in enumerate(calls))
                node = _above(node, source, Analytic(source, named))
        return node


def _field_of_event(event: Expr, key: str) -> Expr | None:
    """A field of `Relation.event` without making the record; None if its name is not clear (A-09)."""
    match event:
        case Ref():
            return Path(event, (key,), event.span)
        case Call(function="record.merge", args=(listed, payload)):
            listed_value = _field_of_event(listed, key)
            return _field_of_event(payload, key) if listed_value == Literal(None) else listed_value
        case Call(function="record.of", args=args):
            named = [
                (name.value, value)
                for name, value in zip(args[::2], args[1::2], strict=True)
                if isinstance(name, Literal) and str(name.value).casefold() == key.casefold()
            ]
            exact = [value for name, value in named if name == key]
            return exact[0] if exact else None if named else Literal(None, event.span)
        case _:
            return None


def _same_call(left: AnalyticCall, right: AnalyticCall) -> bool:
    return repr(left) == repr(right)


def _above(node: Node, source: Node, computed: Analytic) -> Node:
    """`node` with `computed` in place of `source`, the very object somewhere inside it."""
    if node is source:
        return computed
    changed: dict[str, Any] = {
        part.name: _above(getattr(node, part.name), source, computed)
        for part in fields(node)
        if part.name in ("child", "left", "right")
    }
    return replace(node, **changed) if changed else node


def bind_analytic(
    call: tree.CallExpr,
    analytics: Analytics,
    rows_of: Callable[[Relation, Clause], SourceBinder],
    diagnostics: Diagnostics,
) -> Expr:
    """The column of an analytic function's value; what breaks a rule is reported and stands for NULL."""
    name = call.name.text.casefold()
    errors_before = len(diagnostics.errors)
    relation = _source_of(call, analytics, diagnostics)
    values = rows_of(replace(relation, prefix=""), ANALYTIC_VALUE)
    around = rows_of(replace(relation, prefix=""), ANALYTIC_OVER)
    over = call.over or tree.Over(span=call.span)
    partition_by = tuple(around.value(key) for key in over.partition_by)
    when = None if over.when is None else around.condition(over.when)
    length_ticks = _length_ticks(call, name, over, diagnostics)
    made = _call_of_values(call, name, over, values, diagnostics)
    _check_substreams(call, relation, partition_by, diagnostics)
    if made is None or length_ticks is None or len(diagnostics.errors) > errors_before:
        return Literal(None, call.span)
    made = replace(made, length_ticks=length_ticks, partition_by=partition_by, when=when)
    return analytics.add(relation, made)


def _source_of(call: tree.CallExpr, analytics: Analytics, diagnostics: Diagnostics) -> Relation:
    """The source whose rows the call sees: the one its names are qualified by, else the first."""
    named: list[Relation] = []
    for column in tree.parts(call, tree.Column):
        for relation in analytics.relations:
            qualified = len(column.path) > 1 and relation.alias.casefold() == column.path[0].text.casefold()
            if qualified and relation not in named:
                named.append(relation)
    for column in tree.parts(call, tree.Column):
        clause = analytics.later.get(column.path[0].text.casefold())
        if clause is not None:
            diagnostics.error(
                f"ANALYTIC_OF_{clause}",
                f"{call.name.text} sees the events before {clause}; {column.path[0].text!r} is not there yet",
                column.span,
                f"use {clause} in a WITH step first",
            )
    if len(named) > 1:
        names = " and ".join(relation.alias for relation in named)
        diagnostics.error(
            "ANALYTIC_OF_SEVERAL_SOURCES",
            f"{call.name.text} sees the rows of one source, before they are joined; this reads {names}",
            call.span,
            "join in a WITH step first",
        )
    return (named or analytics.relations)[0]


def _length_ticks(call: tree.CallExpr, name: str, over: tree.Over, diagnostics: Diagnostics) -> int | None:
    """LIMIT DURATION, or the interval of ISFIRST."""
    if name != "isfirst":
        if over.limit is not None:
            return positive_ticks(over.limit, "LIMIT DURATION", diagnostics)
        diagnostics.error(
            "LIMIT_DURATION_MISSING",
            f"{call.name.text} needs OVER (... LIMIT DURATION(unit, n))",
            call.span,
            "say how far back it may look, such as LIMIT DURATION(minute, 5)",
        )
        return None
    if over.limit is not None:
        diagnostics.error(
            "LIMIT_DURATION_HERE",
            "ISFIRST takes no LIMIT DURATION",
            over.limit.span,
            "its interval is in its arguments: ISFIRST(minute, 5)",
        )
    match call.args:
        case (tree.Column(path=(unit,)), amount):
            duration = tree.Duration(unit, amount, span=amount.span)
            return positive_ticks(duration, "interval of ISFIRST", diagnostics)
        case _:
            diagnostics.error(
                "ARGUMENT_COUNT", "ISFIRST takes a unit of time and a number", call.span, "ISFIRST(minute, 5)"
            )
            return None


def _call_of_values(
    call: tree.CallExpr, name: str, over: tree.Over, rows: SourceBinder, diagnostics: Diagnostics
) -> AnalyticCall | None:
    """What the function does with values; its length, keys and condition are left open."""
    if name in AGGREGATES:
        signature = AGGREGATES[name]
        if not signature.over_allowed or call.distinct:
            what = f"{call.name.text}(DISTINCT ...)" if call.distinct else call.name.text
            message = f"{what} cannot be used with LIMIT DURATION"
            diagnostics.error("OVER_HERE", message, over.span, "use it in a GROUP BY")
            return None
        ordered = replace(over, partition_by=(), limit=None, when=None) if over.order_by else None
        made = aggregate_call(replace(call, over=ordered), signature, rows, diagnostics)
        return None if made is None else AnalyticCall(name, 0, aggregate=made, span=call.span)
    if over.order_by:
        diagnostics.error(
            "ORDER_BY_HERE",
            f"{call.name.text} does not take ORDER BY",
            over.order_by[0].expr.span,
            "rows are taken in the order of their timestamps",
        )
    if call.distinct:
        message = f"{call.name.text} is no aggregate and cannot have DISTINCT"
        diagnostics.error("DISTINCT_HERE", message, call.span)
    if name == "isfirst":
        return AnalyticCall(name, 0, span=call.span)
    if name in ANOMALY_DETECTION:
        return anomaly_call(call, rows, diagnostics)
    most = 3 if name == "lag" else 2
    if not 1 <= len(call.args) <= most:
        message = f"{call.name.text} takes 1 to {most} arguments, not {len(call.args)}"
        diagnostics.error("ARGUMENT_COUNT", message, call.span)
        return None
    arg = _value_or_event(call.args[0], rows)
    offset = 1
    if name == "lag" and len(call.args) > 1:
        steps_back = constant(call.args[1])
        if not isinstance(steps_back, int) or steps_back < 1:
            diagnostics.error(
                "LAG_OFFSET",
                "the offset of LAG must be a constant, 1 or more",
                call.args[1].span,
                "LAST(...) has the current row among those it looks at",
            )
        else:
            offset = steps_back
    default = rows.value(call.args[most - 1]) if len(call.args) == most else None
    return AnalyticCall(name, 0, arg, offset, default, span=call.span)


def _value_or_event(arg: tree.Expr, rows: SourceBinder) -> Expr:
    """The argument; `*` and the name of the source stand for the whole event as a record."""
    match arg:
        case tree.Star():
            return rows.scope.relations[0].event(arg.span)
        case tree.Column(path=(name,)) if not rows.scope.lists(name.text):
            relation = rows.scope.source(name)
            return rows.value(arg) if relation is None else relation.event(arg.span)
        case _:
            return rows.value(arg)


def _check_substreams(
    call: tree.CallExpr, relation: Relation, partition_by: Sequence[Expr], diagnostics: Diagnostics
) -> None:
    """Rows are ordered within one substream only (`asa.md` 1.7), so a call must stay within one."""
    for key in relation.substream_keys:
        if key.expr is None or not any(same(key.expr, other) for other in partition_by):
            diagnostics.error(
                "SUBSTREAM_KEY_NOT_PARTITIONED",
                f"{call.name.text} must be partitioned by the substream key {key.text!r} of "
                "TIMESTAMP BY ... OVER, because events are ordered within one substream only",
                call.span,
                f"write OVER (PARTITION BY {key.text} ...)",
            )
