"""State that a version of this format left on a disk is read; other formats: `job/test_beginning.py`."""

from __future__ import annotations

import pytest
from state_fixture import BATCHES_BEFORE, FOLDER, QUERIES, batches, load, resumed, rows_behind, topology_of

from tideglass.job.manifest import STATE_FORMAT
from tideglass.plan.fingerprint import state_ids
from tideglass.runtime.local import LocalDriver
from tideglass.runtime.scan import ScanState

OF_TODAY = FOLDER / f"format-{STATE_FORMAT}.json.gz"


def test_there_is_a_fixture_of_the_format_of_today():
    assert OF_TODAY.exists(), "make one: see state_fixture.py"
    states = load(OF_TODAY)["states"]
    assert states.keys() == QUERIES.keys()
    # The middle of the events: something is held everywhere but where it is let go at once.
    assert all(each["stages"] or name == "rows that wait" for name, each in states.items())


@pytest.mark.parametrize("name", QUERIES)
def test_a_run_goes_on_with_the_state_a_run_of_the_same_format_left(name: str):
    saved = load(OF_TODAY)["states"][name]
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
