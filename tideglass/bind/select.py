"""One SELECT: FROM, WHERE, GROUP BY, HAVING and the list, as a chain of operators (`asa.md` 2)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from tideglass.bind import substreams
from tideglass.bind.analytics import Analytics
from tideglass.bind.catalog import Environment
from tideglass.bind.clauses import APPLY, GROUP_BY, GROUPED_SELECT, HAVING, PARTITION_BY, SELECT, WHERE
from tideglass.bind.durations import positive_ticks
from tideglass.bind.expressions import Expressions
from tideglass.bind.grouping import GroupBinding
from tideglass.bind.joins import JoinChain, without_prefix
from tideglass.bind.partition_keys import Keys, partition_keys
from tideglass.bind.patterns.match_recognize import bind_match
from tideglass.bind.patterns.rules import check_pattern
from tideglass.bind.projection import SelectList
from tideglass.bind.scope import BoundRows, Relation, Scope
from tideglass.bind.sources import Sources
from tideglass.bind.windows import bind_windows, split_group_by
from tideglass.core.errors import Diagnostics, Span
from tideglass.core.types import Type
from tideglass.lang import nodes as tree
from tideglass.plan.expressions import Cast, Literal, Ref
from tideglass.plan.nodes import APPLY_COLUMNS, Aggregate, Apply, Filter, Named, Projection

#: Names of table functions in public walkthroughs of earlier days (`asa.md` 2.11).
_OLDER_NAMES = {"getelements": "getarrayelements"}


@dataclass(frozen=True, slots=True)
class SelectBinder:
    """Binds one SELECT. FROM first, then WHERE, then the groups, then HAVING and the list."""

    sources: Sources
    environment: Environment

    @property
    def _diagnostics(self) -> Diagnostics:
        return self.environment.diagnostics

    def bind(self, select: tree.Select, handed: Collection[str] = ()) -> BoundRows:
        """The rows of a SELECT; handed: keys of its PARTITION BY that a reader asks for (`handing`)."""
        if select.match is not None:
            return self._match(select, select.match)
        analytics = Analytics()
        rows, relations = self._from(select, analytics)
        scope = Scope(relations, self.environment)
        self._warn_of_aliases(select, scope)
        if select.where is not None:
            condition = Expressions(scope, self.environment, WHERE, analytics=analytics).condition(
                select.where
            )
            rows = replace(rows, node=Filter(rows.node, condition))
        bind_rest = self._grouped if select.group_by else self._plain
        keys = {name: expr for name, expr in partition_keys(select.source).items() if name in handed}
        bound = bind_rest(select, rows, scope, analytics, keys)
        return replace(bound, node=analytics.computed(bound.node))

    # ------------------------------------------------------------ FROM

    def _from(self, select: tree.Select, analytics: Analytics) -> tuple[BoundRows, tuple[Relation, ...]]:
        rows, first = self.sources.bind(select.source)
        if self.sources.is_reference(select.source):
            self._diagnostics.error(
                "REFERENCE_IN_FROM",
                f"{first.own_name!r} is reference data, which cannot be read as a stream",
                select.source.span,
                "join it: FROM stream JOIN reference ON ...",
            )
        joins = [place for place, join in enumerate(select.joins) if isinstance(join, tree.JoinClause)]
        joined = bool(joins)
        relations = [replace(first, prefix=f"{first.alias}.") if joined else first]
        analytics.enter(relations[0], rows.node)
        chain = JoinChain(self.environment, self.sources.partition_keys(select.source, first))
        for place, join in enumerate(select.joins):
            if isinstance(join, tree.ApplyClause):
                # before the first join the rows themselves have no prefixes yet
                prefix = first.alias + "." if joined and place < joins[0] else ""
                rows, relation = self._apply(join, rows, relations, prefix, analytics)
            else:
                rows, relation = self._join(join, rows, relations, chain, analytics)
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

    def _join(
        self,
        join: tree.JoinClause,
        rows: BoundRows,
        before: list[Relation],
        chain: JoinChain,
        analytics: Analytics,
    ) -> tuple[BoundRows, Relation]:
        is_reference = self.sources.is_reference(join.relation)
        bind = self.sources.bind_reference if is_reference else self.sources.bind
        right, relation = bind(join.relation)
        relation = replace(relation, prefix=f"{relation.alias}.")
        if is_reference:
            analytics.later[relation.alias.casefold()] = "JOIN"
            return chain.lookup(join, rows, right, (*before, relation), analytics), relation
        analytics.enter(relation, right.node)
        return chain.join(join, rows, right, (*before, relation), analytics), relation

    def _apply(
        self,
        apply: tree.ApplyClause,
        rows: BoundRows,
        before: list[Relation],
        prefix: str,
        analytics: Analytics,
    ) -> tuple[BoundRows, Relation]:
        """The rows APPLY makes, and its alias.

        prefix: what a join that follows puts before the columns of `rows`.
        """
        written, alias = apply.function.text, apply.alias.text
        name = _OLDER_NAMES.get(written.casefold(), written.casefold())
        scope = Scope(tuple(before), self.environment)
        argument = Expressions(scope, self.environment, APPLY, analytics=analytics).value(apply.arg)
        argument = without_prefix(argument, prefix)
        columns = APPLY_COLUMNS.get(name)
        if columns is None:
            self._diagnostics.error(
                "UNKNOWN_FUNCTION",
                f"{written} cannot stand after APPLY",
                apply.function.span,
                "only GetArrayElements and GetRecordProperties can",
            )
            return rows, Relation(alias, own_name=alias, prefix=f"{alias}.")
        wanted = Type.ARRAY if name == "getarrayelements" else Type.RECORD
        node = Apply(
            rows.node,
            name,
            Cast(argument, wanted, span=apply.arg.span),
            alias,
            apply.kind == "OUTER",
            apply.span,
        )
        relation = Relation(alias, columns, False, alias, prefix=f"{prefix}{alias}.", applied=True)
        analytics.later[alias.casefold()] = "APPLY"
        return replace(rows, node=node), relation

    def _check_star(self, select: tree.Select) -> None:
        joins_stream = any(
            isinstance(join, tree.JoinClause) and not self.sources.is_reference(join.relation)
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

    # ------------------------------------------------------------ MATCH_RECOGNIZE

    def _match(self, select: tree.Select, match: tree.MatchRecognize) -> BoundRows:
        rows, relation = self.sources.bind(select.source)
        errors_before = len(self._diagnostics.errors)
        check_pattern(select, match, self._diagnostics)
        limit_ticks = positive_ticks(match.limit, "LIMIT DURATION", self._diagnostics)
        keys = Expressions(Scope((relation,), self.environment), self.environment, PARTITION_BY)
        partition_by = tuple(keys.value(key) for key in match.partition_by)
        substreams.check_matched(rows.substream_keys, partition_by, match.span, self._diagnostics)
        if limit_ticks is not None and len(self._diagnostics.errors) == errors_before:
            return bind_match(match, rows, relation, partition_by, limit_ticks, self.environment)
        names = (item.alias.text for item in match.measures if item.alias is not None)
        return BoundRows(Projection(rows.node, tuple(Named(name, Literal(None)) for name in names)))

    # ------------------------------------------------------------ the list, without and with groups

    def _plain(
        self, select: tree.Select, rows: BoundRows, scope: Scope, analytics: Analytics, handed: Keys
    ) -> BoundRows:
        node = rows.node
        if select.having is not None:
            having = Expressions(
                scope, self.environment, HAVING, aliases=_aliases(select), analytics=analytics
            )
            node = Filter(node, having.condition(select.having))
        expressions = Expressions(scope, self.environment, SELECT, analytics=analytics)
        projection = SelectList(expressions, lambda expr: expr, grouped=False).bind(select.items, handed)
        return BoundRows(
            Projection(node, projection.items, projection.spread),
            rows.metadata if projection.metadata else None,
            substreams.carry(rows.substream_keys, projection),
            events=rows.events and projection.metadata and isinstance(projection.spread, Ref),
        )

    def _grouped(
        self, select: tree.Select, rows: BoundRows, scope: Scope, analytics: Analytics, handed: Keys
    ) -> BoundRows:
        diagnostics = self._diagnostics
        place = _span_of(select.group_by)
        split = split_group_by(select.group_by, place, diagnostics)
        keys = Expressions(scope, self.environment, GROUP_BY, analytics=analytics)
        windows = bind_windows(split.windows, keys.value, diagnostics)
        has_ids = any(window.id is not None for window in windows)
        grouping = GroupBinding([keys.value(key) for key in split.keys], has_ids, _aliases(select).keys())
        substreams.check_grouped(rows.substream_keys, grouping, place, diagnostics)

        expressions = Expressions(scope, self.environment, GROUPED_SELECT, grouping, analytics=analytics)
        select_list = SelectList(expressions, lambda expr: grouping.lift(expr, diagnostics), grouped=True)
        projection = select_list.bind(select.items, handed)
        condition = None
        if select.having is not None:
            having = Expressions(scope, self.environment, HAVING, grouping, _aliases(select), analytics)
            condition = grouping.lift(having.condition(select.having), diagnostics)

        node = Aggregate(rows.node, windows, grouping.keys, grouping.aggregates)
        filtered = node if condition is None else Filter(node, condition)
        carried = substreams.carry_grouped(rows.substream_keys, grouping)
        return BoundRows(
            Projection(filtered, projection.items, projection.spread),
            substream_keys=substreams.carry(carried, replace(projection, metadata=False)),
        )

    # ------------------------------------------------------------ warnings

    def _warn_of_aliases(self, select: tree.Select, scope: Scope) -> None:
        """Warns where an alias of the SELECT list is named in a place where it means a field of the event."""
        if not scope.is_open:
            return
        for clause, node, aliases in _places_without_aliases(select):
            for column in tree.parts(node, tree.Column):
                name = column.path[0].text
                alias = aliases.get(name.casefold())
                if alias is None or len(column.path) > 1 or scope.lists(name):
                    continue
                if any(name.casefold() in _words(other) for other in tree.parts(alias, tree.Column)):
                    continue
                self._diagnostics.warn(
                    "ALIAS_NOT_VISIBLE",
                    f"{name!r} in {clause} is read as a field of the event, not as the SELECT alias",
                    column.span,
                    "repeat the expression, or compute it in a WITH step before",
                )


def _places_without_aliases(
    select: tree.Select,
) -> Iterator[tuple[str, tree.Expr | tree.GroupItem | None, dict[str, tree.Expr]]]:
    """Clauses that cannot read SELECT aliases, each with the aliases one may expect to be read there."""
    aliases = _aliases(select)
    yield "WHERE", select.where, aliases
    for key in select.group_by:
        yield "GROUP BY", key, aliases
    if select.group_by:
        return  # what is no key there is an error
    before: dict[str, tree.Expr] = {}
    for item in select.items:
        if isinstance(item, tree.Item):
            yield "SELECT", item.expr, dict(before)
            if item.alias is not None and not isinstance(item.expr, tree.Column):
                before[item.alias.text.casefold()] = item.expr


def _aliases(select: tree.Select) -> dict[str, tree.Expr]:
    return {
        item.alias.text.casefold(): item.expr
        for item in select.items
        if isinstance(item, tree.Item) and item.alias is not None
    }


def _words(column: tree.Column) -> set[str]:
    return {name.text.casefold() for name in column.path}


def _span_of(items: tuple[tree.GroupItem, ...]) -> Span:
    return items[0].span.to(items[-1].span)
