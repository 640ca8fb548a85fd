"""The date parts of DATEADD, DATEDIFF, DATENAME and DATEPART (`asa.md` 4.5)."""

from __future__ import annotations

from tideglass.bind.advice import date_part_like
from tideglass.core.errors import Diagnostics
from tideglass.core.suggest import did_you_mean
from tideglass.functions.registry import DATEPARTS
from tideglass.lang import nodes as tree
from tideglass.plan.expressions import Literal

#: Every accepted spelling and the one used in the plan; plurals of the long names are accepted as well.
DATE_PARTS = {**DATEPARTS, **{f"{part}s": part for part in DATEPARTS.values()}}


def bind_date_part(node: tree.Expr, diagnostics: Diagnostics) -> Literal:
    """The date part in its canonical spelling; reports what is no date part."""
    match node:
        case tree.Column(path=(name,)) if name.quote == "":
            part = DATE_PARTS.get(name.text.casefold())
            if part is not None:
                return Literal(part, node.span)
            message = f"{name.text!r} is no date part"
            hint = date_part_like(name.text) or did_you_mean(name.text, DATE_PARTS)
        case tree.LiteralExpr(value=str() as text) if text.casefold() in DATE_PARTS:
            message, hint = "a date part must be a bare word", f"write {text} without quotes"
        case _:
            message, hint = "a date part must be a bare word", ""
    hint = hint or "date parts are year, quarter, month, week, day, hour, minute, second, millisecond, ..."
    diagnostics.error("UNKNOWN_DATE_PART", message, node.span, hint)
    return Literal("day", node.span)
