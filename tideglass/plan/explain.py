"""What a topology will do, in words: steps, stages, what crosses between them, what they keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tideglass.core.time import (
    duration_text,
)
from tideglass.core.types import PARTITION
from tideglass.plan.expressions import Ref
from tideglass.plan.nodes import Plan
from tideglass.plan.output_timestamp import OutputTimestamp, PairTimestamp
from tideglass.plan.policy_settings import Policies
from tideglass.plan.spans import look_back_ticks, step_spans_ticks
from tideglass.plan.specs import (
    AggregateSpec,
    AnalyticSpec,
    AnomalySpec,
    GroupBySpec,
    IntervalJoinSpec,
    PatternSpec,
    ReferenceJoinSpec,
)
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
    ReceiveOp,
    RowsOp,
    ScanOp,
    SendOp,
    Topology,
    WindowOp,
)


@dataclass(frozen=True, slots=True)
class StepText:
    """A step or output: its name, and how far back it looks (what a replay must read again)."""

    name: str
    look_back: str


@dataclass(frozen=True, slots=True)
class CrossingText:
    """What one exchange carries, for people.

    route: from where to where
    rows: which rows
    columns: their columns
    spread: by what they are spread over key groups
    """

    route: str
    rows: str
    columns: tuple[str, ...]
    spread: str


@dataclass(frozen=True, slots=True)
class StageText:
    """One level: what it is keyed by and what its operators do, in the order they run."""

    title: str
    operators: tuple[str, ...]


def explain_steps(plan: Plan) -> tuple[StepText, ...]:
    """Every step and output with its time span (`asa.md` 7.2)."""
    spans_ticks = step_spans_ticks(plan)
    named = [*plan.steps, *((f"INTO {output.name}", output.node) for output in plan.outputs)]
    return tuple(StepText(name, duration_text(look_back_ticks(node, spans_ticks))) for name, node in named)


def explain_stages(topology: Topology) -> tuple[StageText, ...]:
    """Every level, the scan first."""
    texts = [StageText("scan: one task per group of input partitions", _operators(topology, 0))]
    for level in range(1, topology.levels + 1):
        texts.append(
            StageText(f"stage {level}: {topology.key_groups} key groups", _operators(topology, level))
        )
    return tuple(texts)


def explain_crossings(topology: Topology) -> tuple[CrossingText, ...]:
    """Every exchange, in the order of the levels; none for a job whose rows stay where they are read."""
    return tuple(_crossing(topology, op) for op in topology.ops if isinstance(op, SendOp))


def _crossing(topology: Topology, send: SendOp) -> CrossingText:
    source = topology.op(send.source)
    if isinstance(source, PartialOp):
        grouping = source.spec
        rows = "partial aggregates: at most a row for each key and piece of a window in a batch"
        columns = (*grouping.keys, *(aggregate_text(spec) for spec in grouping.aggregates))
        names = _names(topology, source.source)
    else:
        rows = "raw rows"
        columns = tuple(item.name for item in source.rows.items) if isinstance(source, RowsOp) else ()
        names = _names(topology, send.source)
    groups = f"{topology.key_groups} key groups"
    return CrossingText(
        f"#{send.id}: {_place(send.level)} to {_place(send.to_level)}",
        rows,
        tuple(_readable(column, names) for column in columns),
        f"by {_spread(send, names)} to {groups}" if send.keys else "all to one key group",
    )


def _spread(send: SendOp, names: Mapping[str, str]) -> str:
    """What decides the key group of a row."""
    keys = ", ".join(names.get(key, key) for key in send.keys)
    return f"number of {keys}" if isinstance(send, AlignedSendOp) else f"hash of {keys}"


def _names(topology: Topology, id_: int) -> dict[str, str]:
    """The columns a row program makes that are plain fields of the event, by what the query calls them."""
    op = topology.op(id_)
    if not isinstance(op, RowsOp):
        return {}
    plain = {item.name: item.expr.name for item in op.rows.items if isinstance(item.expr, Ref)}
    names_shown = {
        name: _SHOWN_NAMES.get(field, field.removeprefix("$payload.")) for name, field in plain.items()
    }
    return names_shown | _SHOWN_NAMES


#: What a query calls a column that every row has.
_SHOWN_NAMES = {PARTITION: "PartitionId"}


def _readable(column: str, names: Mapping[str, str]) -> str:
    """A column, or an aggregate over one, with the field it is made of in its place."""
    for name, field in names.items():
        if column == name:
            return field
        column = column.replace(f"({name})", f"({field})")
    return column.removeprefix("$payload.")


def _place(level: int) -> str:
    return f"stage {level}" if level else "scan"


def aggregate_text(spec: AggregateSpec) -> str:
    """An aggregate function over its column, as in the query.

    >>> aggregate_text(AggregateSpec(name="n", function="count", arg="v", distinct=True))
    'COUNT(DISTINCT v)'
    """
    what = ("DISTINCT " if spec.distinct else "") + (spec.arg or "*")
    return f"{spec.function if spec.is_users else spec.function.upper()}({what})"


def _operators(topology: Topology, level: int) -> tuple[str, ...]:
    return tuple(f"#{op.id} {operator_text(topology, op)}" for op in topology.at(level))


def _watermark_text(policies: Policies) -> str:
    """The watermark policy that the settings choose; empty for the service's own."""
    source = "" if policies.source is None else f", {policies.source}"
    return (
        source if policies.percentile is None else f"{source}, watermark at percentile {policies.percentile}"
    )


