"""An aggregate of a GROUP BY with all names resolved to columns."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as dataclass_field

from tideglass.core.errors import Span
from tideglass.core.tags import tag
from tideglass.plan.nodes import USERS

SUMS = ("sum", "avg")
SPREADS = ("var", "varp", "stdev", "stdevp")
EXTREMES = ("min", "max")
PERCENTILES = ("percentile_cont", "percentile_disc")
TOPS = ("collecttop", "topone")
FUNCTIONS = ("count", *SUMS, *SPREADS, *EXTREMES, *PERCENTILES, "collect", *TOPS)


@tag("AggregateSpec")
@dataclass(frozen=True, slots=True)
class AggregateSpec:
    """An aggregate over evaluated columns.

    name: of the result column. arg: column of the argument; None only for COUNT(*).
    order_by: columns of ORDER BY and whether descending. constant: p of a percentile, n of CollectTop.
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
