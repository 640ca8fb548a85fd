"""What the binder knows before it reads the query: the inputs of the job and the compatibility level."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tideglass.core.errors import Diagnostics, Source, Span
from tideglass.core.types import ARRIVAL, BLOB_NAME, EVENT_HUB, PARTITION, Type
from tideglass.functions.callables import PythonCallable, UserCode
from tideglass.functions.javascript import called, is_aggregate

#: Metadata of an event from its broker, by the name in lower case, with the engine's column that holds it.
METADATA_COLUMNS: Mapping[str, str] = {
    "partitionid": PARTITION,
    "eventenqueuedutctime": ARRIVAL,
    "bloblastmodifiedutctime": ARRIVAL,
    "eventprocessedutctime": ARRIVAL,
}
#: Another, in lower case, of an input of blobs: the scan makes it.
BLOB_NAME_METADATA = "blobname"
#: The name that says that `EventHub` and `User` are of the message, not fields of the payload.
HUB_RECORDS = "$eventhub"
#: When an event was processed is no function of the events, so no input has it: the field of that name
#: stands, as a recording has it, or else the arrival time.
_IN_NO_INPUT = "eventprocessedutctime"


def metadata_in(*columns: str) -> frozenset[str]:
    """The names of the metadata that are in these columns of the engine.

    >>> metadata_in("$partition")
    frozenset({'partitionid'})
    """
    names = {name for name, column in METADATA_COLUMNS.items() if column in columns and name != _IN_NO_INPUT}
    if EVENT_HUB in columns:
        names = (names - {"bloblastmodifiedutctime"}) | {HUB_RECORDS}
    return frozenset(names | ({BLOB_NAME_METADATA} if BLOB_NAME in columns else set()))


@dataclass(frozen=True, slots=True)
class InputInfo:
    """An input of the job.

    name: its name
    kind: `stream` or `reference`
    columns: the columns of its events, and naming another one is an error; None: events may have any fields
        (the usual case)
    metadata: names of the metadata this input has; they stand before fields of the event (`asa.md` 4.9).
        Other metadata are looked up after the fields
    """

    name: str
    kind: str = "stream"
    columns: tuple[str, ...] | None = None
    metadata: frozenset[str] = metadata_in(ARRIVAL, PARTITION)


@dataclass(frozen=True, slots=True)
class UserFunction:
    """A function of the job, named as its author spells it; an `aggregate` is called as uda.name.

    python: the function, if it is one of Python.
    """

    name: str
    aggregate: bool
    python: PythonCallable | None = None

    @property
    def called(self) -> str:
        """How a query calls it."""
        return called(self.name, self.aggregate)


@dataclass(slots=True)
class Environment:
    """Everything the parts of the binder share while one script is bound.

    Names of inputs and functions are matched without regard to case. The plan uses the catalogue's spelling;
    without a catalogue, the first spelling in the text.

    source: the text of the script
    level: the compatibility level, such as `1.2`
    known_inputs: the inputs there are, by name; None: any name that is no step is an input of a stream
    known_functions: the user's own functions, by name; None: there are none
    known_outputs: the outputs there are; None: any name may be an output
    diagnostics: errors and warnings found so far
    payload_types: columns of CREATE TABLE with their types, by input
    """

    source: Source
    level: str
    known_inputs: Mapping[str, InputInfo] | None
    known_functions: Mapping[str, UserFunction] | None = None
    known_outputs: tuple[str, ...] | None = None
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    payload_types: dict[str, tuple[tuple[str, Type], ...]] = field(
        default_factory=dict[str, tuple[tuple[str, Type], ...]]
    )
    _met: dict[str, InputInfo] = field(default_factory=dict[str, InputInfo])

    @classmethod
    def of(
        cls,
        source: Source,
        inputs: Mapping[str, InputInfo] | None,
        level: str,
        functions: Mapping[str, UserCode] | None = None,
        outputs: Iterable[str] | None = None,
    ) -> Environment:
        known_inputs = None if inputs is None else {name.casefold(): info for name, info in inputs.items()}
        known_functions = None
        if functions is not None:
            made = [
                UserFunction(name, False, code)
                if isinstance(code, PythonCallable)
                else UserFunction(name, is_aggregate(code))
                for name, code in functions.items()
            ]
            known_functions = {function.name.casefold(): function for function in made}
        known_outputs = None if outputs is None else tuple(outputs)
        return cls(source, level, known_inputs, known_functions, known_outputs)

    @property
    def lower_cases_fields(self) -> bool:
        """Level 1.0 lower-cases the field names of events (`asa.md` 2.2)."""
        return self.level == "1.0"

    def field_key(self, text: str) -> str:
        """The field of an event that `text` names."""
        return text.lower() if self.lower_cases_fields else text

    def unreported(self) -> Environment:
        """The same environment for binding something a second time, with its errors already reported."""
        return replace(self, diagnostics=Diagnostics())

    def words(self, span: Span) -> str:
        """What the user wrote there."""
        return self.source.text[span.start : span.end]

    def input(self, name: str) -> InputInfo | None:
        """The input called `name`, or None when the catalogue has no such input."""
        key = name.casefold()
        if self.known_inputs is not None:
            return self.known_inputs.get(key)
        return self._met.setdefault(key, InputInfo(name))

    def function(self, name: str, aggregate: bool) -> UserFunction | None:
        """The user's function called `name`, of either kind; None if there is none.

        aggregate: the kind that is wanted, which any name is when nothing is known of them.
        """
        if self.known_functions is None:
            return UserFunction(name, aggregate)
        return self.known_functions.get(name.casefold())
