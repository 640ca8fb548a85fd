"""Outputs of one query that are written together, what may be an input, and how a failure is told."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, StreamingQueryException

import tideglass
from tideglass.core.errors import EvaluationError, InputError, TideglassError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUERY = """
SELECT device, COUNT(*) AS n INTO counts FROM e TIMESTAMP BY t GROUP BY device, TumblingWindow(second, 10)
SELECT device, v INTO high FROM e TIMESTAMP BY t WHERE v > 5
"""
SCHEMA = "v BIGINT, device STRING, t STRING"
#: A second apart; the last closes all windows before it.
EVENTS = [
    *((n, f"d{n % 2}", f"2026-01-01T00:00:{n:02d}Z") for n in range(1, 13)),
    (0, "end", "2026-01-01T01:00:00Z"),
]
HIGH = sorted(str((f"d{n % 2}", n)) for n in range(6, 13))
COUNTS = [str((f"d{n}", count)) for n in (0, 1) for count in (1, 5)]


@pytest.fixture(autouse=True)
def few_partitions(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "2")


class Sinks:
    """Writers of a query's outputs that keep the rows of each batch, and fail once at a given one."""

    def __init__(self, fails_at: tuple[str, int] | None = None) -> None:
        self.rows: dict[str, dict[int, list[str]]] = {"counts": {}, "high": {}}
        self.calls: list[tuple[str, int]] = []
        self._fails_at = fails_at

    def take(self, name: str, df: DataFrame, batch_id: int) -> None:
        self.calls.append((name, batch_id))
        if (name, batch_id) == self._fails_at:
            self._fails_at = None
            raise OSError("the sink is away")
        self.rows[name][batch_id] = [str(tuple(row)) for row in df.collect()]

    @property
    def writers(self) -> dict[str, Any]:
        return {name: partial(self.take, name) for name in self.rows}

    def all(self) -> dict[str, list[str]]:
        return {name: sorted(row for rows in of.values() for row in rows) for name, of in self.rows.items()}


def test_outputs_started_together_share_one_reading_and_a_batch_that_failed_is_written_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    for part in (EVENTS[:7], EVENTS[7:]):
        spark.createDataFrame(part, SCHEMA).coalesce(1).write.mode("append").json(str(tmp_path / "in"))
    df = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
    sinks = Sinks(fails_at=("high", 1))

    def started() -> Any:
        frames = tideglass.query(spark, QUERY, {"e": (df, {"arrival": "t"})})
        return tideglass.start(
            frames, sinks.writers, tmp_path / "c", trigger={"availableNow": True}, name="together"
        )

    with pytest.raises(TideglassError, match="OSError: the sink is away") as caught:
        tideglass.await_termination(started())
    assert isinstance(caught.value.__cause__, StreamingQueryException)
    running = started()
    assert tideglass.await_termination(running, 120)
    assert sinks.calls.count(("counts", 1)) == 2
    assert sinks.all() == {"counts": COUNTS, "high": HIGH}
    assert running.name == "together"
    found = tideglass.metrics(running)
    assert found.events == len(EVENTS)
    assert sum(progress.numInputRows for progress in running.recentProgress) == len(EVENTS[7:])


def test_outputs_of_finished_dataframes_are_written_together_and_read_once(spark: SparkSession) -> None:
    frames = tideglass.query(spark, QUERY, {"e": (pd.DataFrame(EVENTS, columns=["v", "device", "t"]), {})})
    sinks = Sinks()
    tideglass.write(frames, sinks.writers)
    assert sinks.all() == {"counts": [*COUNTS, "('end', 1)"], "high": HIGH}
    assert sinks.calls == [("counts", 0), ("high", 0)]
    assert tideglass.metrics(frames["high"]).events == len(EVENTS)
    with pytest.raises(TideglassError, match="did you mean 'high'"):
        tideglass.write(frames, {"hihg": print})
    with pytest.raises(TideglassError, match="is no output as"):
        tideglass.write({"high": frames["high"].limit(1)}, {"high": print})
    with pytest.raises(TideglassError, match="finished DataFrames"):
        tideglass.start(frames, sinks.writers, "nowhere")


