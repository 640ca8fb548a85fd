"""Expressions: from the syntax tree to the plan, in the scope and under the rules of one clause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tideglass.bind.advice import VALUES
from tideglass.bind.analytics import Analytics
from tideglass.bind.calls import bind_call
from tideglass.bind.catalog import Environment
from tideglass.bind.clauses import AGGREGATE, Clause
from tideglass.bind.grouping import GroupBinding
from tideglass.bind.patterns.values import MatchedEvents
from tideglass.bind.scope import Relation, Scope, field_of
from tideglass.core.errors import Diagnostics, Span
from tideglass.core.types import Type
from tideglass.lang import nodes as tree
from tideglass.lang.builder import AS_FLOAT, BEYOND_BIGINT
from tideglass.plan.expressions import Call, Case, Cast, Expr, Literal, connected

_COMPARISONS = frozenset(("=", "<>", ">", ">=", "<", "<="))
_CONNECTIVES = frozenset(("AND", "OR"))

#: Types as CAST and CREATE TABLE spell them.
TYPES = {
    "BIGINT": Type.BIGINT,
    "FLOAT": Type.FLOAT,
    "NVARCHAR": Type.NVARCHAR,
    "NVARCHAR(MAX)": Type.NVARCHAR,
    "DATETIME": Type.DATETIME,
    "BIT": Type.BIT,
    "RECORD": Type.RECORD,
    "ARRAY": Type.ARRAY,
}


def bind_type(name: str, span: Span, environment: Environment) -> Type:
    """The type called `name`; `bit` exists from level 1.2 on (`asa.md` 5.1)."""
    type_ = TYPES.get(name.upper().replace(" ", ""))
    if type_ is None or (type_ is Type.BIT and environment.level != "1.2"):
        hint = "types are bigint, float, nvarchar(max), datetime, bit (level 1.2), record, array"
        environment.diagnostics.error("UNKNOWN_TYPE", f"there is no type {name.lower()!r}", span, hint)
        return Type.NVARCHAR
    return type_


@dataclass(frozen=True, slots=True)
class Expressions:
    """Binds the expressions of one clause.

    With `grouping`, aggregates are collected there and stand for its columns. Columns are still those of the
    rows, and `GroupBinding.lift` turns the result into an expression over groups.

    scope: the sources whose columns may be named
    environment: what the whole script shares
    clause: the clause of the query, for what is allowed in it and for messages
    grouping: collects aggregates; None where there is no GROUP BY
    aliases: expressions of the SELECT list by alias (case-folded); filled in HAVING only
    analytics: collects analytic functions; None where they cannot be used
    matched: collects the events a pattern looks at; None outside of MATCH_RECOGNIZE
    """

    scope: Scope
    environment: Environment
    clause: Clause
    grouping: GroupBinding | None = None
    aliases: Mapping[str, tree.Expr] = field(default_factory=dict[str, tree.Expr])
    analytics: Analytics | None = None
    matched: MatchedEvents | None = None

    @property
    def diagnostics(self) -> Diagnostics:
        return self.environment.diagnostics

    def inside_aggregate(self) -> Expressions:
        """The binder for the argument of an aggregate: rows again, no aliases, no further aggregates."""
        return replace(self, clause=AGGREGATE, grouping=None, aliases={})

    def over_source(self, relation: Relation, clause: Clause) -> Expressions:
        """The binder for what stands inside an analytic function: rows of one source, nothing nested."""
        return Expressions(Scope((relation,), self.environment), self.environment, clause)

    def value(self, node: tree.Expr) -> Expr:
        """`node` where a value is wanted."""
        if _is_condition(node):
            self.diagnostics.error(
                "CONDITION_AS_VALUE",
                "a condition is not a value here",
                node.span,
                "write CASE WHEN ... THEN 1 ELSE 0 END",
            )
        return self._bind(node)

    def condition(self, node: tree.Expr) -> Expr:
        """`node` where a condition is wanted."""
        if not _is_condition(node):
            self.diagnostics.error(
                "NOT_A_CONDITION",
                f"{self.clause.name} needs a condition here, not a value",
                node.span,
                "compare it with something, as in x = 1",
            )
        return self._bind(node)

    def _bind(self, node: tree.Expr) -> Expr:
        span = node.span
        match node:
            case tree.Unary(op="-", operand=tree.LiteralExpr(value=int() as value)) if value == BEYOND_BIGINT:
                return Literal(-value, span)
            case tree.LiteralExpr(value=value):
                if isinstance(value, int) and value == BEYOND_BIGINT:
                    message = f"{value} is outside the range of bigint"
                    self.diagnostics.error("SYNTAX", message, span, f"{AS_FLOAT}: {value}.0")
                return Literal(value, span)
            case tree.Column():
                return self._column(node)
            case tree.Member():
                return self._member(node)
            case tree.Star():
                self.diagnostics.error("STAR_ARGUMENT", "* is not a value here", span, "name the columns")
                return Literal(None, span)
            case tree.CallExpr():
                return bind_call(node, self)
            case tree.CastExpr(expr=inner, type=type_, lenient=lenient):
                return Cast(self.value(inner), bind_type(type_, span, self.environment), lenient, span)
            case tree.Unary(op="NOT", operand=operand):
                return Call("not", (self.condition(operand),), span)
            case tree.Unary(op=op, operand=operand):
                return Call({"-": "neg", "+": "pos"}.get(op, op), (self.value(operand),), span)
            case tree.Binary(op=op) if op.upper() in _CONNECTIVES:
                return connected(op.lower(), [self.condition(part) for part in tree.chained(node)])
            case tree.Binary(op=op, left=left, right=right):
                if op in _COMPARISONS:
                    self._warn_of_null((left, right), span)
                return Call(op, (self.value(left), self.value(right)), span)
            case tree.Like(value=value, pattern=pattern, negated=negated):
                return self._predicate("like", (value, pattern), negated, span)
            case tree.Between(value=value, low=low, high=high, negated=negated):
                return self._predicate("between", (value, low, high), negated, span)
            case tree.IsNull(value=value, negated=negated):
                tested = Call("isnull", (self.value(value),), span)
                return Call("not", (tested,), span) if negated else tested
            case tree.In(value=value, options=options, negated=negated):
                return self._predicate("in", (value, *options), negated, span)
            case tree.CaseExpr():
                return self._case(node)

    def _predicate(self, name: str, sides: tuple[tree.Expr, ...], negated: bool, span: Span) -> Expr:
        """LIKE, BETWEEN or IN; with NOT an operator of its own, which is false beside NULL (`asa.md` 2.6)."""
        self._warn_of_null(sides, span)
        return Call(f"not {name}" if negated else name, tuple(self.value(side) for side in sides), span)

    def _case(self, node: tree.CaseExpr) -> Expr:
        branches: list[tuple[Expr, Expr]] = []
        operand = None if node.operand is None else self.value(node.operand)
        for when, then in node.branches:
            if operand is None:
                condition = self.condition(when)
            else:
                self._warn_of_null((when,), when.span)
                condition = Call("=", (operand, self.value(when)), when.span)
            branches.append((condition, self.value(then)))
        if node.otherwise is None:
            self.diagnostics.error(
                "CASE_WITHOUT_ELSE", "CASE needs an ELSE", node.span, "add ELSE NULL before END"
            )
            return Case(tuple(branches), Literal(None, node.span), node.span)
        return Case(tuple(branches), self.value(node.otherwise), node.span)

    def _column(self, column: tree.Column) -> Expr:
        name = column.path[0]
        alias = self.aliases.get(name.text.casefold()) if len(column.path) == 1 else None
        if alias is not None and not self._is_row_column(name):
            return replace(self, aliases={}).value(alias)
        if self.scope.is_string(column):
            self.diagnostics.warn(
                "STRING_IN_DOUBLE_QUOTES",
                f'"{name.text}" is read as a string, because no column is known by that name',
                column.span,
                f"write '{name.text}' for the string or [{name.text}] for a field",
            )
            return Literal(name.text, column.span)
        if len(column.path) == 1:
            self._warn_of_value(name)
        return self.scope.column(column)

    def _warn_of_null(self, compared: tuple[tree.Expr, ...], span: Span) -> None:
        if any(isinstance(side, tree.LiteralExpr) and side.value is None for side in compared):
            self.diagnostics.warn(
                "COMPARED_WITH_NULL",
                "a comparison with NULL is always false",
                span,
                "write IS NULL or IS NOT NULL",
            )

    def _warn_of_value(self, name: tree.Name) -> None:
        """Warns where TRUE, CURRENT_TIMESTAMP or the like is read as a field of that name."""
        hint = VALUES.get(name.text.casefold())
        if hint is None or name.quote or self.scope.lists(name.text) or not self.scope.is_open:
            return
        self.diagnostics.warn(
            "TRUTH_AS_FIELD" if name.text.casefold() in ("true", "false") else "VALUE_AS_FIELD",
            f"{name.text!r} is read as a field of the event, because the language has no such value",
            name.span,
            hint,
        )

    def _is_row_column(self, name: tree.Name) -> bool:
        """Whether a name in HAVING that is also a SELECT alias means a column of the rows instead."""
        if self.grouping is not None:
            return self.grouping.has_key_named(name.text)
        return self.scope.lists(name.text)

    def _member(self, node: tree.Member) -> Expr:
        match node.base:
            case tree.CallExpr(prefix=(prefix,), name=name, args=()) if (
                prefix.text.casefold() == "system"
                and name.text.casefold() == "window"
                and node.name.text.casefold() == "id"
            ):
                # System.Window() is a record with the one field Id; reading the field needs no record.
                record = self.value(node.base)
                return record.args[1] if isinstance(record, Call) and len(record.args) == 2 else record
            case _:
                base, key = self.value(node.base), self.environment.field_key(node.name.text)
        value = None if self.analytics is None else self.analytics.field(base, key)
        return value or field_of(base, (key,), node.span)


def _is_condition(node: tree.Expr) -> bool:
    match node:
        case tree.Binary(op=op):
            return op in _COMPARISONS or op.upper() in _CONNECTIVES
        case tree.Unary(op=op):
            return op.upper() == "NOT"
        case tree.Like() | tree.Between() | tree.IsNull() | tree.In():
            return True
        case _:
            return False
