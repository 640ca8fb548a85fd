"""Substreams: the keys of TIMESTAMP BY ... OVER followed through the query (`asa.md` 1.7)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tideglass.bind.grouping import GroupBinding, same
from tideglass.bind.projection import BoundSelectList
from tideglass.bind.scope import SubstreamKey
from tideglass.core.errors import Diagnostics, Span
from tideglass.core.types import PAYLOAD
from tideglass.plan.expressions import Call, Expr, Literal, Path, Ref
from tideglass.plan.nodes import InputScan


def check_over(scans: Sequence[InputScan], diagnostics: Diagnostics) -> None:
    """Reports inputs read without OVER when another one uses it."""
    if not any(scan.over for scan in scans):
        return
    for scan in scans:
        if not scan.over:
            diagnostics.error(
                "MIXED_OVER",
                f"{scan.input!r} is read without OVER, while another input of the query uses it",
                scan.span,
                "use TIMESTAMP BY ... OVER on all inputs or on none",
            )


def check_grouped(
    keys: Iterable[SubstreamKey], grouping: GroupBinding, place: Span, diagnostics: Diagnostics
) -> None:
    """Reports every substream key that is no grouping key."""
    for key in keys:
        if key.expr is None or grouping.key_of(key.expr, place) is None:
            lost = "; no column of this step holds it any more" if key.expr is None else ""
            diagnostics.error(
                "SUBSTREAM_KEY_NOT_GROUPED",
                f"the substream key {key.text!r} of TIMESTAMP BY ... OVER must be a grouping key{lost}",
                place,
                f"add {key.text} to GROUP BY" + (" and keep it in the steps before" if lost else ""),
            )


def check_matched(
    keys: Iterable[SubstreamKey], partition_by: Sequence[Expr], place: Span, diagnostics: Diagnostics
) -> None:
    """Reports every substream key by which the events of a pattern are not kept apart."""
    for key in keys:
        if key.expr is None or not any(same(key.expr, other) for other in partition_by):
            diagnostics.error(
                "SUBSTREAM_KEY_NOT_PARTITIONED",
                f"MATCH_RECOGNIZE must be partitioned by the substream key {key.text!r} of "
                "TIMESTAMP BY ... OVER, because events are ordered within one substream only",
                place,
                f"write PARTITION BY {key.text} in it",
            )


def carry(keys: Sequence[SubstreamKey], projection: BoundSelectList) -> tuple[SubstreamKey, ...]:
    """The keys as a reader of the projected rows sees them."""
    return tuple(
        SubstreamKey(key.text, None if key.expr is None else _carried(key.expr, projection)) for key in keys
    )


def carry_grouped(keys: Sequence[SubstreamKey], grouping: GroupBinding) -> tuple[SubstreamKey, ...]:
    """The keys as columns of the groups."""
    return tuple(
        SubstreamKey(key.text, None if key.expr is None else grouping.key_of(key.expr, key.expr.span))
        for key in keys
    )


def merge(branches: Iterable[Sequence[SubstreamKey]]) -> tuple[SubstreamKey, ...]:
    """The keys of a union: those of all branches, equal ones once."""
    merged: list[SubstreamKey] = []
    for key in (key for branch in branches for key in branch):
        if not any(
            (key.text == other.text and key.expr is None and other.expr is None)
            or (key.expr is not None and other.expr is not None and same(key.expr, other.expr))
            for other in merged
        ):
            merged.append(key)
    return tuple(merged)


def _carried(expr: Expr, projection: BoundSelectList) -> Expr | None:
    for item in projection.items:
        if same(item.expr, expr):
            return Ref(item.name, expr.span)
    match expr:
        case Literal():
            return expr
        case Ref(name=name):
            return expr if name.startswith("$") and name != PAYLOAD else None
        case Path(base=Ref(name="$payload"), keys=keys):
            kept = isinstance(projection.spread, Ref) and projection.spread.name == PAYLOAD
            shadowed = any(item.name == keys[0] for item in projection.items)
            return expr if kept and not shadowed else None
        case Path(base=base, keys=keys):
            record = _carried(base, projection)
            return None if record is None else Path(record, keys, expr.span)
        case Call(function=function, args=args):
            carried = [_carried(arg, projection) for arg in args]
            kept_args = tuple(arg for arg in carried if arg is not None)
            return Call(function, kept_args, expr.span) if len(kept_args) == len(args) else None
        case _:
            return None  # a key computed by CASE or CAST is only followed when a column holds it
