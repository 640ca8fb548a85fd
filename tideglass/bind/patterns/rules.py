"""The rules a MATCH_RECOGNIZE must keep, each reported at its place (`asa.md` 2.14)."""

from __future__ import annotations

from tideglass.bind.patterns.values import CLASSIFIER, OF_VARIABLES
from tideglass.core.errors import Diagnostics
from tideglass.functions.registry import AGGREGATES
from tideglass.lang import nodes as tree

#: Functions over several events that a pattern does not know.
_OF_STREAMS = (frozenset(AGGREGATES) | {"lag", "isfirst"}) - OF_VARIABLES


def check_pattern(select: tree.Select, match: tree.MatchRecognize, diagnostics: Diagnostics) -> None:
    """Report what breaks a rule: the SELECT list, MEASURES, and which variables DEFINE may read."""
    _check_list(select, diagnostics)
    _check_clauses(select, diagnostics)
    variables = _check_variables(match, diagnostics)
    for item in match.measures:
        if item.alias is None:
            diagnostics.error(
                "MEASURE_WITHOUT_NAME",
                "a measure needs a name, as it becomes a column of the result",
                item.span,
                "write expression AS name",
            )
        _check_calls(item.expr, variables, "MEASURES", diagnostics)
    earlier: set[str] = set()
    for variable, condition in match.define:
        earlier.add(variable.text.casefold())
        _check_calls(condition, variables, "DEFINE", diagnostics)
        _check_earlier(variable, condition, variables - earlier, diagnostics)


def _check_list(select: tree.Select, diagnostics: Diagnostics) -> None:
    for item in select.items:
        if not isinstance(item, tree.StarItem) or item.path:
            diagnostics.error(
                "MATCH_NEEDS_STAR",
                "the SELECT list of MATCH_RECOGNIZE is *; the columns are the measures",
                item.span,
                "write SELECT *, and list the columns in MEASURES",
            )


def _check_clauses(select: tree.Select, diagnostics: Diagnostics) -> None:
    for clause, part in (
        ("JOIN", select.joins[0] if select.joins else None),
        ("WHERE", select.where),
        ("GROUP BY", select.group_by[0] if select.group_by else None),
        ("HAVING", select.having),
    ):
        if part is not None:
            diagnostics.error(
                "CLAUSE_WITH_MATCH",
                f"{clause} and MATCH_RECOGNIZE cannot stand in one SELECT",
                part.span,
                f"use {clause} in a WITH step before or after",
            )


def _check_variables(match: tree.MatchRecognize, diagnostics: Diagnostics) -> frozenset[str]:
    """The variables of DEFINE and PATTERN, whatever their case; each may be defined once."""
    defined: set[str] = set()
    for variable, _ in match.define:
        if variable.text.casefold() in defined:
            diagnostics.error(
                "DUPLICATE_VARIABLE",
                f"{variable.text!r} is defined twice",
                variable.span,
                "join its conditions with AND or OR",
            )
        defined.add(variable.text.casefold())
    used: set[str] = set()
    for part in tree.parts(match.pattern, tree.PatternName):
        name = part.name.text.casefold()
        if name not in defined | used:
            diagnostics.error(
                "UNDEFINED_VARIABLE",
                f"the pattern has {part.name.text!r}, which DEFINE does not define",
                part.span,
                f"write {part.name.text} AS condition in DEFINE, or . for any event",
            )
        used.add(name)
    return frozenset(defined) | used


def _check_calls(expr: tree.Expr, variables: frozenset[str], clause: str, diagnostics: Diagnostics) -> None:
    """Only First, Last, Min and Max see several events, each a single field of one variable."""
    for call in tree.parts(expr, tree.CallExpr):
        name = call.name.text
        if call.prefix:
            continue
        if name.casefold() in _OF_STREAMS:
            diagnostics.error(
                "FUNCTION_IN_MATCH",
                f"{name} cannot be used in {clause}",
                call.span,
                "a pattern knows First, Last, Min and Max",
            )
        elif name.casefold() == CLASSIFIER and clause != "MEASURES":
            diagnostics.error("FUNCTION_IN_MATCH", f"{name} can be used in MEASURES only", call.span)
        elif name.casefold() in OF_VARIABLES and not _is_field(call, variables):
            diagnostics.error(
                "NOT_A_FIELD_OF_A_VARIABLE",
                f"{name} in {clause} takes a single field of a pattern variable",
                call.span,
                f"write {name}(variable.field), without an expression or function inside",
            )


def _is_field(call: tree.CallExpr, variables: frozenset[str]) -> bool:
    match call.args:
        case (tree.Column(path=(variable, _, *_)),):
            return variable.text.casefold() in variables and call.over is None and not call.distinct
        case _:
            return False


def _check_earlier(
    variable: tree.Name, condition: tree.Expr, later: frozenset[str], diagnostics: Diagnostics
) -> None:
    """A variable may refer to itself and to variables defined before it."""
    for column in tree.parts(condition, tree.Column):
        if len(column.path) > 1 and column.path[0].text.casefold() in later:
            diagnostics.error(
                "VARIABLE_DEFINED_LATER",
                f"{variable.text} is defined before {column.path[0].text} and cannot refer to it",
                column.span,
                "refer to the variable itself or to those defined before it, or change their order",
            )
