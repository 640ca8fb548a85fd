"""Makes syntax nodes while the grammar is read: one method a rule of saql.lark.

Each method gets the span of its rule and the values of its parts (keywords and punctuation are left
out), and returns the rule's value. What the grammar cannot express (the shape of a window, the names of
types) is checked here and raised as Malformed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from lark import Token

from tideglass.core.errors import Span
from tideglass.lang import nodes as n
from tideglass.lang.problems import Malformed
from tideglass.lang.windows import group_items

TYPES = ("BIGINT", "FLOAT", "NVARCHAR", "DATETIME", "BIT", "RECORD", "ARRAY")
# Names people bring from other dialects, and what SAQL calls them.
_TYPE_ADVICE = {
    **dict.fromkeys(("INT", "INTEGER", "SMALLINT", "TINYINT", "LONG", "BIGINTEGER"), "BIGINT"),
    **dict.fromkeys(("REAL", "DOUBLE", "DECIMAL", "NUMERIC", "MONEY", "NUMBER"), "FLOAT"),
    **dict.fromkeys(("VARCHAR", "CHAR", "NCHAR", "TEXT", "STRING"), "NVARCHAR(MAX)"),
    **dict.fromkeys(
        ("DATE", "TIME", "DATETIME2", "DATETIMEOFFSET", "SMALLDATETIME", "TIMESTAMP", "TIMESTAMP_LTZ"),
        "DATETIME",
    ),
    **dict.fromkeys(("BOOLEAN", "BOOL"), "BIT"),
    **dict.fromkeys(("MAP", "STRUCT", "ROW", "JSON", "OBJECT", "DYNAMIC", "VARIANT"), "RECORD"),
    **dict.fromkeys(("LIST", "MULTISET"), "ARRAY"),
}

#: The least number above bigint; with a minus before it, and only so, it is one.
BEYOND_BIGINT = 2**63
AS_FLOAT = "a number with a point or an exponent is a float"

_OPERATORS = {
    "EQ": "=", "NE": "<>", "GT": ">", "GE": ">=", "LT": "<", "LE": "<=", "PLUS": "+", "MINUS": "-",
    "AMP": "&", "PIPE": "|", "CARET": "^", "STAR": "*", "SLASH": "/", "PERCENT": "%", "TILDE": "~",
    "NOT": "NOT", "AND": "AND", "OR": "OR", "QUESTION": "?",
}  # fmt: skip
_WORDS = frozenset({"NAME", "BRACKETED", "QUOTED", "STRING", "ALIAS", "ALIAS_STRING", "NUMBER"})
_KEPT = _WORDS | _OPERATORS.keys()


@dataclass(frozen=True, slots=True)
class Part:
    """A value on the parser's stack with the text it covers, parentheses included."""

    start_pos: int
    end_pos: int
    value: Any


_R = TypeVar("_R")


def _rule(method: Callable[..., _R]) -> Callable[[Builder, list[Part | Token | None]], Part]:
    """Turns the parser's stack entries into a span and plain arguments."""

    def reduce(self: Builder, children: list[Part | Token | None]) -> Part:
        present = [child for child in children if child is not None]
        start, end = present[0].start_pos or 0, present[-1].end_pos or 0
        values: list[Any] = []
        for child in children:
            if isinstance(child, Part):
                values.append(child.value)
            elif child is None or child.type in _KEPT:
                values.append(child)
        return Part(start, end, method(self, Span(start, end), *values))

    return reduce


def _span(token: Token) -> Span:
    return Span(token.start_pos or 0, token.end_pos or 0)


