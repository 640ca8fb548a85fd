"""What Prometheus is told of a job is what its status says, and nothing more."""

from __future__ import annotations

import math
from dataclasses import replace
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.statuses import at, full_status
from tideglass.core.errors import TideglassError
from tideglass.core.time import AFTER_ALL_TICKS, TICKS_PER_SECOND
from tideglass.job.report.status import InputStatus, JobState, Status
from tideglass.telemetry.catalogue import METRICS, NOT_MEASURED, SERVICE_METRICS, MetricKind
from tideglass.telemetry.endpoint import NewestStatus, serving
from tideglass.telemetry.prometheus import exposition
from tideglass.telemetry.samples import MOST_SUBSTREAMS

#: Of `asa.md` 9.1.
API_NAMES = [
    "InputEventsSourcesBacklogged",
    "ProcessCPUUsagePercentage",
    "ConversionErrors",
    "EarlyInputEvents",
    "AMLCalloutRequests",
    "AMLCalloutFailedRequests",
    "AMLCalloutInputEvents",
    "DeserializationError",
    "InputEventBytes",
    "InputEvents",
    "InputEventsSourcesPerSecond",
    "LateInputEvents",
    "DroppedOrAdjustedEvents",
    "OutputEvents",
    "Errors",
    "ResourceUtilization",
    "OutputWatermarkDelaySeconds",
]


def scraped(*statuses: Status) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Values by name and labels, as Prometheus reads the text."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(exposition(*statuses).decode())
        for sample in family.samples
    }


def value(status: Status, name: str, **labels: str) -> float | None:
    """The value of one sample; None where there is none. labels: besides job_name."""
    return scraped(status).get((name, frozenset({"job_name": status.job, **labels}.items())))


def test_every_metric_of_the_service_has_a_name_here_or_a_reason_why_not():
    assert sorted(API_NAMES) == sorted([each.api_name or "" for each in SERVICE_METRICS] + [*NOT_MEASURED])


def test_a_full_status_has_a_sample_of_every_metric():
    names = {name for name, _ in scraped(full_status())}
    assert names == set(METRICS)


def test_a_counter_ends_in_total_and_nothing_else_does():
    for name, metric in METRICS.items():
        assert name.endswith("_total") == (metric.kind is MetricKind.COUNTER)
    types = {
        line.split()[2]: line.split()[3]
        for line in exposition(full_status()).decode().splitlines()
        if line.startswith("# TYPE")
    }
    assert types == {name: metric.kind.value for name, metric in METRICS.items()}


def test_labels_are_those_of_the_catalogue():
    for name, labels in scraped(full_status()):
        assert {label for label, _ in labels} == {"job_name", *METRICS[name].labels}, name


@pytest.mark.parametrize(
    ("name", "labels", "expected"),
    [
        ("InputEvents_total", {"logical_name": "toll", "partition_id": "0", "node_name": "node-a"}, 98),
        ("InputEvents_total", {"logical_name": "booths", "partition_id": "", "node_name": "node-a"}, 40),
        ("LateInputEvents_total", {"logical_name": "toll", "partition_id": "0"}, 3),
        ("LateInputEvents_total", {"logical_name": "toll", "partition_id": "1"}, 0),
        ("DeserializationError_total", {"logical_name": "toll", "partition_id": "0"}, 2),
        ("InputEventBytes_total", {"logical_name": "toll", "partition_id": "1"}, 2500),
        ("DroppedOrAdjustedEvents_total", {"logical_name": "toll"}, 5),
        (
            "events_by_decision_total",
            {"logical_name": "toll", "partition_id": "0", "decision": "adjusted_late"},
            3,
        ),
        ("OutputEvents_total", {"logical_name": "perMinute"}, 12),
        ("Errors_total", {}, 1),
        ("InputEventsSourcesBacklogged", {"logical_name": "toll"}, 1234),
        # The job has last reported at 12:02, the watermark is at 12:00:30, the newest arrival at 12:00:58.
        ("OutputWatermarkDelaySeconds", {"logical_name": "toll", "partition_id": "1"}, 90),
        ("partition_watermark_lag_seconds", {"logical_name": "toll", "partition_id": "1"}, 28),
        ("ResourceUtilization", {"node_name": "node-a"}, 25),
        ("job_state", {"state": "Running"}, 1),
        ("job_state", {"state": "Failed"}, 0),
        ("batches_total", {}, 7),
        ("batch_under_way_seconds", {}, 3),
        ("output_alive", {"logical_name": "perMinute"}, 1),
        ("output_failed_calls_total", {"logical_name": "perMinute"}, 1),
        ("catch_up_share", {}, 0.5),
    ],
)
def test_a_value_is_that_of_the_status(name: str, labels: dict[str, str], expected: float):
    assert value(full_status(), f"tideglass_{name}", **labels) == expected


