"""Every metric: its name for Prometheus, its kind, its labels, and the service's API name of it.

The service's metrics keep their API names (`asa.md` 9.1) behind the prefix `tideglass_`. A name of a counter
ends in `_total`, as Prometheus demands. The dimensions of the service are labels: Logical Name is
`logical_name`, Partition ID is `partition_id`, Node Name is `node_name`. Every metric has the label
`job_name` besides, since Prometheus keeps `job` for itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class MetricKind(StrEnum):
    """How values of a metric relate to each other in time."""

    COUNTER = "counter"  # only grows, and begins again with a new state or run
    GAUGE = "gauge"  # goes up and down


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric.

    name: for Prometheus; that of a counter ends in `_total`.
    kind: counter or gauge.
    text: what it measures, a sentence for people.
    labels: besides `job_name`.
    api_name: the service's name; None for a metric the service does not have.
    """

    name: str
    kind: MetricKind
    text: str
    labels: tuple[str, ...] = ()
    api_name: str | None = None


PREFIX = "tideglass_"
JOB_LABEL = "job_name"

_INPUT = ("logical_name", "partition_id")
_STEP = ("step", "operator", "operation")
_SUBSTREAM = ("logical_name", "partition_id", "substream")


def _service(api_name: str, kind: MetricKind, text: str, *labels: str) -> Metric:
    """A metric of the service."""
    ending = "_total" if kind is MetricKind.COUNTER else ""
    return Metric(f"{PREFIX}{api_name}{ending}", kind, text, labels, api_name)


def _own(name: str, text: str, *labels: str) -> Metric:
    """A metric the service does not have; the end of its name says its kind."""
    kind = MetricKind.COUNTER if name.endswith("_total") else MetricKind.GAUGE
    return Metric(f"{PREFIX}{name}", kind, text, labels)


_COUNTER, _GAUGE = MetricKind.COUNTER, MetricKind.GAUGE

#: The metrics of the service, in the order of `asa.md` 9.1.
SERVICE_METRICS: tuple[Metric, ...] = (
    _service(
        "InputEventsSourcesBacklogged",
        _GAUGE,
        "Messages, or bytes of files, that are there and not read.",
        "logical_name",
    ),
    _service("ProcessCPUUsagePercentage", _GAUGE, "Percent of the CPUs the job may use.", "node_name"),
    _service("EarlyInputEvents", _COUNTER, "Events whose time is too far ahead of their arrival.", *_INPUT),
    _service("DeserializationError", _COUNTER, "Events the deserializer refused.", *_INPUT),
    _service("InputEventBytes", _COUNTER, "Bytes of events received.", *_INPUT),
    _service(
        "InputEvents",
        _COUNTER,
        "Events deserialized, once per reader; rows loaded of a reference input.",
        *_INPUT,
        "node_name",
    ),
    _service(
        "InputEventsSourcesPerSecond",
        _COUNTER,
        "Messages or files received, before deserialization.",
        *_INPUT,
    ),
    _service(
        "LateInputEvents",
        _COUNTER,
        "Events later than the late tolerance, or than a watermark at a percentile.",
        *_INPUT,
    ),
    _service(
        "DroppedOrAdjustedEvents",
        _COUNTER,
        "Events adjusted or dropped by the out-of-order policy.",
        "logical_name",
    ),
    _service("OutputEvents", _COUNTER, "Rows sent.", "logical_name"),
    _service(
        "ConversionErrors",
        _COUNTER,
        "Rows an output has refused for what they hold, dropped or waiting.",
        "logical_name",
    ),
    _service("Errors", _COUNTER, "Rows left out because the query failed on them."),
    _service(
        "ResourceUtilization", _GAUGE, "Percent of the memory the job may take that it takes.", "node_name"
    ),
    _service(
        "OutputWatermarkDelaySeconds",
        _GAUGE,
        "Clock minus the watermark of the partition; the maximum is the watermark delay of the job.",
        *_INPUT,
    ),
)

