"""Choices that the settings of a job make for single steps, put into its plan.

A key names a step of WITH, or an output as `INTO name`; an output may be named alone where no step has its
name. Names are known in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from tideglass.core.errors import ProjectError
from tideglass.core.suggest import did_you_mean
from tideglass.plan.nodes import Node, Plan

T = TypeVar("T")

NOT_YET = "understood, not yet supported"


def _unchecked(plan: Plan, name: str) -> None:
    return None


def with_choices(
    plan: Plan,
    choices: Mapping[str, T],
    change: Callable[[Node, T], Node],
    subject: str,
    check: Callable[[Plan, str], None] = _unchecked,
) -> Plan:
    """The plan with every step that is named changed as chosen.

    change: the node of a step with a choice. check: looks at the changed plan and the name of a step. Both
    raise ValueError. subject: what is chosen, for errors. Raises ProjectError with everything that is wrong.
    """
    steps, outputs = dict(plan.steps), list(plan.outputs)
    problems: list[str] = []
    for name, choice in choices.items():
        try:
            step = next((each for each in steps if each.casefold() == name.casefold()), None)
            if step is not None:
                steps[step] = change(steps[step], choice)
                check(replace(plan, steps=tuple(steps.items())), step)
                continue
            output = name[5:].strip() if name[:5].casefold() == "into " else name
            mine = [n for n, each in enumerate(outputs) if each.name.casefold() == output.casefold()]
            if not mine:
                near = did_you_mean(name, [*steps, *(each.name for each in outputs)])
                raise ValueError(f"no step or output of the query has this name{near and f'; {near}'}")
            for n in mine:
                outputs[n] = replace(outputs[n], node=change(outputs[n].node, choice))
        except ValueError as error:
            problems.append(f"settings: {subject} of {name!r}: {error}")
    if problems:
        raise ProjectError("\n".join(problems))
    return replace(plan, steps=tuple(steps.items()), outputs=tuple(outputs)) if choices else plan
