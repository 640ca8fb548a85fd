"""Expressions to DuckDB SQL, by the types of the columns they read.

Types belong to values (`asa.md` 5.1): the same expression becomes other SQL for other types. Where the
type of a sub-expression is known only from its values (a field of a record, an element, a function of
the user's), it must first be computed as a column of its own; `lower_all` lists what is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise

from tideglass.core.sql import quoted
from tideglass.core.types import Type
from tideglass.functions import callables, operators
from tideglass.functions.conversions import combine, convert_sql, implicit
from tideglass.functions.javascript import call_sql
from tideglass.functions.records import field_sql
from tideglass.functions.registry import ENGINE, SCALARS
from tideglass.functions.signature import NULL_SQL, ArgumentKind, ScalarSignature, Sql, literal_sql
from tideglass.plan.expressions import (
    Call,
    Case,
    Cast,
    Expr,
    Literal,
    Path,
    Ref,
    children,
    conjunction,
    connected,
    walk,
)

_HOLDS_ANY_TYPE = frozenset(("record.of",))
_PREDICATES = frozenset(("like", "not like", "between", "not between", "in", "not in"))
#: The SQL of a function may have its argument in it several times, that of an operator on floats twice, and
#: each level multiplies that. What is nested more than this in one statement becomes a column first.
_MOST_NESTED = 10
_NESTS_BY_FUNCTION, _NESTS_BY_OPERATOR = 3, 2


@dataclass(frozen=True, slots=True)
class Need:
    """A sub-expression to compute as a column first, on the rows where `guard` holds (None: on all)."""

    expr: Expr
    guard: Expr | None


class NeedsColumn(Exception):
    """The type of a sub-expression is known only from its values."""

    def __init__(self, needs: Sequence[Need]) -> None:
        self.needs = tuple(needs)
        super().__init__(f"needs {len(self.needs)} columns first")


@dataclass(frozen=True, slots=True)
class Lowered:
    """SQL of each expression; not to be used before each need is a column that its expression reads."""

    values: tuple[Sql, ...]
    needs: tuple[Need, ...]


def lower(expr: Expr, types: Mapping[str, Type], level: str = "1.2") -> Sql:
    """SQL of the expression over columns of these types.

    Raises NeedsColumn where a sub-expression's type is not known. A `raw` or VARIANT result is possible:
    its type is not known either, but nothing depends on it.
    """
    lowered = lower_all((expr,), types, level)
    if lowered.needs:
        raise NeedsColumn(lowered.needs)
    return lowered.values[0]


def lower_all(exprs: Sequence[Expr], types: Mapping[str, Type], level: str = "1.2") -> Lowered:
    """SQL of several expressions and what must be computed before."""
    lowering = _Lowering(types, level)
    values = tuple(lowering.any(expr) for expr in exprs)
    return Lowered(values, tuple(lowering.needed()))


def lower_condition(expr: Expr, types: Mapping[str, Type], level: str = "1.2") -> Lowered:
    """SQL of an expression as a condition: true or false, never NULL (`asa.md` 2.6)."""
    lowering = _Lowering(types, level)
    return Lowered((lowering.condition(expr),), tuple(lowering.needed()))


def negation(expr: Expr) -> Expr:
    return Call("not", (expr,), expr.span)


def _is_float(expr: Expr) -> bool:
    """Whether the value is a float by the text of the query alone."""
    match expr:
        case Literal():
            return isinstance(expr.value, float)
        case Cast():
            return expr.type is Type.FLOAT
        case Call():
            return expr.function in ("neg", "pos") and _is_float(expr.args[0])
        case _:
            return False


@dataclass(slots=True)
class _Lowering:
    types: Mapping[str, Type]
    level: str
    guards: list[Expr] = field(default_factory=list[Expr])
    found: dict[Expr, list[Expr | None]] = field(default_factory=dict[Expr, list[Expr | None]])
    depths: dict[int, int] = field(default_factory=dict[int, int])

    def needed(self) -> list[Need]:
        """The innermost needs; one that contains another waits for the next round."""
        needs: list[Need] = []
        for expr, guards in self.found.items():
            if any(part in self.found for part in islice(walk(expr), 1, None)):
                continue
            known = [guard for guard in guards if guard is not None]
            needs.append(Need(expr, connected("or", known) if len(known) == len(guards) else None))
        return needs

    def value(self, expr: Expr) -> Sql:
        """The value where its type matters; a type not known is a need, and NULL for the time being."""
        lowered = self.any(expr)
        needed = lowered.type is Type.VARIANT or self.nested(expr) >= _MOST_NESTED
        return self.need(expr, lowered) if needed else lowered

    def part(self, expr: Expr) -> Sql:
        """The value where its type is only passed on."""
        lowered = self.any(expr)
        needed = lowered.raw or self.nested(expr) >= _MOST_NESTED
        return self.need(expr, lowered) if needed else lowered

    def nested(self, expr: Expr) -> int:
        """How much an expression multiplies what is inside it: the sum along its deepest path."""
        known = self.depths.get(id(expr))
        if known is None:
            known = max((self.nested(child) for child in children(expr)), default=0) + _multiplies(expr)
            self.depths[id(expr)] = known
        return known

    def need(self, expr: Expr, lowered: Sql) -> Sql:
        guard = conjunction(self.guards) if lowered.fallible else None
        self.found.setdefault(expr, []).append(guard)
        return NULL_SQL

    def guarded_by(self, guards: Sequence[Expr], expr: Expr, *, passed_on: bool = False) -> Sql:
        """The value of something evaluated only where `guards` hold."""
        self.guards.extend(guards)
        try:
            return self.part(expr) if passed_on else self.value(expr)
        finally:
            del self.guards[len(self.guards) - len(guards) :]

    def condition(self, expr: Expr) -> Sql:
        return operators.condition(self.value(expr))

    def any(self, expr: Expr) -> Sql:
        match expr:
            case Literal():
                return _literal(expr)
            case Ref():
                type_ = self.types[expr.name]
                return NULL_SQL if type_ is Type.NULL else Sql(quoted(expr.name), type_)
            case Path():
                return self.path(expr)
            case Cast():
                return convert_sql(self.value(expr.expr), expr.type, lenient=expr.lenient)
            case Case():
                return self.case(expr)
            case Call():
                return self.call(expr)

    def path(self, path: Path) -> Sql:
        if not isinstance(path.base, Ref):
            base = self.any(path.base)
            self.need(path.base, base)
            return Sql("NULL", Type.VARIANT, base.fallible, raw=True)
        if self.types[path.base.name] is not Type.RECORD:
            return NULL_SQL
        text = f"CAST({field_sql(quoted(path.base.name), path.keys)} AS VARCHAR)"
        return Sql(text, Type.VARIANT, raw=True)

    def case(self, case: Case) -> Sql:
        before: list[Expr] = []
        conditions: list[Sql] = []
        values: list[Sql] = []
        for when, then in case.branches:
            conditions.append(operators.condition(self.guarded_by(before, when)))
            values.append(self.guarded_by([*before, when], then, passed_on=True))
            before.append(negation(when))
        values.append(self.guarded_by(before, case.otherwise, passed_on=True))
        results = [then for _, then in case.branches] + [case.otherwise]
        type_, texts = combine(values, to_float=any(_is_float(result) for result in results))
        if type_ is Type.NULL:
            return NULL_SQL
        branches = " ".join(
            f"WHEN {when.text} THEN {then}" for when, then in zip(conditions, texts, strict=False)
        )
        fallible = any(part.fallible for part in (*conditions, *values))
        return Sql(f"CASE {branches} ELSE {texts[-1]} END", type_, fallible)

    def call(self, call: Call) -> Sql:
        name, args = call.function, call.args
        if name in ("and", "or"):
            return self.logical(name, args)
        if name == "coalesce":
            known = [
                self.guarded_by(_nulls(args[:place]), arg, passed_on=True) for place, arg in enumerate(args)
            ]
            return SCALARS[name].build(known)
        if name.startswith(callables.PREFIX):
            return callables.call_sql(name.removeprefix(callables.PREFIX), [self.part(arg) for arg in args])
        if name.startswith("udf."):
            return call_sql(name.removeprefix("udf."), tuple(self.value(arg) for arg in args))
        if name in SCALARS or name in ENGINE:
            return self.scalar(SCALARS.get(name) or ENGINE[name], args)
        if name == "isnull":
            tested = self.part(args[0])
            return Sql(f"(({tested.text}) IS NULL)", Type.BIT, tested.fallible)
        values = [self.value(arg) for arg in args]
        return _operator(name, values)

    def logical(self, name: str, args: Sequence[Expr]) -> Sql:
        """AND and OR: the right side is not evaluated on rows that the left side decides."""
        whole = self.condition(args[0])
        before: list[Expr] = []
        for left, right_expr in pairwise(args):
            before.append(left if name == "and" else negation(left))
            right = operators.condition(self.guarded_by(before, right_expr))
            if not right.fallible:
                text = f"({whole.text} {name.upper()} {right.text})"
            elif name == "and":
                text = f"(CASE WHEN {whole.text} THEN {right.text} ELSE false END)"
            else:
                text = f"(CASE WHEN {whole.text} THEN true ELSE {right.text} END)"
            whole = Sql(text, Type.BIT, whole.fallible or right.fallible)
        return whole

    def scalar(self, signature: ScalarSignature, args: Sequence[Expr]) -> Sql:
        passed_on = signature.name in _HOLDS_ANY_TYPE
        arguments = [self.part(arg) if passed_on else self.value(arg) for arg in args]
        if signature.strict and any(arg.type is Type.NULL for arg in arguments):
            return NULL_SQL
        converted = [
            arg
            if signature.kind_of(place) is ArgumentKind.DATEPART
            else implicit(arg, signature.kind_of(place), signature.name, place + 1)
            for place, arg in enumerate(arguments)
        ]
        built = signature.build(converted)
        may_fail = built.fallible
        fallible = may_fail or any(arg.fallible for arg in converted)
        built = Sql(built.text, built.type, fallible, built.raw)
        if not signature.strict:
            return built
        return operators.strict(built, arguments, converted, may_fail=may_fail)


def _multiplies(expr: Expr) -> int:
    """How much the SQL of an expression repeats what is directly inside it."""
    match expr:
        case Cast():
            return _NESTS_BY_FUNCTION
        case Call(function=name) if name in SCALARS or name in ENGINE or name in _PREDICATES:
            return _NESTS_BY_FUNCTION
        case Call(function=name) if name in operators.COMPARISONS:
            return _NESTS_BY_FUNCTION
        case Call(function=name) if name in operators.ARITHMETIC:
            return _NESTS_BY_OPERATOR
        case _:
            return 0


def _nulls(exprs: Sequence[Expr]) -> list[Expr]:
    return [Call("isnull", (expr,), expr.span) for expr in exprs]


def _literal(literal: Literal) -> Sql:
    match literal.value:
        case None:
            return NULL_SQL
        case bool():
            return Sql("true" if literal.value else "false", Type.BIT, constant=literal.value)
        case int():
            return Sql(f"CAST({literal.value} AS BIGINT)", Type.BIGINT, constant=literal.value)
        case float():
            return Sql(f"CAST({literal.value!r} AS DOUBLE)", Type.FLOAT, constant=literal.value)
        case str():
            return Sql(literal_sql(literal.value), Type.NVARCHAR, constant=literal.value)


def _operator(name: str, values: Sequence[Sql]) -> Sql:
    first = values[0]
    if name in operators.COMPARISONS:
        return operators.compare(name, first, values[1])
    if name in operators.ARITHMETIC:
        return operators.arithmetic(name, first, values[1])
    if name in operators.BITWISE:
        return operators.bitwise(name, first, values[1])
    match name:
        case "neg" | "pos" | "~":
            return operators.unary(name, first)
        case "not":
            held = operators.condition(first)
            return Sql(f"(NOT {held.text})", Type.BIT, held.fallible)
        case "like" | "not like":
            made = operators.like(first, values[1])
        case "between" | "not between":
            made = operators.between(first, values[1], values[2])
        case "in" | "not in":
            made = operators.among(first, values[1:])
        case _:
            raise LookupError(f"the plan holds an unknown function {name!r}")
    return operators.negated(made, values) if name.startswith("not ") else made
