"""From the text of a query to what a driver runs: the main path in one screen.

text ──parse──▶ tree ──bind──▶ plan ──place──▶ topology ──run──▶ rows
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from tideglass.bind.binder import bind
from tideglass.bind.catalog import InputInfo
from tideglass.core.errors import Diagnostic, Source, TideglassError
from tideglass.core.limits import DEFAULT_LIMITS, Limits
from tideglass.lang.parser import parse
from tideglass.plan.nodes import Plan
from tideglass.plan.placement import place
from tideglass.plan.policies import Policies
from tideglass.plan.topology import Topology

#: What a query goes through, in order.
STAGES = (parse, bind, place)


@dataclass(frozen=True, slots=True)
class Compiled:
    """A query ready to run: its plan, where everything runs, and what the compiler warned of."""

    source: Source
    plan: Plan
    topology: Topology
    warnings: tuple[Diagnostic, ...]


def compile_query(
    source: Source,
    policies: Policies,
    *,
    key_groups: int,
    level: str = "1.2",
    inputs: Mapping[str, InputInfo] | None = None,
    functions: Mapping[str, str] | None = None,
    drops_failing_rows: bool = False,
    outputs: Sequence[str] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Compiled:
    """Compile a query for a number of key groups.

    inputs: what is known of the job's inputs; None lets every name that is no step be one. functions: the
    JavaScript source of each of the user's functions. drops_failing_rows: a row that fails at run time is
    counted and left out instead of stopping the job. outputs: those of the job, None for any.
    limits: what one row may take.
    Raises QueryError with everything that is wrong with the query, TideglassError for what is no script.
    """
    _see_scripts(functions or {})
    bound = bind(parse(source), source, inputs, level, functions or {}, outputs)
    topology = replace(
        place(bound.plan, policies, key_groups, functions),
        source=source,
        drops_failing_rows=drops_failing_rows,
        limits=limits,
    )
    return Compiled(source, bound.plan, topology, bound.warnings)


def _see_scripts(functions: object) -> None:
    """Raises TideglassError for functions that are not JavaScript source by name."""
    if not isinstance(functions, Mapping):
        raise TideglassError(
            "Give functions as a dict of JavaScript source by name, such as "
            f"{{'f': 'function main(x) {{ return x + 1; }}'}}: they are a {type(functions).__name__}."
        )
    for name, script in cast("Mapping[object, object]", functions).items():
        if not (isinstance(name, str) and isinstance(script, str)):
            what = "a function of Python" if callable(script) else f"of type {type(script).__name__}"
            raise TideglassError(
                f"Write the function {name!r} in JavaScript and give its source as a text, such as "
                f"'function main(x) {{ return x + 1; }}': it is {what}."
            )
