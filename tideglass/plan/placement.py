"""Placement: which operator runs where, and where rows must be exchanged.

A step that only projects and filters costs nothing of its own: its expressions are folded into the
row program of whoever reads it. A GROUP BY needs all rows of a group in one place. Rows that are
already together (because an earlier stage was keyed by columns that are among the group's keys, or
because everything is in one key group) stay where they are; otherwise they are pre-aggregated and
sent to the next level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tideglass.core.types import ORDER_COLUMNS, PAYLOAD, SUBSTREAM, WINDOW_ID
from tideglass.plan.nodes import (
    Aggregate,
    Expr,
    Filter,
    Named,
    Node,
    Path,
    Plan,
    Project,
    Ref,
    Scan,
    Session,
    StepRef,
    Union,
)
from tideglass.plan.rules import both, fields_to_columns, payload_fields, references, substitute
from tideglass.plan.topology import (
    EmitOp,
    Grouping,
    InputFields,
    Op,
    PartialOp,
    Reader,
    ReceiveOp,
    Rows,
    RowsOp,
    ScanOp,
    SendOp,
    Topology,
    WindowOp,
)
from tideglass.temporal.aggregates import AggregateSpec
from tideglass.temporal.policies import Policies


@dataclass(frozen=True, slots=True)
class Stream:
    """Rows of the operator `op` as a query block sees them, not yet computed.

    condition, columns, payload: expressions over the rows of `op`.
    together: None when rows are spread anyhow; else the keys by whose hash they are spread, in that
    order (none: all rows are in one key group). A key is given by all expressions over the rows of `op`
    that are equal to it.
    """

    op: int
    level: int
    columns: Mapping[str, Expr]
    payload: Expr | None
    condition: Expr | None = None
    together: tuple[frozenset[Expr], ...] | None = None
    substreams: bool = False


class _Placer:
    def __init__(self, policies: Policies) -> None:
        self.policies = policies
        self.ops: list[Op] = []
        self.readers: dict[Scan, Reader] = {}
        self.steps: dict[str, tuple[Stream, ...]] = {}
        self.scans: dict[int, int] = {}

    def add(self, op: Op) -> int:
        self.ops.append(op)
        return op.id

    @property
    def next(self) -> int:
        return len(self.ops)

    # ------------------------------------------------------------ query blocks without state

    def streams(self, node: Node) -> tuple[Stream, ...]:
        """The streams whose rows together are the rows of `node`."""
        match node:
            case Scan():
                return (self.scan(node),)
            case StepRef(name=name):
                return self.steps[name]
            case Filter(child=child, condition=condition):
                return tuple(
                    replace(s, condition=both(s.condition, self.within(s, condition)))
                    for s in self.streams(child)
                )
            case Project(child=child):
                return tuple(self.project(s, node) for s in self.streams(child))
            case Union(children=branches):
                return tuple(s for branch in branches for s in self.aligned(branch, node.columns))
            case Aggregate():
                return (self.aggregate(node),)

    def within(self, stream: Stream, expr: Expr) -> Expr:
        """An expression over a block's columns, as one over the rows of the stream's operator."""
        columns = dict(stream.columns)
        if stream.payload is not None:
            columns[PAYLOAD] = stream.payload
        return substitute(expr, columns)

    def project(self, stream: Stream, node: Project) -> Stream:
        columns = {item.name: self.within(stream, item.expr) for item in node.items}
        payload = None if node.spread is None else self.within(stream, node.spread)
        return replace(stream, columns=columns, payload=payload)

    def aligned(self, branch: Node, columns: tuple[str, ...]) -> tuple[Stream, ...]:
        """The streams of a branch of a UNION; a listed column it lacks is looked up in its payload."""
        result: list[Stream] = []
        for stream in self.streams(branch):
            found = dict(stream.columns)
            for name in columns:
                if name not in found and stream.payload is not None:
                    found[name] = Path(stream.payload, (name,))
            result.append(replace(stream, columns=found))
        return tuple(result)

    def scan(self, node: Scan) -> Stream:
        if node not in self.readers:
            policies = replace(self.policies, application_time=node.timestamp is not None)
            reader = Reader(len(self.readers), node.input, node.timestamp, node.over, policies)
            self.readers[node] = reader
            self.scans[reader.id] = self.add(ScanOp(self.next, reader.id))
        reader = self.readers[node]
        return Stream(
            self.scans[reader.id],
            0,
            {name: Path(Ref(PAYLOAD), (name,)) for name in node.columns},
            Ref(PAYLOAD),
            substreams=bool(node.over),
        )

    # ------------------------------------------------------------ GROUP BY

    def aggregate(self, node: Aggregate) -> Stream:
        branches = self.streams(node.child)
        items, grouping, routing = _grouping(node, branches[0].substreams)
        programs = [self.rows(stream, items) for stream in branches]
        highest = max(stream.level for stream in branches)
        spread = {
            _spread_in(stream, program, routing) if stream.level == highest else None
            for stream, program in zip(branches, programs, strict=True)
        }
        here = spread.pop() if highest > 0 and len(spread) == 1 else None
        stays = here is not None
        level = highest if stays else highest + 1
        sources: list[int] = []
        for stream, program in zip(branches, programs, strict=True):
            rows = self.add(RowsOp(self.next, stream.level, stream.op, program))
            source = self.add(PartialOp(self.next, stream.level, rows, grouping))
            if not stays:
                send = self.add(SendOp(self.next, stream.level, source, level, routing))
                source = self.add(ReceiveOp(self.next, level, send))
            sources.append(source)
        window = self.add(WindowOp(self.next, level, tuple(sources), grouping))
        listed: dict[str, Expr] = {name: Ref(name) for name in node.columns}
        if any(w.id is not None for w in node.windows):
            listed[WINDOW_ID] = Ref(WINDOW_ID)
        together = _spread_by(routing if here is None else here)
        return Stream(window, level, listed, None, None, together, grouping.substreams)

    def rows(self, stream: Stream, items: tuple[Named, ...]) -> Rows:
        named = tuple(Named(item.name, self.within(stream, item.expr)) for item in items)
        return Rows(named, stream.condition, _kept(stream))

    # ------------------------------------------------------------ outputs

    def emit(self, output: str, node: Node) -> None:
        for stream in self.streams(node):
            items = [Named(name, expr) for name, expr in stream.columns.items() if name != WINDOW_ID]
            if stream.payload is not None:
                items.append(Named(PAYLOAD, stream.payload))
            rows = self.add(
                RowsOp(
                    self.next, stream.level, stream.op, Rows(tuple(items), stream.condition, _kept(stream))
                )
            )
            self.add(EmitOp(self.next, stream.level, rows, output))


def _grouping(node: Aggregate, substreams: bool) -> tuple[tuple[Named, ...], Grouping, tuple[str, ...]]:
    """What a GROUP BY computes per row (equal expressions once), its grouping, and its routing keys."""
    items: list[Named] = list(node.keys)
    by_expr: dict[Expr, str] = {}

    def column(expr: Expr) -> str:
        if expr not in by_expr:
            by_expr[expr] = f"$x{len(by_expr)}"
            items.append(Named(by_expr[expr], expr))
        return by_expr[expr]

    aggregates = tuple(
        AggregateSpec(
            function=call.function,
            name=name,
            arg=None if call.arg is None else column(call.arg),
            order_by=tuple((column(expr), descending) for expr, descending in call.order_by),
            distinct=call.distinct,
            constant=call.constant,
            as_text=call.as_text,
        )
        for name, call in node.aggregates
    )
    key_of = {key.expr: key.name for key in node.keys}
    sessions = tuple(
        tuple(key_of.get(expr) or column(expr) for expr in window.partition_by or ())
        if isinstance(window, Session)
        else None
        for window in node.windows
    )
    keys = tuple(key.name for key in node.keys)
    grouping = Grouping(node.windows, keys, aggregates, sessions, substreams)
    return tuple(items), grouping, _routing(keys, sessions)


def _routing(keys: tuple[str, ...], sessions: tuple[tuple[str, ...] | None, ...]) -> tuple[str, ...]:
    """Columns by whose hash rows may be spread so that every window finds all the rows it needs.

    A session without PARTITION BY is formed from all rows of the step (`asa.md` 3.5): they must be
    seen in one place, so there is nothing to spread by.
    """
    if sessions and len(set(sessions)) == 1 and sessions[0] is not None:
        return sessions[0]
    return tuple(key for key in keys if all(names is None or key in names for names in sessions))


def _kept(stream: Stream) -> tuple[str, ...]:
    """Columns that go with a row wherever it goes."""
    return (*ORDER_COLUMNS, SUBSTREAM) if stream.substreams else ORDER_COLUMNS


def _spread_in(stream: Stream, program: Rows, routing: Sequence[str]) -> tuple[str, ...] | None:
    """The columns of `program` among `routing` by which rows are spread already; None if by anything else.

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


