"""Which columns a join carries: those that its condition and its readers look at, and no others.

The readers of a join are known only when everything is placed. The columns are then found from the last join
to the first, since a join may read another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tideglass.core.types import MADE_FIELDS, ORDER_COLUMNS, PAYLOAD, SUBSTREAM, SYSTEM_TIMESTAMP
from tideglass.plan.expressions import (
    Expr,
    Literal,
    Path,
    Ref,
    field_column,
    fields_to_columns,
    payload_fields,
    references,
    rewrite,
    substitute,
    walk,
)
from tideglass.plan.nodes import Named
from tideglass.plan.specs import ReferenceJoinSpec, RowProgram
from tideglass.plan.topology import JoinOp, LookupOp, Op, RowsOp

_OF_THE_PAIR = frozenset((*ORDER_COLUMNS, SUBSTREAM))


@dataclass(frozen=True, slots=True)
class Side:
    """The rows of one stream as a side of a join.

    rows_op: the id of its RowsOp; None for reference data
    prefix: what the join puts before the stream's columns; empty before those of another join
    columns: expressions of the stream's columns over the rows its RowsOp reads, by name
    payload: the expression of the payload; None: there is none
    """

    rows_op: int | None
    prefix: str
    columns: Mapping[str, Expr]
    payload: Expr | None

    def expr(self, expr: Expr) -> Expr:
        """An expression over the joined rows, of columns of this side only, over the stream's rows."""
        return substitute(expr, {name: self._column(name) for name in references(expr)})

    def _column(self, name: str) -> Expr:
        own = name.removeprefix(self.prefix)
        if own == PAYLOAD:
            return self.payload if self.payload is not None else Literal(None)
        return self.columns.get(own, Ref(own))


@dataclass(frozen=True, slots=True)
class JoinSides:
    """The streams of a placed join; of a lookup one stream and the reference data, which is no operator.

    join_op: the id of the join
    right_prefix: what stands before columns of the right side
    left: the streams of the left side, several after a join
    right: the streams of the right side
    """

    join_op: int
    right_prefix: str
    left: tuple[Side, ...]
    right: tuple[Side, ...]


def settle_join(ops: list[Op], sides: JoinSides) -> None:
    """Adds the columns a join needs to it and to the programs before it, and renames them for its readers."""
    join = ops[sides.join_op]
    assert isinstance(join, JoinOp | LookupOp)
    condition = join.spec.condition
    readers = [op for op in ops if isinstance(op, RowsOp) and op.source == join.id]
    exprs = [expr for reader in readers for expr in _exprs(reader.rows)]
    exprs += [] if condition is None else [condition]
    columns = _columns(exprs)
    for bound in join.spec.bounds if isinstance(join, JoinOp) else ():
        if bound.base != SYSTEM_TIMESTAMP:
            columns.setdefault(bound.base, Ref(bound.base))
    names: dict[Expr, str] = {expr: name for name, expr in columns.items() if isinstance(expr, Path)}
    for reader in readers:
        ops[reader.id] = replace(reader, rows=_renamed(reader.rows, names))
    right = {n: e for n, e in columns.items() if n.startswith(sides.right_prefix)}
    left = {n: e for n, e in columns.items() if n not in right}
    condition = None if condition is None else _read(condition, names)
    if isinstance(join, JoinOp):
        spec = replace(join.spec, condition=condition, left_columns=tuple(left), right_columns=tuple(right))
        ops[join.id] = replace(join, spec=spec)
    else:
        spec = _settled(join.spec, sides.right[0], condition, left, right)
        ops[join.id] = replace(join, spec=spec)
    for own, chosen in ((sides.left, left), (sides.right, right)):
        for side in own:
            if side.rows_op is None:
                continue
            op = ops[side.rows_op]
            assert isinstance(op, RowsOp)
            items = tuple(Named(name, side.expr(expr)) for name, expr in chosen.items())
            ops[op.id] = replace(op, rows=replace(op.rows, items=op.rows.items + items))


def _settled(
    spec: ReferenceJoinSpec,
    side: Side,
    condition: Expr | None,
    left: Mapping[str, Expr],
    right: Mapping[str, Expr],
) -> ReferenceJoinSpec:
    """The lookup with its columns, those of the reference data made of what their decoder delivers."""
    items = (*spec.reference.items, *(Named(name, side.expr(expr)) for name, expr in right.items()))
    exprs = [item.expr for item in items]
    paths = {path for expr in exprs for path in payload_fields(expr)}
    program = tuple(Named(item.name, fields_to_columns(item.expr)) for item in items)
    whole = any(PAYLOAD in references(item.expr) for item in program)
    return replace(
        spec,
        condition=condition,
        left_columns=tuple(left),
        right_columns=tuple(right),
        reference=replace(spec.reference, items=program),
        fields=replace(spec.fields, paths=tuple(sorted(paths)), whole=whole),
    )


def _exprs(rows: RowProgram) -> list[Expr]:
    return [item.expr for item in rows.items] + ([] if rows.condition is None else [rows.condition])


def _columns(exprs: Sequence[Expr]) -> dict[str, Expr]:
    """The columns that expressions read, a field of a payload as a column of its own."""
    found: dict[str, Expr] = {}
    whole = {name for expr in exprs for name in _read_whole(expr)}
    for expr in exprs:
        for part in walk(expr):
            match part:
                case Path(base=Ref(name=name), keys=keys) if _is_payload(name) and (
                    name not in whole or keys[0].lower() in MADE_FIELDS  # which the payload itself lacks
                ):
                    found.setdefault(_field_name(name, keys), part)
                case Ref(name=name) if name not in _OF_THE_PAIR and (not _is_payload(name) or name in whole):
                    found.setdefault(name, part)
                case _:
                    continue
    return dict(sorted(found.items()))


def _read_whole(expr: Expr) -> set[str]:
    """Payloads that are not only looked into."""
    read = Counter(part.name for part in walk(expr) if isinstance(part, Ref))
    looked_into = Counter(
        part.base.name for part in walk(expr) if isinstance(part, Path) and isinstance(part.base, Ref)
    )
    return {name for name in read - looked_into if _is_payload(name)}


def _is_payload(name: str) -> bool:
    return name.endswith("." + PAYLOAD)


def _field_name(payload: str, keys: tuple[str, ...]) -> str:
    return payload.removesuffix(PAYLOAD) + field_column(keys)


def _renamed(rows: RowProgram, names: Mapping[Expr, str]) -> RowProgram:
    return replace(
        rows,
        items=tuple(Named(item.name, _read(item.expr, names)) for item in rows.items),
        condition=None if rows.condition is None else _read(rows.condition, names),
    )


def _read(expr: Expr, names: Mapping[Expr, str]) -> Expr:
    return rewrite(expr, lambda part: Ref(names[part], part.span) if part in names else None)
