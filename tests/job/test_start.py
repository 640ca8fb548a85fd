"""How a run starts follows from what is asked for and what is there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tideglass.core.errors import StateError
from tideglass.core.time import BEFORE_ALL_TICKS
from tideglass.job.start.decision import StartFacts, StartMode, StartPlan, StartRequest, decide_start
from tideglass.plan.read_back import ReadBack

NOTHING = StartFacts(
    now_ticks=900,
    outputs=("counts",),
    read_backs={"clicks": ReadBack(100, 30, None)},
    read_backs_after_stop={"clicks": ReadBack(110, 30, None)},
)
START_PLAN = StartPlan(3, False, StartMode.TIME, "asked", {"clicks": 500}, {"counts": 600})
STOPPED = replace(NOTHING, generation=3, start_plan=START_PLAN, stopped_ticks=800)
CHANGED = replace(STOPPED, changes=("the step 'a' is new",))
LAST = StartRequest(StartMode.LAST_STOPPED)


def test_the_first_start_reads_all_there_is_and_gives_all_rows():
    plan = decide_start(StartRequest(), NOTHING)
    assert (plan.generation, plan.resume, plan.mode) == (1, False, StartMode.BEGINNING)
    assert (plan.read_from_ticks, plan.emit_from_ticks) == ({}, {})


def test_state_that_fits_is_resumed_by_the_plan_it_began_with():
    plan = decide_start(StartRequest(), STOPPED)
    assert (plan.generation, plan.resume, plan.mode) == (3, True, StartMode.TIME)
    assert (plan.read_from_ticks, plan.emit_from_ticks) == ({"clicks": 500}, {"counts": 600})


def test_a_fresh_start_begins_a_generation_of_its_own():
    plan = decide_start(StartRequest(fresh=True), CHANGED)
    assert (plan.generation, plan.resume, plan.emit_from_ticks) == (4, False, {})


@pytest.mark.parametrize("facts", [NOTHING, STOPPED, CHANGED])
def test_an_output_time_says_from_where_the_input_is_read(facts: StartFacts):
    plan = decide_start(StartRequest(StartMode.TIME, at_ticks=700), facts)
    assert (plan.generation, plan.resume) == (facts.generation + 1, False)
    assert (plan.read_from_ticks, plan.emit_from_ticks) == ({"clicks": 570}, {"counts": 700})
    now = decide_start(StartRequest(StartMode.NOW), facts)
    assert (now.read_from_ticks, now.emit_from_ticks) == ({"clicks": 770}, {"counts": 900})


def test_without_an_early_limit_the_input_is_read_from_its_beginning():
    facts = replace(NOTHING, read_backs={"clicks": ReadBack(100, None, None)})
    plan = decide_start(StartRequest(StartMode.NOW), facts)
    assert (plan.read_from_ticks, plan.emit_from_ticks) == ({}, {"counts": 900})


@pytest.mark.parametrize("request_", [LAST, StartRequest()])
def test_where_the_last_run_stopped_is_a_place_and_keeps_the_time_the_output_was_to_begin(
    request_: StartRequest,
):
    plan = decide_start(request_, CHANGED)
    assert (plan.generation, plan.resume, plan.mode) == (4, False, StartMode.LAST_STOPPED)
    assert (plan.read_from_ticks, plan.emit_from_ticks) == ({"clicks": 660}, {"counts": 600})


def test_changes_are_the_cause_that_is_told():
    assert decide_start(StartRequest(), CHANGED).cause == "the state is built anew: the step 'a' is new"


def test_a_run_without_any_watermark_is_followed_by_reading_everything():
    plan = decide_start(LAST, replace(STOPPED, stopped_ticks=BEFORE_ALL_TICKS))
    assert plan.read_from_ticks == {}


def test_a_changed_job_without_a_place_to_go_on_from_is_refused_with_its_changes():
    with pytest.raises(StateError, match=r"cannot be used:\n  the step 'a' is new\n(?s:.*)--fresh"):
        decide_start(StartRequest(), replace(CHANGED, stopped_ticks=None))


def test_a_job_whose_inputs_have_ended_has_nothing_to_go_on_with():
    with pytest.raises(StateError, match=r"to their end:\n  the step 'a' is new\n(?s:.*)--fresh"):
        decide_start(StartRequest(), replace(CHANGED, ended=True))
    with pytest.raises(StateError, match=r"given all rows(?s:.*)--fresh"):
        decide_start(LAST, replace(STOPPED, ended=True))


@pytest.mark.parametrize("facts", [NOTHING, replace(STOPPED, stopped_ticks=None)])
def test_there_must_have_been_a_run_to_follow(facts: StartFacts):
    with pytest.raises(StateError, match="no run whose output"):
        decide_start(LAST, facts)


def test_a_start_at_a_time_says_the_time():
    with pytest.raises(StateError, match="the time must be said"):
        decide_start(StartRequest(StartMode.TIME), NOTHING)
