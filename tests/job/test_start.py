"""How a run starts follows from what is asked for and what is there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tideglass.core.errors import StateError
from tideglass.job.start import StartFacts, StartMode, StartPlan, StartRequest, decide_start

NOTHING = StartFacts(now_ticks=900, span_ticks=100, inputs=("clicks",), outputs=("counts",))
BEGUN = StartPlan(3, False, StartMode.BEGINNING, "first start", {"clicks": 500}, {"counts": 600})
STOPPED = replace(NOTHING, generation=3, begun=BEGUN)


def test_the_first_start_reads_all_there_is_and_gives_all_rows():
    plan = decide_start(StartRequest(), NOTHING)
    assert (plan.generation, plan.resume, plan.mode) == (1, False, StartMode.BEGINNING)
    assert (plan.read_from_ticks, plan.emit_from_ticks) == ({}, {})


def test_state_that_fits_is_resumed_by_the_plan_it_began_with():
    plan = decide_start(StartRequest(), STOPPED)
    assert (plan.generation, plan.resume) == (3, True)
    assert (plan.read_from_ticks, plan.emit_from_ticks) == ({"clicks": 500}, {"counts": 600})


def test_a_fresh_start_begins_a_generation_of_its_own():
    plan = decide_start(StartRequest(fresh=True), replace(STOPPED, changes=("the query changed",)))
    assert (plan.generation, plan.resume, plan.emit_from_ticks) == (4, False, {})


def test_state_that_does_not_fit_is_told_change_by_change():
    with pytest.raises(StateError, match=r"the step 'a' is new\n(?s:.*)--fresh"):
        decide_start(StartRequest(), replace(STOPPED, changes=("the step 'a' is new",)))
