"""Functions over rows as a query calls them: aggregates, and functions of earlier rows.

What they are once all names are resolved to columns is in `plan.specs`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tideglass.core.errors import Span
from tideglass.core.tags import tag
from tideglass.plan.expressions import Expr, span_field

#: What stands before the name of a user's own aggregate.
USERS = "uda."


@tag("AggregateCall")
@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregate of the catalogue, called in a query.

    function: `count`, `sum`, `topone`, `uda.<name>`, ... in lower case
    arg: the argument; None for COUNT(*)
    distinct: DISTINCT stands before the argument
    order_by: expressions of ORDER BY, each with True for descending
    constant: the p of PERCENTILE_*, the n of CollectTop; None for other functions
    as_text: MIN or MAX of an explicit cast to nvarchar, which compares as text (`asa.md` 4.1)
    span: where the call stands in the text
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
    """The constants of a detector of anomalies (`asa.md` 4.3).

    confidence: in percent, 1 to 100
    history_size: how many earlier events it learns from at most
    side: `spikes`, `dips` or `spikesanddips`
    change_point: it looks for a change of the level, on both sides, and not for single values
    """

    confidence: float
    history_size: int
    side: str = "spikesanddips"
    change_point: bool = False


@tag("AnalyticCall")
@dataclass(frozen=True, slots=True)
class AnalyticCall:
    """A function of the current row and the rows before it.

    function: `lag`, `last`, `isfirst`, the name of `aggregate`, or the name of the detector of `model`
    length_ticks: how far back it looks, (t - length, t] (A-26); the interval of `isfirst`
    arg: the value of LAG and LAST, the values a detector watches; None for other functions
    offset: of LAG: how many rows back
    default: of LAG and LAST: the value where there is no such row; None: NULL
    partition_by: only rows with equal keys are looked at
    when: only rows for which it holds are looked at; None: all
    aggregate: the aggregate over those rows; None for other functions
    model: the settings of a detector of anomalies; None for other functions
    span: where the call stands in the text
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

        A change point is found by how probable earlier rows were, each by the rows before it.
        """
        return (
            2 * self.length_ticks if self.model is not None and self.model.change_point else self.length_ticks
        )
