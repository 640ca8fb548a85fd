"""Early panes of windows, as the settings of a job choose them (`asa.md` 11.6, decision 32).

    {"perMinute": [33, 66]}

A window then has a result more for each percentage, when so many percent of the events in flight are past
its end. Keys are those of `plan.step_choices`. Results of early panes may only go to outputs: a later window
would count their rows more than once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tideglass.plan.nodes import (
    Aggregate,
    Analytic,
    Filter,
    InputScan,
    Join,
    Match,
    Node,
    Plan,
    Projection,
    StepRef,
    Union,
    children,
)
from tideglass.plan.step_choices import NOT_YET, with_choices
from tideglass.plan.windows import Hopping

FINAL = "final"


def early_column(percent: int) -> str:
    """int64 ticks: the watermark at a percentage that a row met; in partials, the first window with them."""
    return f"$early{percent}"


def early_text(percent: int) -> str:
    """What System.Pane() shows of an early pane."""
    return f"early {percent}"


def pane_texts(percents: tuple[int, ...]) -> tuple[str, ...]:
    """What System.Pane() shows of each pane, in the order in which they come.

    >>> pane_texts((33, 66))
    ('early 33', 'early 66', 'final')
    """
    return (*map(early_text, percents), FINAL)


def with_early_panes(plan: Plan, choices: Mapping[str, tuple[int, ...]]) -> Plan:
    """The plan with the chosen early panes of each step. Raises ProjectError with all that is wrong."""
    steps = dict(plan.steps)

    def chosen(node: Node, percents: tuple[int, ...]) -> Node:
        match node:
            case Filter() | Projection():
                return replace(node, child=chosen(node.child, percents))
            case Union(children=branches):
                return replace(node, children=tuple(chosen(branch, percents) for branch in branches))
            case Aggregate():
                _check_window(node, steps)
                return replace(node, early_percents=tuple(sorted(set(percents))))
            case InputScan() | StepRef():
                raise ValueError("the step has no window that could have early panes")
            case _:
                raise ValueError(f"early panes of a step other than a plain GROUP BY are {NOT_YET}")

    return with_choices(plan, choices, chosen, "early panes", _check_readers)


def inputs_of(node: Node, steps: Mapping[str, Node]) -> tuple[InputScan, ...]:
    """The inputs whose rows a node reads with nothing but projections, filters and unions between them.

    Raises ValueError where there is anything else.
    """
    match node:
        case InputScan():
            return (node,)
        case StepRef(name=name):
            return inputs_of(steps[name], steps)
        case Filter() | Projection():
            return inputs_of(node.child, steps)
        case Union(children=branches):
            return tuple(found for branch in branches for found in inputs_of(branch, steps))
        case _:
            raise ValueError(
                "early panes of a window that reads anything but inputs, such as another window, are "
                + NOT_YET
            )


def _check_window(node: Aggregate, steps: Mapping[str, Node]) -> None:
    if not all(isinstance(window, Hopping) for window in node.windows):
        raise ValueError(f"early panes of windows that are neither tumbling nor hopping are {NOT_YET}")
    for scan in inputs_of(node.child, steps):
        if scan.over:
            raise ValueError(f"early panes with substreams (OVER) are {NOT_YET}")
        if scan.timestamp is None:
            raise ValueError(
                f"{scan.input!r} is read without TIMESTAMP BY: its events are in order, and a window is "
                "complete with the first event after it"
            )


def _check_readers(plan: Plan, name: str) -> None:
    """Raises ValueError if what the step hands on is read by more than projections and outputs."""
    carrying = {name}
    for step, node in plan.steps:
        if _reads(node, carrying):
            carrying.add(step)
    for output in plan.outputs:
        _reads(output.node, carrying)


def _reads(node: Node, carrying: set[str]) -> bool:
    """Whether a node hands on the rows of one of these steps.

    Raises ValueError where it computes with them.
    """
    if isinstance(node, StepRef):
        return node.name in carrying
    found = [_reads(child, carrying) for child in children(node)]
    if any(found) and isinstance(node, Aggregate | Join | Analytic | Match):
        raise ValueError(
            "a later step computes with its rows, of which each window then has several; that is "
            f"{NOT_YET}, so write the step to an output only"
        )
    return any(found)
