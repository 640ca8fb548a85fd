"""The SELECT list: stars, default names and name conflicts (`asa.md` 2.3, A-10, A-11)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tideglass.bind.expressions import Expressions
from tideglass.bind.grouping import same
from tideglass.bind.partition_keys import HANDED, NONE, Keys
from tideglass.bind.scope import Relation, field_of
from tideglass.core.errors import Span
from tideglass.core.types import ORDER_COLUMNS, PANE, SUBSTREAM, WINDOW_ID
from tideglass.lang import nodes as tree
from tideglass.plan.expressions import Call, Case, Expr, Literal
from tideglass.plan.nodes import Named

Lift = Callable[[Expr], Expr]

#: Names of the engine's own columns, which no column of a query may take.
_RESERVED = re.compile(
    "|".join(re.escape(name) for name in (*ORDER_COLUMNS, WINDOW_ID, PANE, SUBSTREAM))
    + r"|\$[kal]\d+|\$payload.*|\$by\..*"
)


@dataclass(frozen=True, slots=True)
class BoundSelectList:
    """A bound SELECT list. `spread` is the record whose fields become the payload, if any.

    metadata: a star took over the rows of an input as they are
    """

    items: tuple[Named, ...]
    spread: Expr | None
    metadata: bool


class SelectList:
    """Binds a SELECT list from left to right.

    `lift` turns an expression over rows into one over groups; without GROUP BY it changes nothing.
    The first item of a name takes it. Where a record of unknown fields was spread further left,
    a field of the item's name in that record wins, row by row.
    """

    def __init__(self, expressions: Expressions, lift: Lift, grouped: bool) -> None:
        self._expressions = expressions
        self._diagnostics = expressions.diagnostics
        self._lift = lift
        self._grouped = grouped
        self._items: list[Named] = []
        self._spreads: list[Expr] = []
        self._from_star: dict[str, bool] = {}
        self._metadata = False

    def bind(self, items: Sequence[tree.Item | tree.StarItem], handed: Keys = NONE) -> BoundSelectList:
        """The list, and after it the keys handed on of whose names it has no columns."""
        explicit = {
            self._alias(item, item.alias)
            for item in items
            if isinstance(item, tree.Item) and item.alias is not None
        }
        for position, item in enumerate(items, 1):
            if isinstance(item, tree.StarItem):
                self._star(item)
            else:
                self._item(item, position, explicit)
        listed = {item.name.casefold() for item in self._items}
        for name, expr in handed.items():
            if name not in listed and not self._metadata:
                self._items.append(Named(HANDED + name, self._lift(self._expressions.value(expr))))
        spread = None
        if len(self._spreads) == 1:
            spread = self._spreads[0]
        elif self._spreads:
            spread = Call("record.merge", tuple(self._spreads), self._spreads[0].span)
        return BoundSelectList(tuple(self._items), spread, self._metadata)

    def _item(self, item: tree.Item, position: int, explicit: set[str]) -> None:
        expr = self._lift(self._expressions.value(item.expr))
        if item.alias is None:
            name = self._default_name(item.expr, position)
            if self._from_star.get(name):
                return  # SELECT *, a: the star has it already
            self._check_name(name, item.span)
            self._add(self._free_name(name, explicit), expr)
            return
        name = self._alias(item, item.alias)
        self._check_name(name, item.alias.span)
        if item.alias.quote == "[" and item.alias.span.start == item.expr.span.end:
            self._diagnostics.warn(
                "INDEX_AS_ALIAS",
                f"[{name}] is read as the name of the column, because the language has no subscripts",
                item.span,
                "an element of an array is GetArrayElement(a, 0), a field of a record r.name; "
                "put a blank or AS before an alias",
            )
        if name not in self._from_star:
            self._add(name, expr)
        elif self._from_star[name]:
            self._diagnostics.warn(
                "COLUMN_IGNORED",
                f"{name!r} is ignored, because the star to its left has a column of that name",
                item.span,
                f"put it to the left of the star to replace the column: SELECT ... AS {name}, *",
            )
        else:
            self._diagnostics.error(
                "DUPLICATE_COLUMN",
                f"another column is already named {name!r}",
                item.alias.span,
                "give one of them an alias of its own",
            )

    def _alias(self, item: tree.Item, alias: tree.Name) -> str:
        """The name after AS; below level 1.2 that of a metadata property is lower-cased (`asa.md` 4.9)."""
        match item.expr:
            case tree.CallExpr(name=name) if name.text.casefold() == "getmetadatapropertyvalue":
                return alias.text if self._expressions.environment.level == "1.2" else alias.text.lower()
            case _:
                return alias.text

    def _check_name(self, name: str, span: Span) -> None:
        if _RESERVED.fullmatch(name):
            message = f"{name!r} is the name of one of the engine's own columns"
            self._diagnostics.error("RESERVED_NAME", message, span, "give the column an alias without $")

    def _star(self, star: tree.StarItem) -> None:
        scope = self._expressions.scope
        source = scope.source(star.path[0]) if len(star.path) == 1 else None
        if star.path and source is None:
            record = self._expressions.value(tree.Column(star.path, star.span))
            self._spreads.append(self._lift(record))
            return
        if self._grouped:
            self._diagnostics.error(
                "STAR_WITH_GROUP_BY",
                "* cannot be used with GROUP BY",
                star.span,
                "name the grouping keys and the aggregates you want",
            )
            return
        if source is not None and source.applied:
            for column in source.columns:  # alias.* of APPLY: its two columns, not the record
                if column not in self._from_star:
                    self._add(column, source.read(column, star.span), from_star=True)
            return
        for relation in scope.relations if source is None else (source,):
            self._relation(relation, star.span)

    def _relation(self, relation: Relation, span: Span) -> None:
        if relation.applied:
            if relation.alias not in self._from_star:
                self._add(relation.alias, relation.event(span), from_star=True)
            return
        for column in relation.columns:
            if column not in self._from_star:
                self._add(column, relation.read(column, span), from_star=True)
        if relation.open:
            self._spreads.append(relation.payload(span))
        self._metadata = self._metadata or relation.metadata is not None

    def _add(self, name: str, expr: Expr, from_star: bool = False) -> None:
        """Takes `name`; a field of that name in a record spread further left wins, row by row."""
        self._from_star[name] = from_star
        fields = [(spread, field_of(spread, (name,), expr.span)) for spread in self._spreads]
        if not any(same(field, expr) for _, field in fields):
            branches = tuple(
                (Call("record.has", (spread, Literal(name, expr.span)), expr.span), field)
                for spread, field in fields
            )
            expr = Case(branches, expr, expr.span) if branches else expr
        self._items.append(Named(name, expr))

    def _free_name(self, name: str, explicit: set[str]) -> str:
        if name not in self._from_star and name not in explicit:
            return name
        number = 2
        while f"{name}{number}" in self._from_star or f"{name}{number}" in explicit:
            number += 1
        return f"{name}{number}"

    def _default_name(self, node: tree.Expr, position: int) -> str:
        key = self._expressions.environment.field_key
        match node:
            case tree.Column() if not self._expressions.scope.is_string(node):
                return key(node.path[-1].text)
            case tree.Member(name=name):
                return key(name.text)
            case tree.CallExpr(name=name):
                return name.text.lower()
            case tree.CastExpr(lenient=lenient):
                return "try_cast" if lenient else "cast"
            case _:
                return f"column{position}"
