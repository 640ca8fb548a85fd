"""Which state belongs to which operator: a fingerprint of its spec and of all operators that feed it.

State outlives the plan that made it. An operator of a later plan may go on with it only if it would have
made exactly the same state of the same events; then, and only then, the fingerprints are equal. The number
of an operator and the operators after it are no part of its fingerprint.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import cast

from tideglass.core.tags import tag_of, tagged_fields, written
from tideglass.plan.topology import (
    AnalyticOp,
    EmitOp,
    JoinOp,
    Op,
    PatternOp,
    RowsOp,
    ScanOp,
    Topology,
    WindowOp,
)

#: Fields of an operator that hold its position or the receiver of its rows, not what it computes.
_PLACE = ("id", "level", "to_level", "output")
_SOURCES = ("source", "send", "sources", "left", "right")


def fingerprints(topology: Topology) -> tuple[str, ...]:
    """The fingerprint of every operator, by its number."""
    found: list[str] = []
    for op in topology.ops:
        lines = [tag_of(op)]
        for field, name, value in tagged_fields(op):
            if field == "reader":
                lines.append(_reading(topology, cast("int", value)))
            elif field in _SOURCES:
                numbers = (value,) if isinstance(value, int) else cast("tuple[int, ...]", value)
                lines.append(f"{name}={[found[number] for number in numbers]}")
                lines += [_columns(topology, number) for number in numbers if not isinstance(op, RowsOp)]
            elif field not in _PLACE:
                lines.append(f"{name}={written(value)}")
        found.append(_hash("\n".join(lines)))
    return tuple(found)


def _reading(topology: Topology, id_: int) -> str:
    """How a reader makes rows of events; its number is in the rows, as `$input`."""
    reader = topology.readers[id_]
    types = topology.fields[reader.input].payload_types
    text = written((reader, types, topology.level, topology.functions))
    return f"{text} without rows that fail" if topology.drops_failing_rows else text


def _columns(topology: Topology, source: int) -> str:
    """The columns of events passed on as they are; they depend on all readers of the input."""
    op = topology.op(source)
    return written(topology.fields[topology.readers[op.reader].input]) if isinstance(op, ScanOp) else ""


def state_ids(topology: Topology) -> tuple[int, ...]:
    """The number the state of each operator is kept under, by the operator's own number.

    Operators with equal specs and equal inputs get fingerprints by their order; their state is equal too.
    """
    seen: Counter[str] = Counter()
    result: list[int] = []
    for fingerprint in fingerprints(topology):
        twin = seen[fingerprint]
        seen[fingerprint] += 1
        result.append(int(_hash(f"{fingerprint} {twin}")[:8], 16) & 0x7FFF_FFFF)  # an INT of Spark's
    return tuple(result)


def state_parts(topology: Topology) -> tuple[str, ...]:
    """Everything with state in a run, a text each: a checkpoint to resume from must have all of it.

    A checkpoint holds one store for each level, so their number is a part too.
    """
    ids = state_ids(topology)
    parts = [f"levels {topology.levels}"]
    parts += [f"reader {op.reader} {ids[op.id]}" for op in topology.ops if isinstance(op, ScanOp)]
    parts += [f"level {op.level} {ids[op.id]}" for op in topology.ops if keeps_state(op)]
    return tuple(sorted(parts))


def keeps_state(op: Op) -> bool:
    """Whether an operator holds anything from batch to batch; an EmitOp does so in the scan only."""
    match op:
        case WindowOp() | JoinOp() | AnalyticOp() | PatternOp():
            return True
        case EmitOp(level=level):
            return level == 0
        case _:
            return False


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
