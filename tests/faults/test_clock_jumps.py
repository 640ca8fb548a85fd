"""The clock jumps by an hour, forth and back, between batches and between runs: rows stay."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from support.fault_jobs import fault_job, seeds
from support.job_in_process import Clock

pytestmark = pytest.mark.long


class Broken(Exception):
    """Stands for the end of a process."""


@pytest.mark.parametrize("seed", seeds(2))
def test_a_clock_that_jumps_changes_no_row(seed: int, tmp_path: Path, clock: Clock) -> None:
    print(f"seed {seed}")
    undisturbed, job = fault_job(tmp_path / "one"), fault_job(tmp_path / "two")
    undisturbed.run()
    chosen, jumps, end = random.Random(seed), list[int](), random.Random(seed).randrange(2, 5)

    def jump(number: int) -> None:
        seconds = chosen.choice([-3600, 3600])
        jumps.append(seconds)
        clock.go_on(seconds)
        if number == end and not ended:
            ended.append(number)
            raise Broken

    ended: list[int] = []
    with pytest.raises(Broken):
        job.run(jump)
    job.run(jump)
    assert len(jumps) > 4
    assert job.rows() == undisturbed.rows()
