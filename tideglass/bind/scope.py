"""Scopes: which names a SELECT can use, and the expression each one stands for (`asa.md` 2.2, A-09)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tideglass.bind.catalog import BLOB_NAME_METADATA, METADATA_COLUMNS, Environment
from tideglass.bind.partition_keys import HANDED
from tideglass.core.errors import Span
from tideglass.core.suggest import did_you_mean
from tideglass.core.types import BLOB_NAME, PAYLOAD, Type
from tideglass.lang import nodes as tree
from tideglass.plan.expressions import Call, Case, Cast, Expr, Literal, Path, Ref, payload_field
from tideglass.plan.nodes import Node


def field_of(record: Expr, keys: tuple[str, ...], span: Span) -> Path:
    """The field of a record; a field of a field is one path."""
    if isinstance(record, Path):
        return Path(record.base, record.keys + keys, span)
    return Path(record, keys, span)


@dataclass(frozen=True, slots=True)
class SubstreamKey:
    """A key of TIMESTAMP BY ... OVER followed through the query: `expr` None once no column holds it."""

    text: str
    expr: Expr | None


@dataclass(frozen=True, slots=True)
class BoundRows:
    """A bound query: its node, and what a reader must know about it beyond the node's columns.

    node: the plan
    metadata: names that mean metadata before fields of the event, of rows that are still events of an input;
        other metadata are looked up after the fields. None: the rows are no events
    substream_keys: the keys of TIMESTAMP BY ... OVER, as far as columns still hold them
    events: the payload is that of the event, unchanged, so that there is an EventId
    """

    node: Node
    metadata: frozenset[str] | None = None
    substream_keys: tuple[SubstreamKey, ...] = ()
    events: bool = False


@dataclass(frozen=True, slots=True)
class Relation:
    """One source in FROM, as its columns are named.

    alias: what qualifies its columns
    columns: the listed columns
    open: whether it may have fields that are not listed
    own_name: the input or the step it reads; empty for a query in parentheses
    metadata: names that mean metadata before fields of the event, of rows that are still events of an input;
        None: the rows are no events, and such names are fields
    substream_keys: the keys of TIMESTAMP BY ... OVER, as far as columns still hold them
    prefix: stands before each listed column where several relations are joined
    raw: TIMESTAMP BY is bound: every column is a field of the event as it arrived
    applied: the alias of APPLY: its columns are found by the alias only, and the alias alone is all of them
        as a record
    reference: reference data, whose rows have no time
    handed: keys of its PARTITION BY that are no columns of it (`bind.partition_keys`)
    events: the payload is that of the event, unchanged, so that there is an EventId
    """

    alias: str
    columns: tuple[str, ...] = ()
    open: bool = True
    own_name: str = ""
    metadata: frozenset[str] | None = None
    substream_keys: tuple[SubstreamKey, ...] = ()
    prefix: str = ""
    raw: bool = False
    applied: bool = False
    reference: bool = False
    handed: frozenset[str] = frozenset()
    events: bool = False

    @classmethod
    def of(cls, rows: BoundRows, alias: str, own_name: str = "") -> Relation:
        columns = tuple(column for column in rows.node.columns if not column.startswith(HANDED))
        return cls(
            alias,
            columns,
            rows.node.open,
            own_name or alias,
            rows.metadata,
            rows.substream_keys,
            events=rows.events,
        )

    def listed(self, name: str) -> list[str]:
        """Listed columns `name` may mean: the exact one, else all that differ by case only."""
        if name in self.columns:
            return [name]
        alike = [column for column in self.columns if column.casefold() == name.casefold()]
        return [HANDED + name.casefold()] if not alike and name.casefold() in self.handed else alike

    def read(self, column: str, span: Span) -> Expr:
        """The value of a listed column."""
        return payload_field(column, span=span) if self.raw else Ref(self.prefix + column, span)

    def payload(self, span: Span) -> Ref:
        return Ref(self.prefix + PAYLOAD, span)

    def time(self, column: str, span: Span) -> Ref:
        """One of the engine's own columns ($ts, $arrival, ...) of this relation."""
        return Ref(self.prefix + column, span)

    def event(self, span: Span) -> Expr:
        """The whole row as a record: listed columns first, then fields that only the payload has.

        In an `applied` relation it is NULL where OUTER APPLY found nothing.
        """
        if self.applied:
            pairs = [(Literal(column, span), self.read(column, span)) for column in self.columns]
            record = Call("record.of", tuple(part for pair in pairs for part in pair), span)
            nothing = Call("isnull", (self.read(self.columns[0], span),), span)
            return Case(((nothing, Literal(None, span)),), record, span)
        if not self.columns:
            return self.payload(span) if self.open else Call("record.of", (), span)
        parts: list[Expr] = []
        for column in self.columns:
            parts += (Literal(column, span), self.read(column, span))
        record = Call("record.of", tuple(parts), span)
        return Call("record.merge", (record, self.payload(span)), span) if self.open else record