def _spread_by(routing: Sequence[str]) -> tuple[frozenset[Expr], ...]:
    """What rows are spread by that were sent by the hash of these columns."""
    return tuple(frozenset((Ref(name),)) for name in routing)


def place(
    plan: Plan, policies: Policies, key_groups: int, functions: Mapping[str, str] | None = None
) -> Topology:
    """The topology of a plan for a number of key groups.

    functions: JavaScript source per name, for `udf.<name>`.
    """
    placer = _Placer(policies)
    for name, node in plan.steps:
        placer.steps[name] = placer.streams(node)
    for output in plan.outputs:
        placer.emit(output.name, output.node)
    return Topology(
        tuple(_with_field_columns(op, placer) for op in placer.ops),
        tuple(
            replace(
                reader,
                timestamp=None if reader.timestamp is None else fields_to_columns(reader.timestamp),
                over=tuple(fields_to_columns(expr) for expr in reader.over),
            )
            for reader in placer.readers.values()
        ),
        _fields(placer),
        tuple(dict.fromkeys(output.name for output in plan.outputs)),
        key_groups,
        plan.compatibility_level,
        dict(functions or {}),
    )


def _with_field_columns(op: Op, placer: _Placer) -> Op:
    """Programs that read a scan directly find single payload fields as columns of their own."""
    if not isinstance(op, RowsOp) or not isinstance(placer.ops[op.source], ScanOp):
        return op
    rows = op.rows
    return replace(
        op,
        rows=Rows(
            tuple(Named(item.name, fields_to_columns(item.expr)) for item in rows.items),
            None if rows.condition is None else fields_to_columns(rows.condition),
            rows.keep,
        ),
    )


def _fields(placer: _Placer) -> dict[str, InputFields]:
    """What each input's decoder must deliver, over all readers of the input."""
    result: dict[str, InputFields] = {}
    for scan, reader in placer.readers.items():
        exprs: list[Expr] = [*([scan.timestamp] if scan.timestamp is not None else []), *scan.over]
        scan_id = placer.scans[reader.id]
        for op in placer.ops:
            if isinstance(op, RowsOp) and op.source == scan_id:
                exprs += [item.expr for item in op.rows.items]
                exprs += [op.rows.condition] if op.rows.condition is not None else []
        paths = {path for expr in exprs for path in payload_fields(expr)}
        whole = any(PAYLOAD in references(fields_to_columns(expr)) for expr in exprs)
        before = result.get(scan.input, InputFields((), False, scan.payload_types))
        result[scan.input] = InputFields(
            tuple(sorted(paths | set(before.paths))), whole or before.whole, scan.payload_types
        )
    return result
