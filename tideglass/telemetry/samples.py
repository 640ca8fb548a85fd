"""The values of all metrics at one moment, read from the status of a job.

A value nobody knows has no sample: it is neither 0 nor NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tideglass.core.time import AFTER_ALL_TICKS, BEFORE_ALL_TICKS, TICKS_PER_SECOND, ticks_of_datetime
from tideglass.job.report.status import SOURCES, InputStatus, JobState, OutputStatus, Status, StepStatus
from tideglass.telemetry.catalogue import BY_API_NAME, JOB_LABEL, METRICS, PREFIX, Metric

#: Substreams that have a metric: their names are data, and every name is a time series for ever.
MOST_SUBSTREAMS = 5

#: Counters every partition has; a report leaves out those that are 0.
_OF_EVERY_PARTITION = (
    "InputEvents",
    "EarlyInputEvents",
    "LateInputEvents",
    "DeserializationError",
    "InputEventBytes",
    SOURCES,
)
#: Counted beside the decisions: these events are among the decided ones too.
_BESIDE = {"arrivals_raised", "beyond_percentile"}
#: Counted once for all readers of a partition, since they share what is decoded.
_OF_THE_DECODER = {"DeserializationError", "InputEventBytes", SOURCES}


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a metric. labels: those of the metric and `job_name`, all of them texts."""

    metric: Metric
    labels: Mapping[str, str]
    value: float


def samples(status: Status, substreams: int = MOST_SUBSTREAMS) -> list[Sample]:
    """All samples of a job, those of one metric one after the other.

    substreams: how many of the slowest ones have a sample.
    """
    found = [
        *_job(status),
        *_batches(status),
        *_inputs(status),
        *_substreams(status, substreams),
        *_steps(status),
        *_outputs(status),
        *_resources(status),
    ]
    place = {name: number for number, name in enumerate(METRICS)}
    return sorted(found, key=lambda each: place[each.metric.name])


def _sample(status: Status, name: str, value: float, **labels: str) -> Sample:
    metric = METRICS[PREFIX + name] if PREFIX + name in METRICS else BY_API_NAME[name]
    return Sample(metric, {JOB_LABEL: status.job, **labels}, value)


def _job(status: Status) -> Iterator[Sample]:
    for state in JobState:
        yield _sample(status, "job_state", float(state is status.state), state=state.value)
    yield _sample(
        status,
        "run_info",
        1,
        run=str(status.run),
        generation=str(status.generation),
        mode=status.mode,
        node_name=status.host,
    )
    for name, text in (
        ("run_started_timestamp_seconds", status.since),
        ("status_updated_timestamp_seconds", status.updated),
    ):
        if (seconds := unix_seconds(text)) is not None:
            yield _sample(status, name, seconds)
    if "Errors" in status.counters:
        yield _sample(status, "Errors", status.counters["Errors"])


def _batches(status: Status) -> Iterator[Sample]:
    yield _sample(status, "batches_total", status.batches)
    yield _sample(status, "run_events_total", status.events)
    if status.recent_batches:
        last = status.recent_batches[-1]
        yield _sample(status, "batch_seconds", last.seconds)
        yield _sample(status, "batch_commit_seconds", last.commit_seconds)
        yield _sample(status, "batch_events", last.events)
        yield _sample(status, "batch_rows", last.rows)
    began, now = unix_seconds(status.batch_began), unix_seconds(status.updated)
    if began is not None and now is not None:
        yield _sample(status, "batch_under_way_seconds", max(0.0, now - began))
    if status.catching_up is not None:
        yield _sample(status, "catch_up_share", status.catching_up.share)


