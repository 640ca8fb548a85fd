"""Joins of streams: engine and oracle agree, whatever way the events arrive; state is freed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from oracle.strategies import Trial, joins
from support.against_oracle import check_event_by_event, check_rows, reproducible
from support.cases import Case, case_paths, load
from support.depth import depth, some
from support.harness import Manner, manners
from support.joins import around_joins, chains, substreams

FIRST_KEYS = ["", " AND a.k = b.k", " AND b.k = a.k AND a.b = b.b"]
SECOND_KEYS = ["", " AND c.k = a.k", " AND b.k = c.k", " AND c.v >= a.v"]
CASES = [load(path) for path in case_paths("joins")]


@given(joins(), manners())
@examples(reproducible, max_examples=depth(30))
def test_joins_give_the_oracles_rows_in_any_batches_and_restarts(trial: Trial, manner: Manner) -> None:
    check_rows(trial, manner)


@given(chains(), manners())
@examples(reproducible, max_examples=depth(25))
def test_chains_of_joins_give_the_oracles_rows_in_any_batches_and_restarts(
    trial: Trial, manner: Manner
) -> None:
    check_rows(trial, manner)


@given(st.one_of(around_joins(), substreams()), manners())
@examples(reproducible, max_examples=depth(25))
def test_windows_around_joins_give_the_oracles_rows_in_any_batches_and_restarts(
    trial: Trial, manner: Manner
) -> None:
    check_rows(trial, manner)


@pytest.mark.parametrize("case", some(CASES), ids=lambda case: case.name)
def test_a_join_holds_event_by_event_with_a_restart_after_each(case: Case) -> None:
    check_event_by_event(case)
