"""How a run starts, decided as a value (`asa.md` 7.2, 7.3).

request + facts ──decide_start──▶ StartPlan ──▶ source (where to read from)
                                            ──▶ sink (from which output time on rows are given)
                                            ──▶ manifest and journal (so that a resumed run obeys it too)

The runner gathers the facts before anything is written and obeys the plan after. A plan belongs to a
*generation*: all state built from one beginning. Resuming goes on with the generation there is, by the
plan it began with; every other start begins a new one beside the old.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tideglass.core.errors import StateError


class StartMode(StrEnum):
    """Where the output of a generation begins; behind it the service's own name."""

    BEGINNING = "beginning"  # none: all the inputs hold, which suits recordings
    NOW = "now"  # JobStartTime
    TIME = "time"  # CustomTime
    LAST_STOPPED = "last-stopped"  # LastOutputEventTime


@dataclass(frozen=True, slots=True)
class StartRequest:
    """What the user asks for.

    mode: None resumes where that is possible, and else starts as `decide_start` says. at_ticks: of
    StartMode.TIME. fresh: forget all earlier runs and their rows. accept_partial: go on when a source no
    longer holds all that first complete windows need.
    """

    mode: StartMode | None = None
    at_ticks: int | None = None
    fresh: bool = False
    accept_partial: bool = False


@dataclass(frozen=True, slots=True)
class StartFacts:
    """What there is when a run is to start.

    generation: number of the newest generation in the job directory, 0 for none. begun: the plan that
    one began with. changes: what keeps its state from being used, in words, a line each.
    now_ticks: the clock. span_ticks: the longest look-back of the query. last_output_ticks: per output,
    the instant up to which all its rows are written; absent for one that never had any.
    """

    now_ticks: int
    span_ticks: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    generation: int = 0
    begun: StartPlan | None = None
    changes: tuple[str, ...] = ()
    last_output_ticks: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class StartPlan:
    """Where a generation starts; plain data that the manifest keeps as JSON.

    generation: whose state is used; its directory and the names of its output files carry the number.
    resume: its state is there already. read_from_ticks: per input, the arrival time before which events
    need not be read; an input that is absent is read from the beginning of what is there.
    emit_from_ticks: per output, the least System.Timestamp of the rows that are given; those before it
    are computed and not given; an output that is absent gives all. cause: why, for people.
    """

    generation: int
    resume: bool
    mode: StartMode
    cause: str
    read_from_ticks: Mapping[str, int] = field(default_factory=dict[str, int])
    emit_from_ticks: Mapping[str, int] = field(default_factory=dict[str, int])
    accept_partial: bool = False


def decide_start(request: StartRequest, facts: StartFacts) -> StartPlan:
    """What a run with this request does, given these facts. Raises StateError when it cannot start.

    >>> facts = StartFacts(now_ticks=0, span_ticks=0, inputs=("clicks",), outputs=("counts",))
    >>> decide_start(StartRequest(), facts)
    StartPlan(generation=1, resume=False, mode=<StartMode.BEGINNING: 'beginning'>, cause='first start', \
read_from_ticks={}, emit_from_ticks={}, accept_partial=False)
    """
    if request.mode not in (None, StartMode.BEGINNING):
        raise StateError(f"the start mode {request.mode} is understood, not yet supported by this version")
    following = facts.generation + 1
    if request.fresh or facts.begun is None:
        cause = "asked to start anew" if facts.generation else "first start"
        return StartPlan(following, False, StartMode.BEGINNING, cause)
    if request.mode is StartMode.BEGINNING:
        return StartPlan(following, False, StartMode.BEGINNING, "asked to start from the beginning")
    if facts.changes:
        raise StateError(
            "the state of the last run cannot be used:\n"
            + "".join(f"  {change}\n" for change in facts.changes)
            + "  hint: undo the change, name another --run-dir, or start a new run with --fresh"
        )
    begun = facts.begun
    return StartPlan(
        facts.generation,
        True,
        begun.mode,
        "resumed from the checkpoint",
        begun.read_from_ticks,
        begun.emit_from_ticks,
        begun.accept_partial,
    )
