"""The SQL of the row programs of a job, for people."""

from __future__ import annotations

from collections.abc import Mapping

from tideglass.core.types import SYSTEM_TIMESTAMP, Type
from tideglass.evaluate.program import Program
from tideglass.plan.expressions import references
from tideglass.plan.topology import RowsOp, Topology


def program_sql(topology: Topology) -> list[tuple[str, str]]:
    """The SQL of every row program: a title and the text.

    Types belong to values, so the SQL is made chunk by chunk. This one is for fields of the types CREATE
    TABLE declares, for text where nothing is declared, and for aggregates that are numbers.
    """
    declared = {
        f"$payload.{name}": type_
        for needed in topology.fields.values()
        for name, type_ in needed.payload_types
    }
    result: list[tuple[str, str]] = []
    for op in topology.ops:
        if not isinstance(op, RowsOp):
            continue
        exprs = [item.expr for item in op.rows.items]
        exprs += [op.rows.condition] if op.rows.condition is not None else []
        types = {name: _shown_type(name, declared) for expr in exprs for name in references(expr)}
        types |= dict.fromkeys(op.rows.keep, Type.BIGINT)
        program = Program(op.rows.items, op.rows.condition, op.rows.keep, level=topology.level)
        result.append((f"program of #{op.id}", program.sql(types)))
    return result


def _shown_type(name: str, declared: Mapping[str, Type]) -> Type:
    if name == SYSTEM_TIMESTAMP:
        return Type.DATETIME
    if name.startswith("$a") and name[2:].isdigit():
        return Type.BIGINT
    return declared.get(name, Type.NVARCHAR)
