"""Functions of earlier rows with all names resolved to columns."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as dataclass_field

from tideglass.core.errors import Span
from tideglass.core.tags import tag
from tideglass.plan.aggregate_spec import AggregateSpec
from tideglass.plan.nodes import AnomalyModel


@tag("AnalyticSpec")
@dataclass(frozen=True, slots=True)
class AnalyticSpec:
    """An analytic function over evaluated columns.

    name: of the result column. function: `lag`, `last`, `isfirst` or that of `aggregate`. length_ticks:
    LIMIT DURATION, or the interval of ISFIRST. keys, when: PARTITION BY and WHEN. arg, default: LAG, LAST.
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