class Builder:
    """The semantic actions of saql.lark; holds nothing, so one parser serves all threads."""

    # ------------------------------------------------------------ script

    @_rule
    def script(
        self,
        span: Span,
        tables: tuple[n.CreateTable, ...] | None,
        steps: tuple[n.Step, ...] | None,
        queries: list[n.Query],
    ) -> n.Script:
        return n.Script(tables or (), steps or (), tuple(queries), span)

    @_rule
    def tables(self, _: Span, *tables: n.CreateTable) -> tuple[n.CreateTable, ...]:
        return tables

    @_rule
    def create_table(self, span: Span, name: n.Name, *columns: n.TableColumn) -> n.CreateTable:
        return n.CreateTable(name, columns, span)

    @_rule
    def table_column(self, span: Span, name: n.Name, type_: str) -> n.TableColumn:
        return n.TableColumn(name, type_, span)

    @_rule
    def type(self, span: Span, word: Token, length: str | None) -> str:
        name = word.strip("[]").upper()
        written = name if length is None else f"{name}({length})"
        if name not in TYPES:
            advice = _TYPE_ADVICE.get(name)
            known = "the types are BIGINT, FLOAT, NVARCHAR(MAX), DATETIME, BIT, RECORD and ARRAY"
            hint = f"write {advice}" if advice else known
            raise Malformed("UNKNOWN_TYPE", f"there is no type {written}", span, hint, "BIGINT")
        if (name == "NVARCHAR") != (length == "MAX"):
            right = "NVARCHAR(MAX)" if name == "NVARCHAR" else name
            raise Malformed("UNKNOWN_TYPE", f"{written} is not a type", span, f"write {right}", "BIGINT")
        return name

    @_rule
    def length(self, _: Span, *parts: Token) -> str:
        return ",".join(part.upper() for part in parts)

    @_rule
    def with_clause(self, _: Span, *steps: n.Step) -> tuple[n.Step, ...]:
        return steps

    @_rule
    def step(self, span: Span, name: n.Name, query: n.Query) -> n.Step:
        return n.Step(name, query, span)

    @_rule
    def statements(self, _: Span, *queries: list[n.Query] | n.Query) -> list[n.Query]:
        *before, last = queries
        done = before[0] if before else []
        assert isinstance(done, list)
        assert not isinstance(last, list)
        return [*done, last]

    @_rule
    def union(self, span: Span, *terms: n.Query) -> n.UnionQuery:
        return n.UnionQuery(terms, span)

    @_rule
    def nested_query(self, _: Span, query: n.Query) -> n.Query:
        return query

    # ------------------------------------------------------------ SELECT

    @_rule
    def select(
        self,
        span: Span,
        items: tuple[n.Item | n.StarItem, ...],
        into: n.Name | None,
        source: n.FromItem,
        joins: tuple[n.JoinClause | n.ApplyClause, ...] | None,
        match: n.MatchRecognize | None,
        where: n.Expr | None,
        group_by: tuple[n.GroupItem, ...] | None,
        having: n.Expr | None,
    ) -> n.Select:
        return n.Select(items, into, source, joins or (), match, where, group_by or (), having, span)

    @_rule
    def items(self, _: Span, *items: n.Item | n.StarItem) -> tuple[n.Item | n.StarItem, ...]:
        return items

    @_rule
    def star_item(self, span: Span, *path_and_star: tuple[n.Name, ...] | Token) -> n.StarItem:
        path = path_and_star[0] if len(path_and_star) == 2 else ()
        assert isinstance(path, tuple)
        return n.StarItem(path, span)

    @_rule
    def plain_item(self, span: Span, expr: n.Expr) -> n.Item:
        return n.Item(expr, None, span)

    @_rule
    def aliased_item(self, span: Span, expr: n.Expr, alias: n.Name) -> n.Item:
        return n.Item(expr, alias, span)

    @_rule
    def assigned_item(self, span: Span, alias: Token, _: Token, expr: n.Expr) -> n.Item:
        return n.Item(expr, _name(alias), span)

    @_rule
    def string_alias(self, _: Span, alias: Token) -> n.Name:
        return _name(alias)

    @_rule
    def into(self, _: Span, name: n.Name) -> n.Name:
        return name

    @_rule
    def relation(
        self, span: Span, named: n.FromItem, *modifiers: n.TimestampBy | n.PartitionBy
    ) -> n.FromItem:
        stamps = [m for m in modifiers if isinstance(m, n.TimestampBy)]
        partitions = [m for m in modifiers if isinstance(m, n.PartitionBy)]
        for what, found in (("TIMESTAMP BY", stamps), ("PARTITION BY", partitions)):
            if len(found) > 1:
                raise Malformed(
                    "SYNTAX", f"{what} stands here a second time", found[1].span, "keep one of them"
                )
        stamp, partition = next(iter(stamps), None), next(iter(partitions), None)
        return n.FromItem(named.name, named.query, named.alias, stamp, partition, span)

    @_rule
    def named_relation(self, span: Span, name: n.Name, alias: n.Name | None = None) -> n.FromItem:
        return n.FromItem(name, None, alias, span=span)

    @_rule
    def derived_relation(self, span: Span, query: n.Query, alias: n.Name | None = None) -> n.FromItem:
        return n.FromItem(None, query, alias, span=span)

    @_rule
    def timestamp_by(self, span: Span, expr: n.Expr, over: tuple[n.Expr, ...] | None) -> n.TimestampBy:
        return n.TimestampBy(expr, over or (), span)

    @_rule
    def over_keys(self, _: Span, *keys: n.Expr) -> tuple[n.Expr, ...]:
        return keys

    @_rule
    def partition_into(self, span: Span, *parts: n.Expr | int | None) -> n.PartitionBy:
        *exprs, shards = parts
        return n.PartitionBy(tuple(exprs), shards, span)  # pyright: ignore[reportArgumentType]

    @_rule
    def shards(self, _: Span, number: Token) -> int:
        return _whole(number)

    @_rule
    def joins(
        self, _: Span, *joins: n.JoinClause | n.ApplyClause
    ) -> tuple[n.JoinClause | n.ApplyClause, ...]:
        return joins

    @_rule
    def inner_join(self, span: Span, relation: n.FromItem, on: n.Expr) -> n.JoinClause:
        return n.JoinClause("INNER", relation, on, span)

    @_rule
    def left_join(self, span: Span, relation: n.FromItem, on: n.Expr) -> n.JoinClause:
        return n.JoinClause("LEFT", relation, on, span)

    @_rule
    def cross_join(self, span: Span, relation: n.FromItem) -> n.JoinClause:
        return n.JoinClause("CROSS", relation, None, span)

    @_rule
    def cross_apply(self, span: Span, function: n.Name, arg: n.Expr, alias: n.Name) -> n.ApplyClause:
        return n.ApplyClause("CROSS", function, arg, alias, span)

    @_rule
    def outer_apply(self, span: Span, function: n.Name, arg: n.Expr, alias: n.Name) -> n.ApplyClause:
        return n.ApplyClause("OUTER", function, arg, alias, span)

    @_rule
    def where(self, _: Span, condition: n.Expr) -> n.Expr:
        return condition

    @_rule
    def group_by(self, _: Span, *exprs: n.Expr) -> tuple[n.GroupItem, ...]:
        return group_items(exprs)

    @_rule
    def having(self, _: Span, condition: n.Expr) -> n.Expr:
        return condition

    # ------------------------------------------------------------ MATCH_RECOGNIZE

    @_rule
    def match(self, span: Span, *parts: Any) -> n.MatchRecognize:
        *scope, measures, pattern, define, alias = parts
        limit = next(part for part in scope if isinstance(part, n.Duration))
        keys = next((part for part in scope if isinstance(part, tuple)), ())
        for item in measures:
            if isinstance(item, n.StarItem):
                raise Malformed(
                    "SYNTAX", "MEASURES has no *", item.span, "list the measures: expression AS name"
                )
        return n.MatchRecognize(limit, keys, measures, pattern, define, alias, span)

    @_rule
    def measures(self, _: Span, items: tuple[n.Item, ...]) -> tuple[n.Item, ...]:
        return items

    @_rule
    def pattern(self, _: Span, pattern: n.Pattern) -> n.Pattern:
        return pattern

    @_rule
    def nested_pattern(self, _: Span, pattern: n.Pattern) -> n.Pattern:
        return pattern

    @_rule
    def pattern_choice(self, span: Span, *parts: n.Pattern | Token) -> n.Pattern:
        options = tuple(part for part in parts if not isinstance(part, Token))
        return options[0] if len(options) == 1 else n.PatternChoice(options, span)

    @_rule
    def pattern_sequence(self, span: Span, *parts: n.Pattern) -> n.Pattern:
        return parts[0] if len(parts) == 1 else n.PatternSequence(parts, span)

    @_rule
    def pattern_name(self, span: Span, name: n.Name) -> n.PatternName:
        return n.PatternName(name, span)

    @_rule
    def pattern_any(self, span: Span) -> n.PatternAny:
        return n.PatternAny(span)

    @_rule
    def pattern_quantified(self, span: Span, part: n.Pattern, sign: Token) -> n.PatternRepeat:
        least, most = {"STAR": (0, None), "PLUS": (1, None), "QUESTION": (0, 1)}[sign.type]
        return n.PatternRepeat(part, least, most, span)

    @_rule
    def pattern_exactly(self, span: Span, part: n.Pattern, times: Token) -> n.PatternRepeat:
        return n.PatternRepeat(part, _whole(times), _whole(times), span)

    @_rule
    def pattern_at_least(self, span: Span, part: n.Pattern, least: Token) -> n.PatternRepeat:
        return n.PatternRepeat(part, _whole(least), None, span)

    @_rule
    def pattern_between(self, span: Span, part: n.Pattern, least: Token, most: Token) -> n.PatternRepeat:
        if _whole(least) > _whole(most):
            raise Malformed(
                "SYNTAX", f"{{{least},{most}}} asks for at least {least} and at most {most}", span
            )
        return n.PatternRepeat(part, _whole(least), _whole(most), span)

    @_rule
    def define(self, _: Span, *definitions: tuple[n.Name, n.Expr]) -> tuple[tuple[n.Name, n.Expr], ...]:
        return definitions

    @_rule
    def definition(self, _: Span, name: n.Name, condition: n.Expr) -> tuple[n.Name, n.Expr]:
        return name, condition

    @_rule
    def match_alias(self, _: Span, name: n.Name) -> n.Name:
        return name

    # ------------------------------------------------------------ expressions

    @_rule
    def binary(self, span: Span, left: n.Expr, op: Token, right: n.Expr) -> n.Binary:
        return n.Binary(_OPERATORS[op.type], left, right, span)

    @_rule
    def unary(self, span: Span, op: Token, operand: n.Expr) -> n.Unary:
        return n.Unary(_OPERATORS[op.type], operand, span)

    @_rule
    def like(self, span: Span, value: n.Expr, negated: Token | None, pattern: n.Expr) -> n.Like:
        return n.Like(value, pattern, negated is not None, span)

    @_rule
    def between(
        self, span: Span, value: n.Expr, negated: Token | None, low: n.Expr, _: Token, high: n.Expr
    ) -> n.Between:
        return n.Between(value, low, high, negated is not None, span)

    @_rule
    def is_null(self, span: Span, value: n.Expr, negated: Token | None) -> n.IsNull:
        return n.IsNull(value, negated is not None, span)

    @_rule
    def in_list(self, span: Span, value: n.Expr, negated: Token | None, *options: n.Expr) -> n.In:
        return n.In(value, options, negated is not None, span)

    @_rule
    def column(self, span: Span, path: tuple[n.Name, ...]) -> n.Column | n.CallExpr:
        if is_system_timestamp(path):
            return n.CallExpr(path[:1], path[1], (), span=span)
        return n.Column(path, span)

    @_rule
    def number(self, span: Span, digits: Token) -> n.LiteralExpr:
        value = int(digits) if digits.isdecimal() else float(digits)
        if value == float("inf"):
            raise Malformed("SYNTAX", f"{digits} is larger than any float", span)
        if isinstance(value, int) and value > BEYOND_BIGINT:
            raise Malformed(
                "SYNTAX", f"{digits} is outside the range of bigint", span, f"{AS_FLOAT}: {digits}.0"
            )
        return n.LiteralExpr(value, span)

    @_rule
    def string(self, span: Span, text: Token) -> n.LiteralExpr:
        return n.LiteralExpr(text[1:-1].replace("''", "'"), span)

    @_rule
    def null(self, span: Span) -> n.LiteralExpr:
        return n.LiteralExpr(None, span)

    @_rule
    def cast(self, span: Span, expr: n.Expr, type_: str) -> n.CastExpr:
        return n.CastExpr(expr, type_, False, span)

    @_rule
    def try_cast(self, span: Span, expr: n.Expr, type_: str) -> n.CastExpr:
        return n.CastExpr(expr, type_, True, span)

    @_rule
    def nested_expr(self, _: Span, expr: n.Expr) -> n.Expr:
        return expr

    @_rule
    def member(self, span: Span, base: n.Expr, name: n.Name) -> n.Member:
        return n.Member(base, name, span)

    @_rule
    def path(self, _: Span, *parts: tuple[n.Name, ...] | n.Name) -> tuple[n.Name, ...]:
        *before, last = parts
        start = before[0] if before else ()
        assert isinstance(start, tuple)
        assert isinstance(last, n.Name)
        return (*start, last)

    @_rule
    def call(
        self,
        span: Span,
        path: tuple[n.Name, ...],
        args: tuple[tuple[n.Expr, ...], bool] | None,
        over: n.Over | None,
    ) -> n.CallExpr:
        exprs, distinct = args or ((), False)
        return n.CallExpr(path[:-1], path[-1], exprs, distinct, over, span)

    @_rule
    def arguments(self, _: Span, *args: n.Expr) -> tuple[tuple[n.Expr, ...], bool]:
        return args, False

    @_rule
    def star_arguments(self, _: Span, star: Token, *more: n.Expr) -> tuple[tuple[n.Expr, ...], bool]:
        return (n.Star(_span(star)), *more), False

    @_rule
    def distinct_argument(self, _: Span, arg: n.Expr) -> tuple[tuple[n.Expr, ...], bool]:
        return (arg,), True

    @_rule
    def over(
        self,
        span: Span,
        keys: tuple[n.Expr, ...] | None,
        order: tuple[n.OrderItem, ...] | None,
        limit: n.Duration | None,
        when: n.Expr | None,
    ) -> n.Over:
        return n.Over(keys or (), order or (), limit, when, span)

    @_rule
    def partition(self, _: Span, *keys: n.Expr) -> tuple[n.Expr, ...]:
        return keys

    @_rule
    def order(self, _: Span, *items: n.OrderItem) -> tuple[n.OrderItem, ...]:
        return items

    @_rule
    def ascending(self, _: Span, expr: n.Expr) -> n.OrderItem:
        return n.OrderItem(expr)

    @_rule
    def descending(self, _: Span, expr: n.Expr) -> n.OrderItem:
        return n.OrderItem(expr, descending=True)

    @_rule
    def limit(self, _: Span, duration: n.Duration) -> n.Duration:
        return duration

    @_rule
    def duration(self, span: Span, unit: n.Name, amount: n.Expr) -> n.Duration:
        return n.Duration(unit, amount, span)

    @_rule
    def when_condition(self, _: Span, condition: n.Expr) -> n.Expr:
        return condition

    @_rule
    def case(self, span: Span, operand: n.Expr | None, *parts: Any) -> n.CaseExpr:
        *branches, otherwise = parts
        return n.CaseExpr(operand, tuple(branches), otherwise, span)

    @_rule
    def branch(self, _: Span, when: n.Expr, then: n.Expr) -> tuple[n.Expr, n.Expr]:
        return when, then

    @_rule
    def otherwise(self, _: Span, expr: n.Expr) -> n.Expr:
        return expr

    @_rule
    def name(self, _: Span, word: Token) -> n.Name:
        return _name(word)


def is_system_timestamp(path: tuple[n.Name, ...]) -> bool:
    """Whether a dotted name is `System.Timestamp` without its parentheses."""
    return [(part.text.lower(), part.quote) for part in path] == [("system", ""), ("timestamp", "")]


def _name(word: Token) -> n.Name:
    """The name a token spells; a string used as an alias counts as a bracketed name."""
    match word[0]:
        case "[":
            name = n.Name(word[1:-1].replace("]]", "]"), "[", _span(word))
        case '"':
            name = n.Name(word[1:-1].replace('""', '"'), '"', _span(word))
        case "'":
            name = n.Name(word[1:-1].replace("''", "'"), "[", _span(word))
        case _:
            return n.Name(str(word), "", _span(word))
    if not name.text.strip() or "\n" in name.text:
        what = "has a line break in it" if name.text.strip() else "is empty"
        raise Malformed("SYNTAX", f"a name {what}", name.span)
    return name


def _whole(number: Token) -> int:
    if not number.isdecimal():
        raise Malformed("SYNTAX", f"{number} is not a whole number", _span(number))
    return int(number)
