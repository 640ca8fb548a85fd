"""What passes the check is not too deep for Spark: plans travel to its processes, and run there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.nested import FUNCTIONS, LIMITED, ROWS, UNLIMITED
from tideglass.bind.depth import DEEPEST
from tideglass.testing import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("shape", ["case", "not_in", "floats", "udf", "apply", "aggregates"])
def test_what_is_as_deep_as_the_limit_runs_on_spark(spark: SparkSession, shape: str) -> None:
    query, around = LIMITED[shape]
    text = query(DEEPEST - around)
    assert run(text, {"i": ROWS}, functions=FUNCTIONS, engine="spark") == run(
        text, {"i": ROWS}, functions=FUNCTIONS
    )


@pytest.mark.parametrize("shape", ["or", "steps_that_add", "steps_that_filter"])
def test_what_stands_side_by_side_may_be_long_on_spark(spark: SparkSession, shape: str) -> None:
    text = UNLIMITED[shape](500)
    assert run(text, {"i": ROWS}, engine="spark") == run(text, {"i": ROWS})
