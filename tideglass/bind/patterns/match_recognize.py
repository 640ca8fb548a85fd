"""MATCH_RECOGNIZE: its pattern as states, its definitions and measures over events (`asa.md` 2.14)."""

from __future__ import annotations

from collections.abc import Sequence

from tideglass.bind import substreams
from tideglass.bind.catalog import Environment
from tideglass.bind.clauses import DEFINE, MEASURES
from tideglass.bind.expressions import Expressions
from tideglass.bind.grouping import same
from tideglass.bind.patterns.automaton import MOST_STATES, PatternTooLong, automaton
from tideglass.bind.patterns.values import MatchedEvents
from tideglass.bind.projection import SelectList
from tideglass.bind.scope import BoundRows, Relation, SubstreamKey
from tideglass.lang import nodes as tree
from tideglass.plan.expressions import Expr, Ref
from tideglass.plan.nodes import Match, Projection
from tideglass.plan.patterns import PatternState, PatternVariable


def bind_match(
    match: tree.MatchRecognize,
    rows: BoundRows,
    relation: Relation,
    partition_by: tuple[Expr, ...],
    limit_ticks: int,
    environment: Environment,
) -> BoundRows:
    """The rows of the measures; `match` keeps the rules of `check_pattern`."""
    names = [name for name, _ in match.define]
    matched = MatchedEvents(names, relation, environment)
    measures = Expressions(matched.scope, environment, MEASURES, matched=matched)
    projection = SelectList(measures, matched.settled, grouped=False).bind(match.measures)
    measured = tuple(value.name for value in matched.values)
    define = Expressions(matched.scope, environment, DEFINE, matched=matched)
    variables = tuple(
        PatternVariable(name.text, matched.settled(define.condition(condition)))
        for name, condition in match.define
    )
    node = Match(
        rows.node,
        partition_by,
        limit_ticks,
        variables,
        _states(match, names, environment),
        tuple(matched.values),
        measured,
        environment.words(match.pattern.span),
    )
    carried = _carried(rows.substream_keys, node)
    return BoundRows(Projection(node, projection.items), substream_keys=substreams.carry(carried, projection))


def _states(
    match: tree.MatchRecognize, names: Sequence[tree.Name], environment: Environment
) -> tuple[PatternState, ...]:
    try:
        return automaton(match.pattern, {name.text.casefold(): n for n, name in enumerate(names)})
    except PatternTooLong:
        environment.diagnostics.error(
            "PATTERN_TOO_LONG",
            f"the pattern has more than {MOST_STATES} places once its repetitions are written out",
            match.pattern.span,
            "use smaller numbers in { }",
        )
        return ()


def _carried(keys: Sequence[SubstreamKey], node: Match) -> tuple[SubstreamKey, ...]:
    """The keys as columns of the matches, if a measure reads them of an event that every match has."""
    return tuple(SubstreamKey(key.text, _measured(key.expr, node)) for key in keys)


def _measured(expr: Expr | None, node: Match) -> Expr | None:
    if expr is None or not node.states:
        return None
    for value in node.values:
        measured = value.name in node.measured and value.function in ("first", "last")
        if measured and value.arg is not None and same(value.arg, expr) and node.always_has(value.variable):
            return Ref(value.name, expr.span)
    return None