def test_the_lag_of_a_step_has_a_side_and_a_kind():
    window = {"step": "perMinute", "operator": "1", "operation": "tumbling window"}
    lag = "tideglass_watermark_lag_seconds"
    status = full_status()
    # The newest arrival is 12:01:00, the input watermark 12:00:30.
    assert value(status, lag, **window, side="input", kind="data") == 30
    assert value(status, lag, **window, side="output", kind="data") == 40
    assert value(status, lag, **window, side="output", kind="system") == 1.5
    at_seconds = value(status, "tideglass_watermark_timestamp_seconds", **window, side="output")
    assert at_seconds == at(20) / TICKS_PER_SECOND


def test_what_is_unknown_has_no_sample():
    unknown: dict[str, None] = dict.fromkeys(
        (
            "input_watermark_ticks",
            "output_watermark_ticks",
            "data_watermark_lag_seconds",
            "system_watermark_lag_seconds",
            "latency_seconds",
        )
    )
    status = full_status(
        inputs=(InputStatus("toll", "0", 0, None, None),),
        steps=tuple(replace(each, **unknown) for each in full_status().steps),
        outputs=(replace(full_status().outputs[0], alive=None, last_row=None),),
        memory_bytes=None, cpu_percent=None, backlog={}, catching_up=None, batch_began=None, substreams=(),
        watermark_delay_seconds=None, recent_batches=(),
    )  # fmt: skip
    found = scraped(status)
    assert not any(math.isnan(each) for each in found.values())
    absent = (
        "tideglass_OutputWatermarkDelaySeconds",
        "tideglass_partition_watermark_lag_seconds",
        "tideglass_watermark_lag_seconds",
        "tideglass_watermark_timestamp_seconds",
        "tideglass_partition_watermark_timestamp_seconds",
        "tideglass_substream_watermark_lag_seconds",
        "tideglass_step_latency_seconds",
        "tideglass_output_alive",
        "tideglass_output_last_row_timestamp_seconds",
        "tideglass_ResourceUtilization",
        "tideglass_ProcessCPUUsagePercentage",
        "tideglass_InputEventsSourcesBacklogged",
        "tideglass_catch_up_share",
        "tideglass_batch_under_way_seconds",
        "tideglass_batch_seconds",
    )
    assert not {name for name, _ in found} & set(absent)
    # A partition without an event has really had none.
    assert value(
        status, "tideglass_InputEvents_total", logical_name="toll", partition_id="0", node_name="node-a"
    ) == 0  # fmt: skip


def test_a_partition_at_its_end_has_no_watermark_in_time():
    ended = replace(full_status().inputs[0], watermark_ticks=AFTER_ALL_TICKS, delay_seconds=None)
    names = {name for name, _ in scraped(full_status(inputs=(ended,)))}
    assert "tideglass_partition_watermark_timestamp_seconds" not in names
    assert not {"tideglass_OutputWatermarkDelaySeconds", "tideglass_partition_watermark_lag_seconds"} & names


def test_readers_of_a_partition_share_what_is_decoded():
    first, second = full_status().inputs[0], replace(full_status().inputs[0], reader=1)
    status = full_status(inputs=(first, second))
    labels = {"logical_name": "toll", "partition_id": "0"}
    assert value(status, "tideglass_InputEventBytes_total", **labels) == 5000
    assert value(status, "tideglass_LateInputEvents_total", **labels) == 6


def test_decisions_add_up_to_the_events():
    found = scraped(full_status())
    name = "tideglass_events_by_decision_total"
    decided = {dict(labels)["decision"]: count for (each, labels), count in found.items() if each == name}
    assert decided == {"accepted": 90, "adjusted_late": 3, "adjusted_out_of_order": 5}
    assert sum(decided.values()) == 98, "those of partition 0 that were not refused"


def test_only_the_slowest_substreams_have_a_metric():
    name = "tideglass_substream_watermark_lag_seconds"
    found = {
        dict(labels)["substream"]: lag
        for (each, labels), lag in scraped(full_status()).items()
        if each == name
    }
    assert found == {f"car {number}": 10 + number for number in (7, 6, 5, 4, 3)}
    assert len(found) == MOST_SUBSTREAMS


def test_several_jobs_share_one_exposition():
    found = scraped(full_status(), full_status(job="heat", batches=2))
    assert found["tideglass_batches_total", frozenset({("job_name", "toll")})] == 7
    assert found["tideglass_batches_total", frozenset({("job_name", "heat")})] == 2


def test_the_endpoint_answers_with_the_newest_status():
    newest = NewestStatus()
    with serving(newest.all, 0) as port:
        url = f"http://127.0.0.1:{port}/metrics"
        with urlopen(url) as before:
            assert before.read() == b""
        newest(full_status(batches=8))
        newest(full_status(batches=9, state=JobState.STOPPED))
        with urlopen(url) as after:
            assert after.read() == exposition(full_status(batches=9, state=JobState.STOPPED))
            assert after.headers["Content-Type"].startswith("text/plain")


def test_a_port_that_is_taken_is_named():
    with serving(NewestStatus().all, 0) as port:
        taken = pytest.raises(TideglassError, match=f"127.0.0.1:{port}")
        with taken, serving(NewestStatus().all, port):
            pass
