"""The specs of operators: GROUP BY, functions, joins and patterns with all names resolved to columns.

A spec is plain data. It is part of the topology, travels to every task, and its content is hashed into the
fingerprint of its operator's state; the kernel that computes it is made from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as dataclass_field

from tideglass.core.errors import Span
from tideglass.core.events import Fields
from tideglass.core.tags import added_field, tag
from tideglass.plan.calls import USERS, AnomalyModel
from tideglass.plan.expressions import Expr, Ref, references
from tideglass.plan.nodes import Named, TimeBound
from tideglass.plan.output_timestamp import OutputTimestamp, PairTimestamp
from tideglass.plan.patterns import MatchedValue, PatternState, PatternVariable
from tideglass.plan.windows import Window

SUMS = ("sum", "avg")
SPREADS = ("var", "varp", "stdev", "stdevp")
EXTREMES = ("min", "max")
PERCENTILES = ("percentile_cont", "percentile_disc")
TOPS = ("collecttop", "topone")
FUNCTIONS = ("count", *SUMS, *SPREADS, *EXTREMES, *PERCENTILES, "collect", *TOPS)


@tag("Rows")
@dataclass(frozen=True, slots=True)
class RowProgram:
    """A row program: which rows stay, and with which columns.

    items: the columns that are computed.
    condition: of the rows that stay; None for all.
    keep: columns of the engine's own that are passed on as they are.
    """

    items: tuple[Named, ...]
    condition: Expr | None
    keep: tuple[str, ...]


# ---------------------------------------------------------------- GROUP BY


@tag("AggregateSpec")
@dataclass(frozen=True, slots=True)
class AggregateSpec:
    """An aggregate over evaluated columns.

    name: of the result column.
    function: one of FUNCTIONS, or `uda.<name>`.
    arg: column of the argument; None only for COUNT(*).
    order_by: columns of ORDER BY, each with whether it is descending.
    distinct: only distinct values count.
    constant: p of a percentile, n of CollectTop; None for other functions.
    as_text: MIN and MAX of an explicit cast to nvarchar(max) compare text by code point.
    span: the call in the query, for errors.
    """

    name: str
    function: str
    arg: str | None = None
    order_by: tuple[tuple[str, bool], ...] = ()
    distinct: bool = False
    constant: int | float | None = None
    as_text: bool = False
    span: Span = dataclass_field(default_factory=Span, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.function not in FUNCTIONS and not self.is_users:
            raise ValueError(f"{self.function} is no aggregate of the window kernels")
        if self.arg is None and self.function != "count":
            raise ValueError(f"{self.function} needs an argument column")

    @property
    def is_users(self) -> bool:
        """Whether it is a user's own, in JavaScript."""
        return self.function.startswith(USERS)

    def cell(self, kind: str) -> str:
        """Full name of a cell of this aggregate's argument."""
        return f"{self.arg}|{kind}"

    def number_cell(self, place: int) -> str:
        """The cell with the first number of a column of ORDER BY."""
        return f"{self.name}|min.number{place}"

    def time_cell(self, place: int) -> str:
        """The cell with its first time."""
        return f"{self.name}|min.time{place}"

    @property
    def top_cell(self) -> str:
        limit = 1 if self.function == "topone" else int(self.constant or 0)
        return f"{self.name}|top.{limit}"


@tag("Grouping")
@dataclass(frozen=True, slots=True)
class GroupBySpec:
    """A GROUP BY with all names resolved to columns.

    windows: several if the query has `Windows(...)`
    keys: columns of the grouping keys
    aggregates: their `arg` is a column of the rows
    session_keys: per window, the columns a session window is partitioned by; empty for one session over all
        rows, None for other windows
    substreams: rows have `$substream`
    output_timestamp: the time of a row of the result
    early_percents: percentages of the early panes, ascending; rows have a column `early_column` for each
    """

    windows: tuple[Window, ...]
    keys: tuple[str, ...]
    aggregates: tuple[AggregateSpec, ...]
    session_keys: tuple[tuple[str, ...] | None, ...]
    substreams: bool
    output_timestamp: OutputTimestamp = added_field(default=OutputTimestamp.END_OF_WINDOW)
    early_percents: tuple[int, ...] = added_field(default=())

    @property
    def all_keys(self) -> tuple[str, ...]:
        """The grouping keys, and what sessions are partitioned by."""
        of_sessions = (name for names in self.session_keys for name in names or ())
        return tuple(dict.fromkeys((*self.keys, *of_sessions)))


# ---------------------------------------------------------------- functions of earlier rows