def test_sparks_ui_names_inputs_steps_and_outputs(spark: SparkSession) -> None:
    query = """
    WITH fast AS (SELECT device, MAX(v) AS v FROM e TIMESTAMP BY t GROUP BY device, TumblingWindow(second, 5))
    SELECT device, COUNT(*) AS n INTO counts FROM fast GROUP BY device, TumblingWindow(second, 10)
    SELECT device INTO high FROM fast
    """
    df = spark.createDataFrame(EVENTS, SCHEMA)
    frames = tideglass.query(spark, query, {"e": df})
    spark.sparkContext.setJobDescription("mine")
    tideglass.write(frames, {name: lambda rows, _: rows.count() for name in frames})
    assert spark.sparkContext.getLocalProperty("spark.job.description") == "mine"
    spark.sparkContext.setJobDescription(cast("Any", None))
    jobs = cast("Any", spark.sparkContext)._jsc.sc().statusStore().jobsList(None)
    shown = {
        job.description().get()
        for job in (jobs.apply(n) for n in range(jobs.size()))
        if job.description().isDefined()
    }
    assert {
        "tideglass batch 0: e → fast → counts, high",
        "tideglass batch 0: rows → counts",
        "tideglass batch 0: rows → high",
    } <= shown
    plan = cast("Any", frames["high"])._jdf.queryExecution().toString()
    assert "events_of_e" in plan
    assert "rows_of_high" in plan


def test_frames_of_pandas_tables_of_arrow_and_names_in_the_catalog_are_inputs(spark: SparkSession) -> None:
    rows = {"v": [1, 7], "t": ["2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"]}
    pandas: Any = pd.DataFrame(rows).iloc[::-1]
    spark.createDataFrame(pandas).createOrReplaceTempView("readings_of_today")
    query = "SELECT v * 2 AS w INTO o FROM e TIMESTAMP BY t"
    for given in (
        pandas,
        pa.table(rows),
        "readings_of_today",
        tideglass.FrameInput(cast("Any", "readings_of_today")),
    ):
        found = tideglass.query(spark, query, {"e": given})["o"].collect()
        assert sorted(row.w for row in found) == [2, 14]
    with pytest.raises(InputError, match="'readings_of_old', which the session's catalog does not have"):
        tideglass.query(spark, query, {"e": "readings_of_old"})


def test_a_function_of_python_is_called_in_the_workers_and_may_capture_values(spark: SparkSession) -> None:
    factors = {"a": 2, "b": 3}

    def scaled(kind: str, value: int) -> float | None:
        return factors[kind] * value / 2 if kind in factors else None

    df = spark.createDataFrame(
        [("a", 3, 1), ("b", 5, 2), ("c", 7, 3), ("a", 4, 4)], "kind STRING, v BIGINT, s BIGINT"
    ).selectExpr("kind", "v", "timestamp_seconds(s) AS t")
    query = """
    SELECT kind, UDF.scaled(kind, v) AS w INTO rows FROM e TIMESTAMP BY t
    SELECT SUM(UDF.scaled(kind, v)) AS total INTO sums FROM e TIMESTAMP BY t GROUP BY TumblingWindow(hour, 1)
    """
    outputs = tideglass.query(spark, query, {"e": df}, functions={"scaled": scaled})
    assert outputs["rows"].dtypes == [("kind", "string"), ("w", "double")]
    assert sorted(str(row.w) for row in outputs["rows"].collect()) == ["3.0", "4.0", "7.5", "None"]
    assert [row.total for row in outputs["sums"].collect()] == [14.5]
    with pytest.raises(TideglassError, match="scaled cannot be sent to Spark's workers"):
        tideglass.query(spark, query, {"e": df}, functions={"scaled": lambda kind, v: df.count()})
    failing = {"scaled": lambda kind, v: factors[kind]}
    with pytest.raises(PySparkException) as caught:
        tideglass.query(spark, query, {"e": df}, functions=failing)["rows"].collect()
    assert str(tideglass.explained(caught.value)).startswith(
        "query:2:18: [FUNCTION_FAILED] The function UDF.scaled failed: KeyError: 'c'."
    )


def test_of_a_row_that_fails_the_sentence_stands_first_in_sparks_message(spark: SparkSession) -> None:
    df = spark.createDataFrame([(1, "x1", "2026-01-01T00:00:01Z")], "v BIGINT, s STRING, t STRING")
    frames = tideglass.query(spark, "SELECT CAST(s AS bigint) AS n INTO o FROM e TIMESTAMP BY t", {"e": df})
    with pytest.raises(PySparkException) as caught:
        frames["o"].collect()
    text = str(caught.value)
    assert 0 < text.index("query:1:8: [CAST_FAILED] Cannot cast") < 120 < text.index("Traceback")
    told = tideglass.explained(caught.value)
    assert type(told) is EvaluationError
    assert str(told).startswith("query:1:8: [CAST_FAILED]")
    assert str(told).endswith("hint: TRY_CAST gives NULL where a value cannot be converted")
    with pytest.raises(EvaluationError, match="CAST_FAILED"):
        tideglass.write(frames, {"o": lambda df, _: df.collect()})
