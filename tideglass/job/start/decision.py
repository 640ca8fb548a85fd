"""How a run starts, decided as a value (`asa.md` 7.2, 7.3).

request + facts ──decide_start──▶ StartPlan ──▶ source (where to read from)
                                            ──▶ sink (from which output time on rows are emitted)
                                            ──▶ manifest and journal (so that a resumed run obeys it too)

The runner gathers the facts before anything is written and obeys the plan after. A plan belongs to a
*generation*: all state built from one beginning. Resuming goes on with the generation there is, by the
plan it began with; every other start begins a new one beside the old.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tideglass.core.errors import ProjectError, StateError
from tideglass.core.time import BEFORE_ALL_TICKS, format_ticks, parse_ticks

if TYPE_CHECKING:
    from tideglass.plan.read_back import ReadBack


class StartMode(StrEnum):
    """Where the output of a generation begins, with the service's own name."""

    BEGINNING = "beginning"  # none: all the inputs hold, which suits recordings
    NOW = "now"  # JobStartTime
    TIME = "time"  # CustomTime
    LAST_STOPPED = "last-stopped"  # LastOutputEventTime


@dataclass(frozen=True, slots=True)
class StartRequest:
    """What the user asks for.

    mode: None resumes where that is possible, and else starts by `decide_start`.
    at_ticks: of StartMode.TIME, the output time.
    fresh: forget all earlier runs and their rows.
    accept_partial: go on when a source no longer holds everything that the first complete windows need.
    """

    mode: StartMode | None = None
    at_ticks: int | None = None
    fresh: bool = False
    accept_partial: bool = False


def asked_start(text: str | None) -> tuple[StartMode | None, int | None]:
    """The meaning of `--start`: a mode, and of StartMode.TIME the time in ticks. Raises ProjectError.

    >>> asked_start("last")
    (<StartMode.LAST_STOPPED: 'last-stopped'>, None)
    >>> asked_start("1970-01-01T00:00:01Z")
    (<StartMode.TIME: 'time'>, 10000000)
    """
    if text is None:
        return None, None
    words = {"now": StartMode.NOW, "last": StartMode.LAST_STOPPED, "beginning": StartMode.BEGINNING}
    if text.lower() in words:
        return words[text.lower()], None
    at_ticks = parse_ticks(text)
    if at_ticks is None:
        raise ProjectError(
            f"--start {text!r} is neither now, last, beginning nor a time; "
            "write a time as 2026-01-31T08:00:00Z"
        )
    return StartMode.TIME, at_ticks


@dataclass(frozen=True, slots=True)
class StartFacts:
    """What there is when a run is to start.

    now_ticks: the clock.
    outputs: their names.
    read_backs: per input, how much earlier than its output it must be read.
    read_backs_after_stop: per input, how much earlier than the watermark of a stopped run it must be read.
    generation: number of the newest generation in the job directory; 0 for none.
    start_plan: how the newest generation that was written down started; None for none.
    changes: what keeps its state from being used, in words, a line each.
    stopped_ticks: the watermark it left; None when it has done no batch.
    ended: it has read its inputs to their end.
    """

    now_ticks: int
    outputs: tuple[str, ...]
    read_backs: Mapping[str, ReadBack] = field(default_factory=dict[str, Any])
    read_backs_after_stop: Mapping[str, ReadBack] = field(default_factory=dict[str, Any])
    generation: int = 0
    start_plan: StartPlan | None = None
    changes: tuple[str, ...] = ()
    stopped_ticks: int | None = None
    ended: bool = False