def _inputs(status: Status) -> Iterator[Sample]:
    partitions: dict[tuple[str, str], list[InputStatus]] = {}
    for each in status.inputs:
        partitions.setdefault((each.input, each.partition), []).append(each)
    out_of_order: dict[str, int] = {}
    for (name, partition), readers in partitions.items():
        labels = {"logical_name": name, "partition_id": partition}
        if any(each.counters for each in readers) or not any(each.events for each in readers):
            for api_name in _OF_EVERY_PARTITION:
                counted = [each.counters.get(api_name, 0) for each in readers]
                if api_name == SOURCES and not any(counted) and any(each.events for each in readers):
                    continue  # events came from somewhere: nobody has counted
                value = max(counted) if api_name in _OF_THE_DECODER else sum(counted)
                node = {"node_name": status.host} if api_name == "InputEvents" else {}
                yield _sample(status, api_name, value, **labels, **node)
            moved = sum(each.counters.get("DroppedOrAdjustedEvents", 0) for each in readers)
            out_of_order[name] = out_of_order.get(name, 0) + moved
        yield from _partition_delays(status, readers, labels)
        marks = [each.watermark_ticks for each in readers]
        if all(is_instant(mark) for mark in marks):
            least = min(mark for mark in marks if mark is not None)
            yield _sample(status, "partition_watermark_timestamp_seconds", _seconds(least), **labels)
        decided: dict[str, int] = {}
        for each in readers:
            for decision, count in each.decisions.items():
                if decision not in _BESIDE:
                    decided[decision] = decided.get(decision, 0) + count
        for decision, count in decided.items():
            yield _sample(status, "events_by_decision_total", count, **labels, decision=decision)
        yield _sample(status, "partition_held_rows", sum(each.rows_held for each in readers), **labels)
        yield _sample(status, "substreams_ahead", sum(each.substreams for each in readers), **labels)
    for name, count in out_of_order.items():
        yield _sample(status, "DroppedOrAdjustedEvents", count, logical_name=name)
    for name, count in status.backlog.items():
        yield _sample(status, "InputEventsSourcesBacklogged", count, logical_name=name)
    for each in status.references:
        yield _sample(status, "reference_snapshots", each.snapshots, logical_name=each.input)
        if each.rows is not None:
            yield _sample(
                status,
                "InputEvents",
                each.rows,
                logical_name=each.input,
                partition_id="",
                node_name=status.host,
            )


def _partition_delays(
    status: Status, readers: Sequence[InputStatus], labels: Mapping[str, str]
) -> Iterator[Sample]:
    """How far the watermark of a partition is behind: the clock (`asa.md` 1.8), and its newest arrival."""
    lags = [each.delay_seconds for each in readers if each.delay_seconds is not None]
    if lags:
        yield _sample(status, "partition_watermark_lag_seconds", max(lags), **labels)
    now = unix_seconds(status.updated)
    marks = [each.watermark_ticks for each in readers if each.delay_seconds is not None]
    known = [_seconds(mark) for mark in marks if mark is not None and is_instant(mark)]
    if known and now is not None:
        yield _sample(status, "OutputWatermarkDelaySeconds", max(0.0, now - min(known)), **labels)


def _substreams(status: Status, most: int) -> Iterator[Sample]:
    arrivals = {(each.input, each.partition, each.reader): each.last_arrival_ticks for each in status.inputs}
    slowest: dict[tuple[str, str, str], float] = {}
    for each in status.substreams:
        newest = arrivals.get((each.input, each.partition, each.reader))
        if newest is None or not is_instant(each.watermark_ticks):
            continue
        lag = max(0, newest - each.watermark_ticks) / TICKS_PER_SECOND
        place = (each.input, each.partition, each.name)
        slowest[place] = max(lag, slowest.get(place, 0.0))
    for place in sorted(slowest, key=lambda place: (-slowest[place], place))[:most]:
        name, partition, substream = place
        labels = {"logical_name": name, "partition_id": partition, "substream": substream}
        yield _sample(status, "substream_watermark_lag_seconds", slowest[place], **labels)


