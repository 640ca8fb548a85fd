"""The topology: a plan placed on levels, ready to run.

Level 0 is the scan of the inputs. Each level above is one stateful stage, split into key groups;
between two levels rows are exchanged by the hash of their keys. All steps of a job that are equally
many exchanges away from the inputs share one stage, so a job has as many stages as its longest
chain of exchanges, not as many as it has steps (each stage costs a fixed time per batch).

Operators are numbered; a higher number never feeds a lower one, so each level runs its operators in
the order of their numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tideglass.core.errors import InputError, Source
from tideglass.core.events import Fields
from tideglass.core.limits import Limits
from tideglass.core.tags import added_field, renamed_field, tag
from tideglass.core.types import PARTITION
from tideglass.functions.callables import UserCode
from tideglass.plan.expressions import Expr, references
from tideglass.plan.policy_settings import Policies
from tideglass.plan.specs import (
    AnalyticSpec,
    GroupBySpec,
    IntervalJoinSpec,
    PatternSpec,
    ReferenceJoinSpec,
    RowProgram,
)
from tideglass.plan.step_origin import StepOrigin


@tag("Reader")
@dataclass(frozen=True, slots=True)
class Reader:
    """One way to read an input: its timestamp, its substreams and its policies.

    id: its number in the topology
    input: the name of the input
    timestamp: TIMESTAMP BY; None: arrival time
    over: keys of TIMESTAMP BY ... OVER; empty: no substreams
    policies: its time policies
    """

    id: int
    input: str
    timestamp: Expr | None
    over: tuple[Expr, ...]
    policies: Policies


def check_partitions(readers: Sequence[Reader], input_name: str, partitions: int) -> None:
    """Substreams of several partitions must have PartitionId among their keys (`asa.md` 1.7, rule 3).

    How many partitions an input has is known only when a job starts, so no compiler can check it.
    Raises InputError.
    """
    for reader in readers:
        by_partition = any(PARTITION in references(key) for key in reader.over)
        if reader.input == input_name and partitions > 1 and reader.over and not by_partition:
            raise InputError(
                f"[SUBSTREAMS_NEED_PARTITION] the input {input_name!r} has {partitions} partitions and "
                "is read with OVER, but PartitionId is not among the keys\n"
                "  hint: write TIMESTAMP BY ... OVER <key>, PartitionId and PARTITION BY PartitionId"
            )


@tag("ScanOp")
@dataclass(frozen=True, slots=True)
class ScanOp:
    """Rows of a reader after its policies (level 0)."""

    id: int
    reader: int
    level: int = 0


@tag("RowsOp")
@dataclass(frozen=True, slots=True)
class RowsOp:
    """Applies a row program to the rows of another operator of the same level."""

    id: int
    level: int
    source: int
    rows: RowProgram


@tag("PartialOp")
@dataclass(frozen=True, slots=True)
class PartialOp:
    """Pre-aggregates rows where they are; see WindowAggregate.partial."""

    id: int
    level: int
    source: int
    spec: GroupBySpec = renamed_field("grouping")


@tag("SendOp")
@dataclass(frozen=True, slots=True)
class SendOp:
    """Sends rows to key groups of a higher level.

    id: the operator's id
    level: the level it runs on
    source: the id of the operator it reads, of the same level
    to_level: the level it sends to
    keys: columns by whose hash rows are spread; empty: all rows go to one key group
    """

    id: int
    level: int
    source: int
    to_level: int
    keys: tuple[str, ...]


@tag("AlignedSendOp")
@dataclass(frozen=True, slots=True)
class AlignedSendOp(SendOp):
    """Sends rows to the key group of their input partition; `keys` is the one column that has its number.

    A key group then has whole partitions, as many as any other to within one.
    """


@tag("ReceiveOp")
@dataclass(frozen=True, slots=True)
class ReceiveOp:
    """Rows that the SendOp `send` of a lower level sent to this key group."""

    id: int
    level: int
    send: int


@tag("WindowOp")
@dataclass(frozen=True, slots=True)
class WindowOp:
    """Windows and aggregates over partials; the stateful operator of a stage.

    id: the operator's id
    level: its level
    sources: the ids of the operators it reads
    spec: the GROUP BY
    """

    id: int
    level: int
    sources: tuple[int, ...]
    spec: GroupBySpec = renamed_field("grouping")


@tag("AnalyticOp")
@dataclass(frozen=True, slots=True)
class AnalyticOp:
    """Analytic functions over rows, which it hands on with their values; stateful.

    id: the operator's id
    level: its level
    sources: the ids of the operators it reads
    specs: the functions; they name columns of the rows (`operators.analytic.functions`)
    substreams: rows have `$substream`
    """

    id: int
    level: int
    sources: tuple[int, ...]
    specs: tuple[AnalyticSpec, ...]
    substreams: bool


@tag("PatternOp")
@dataclass(frozen=True, slots=True)
class PatternOp:
    """A row for each match among the rows; keeps the events a match may still be made of.

    id: the operator's id
    level: its level
    sources: the ids of the operators it reads
    spec: the pattern
    """

    id: int
    level: int
    sources: tuple[int, ...]
    spec: PatternSpec = renamed_field("matching")


@tag("ApplyOp")
@dataclass(frozen=True, slots=True)
class ApplyOp:
    """A row for each element of an array, or for each field of a record.

    id: the operator's id
    level: its level
    source: the id of the operator it reads, of the same level
    function: `getarrayelements` or `getrecordproperties`
    argument: the column with the array or record
    made: the names of the two columns it adds: index or name, and value
    outer: a row without elements stays, with NULLs
    """

    id: int
    level: int
    source: int
    function: str
    argument: str
    made: tuple[str, str]
    outer: bool


@tag("JoinOp")
@dataclass(frozen=True, slots=True)
class JoinOp:
    """Pairs of the rows of two sides; keeps the rows of both.

    id: the operator's id
    level: its level
    left: the ids of the operators of the left side
    right: the ids of the operators of the right side
    spec: the join
    """

    id: int
    level: int
    left: tuple[int, ...]
    right: tuple[int, ...]
    spec: IntervalJoinSpec = renamed_field("joining")


@tag("LookupOp")
@dataclass(frozen=True, slots=True)
class LookupOp:
    """The rows of an operator, each with the rows of reference data it meets; stateless, on any level.

    id: the operator's id
    level: its level
    source: the id of the operator it reads, of the same level
    spec: the join
    """

    id: int
    level: int
    source: int
    spec: ReferenceJoinSpec = renamed_field("looking_up")


@tag("EmitOp")
@dataclass(frozen=True, slots=True)
class EmitOp:
    """Hands rows to an output."""

    id: int
    level: int
    source: int
    output: str


Op = (
    ScanOp
    | RowsOp
    | PartialOp
    | SendOp
    | ReceiveOp
    | WindowOp
    | JoinOp
    | LookupOp
    | EmitOp
    | AnalyticOp
    | ApplyOp
    | PatternOp
)


def sources_of(op: Op) -> tuple[int, ...]:
    """The operators whose rows an operator reads; of a receiver the one that sends them."""
    match op:
        case ScanOp():
            return ()
        case ReceiveOp():
            return (op.send,)
        case WindowOp() | AnalyticOp() | PatternOp():
            return op.sources
        case JoinOp():
            return (*op.left, *op.right)
        case RowsOp() | PartialOp() | SendOp() | LookupOp() | ApplyOp() | EmitOp():
            return (op.source,)


@tag("Topology")
@dataclass(frozen=True, slots=True)
class Topology:
    """Everything a driver needs to run a job, as plain data: picklable, and the same in every task.

    ops: the operators, in the order of their ids
    readers: the readers of all inputs
    fields: by input, the fields the decoder delivers
    outputs: the names of the outputs; a message names one by its index
    key_groups: number of key groups
    level: the compatibility level, such as `1.2`
    functions: the user's own functions, by name: source in JavaScript, or a callable of Python
    source: the text of the query, for errors
    drops_failing_rows: a row that fails is counted and left out; otherwise it stops the job (`asa.md` A-33)
    limits: what a call of JavaScript or a match of a regular expression may take
    origins: by the number of an operator, what it was placed for, for people; empty of a topology made
        of no plan
    """

    ops: tuple[Op, ...]
    readers: tuple[Reader, ...]
    fields: dict[str, Fields]
    outputs: tuple[str, ...]
    key_groups: int
    level: str = "1.2"
    functions: dict[str, UserCode] = field(default_factory=dict[str, UserCode])
    source: Source = Source("")
    drops_failing_rows: bool = False
    limits: Limits = added_field(default=Limits())
    origins: tuple[StepOrigin, ...] = field(default=(), compare=False, repr=False)

    @property
    def references(self) -> tuple[str, ...]:
        """The reference inputs that are read."""
        found = (op.spec.input for op in self.ops if isinstance(op, LookupOp))
        return tuple(dict.fromkeys(found))

    @property
    def lookup_levels(self) -> tuple[int, ...]:
        """The levels above the scan that read reference data."""
        return tuple(sorted({op.level for op in self.ops if isinstance(op, LookupOp) and op.level}))

    @property
    def levels(self) -> int:
        """How many stateful stages there are."""
        return max((op.level for op in self.ops), default=0)

    def at(self, level: int) -> tuple[Op, ...]:
        """The operators of one level in the order they run."""
        return tuple(op for op in self.ops if op.level == level)

    def op(self, id_: int) -> Op:
        return self.ops[id_]