def operator_text(topology: Topology, op: Op) -> str:
    """One operator in one line."""
    match op:
        case ScanOp():
            reader = topology.readers[op.reader]
            time = "application time" if reader.timestamp is not None else "arrival time"
            over = f", {len(reader.over)} substream key(s)" if reader.over else ""
            return f"read {reader.input} ({time}{over}{_watermark_text(reader.policies)})"
        case RowsOp():
            what = ", ".join(item.name for item in op.rows.items) or "nothing"
            return f"rows of #{op.source}: {what}" + (" where a condition holds" if op.rows.condition else "")
        case PartialOp():
            return f"pre-aggregate #{op.source} for {grouping_text(op.spec)}"
        case SendOp():
            by = _spread(op, _SHOWN_NAMES) if op.keys else "all to one key group"
            what = "partial aggregates" if isinstance(topology.op(op.source), PartialOp) else "rows"
            return f"send #{op.source} to stage {op.to_level} by {by}: {what} cross"
        case ReceiveOp():
            return f"receive what #{op.send} sends; watermark = least of all senders"
        case WindowOp():
            sources = ", ".join(f"#{source}" for source in op.sources)
            return f"group {sources} by {grouping_text(op.spec)}: keeps partial aggregates per window piece"
        case JoinOp():
            left, right = (", ".join(f"#{source}" for source in side) for side in (op.left, op.right))
            return f"{op.spec.kind} join of {left} with {right} by {join_text(op.spec)}"
        case LookupOp():
            return f"{op.spec.kind} join of #{op.source} with {reference_join_text(op.spec)}"
        case AnalyticOp():
            sources = ", ".join(f"#{source}" for source in op.sources)
            calls = ", ".join(analytic_text(spec) for spec in op.specs)
            return f"{calls} of {sources}: keeps rows ahead of the watermark, and those looked back at"
        case PatternOp():
            sources = ", ".join(f"#{source}" for source in op.sources)
            return f"match {pattern_text(op.spec)} among {sources}: keeps events a match may be made of"
        case ApplyOp():
            what = "element" if op.function == "getarrayelements" else "field"
            kept = ", or one with NULLs" if op.outer else ""
            return f"a row for each {what} of {op.argument} of #{op.source}{kept}"
        case EmitOp():
            return f"rows of #{op.source} into {op.output}"


def operator_kind(op: Op) -> str:
    """What an operator does, in one to three words."""
    match op:
        case ScanOp():
            return "input"
        case RowsOp():
            return "projection" if op.rows.condition is None else "filter"
        case PartialOp():
            return "partial aggregation"
        case SendOp():
            return "send"
        case ReceiveOp():
            return "receive"
        case WindowOp():
            kinds = dict.fromkeys(window.text.split()[0] for window in op.spec.windows)
            return f"{' and '.join(kinds)} window{'s' if len(op.spec.windows) > 1 else ''}"
        case JoinOp():
            return "left join" if op.spec.kind == "left" else "join"
        case LookupOp():
            return "left reference join" if op.spec.kind == "left" else "reference join"
        case AnalyticOp():
            return "analytic function" + ("s" if len(op.specs) > 1 else "")
        case PatternOp():
            return "pattern"
        case ApplyOp():
            return "apply"
        case EmitOp():
            return "output"


def join_text(spec: IntervalJoinSpec) -> str:
    """What brings the rows of a join together, and how long they are kept for it."""
    keys = ", ".join(spec.keys) or "nothing but time"
    earlier, later = max(0, -spec.lower_ticks), max(0, spec.upper_ticks)
    return (
        f"{keys}: keeps left rows for {duration_text(later)}, right rows for {duration_text(earlier)}"
        + ("; the rest of ON is a condition on pairs" if spec.condition is not None else "")
        + (
            ""
            if spec.output_timestamp is PairTimestamp.LATER
            else f"; stamped with the {spec.output_timestamp.value}"
        )
    )


def pattern_text(spec: PatternSpec) -> str:
    """The pattern as it was written, how long a match may last, and whose events it is of."""
    by = " by " + ", ".join(spec.keys) if spec.keys else ""
    return f"{spec.text} within {duration_text(spec.limit_ticks)}{by}"


def reference_join_text(spec: ReferenceJoinSpec) -> str:
    """The reference data of a join, and how its rows are found."""
    found = "by " + ", ".join(spec.keys) if spec.keys else "by looking at every row of it"
    more = "; the rest of ON is a condition on pairs" if spec.keys and spec.condition else ""
    return f"reference data {spec.input} {found}: kept once in every worker{more}"


def analytic_text(spec: AnalyticSpec) -> str:
    """An analytic function in words, with how far it looks back and by what."""
    what = spec.function.upper() + (f"({spec.arg})" if spec.arg else "")
    if spec.aggregate is not None and spec.aggregate.arg is not None:
        what += f"({spec.aggregate.arg})"
    if isinstance(spec, AnomalySpec):
        what += f" of at most {spec.model.history_size} rows"
    by = " by " + ", ".join(spec.keys) if spec.keys else ""
    when = " of some rows" if spec.when else ""
    return f"{what} within {duration_text(spec.length_ticks)}{by}{when}"


def grouping_text(grouping: GroupBySpec) -> str:
    windows = ", ".join(window.text for window in grouping.windows)
    keys = ", ".join(grouping.keys)
    chosen = grouping.output_timestamp
    stamped = "" if chosen is OutputTimestamp.END_OF_WINDOW else f", stamped with the {chosen.value}"
    panes = ", ".join(f"{percent} %" for percent in grouping.early_percents)
    early = f", with early panes at {panes} of the events in flight" if panes else ""
    return windows + (f" and {keys}" if keys else "") + stamped + early
