"""The output timestamps that the settings of a job choose, put into its plan (`asa.md` 11.4, decision 31).

    {"sessions": "first element", "clicked": "element of q",
     "INTO perMinute": "first element after the window before"}

Keys are those of `plan.step_choices`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tideglass.plan.nodes import (
    Aggregate,
    Analytic,
    Apply,
    Filter,
    InputScan,
    Join,
    Lookup,
    Match,
    Node,
    Plan,
    Projection,
    StepRef,
    Union,
)
from tideglass.plan.output_timestamp import OutputTimestamp, PairTimestamp
from tideglass.plan.step_choices import NOT_YET, with_choices
from tideglass.plan.windows import Sliding

_OF_SOURCE = "element of "


def with_output_timestamps(plan: Plan, choices: Mapping[str, str]) -> Plan:
    """The plan with the chosen time of the results of each step.

    Raises ProjectError with all that is wrong.
    """
    return with_choices(plan, choices, _stamped, "output timestamp")


def _stamped(node: Node, choice: str) -> Node:
    """The node with the choice at the window or join that decides the time of its rows. Raises ValueError."""
    made = _chosen(node, " ".join(choice.split()))
    if made == node and choice.strip().casefold() != OutputTimestamp.END_OF_WINDOW:
        raise ValueError("the step has neither a window nor a join of streams that could stamp its rows")
    return made


def _chosen(node: Node, choice: str) -> Node:
    match node:
        case Aggregate():
            return _of_window(node, choice)
        case Join():
            return _of_join(node, choice)
        case Filter() | Projection() | Analytic() | Apply():
            return replace(node, child=_chosen(node.child, choice))
        case Lookup():
            return replace(node, left=_chosen(node.left, choice))
        case Union():
            return replace(node, children=tuple(_chosen(child, choice) for child in node.children))
        case Match():
            raise ValueError(
                f"a match of MATCH_RECOGNIZE has the time of its last event; another is {NOT_YET}"
            )
        case InputScan() | StepRef():
            return node


def _of_window(node: Aggregate, choice: str) -> Node:
    if choice.casefold().startswith(_OF_SOURCE):
        raise ValueError(
            f"{choice!r} is for a join; this step has a window, put the join into a step of its own and name "
            "that one"
        )
    chosen = next((each for each in OutputTimestamp if each.value == choice.casefold()), None)
    if chosen is None:
        known = ", ".join(repr(each.value) for each in OutputTimestamp)
        raise ValueError(f"{choice!r} is no time of a window; known are {known}")
    if chosen is not OutputTimestamp.END_OF_WINDOW and any(isinstance(w, Sliding) for w in node.windows):
        raise ValueError(f"a sliding window stamped with an element is {NOT_YET}")
    return replace(node, output_timestamp=chosen)


def _of_join(node: Join, choice: str) -> Node:
    if not choice.casefold().startswith(_OF_SOURCE):
        raise ValueError(
            f"{choice!r} is no time of a join; write 'element of' and the name of a source in FROM"
        )
    source = choice[len(_OF_SOURCE) :].strip()
    if isinstance(node.left, Join) or not node.left_prefix:
        raise ValueError(
            f"a join of more than two streams stamped with an element is {NOT_YET}; use two steps"
        )
    sides = {
        node.left_prefix[:-1].casefold(): PairTimestamp.LEFT,
        node.right_prefix[:-1].casefold(): PairTimestamp.RIGHT,
    }
    chosen = sides.get(source.casefold())
    if chosen is None:
        known = f"{node.left_prefix[:-1]} and {node.right_prefix[:-1]}"
        raise ValueError(f"{source!r} is no source of the join; its sources are {known}")
    if chosen is PairTimestamp.RIGHT and node.kind == "left":
        raise ValueError(
            f"a row of a LEFT JOIN without a match has no element of {source!r}; choose the left source, "
            "or JOIN"
        )
    return replace(node, output_timestamp=chosen)
