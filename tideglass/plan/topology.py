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
from tideglass.core.limits import Limits
from tideglass.core.tags import added_field, tag
from tideglass.core.types import PARTITION, Type
from tideglass.plan.aggregate_spec import AggregateSpec
from tideglass.plan.analytic_spec import AnalyticSpec
from tideglass.plan.expressions import Expr, Ref, references
from tideglass.plan.nodes import MatchedValue, Named, PatternState, PatternVariable, TimeBound
from tideglass.plan.policies import Policies
from tideglass.plan.windows import Window


@tag("Rows")
@dataclass(frozen=True, slots=True)
class RowProgram:
    """A row program: the rows for which `condition` holds, with the columns `items`.

    keep: columns of the engine's own that are passed on as they are.
    """

    items: tuple[Named, ...]
    condition: Expr | None
    keep: tuple[str, ...]


@tag("Reader")
@dataclass(frozen=True, slots=True)
class Reader:
    """One way to read an input: its timestamp, substreams and all that follows from them."""

    id: int
    input: str
    timestamp: Expr | None
    over: tuple[Expr, ...]
    policies: Policies


def check_partitions(readers: Sequence[Reader], input_name: str, partitions: int) -> None:
    """Substreams of several partitions must have PartitionId among their keys (`asa.md` 1.7, rule 3).

    How many partitions an input has is known only when a job starts, so no compiler can tell.
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
    """Rows of a reader behind its policies (level 0)."""

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


@tag("Grouping")
@dataclass(frozen=True, slots=True)
class Grouping:
    """A GROUP BY with all names resolved to columns.

    keys: group key columns. session_keys: per window, the columns a session window is partitioned by
    (None for other windows, empty for one session over all rows).
    """

    windows: tuple[Window, ...]
    keys: tuple[str, ...]
    aggregates: tuple[AggregateSpec, ...]
    session_keys: tuple[tuple[str, ...] | None, ...]
    substreams: bool


@tag("PartialOp")
@dataclass(frozen=True, slots=True)
class PartialOp:
    """Pre-aggregates rows where they are; see WindowAggregate.partial."""

    id: int
    level: int
    source: int
    grouping: Grouping


@tag("SendOp")
@dataclass(frozen=True, slots=True)
class SendOp:
    """Sends rows to key groups of a higher level. `keys` empty: all rows to one key group."""

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
    """Windows and aggregates over the partials of `sources`; the stateful operator of a stage."""

    id: int
    level: int
    sources: tuple[int, ...]
    grouping: Grouping


@tag("AnalyticOp")
@dataclass(frozen=True, slots=True)
class AnalyticOp:
    """Analytic functions over the rows of `sources`, which it hands on with their values; stateful.

    `specs` name columns of those rows; see `operators.analytic.functions`.
    """

    id: int
    level: int
    sources: tuple[int, ...]
    specs: tuple[AnalyticSpec, ...]
    substreams: bool


@tag("Matching")
@dataclass(frozen=True, slots=True)
class PatternSpec:
    """A MATCH_RECOGNIZE with all names resolved to columns; see `plan.nodes.Match`.

    keys: of PARTITION BY. values: their `arg` is a column of the rows.
    """

    keys: tuple[str, ...]
    limit_ticks: int
    variables: tuple[PatternVariable, ...]
    states: tuple[PatternState, ...]
    values: tuple[MatchedValue, ...]
    measured: tuple[str, ...]
    substreams: bool
    text: str = field(default="", compare=False, repr=False)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the rows it reads."""
        tested = {name for variable in self.variables for name in references(variable.condition)}
        read = [value for value in self.values if value.name in tested or value.name in self.measured]
        args = (value.arg.name for value in read if isinstance(value.arg, Ref))
        return tuple(dict.fromkeys((*self.keys, *args)))


@tag("PatternOp")
@dataclass(frozen=True, slots=True)
class PatternOp:
    """The rows of the matches among the rows of `sources`; keeps the events a match may yet be made of."""

    id: int
    level: int
    sources: tuple[int, ...]
    matching: PatternSpec


@tag("ApplyOp")
@dataclass(frozen=True, slots=True)
class ApplyOp:
    """A row for each element of the array, or field of the record, in the column `argument`."""

    id: int
    level: int
    source: int
    function: str
    argument: str
    made: tuple[str, str]
    outer: bool


@tag("Joining")
@dataclass(frozen=True, slots=True)
class IntervalJoinSpec:
    """A join of streams with all names resolved to columns; see `plan.nodes.Join`.

    keys: columns of both sides. bounds: their `base` is a column of the left rows. condition: over the
    columns of a pair, which are `left_columns` and `right_columns`.
    """

    kind: str
    keys: tuple[str, ...]
    bounds: tuple[TimeBound, ...]
    condition: Expr | None
    left_columns: tuple[str, ...]
    right_columns: tuple[str, ...]
    lower_ticks: int
    upper_ticks: int
    unmatched_ticks: int
    substreams: bool


@tag("JoinOp")
@dataclass(frozen=True, slots=True)
class JoinOp:
    """Pairs of the rows of `left` and `right`; keeps the rows of both sides."""

    id: int
    level: int
    left: tuple[int, ...]
    right: tuple[int, ...]
    joining: IntervalJoinSpec


@tag("InputFields")
@dataclass(frozen=True, slots=True)
class InputFields:
    """What the decoder of an input has to deliver: single fields, and whether the whole payload.

    event_ids: the scan is to make EVENT_ID too, which no decoder delivers.
    """

    paths: tuple[tuple[str, ...], ...]
    whole: bool
    payload_types: tuple[tuple[str, Type], ...] = ()
    event_ids: bool = added_field(default=False)


@tag("LookingUp")
@dataclass(frozen=True, slots=True)
class ReferenceJoinSpec:
    """A join with reference data with all names resolved to columns; see `plan.nodes.Lookup`.

    keys: columns of both sides. reference: the row program that makes keys and `right_columns` of what
    `fields` says the decoder of the reference input delivers. condition: over the columns of a pair.
    """

    input: str
    kind: str
    keys: tuple[str, ...]
    condition: Expr | None
    left_columns: tuple[str, ...]
    right_columns: tuple[str, ...]
    reference: RowProgram
    fields: InputFields
    substreams: bool


@tag("LookupOp")
@dataclass(frozen=True, slots=True)
class LookupOp:
    """The rows of `source`, each with the rows of reference data it meets; stateless, on any level."""

    id: int
    level: int
    source: int
    looking_up: ReferenceJoinSpec


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


@tag("Topology")
@dataclass(frozen=True, slots=True)
class Topology:
    """Everything a driver needs to run a job, as plain data (picklable; the same in every task).

    source: the text of the query, for errors. drops_failing_rows: a row that fails is counted and left
    out; otherwise it stops the job (`asa.md` A-33).
    """

    ops: tuple[Op, ...]
    readers: tuple[Reader, ...]
    fields: dict[str, InputFields]
    outputs: tuple[str, ...]
    key_groups: int
    level: str = "1.2"
    functions: dict[str, str] = field(default_factory=dict[str, str])
    source: Source = Source("")
    drops_failing_rows: bool = False
    limits: Limits = added_field(default=Limits())

    @property
    def references(self) -> tuple[str, ...]:
        """The reference inputs that are read."""
        found = (op.looking_up.input for op in self.ops if isinstance(op, LookupOp))
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
