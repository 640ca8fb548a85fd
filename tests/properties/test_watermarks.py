"""The watermarks, rows and holds of every operator in every batch, over random queries (`asa.md` 11.3)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from oracle.strategies import Trial, later_trials, substreams, trials
from support.against_oracle import reproducible
from support.depth import depth
from support.generated import chains_of_steps
from support.harness import Manner, manners, play
from support.matching import matchings, of_steps
from support.watermark_laws import breaches_of, emitted
from tideglass.core.errors import EvaluationError, QueryError


def check_laws(trial: Trial, manner: Manner) -> None:
    """No law is broken, whatever the batches; an operator reports the rows that came out."""
    try:
        played = play(
            trial.query,
            trial.inputs,
            trial.settings,
            manner,
            partitions=trial.partitions,
            reference=trial.reference,
            functions=trial.functions,
        )
    except (EvaluationError, QueryError):
        return
    topology = played.compiled.topology
    assert breaches_of(topology, played.reports) == []
    assert emitted(topology, played.reports) == {name: len(rows) for name, rows in played.rows.items()}


@given(chains_of_steps(), manners())
@examples(reproducible, max_examples=depth(60))
def test_no_operator_of_a_chain_of_steps_is_ahead_of_what_it_reads(trial: Trial, manner: Manner) -> None:
    check_laws(trial, manner)


@given(st.one_of(trials(), later_trials(), substreams()), manners())
@examples(reproducible, max_examples=depth(60))
def test_no_operator_of_any_kind_of_query_is_ahead_of_what_it_reads(trial: Trial, manner: Manner) -> None:
    check_laws(trial, manner)


@given(st.one_of(matchings(), of_steps()), manners())
@examples(reproducible, max_examples=depth(30))
def test_no_operator_of_a_pattern_is_ahead_of_what_it_reads(trial: Trial, manner: Manner) -> None:
    check_laws(trial, manner)
