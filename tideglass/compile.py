"""From the text of a query to what a driver runs: the main path in one screen.

text ──parse──▶ tree ──bind──▶ plan ──place──▶ topology ──run──▶ rows
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from tideglass.bind.binder import bind
from tideglass.bind.catalog import InputInfo
from tideglass.core.errors import Diagnostic, Source, Span, TideglassError
from tideglass.functions.callables import PythonCallable, UserCode, python_callable
from tideglass.lang.parser import parse
from tideglass.plan.chosen_timestamps import with_output_timestamps
from tideglass.plan.early_panes import with_early_panes
from tideglass.plan.nodes import Plan
from tideglass.plan.source_watermarks import with_source_watermarks
from tideglass.plan.topology import Topology

if TYPE_CHECKING:
    from tideglass.project.settings import JobSettings


@dataclass(frozen=True, slots=True)
class Compiled:
    """A query ready to run.

    source: its text
    plan: what is to be computed
    topology: which operator runs where
    warnings: what the compiler warned of
    steps: where the steps of WITH are in the text, by name
    """

    source: Source
    plan: Plan
    topology: Topology
    warnings: tuple[Diagnostic, ...]
    steps: Mapping[str, Span] = field(default_factory=dict[str, Span])


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """A query whose names, types and windows are resolved; nothing in it depends on time policies.

    source: its text
    plan: what is to be computed
    functions: the user's own, by name
    warnings: what the compiler warned of
    steps: where the steps of WITH are in the text, by name
    """

    source: Source
    plan: Plan
    functions: Mapping[str, UserCode]
    warnings: tuple[Diagnostic, ...]
    steps: Mapping[str, Span] = field(default_factory=dict[str, Span])

    def place(self, settings: JobSettings, key_groups: int) -> Compiled:
        """The query placed for a number of key groups, its inputs read under the settings' time policies.

        Raises ProjectError for a watermark policy that does not fit the query.
        """
        from tideglass.plan.placement import place  # not needed to check a query

        topology = replace(
            place(self.plan, settings.policies(), key_groups, self.functions),
            source=self.source,
            drops_failing_rows=settings.on_error == "drop",
            limits=settings.limits,
        )
        topology = with_source_watermarks(topology, dict(settings.watermarks))
        return Compiled(self.source, self.plan, topology, self.warnings, self.steps)


def bind_query(
    source: Source,
    settings: JobSettings,
    *,
    inputs: Mapping[str, InputInfo] | None = None,
    functions: Mapping[str, Any] | None = None,
    outputs: Sequence[str] | None = None,
) -> BoundQuery:
    """Parse and bind a query; `BoundQuery.place` does the rest.

    settings: of them, binding needs the compatibility level and the output timestamps.
    inputs: what is known of the job's inputs; None lets every name that is no step be one.
    functions: the user's own by name, as `user_functions` takes them.
    outputs: those of the job; None for any.
    Raises QueryError with everything that is wrong with the query, ProjectError for settings that name what
    the query does not have, TideglassError for what is no function.
    """
    known = user_functions(functions or {})
    script = parse(source)
    bound = bind(script, source, inputs, settings.compatibility_level, known, outputs)
    plan = with_output_timestamps(bound.plan, dict(settings.output_timestamps))
    plan = with_early_panes(plan, dict(settings.early_panes))
    steps = {step.name.text: step.span for step in script.steps}
    return BoundQuery(source, plan, known, bound.warnings, steps)


def compile_query(
    source: Source,
    settings: JobSettings,
    *,
    key_groups: int,
    inputs: Mapping[str, InputInfo] | None = None,
    functions: Mapping[str, Any] | None = None,
    outputs: Sequence[str] | None = None,
) -> Compiled:
    """Compile a query under a job's settings for a number of key groups. The rest is as in `bind_query`."""
    query = bind_query(source, settings, inputs=inputs, functions=functions, outputs=outputs)
    return query.place(settings, key_groups)


def user_functions(functions: object) -> dict[str, UserCode]:
    """The user's functions by name: source in JavaScript as it is, a function of Python with its types.

    functions: per name a source, a function, or the pair of a function and the type of its results.
    Raises TideglassError for what is none of these.
    """
    if not isinstance(functions, Mapping):
        raise TideglassError(
            "Pass functions as a dict of functions of Python, or of JavaScript source, by name, such as "
            f"{{'f': lambda x: x + 1}}: they are a {type(functions).__name__}."
        )
    return {
        _name(name): _user_function(str(name), code)
        for name, code in cast("Mapping[object, object]", functions).items()
    }


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise TideglassError(f"The name of a function is a text: {name!r} is of type {type(name).__name__}.")
    return name


def _user_function(name: str, code: object) -> UserCode:
    match code:
        case str() | PythonCallable():
            return code
        case (call, str(returns)) if callable(call):
            return python_callable(name, call, returns)
        case _ if callable(code):
            return python_callable(name, code)
        case _:
            raise TideglassError(
                f"The function {name!r} is of type {type(code).__name__}; it must be a function of Python, "
                "the pair of one and the type of its results, or a text, the source of one in JavaScript."
            )
