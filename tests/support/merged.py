"""Several queries as one job: a Spark query costs seconds to start, whatever it holds.

Queries in one job share nothing but the batches: every input, reader, operator and output of a query gets
a number or a name of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from tideglass.plan.specs import ReferenceJoinSpec
from tideglass.plan.topology import Op, Topology

#: Fields of operators that name one other operator, or several.
ONE_OPERATOR = ("source", "send")
SEVERAL_OPERATORS = ("sources", "left", "right")

#: Names of an input or output of one query within the whole job.
QUALIFIED = "{place}:{name}"


def merged(topologies: Sequence[Topology]) -> Topology:
    """One topology that does what all of them do; their key groups, level and `on_error` must agree.

    Places in errors are those of the first query.
    """
    first = topologies[0]
    ops: list[Op] = []
    readers: list[Any] = []
    needed_fields: dict[str, Any] = {}
    outputs: list[str] = []
    for place, each in enumerate(topologies):
        agreed = (each.key_groups, each.level, each.drops_failing_rows, each.functions)
        assert agreed == (first.key_groups, first.level, first.drops_failing_rows, {})
        ops += [moved(op, len(ops), len(readers), place) for op in each.ops]
        readers += [
            replace(reader, id=reader.id + len(readers), input=qualified(place, reader.input))
            for reader in each.readers
        ]
        needed_fields |= {qualified(place, name): needed for name, needed in each.fields.items()}
        outputs += [qualified(place, name) for name in each.outputs]
    return Topology(
        tuple(ops),
        tuple(readers),
        needed_fields,
        tuple(outputs),
        first.key_groups,
        first.level,
        source=first.source,
        drops_failing_rows=first.drops_failing_rows,
    )


def moved(op: Op, by: int, readers_by: int, place: int) -> Op:
    """The operator with all numbers it holds moved, whatever its kind."""
    changed: dict[str, Any] = {"id": op.id + by}
    for each in fields(op):
        value = getattr(op, each.name)
        if each.name == "reader":
            changed["reader"] = value + readers_by
        elif isinstance(value, ReferenceJoinSpec):
            changed[each.name] = replace(value, input=qualified(place, value.input))
        elif each.name == "output":
            changed["output"] = qualified(place, value)
        elif each.name in ONE_OPERATOR:
            changed[each.name] = value + by
        elif each.name in SEVERAL_OPERATORS:
            changed[each.name] = tuple(source + by for source in value)
    return replace(op, **changed)


def qualified(place: int, name: str) -> str:
    return QUALIFIED.format(place=place, name=name)


def own(place: int, all_named: Mapping[str, Any]) -> dict[str, Any]:
    """What belongs to the query at `place`, by its own names."""
    mine = QUALIFIED.format(place=place, name="")
    return {name.removeprefix(mine): value for name, value in all_named.items() if name.startswith(mine)}
