"""Lengths of time written in a query: constant amounts of a unit, in ticks (`asa.md` 3.1, A-14)."""

from __future__ import annotations

from tideglass.bind.advice import DATE_WORDS
from tideglass.core.errors import Diagnostics
from tideglass.core.suggest import did_you_mean
from tideglass.core.time import UNIT_TICKS
from tideglass.functions.registry import DATEPARTS
from tideglass.lang import nodes as tree
from tideglass.lang.builder import BEYOND_BIGINT
from tideglass.plan.windows import LONGEST_TICKS

#: Longer than any time there is; stands for what a float holds no number for.
_BEYOND_TICKS = float(1 << 62)


def constant(node: tree.Expr) -> int | float | None:
    """The number a literal with optional signs stands for, or None when `node` is no such constant."""
    match node:
        case tree.LiteralExpr(value=int() | float() as value):
            return float(value) if value == BEYOND_BIGINT else value  # it is no whole number of the language
        case tree.Unary(op="-", operand=operand):
            inner = constant(operand)
            return None if inner is None else -inner
        case tree.Unary(op="+", operand=operand):
            return constant(operand)
        case _:
            return None


def signed_ticks(duration: tree.Duration, what: str, diagnostics: Diagnostics) -> int | None:
    """The ticks of a duration of any sign, rounded to whole ticks; None after reporting an error."""
    unit_ticks = UNIT_TICKS.get(duration.unit.text.casefold())
    if unit_ticks is None:
        unit = duration.unit.text.casefold()
        hint = "units are day, hour, minute, second, millisecond; 7 days are the longest time there is"
        if DATE_WORDS.get(unit) in UNIT_TICKS:
            hint = f"write {DATE_WORDS[unit]}"
        elif unit not in DATEPARTS and unit.removesuffix("s") not in DATEPARTS:
            hint = did_you_mean(unit, UNIT_TICKS) or hint
        diagnostics.error(
            "UNKNOWN_UNIT", f"{duration.unit.text!r} is no unit of time", duration.unit.span, hint
        )
    amount = constant(duration.amount)
    if amount is None:
        diagnostics.error(
            "NOT_A_CONSTANT",
            f"the {what} must be a constant number",
            duration.amount.span,
            "write the number itself; quotes, columns and expressions are not allowed here",
        )
    if unit_ticks is None or amount is None:
        return None
    if isinstance(amount, int):
        return amount * unit_ticks
    return round(max(-_BEYOND_TICKS, min(_BEYOND_TICKS, amount * unit_ticks)))  # infinity has no ticks


def positive_ticks(duration: tree.Duration, what: str, diagnostics: Diagnostics) -> int | None:
    """The ticks of a duration above zero and at most seven days; None after reporting an error."""
    ticks = signed_ticks(duration, what, diagnostics)
    if ticks is None:
        return None
    span = duration.amount.span
    if ticks <= 0:
        hint = "use a positive number, at most 7 days"
        diagnostics.error("WINDOW_SIZE", f"the {what} must be greater than zero", span, hint)
        return None
    if ticks > LONGEST_TICKS:
        diagnostics.error(
            "WINDOW_TOO_LONG",
            f"the {what} is longer than 7 days, the longest there is",
            span,
            "use at most 7 days",
        )
        return None
    return ticks
