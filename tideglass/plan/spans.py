"""Time spans: how far back the rows of a step may depend on its input (`asa.md` 7.2, A-22)."""

from __future__ import annotations

from collections.abc import Mapping

from tideglass.plan.nodes import Aggregate, Analytic, InputScan, Join, Match, Node, Plan, StepRef, children
from tideglass.plan.output_timestamp import OutputTimestamp, PairTimestamp


def own_span_ticks(node: Node) -> int:
    """What `node` itself adds to the span of what it reads."""
    match node:
        case Analytic(calls=calls):
            return max(call.span_ticks for _, call in calls)
        case Aggregate(windows=windows):
            return max(window.span_ticks for window in windows)
        case Join(lower_ticks=lower_ticks, upper_ticks=upper_ticks):
            return max(upper_ticks, 0) - min(lower_ticks, 0)
        case Match(limit_ticks=limit_ticks):
            return limit_ticks
        case _:
            return 0


def hold_ticks(node: Node) -> int:
    """How much earlier than the watermark of its input `node` may still stamp a row.

    In a LEFT JOIN a left row waits until the last unit that could match it is over, and is then stamped
    with its own time + the upper bound (A-25), which may be earlier. A match waits until no event can make
    another one of it, and is then stamped with the time of its last event. Results stamped with an element
    (`asa.md` 11.4) have a time as early as that of the oldest one.
    """
    match node:
        case Aggregate(windows=windows, output_timestamp=chosen):
            at_end = chosen is OutputTimestamp.END_OF_WINDOW
            return 0 if at_end else max(window.span_ticks for window in windows)
        case Join(output_timestamp=PairTimestamp.LEFT, upper_ticks=upper_ticks, unmatched_ticks=unmatched):
            return max(0, upper_ticks, unmatched)
        case Join(output_timestamp=PairTimestamp.RIGHT, lower_ticks=lower_ticks):
            return max(0, -lower_ticks)
        case Join(kind="left", upper_ticks=upper_ticks, unmatched_ticks=unmatched_ticks):
            return max(0, upper_ticks - unmatched_ticks, -unmatched_ticks)
        case Match(limit_ticks=limit_ticks):
            return limit_ticks
        case _:
            return 0


def look_back_ticks(node: Node, step_look_back_ticks: Mapping[str, int] | None = None) -> int:
    """Time span of the rows `node` makes: spans along a chain add up, and the longest branch counts.

    `step_look_back_ticks` holds the span of every step `node` reads; KeyError when one is missing.
    """
    if isinstance(node, StepRef):
        return (step_look_back_ticks or {})[node.name]
    below_ticks = (look_back_ticks(child, step_look_back_ticks) for child in children(node))
    return own_span_ticks(node) + max(below_ticks, default=0)


def step_spans_ticks(plan: Plan) -> dict[str, int]:
    """Time span of every step of the plan, by name."""
    spans_ticks: dict[str, int] = {}
    for name, node in plan.steps:
        spans_ticks[name] = look_back_ticks(node, spans_ticks)
    return spans_ticks


def input_spans_ticks(plan: Plan, *, with_holds: bool = False) -> dict[str, int]:
    """Per input, how much earlier than its output a job must read it: the longest path to an output.

    with_holds: earlier than a *watermark* of the job instead, since rows stamped before it count too.
    """
    steps = dict(plan.steps)
    spans_ticks: dict[str, int] = {}

    def walk(node: Node, above_ticks: int) -> None:
        above_ticks += own_span_ticks(node) + (hold_ticks(node) if with_holds else 0)
        match node:
            case InputScan(input=name):
                spans_ticks[name] = max(spans_ticks.get(name, 0), above_ticks)
            case StepRef(name=name):
                walk(steps[name], above_ticks)
            case _:
                for child in children(node):
                    walk(child, above_ticks)

    for output in plan.outputs:
        walk(output.node, 0)
    return spans_ticks
