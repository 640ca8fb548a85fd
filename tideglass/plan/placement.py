"""Placement: which operator runs where, and where rows must be exchanged.

A step that only projects and filters costs nothing of its own: its expressions are folded into the
row program of its reader. A GROUP BY needs all rows of a group in one place. Rows that are
already together (because an earlier stage was keyed by columns that are among the group's keys, or
because everything is in one key group) stay where they are; otherwise they are pre-aggregated and
sent to the next level. If PartitionId is among the keys, rows are sent by it alone, so that later operators
that are aligned with the partitions of the input find their rows together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tideglass.core.errors import ProjectError, Span
from tideglass.core.events import Fields
from tideglass.core.types import PANE, PAYLOAD, SYSTEM_TIMESTAMP, WINDOW_ID
from tideglass.functions.callables import UserCode
from tideglass.plan.early_panes import FINAL, early_column
from tideglass.plan.expressions import (
    Expr,
    Literal,
    Path,
    Ref,
    both,
    is_large,
    is_plain,
    substitute,
)
from tideglass.plan.input_fields import fields_of_inputs, reader_of_columns, with_field_columns
from tideglass.plan.join_columns import JoinSides, Side, settle_join
from tideglass.plan.nodes import (
    Aggregate,
    Analytic,
    Apply,
    Filter,
    InputScan,
    Join,
    Lookup,
    Match,
    Named,
    Node,
    Plan,
    Projection,
    StepRef,
    Union,
)
from tideglass.plan.policy_settings import Policies
from tideglass.plan.pruning import pruned
from tideglass.plan.specs import (
    IntervalJoinSpec,
    PatternSpec,
    ReferenceJoinSpec,
    RowProgram,
)
from tideglass.plan.step_origin import StepOrigin
from tideglass.plan.streams import (
    Meeting,
    Stream,
    kept_columns,
    meeting_of,
    partition_among,
    spread_by,
    still_together,
    together_under,
)
from tideglass.plan.to_columns import analytic_specs, group_by_spec, pattern_spec
from tideglass.plan.topology import (
    AlignedSendOp,
    AnalyticOp,
    ApplyOp,
    EmitOp,
    JoinOp,
    LookupOp,
    Op,
    PartialOp,
    PatternOp,
    Reader,
    ReceiveOp,
    RowsOp,
    ScanOp,
    SendOp,
    Topology,
    WindowOp,
)


class _Placer:
    def __init__(self, policies: Policies) -> None:
        self.policies = policies
        self.ops: list[Op] = []
        self.readers: dict[InputScan, Reader] = {}
        self.steps: dict[str, tuple[Stream, ...]] = {}
        self.scans: dict[int, int] = {}
        self.joins: list[JoinSides] = []
        self.origin = StepOrigin("", Span())
        self.origins: list[StepOrigin] = []

    def add(self, op: Op, origin: StepOrigin | None = None) -> int:
        self.ops.append(op)
        self.origins.append(origin or self.origin)
        return op.id

    @property
    def next(self) -> int:
        return len(self.ops)

    # ------------------------------------------------------------ query blocks without state

    def streams(self, node: Node) -> tuple[Stream, ...]:
        """The streams whose rows together are the rows of `node`."""
        match node:
            case InputScan():
                return (self.scan(node),)
            case StepRef(name=name):
                return self.steps[name]
            case Filter(child=child, condition=condition):
                return tuple(self.filter(s, condition) for s in self.streams(child))
            case Projection(child=child):
                return tuple(self.project(s, node) for s in self.streams(child))
            case Union(children=branches):
                return tuple(s for branch in branches for s in self.aligned(branch, node.columns))
            case Aggregate():
                return (self.aggregate(node),)
            case Join():
                return (self.join(node),)
            case Analytic():
                return (self.analytic(node),)
            case Match():
                return (self.pattern(node),)
            case Apply():
                return tuple(self.apply(s, node) for s in self.streams(node.child))
            case Lookup():
                return tuple(self.lookup(s, node) for s in self.streams(node.left))

    def within(self, stream: Stream, expr: Expr) -> Expr:
        """An expression over a block's columns, as one over the rows of the stream's operator."""
        columns = dict(stream.columns)
        columns[PAYLOAD] = Literal(None) if stream.payload is None else stream.payload
        return substitute(expr, columns)

    def computed(self, stream: Stream, made: Sequence[Expr]) -> Stream:
        """The stream, its columns computed by an operator of their own if `made` of them is too large.

        Expressions of a step stand in those of the steps after it, and each step may multiply them.
        """
        plain = stream.condition is None and all(is_plain(expr) for expr in stream.columns.values())
        if plain or not any(is_large(expr) for expr in made):
            return stream
        items = dict(stream.columns)
        if stream.payload is not None:
            items[PAYLOAD] = stream.payload
        program = RowProgram(
            tuple(Named(name, expr) for name, expr in items.items()), stream.condition, kept_columns(stream)
        )
        return replace(
            stream,
            op=self.add(RowsOp(self.next, stream.level, stream.op, program)),
            columns={name: Ref(name) for name in stream.columns},
            payload=None if stream.payload is None else Ref(PAYLOAD),
            condition=None,
            together=still_together(stream, program),
        )

    def filter(self, stream: Stream, condition: Expr) -> Stream:
        whole = both(stream.condition, self.within(stream, condition))
        assert whole is not None
        stream = self.computed(stream, [whole])
        return replace(stream, condition=both(stream.condition, self.within(stream, condition)))

    def project(self, stream: Stream, node: Projection) -> Stream:
        columns, payload = self.projected(stream, node)
        before = self.computed(stream, list(columns.values()))
        if before is not stream:
            columns, payload = self.projected(before, node)
        made = replace(before, columns=columns, payload=payload)
        return self.computed(made, list(columns.values()))

    def projected(self, stream: Stream, node: Projection) -> tuple[dict[str, Expr], Expr | None]:
        columns = {item.name: self.within(stream, item.expr) for item in node.items}
        return columns, None if node.spread is None else self.within(stream, node.spread)

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

    def scan(self, node: InputScan) -> Stream:
        if node not in self.readers:
            policies = replace(self.policies, application_time=node.timestamp is not None)
            reader = Reader(len(self.readers), node.input, node.timestamp, node.over, policies)
            self.readers[node] = reader
            self.scans[reader.id] = self.add(ScanOp(self.next, reader.id), StepOrigin(node.input, node.span))
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
        items, grouping, routing = group_by_spec(node, branches[0].substreams)
        programs = [self.rows(stream, items) for stream in branches]
        if node.early_percents:
            programs = [self.with_early_columns(*pair, node) for pair in zip(branches, programs, strict=True)]
        meeting = meeting_of(branches, programs, routing)
        sources: list[int] = []
        for stream, program in zip(branches, programs, strict=True):
            rows = self.add(RowsOp(self.next, stream.level, stream.op, program))
            source = self.add(PartialOp(self.next, stream.level, rows, grouping))
            sources.append(self.brought(source, stream.level, meeting) if meeting.sent else source)
        window = self.add(WindowOp(self.next, meeting.level, tuple(sources), grouping))
        listed: dict[str, Expr] = {name: Ref(name) for name in node.columns}
        if any(w.id is not None for w in node.windows):
            listed[WINDOW_ID] = Ref(WINDOW_ID)
        listed[PANE] = Ref(PANE) if node.early_percents else Literal(FINAL)
        together = spread_by(meeting.routing)
        return Stream(
            window, meeting.level, listed, None, None, together, grouping.substreams, meeting.aligned
        )

    def with_early_columns(self, stream: Stream, rows: RowProgram, node: Aggregate) -> RowProgram:
        """The program of the rows of a window with early panes, whose reader then makes what they need."""
        scan = self.ops[stream.op]
        if not isinstance(scan, ScanOp):
            raise ProjectError(
                "settings: early panes of a window whose input is computed in several steps are understood, "
                "not yet supported\n  hint: group by fields of the input, or by shorter expressions"
            )
        source, reader = next(pair for pair in self.readers.items() if pair[1].id == scan.reader)
        percents = tuple(sorted({*reader.policies.early_percents, *node.early_percents}))
        policies = replace(reader.policies, early_percents=percents)
        self.readers[source] = replace(reader, policies=policies)
        return replace(rows, keep=(*rows.keep, *map(early_column, node.early_percents)))

    def rows(self, stream: Stream, items: tuple[Named, ...]) -> RowProgram:
        named = tuple(Named(item.name, self.within(stream, item.expr)) for item in items)
        return RowProgram(named, stream.condition, kept_columns(stream))

    # ------------------------------------------------------------ analytic functions, APPLY

    def analytic(self, node: Analytic) -> Stream:
        branches = self.streams(node.child)
        items = _whole_rows(node.child)
        specs, keys = analytic_specs(node, items)
        meeting, sources = self.met(branches, items, keys)
        substreams = branches[0].substreams
        op = self.add(AnalyticOp(self.next, meeting.level, sources, specs, substreams))
        together = tuple(frozenset((Ref(name), items.get(name, Ref(name)))) for name in meeting.routing)
        columns: dict[str, Expr] = {name: Ref(name) for name in node.columns}
        payload = Ref(PAYLOAD) if node.open else None
        return Stream(op, meeting.level, columns, payload, None, together, substreams, meeting.aligned)

    def pattern(self, node: Match) -> Stream:
        branches = self.streams(node.child)
        items: dict[str, Expr] = {}
        spec = pattern_spec(node, items, branches[0].substreams)
        meeting, sources = self.met(branches, items, spec.keys)
        op = self.add(PatternOp(self.next, meeting.level, sources, spec))
        held = [_measures_of(node, spec, name) for name in meeting.routing]
        columns: dict[str, Expr] = {name: Ref(name) for name in node.columns}
        together = tuple(held) if all(held) else None
        return Stream(op, meeting.level, columns, None, None, together, spec.substreams, meeting.aligned)

    def met(
        self, branches: Sequence[Stream], items: Mapping[str, Expr], keys: tuple[str, ...]
    ) -> tuple[Meeting, tuple[int, ...]]:
        """Brings the rows of the branches, with these columns, together by `keys`.

        Returns where they meet, and the operators that have them there.
        """
        named = tuple(Named(name, expr) for name, expr in items.items())
        programs = [self.rows(stream, named) for stream in branches]
        meeting = meeting_of(branches, programs, keys)
        sources: list[int] = []
        for stream, program in zip(branches, programs, strict=True):
            source = self.add(RowsOp(self.next, stream.level, stream.op, program))
            sources.append(self.brought(source, stream.level, meeting) if meeting.sent else source)
        return meeting, tuple(sources)

    def brought(self, source: int, from_level: int, meeting: Meeting) -> int:
        """The rows of an operator sent to a higher level."""
        kind = AlignedSendOp if meeting.aligned else SendOp
        send = self.add(kind(self.next, from_level, source, meeting.level, meeting.routing))
        return self.add(ReceiveOp(self.next, meeting.level, send))

    def apply(self, stream: Stream, node: Apply) -> Stream:
        items = _whole_rows(node.child)
        items[_ARGUMENT] = node.argument
        program = self.rows(stream, tuple(Named(name, expr) for name, expr in items.items()))
        rows = self.add(RowsOp(self.next, stream.level, stream.op, program))
        op = self.add(ApplyOp(self.next, stream.level, rows, node.function, _ARGUMENT, node.made, node.outer))
        return Stream(
            op,
            stream.level,
            {name: Ref(name) for name in node.columns},
            Ref(PAYLOAD) if node.open else None,
            None,
            still_together(stream, program),
            stream.substreams,
            stream.aligned,
        )

    # ------------------------------------------------------------ JOIN

    def join(self, node: Join) -> Stream:
        """Rows of both sides meet where the values of their keys are equal; without keys in one place.

        A side that is there already, spread by some of the keys, stays, and the other one follows it.
        """
        keys = tuple(f"$j{n}" for n in range(len(node.keys)))
        left = [_side_of(s, node.left_prefix) for s in self.streams(node.left)]
        right = [_side_of(s, node.right_prefix) for s in self.streams(node.right)]
        streams: list[tuple[Stream, Side, RowProgram]] = []
        for number, own in enumerate((left, right)):
            for stream, side in own:
                items = tuple(
                    Named(name, side.expr(pair[number])) for name, pair in zip(keys, node.keys, strict=True)
                )
                streams.append((stream, side, RowProgram(items, stream.condition, kept_columns(stream))))
        highest = max(stream.level for stream, _, _ in streams)
        there = [(stream, rows) for stream, _, rows in streams if stream.level == highest]
        far = [(stream, rows) for stream, _, rows in streams if stream.level < highest]
        meeting = meeting_of([stream for stream, _ in there], [rows for _, rows in there], keys)
        if far and (meeting.sent or (meeting.aligned and partition_among(far, meeting.routing) is None)):
            meeting = Meeting(highest + 1, keys, sent=True, aligned=False)
        level = meeting.level
        sources: list[int] = []
        sides: list[Side] = []
        for stream, side, rows in streams:
            source = self.add(RowsOp(self.next, stream.level, stream.op, rows))
            sides.append(replace(side, rows_op=source))
            sources.append(self.brought(source, stream.level, meeting) if stream.level < level else source)
        own_time = node.left_prefix + SYSTEM_TIMESTAMP
        substreams = streams[0][0].substreams
        spec = IntervalJoinSpec(
            kind=node.kind,
            keys=keys,
            bounds=tuple(replace(b, base=SYSTEM_TIMESTAMP) if b.base == own_time else b for b in node.bounds),
            condition=node.condition,
            left_columns=(),
            right_columns=(),
            lower_ticks=node.lower_ticks,
            upper_ticks=node.upper_ticks,
            unmatched_ticks=node.unmatched_ticks,
            substreams=substreams,
            output_timestamp=node.output_timestamp,
        )
        count_left = len(left)
        lefts, rights = tuple(sources[:count_left]), tuple(sources[count_left:])
        join = self.add(JoinOp(self.next, level, lefts, rights, spec))
        own_sides = tuple(sides[:count_left]), tuple(sides[count_left:])
        self.joins.append(JoinSides(join, node.right_prefix, *own_sides))
        # an unmatched left row has no right values, though it lies in the key group of its own key
        equal = [pair if node.kind == "inner" else pair[:1] for pair in node.keys]
        together = tuple(frozenset(equal[keys.index(name)]) for name in meeting.routing)
        first = streams[0][0]
        if count_left == 1 and first.level == level and not node.left_prefix:
            # a join under this one, whose columns have the same names: what was equal there is equal here
            together = tuple(a | b for a, b in zip(together, first.together or (), strict=True))
        columns: dict[str, Expr] = {name: Ref(name) for name in node.columns}
        return Stream(join, level, columns, None, None, together, substreams, meeting.aligned)

    def lookup(self, stream: Stream, node: Lookup) -> Stream:
        """Rows meet reference data wherever they are: every task has it whole."""
        _, left = _side_of(stream, node.left_prefix)
        columns: dict[str, Expr] = {name: Path(Ref(PAYLOAD), (name,)) for name in node.reference_columns}
        right = Side(None, node.right_prefix, columns, Ref(PAYLOAD) if node.reference_open else None)
        keys = tuple(f"$j{n}" for n in range(len(node.keys)))
        ours, theirs = (
            tuple(Named(name, side.expr(pair[number])) for name, pair in zip(keys, node.keys, strict=True))
            for number, side in enumerate((left, right))
        )
        rows = self.add(
            RowsOp(
                self.next, stream.level, stream.op, RowProgram(ours, stream.condition, kept_columns(stream))
            )
        )
        spec = ReferenceJoinSpec(
            input=node.input,
            kind=node.kind,
            keys=keys,
            condition=node.condition,
            left_columns=(),
            right_columns=(),
            reference=RowProgram(theirs, None, ()),
            fields=Fields(payload_types=node.payload_types),
            substreams=stream.substreams,
        )
        op = self.add(LookupOp(self.next, stream.level, rows, spec))
        self.joins.append(JoinSides(op, node.right_prefix, (replace(left, rows_op=rows),), (right,)))
        return Stream(
            op,
            stream.level,
            {name: Ref(name) for name in node.columns},
            None,
            None,
            together_under(stream, node),
            stream.substreams,
            stream.aligned,
        )

    # ------------------------------------------------------------ outputs

    def emit(self, output: str, node: Node) -> None:
        for stream in self.streams(node):
            items = [
                Named(name, expr) for name, expr in stream.columns.items() if name not in (WINDOW_ID, PANE)
            ]
            if stream.payload is not None:
                items.append(Named(PAYLOAD, stream.payload))
            program = RowProgram(tuple(items), stream.condition, kept_columns(stream))
            rows = self.add(RowsOp(self.next, stream.level, stream.op, program))
            self.add(EmitOp(self.next, stream.level, rows, output))


def _measures_of(node: Match, spec: PatternSpec, key: str) -> frozenset[Expr]:
    """The measures that hold a key of PARTITION BY: those of an event every match has."""
    return frozenset(
        Ref(value.name)
        for value in spec.values
        if value.name in node.measured
        and value.function in ("first", "last")
        and value.arg == Ref(key)
        and node.always_has(value.variable)
    )


def _side_of(stream: Stream, prefix: str) -> tuple[Stream, Side]:
    return stream, Side(None, prefix, stream.columns, stream.payload)


#: The column in which APPLY finds its argument.
_ARGUMENT = "$apply"


def _whole_rows(node: Node) -> dict[str, Expr]:
    """All columns of a node under their own names; `pruning` leaves out what nobody reads."""
    items: dict[str, Expr] = {name: Ref(name) for name in node.columns}
    if node.open:
        items[PAYLOAD] = Ref(PAYLOAD)
    return items


def place(
    plan: Plan, policies: Policies, key_groups: int, functions: Mapping[str, UserCode] | None = None
) -> Topology:
    """The topology of a plan for a number of key groups.

    functions: of users, for `udf.<name>` and `python.<name>`.
    """
    placer = _Placer(policies)
    spans = dict(plan.step_spans)
    for name, node in plan.steps:
        placer.origin = StepOrigin(name, spans.get(name, Span()))
        placer.steps[name] = placer.streams(node)
    for output in plan.outputs:
        placer.origin = StepOrigin(output.name, output.span)
        placer.emit(output.name, output.node)
    for sides in reversed(placer.joins):
        settle_join(placer.ops, sides)
    ops = pruned(placer.ops)
    return Topology(
        ops=with_field_columns(ops),
        readers=tuple(reader_of_columns(reader) for reader in placer.readers.values()),
        fields=fields_of_inputs(ops, placer.readers),
        outputs=tuple(dict.fromkeys(output.name for output in plan.outputs)),
        key_groups=key_groups,
        level=plan.compatibility_level,
        functions=dict(functions or {}),
        origins=tuple(placer.origins),
    )
