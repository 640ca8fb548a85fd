"""UNION: bringing the branches to the same columns (`asa.md` 2.10)."""

from __future__ import annotations

from collections.abc import Sequence

from tideglass.bind import substreams
from tideglass.bind.projection import BoundSelectList
from tideglass.bind.scope import BoundRows
from tideglass.core.errors import Diagnostics, Span
from tideglass.core.types import PAYLOAD
from tideglass.plan.expressions import Ref, payload_field
from tideglass.plan.nodes import Named, Node, Projection, Union


def bind_union(branches: Sequence[BoundRows], places: Sequence[Span], diagnostics: Diagnostics) -> BoundRows:
    """All rows of all branches.

    Closed branches must have the same columns in the same order, names compared without regard to case;
    the first one's spelling counts. Beside an open branch, a column that some branch lists is looked up
    in the events of the others.
    """
    any_open = any(rows.node.open for rows in branches)
    listed: dict[str, str] = {}
    for rows in branches:
        for column in rows.node.columns:
            listed.setdefault(column.casefold() if not any_open else column, column)
    columns = tuple(listed.values())
    first = branches[0].node.columns
    for number, (rows, place) in enumerate(zip(branches, places, strict=True), 1):
        _check(number, rows.node, first if not any_open else columns, any_open, place, diagnostics)
    conformed = [_conform(rows, columns) for rows in branches]
    return BoundRows(
        Union(tuple(rows.node for rows in conformed)),
        _metadata([rows.metadata for rows in conformed]),
        substreams.merge(rows.substream_keys for rows in conformed),
        events=all(rows.events for rows in conformed),
    )


def _metadata(of_branches: Sequence[frozenset[str] | None]) -> frozenset[str] | None:
    """What stands before fields of the event in all of them; None unless all are events of inputs."""
    known = [names for names in of_branches if names is not None]
    return frozenset.intersection(*known) if len(known) == len(of_branches) else None


def _check(
    number: int, node: Node, wanted: tuple[str, ...], any_open: bool, place: Span, diagnostics: Diagnostics
) -> None:
    if node.open:
        return
    have = [column.casefold() for column in node.columns]
    want = [column.casefold() for column in wanted]
    if have == want or (any_open and set(have) == set(want)):
        return
    diagnostics.error(
        "UNION_COLUMNS",
        f"the columns of SELECT {number} of this UNION are ({', '.join(node.columns)}) "
        f"where ({', '.join(wanted)}) are wanted",
        place,
        "give every SELECT the same columns, in the same order, under the same names",
    )


def _conform(rows: BoundRows, columns: tuple[str, ...]) -> BoundRows:
    """The rows with exactly these listed columns, in this order."""
    node = rows.node
    if node.columns == columns:
        return rows
    by_key = {column.casefold(): column for column in node.columns}
    items: list[Named] = []
    for column in columns:
        own = column if column in node.columns else by_key.get(column.casefold())
        if own is not None:
            items.append(Named(column, Ref(own)))
        elif node.open:
            items.append(Named(column, payload_field(column)))
    spread = Ref(PAYLOAD) if node.open else None
    keys = substreams.carry(
        rows.substream_keys, BoundSelectList(tuple(items), spread, rows.metadata is not None)
    )
    return BoundRows(Projection(node, tuple(items), spread), rows.metadata, keys, rows.events and node.open)
