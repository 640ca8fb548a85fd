"""Every query of the cookbook, killed at random steps of its commits: the rows stay what they are."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from support.cases import load
from support.cookbook import FOLDER
from support.job_in_process import Folder, folder_of_case
from support.killed import STEPS, killed
from support.restarted import RestartedJob

pytestmark = pytest.mark.long

#: `TIDEGLASS_SEED=n` plays other kills.
SEED = int(os.environ.get("TIDEGLASS_SEED", "1"))
#: Of a recipe; after each the job is started again.
KILLS = 3
#: About how many batches the events of a recipe are cut into.
BATCHES = 4
RECIPES = sorted(FOLDER.rglob("*.case"))


def job_of(folder: Folder) -> RestartedJob:
    size = sum(path.stat().st_size for name in folder.inputs for path in (folder.path / name).rglob("*.json"))
    return RestartedJob(folder, {"batch_bytes": max(1, size // BATCHES)})


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: f"{path.stem}-seed-{SEED}")
def test_a_recipe_is_killed_and_started_again(path: Path, tmp_path: Path) -> None:
    case = load(path)
    folder = folder_of_case(tmp_path / "undisturbed", case)
    if folder is None:
        pytest.skip("no project of local files has its functions, snapshots or arrival times")
    undisturbed = job_of(folder)
    batches = undisturbed.run()
    again = folder_of_case(tmp_path / "killed", case)
    assert again is not None
    job, chosen = job_of(again), random.Random(f"{SEED}/{path.stem}")
    places = [*STEPS, *[f"{when}-publish-{name}" for name in case.expected for when in ("before", "after")]]
    for _ in range(KILLS):
        killed(job, chosen.choice(places), chosen.randrange(batches))
    job.run()
    assert job.rows() == undisturbed.rows()