class Scope:
    """The relations of one FROM clause and the names they define.

    Every lookup yields an expression; what cannot be resolved is reported and yields NULL, so that
    binding goes on and finds the next error.
    """

    def __init__(self, relations: tuple[Relation, ...], environment: Environment) -> None:
        self.relations = relations
        self.environment = environment
        self._diagnostics = environment.diagnostics

    def source(self, name: tree.Name) -> Relation | None:
        """The relation qualified by `name`: an exact match first, else one that differs by case."""
        for relation in self.relations:
            if relation.alias and relation.alias == name.text:
                return relation
        for relation in self.relations:
            if relation.alias and relation.alias.casefold() == name.text.casefold():
                return relation
        return None

    def lists(self, name: str) -> bool:
        """Whether some relation has a listed column of that name, or APPLY made a record of that name."""
        return self._applied(name) is not None or any(
            relation.listed(name) for relation in self.relations if not relation.applied
        )

    @property
    def is_open(self) -> bool:
        """Whether some relation may have fields nobody listed."""
        return any(relation.open for relation in self.relations)

    def _applied(self, name: str) -> Relation | None:
        """The relation of APPLY with that alias."""
        found = [r for r in self.relations if r.applied and r.alias.casefold() == name.casefold()]
        return found[0] if found else None

    def is_string(self, column: tree.Column) -> bool:
        """Whether a double-quoted word is a string literal (A-08).

        It is an identifier when a listed column has that name, when it contains brackets, or when it
        is part of a dotted name.
        """
        name = column.path[0]
        if len(column.path) > 1 or name.quote != '"':
            return False
        return not (self.lists(name.text) or "[" in name.text or "]" in name.text)

    def column(self, column: tree.Column) -> Expr:
        """The value a dotted name stands for: `source.column.field...`, or without the source."""
        path, span = column.path, column.span
        first, *others = path
        relation = self.source(first) if others else None
        if relation is not None:
            return self._walk(self._column_of(relation, others[0], span), others[1:], span)
        if others:
            self._warn_of_hidden_name(first, others[0], span)
        return self._walk(self._unqualified(first, span), others, span)

    def _warn_of_hidden_name(self, name: tree.Name, field: tree.Name, span: Span) -> None:
        if self.lists(name.text):
            return
        for relation in self.relations:
            if relation.open and relation.own_name.casefold() == name.text.casefold():
                self._diagnostics.warn(
                    "SOURCE_HAS_ALIAS",
                    f"{name.text!r} is called {relation.alias!r} in this SELECT; "
                    f"here it is read as a field named {name.text!r}",
                    span,
                    f"write {relation.alias}.{field.text}",
                )

    def _walk(self, base: Expr, names: Sequence[tree.Name], span: Span) -> Expr:
        keys = tuple(self.environment.field_key(name.text) for name in names)
        return field_of(base, keys, span) if keys else base

    def _unqualified(self, name: tree.Name, span: Span) -> Expr:
        applied = self._applied(name.text)
        if applied is not None:
            return applied.event(span)
        relations = [relation for relation in self.relations if not relation.applied]
        exact = [relation for relation in relations if name.text in relation.columns]
        owners = exact or [relation for relation in relations if relation.listed(name.text)]
        if not owners:
            owners = [relation for relation in relations if relation.open]
        if len(owners) == 1:
            return self._column_of(owners[0], name, span)
        if len(owners) > 1 and self.source(name) is not None:
            self._diagnostics.error(
                "SOURCE_AS_VALUE",
                f"{name.text!r} is a source and no value",
                span,
                f"name one of its columns, as in {name.text}.column; "
                "DATEDIFF between sources stands in ON only",
            )
            return Literal(None, span)
        if len(owners) > 1:
            choices = " or ".join(f"{relation.alias}.{name.text}" for relation in owners)
            self._diagnostics.error(
                "AMBIGUOUS_COLUMN", f"{name.text!r} may belong to several sources", span, f"write {choices}"
            )
            return Literal(None, span)
        for relation in self.relations:
            if relation.metadata is not None and name.text.casefold() in METADATA_COLUMNS:
                return self._column_of(relation, name, span)
        return self._unknown(name, self.relations, span)

    def _column_of(self, relation: Relation, name: tree.Name, span: Span) -> Expr:
        found = relation.listed(name.text)
        if len(found) == 1:
            return relation.read(found[0], span)
        if found:
            self._diagnostics.error(
                "AMBIGUOUS_COLUMN",
                f"{name.text!r} may mean " + " or ".join(repr(column) for column in found),
                span,
                "spell the column exactly as it was named",
            )
            return Literal(None, span)
        key = name.text.casefold()
        metadata = None
        if relation.metadata is not None and key in METADATA_COLUMNS:
            metadata = relation.time(METADATA_COLUMNS[key], span)
            if not relation.open or key in relation.metadata:
                return metadata
        if key == BLOB_NAME_METADATA and relation.events and key in (relation.metadata or ()):
            return Cast(Path(relation.payload(span), (BLOB_NAME,)), Type.NVARCHAR, True, span)
        if not relation.open:
            return self._unknown(name, (relation,), span)
        field = Path(relation.payload(span), (self.environment.field_key(name.text),), span)
        return field if metadata is None else Call("coalesce", (field, metadata), span)

    def _unknown(self, name: tree.Name, relations: tuple[Relation, ...], span: Span) -> Expr:
        columns = [column for relation in relations for column in relation.columns]
        where = " or ".join(repr(relation.alias) for relation in relations if relation.alias)
        hint = did_you_mean(name.text, columns)
        if not hint and columns:
            hint = "there are " + ", ".join(repr(column) for column in columns[:8])
        self._diagnostics.error(
            "UNKNOWN_COLUMN",
            f"no column is named {name.text!r}" + (f" in {where}" if where else ""),
            span,
            hint,
        )
        return Literal(None, span)
