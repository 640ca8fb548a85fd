"""Results stamped with an element are the oracle's, and hold back whatever follows (`asa.md` 11.4, 11.5)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples

from oracle.strategies import Trial
from support.against_oracle import check_event_by_event, check_rows, played, reproducible
from support.cases import Case, case_paths, load
from support.depth import depth
from support.harness import manners
from support.stamped import stamped
from support.watermark_laws import breaches_of

CASES = [case for path in case_paths("output_timestamps") if (case := load(path)).inputs and case.compiles]


@given(stamped(), manners())
@examples(reproducible, max_examples=depth(60))
def test_stamped_results_are_the_oracles_in_any_batches_and_restarts(trial: Trial, manner: Any) -> None:
    check_rows(trial, manner)


@given(stamped(), manners())
@examples(reproducible, max_examples=depth(30))
def test_what_holds_the_watermark_of_stamped_results_is_reported(trial: Trial, manner: Any) -> None:
    came = played(trial, manner)
    if came is not None:
        topology = came.compiled.topology
        assert breaches_of(topology, came.reports) == []


@pytest.mark.parametrize("case", [case for case in CASES if case.expected], ids=lambda case: case.name)
def test_a_case_of_output_timestamps_holds_event_by_event(case: Case) -> None:
    check_event_by_event(case)
