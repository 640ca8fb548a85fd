"""The plan: what a bound query means, as trees of expressions and relational operators.

The binder makes it, placement cuts it into stages, lowering turns it into
programs. Names are resolved and windows are in ticks; types are not: they belong to values and are
found chunk by chunk when a program meets its rows.

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
from tideglass.core.tags import tag
from tideglass.core.types import ARRIVAL, PARTITION, PAYLOAD, SYSTEM_TIMESTAMP, Type
from tideglass.plan.expressions import Expr, span_field
from tideglass.plan.windows import Window


@tag("Named")
@dataclass(frozen=True, slots=True)
class Named:
    """An output column and the expression that makes it."""

    name: str
    expr: Expr


#: What stands before the name of a user's own aggregate.
USERS = "uda."


@tag("AggregateCall")
@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregate of the catalogue: `count` (no argument for `*`), `sum`, `topone`, `uda.<name>`, ...

    `arg` is None for COUNT(*). `constant` is the literal of PERCENTILE_* (p) and CollectTop (n).
    `as_text`: MIN/MAX of an explicit cast to nvarchar compares as text (`asa.md` 4.1).
    """

    function: str
    arg: Expr | None = None
    distinct: bool = False
    order_by: tuple[tuple[Expr, bool], ...] = ()  # (expression, descending)
    constant: int | float | None = None
    as_text: bool = False
    span: Span = span_field()


@tag("AnomalyModel")
@dataclass(frozen=True, slots=True)
class AnomalyModel:
    """What a detector of anomalies is told: its constants (`asa.md` 4.3).

    `confidence` in percent, 1 to 100. `history_size`: how many earlier events it learns from at most.
    `side`: `spikes`, `dips` or `spikesanddips`. `change_point`: it looks for a change of the level,
    on both sides, and not for single values.
    """

    confidence: float
    history_size: int
    side: str = "spikesanddips"
    change_point: bool = False


@tag("AnalyticCall")
@dataclass(frozen=True, slots=True)
class AnalyticCall:
    """A function of the rows before the current one, per `partition_by`, of those where `when` holds.

    `function`: `lag`, `last`, `isfirst`, that of `aggregate`, which then says all about its values, or that
    of `model`, which detects anomalies in the values of `arg`.
    `length_ticks`: how far back it looks, (t - length, t] (A-26); the interval of `isfirst`. `default`
    stands where there is no such row.
    """

    function: str
    length_ticks: int
    arg: Expr | None = None
    offset: int = 1
    default: Expr | None = None
    partition_by: tuple[Expr, ...] = ()
    when: Expr | None = None
    aggregate: AggregateCall | None = None
    model: AnomalyModel | None = None
    span: Span = span_field()

    @property
    def span_ticks(self) -> int:
        """How long before a row another may lie that still decides its value.

        A change point is told from how probable earlier rows were, each by the rows before it.
        """
        return (
            2 * self.length_ticks if self.model is not None and self.model.change_point else self.length_ticks
        )


# ---------------------------------------------------------------- operators


@tag("Scan")
@dataclass(frozen=True, slots=True)
class InputScan:
    """An input behind its policies. `timestamp` None: arrival time. `over` empty: no substreams.

    `reader` tells readers of the same input apart (`asa.md` 2.4): equal readers are one.
    `payload_types`: the columns of CREATE TABLE, if any; then the relation is still open, but an
    event that does not fit is rejected by the deserializer (`asa.md` 2.13).
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
    """The rows of a named step, shared by everyone who reads it."""

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
    """Listed columns `items`; `spread`, when given, is a record expression that becomes `$payload`.

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
    """GROUP BY: one row per window and group, stamped with the window's end.

    Makes the columns of `keys` (named $k0, $k1, ...), of `aggregates` ($a0, $a1, ...) and, when a
    window has an id, `$window`. HAVING and the SELECT list are a Filter and a Project above it.
    """

    child: Node
    windows: tuple[Window, ...]
    keys: tuple[Named, ...]
    aggregates: tuple[tuple[str, AggregateCall], ...]

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

    `function` is `getarrayelements` or `getrecordproperties`; the two columns it adds are called
    `alias.ArrayIndex` and `alias.ArrayValue`, or `alias.PropertyName` and `alias.PropertyValue`.
    `argument` is NULL or of the right type. `outer`: a row without elements stays, with NULLs.
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
    """lowest <= (boundaries of a unit crossed from `base` to the right row) <= highest; None is no limit.

    `base` is the column of the left rows with the timestamp meant, `<alias>.$ts`. Boundaries lie at
    every whole number of `unit_ticks` from `origin_ticks` (`asa.md` 2.8, A-25).
    """

    base: str
    unit_ticks: int
    origin_ticks: int
    lowest: int | None
    highest: int | None