@tag("AnalyticSpec")
@dataclass(frozen=True, slots=True)
class AnalyticSpec:
    """An analytic function over evaluated columns.

    name: of the result column.
    function: `lag`, `last`, `isfirst`, or that of `aggregate`.
    length_ticks: LIMIT DURATION, or the interval of ISFIRST.
    keys: columns of PARTITION BY.
    when: column of WHEN; None if every row counts.
    arg: column of the argument of LAG, LAST and detectors of anomalies; None for others.
    offset: LAG looks at the row so many matching rows before.
    default: column of the value where LAG finds no row; None for NULL.
    aggregate: what is computed over the rows in reach; None for other functions.
    """

    name: str
    function: str
    length_ticks: int
    keys: tuple[str, ...] = ()
    when: str | None = None
    arg: str | None = None
    offset: int = 1
    default: str | None = None
    aggregate: AggregateSpec | None = None

    @property
    def kept_columns(self) -> tuple[str, ...]:
        """Columns of earlier rows it reads, keys aside."""
        if self.aggregate is None:
            return () if self.arg is None else (self.arg,)
        names = [] if self.aggregate.arg is None else [self.aggregate.arg]
        return tuple(dict.fromkeys((*names, *(name for name, _ in self.aggregate.order_by))))

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns it reads."""
        single = [name for name in (self.when, self.default) if name is not None]
        return (*self.keys, *self.kept_columns, *single)

    @property
    def depth(self) -> int:
        """How many matching rows of a key, the latest ones, a later row may look at."""
        return self.offset if self.function == "lag" else 1


@tag("AnomalySpec")
@dataclass(frozen=True, slots=True, kw_only=True)
class AnomalySpec(AnalyticSpec):
    """A detector of anomalies in the column `arg`; a row whose value is NULL does not match."""

    model: AnomalyModel
    span: Span = dataclass_field(default_factory=Span, compare=False, repr=False)

    @property
    def kept_columns(self) -> tuple[str, ...]:
        return ()  # numbers in place of the argument: see `_watched`

    @property
    def columns(self) -> tuple[str, ...]:
        single = [name for name in (self.when, self.arg) if name is not None]
        return (*self.keys, *single)

    @property
    def depth(self) -> int:
        return self.model.history_size

    @property
    def logs_column(self) -> str:
        """Kept of a row: the logarithm of how probable it was."""
        return f"{self.name}.log"


# ---------------------------------------------------------------- patterns and joins


@tag("Matching")
@dataclass(frozen=True, slots=True)
class PatternSpec:
    """A MATCH_RECOGNIZE with all names resolved to columns; see `plan.nodes.Match`.

    keys: columns of PARTITION BY.
    limit_ticks: no match spans more.
    variables: those of DEFINE, in their order.
    states: of the pattern's automaton; the first is where a match begins.
    values: what may be known of the events matched; their `arg` is a column of the rows.
    measured: names of the values that are columns of the result.
    substreams: rows have `$substream`.
    text: the pattern as it was written.
    """

    keys: tuple[str, ...]
    limit_ticks: int
    variables: tuple[PatternVariable, ...]
    states: tuple[PatternState, ...]
    values: tuple[MatchedValue, ...]
    measured: tuple[str, ...]
    substreams: bool
    text: str = dataclass_field(default="", compare=False, repr=False)

    @property
    def values_read(self) -> tuple[MatchedValue, ...]:
        """Those of `values` that a condition tests or a measure hands on."""
        tested = {name for variable in self.variables for name in references(variable.condition)}
        return tuple(value for value in self.values if value.name in tested or value.name in self.measured)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the rows it reads, besides those of the order."""
        args = (value.arg.name for value in self.values_read if isinstance(value.arg, Ref))
        return tuple(dict.fromkeys((*self.keys, *args)))


@tag("Joining")
@dataclass(frozen=True, slots=True)
class IntervalJoinSpec:
    """A join of streams with all names resolved to columns; see `plan.nodes.Join`.

    kind: inner or left.
    keys: columns of both sides, equal in a pair.
    bounds: all of them hold for a pair; their `base` is a column of the left rows.
    condition: the rest of ON, over the columns of a pair; None without.
    left_columns, right_columns: the columns of a pair.
    lower_ticks, upper_ticks: right `$ts` - left `$ts` of a pair is within, both included.
    unmatched_ticks: a left row without a match comes out stamped so much later.
    substreams: rows have `$substream`, and each is joined by its own watermark.
    output_timestamp: the time of a pair.
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
    output_timestamp: PairTimestamp = added_field(default=PairTimestamp.LATER)


@tag("LookingUp")
@dataclass(frozen=True, slots=True)
class ReferenceJoinSpec:
    """A join with reference data with all names resolved to columns; see `plan.nodes.Lookup`.

    input: the reference input.
    kind: inner or left.
    keys: columns of both sides, equal in a pair.
    condition: the rest of ON, over the columns of a pair; None without.
    left_columns, right_columns: the columns of a pair.
    reference: makes keys and `right_columns` of what the decoder of the input delivers.
    fields: what that decoder is to deliver.
    substreams: rows have `$substream`.
    """

    input: str
    kind: str
    keys: tuple[str, ...]
    condition: Expr | None
    left_columns: tuple[str, ...]
    right_columns: tuple[str, ...]
    reference: RowProgram
    fields: Fields
    substreams: bool
