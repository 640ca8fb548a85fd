"""Pruning: rows that travel or wait whole carry only the columns that somebody reads.

A GROUP BY hands on aggregates, so it names the columns it needs. Analytic functions and APPLY hand on the
rows they read; the columns those rows need are known once all operators above are placed. The same holds for
a pattern: later operators may read only some of its measures. If only single fields of the payload are read,
they become columns of their own, as the scan makes them, and the payload is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from tideglass.core.types import PAYLOAD
from tideglass.plan.expressions import (
    Expr,
    Path,
    Ref,
    field_column,
    fields_to_columns,
    payload_fields,
    references,
    substitute,
)
from tideglass.plan.nodes import Named
from tideglass.plan.specs import RowProgram
from tideglass.plan.topology import AnalyticOp, ApplyOp, Op, PatternOp, ReceiveOp, RowsOp, SendOp


@dataclass(slots=True)
class _Needed:
    """Columns wanted of an operator, and the payload fields among them."""

    names: set[str] = field(default_factory=set[str])
    fields: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def add(self, names: Iterable[str], fields: Iterable[tuple[str, ...]] = ()) -> None:
        self.names |= set(names)
        self.fields |= {field_column(keys): keys for keys in fields}


def pruned(ops: Sequence[Op]) -> list[Op]:
    """The operators with row programs that make no column nobody reads."""
    result = list(ops)
    needed: dict[int, _Needed] = {}

    def want(source: int, names: Iterable[str], fields: Iterable[tuple[str, ...]]) -> None:
        needed.setdefault(source, _Needed()).add(names, fields)

    for op in reversed(ops):
        wanted = needed.get(op.id)
        match op:
            case RowsOp():
                rows = op.rows if wanted is None else _only(op.rows, wanted)
                if isinstance(ops[op.source], AnalyticOp | ApplyOp | PatternOp):
                    exprs = _exprs(rows)
                    fields = {keys for expr in exprs for keys in payload_fields(expr)}
                    rows = by_field_columns(rows)
                    names = {name for expr in _exprs(rows) for name in references(expr)}
                    want(op.source, names | set(rows.keep), fields)
                result[op.id] = replace(op, rows=rows)
            case AnalyticOp():
                wanted = wanted or _Needed()
                specs = tuple(spec for spec in op.specs if spec.name in wanted.names)
                own = {column for spec in specs for column in spec.columns}
                made = {spec.name for spec in op.specs}
                result[op.id] = replace(op, specs=specs)
                for source in op.sources:
                    want(source, (wanted.names - made) | own, wanted.fields.values())
            case PatternOp():
                read = set() if wanted is None else wanted.names
                measured = tuple(name for name in op.spec.measured if name in read)
                spec = replace(op.spec, measured=measured)
                result[op.id] = replace(op, spec=spec)
                for source in op.sources:
                    want(source, spec.columns, ())
            case ApplyOp():
                wanted = wanted or _Needed()
                want(op.source, (wanted.names - set(op.made)) | {op.argument}, wanted.fields.values())
            case ReceiveOp() if wanted is not None:
                want(op.send, wanted.names, wanted.fields.values())
            case SendOp() if wanted is not None:
                want(op.source, wanted.names | set(op.keys), wanted.fields.values())
            case _:
                continue
    return result


def by_field_columns(rows: RowProgram) -> RowProgram:
    """The program reading columns of single payload fields where it read fields of the payload."""
    return RowProgram(
        tuple(Named(item.name, fields_to_columns(item.expr)) for item in rows.items),
        None if rows.condition is None else fields_to_columns(rows.condition),
        rows.keep,
    )


def _exprs(rows: RowProgram) -> list[Expr]:
    return [item.expr for item in rows.items] + ([] if rows.condition is None else [rows.condition])


def _only(rows: RowProgram, wanted: _Needed) -> RowProgram:
    """The program with the wanted columns only; wanted payload fields become columns."""
    items = {item.name: item.expr for item in rows.items if item.name in wanted.names}
    payload = next((item.expr for item in rows.items if item.name == PAYLOAD), None)
    if payload is not None:
        for name, keys in wanted.fields.items():
            if name not in items:
                items[name] = substitute(Path(Ref(PAYLOAD), keys), {PAYLOAD: payload})
    return replace(rows, items=tuple(Named(name, expr) for name, expr in items.items()))