@tag("Join")
@dataclass(frozen=True, slots=True)
class Join:
    """Pairs of rows of two streams that lie close enough in time; `kind` is inner or left (`asa.md` 2.8).

    A side's columns are named `<prefix><column>` here: its listed ones, its payload (`a.$payload`) and
    its engine columns (`a.$ts`); a side that is a join already has no prefix. `$ts` of a pair is the
    later of both; of a left row without a match, its own + `unmatched_ticks`.

    keys: equal values of left and right. bounds: all of them hold. condition: what else ON asks for.
    lower_ticks, upper_ticks: no pair's right.$ts - left.$ts is outside.
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
    """Rows with those of reference data that ON brings together with them (`asa.md` 2.9).

    `kind` is inner or left. Columns are named as those of a Join; a row keeps its own time and place,
    each of its matches does. Which snapshot of the reference input `input` a row meets is decided by its
    `$ts` (`asa.md` 6.3).

    keys: equal values of row and reference row. condition: what else ON asks for. reference_columns,
    reference_open: as in Scan, and so `payload_types`.
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


@tag("PatternVariable")
@dataclass(frozen=True, slots=True)
class PatternVariable:
    """A variable of DEFINE; `condition` reads matched values, and `$ts` of the event tested, as columns."""

    name: str
    condition: Expr


@tag("PatternState")
@dataclass(frozen=True, slots=True)
class PatternState:
    """What may come next in a pattern: `moves` are (variable, next state), the preferred one first.

    accepts: the match may end here, which is less preferred than every move.
    """

    moves: tuple[tuple[int, int], ...]
    accepts: bool


#: The dot of a pattern, in place of a variable's number.
ANY_EVENT = -1


@tag("MatchedValue")
@dataclass(frozen=True, slots=True)
class MatchedValue:
    """What is known of the events matched so far, as the column `name`.

    `function`: `first`, `last`, `min` or `max` of `arg`, over the events of a variable; or `classifier`,
    the names of all variables in their order.
    """

    name: str
    function: str
    variable: int = ANY_EVENT
    arg: Expr | None = None
    span: Span = span_field()


@tag("Match")
@dataclass(frozen=True, slots=True)
class Match:
    """MATCH_RECOGNIZE: a row for each event from which on the pattern matches (`asa.md` 2.14).

    The preferred match counts; its row has the time of its last event and the columns `measured`, which are
    some of `values`. No match spans more than `limit_ticks`. The first of `states` is where a match begins.
    text: the pattern as it was written.
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
    """A whole job. `steps` are in an order in which each reads only earlier ones.

    inputs: the streams that are read. references: the reference inputs.
    """

    steps: tuple[tuple[str, Node], ...]
    outputs: tuple[Output, ...]
    inputs: tuple[str, ...]
    compatibility_level: str = "1.2"
    references: tuple[str, ...] = ()


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
    """The node and everything below it within its step; what feeds a node comes before it."""
    for child in children(node):
        yield from walk(child)
    yield node


def steps_read(node: Node) -> tuple[str, ...]:
    """The steps whose rows a step takes, in the order it names them."""
    return tuple(each.name for each in walk(node) if isinstance(each, StepRef))
