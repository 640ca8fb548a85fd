"""Functions of a plan over columns: what their arguments, keys and conditions are called when evaluated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tideglass.core.types import ORDER_COLUMNS, PAYLOAD
from tideglass.plan.calls import AggregateCall, AnalyticCall
from tideglass.plan.expressions import Expr, Path, Ref, field_column
from tideglass.plan.nodes import Aggregate, Analytic, Match, Named
from tideglass.plan.specs import AggregateSpec, AnalyticSpec, AnomalySpec, GroupBySpec, PatternSpec


class Evaluated:
    """The columns of the rows an operator reads: each expression has one, which is added to `items`."""

    def __init__(self, items: dict[str, Expr]) -> None:
        self.items = items
        self._by_expr: dict[Expr, str] = {}

    def column(self, expr: Expr) -> str:
        """The column that holds the expression."""
        match expr:
            case Ref(name=name) if name != PAYLOAD:
                if name not in ORDER_COLUMNS:  # those go with every row
                    self.items[name] = expr
                return name
            case Path(base=Ref(name=name), keys=keys) if name == PAYLOAD:
                self.items[field_column(keys)] = expr
                return field_column(keys)
            case _:
                if expr not in self._by_expr:
                    self._by_expr[expr] = f"$x{len(self._by_expr)}"
                    self.items[self._by_expr[expr]] = expr
                return self._by_expr[expr]


def aggregate_spec(name: str, call: AggregateCall, column: Callable[[Expr], str]) -> AggregateSpec:
    """The aggregate over evaluated columns; `column` returns the column that holds an expression."""
    return AggregateSpec(
        function=call.function,
        name=name,
        arg=None if call.arg is None else column(call.arg),
        order_by=tuple((column(expr), descending) for expr, descending in call.order_by),
        distinct=call.distinct,
        constant=call.constant,
        as_text=call.as_text,
        span=call.span,
    )


def group_by_spec(
    node: Aggregate, substreams: bool
) -> tuple[tuple[Named, ...], GroupBySpec, tuple[str, ...]]:
    """What a GROUP BY computes per row (equal expressions once), its grouping, and its routing keys."""
    items: list[Named] = list(node.keys)
    by_expr: dict[Expr, str] = {}

    def column(expr: Expr) -> str:
        if expr not in by_expr:
            by_expr[expr] = f"$x{len(by_expr)}"
            items.append(Named(by_expr[expr], expr))
        return by_expr[expr]

    aggregates = tuple(aggregate_spec(name, call, column) for name, call in node.aggregates)
    key_of = {key.expr: key.name for key in node.keys}
    sessions = tuple(
        None if window.scope is None else tuple(key_of.get(expr) or column(expr) for expr in window.scope)
        for window in node.windows
    )
    keys = tuple(key.name for key in node.keys)
    grouping = GroupBySpec(
        windows=node.windows,
        keys=keys,
        aggregates=aggregates,
        session_keys=sessions,
        substreams=substreams,
        output_timestamp=node.output_timestamp,
        early_percents=node.early_percents,
    )
    return tuple(items), grouping, _routing(keys, sessions)


def _routing(keys: tuple[str, ...], sessions: tuple[tuple[str, ...] | None, ...]) -> tuple[str, ...]:
    """Columns by whose hash rows may be spread so that every window finds all the rows it needs.

    A session without PARTITION BY is formed from all rows of the step (`asa.md` 3.5): they must be
    seen in one place, so there is nothing to spread by.
    """
    if sessions and len(set(sessions)) == 1 and sessions[0] is not None:
        return sessions[0]
    return tuple(key for key in keys if all(names is None or key in names for names in sessions))


def analytic_specs(
    node: Analytic, items: dict[str, Expr]
) -> tuple[tuple[AnalyticSpec, ...], tuple[str, ...]]:
    """The calls over columns of the rows, and the keys all of them have; adds what they read to `items`."""
    column = Evaluated(items).column

    def optional(expr: Expr | None) -> str | None:
        return None if expr is None else column(expr)

    def spec(name: str, call: AnalyticCall) -> AnalyticSpec:
        # computed columns are numbered in this order, and their names are part of what state goes by
        arg, default = optional(call.arg), optional(call.default)
        keys = tuple(dict.fromkeys(column(key) for key in call.partition_by))
        when = optional(call.when)
        if call.model is not None:
            return AnomalySpec(
                name=name,
                function=call.function,
                length_ticks=call.length_ticks,
                keys=keys,
                when=when,
                arg=arg,
                model=call.model,
                span=call.span,
            )
        return AnalyticSpec(
            name=name,
            function=call.function,
            length_ticks=call.length_ticks,
            keys=keys,
            when=when,
            arg=arg,
            offset=call.offset,
            default=default,
            aggregate=None if call.aggregate is None else aggregate_spec(name, call.aggregate, column),
        )

    specs = tuple(spec(name, call) for name, call in node.calls)
    keys = tuple(key for key in specs[0].keys if all(key in spec.keys for spec in specs))
    return specs, keys


def pattern_spec(node: Match, items: dict[str, Expr], substreams: bool) -> PatternSpec:
    """The pattern over columns of the rows; adds what it reads to `items`."""
    evaluated = Evaluated(items)
    keys = tuple(dict.fromkeys(evaluated.column(key) for key in node.partition_by))
    values = tuple(
        value if value.arg is None else replace(value, arg=Ref(evaluated.column(value.arg)))
        for value in node.values
    )
    return PatternSpec(
        keys=keys,
        limit_ticks=node.limit_ticks,
        variables=node.variables,
        states=node.states,
        values=values,
        measured=node.measured,
        substreams=substreams,
        text=node.text,
    )