#: API names of 9.1 that cannot be measured, with the reason.
NOT_MEASURED = {
    "AMLCalloutRequests": "functions of machine learning are understood and not supported",
    "AMLCalloutFailedRequests": "functions of machine learning are understood and not supported",
    "AMLCalloutInputEvents": "functions of machine learning are understood and not supported",
}

#: What the service does not measure.
OWN_METRICS: tuple[Metric, ...] = (
    _own("job_state", "1 for the state the job is in, 0 for the others.", "state"),
    _own("run_info", "1, with what distinguishes the run.", "run", "generation", "mode", "node_name"),
    _own("run_started_timestamp_seconds", "When the run started, seconds since 1970."),
    _own("status_updated_timestamp_seconds", "When the run last reported, seconds since 1970."),
    _own("batches_total", "Batches of this run."),
    _own("run_events_total", "Events this run has read."),
    _own("batch_seconds", "How long the last batch took, its commit included."),
    _own("batch_commit_seconds", "How long the commit of the last batch took."),
    _own("batch_events", "Events of the last batch."),
    _own("batch_rows", "Rows of the last batch, to all outputs."),
    _own("batch_under_way_seconds", "How long the batch under way has lasted; absent between batches."),
    _own("catch_up_share", "What part of the backlog at the start is read, 0 to 1; absent when all is."),
    _own("memory_bytes", "Memory of the processes of the run.", "node_name"),
    _own("memory_limit_bytes", "Memory they may take.", "node_name"),
    _own("watermark_timestamp_seconds", "Watermark of a step, seconds since 1970.", *_STEP, "side"),
    _own(
        "watermark_lag_seconds",
        "data: newest arrival minus the watermark; system: how long the oldest operation has lasted.",
        *_STEP,
        "side",
        "kind",
    ),
    _own("step_latency_seconds", "What a step adds: input watermark minus output watermark.", *_STEP),
    _own("step_rows_in_total", "Rows a step has read in this run.", *_STEP),
    _own("step_rows_out_total", "Rows a step has emitted in this run.", *_STEP),
    _own("step_held_rows", "Rows a step holds, as far as they are counted.", *_STEP, "component", "held"),
    _own("step_ranges", "Partitions or key groups of a step.", *_STEP),
    _own("step_ranges_reported", "How many of them have reported.", *_STEP),
    _own(
        "partition_watermark_timestamp_seconds",
        "Watermark of an input partition, seconds since 1970: the least of its readers.",
        *_INPUT,
    ),
    _own(
        "partition_watermark_lag_seconds",
        "Newest arrival of the partition minus its watermark, whatever the clock says.",
        *_INPUT,
    ),
    _own(
        "events_by_decision_total",
        "Events by what the time policies decided, once per reader; those refused have no decision.",
        *_INPUT,
        "decision",
    ),
    _own("partition_held_rows", "Rows the out-of-order policy keeps.", *_INPUT),
    _own("substreams_ahead", "Substreams ahead of the watermark of their partition.", *_INPUT),
    _own(
        "substream_watermark_lag_seconds",
        "Newest arrival of the partition minus the watermark, of the slowest substreams.",
        *_SUBSTREAM,
    ),
    _own("output_alive", "1 if the last call to an output succeeded, else 0.", "logical_name"),
    _own("output_calls_total", "Calls to an output in this run.", "logical_name"),
    _own("output_failed_calls_total", "Those that failed.", "logical_name"),
    _own("output_seconds_total", "How long they took.", "logical_name"),
    _own(
        "output_last_row_timestamp_seconds",
        "When the last row of an output was committed, seconds since 1970.",
        "logical_name",
    ),
    _own("reference_snapshots", "Snapshots of a reference input that are loaded.", "logical_name"),
)

#: By name, in the order they are exposed.
METRICS: dict[str, Metric] = {each.name: each for each in (*SERVICE_METRICS, *OWN_METRICS)}
BY_API_NAME: dict[str, Metric] = {each.api_name: each for each in SERVICE_METRICS if each.api_name}
