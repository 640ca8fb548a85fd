"""Case files hold on Spark too, in several batches, in two key groups, restored state in between.

Every case that runs and ends well is played, and some queries of the cookbook, as part of a few large jobs;
of those that stop a job, which costs a job each, one of functions and one of aggregates.
"""

from __future__ import annotations

from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pytest

from support.cases import Case, Rows, case_paths, compare_outputs, load
from support.cookbook import FOLDER
from support.merged import merged, own, qualified
from tideglass.connect.reference.references import inline_rows
from tideglass.core.errors import EvaluationError, QueryError, TideglassError
from tideglass.plan.topology import Topology
from tideglass.project.settings import from_options
from tideglass.spark.test_engine import run_on_spark
from tideglass.testing import compile_rows, input_infos, rows_in_order, rows_of_inputs, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEY_GROUPS = 2
#: Queries in one job: enough to spread the cost of starting it, few enough to find a fault in it.
QUERIES_OF_A_JOB = 60
#: Of the cookbook: chained steps, joins of three streams, windows over windows, policies, substreams.
RECIPES = (
    "clickstream/events-in-text",
    "clickstream/trending-pages",
    "energy/last-reading",
    "energy/peak-demand",
    "energy/quarter-hour-balance",
    "fleet/delayed-uplink",
    "fleet/order-to-delivery",
    "fleet/trucks-with-own-clocks",
)


def topology_of(case: Case) -> Topology | None:
    """The compiled case; None if it says it is not yet supported, which the in-process tests report."""
    try:
        return compile_rows(
            case.query,
            case.inputs,
            from_options(case.settings),
            key_groups=KEY_GROUPS,
            known_inputs=input_infos(case.inputs, case.reference),
        ).topology
    except QueryError:
        return None


CASES = {
    case.name: case
    for path in (*case_paths(), *(FOLDER / f"{name}.case" for name in RECIPES))
    if (case := load(path)).expected and not case.functions
}


@cache
def playable() -> dict[str, tuple[Case, Topology]]:
    """The cases that compile; asked when the first of them is run, not when tests are collected."""
    return {
        name: (case, topology) for name, case in CASES.items() if (topology := topology_of(case)) is not None
    }


@cache
def jobs() -> list[tuple[str, ...]]:
    """Names of the cases of each job: of one level and `on_error`, in the order of their names."""

    def kind(name: str) -> tuple[str, bool]:
        topology = playable()[name][1]
        return topology.level, topology.drops_failing_rows

    found: list[tuple[str, ...]] = []
    by_kind = sorted(playable(), key=lambda name: (kind(name), name))
    for _, same in groupby(by_kind, key=kind):
        names = tuple(same)
        found += [names[at : at + QUERIES_OF_A_JOB] for at in range(0, len(names), QUERIES_OF_A_JOB)]
    return found


@cache
def played(names: tuple[str, ...]) -> dict[str, dict[str, Rows]] | TideglassError:
    """What came of a job; an error is kept too, so that it does not run again for each of its cases."""
    try:
        return rows_of_job(names)
    except TideglassError as error:
        return error


def rows_of_job(names: tuple[str, ...]) -> dict[str, dict[str, Rows]]:
    """The rows of every case of a job, by case and output."""
    chosen = [playable()[name] for name in names]
    inputs = {
        qualified(place, name): rows
        for place, (case, topology) in enumerate(chosen)
        for name, rows in rows_of_inputs(topology, case.inputs).items()
    }
    whole = merged([topology for _, topology in chosen])
    reference = {
        qualified(place, name): rows
        for place, (case, _) in enumerate(chosen)
        for name, rows in case.reference.items()
    }
    tables = run_on_spark(whole, inputs, references=inline_rows(whole.references, reference))
    return {
        case.name: {name: rows_in_order(parts) for name, parts in own(place, tables).items()}
        for place, (case, _) in enumerate(chosen)
    }


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("name", CASES)
def test_the_case_holds_on_spark(name: str) -> None:
    if name not in playable():
        pytest.skip("not yet supported")
    rows = played(next(job for job in jobs() if name in job))
    if isinstance(rows, TideglassError):
        raise rows
    assert compare_outputs(rows[name], CASES[name].expected) == []


def first_that_stops(area: str) -> Case:
    return next(case for path in case_paths(area) if (case := load(path)).runtime_error)


@pytest.mark.parametrize("area", ["functions", "aggregates", "failures"])
def test_a_row_that_fails_the_query_stops_the_job_on_spark_at_the_first_try(
    area: str, spark: SparkSession
) -> None:
    case = first_that_stops(area)
    before = failed_tasks(spark)
    with pytest.raises(EvaluationError) as local:
        run(case.query, case.inputs, settings=case.settings)
    with pytest.raises(EvaluationError) as on_spark:
        run(case.query, case.inputs, settings=case.settings, engine="spark")
    assert str(on_spark.value) == str(local.value)
    assert failed_tasks(spark) == before


def failed_tasks(spark: SparkSession) -> int:
    """Tasks of the session that have failed so far, each attempt counted."""
    context: Any = spark.sparkContext
    none = context._jvm.java.util.ArrayList()
    quantiles = context._gateway.new_array(context._jvm.double, 0)
    stages = context._jsc.sc().statusStore().stageList(none, False, False, quantiles, none)
    return sum(stages.apply(place).numFailedTasks() for place in range(stages.size()))


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("name", ["udf/whole_event", "uda/windows_over_windows"])
def test_the_test_kit_gives_the_same_rows_of_functions_in_the_same_order_on_spark(name: str) -> None:
    (case,) = (load(path) for path in case_paths() if path.with_suffix("").match(name))
    local, on_spark = (
        run(case.query, case.inputs, settings=case.settings, functions=case.functions, engine=engine)
        for engine in ("local", "spark")
    )
    assert on_spark == local
    assert compare_outputs(on_spark, case.expected) == []
