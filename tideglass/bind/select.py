"""One SELECT: FROM, WHERE, GROUP BY, HAVING and the list, as a chain of operators (`asa.md` 2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace

from tideglass.bind import substreams
from tideglass.bind.amounts import positive_ticks
from tideglass.bind.catalog import Environment
from tideglass.bind.clauses import APPLY, GROUP_BY, GROUPED_SELECT, HAVING, ON, SELECT, WHERE
from tideglass.bind.expressions import Expressions
from tideglass.bind.grouping import Grouping
from tideglass.bind.projection import SelectList
from tideglass.bind.scope import Relation, Rows, Scope
from tideglass.bind.sources import Sources
from tideglass.bind.windows import bind_windows, split_group_by
from tideglass.core.errors import Diagnostics, Span
from tideglass.lang import nodes as tree
from tideglass.plan.nodes import Aggregate, Filter, Literal, Named, Project

_APPLY_COLUMNS = {
    "getarrayelements": ("ArrayIndex", "ArrayValue"),
    "getrecordproperties": ("PropertyName", "PropertyValue"),
}


@dataclass(frozen=True, slots=True)
class SelectBinder:
    """Binds one SELECT. FROM comes first, then WHERE, then the groups, then HAVING and the list."""

    sources: Sources
    environment: Environment

    @property
    def _diagnostics(self) -> Diagnostics:
        return self.environment.diagnostics

    def bind(self, select: tree.Select) -> Rows:
        if select.match is not None:
            return self._match(select, select.match)
        rows, relations = self._from(select)
        scope = Scope(relations, self.environment)
        self._warn_of_aliases(select, scope)
        if select.where is not None:
            condition = Expressions(scope, self.environment, WHERE).condition(select.where)
            rows = replace(rows, node=Filter(rows.node, condition))
        if select.group_by:
            return self._grouped(select, rows, scope)
        return self._plain(select, rows, scope)

    # ------------------------------------------------------------ FROM

    def _from(self, select: tree.Select) -> tuple[Rows, tuple[Relation, ...]]:
        rows, first = self.sources.bind(select.source)
        if self.sources.is_reference(select.source):
            self._diagnostics.error(
                "REFERENCE_IN_FROM",
                f"{first.own_name!r} is reference data, which cannot be read as a stream",
                select.source.span,
                "join it: FROM stream JOIN reference ON ...",
            )
        if not select.joins:
            return rows, (first,)
        relations = [replace(first, prefix=f"{first.alias}.")]
        for join in select.joins:
            relation = (
                self._apply(join, relations) if isinstance(join, tree.Apply) else self._join(join, relations)
            )
            if any(relation.alias.casefold() == other.alias.casefold() for other in relations):
                self._diagnostics.error(
                    "DUPLICATE_SOURCE",
                    f"two sources of this FROM clause are called {relation.alias!r}",
                    join.span,
                    "give one of them an alias: ... AS other",
                )
            relations.append(relation)
        self._check_star(select)
        return rows, tuple(relations)

    def _join(self, join: tree.Join, before: list[Relation]) -> Relation:
        _, relation = self.sources.bind(join.relation)
        relation = replace(relation, prefix=f"{relation.alias}.")
        self._diagnostics.error("NOT_YET_SUPPORTED", "JOIN is understood, not yet supported", join.span)
        if join.on is not None:
            scope = Scope((*before, relation), self.environment)
            Expressions(scope, self.environment, ON).condition(join.on)
        return relation

    def _apply(self, apply: tree.Apply, before: list[Relation]) -> Relation:
        name, alias = apply.function.text, apply.alias.text
        columns = _APPLY_COLUMNS.get(name.casefold())
        if columns is None:
            self._diagnostics.error(
                "UNKNOWN_FUNCTION",
                f"{name} cannot stand behind APPLY",
                apply.function.span,
                "only GetArrayElements and GetRecordProperties can",
            )
        else:
            message = f"{apply.kind} APPLY is understood, not yet supported"
            self._diagnostics.error("NOT_YET_SUPPORTED", message, apply.span)
        Expressions(Scope(tuple(before), self.environment), self.environment, APPLY).value(apply.arg)
        return Relation(alias, columns or (), columns is None, alias, prefix=f"{alias}.")

    def _check_star(self, select: tree.Select) -> None:
        joins_stream = any(
            isinstance(join, tree.Join) and not self.sources.is_reference(join.relation)
            for join in select.joins
        )
        for item in select.items:
            if joins_stream and isinstance(item, tree.StarItem) and not item.path:
                self._diagnostics.error(
                    "STAR_WITH_JOIN",
                    "SELECT * cannot be used when streams are joined",
                    item.span,
                    "write alias.* for each source you want",
                )

    def _match(self, select: tree.Select, match: tree.MatchRecognize) -> Rows:
        rows, relation = self.sources.bind(select.source)
        self._diagnostics.error(
            "NOT_YET_SUPPORTED", "MATCH_RECOGNIZE is understood, not yet supported", match.span
        )
        positive_ticks(match.limit, "LIMIT DURATION", self._diagnostics)
        expressions = Expressions(Scope((relation,), self.environment), self.environment, APPLY)
        for key in match.partition_by:
            expressions.value(key)
        names = (item.alias.text for item in match.measures if item.alias is not None)
        return Rows(Project(rows.node, tuple(Named(name, Literal(None)) for name in names)))

    # ------------------------------------------------------------ the list, without and with groups

    def _plain(self, select: tree.Select, rows: Rows, scope: Scope) -> Rows:
        node = rows.node
        if select.having is not None:
            having = Expressions(scope, self.environment, HAVING, aliases=_aliases(select))
            node = Filter(node, having.condition(select.having))
        expressions = Expressions(scope, self.environment, SELECT)
        projection = SelectList(expressions, lambda expr: expr, grouped=False).bind(select.items)
        return Rows(
            Project(node, projection.items, projection.spread),
            projection.metadata,
            substreams.carry(rows.substream_keys, projection),
        )

    def _grouped(self, select: tree.Select, rows: Rows, scope: Scope) -> Rows:
        diagnostics = self._diagnostics
        place = _span_of(select.group_by)
        split = split_group_by(select.group_by, place, diagnostics)
        keys = Expressions(scope, self.environment, GROUP_BY)
        windows = bind_windows(split.windows, keys.value, diagnostics)
        has_ids = any(window.id is not None for window in windows)
        grouping = Grouping([keys.value(key) for key in split.keys], has_ids)
        substreams.check_grouped(rows.substream_keys, grouping, place, diagnostics)

        expressions = Expressions(scope, self.environment, GROUPED_SELECT, grouping)
        select_list = SelectList(expressions, lambda expr: grouping.lift(expr, diagnostics), grouped=True)
        projection = select_list.bind(select.items)
        condition = None
        if select.having is not None:
            having = Expressions(scope, self.environment, HAVING, grouping, _aliases(select))
            condition = grouping.lift(having.condition(select.having), diagnostics)

        node = Aggregate(rows.node, windows, grouping.keys, grouping.aggregates)
        filtered = node if condition is None else Filter(node, condition)
        carried = substreams.carry_grouped(rows.substream_keys, grouping)
        return Rows(
            Project(filtered, projection.items, projection.spread),
            substream_keys=substreams.carry(carried, replace(projection, metadata=False)),
        )

    # ------------------------------------------------------------ warnings

    def _warn_of_aliases(self, select: tree.Select, scope: Scope) -> None:
        """Warns where WHERE or GROUP BY names a SELECT alias, which there means a field of the event."""
        if not any(relation.open for relation in scope.relations):
            return
        aliases = _aliases(select)
        for clause, nodes in (("WHERE", (select.where,)), ("GROUP BY", select.group_by)):
            for column in (column for node in nodes for column in _columns(node)):
                name = column.path[0].text
                alias = aliases.get(name.casefold())
                if alias is None or len(column.path) > 1 or scope.lists(name):
                    continue
                if any(name.casefold() in _words(other) for other in _columns(alias)):
                    continue
                self._diagnostics.warn(
                    "ALIAS_NOT_VISIBLE",
                    f"{name!r} in {clause} is read as a field of the event, not as the SELECT alias",
                    column.span,
                    "repeat the expression, or compute it in a WITH step before",
                )


def _aliases(select: tree.Select) -> dict[str, tree.Expr]:
    return {
        item.alias.text.casefold(): item.expr
        for item in select.items
        if isinstance(item, tree.Item) and item.alias is not None
    }


def _words(column: tree.Column) -> set[str]:
    return {name.text.casefold() for name in column.path}


def _columns(node: object) -> Iterator[tree.Column]:
    """Every column written inside a piece of the syntax tree."""
    if isinstance(node, tree.Column):
        yield node
    elif isinstance(node, tuple):
        for part in node:  # pyright: ignore[reportUnknownVariableType]
            yield from _columns(part)
    elif is_dataclass(node):
        for part in fields(node):
            yield from _columns(getattr(node, part.name))


def _span_of(items: tuple[tree.GroupItem, ...]) -> Span:
    return items[0].span.to(items[-1].span)