def _steps(status: Status) -> Iterator[Sample]:
    newest = max((each.last_arrival_ticks for each in status.inputs if each.last_arrival_ticks), default=None)
    for each in status.steps:
        labels = {"step": each.step, "operator": str(each.operator), "operation": each.kind}
        yield from _step_watermarks(status, each, newest, labels)
        yield _sample(status, "step_rows_in_total", each.rows_in, **labels)
        yield _sample(status, "step_rows_out_total", each.rows_out, **labels)
        yield _sample(status, "step_ranges", each.ranges, **labels)
        yield _sample(status, "step_ranges_reported", each.ranges_reported, **labels)
        held: dict[tuple[str, str], int] = {}
        for holder in each.holders:
            if holder.rows is not None:
                place = (holder.component, holder.kind)
                held[place] = held.get(place, 0) + holder.rows
        for (component, kind), rows in held.items():
            yield _sample(status, "step_held_rows", rows, **labels, component=component, held=kind)


def _step_watermarks(
    status: Status, step: StepStatus, newest: int | None, labels: Mapping[str, str]
) -> Iterator[Sample]:
    for side, mark in (("input", step.input_watermark_ticks), ("output", step.output_watermark_ticks)):
        if mark is None or not is_instant(mark):
            continue
        yield _sample(status, "watermark_timestamp_seconds", _seconds(mark), **labels, side=side)
        if side == "output" and step.data_watermark_lag_seconds is not None:
            lag = step.data_watermark_lag_seconds
        elif newest is not None:
            lag = max(0, newest - mark) / TICKS_PER_SECOND
        else:
            continue
        yield _sample(status, "watermark_lag_seconds", lag, **labels, side=side, kind="data")
    if step.system_watermark_lag_seconds is not None:
        lag = step.system_watermark_lag_seconds
        yield _sample(status, "watermark_lag_seconds", lag, **labels, side="output", kind="system")
    if step.latency_seconds is not None:
        yield _sample(status, "step_latency_seconds", step.latency_seconds, **labels)


def _outputs(status: Status) -> Iterator[Sample]:
    for name, rows in {**status.rows, **status.rows_in_all}.items():
        yield _sample(status, "OutputEvents", rows, logical_name=name)
    for each in status.outputs:
        yield from _output(status, each)


def _output(status: Status, output: OutputStatus) -> Iterator[Sample]:
    name = output.output
    yield _sample(status, "ConversionErrors", output.conversion_errors, logical_name=name)
    if output.alive is not None:
        yield _sample(status, "output_alive", float(output.alive), logical_name=name)
    yield _sample(status, "output_calls_total", output.calls, logical_name=name)
    yield _sample(status, "output_failed_calls_total", output.failed_calls, logical_name=name)
    yield _sample(status, "output_seconds_total", output.seconds, logical_name=name)
    if (seconds := unix_seconds(output.last_row)) is not None:
        yield _sample(status, "output_last_row_timestamp_seconds", seconds, logical_name=name)


def _resources(status: Status) -> Iterator[Sample]:
    if status.cpu_percent is not None:
        yield _sample(status, "ProcessCPUUsagePercentage", status.cpu_percent, node_name=status.host)
    used, limit = status.memory_bytes, status.memory_limit_bytes
    if used is not None:
        yield _sample(status, "memory_bytes", used, node_name=status.host)
    if limit is not None:
        yield _sample(status, "memory_limit_bytes", limit, node_name=status.host)
    if used is not None and limit:
        yield _sample(status, "ResourceUtilization", 100 * used / limit, node_name=status.host)


def is_instant(ticks: int | None) -> bool:
    """Whether ticks name a moment, and not "none yet" or "end of input"."""
    return ticks is not None and BEFORE_ALL_TICKS < ticks < AFTER_ALL_TICKS


def unix_seconds(text: str | None) -> float | None:
    """Seconds since 1970 of an ISO text of the wall clock; None for a text that is none.

    >>> unix_seconds("1970-01-01T00:00:01Z"), unix_seconds(""), unix_seconds(None)
    (1.0, None, None)
    """
    try:
        return ticks_of_datetime(datetime.fromisoformat(text or "")) / TICKS_PER_SECOND
    except ValueError:
        return None


def _seconds(ticks: int) -> float:
    return ticks / TICKS_PER_SECOND
