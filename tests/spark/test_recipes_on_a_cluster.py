"""Twenty queries of the cookbook give the same rows on a cluster as in this process, to the last byte."""

from __future__ import annotations

import json
import sys
from subprocess import DEVNULL, PIPE, run

import pytest

from support.cluster import Cluster, driver_environment
from support.cluster_recipes import RECIPES, chosen, local_rows, name_of, of_driver


@pytest.mark.timeout(900)
def test_recipes_on_a_cluster_give_the_rows_of_a_local_run(cluster: Cluster) -> None:
    """In one session and one job, since each job costs seconds; the program runs each as a job of its own."""
    words = [sys.executable, "-m", "support.cluster_recipes", "--master", cluster.master, "--merged"]
    done = run(words, env=driver_environment(of_driver()), stdout=PIPE, stderr=DEVNULL, text=True, check=True)
    found = dict(json.loads(line) for line in done.stdout.splitlines())
    assert len(found) == len(RECIPES) == 20
    assert found == {name_of(case): local_rows(case) for case in chosen()}
