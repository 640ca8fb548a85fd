"""What every property of the engine comes to: the oracle's rows, in whatever manner the events arrive."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck
from hypothesis import settings as examples

from oracle import OracleError
from oracle import run as oracle_run
from oracle.strategies import Trial
from support.cases import Case, compare_outputs
from support.harness import AT_ONCE, Manner, Played, exact, play
from tideglass.core.errors import EvaluationError

#: Every failure prints a line that plays it again.
reproducible = examples(
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

#: One event a batch and a restart after each: what a checkpoint forgets shows.
ONE_BY_ONE = Manner(takes=(1,), restarts=1, key_groups=2, reverse=True, end_apart=True)


def played(trial: Trial, manner: Manner = AT_ONCE, idle_periods: tuple[float, ...] = ()) -> Played | None:
    """What came of a trial; None if the job stopped."""
    try:
        return play(
            trial.query,
            trial.inputs,
            trial.settings,
            manner,
            idle_periods,
            trial.partitions,
            functions=trial.functions,
        )
    except EvaluationError:
        return None


def the_oracle(trial: Trial) -> dict[str, list[dict[str, Any]]] | None:
    """The rows the oracle gives; None if it stops."""
    try:
        return oracle_run(trial.query, trial.inputs, settings=trial.settings, functions=trial.functions)
    except OracleError:
        return None


def check_rows(trial: Trial, manner: Manner) -> None:
    """The oracle's rows at once, and exactly the same ones in the manner."""
    expected, at_once, otherwise = the_oracle(trial), played(trial), played(trial, manner)
    assert (expected is None) == (at_once is None) == (otherwise is None)
    if expected is not None and at_once is not None and otherwise is not None:
        assert compare_outputs(at_once.rows, expected) == []
        assert exact(otherwise.rows) == exact(at_once.rows)
        assert at_once.watched.breaches + otherwise.watched.breaches == []


def check_event_by_event(case: Case) -> None:
    """A case holds with one event a batch and a restart after each."""
    numbers = [row.get("_partition", 0) for rows in case.inputs.values() for row in rows]
    partitions = 1 + max(numbers, default=0)
    came = play(
        case.query,
        case.inputs,
        case.settings,
        ONE_BY_ONE,
        partitions=partitions,
        reference=case.reference,
        functions=case.functions,
    )
    assert compare_outputs(came.rows, case.expected) == []
    assert came.watched.breaches == []
