"""Random chains of steps give the oracle's rows, whatever way the events arrive.

The examples are the same in every run. TIDEGLASS_EXAMPLES=2000 with --timeout=0 draws so many others.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, given
from hypothesis import settings as examples

from oracle.strategies import Trial
from support.against_oracle import check_rows
from support.depth import depth
from support.generated import chains_of_steps
from support.harness import Manner, manners

MORE = os.environ.get("TIDEGLASS_EXAMPLES")


@given(chains_of_steps(), manners())
@examples(
    deadline=None,
    print_blob=True,
    max_examples=int(MORE or depth(40)),
    derandomize=MORE is None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_chains_of_steps_give_the_oracles_rows_in_any_batches_and_restarts(
    trial: Trial, manner: Manner
) -> None:
    check_rows(trial, manner)
