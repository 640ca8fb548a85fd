"""Twenty queries of the cookbook on a Spark cluster, in one session.

    PYTHONPATH=.:tests python -m support.cluster_recipes

starts a cluster of two workers, runs each query as a job of its own there, and compares its rows with those
of a run in this process, to the last byte. A test does the same with all twenty in one job.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from support.cases import Case, load
from support.cluster import COMPLETE, ROOT, driver_environment, running_cluster
from support.cookbook import FOLDER
from support.merged import merged, own, qualified
from tideglass.connect.reference.references import inline_rows
from tideglass.plan.topology import Topology
from tideglass.project.settings import from_options
from tideglass.testing import compile_rows, input_infos, rows_in_order, rows_of_inputs, run

#: All kinds of windows, joins, patterns, analytic functions, reference data; policies, substreams.
RECIPES = (
    "clickstream/bounces",
    "clickstream/page-groups",
    "clickstream/top-page",
    "clickstream/trending-pages",
    "energy/consumption-shift",
    "energy/late-readings-dropped",
    "energy/price-change",
    "energy/quarter-hour-balance",
    "energy/substations-in-parallel",
    "fleet/delayed-uplink",
    "fleet/order-to-delivery",
    "fleet/trucks-with-own-clocks",
    "fraud/blocked-merchants",
    "fraud/declines-then-approval",
    "fraud/impossible-travel",
    "fraud/payment-without-order",
    "gaming/leaderboard",
    "gaming/queue-wait",
    "iot/sustained-heat",
    "iot/temperature-spikes",
)
KEY_GROUPS = 2


def of_driver() -> dict[str, str]:
    """More of the environment of a driver: Spark plans with the `python3` of the driver's machine."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return {"PATH": path, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}


def chosen() -> list[Case]:
    return [load(FOLDER / f"{name}.case") for name in RECIPES]


def name_of(case: Case) -> str:
    return f"{case.path.parent.name}/{case.path.stem}"


def lines_of(tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """The rows of every output as JSON, which holds every bit of a number, in an order of their own."""
    return sorted(json.dumps([output, row]) for output, rows in tables.items() for row in rows)


def local_rows(case: Case) -> list[str]:
    return lines_of(run(case.query, case.inputs, case.reference, case.settings))


def topology_of(case: Case) -> Topology:
    return compile_rows(
        case.query,
        case.inputs,
        from_options(case.settings),
        key_groups=KEY_GROUPS,
        known_inputs=input_infos(case.inputs, case.reference),
    ).topology


def played(cases: Sequence[Case]) -> dict[str, list[str]]:
    """The rows of some cases as one job in the Spark session of this process, by the name of the case."""
    from tideglass.spark.test_engine import run_on_spark

    topologies = [topology_of(case) for case in cases]
    whole = merged(topologies)
    inputs = {
        qualified(place, name): rows
        for place, (case, topology) in enumerate(zip(cases, topologies, strict=True))
        for name, rows in rows_of_inputs(topology, case.inputs).items()
    }
    reference = {
        qualified(place, name): rows
        for place, case in enumerate(cases)
        for name, rows in case.reference.items()
    }
    tables = run_on_spark(whole, inputs, references=inline_rows(whole.references, reference))
    return {
        name_of(case): lines_of({name: rows_in_order(parts) for name, parts in own(place, tables).items()})
        for place, case in enumerate(cases)
    }


def on_cluster(master: str, *, each: bool) -> Iterator[tuple[str, list[str]]]:
    """The rows of each recipe, by its name. each: every recipe is a job of its own."""
    from pyspark.sql import SparkSession

    from tideglass.spark.session.java import use_java

    use_java()
    builder = SparkSession.Builder().master(master).config("spark.ui.enabled", "false")
    spark = builder.config("spark.log.level", "ERROR").getOrCreate()
    cases = chosen()
    for some in [[case] for case in cases] if each else [cases]:
        yield from played(some).items()
    spark.stop()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--master", help="of the cluster; without it one is started")
    parser.add_argument("--merged", action="store_true", help="all queries in one job; print their rows")
    options = parser.parse_args()
    if options.merged:
        for name, lines in on_cluster(options.master, each=False):
            print(json.dumps([name, lines]), flush=True)
        return 0
    if options.master:
        return compared(options.master)
    with (
        tempfile.TemporaryDirectory(prefix="tideglass-") as folder,
        running_cluster(Path(folder), (COMPLETE, COMPLETE)) as cluster,
    ):
        os.environ.update(driver_environment(of_driver()))
        return compared(cluster.master)


def compared(master: str) -> int:
    """How many recipes gave other rows on the cluster; prints a line for each."""
    others, began = 0, time.monotonic()
    expected = {name_of(case): local_rows(case) for case in chosen()}
    for name, lines in on_cluster(master, each=True):
        same = lines == expected[name]
        others += not same
        seconds = time.monotonic() - began
        print(f"{name}: {len(lines)} rows, {'equal' if same else 'OTHERS'}, {seconds:.1f} s", flush=True)
        began = time.monotonic()
    return others


if __name__ == "__main__":
    sys.exit(main())
