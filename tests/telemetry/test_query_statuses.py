"""Streaming queries over DataFrames have the metrics of jobs, made of what Spark says of their batches."""

from __future__ import annotations

from dataclasses import replace

from support.times import at
from tideglass.core.time import BEFORE_ALL_TICKS, parse_ticks
from tideglass.ingress.decisions import Counters
from tideglass.job.report.status import JobState, Status
from tideglass.spark.dataframes.listener import QueryEvent
from tideglass.spark.dataframes.metrics import Observed
from tideglass.telemetry.query_statuses import QueryStatuses
from tideglass.telemetry.samples import samples


def ticks(second: float) -> int:
    found = parse_ticks(at(second))
    assert found is not None
    return found


def batch(number: int, accepted: int, late: int, watermark: float | None) -> QueryEvent:
    observed = Observed(
        "a",
        0,
        Counters(accepted=accepted, adjusted_late=late),
        1,
        500,
        BEFORE_ALL_TICKS if watermark is None else ticks(watermark),
        ticks(60),
    )
    return QueryEvent("q", "r1", "toll", at(60), number, 1.5, 0.25, 10, 3, {"a": observed})


def test_a_batch_becomes_the_metrics_of_a_job():
    statuses = QueryStatuses(clock=lambda: at(70))
    statuses.take(QueryEvent("q", "r1", "toll", at(50)))
    statuses.take(batch(0, 8, 1, None))
    statuses.take(batch(1, 17, 2, 48))
    (status,) = statuses.all()
    assert (status.job, status.run, status.state, status.batches, status.events) == (
        "toll", 1, JobState.RUNNING, 2, 20,
    )  # fmt: skip
    assert status.counters["LateInputEvents"] == 2
    assert (status.inputs[0].partition, status.inputs[0].delay_seconds) == ("*", 12)
    found = {each.metric.name: each.value for each in samples(status)}
    assert found["tideglass_InputEvents_total"] == 19
    assert found["tideglass_DeserializationError_total"] == 1
    assert found["tideglass_OutputWatermarkDelaySeconds"] == 22
    assert found["tideglass_partition_watermark_lag_seconds"] == 12
    assert found["tideglass_OutputEvents_total"] == 6
    assert found["tideglass_batch_seconds"] == 1.5
    assert "tideglass_InputEventsSourcesPerSecond_total" not in found
    assert "tideglass_ProcessCPUUsagePercentage" not in found


def test_a_partition_without_a_watermark_has_no_delay():
    statuses = QueryStatuses()
    statuses.take(batch(0, 8, 1, None))
    assert statuses.all()[0].inputs[0].delay_seconds is None
    assert statuses.all()[0].watermark_delay_seconds is None


def test_a_query_that_starts_again_is_the_next_run_of_it_and_keeps_its_totals():
    statuses = QueryStatuses()
    statuses.take(batch(0, 8, 1, 48))
    statuses.take(QueryEvent("q", "r1", ended=True, error="a row failed"))
    (failed,) = statuses.all()
    assert (failed.state, failed.error) == (JobState.FAILED, "a row failed")
    statuses.take(QueryEvent("q", "r2", "toll", at(80)))
    (again,) = statuses.all()
    assert (again.run, again.state, again.error, again.batches) == (2, JobState.RUNNING, None, 0)
    assert again.counters == failed.counters


def test_an_input_that_does_not_report_in_a_batch_keeps_what_it_had():
    statuses = QueryStatuses()
    statuses.take(batch(0, 8, 1, 48))
    statuses.take(replace(batch(1, 0, 0, None), observed={}))
    (status,) = statuses.all()
    assert (status.batches, status.inputs[0].counters["InputEvents"]) == (2, 9)


def test_observers_get_every_status_and_old_queries_are_forgotten():
    seen: list[Status] = []
    statuses = QueryStatuses([seen.append])
    for number in range(50):
        statuses.take(QueryEvent(f"q{number}", "r"))
        statuses.take(QueryEvent(f"q{number}", "r", ended=True))
    assert len(seen) == 100
    assert [each.job for each in statuses.all()] == [f"q{number}" for number in range(30, 50)]
