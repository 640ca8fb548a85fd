"""State that a version of this format left on a disk is read; other formats: `job/test_beginning.py`."""

from __future__ import annotations

import pytest

from support.state_fixture import (
    BATCHES_BEFORE,
    QUERIES,
    batches,
    resumed,
    rows_behind,
    states_of_today,
    topology_of,
)
from tideglass.ingress.scan import ScanState
from tideglass.local import LocalDriver
from tideglass.plan.fingerprint import state_ids, state_parts

STATES = states_of_today()
#: Queries whose rows have another key group since then: their state is not taken, all is read again.
MOVED = {"substreams"}


def test_there_is_a_fixture_of_the_format_of_today():
    assert STATES.keys() - MOVED == QUERIES.keys(), "make what is missing: see state_fixture.py"
    # The middle of the events: something is held everywhere but where it is let go at once.
    assert all(each["stages"] or name == "rows that wait" for name, each in STATES.items())


@pytest.mark.parametrize("name", QUERIES)
def test_a_run_goes_on_with_the_state_a_run_of_the_same_format_left(name: str):
    saved = STATES[name]
    topology = topology_of(saved["query"])
    driver = resumed(saved)
    # What the scan holds goes by the number of its operator's state.
    numbers = dict(zip(saved["held_by"], state_ids(topology), strict=True))
    for place, body in driver.state.scans.items():
        state = ScanState.from_bytes(body)
        held = {numbers[number]: table for number, table in state.held.items()}
        driver.state.scans[place] = ScanState(state.ingress, held, state.totals, state.next_offset).to_bytes()
    fresh = LocalDriver(topology)
    for batch in batches(topology)[:BATCHES_BEFORE]:
        fresh.run(batch)
    behind = rows_behind(topology, driver, BATCHES_BEFORE)
    assert behind == rows_behind(topology, fresh, BATCHES_BEFORE)
    assert behind["o"]


@pytest.mark.parametrize("name", MOVED)
def test_state_whose_rows_have_moved_is_not_taken_for_that_of_today(name: str):
    saved = STATES[name]
    assert not set(state_parts(topology_of(saved["query"]))) <= set(saved["parts"])
