"""What a MATCH_RECOGNIZE is made of: variables, the automaton of the pattern, values of matched events."""

from __future__ import annotations

from dataclasses import dataclass

from tideglass.core.errors import Span
from tideglass.core.tags import tag
from tideglass.plan.expressions import Expr, span_field

#: The dot of a pattern, in place of a variable's number.
ANY_EVENT = -1


@tag("PatternVariable")
@dataclass(frozen=True, slots=True)
class PatternVariable:
    """A variable of DEFINE; `condition` reads matched values, and `$ts` of the event tested, as columns."""

    name: str
    condition: Expr


@tag("PatternState")
@dataclass(frozen=True, slots=True)
class PatternState:
    """What may follow in a pattern: `moves` are (variable, next state), the preferred one first.

    accepts: the match may end here, which is less preferred than every move.
    """

    moves: tuple[tuple[int, int], ...]
    accepts: bool


@tag("MatchedValue")
@dataclass(frozen=True, slots=True)
class MatchedValue:
    """What is known of the events matched so far, as a column.

    name: the column
    function: `first`, `last`, `min` or `max` of `arg`, over the events of a variable; or `classifier`, the
        names of all variables in their order
    variable: number of the variable; ANY_EVENT: events of all variables
    arg: the value; None for `classifier`
    span: where it stands in the text
    """

    name: str
    function: str
    variable: int = ANY_EVENT
    arg: Expr | None = None
    span: Span = span_field()