@dataclass(frozen=True, slots=True)
class StartPlan:
    """Where a generation starts; plain data that the manifest keeps as JSON.

    generation: whose state is used; its directory and the names of its output files carry the number.
    resume: its state is there already.
    mode: where its output begins.
    cause: why, for people.
    read_from_ticks: per input, the arrival time before which events need not be read; an input that is absent
        is read from the beginning of what is there.
    emit_from_ticks: per output, the least System.Timestamp of the rows that are emitted. Rows before it are
        computed only; an output that is absent emits all rows.
    accept_partial: rows may lack events that a source no longer holds.

    With StartMode.LAST_STOPPED rows are emitted from the stop point of the last generation on, which is a
    position of the inputs and not a time: `ReadPlan` holds it.
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

    >>> facts = StartFacts(now_ticks=0, outputs=("counts",))
    >>> decide_start(StartRequest(), facts)
    StartPlan(generation=1, resume=False, mode=<StartMode.BEGINNING: 'beginning'>, cause='first start', \
read_from_ticks={}, emit_from_ticks={}, accept_partial=False)
    """
    start_plan = None if request.fresh else facts.start_plan
    match request.mode:
        case StartMode.NOW:
            return _at(StartMode.NOW, facts.now_ticks, "asked to start now", request, facts)
        case StartMode.TIME:
            if request.at_ticks is None:
                raise StateError("to start at a time, the time must be said: --start 2026-01-31T08:00:00Z")
            cause = f"asked to start at {format_ticks(request.at_ticks)}"
            return _at(StartMode.TIME, request.at_ticks, cause, request, facts)
        case StartMode.LAST_STOPPED:
            if start_plan is None or facts.stopped_ticks is None:
                raise StateError(
                    "there is no run whose output could be gone on with\n"
                    "  hint: start without --start, or with --start now or --start TIME"
                )
            if facts.ended:
                raise StateError(
                    "the last run has read its inputs to their end and given all rows; nothing is left to "
                    "go on with\n  hint: start anew with --fresh, or at an output time with --start TIME"
                )
            return _after_stop(
                "asked to go on where the last run stopped", start_plan, facts.stopped_ticks, request, facts
            )
        case StartMode.BEGINNING:
            cause = "asked to start from the beginning"
            return StartPlan(facts.generation + 1, False, StartMode.BEGINNING, cause)
        case None:
            return _as_possible(start_plan, request, facts)


def _as_possible(start_plan: StartPlan | None, request: StartRequest, facts: StartFacts) -> StartPlan:
    """Nothing was asked for: go on from the state there is, or after its stop point where it does not fit."""
    if start_plan is None:
        cause = "asked to start anew" if facts.generation else "first start"
        return StartPlan(facts.generation + 1, False, StartMode.BEGINNING, cause)
    if not facts.changes:
        return replace(start_plan, resume=True, cause="resumed from the checkpoint")
    if facts.stopped_ticks is None or facts.ended:
        ended = " and it has read its inputs to their end" if facts.ended else ""
        raise StateError(
            f"the state of the last run cannot be used{ended}:\n"
            + "".join(f"  {change}\n" for change in facts.changes)
            + "  hint: undo the change, name another --run-dir, or start a new run with --fresh"
        )
    cause = "the state is built anew: " + ", ".join(facts.changes)
    return _after_stop(cause, start_plan, facts.stopped_ticks, request, facts)


def _at(
    mode: StartMode, output_from_ticks: int, cause: str, request: StartRequest, facts: StartFacts
) -> StartPlan:
    return StartPlan(
        facts.generation + 1,
        False,
        mode,
        cause,
        _read_from_ticks(facts.read_backs, output_from_ticks),
        dict.fromkeys(facts.outputs, output_from_ticks),
        request.accept_partial,
    )


def _after_stop(
    cause: str, start_plan: StartPlan, stopped_ticks: int, request: StartRequest, facts: StartFacts
) -> StartPlan:
    """Read again what the new state needs; an output that was to begin at a time still begins there."""
    reached = stopped_ticks > BEFORE_ALL_TICKS
    return StartPlan(
        facts.generation + 1,
        False,
        StartMode.LAST_STOPPED,
        cause,
        _read_from_ticks(facts.read_backs_after_stop, stopped_ticks) if reached else {},
        {name: ticks for name, ticks in start_plan.emit_from_ticks.items() if name in facts.outputs},
        request.accept_partial,
    )


def _read_from_ticks(backs: Mapping[str, ReadBack], output_from_ticks: int) -> dict[str, int]:
    found = {name: back.read_from_ticks(output_from_ticks) for name, back in backs.items()}
    return {name: ticks for name, ticks in found.items() if ticks is not None}
