"""Streams: the rows of an operator as query blocks see them, by what they are spread, and where they meet.

Rows of equal keys must be in one key group. They are there already if all of them were spread by the same
ones of these keys before. A stream knows the keys it was spread by, also after operators that hand rows on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tideglass.core.types import ORDER_COLUMNS, PARTITION, PAYLOAD, SUBSTREAM
from tideglass.plan.expressions import Expr, Path, Ref
from tideglass.plan.nodes import Lookup
from tideglass.plan.specs import RowProgram


@dataclass(frozen=True, slots=True)
class Stream:
    """Rows of an operator as a query block sees them, not yet computed.

    op: the id of the operator
    level: its level
    columns: expressions over the rows of `op`, by the column's name
    payload: the expression of the payload; None: there is none
    condition: which rows of `op` count; None: all
    together: the keys by whose hash rows are spread, in that order; each key is the set of all expressions
        over the rows of `op` that are equal to it. Empty: all rows are in one key group. None: rows are
        spread by nothing
    substreams: the rows have substreams
    aligned: the one key is the input partition, and its number is the number of the key group
    """

    op: int
    level: int
    columns: Mapping[str, Expr]
    payload: Expr | None
    condition: Expr | None = None
    together: tuple[frozenset[Expr], ...] | None = None
    substreams: bool = False
    aligned: bool = False


@dataclass(frozen=True, slots=True)
class Meeting:
    """Where rows of equal keys meet.

    level: the level
    routing: the columns by whose hash rows are spread there
    sent: they must be sent there; otherwise they are there already
    aligned: as of a Stream
    """

    level: int
    routing: tuple[str, ...]
    sent: bool
    aligned: bool


def _spread_in(stream: Stream, program: RowProgram, routing: Sequence[str]) -> tuple[str, ...] | None:
    """The columns of `program` among `routing` by which rows are spread already; None: by another one.

    Streams that meet are together only if they are spread by the same columns in the same order.
    """
    if stream.together is None:
        return None
    found = [
        next((item.name for item in program.items if item.name in routing and item.expr in key), None)
        for key in stream.together
    ]
    names = tuple(name for name in found if name is not None)
    return names if len(names) == len(found) else None


def meeting_of(branches: Sequence[Stream], programs: Sequence[RowProgram], keys: tuple[str, ...]) -> Meeting:
    """Where rows of equal keys meet: where they are, if they are spread there by some of the keys."""
    highest = max(stream.level for stream in branches)
    spread = {
        (_spread_in(stream, program, keys) if stream.level == highest else None, stream.aligned)
        for stream, program in zip(branches, programs, strict=True)
    }
    if highest > 0 and len(spread) == 1:
        here, aligned = spread.pop()
        if here is not None:
            return Meeting(highest, here, sent=False, aligned=aligned)
    partition = partition_among(list(zip(branches, programs, strict=True)), keys)
    if partition is not None:
        return Meeting(1, (partition,), sent=True, aligned=True)
    return Meeting(highest + 1, keys, sent=True, aligned=False)


def partition_among(rows: Sequence[tuple[Stream, RowProgram]], keys: Sequence[str]) -> str | None:
    """The key that is PartitionId in all of these rows of inputs, if there is one."""
    if any(stream.level > 0 for stream, _ in rows):
        return None
    holding = [
        {PARTITION, *(item.name for item in program.items if item.expr == Ref(PARTITION))}
        for _, program in rows
    ]
    return next((key for key in keys if all(key in names for names in holding)), None)


def kept_columns(stream: Stream) -> tuple[str, ...]:
    """Columns that go with a row wherever it goes."""
    return (*ORDER_COLUMNS, SUBSTREAM) if stream.substreams else ORDER_COLUMNS


def spread_by(routing: Sequence[str]) -> tuple[frozenset[Expr], ...]:
    """What rows are spread by that were sent by these columns."""
    return tuple(frozenset((Ref(name),)) for name in routing)


def still_together(stream: Stream, program: RowProgram) -> tuple[frozenset[Expr], ...] | None:
    """What the rows of `stream` are spread by, over the rows its program makes."""
    if stream.together is None:
        return None
    keys: list[frozenset[Expr]] = []
    for key in stream.together:
        same: set[Expr] = {Ref(item.name) for item in program.items if item.expr in key}
        if stream.payload == Ref(PAYLOAD):
            same |= {e for e in key if isinstance(e, Path) and e.base == Ref(PAYLOAD)}
        if not same:
            return None
        keys.append(frozenset(same))
    return tuple(keys)


def together_under(stream: Stream, node: Lookup) -> tuple[frozenset[Expr], ...] | None:
    """What the rows of `stream` are spread by, as the rows of the lookup name it."""
    if stream.together is None:
        return None
    keys: list[frozenset[Expr]] = []
    for key in stream.together:
        same: set[Expr] = {
            Ref(node.left_prefix + name) for name, expr in stream.columns.items() if expr in key
        }
        if not same:
            return None
        keys.append(frozenset(same))
    return tuple(keys)
