"""Several queries as one job: a Spark query costs seconds to start, whatever it holds.

Queries in one job share nothing but the batches: every input, reader, operator and output of a query gets
a number or a name of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tideglass.plan.topology import (
    EmitOp,
    Op,
    PartialOp,
    ReceiveOp,
    RowsOp,
    ScanOp,
    SendOp,
    Topology,
    WindowOp,
)

#: Names of an input or output of one query within the whole job.
QUALIFIED = "{place}:{name}"


def merged(topologies: Sequence[Topology]) -> Topology:
    """One topology that does what all of them do; their key groups and level must agree."""
    first = topologies[0]
    ops: list[Op] = []
    readers: list[Any] = []
    fields: dict[str, Any] = {}
    outputs: list[str] = []
    for place, each in enumerate(topologies):
        assert (each.key_groups, each.level, each.functions) == (first.key_groups, first.level, {})
        ops += [moved(op, len(ops), len(readers), place) for op in each.ops]
        readers += [
            replace(reader, id=reader.id + len(readers), input=qualified(place, reader.input))
            for reader in each.readers
        ]
        fields |= {qualified(place, name): needed for name, needed in each.fields.items()}
        outputs += [qualified(place, name) for name in each.outputs]
    return Topology(tuple(ops), tuple(readers), fields, tuple(outputs), first.key_groups, first.level)


def moved(op: Op, by: int, readers_by: int, place: int) -> Op:
    """The operator with all numbers it holds moved."""
    match op:
        case ScanOp():
            return replace(op, id=op.id + by, reader=op.reader + readers_by)
        case ReceiveOp():
            return replace(op, id=op.id + by, send=op.send + by)
        case WindowOp():
            return replace(op, id=op.id + by, sources=tuple(source + by for source in op.sources))
        case EmitOp():
            return replace(op, id=op.id + by, source=op.source + by, output=qualified(place, op.output))
        case RowsOp() | PartialOp() | SendOp():
            return replace(op, id=op.id + by, source=op.source + by)


def qualified(place: int, name: str) -> str:
    return QUALIFIED.format(place=place, name=name)


def own(place: int, all_named: Mapping[str, Any]) -> dict[str, Any]:
    """What belongs to the query at `place`, by its own names."""
    mine = QUALIFIED.format(place=place, name="")
    return {name.removeprefix(mine): value for name, value in all_named.items() if name.startswith(mine)}
