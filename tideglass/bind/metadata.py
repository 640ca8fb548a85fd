"""GetMetadataPropertyValue: the metadata of an event (`asa.md` 4.9).

The engine itself knows when and in which partition an event arrived, and its EventId. A recording of events
may hold all other metadata, as the service shows them: in a record `EventHub`, `IoTHub` or `User`, or in a
field of the property's own name. A property that neither has is NULL.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tideglass.bind.catalog import HUB_RECORDS, METADATA_COLUMNS
from tideglass.bind.scope import Relation, Scope, field_of
from tideglass.core.errors import Diagnostics, Span
from tideglass.core.suggest import did_you_mean
from tideglass.core.types import BLOB_NAME, EVENT_HUB, EVENT_ID, USER, Type
from tideglass.lang import nodes as tree
from tideglass.plan.expressions import Call, Cast, Expr, Literal, Path, Ref

_ENQUEUED, _PROCESSED, _PARTITION = "EventEnqueuedUtcTime", "EventProcessedUtcTime", "PartitionId"
_BLOB_MODIFIED = "BlobLastModifiedUtcTime"
#: The properties of each record, and of each the column of the input that means the same, if there is one.
_RECORDS: dict[str, dict[str, str]] = {
    "EventHub": {
        _ENQUEUED: _ENQUEUED,
        _PROCESSED: _PROCESSED,
        _PARTITION: _PARTITION,
        "Offset": "",
        "SequenceNumber": "",
        "PartitionKey": "",
        "Publisher": "",
        "IoTConnectionDeviceId": "",
        "IoTAuthMethod": "",
        "IoTAuthGenerationId": "",
        "IoTEnqueueTime": "",
        "IoTMessageSource": "",
        "IoTConnectionModuleId": "",
        "IoTInterfaceName": "",
    },
    "IoTHub": {
        "ConnectionDeviceId": "",
        "AuthMethod": "",
        "AuthGenerationId": "",
        "EnqueuedTime": _ENQUEUED,
        "MessageSource": "",
        "ConnectionModuleId": "",
        "InterfaceName": "",
        "CorrelationId": "",
        "MessageId": "",
        "ConnectionDeviceGenerationId": "",
    },
}
_USER, _BLOB_NAME, _EVENT_ID = "User", "BlobName", "EventId"
#: Records of a message of a hub, and the fields that hold them where it is read live.
_OF_MESSAGES = {"EventHub": EVENT_HUB, _USER: USER}
#: Properties that are columns of the input as well.
_COLUMNS = (_ENQUEUED, _PROCESSED, _PARTITION, _BLOB_MODIFIED)
#: Properties that are times, from the input or from a field.
_TIMES = frozenset((_ENQUEUED, _PROCESSED, _BLOB_MODIFIED, "EnqueuedTime", "IoTEnqueueTime"))
_PATHS = (
    *(f"{record}.{name}" for record, names in _RECORDS.items() for name in names),
    *_RECORDS,
    _USER,
    f"{_USER}.name",
    *_COLUMNS,
    _BLOB_NAME,
    _EVENT_ID,
)
_PART = re.compile(r"\[([^\[\]]+)\]|([^.\[\]]+)")
_WHOLE_PATH = re.compile(rf"(?:{_PART.pattern})(?:\.(?:{_PART.pattern}))*")


def bind_metadata(call: tree.CallExpr, scope: Scope, diagnostics: Diagnostics) -> Expr:
    """The value of GetMetadataPropertyValue(input, 'path'); reports an input or a property that is none."""
    match call.args:
        case (tree.Column(path=(name,)), tree.LiteralExpr(value=str() as path)):
            relation = scope.source(name)
        case _:
            diagnostics.error(
                "METADATA_ARGUMENTS",
                "GetMetadataPropertyValue takes an input of this FROM clause and a path in quotes",
                call.span,
                "write GetMetadataPropertyValue(input, '[EventHub].[PartitionId]')",
            )
            return Literal(None, call.span)
    if relation is None or relation.metadata is None:
        known = [other.alias for other in scope.relations if other.metadata is not None]
        diagnostics.error(
            "METADATA_ARGUMENTS",
            f"{name.text!r} is no input of this FROM clause",
            call.args[0].span,
            did_you_mean(name.text, known) or "metadata belong to the rows of an input",
        )
        return Literal(None, call.span)
    parts = parts_of(path)
    value = _Event(relation, relation.metadata, scope, call.span).property(parts)
    if value is None:
        diagnostics.error(
            "UNKNOWN_METADATA",
            f"there is no metadata property {path!r}",
            call.args[1].span,
            _near(path) or f"there are {', '.join((_EVENT_ID, _USER, *_RECORDS, *_COLUMNS, _BLOB_NAME))}",
        )
        return Literal(None, call.span)
    made = {_EVENT_ID.casefold(): "EventId"}
    if HUB_RECORDS in relation.metadata and parts[-1].casefold() not in METADATA_COLUMNS:
        made |= {each.casefold(): f"properties of {each}" for each in _OF_MESSAGES}
    lacking = made.get(parts[0].casefold())
    if lacking is not None and not relation.events:
        diagnostics.error(
            "EVENT_ID_HERE" if lacking == "EventId" else "HUB_RECORD_HERE",
            f"the rows of {name.text!r} are no longer events as they arrived, and have no {lacking}",
            call.span,
            f"select GetMetadataPropertyValue(input, '{path}') AS a column where the input is read",
        )
        return Literal(None, call.span)
    return value


def parts_of(path: str) -> tuple[str, ...]:
    """The names of a path, in brackets or without; empty: it is no path.

    >>> parts_of("[User].[a.b]"), parts_of("EventHub.Offset"), parts_of("[User")
    (('User', 'a.b'), ('EventHub', 'Offset'), ())
    """
    text = path.strip()
    if _WHOLE_PATH.fullmatch(text) is None:
        return ()
    parts = tuple((part[1] or part[2]).strip() for part in _PART.finditer(text))
    if len(parts) == 1 and parts[0].partition(".")[0].casefold() in map(str.casefold, _RECORDS):
        return tuple(parts[0].split("."))  # [EventHub.Offset]
    return parts


def _near(path: str) -> str:
    """A hint for a path that is none: one of a near spelling, or one whose last name is the same."""
    name = ".".join(parts_of(path)) or path
    last = name.rpartition(".")[2].casefold()
    same = [known for known in _PATHS if known.rpartition(".")[2].casefold() == last]
    return f"did you mean {same[0]!r}?" if same else did_you_mean(name, _PATHS)


@dataclass(frozen=True, slots=True)
class _Event:
    """The events of a relation; `own_names` are the metadata the input itself has."""

    relation: Relation
    own_names: frozenset[str]
    scope: Scope
    span: Span

    def property(self, parts: tuple[str, ...]) -> Expr | None:
        """The value of a property; None for one that does not exist."""
        match tuple(part.casefold() for part in parts):
            case ("user",):
                return self.record((_USER,))
            case ("user", *_):
                return self.field((_USER, *parts[1:]))
            case ("eventid",):
                return Cast(
                    Path(self.relation.payload(self.span), (EVENT_ID,)), Type.NVARCHAR, True, self.span
                )
            case ("blobname",) if _BLOB_NAME.casefold() in self.own_names and self.relation.events:
                payload = self.relation.payload(self.span)
                return Cast(Path(payload, (BLOB_NAME,)), Type.NVARCHAR, True, self.span)
            case ("blobname",):
                return self.field((_BLOB_NAME,))
            case ("eventhub",):
                return self.first(self.record(("EventHub",)), self.known())
            case ("iothub",):
                return self.record(("IoTHub",))
            case (name,):
                column = next((known for known in _COLUMNS if known.casefold() == name), None)
                return None if column is None else self.column(column)
            case (record, name):
                return self.of_record(record, name)
            case _:
                return None

    def of_record(self, record: str, name: str) -> Expr | None:
        """A property of the record `EventHub` or `IoTHub`; both names in lower case."""
        own = next((known for known in _RECORDS if known.casefold() == record), None)
        names = _RECORDS.get(own or "", {})
        found = next((known for known in names if known.casefold() == name), None)
        if own is None or found is None:
            return None
        recorded = _typed(self.field((own, found)), found)
        column = names[found]
        if not column:
            return recorded
        is_own = column.casefold() in self.own_names
        return self.column(column) if is_own else self.first(recorded, self.column(column))

    def column(self, name: str) -> Expr:
        """A column every input has: the metadata, else the field of that name, else the engine's column."""
        engines = self.relation.time(METADATA_COLUMNS[name.casefold()], self.span)
        if name.casefold() in self.own_names:
            return engines
        return self.first(_typed(self.field((name,)), name), engines)

    def known(self) -> Expr:
        """What the engine knows of the record `EventHub`."""
        pairs = (
            (Literal(name, self.span), self.column(name)) for name in (_ENQUEUED, _PROCESSED, _PARTITION)
        )
        return Call("record.of", tuple(part for pair in pairs for part in pair), self.span)

    def record(self, keys: tuple[str, ...]) -> Expr:
        """A field that is a record; NULL if it is anything else."""
        found = self.field(keys)
        return found if found == Literal(None) else Cast(found, Type.RECORD, True, self.span)

    def field(self, keys: tuple[str, ...]) -> Expr:
        """A field of the events, NULL where they have none."""
        if keys[0] in _OF_MESSAGES and HUB_RECORDS in self.own_names:
            keys = (_OF_MESSAGES[keys[0]], *keys[1:])
            made = tuple(self.scope.environment.field_key(key) for key in keys)
            return Path(self.relation.payload(self.span), made, self.span)
        first, *inner = (self.scope.environment.field_key(key) for key in keys)
        listed = self.relation.listed(first)
        if len(listed) == 1:
            column = self.relation.read(listed[0], self.span)
            return field_of(column, tuple(inner), self.span) if inner else column
        if self.relation.open:
            return Path(self.relation.payload(self.span), (first, *inner), self.span)
        return Literal(None, self.span)

    def first(self, value: Expr, other: Expr) -> Expr:
        """`value`, or `other` where it is NULL."""
        return other if value == Literal(None) else Call("coalesce", (value, other), self.span)


def _typed(value: Expr, name: str) -> Expr:
    """A recorded property with the type it has in the service: a recording in JSON holds times as texts."""
    if value == Literal(None) or isinstance(value, Ref):
        return value
    if name in _TIMES:
        return Cast(value, Type.DATETIME, True, value.span)
    return Cast(value, Type.BIGINT, True, value.span) if name == _PARTITION else value
