"""The oracle: a query evaluated on complete lists of rows, straight from the text of `asa.md`.

Slow and obvious on purpose; it shares nothing with the engine but the parser and the syntax tree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from tideglass.core.errors import Source
from tideglass.lang import nodes as n

from . import joins
from .expressions import (
    Bound,
    GroupScope,
    Scope,
    aggregate,
    aggregates_in,
    analytics_in,
    canonical,
    is_users,
    ticks_of,
)
from .javascript import Functions
from .patterns import matches
from .rows import Row, Settings, in_order, ingest
from .scalars import array_argument, record_argument
from .values import OracleError, Value, identity, lookup, lossless, plain
from .windows import Window, instances, stamped

Result = TypeVar("Result")
#: The columns APPLY makes.
APPLIED = {
    "getarrayelements": ("ArrayIndex", "ArrayValue"),
    "getelements": ("ArrayIndex", "ArrayValue"),
    "getrecordproperties": ("PropertyName", "PropertyValue"),
}

Inputs = dict[str, list[dict[str, Any]]]
References = dict[str, joins.Reference]


def run(
    query: str,
    inputs: Inputs,
    reference: References | None = None,
    settings: dict[str, Any] | None = None,
    functions: dict[str, str] | None = None,
) -> dict[str, list[dict[str, Any]]]:
    """The rows of every output, ordered by (timestamp, place in the total order).

    Takes what `tideglass.testing.run` takes. Raises OracleError where the job would stop, and the
    parser's QueryError.
    """
    from tideglass.lang.parser import parse

    Scope.functions = Functions(functions or {})
    return Interpreter(parse(Source(query)), inputs, reference or {}, Settings.read(settings)).outputs()


def metrics(query: str, inputs: Inputs, settings: dict[str, Any] | None = None) -> dict[str, int]:
    """How many events were late and how many out of order, by the name of the metric (9.1).

    The query reads each input once.
    """
    from tideglass.lang.parser import parse

    interpreter = Interpreter(parse(Source(query)), inputs, {}, Settings.read(settings))
    interpreter.outputs()
    return {name: interpreter.counts[name] for name in ("LateInputEvents", "DroppedOrAdjustedEvents")}


@dataclass(frozen=True)
class Chosen:
    """What the settings choose for a step: what stamps its rows (11.4), percentages of early panes (11.6)."""

    stamp: str = ""
    percents: tuple[int, ...] = ()

    def panes_of(self, end: int, members: list[Scope]) -> list[tuple[str, list[Scope]]]:
        """The panes of a group of a window, each with the rows it has: an early one has those that arrived
        before the watermark at its percentage was past the end; without any there is no such pane."""
        early = [
            (f"early {percent}", [member for member in members if early_of(member)[percent] <= end])
            for percent in self.percents
        ]
        return [(text, rows) for text, rows in [*early, ("final", members)] if rows]


def early_of(scope: Scope) -> dict[int, int]:
    """The watermarks that the event of a scope met, if it is of one event."""
    rows = [bound.row for bound in scope.sources if bound.row is not None]
    return rows[0].early if len(rows) == 1 and not isinstance(scope, GroupScope) else {}


class Interpreter:
    """One run of one script."""

    def __init__(self, script: n.Script, inputs: Inputs, reference: References, settings: Settings) -> None:
        self.script, self.inputs, self.reference, self.settings = script, inputs, reference, settings
        self.steps = {step.name.text: step.query for step in script.steps}
        self.tables = {table.name.text: table for table in script.tables}
        self.done: dict[str, list[Row]] = {}
        self.numbers: dict[str, int] = {}
        self.left_out = 0
        self.counts: Counter[str] = Counter()

    def attempt(self, compute: Callable[[], Result], otherwise: Result) -> Result:
        """What is computed for a row; where failing rows are left out, `otherwise` for one that fails."""
        try:
            return compute()
        except OracleError:
            if not self.settings.drops_failing_rows:
                raise
            self.left_out += 1
            return otherwise

    def outputs(self) -> dict[str, list[dict[str, Any]]]:
        found: dict[str, list[Row]] = {}
        for statement in self.script.statements:
            name = output_name(statement) or "output"
            chosen = self.chosen(f"into {name}")
            if chosen == Chosen() and not lookup(self.steps, name):
                chosen = self.chosen(name)
            found.setdefault(lookup(found, name) or name, []).extend(self.query(statement, chosen))
        return {name: [plain(row.values) for row in in_order(rows)] for name, rows in found.items()}

    def chosen(self, name: str) -> Chosen:
        """What the settings choose for a step, or for an output as `into name`."""
        panes = self.settings.panes.get(name.lower(), [])
        return Chosen(self.settings.stamps.get(name.lower(), ""), tuple(sorted(set(panes))))

    def query(self, query: n.Query, chosen: Chosen | None = None) -> list[Row]:
        match query:
            case n.UnionQuery():
                return in_order(row for term in query.terms for row in self.query(term, chosen))
            case n.Select():
                return self.select(query, chosen or Chosen())

    # ------------------------------------------------------------ FROM

    def relation(self, relation: n.FromItem) -> list[Row]:
        """Rows of an input, a step or a query in parentheses, in order."""
        if relation.query is not None:
            return in_order(self.query(relation.query))
        assert relation.name is not None
        name = relation.name.text
        step = lookup(self.steps, name)
        if step is not None and relation.timestamp_by is not None:
            bare = self.steps[step]
            if not (isinstance(bare, n.Select) and bare.items == (n.StarItem(),) and not bare.joins):
                raise OracleError("TIMESTAMP BY belongs to an input")
            return self.relation(replace(bare.source, timestamp_by=relation.timestamp_by))
        if step is not None:
            if step not in self.done:
                self.done[step] = in_order(self.query(self.steps[step], self.chosen(step)))
            return self.done[step]
        return self.read_input(name, relation)

    def read_input(self, name: str, relation: n.FromItem) -> list[Row]:
        known = lookup(self.inputs, name)
        if known is None:
            raise OracleError(f"no input is named {name!r}")
        by = relation.timestamp_by
        alias = relation.alias.text if relation.alias else name

        def at(row: Row) -> Scope:
            return Scope([Bound(alias, row, [row])], 0, (), self.settings.level)

        table = lookup(self.tables, known)
        rows = ingest(
            self.inputs[known],
            known,
            self.numbers.setdefault(known, len(self.numbers)),
            self.settings,
            (lambda row: at(row).value(by.expr)) if by else None,
            (lambda row: [at(row).value(key) for key in by.over]) if by and by.over else None,
            lambda values: self.fit(known, values),
            self.counts,
        )
        for row in rows:
            row.listed = frozenset(c.name.text for c in self.tables[table].columns) if table else frozenset()
        return rows

    def fit(self, name: str, values: dict[str, Value]) -> dict[str, Value] | None:
        """The event behind the filter of CREATE TABLE (2.13): None where it does not fit."""
        table = lookup(self.tables, name)
        for column in self.tables[table].columns if table else ():
            there = lookup(values, column.name.text)
            if there is None:
                return None
            if values[there] is not None:
                values[there] = lossless(values[there], column.type.upper(), self.settings.level)
                if values[there] is None:
                    return None
        return values

    def bindings(self, relation: n.FromItem) -> list[Bound]:
        assert relation.name is not None or relation.alias is not None
        name = relation.alias or relation.name
        rows = self.relation(relation)
        return [Bound(name.text if name else "", row, rows, i) for i, row in enumerate(rows)]

    def scopes(self, select: n.Select, stamp: str) -> list[Scope]:
        level = self.settings.level
        scopes = [
            Scope([b], b.row.time, b.row.order, level)
            for b in self.seen_by_functions(select, self.bindings(select.source))
            if b.row is not None
        ]
        for item in select.joins:
            if isinstance(item, n.ApplyClause):
                scopes = [applied for scope in scopes for applied in self.apply(scope, item)]
            elif (name := item.relation.name) and (table := lookup(self.reference, name.text)):
                scopes = joins.reference_join(
                    scopes,
                    item,
                    self.reference[table],
                    lambda values, own=table: self.fit(own, values),
                    self.settings,
                    self.attempt,
                )
            else:
                rights = self.bindings(item.relation)
                scopes = joins.temporal_join(scopes, item, rights, level, self.attempt, stamp)
        return sorted(scopes, key=lambda scope: scope.order)

    def seen_by_functions(self, select: n.Select, bindings: list[Bound]) -> list[Bound]:
        """The rows without those on which an analytic function of the block fails: no function sees them."""
        calls = analytics_in(select)
        if not calls or not self.settings.drops_failing_rows or select.joins:
            return bindings
        alone = [(b, Scope([b], 0, (), self.settings.level)) for b in bindings]
        kept = [b for b, s in alone if self.attempt(lambda s=s: [s.refuses(c) for c in calls], None)]
        rows = [b.row for b in kept if b.row is not None]
        return [replace(b, stream=rows, position=i) for i, b in enumerate(kept)]

    def apply(self, scope: Scope, item: n.ApplyClause) -> list[Scope]:
        """One row per element or field (2.11)."""
        rows: list[Row | None] | None = self.attempt(lambda: list(self.members(scope, item)), None)
        if rows is None:
            return []
        if not rows and item.kind == "OUTER":
            rows.append(None)
        return [
            Scope(
                [
                    *scope.sources,
                    Bound(item.alias.text, row, [], record=True, made=APPLIED[item.function.text.lower()]),
                ],
                scope.time,
                (*scope.order, i),
                scope.level,
            )
            for i, row in enumerate(rows)
        ]

    def members(self, scope: Scope, item: n.ApplyClause) -> Iterator[Row]:
        value = scope.value(item.arg)
        if value is not None and APPLIED[item.function.text.lower()][0] == "ArrayIndex":
            elements = enumerate(array_argument(value))
            yield from (Row({"ArrayIndex": i, "ArrayValue": element}) for i, element in elements)
        elif value is not None:
            properties = record_argument(value).items()
            yield from (Row({"PropertyName": name, "PropertyValue": v}) for name, v in properties)

    # ------------------------------------------------------------ SELECT

    def select(self, select: n.Select, chosen: Chosen) -> list[Row]:
        if select.match is not None:
            source = select.source
            name = source.alias or source.name
            alias = name.text if name else ""
            return matches(select.match, self.relation(source), alias, self.settings.level, self.attempt)
        where = select.where
        scopes = [
            s
            for s in self.scopes(select, chosen.stamp)
            if where is None or self.attempt(lambda s=s: s.true(where), False)
        ]
        if select.group_by:
            scopes = self.groups(select, scopes, chosen)
        elif select.having is not None:
            named, having = aliases_of(select), select.having
            scopes = [
                s for s in scopes if self.attempt(lambda s=s: s.true(substitute(having, named, s)), False)
            ]
        projected = [(s, self.attempt(lambda s=s: self.project(select, s), None)) for s in scopes]
        return [
            Row(made[0], s.time, s.order, made[1], self.listed(select, s), early_of(s))
            for s, made in projected
            if made is not None
        ]

    def project(self, select: n.Select, scope: Scope) -> tuple[dict[str, Value], dict[str, Value]]:
        """The SELECT list: a name already taken to the left is kept (2.3, A-10)."""
        values: dict[str, Value] = {}
        metadata: dict[str, Value] = {}
        for item, name in zip(select.items, item_names(select, scope.level), strict=True):
            if isinstance(item, n.Item):
                if name not in values:
                    values[name] = scope.value(item.expr)
                continue
            for field, value in self.spread(item, scope, metadata):
                values.setdefault(field, value)
        for key in select.source.partition_by.exprs if select.source.partition_by else ():
            name = key.path[-1].text if isinstance(key, n.Column) else ""
            if lookup(values, name) is None and (not select.group_by or is_named(name, select.group_by)):
                metadata.setdefault(name, scope.value(key))
        return values, metadata

    def listed(self, select: n.Select, scope: Scope) -> frozenset[str]:
        """Columns of the result that are named, by this query or by one that a star passes on."""
        names = [name for name in item_names(select, scope.level) if name]
        for star in select.items:
            if isinstance(star, n.StarItem):
                bound = scope.source(star.path[0].text) if star.path else None
                sources = scope.sources if not star.path else [bound] if bound else []
                names += [name for each in sources if each.row for name in each.row.listed]
        return frozenset(names)

    def spread(self, item: n.StarItem, scope: Scope, metadata: dict[str, Value]) -> list[tuple[str, Value]]:
        if not item.path:
            for bound in reversed(scope.sources):
                metadata.update(bound.row.metadata if bound.row else {})
            return list(scope.star())
        bound = scope.source(item.path[0].text)
        if bound is not None and len(item.path) == 1:
            metadata.update(bound.row.metadata if bound.row else {})
            if bound.record and bound.row is None:  # OUTER APPLY keeps the row with NULLs (2.11)
                return [(name, None) for name in bound.made]
            return list(bound.row.values.items()) if bound.row else []
        record = scope.find(item.path)[1]
        return list(record.items()) if isinstance(record, dict) else []

    # ------------------------------------------------------------ GROUP BY

    def groups(self, select: n.Select, scopes: Sequence[Scope], chosen: Chosen) -> list[Scope]:
        windows, keys = self.windows_and_keys(select)
        partition_keys = select.source.partition_by.exprs if select.source.partition_by else ()
        keys = [*keys, *partition_keys]
        named, having = aliases_of(select), select.having
        scopes = [s for s in scopes if self.attempt(lambda s=s: self.computes(select, keys, s), False)]
        found: list[tuple[tuple[int, int, int, str], GroupScope]] = []
        for call, window in windows:
            for universe in self.universes(call, window, keys, scopes):
                for end, positions in instances(window, [scope.time for scope in universe]):
                    parts: dict[Any, list[Scope]] = {}
                    for i in positions:
                        identities = tuple(identity(universe[i].value(key)) for key in keys)
                        parts.setdefault(identities, []).append(universe[i])
                    for key, everyone in parts.items():
                        for pane, (text, members) in enumerate(chosen.panes_of(end, everyone)):
                            time = stamped(chosen.stamp, window, end, [member.time for member in members])
                            group = GroupScope(members, keys, time, window, named, text)
                            if having is None or self.attempt(lambda g=group: g.true(having), False):
                                found.append(((time, end, pane, repr((window.id, key))), group))
        found.sort(key=lambda pair: pair[0])
        for number, ((time, end, _, _), group) in enumerate(found):
            group.order = (time, end, 0, 0, number)
        return [group for _, group in found]

    def computes(self, select: n.Select, keys: Sequence[n.Expr], scope: Scope) -> bool:
        """True; raises OracleError for a row without keys, or one that some aggregate refuses."""
        for key in keys:
            scope.value(key)
        for call in aggregates_in((select.items, select.having)):
            if is_users(call):  # takes any value; whether it fails is for the whole group to say
                scope.event_or_value(call.args[0])
            else:
                aggregate(call, [scope])
        return True

    def universes(
        self, call: n.WindowCall | None, window: Window, keys: Sequence[n.Expr], scopes: Sequence[Scope]
    ) -> list[list[Scope]]:
        """The lists of rows in which window instances are sought.

        A sliding window follows the content of each group; a session follows all rows of the step,
        or those of one OVER key; for the others it makes no difference.
        """
        by: Sequence[n.Expr] = ()
        if window.kind == "sliding":
            by = keys
        elif window.kind == "session" and call is not None:
            by = call.over
        parts: dict[Any, list[Scope]] = {}
        for scope in scopes:
            parts.setdefault(tuple(identity(scope.value(key)) for key in by), []).append(scope)
        return list(parts.values())

    def windows_and_keys(
        self, select: n.Select
    ) -> tuple[list[tuple[n.WindowCall | None, Window]], list[n.Expr]]:
        windows: list[tuple[n.WindowCall | None, Window]] = []
        keys: list[n.Expr] = []
        for item in select.group_by:
            match item:
                case n.WindowCall():
                    windows.append((item, window_of(item)))
                case n.WindowsCall():
                    windows.extend((member, window_of(member)) for member in item.members)
                case _:
                    keys.append(item)
        snapshots = [key for key in keys if is_timestamp(key)]
        if not windows and snapshots:
            windows.append((None, Window("snapshot")))
        if not windows:
            raise OracleError("a window must be specified")
        return windows, keys


def is_named(name: str, keys: Sequence[n.GroupItem]) -> bool:
    """Whether a column of that name is among the keys of a GROUP BY."""
    return any(isinstance(key, n.Column) and key.path[-1].text.lower() == name.lower() for key in keys)


def is_timestamp(expr: n.Expr) -> bool:
    return canonical(expr, set()) == canonical(
        n.CallExpr((n.Name("System"),), n.Name("Timestamp"), ()), set()
    )


def window_of(call: n.WindowCall) -> Window:
    lengths = {name: ticks_of(duration) for name, duration in call.args}
    if call.kind == "tumbling":
        lengths["hop"] = lengths["size"]
    return Window(call.kind, **lengths, id=str(call.id.value) if call.id else None)


def output_name(query: n.Query) -> str | None:
    """INTO of the first SELECT names the output of a whole union (A-38)."""
    if isinstance(query, n.UnionQuery):
        return next((name for name in map(output_name, query.terms) if name), None)
    return query.into.text if query.into else None


def item_names(select: n.Select, level: tuple[int, int]) -> list[str]:
    """Names of the result columns (2.3, A-11); '' for a star."""
    taken = {alias_of(item, level) for item in select.items if isinstance(item, n.Item) and item.alias}
    names: list[str] = []
    for position, item in enumerate(select.items, 1):
        if not isinstance(item, n.Item):
            names.append("")
        elif item.alias:
            names.append(alias_of(item, level))
        else:
            plain_name = name = default_name(item.expr, position, level)
            number = 2
            while name in taken:
                name = f"{plain_name}{number}"
                number += 1
            taken.add(name)
            names.append(name)
    return names


def alias_of(item: n.Item, level: tuple[int, int]) -> str:
    """The name AS gives; that of a metadata property is in lower case below level 1.2 (4.9, 5.5)."""
    assert item.alias is not None
    is_metadata = (
        isinstance(item.expr, n.CallExpr) and item.expr.name.text.lower() == "getmetadatapropertyvalue"
    )
    return item.alias.text.lower() if is_metadata and level < (1, 2) else item.alias.text


def default_name(expr: n.Expr, position: int, level: tuple[int, int]) -> str:
    match expr:
        case n.Column():
            name = expr.path[-1].text
            return name.lower() if level == (1, 0) else name
        case n.Member():
            return expr.name.text
        case n.CallExpr():
            return expr.name.text.lower()
        case n.CastExpr():
            return "try_cast" if expr.lenient else "cast"
        case _:
            return f"column{position}"


def aliases_of(select: n.Select) -> dict[str, n.Expr]:
    return {
        item.alias.text.lower(): item.expr
        for item in select.items
        if isinstance(item, n.Item) and item.alias is not None
    }


def substitute(expr: n.Expr, aliases: dict[str, n.Expr], scope: Scope) -> n.Expr:
    """HAVING without GROUP BY may use an alias: a bare name that is no column becomes its expression."""
    if isinstance(expr, n.Column) and len(expr.path) == 1 and not scope.find(expr.path)[0]:
        return aliases.get(expr.path[0].text.lower(), expr)
    match expr:
        case n.Binary():
            return replace(
                expr, left=substitute(expr.left, aliases, scope), right=substitute(expr.right, aliases, scope)
            )
        case n.Unary():
            return replace(expr, operand=substitute(expr.operand, aliases, scope))
        case _:
            return expr
