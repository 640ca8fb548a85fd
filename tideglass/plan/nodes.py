"""The plan: what a bound query means, as trees of expressions and relational operators.

The binder makes it, placement cuts it into stages, `to_sql` turns its expressions into programs. Names are
resolved and windows are in ticks. Types are not resolved: they belong to values and are found chunk by chunk,
when a program meets its rows.

**Columns.** Every operator makes a table with *listed* columns (`columns`, known by name) and, when
`open`, also the column `$payload`: a record holding the fields nobody listed, as the events of a
schemaless input have them. A listed column always shadows a payload field of the same name. All
tables carry `$ts` (System.Timestamp()) and the other order columns of `core.types`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from tideglass.core.errors import Span
from tideglass.core.tags import added_field, tag
from tideglass.core.types import ARRIVAL, PARTITION, PAYLOAD, SYSTEM_TIMESTAMP, Type
from tideglass.plan.calls import AggregateCall, AnalyticCall
from tideglass.plan.expressions import Expr, span_field
from tideglass.plan.output_timestamp import OutputTimestamp, PairTimestamp
from tideglass.plan.patterns import MatchedValue, PatternState, PatternVariable
from tideglass.plan.windows import Window


@tag("Named")
@dataclass(frozen=True, slots=True)
class Named:
    """An output column and the expression that makes it."""

    name: str
    expr: Expr


# ---------------------------------------------------------------- operators


@tag("Scan")
@dataclass(frozen=True, slots=True)
class InputScan:
    """An input after its time policies.

    `reader` identifies a reader of the input (`asa.md` 2.4): scans with equal readers share one.

    input: the name of the input
    timestamp: TIMESTAMP BY; None: arrival time
    over: keys of TIMESTAMP BY ... OVER; empty: no substreams
    partition_by: PARTITION BY of the source
    payload_types: columns of CREATE TABLE with their types; an event that does not fit them is rejected by
        the deserializer (`asa.md` 2.13), and the relation is open all the same
    columns: the listed columns
    open: events may have fields that are not listed
    span: where the source stands in the text
    """

    input: str
    timestamp: Expr | None = None
    over: tuple[Expr, ...] = ()
    partition_by: tuple[Expr, ...] = ()
    payload_types: tuple[tuple[str, Type], ...] = ()
    columns: tuple[str, ...] = ()
    open: bool = True
    span: Span = span_field()


@tag("StepRef")
@dataclass(frozen=True, slots=True)
class StepRef:
    """The rows of a named step, shared by all its readers.

    name: the step
    columns: its listed columns
    open: it may have fields that are not listed
    span: where it is named in the text
    """

    name: str
    columns: tuple[str, ...]
    open: bool
    span: Span = span_field()


@tag("Filter")
@dataclass(frozen=True, slots=True)
class Filter:
    child: Node
    condition: Expr

    @property
    def columns(self) -> tuple[str, ...]:
        return self.child.columns

    @property
    def open(self) -> bool:
        return self.child.open


@tag("Project")
@dataclass(frozen=True, slots=True)
class Projection:
    """Listed columns `items`; `spread`, if there is one, is a record expression that becomes `$payload`.

    Several spreads of one SELECT are merged into one expression with `record.merge` (first wins).
    """

    child: Node
    items: tuple[Named, ...]
    spread: Expr | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(item.name for item in self.items)

    @property
    def open(self) -> bool:
        return self.spread is not None


@tag("Aggregate")
@dataclass(frozen=True, slots=True)
class Aggregate:
    """GROUP BY: one row per window and group, stamped with the window's end unless another time is chosen.

    HAVING and the SELECT list are a Filter and a Projection above it. When a window has an id, there is a
    column `$window`.

    child: the rows it reads
    windows: one window, or the members of Windows(...)
    keys: the grouping keys, named $k0, $k1, ...
    aggregates: the aggregates, named $a0, $a1, ...
    output_timestamp: the time of a row
    early_percents: percentages, ascending: a row more for each, when so many of the events in flight are past
        the window
    """

    child: Node
    windows: tuple[Window, ...]
    keys: tuple[Named, ...]
    aggregates: tuple[tuple[str, AggregateCall], ...]
    output_timestamp: OutputTimestamp = added_field(default=OutputTimestamp.END_OF_WINDOW)
    early_percents: tuple[int, ...] = added_field(default=())

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(key.name for key in self.keys) + tuple(name for name, _ in self.aggregates)

    @property
    def open(self) -> bool:
        return False


@tag("Analytic")
@dataclass(frozen=True, slots=True)
class Analytic:
    """The rows of `child` with the values of the calls, as columns $l0, $l1, ... (`asa.md` 4.2)."""

    child: Node
    calls: tuple[tuple[str, AnalyticCall], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.child.columns + tuple(name for name, _ in self.calls)

    @property
    def open(self) -> bool:
        return self.child.open


@tag("Apply")
@dataclass(frozen=True, slots=True)
class Apply:
    """A row for each element of an array, or for each field of a record (`asa.md` 2.11).

    It adds two columns: `alias.ArrayIndex` and `alias.ArrayValue`, or `alias.PropertyName` and
    `alias.PropertyValue`.

    child: the rows it reads
    function: `getarrayelements` or `getrecordproperties`
    argument: the array or record; it is NULL or of the right type
    alias: stands before the names of the two columns
    outer: a row without elements stays, with NULLs
    span: where it stands in the text
    """

    child: Node
    function: str
    argument: Expr
    alias: str
    outer: bool = False
    span: Span = span_field()

    @property
    def made(self) -> tuple[str, str]:
        """The columns it adds: the place or name, and the value."""
        return applied_columns(self.function, self.alias)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.child.columns + self.made

    @property
    def open(self) -> bool:
        return self.child.open


@tag("TimeBound")
@dataclass(frozen=True, slots=True)
class TimeBound:
    """lowest <= boundaries of a unit crossed from `base` to the right row <= highest.

    Boundaries lie at every whole number of `unit_ticks` from `origin_ticks` (`asa.md` 2.8, A-25).

    base: the column of the left rows with the timestamp meant, `<alias>.$ts`
    unit_ticks: the unit
    origin_ticks: one of the boundaries
    lowest: the least number; None: no limit
    highest: the largest number; None: no limit
    """

    base: str
    unit_ticks: int
    origin_ticks: int
    lowest: int | None
    highest: int | None


@tag("Join")
@dataclass(frozen=True, slots=True)
class Join:
    """Pairs of rows of two streams that lie close enough in time (`asa.md` 2.8).

    The columns of a side are named `<prefix><column>` here: its listed ones, its payload (`a.$payload`) and
    its engine columns (`a.$ts`). A side that is a join already has no prefix. `$ts` of a pair is the later
    of both unless another is chosen.

    left: the rows of the left side
    right: the rows of the right side
    kind: `inner` or `left`
    left_prefix: stands before columns of the left side; empty for a side that is a join
    right_prefix: stands before columns of the right side
    keys: values of left and right that must be equal
    bounds: bounds on the difference of times; all must hold
    condition: what else ON asks for; None: nothing
    lower_ticks: the least difference right.$ts - left.$ts of a pair
    upper_ticks: the largest difference
    unmatched_ticks: `$ts` of a left row without a match is its own plus these ticks
    output_timestamp: the time of a pair
    """

    left: Node
    right: Node
    kind: str
    left_prefix: str
    right_prefix: str
    keys: tuple[tuple[Expr, Expr], ...]
    bounds: tuple[TimeBound, ...]
    condition: Expr | None
    lower_ticks: int
    upper_ticks: int
    unmatched_ticks: int
    output_timestamp: PairTimestamp = added_field(default=PairTimestamp.LATER)

    @property
    def columns(self) -> tuple[str, ...]:
        columns: list[str] = []
        for side, prefix in ((self.left, self.left_prefix), (self.right, self.right_prefix)):
            columns += [prefix + column for column in side.columns]
            columns += [prefix + PAYLOAD] if side.open else []
            columns += [prefix + column for column in (SYSTEM_TIMESTAMP, ARRIVAL, PARTITION) if prefix]
        return tuple(columns)

    @property
    def open(self) -> bool:
        return False


@tag("Lookup")
@dataclass(frozen=True, slots=True)
class Lookup:
    """Rows joined with reference data (`asa.md` 2.9).

    Columns are named as those of a Join. Each result row has the time and the position of the stream's row.
    The `$ts` of a row decides which snapshot it meets (`asa.md` 6.3).

    left: the rows of the stream
    input: the name of the reference input
    kind: `inner` or `left`
    left_prefix: stands before columns of the stream
    right_prefix: stands before columns of the reference data
    keys: values of row and reference row that must be equal
    condition: what else ON asks for; None: nothing
    reference_columns: listed columns of the reference data
    reference_open: the reference data may have fields that are not listed
    payload_types: columns of CREATE TABLE with their types, as in `InputScan`
    span: where the join stands in the text
    """

    left: Node
    input: str
    kind: str
    left_prefix: str
    right_prefix: str
    keys: tuple[tuple[Expr, Expr], ...]
    condition: Expr | None
    reference_columns: tuple[str, ...] = ()
    reference_open: bool = True
    payload_types: tuple[tuple[str, Type], ...] = ()
    span: Span = span_field()

    @property
    def columns(self) -> tuple[str, ...]:
        left = (self.left.columns, self.left.open, self.left_prefix, (SYSTEM_TIMESTAMP, ARRIVAL, PARTITION))
        right = (self.reference_columns, self.reference_open, self.right_prefix, ())
        columns: list[str] = []
        for own, is_open, prefix, engine in (left, right):
            columns += [prefix + column for column in own]
            columns += [prefix + PAYLOAD] if is_open else []
            columns += [prefix + column for column in engine if prefix]
        return tuple(columns)

    @property
    def open(self) -> bool:
        return False


@tag("Match")
@dataclass(frozen=True, slots=True)
class Match:
    """MATCH_RECOGNIZE: a row for each event at which the pattern starts to match (`asa.md` 2.14).

    The preferred match counts. Its row has the time of its last event.

    child: the rows it reads
    partition_by: only events with equal keys make a match
    limit_ticks: no match spans more
    variables: the variables of DEFINE; a number in `states` and `values` is an index into them
    states: the NFA of the pattern; a match begins in the first
    values: the columns that conditions and measures read of the events matched so far
    measured: names of the `values` that the row of a match has
    text: the pattern as it was written, for people
    """

    child: Node
    partition_by: tuple[Expr, ...]
    limit_ticks: int
    variables: tuple[PatternVariable, ...]
    states: tuple[PatternState, ...]
    values: tuple[MatchedValue, ...]
    measured: tuple[str, ...]
    text: str = field(default="", compare=False, repr=False)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.measured

    @property
    def open(self) -> bool:
        return False

    def always_has(self, variable: int) -> bool:
        """Whether every match has an event of the variable."""
        reached, waiting = {0}, [0]
        while waiting:
            for moved, to in self.states[waiting.pop()].moves:
                if moved != variable and to not in reached:
                    reached.add(to)
                    waiting.append(to)
        return not any(self.states[state].accepts for state in reached - {0})


@tag("Union")
@dataclass(frozen=True, slots=True)
class Union:
    """All rows of all children; a column missing in one child is looked up in its payload or is NULL."""

    children: tuple[Node, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.children[0].columns

    @property
    def open(self) -> bool:
        return any(child.open for child in self.children)


Node: TypeAlias = (
    InputScan | StepRef | Filter | Projection | Aggregate | Union | Analytic | Apply | Join | Lookup | Match
)


@tag("Output")
@dataclass(frozen=True, slots=True)
class Output:
    """A statement: its rows go to the output `name`."""

    name: str
    node: Node
    span: Span = span_field()


@tag("Plan")
@dataclass(frozen=True, slots=True)
class Plan:
    """A whole job.

    steps: the steps by name, each after those it reads
    outputs: the outputs with their rows
    inputs: the streams that are read
    compatibility_level: such as `1.2`
    references: the reference inputs
    step_spans: where the name of each step stands in the text, by name
    """

    steps: tuple[tuple[str, Node], ...]
    outputs: tuple[Output, ...]
    inputs: tuple[str, ...]
    compatibility_level: str = "1.2"
    references: tuple[str, ...] = ()
    step_spans: tuple[tuple[str, Span], ...] = field(default=(), compare=False, repr=False)


#: What the table functions of APPLY make of an element: its place or name, and its value.
APPLY_COLUMNS = {
    "getarrayelements": ("ArrayIndex", "ArrayValue"),
    "getrecordproperties": ("PropertyName", "PropertyValue"),
}


def applied_columns(function: str, alias: str) -> tuple[str, str]:
    """The columns an Apply called `alias` makes."""
    first, second = APPLY_COLUMNS[function]
    return f"{alias}.{first}", f"{alias}.{second}"


def children(node: Node) -> tuple[Node, ...]:
    """The nodes whose rows a node takes directly, in the order it names them."""
    match node:
        case InputScan() | StepRef():
            return ()
        case Join(left=left, right=right):
            return (left, right)
        case Lookup(left=left):
            return (left,)
        case Union(children=branches):
            return branches
        case Filter() | Projection() | Aggregate() | Analytic() | Apply() | Match():
            return (node.child,)


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it within its step; what feeds a node is before it."""
    for child in children(node):
        yield from walk(child)
    yield node


def steps_read(node: Node) -> tuple[str, ...]:
    """The steps whose rows a step takes, in the order it names them."""
    return tuple(each.name for each in walk(node) if isinstance(each, StepRef))
