"""What is shown of one thing that a user goes into: a step, a partition, an output, a substream …"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tideglass.core.time import AFTER_ALL_TICKS, TICKS_PER_SECOND
from tideglass.job.diagnosis.finding import Finding
from tideglass.job.diagnosis.words import size_text
from tideglass.job.report.status import InputStatus, OutputStatus, RangeStatus, StepStatus
from tideglass.terminal.figures import (
    UNKNOWN,
    clock_text,
    count_text,
    instant_text,
    rate_text,
    short_span_text,
    sparkline,
)
from tideglass.terminal.job_snapshot import JobSnapshot

#: Key groups and substreams that are listed of one thing.
_MOST_LISTED = 40
_CHART = 40


@dataclass(frozen=True, slots=True)
class Detail:
    """A title, and lines of text below it."""

    title: str
    lines: tuple[str, ...]


def detail(snapshot: JobSnapshot, section: str, key: str) -> Detail | None:
    """What is known of the thing a row of a section shows; None where it is there no more."""
    return _DETAILS[section](snapshot, key)


def _step(snapshot: JobSnapshot, key: str) -> Detail | None:
    step = next((each for each in snapshot.status.steps if str(each.operator) == key), None)
    if step is None:
        return None
    return Detail(
        f"step {step.step}: {step.kind}, operator {step.operator}", tuple(_step_lines(snapshot, step))
    )


def _step_lines(snapshot: JobSnapshot, step: StepStatus) -> Iterator[str]:
    place = "" if step.line is None else f", line {step.line}" + (f":{step.column}" if step.column else "")
    sources = ", ".join(str(each) for each in step.sources)
    yield f"stage {step.level}{place}" + (f"; reads operator {sources}" if sources else "; reads the input")
    yield f"{step.ranges_reported} of {step.ranges} {_ranges_word(step)} have reported"
    yield ""
    yield f"input watermark    {instant_text(step.input_watermark_ticks)}"
    yield f"output watermark   {instant_text(step.output_watermark_ticks)}"
    yield f"latency it adds    {short_span_text(step.latency_seconds)}"
    yield f"data lag           {short_span_text(step.data_watermark_lag_seconds)}"
    yield f"system lag         {short_span_text(step.system_watermark_lag_seconds)}"
    lags = snapshot.lags(step.operator)
    if lags:
        yield f"data lag, 10 min   {sparkline(lags, _CHART)} up to {short_span_text(max(lags))}"
    yield ""
    for name, word in (("rows_in", "rows in "), ("rows_out", "rows out")):
        rate = _step_rate(snapshot, step.operator, name)
        yield f"{word}           {getattr(step, name):,}  {rate_text(rate)}"
    if step.rows_in:
        yield f"rows kept          {step.rows_out / step.rows_in:.1%} of those in"
    for each in step.early_panes:
        percent = f"early pane {each.percent} %"
        yield f"{percent:<18} {each.rows_out:,} rows out, watermark {instant_text(each.watermark_ticks)}"
    yield ""
    yield "held" if step.holders else "nothing is held"
    for each in step.holders:
        rows = "" if each.rows is None else f"{each.rows:,} rows, "
        due = (
            "" if each.due_ticks is None else f", due when the watermark passes {clock_text(each.due_ticks)}"
        )
        yield f"  {each.kind} ({each.component}) in {each.place}"
        yield f"    {rows}oldest {instant_text(each.oldest_ticks)}{due}"
    if step.level:
        yield ""
        yield from _key_groups(snapshot, step.level)
    listed = [each for each in snapshot.status.step_substreams if each.operator == step.substreams_of]
    if listed:
        yield ""
        yield f"{step.substreams:,} substreams are ahead of the watermark; the slowest and the fastest:"
        for each in listed:
            place = f"partition {each.partition}, key group {each.key_group}"
            yield f"  {each.name:<28} {clock_text(each.watermark_ticks)}  {place}"


def _ranges_word(step: StepStatus) -> str:
    return "key groups" if step.level else "partitions"


def _step_rate(snapshot: JobSnapshot, operator: int, name: str) -> float | None:
    return snapshot.rate(
        lambda sample: next((getattr(each, name) for each in sample.steps if each.operator == operator), None)
    )


def _key_groups(snapshot: JobSnapshot, level: int) -> Iterator[str]:
    groups = [each for each in snapshot.status.ranges if each.level == level]
    groups.sort(key=_slowest_first)
    yield f"key groups of stage {level}, the slowest first"
    yield "  group  rows in   rows out  input     output"
    for each in groups[:_MOST_LISTED]:
        yield (
            f"  {each.key_group:>5}  {count_text(each.rows_in):>7}   {count_text(each.rows_out):>8}  "
            f"{clock_text(each.input_watermark_ticks):<8}  {clock_text(each.output_watermark_ticks)}"
        )
    if len(groups) > _MOST_LISTED:
        yield f"  and {len(groups) - _MOST_LISTED} more"


def _slowest_first(each: RangeStatus) -> tuple[bool, int, int]:
    mark = each.output_watermark_ticks
    return mark is not None, mark or 0, each.key_group


def _partition(snapshot: JobSnapshot, key: str) -> Detail | None:
    found = next(
        (each for each in snapshot.status.inputs if f"{each.input}/{each.partition}/{each.reader}" == key),
        None,
    )
    if found is None:
        return None
    return Detail(
        f"partition {found.partition} of input {found.input}, reader {found.reader}",
        tuple(_partition_lines(snapshot, found)),
    )


def _partition_lines(snapshot: JobSnapshot, found: InputStatus) -> Iterator[str]:
    yield f"watermark          {instant_text(found.watermark_ticks)}, set by {found.held_by or 'nothing yet'}"
    yield f"newest event time  {instant_text(found.event_time_ticks)}"
    yield f"newest arrival     {instant_text(found.last_arrival_ticks)}"
    yield f"delay              {short_span_text(found.delay_seconds)}"
    delays = _delays(snapshot, found)
    if delays:
        yield f"delay, 10 min      {sparkline(delays, _CHART)} up to {short_span_text(max(delays))}"
    yield f"last event         {found.last_event or 'none in this run'}"
    yield f"held, out of order {found.rows_held:,} rows, oldest {instant_text(found.oldest_held_ticks)}"
    yield ""
    yield f"events             {found.events:,}"
    for name, count in found.counters.items():
        yield f"  {name:<28} {count:,}"
    if found.percentiles_ticks:
        yield ""
        yield "watermark at percentiles of the events in flight"
        for percent, ticks in sorted(found.percentiles_ticks.items()):
            yield f"  {percent:>3} %  {instant_text(ticks)}"
    own = [
        each
        for each in snapshot.status.substreams
        if (each.input, each.partition, each.reader) == (found.input, found.partition, found.reader)
    ]
    if found.substreams or own:
        yield ""
        yield f"{found.substreams:,} substreams are ahead of the watermark; known by name:"
        for each in own[:_MOST_LISTED]:
            yield f"  {each.name:<28} {clock_text(each.watermark_ticks)}"


def _delays(snapshot: JobSnapshot, found: InputStatus) -> list[float]:
    """The delay of a partition over time, where it is known."""
    delays: list[float] = []
    for sample in snapshot.history:
        for each in sample.partitions:
            if (each.input, each.partition, each.reader) != (found.input, found.partition, found.reader):
                continue
            mark, arrival = each.watermark_ticks, each.last_arrival_ticks
            if mark is not None and arrival is not None and mark < AFTER_ALL_TICKS:
                delays.append(max(0, arrival - mark) / TICKS_PER_SECOND)
    return delays


def _output(snapshot: JobSnapshot, key: str) -> Detail | None:
    found = next((each for each in snapshot.status.outputs if each.output == key), None)
    return None if found is None else Detail(f"output {key}", tuple(_output_lines(snapshot, found)))


def _output_lines(snapshot: JobSnapshot, found: OutputStatus) -> Iterator[str]:
    state = {None: "not called yet", True: "alive", False: "FAILING"}[found.alive]
    yield f"{found.connector}, {state}"
    yield ""
    rates = snapshot.rates(lambda sample: sample.rows.get(found.output, 0))
    now = snapshot.rate(lambda sample: sample.rows.get(found.output))
    yield f"rows in this run   {found.rows:,}  {rate_text(now)}"
    yield f"since state began  {snapshot.status.rows_in_all.get(found.output, found.rows):,}"
    if rates:
        yield f"rows/s, 10 min     {sparkline(rates, _CHART)} up to {rate_text(max(rates))}"
    yield f"last row           {found.last_row or 'none in this run'}"
    yield f"its timestamp      {instant_text(found.last_row_ticks)}"
    took = short_span_text(found.seconds)
    yield f"calls              {found.calls:,}, {found.failed_calls:,} failed, {took} in all"
    if found.conversion_errors:
        yield f"rows refused       {found.conversion_errors:,} since state began"
    if found.next_try:
        yield f"a batch waits      since {found.dead_since}, next try {found.next_try}"
    if found.last_error:
        yield f"last error         {found.last_error}"
    own = snapshot.diagnosis.of(found.output)
    yield ""
    for finding in own.findings:
        yield from finding_lines(finding)
    for row in own.next_rows:
        yield row.text


def finding_lines(finding: Finding) -> Iterator[str]:
    """A finding with its evidence and remedy."""
    yield f"{finding.severity}: {finding.text}"
    for each in finding.evidence:
        yield f"    {each}"
    if finding.remedy:
        yield f"  remedy: {finding.remedy}"


def _substream(snapshot: JobSnapshot, key: str) -> Detail | None:
    for each in snapshot.status.substreams:
        if f"{each.input}/{each.partition}/{each.reader}/{each.name}" == key:
            return Detail(
                f"substream {each.name}",
                (
                    f"partition          {each.partition} of input {each.input}, reader {each.reader}",
                    f"watermark          {instant_text(each.watermark_ticks)}",
                    f"newest event time  {instant_text(each.event_time_ticks)}",
                    "",
                    "It is one of the slowest 20 or the fastest 5 substreams of the job.",
                ),
            )
    return None


def _batch(snapshot: JobSnapshot, key: str) -> Detail | None:
    for each in snapshot.status.recent_batches:
        if str(each.batch) == key:
            rate = each.events / each.seconds if each.seconds else None
            return Detail(
                f"batch {each.batch}",
                (
                    f"began              {each.began}",
                    f"took               {each.seconds:.3f}s",
                    f"of that, commit    {each.commit_seconds:.3f}s",
                    f"events             {each.events:,}  {rate_text(rate)}",
                    f"rows               {each.rows:,}",
                ),
            )
    return None


def _error(snapshot: JobSnapshot, key: str) -> Detail | None:
    for each in snapshot.status.errors:
        if f"{each.input}/{each.partition}/{each.error_type}" == key:
            return Detail(
                each.error_type,
                (
                    f"partition          {each.partition} of input {each.input}",
                    f"events in this run {each.count:,}",
                    f"last               {each.last or UNKNOWN}",
                    "",
                    each.message,
                    "",
                    f"example            {each.example or 'none'}",
                ),
            )
    return None


_DETAILS: Mapping[str, Callable[[JobSnapshot, str], Detail | None]] = {
    "Steps": _step,
    "Inputs": _partition,
    "Outputs": _output,
    "Substreams": _substream,
    "Batches": _batch,
    "Errors": _error,
}


def head_lines(snapshot: JobSnapshot, width: int) -> list[str]:
    """What stands above the tables: state, delays, rates, what the run takes; three lines."""
    status = snapshot.status
    if snapshot.is_over:
        since = f"run {status.run} ended {status.updated}"
    else:
        since = f"run {status.run} since {status.since}, process {status.pid} on {status.host}"
    events = rate_text(snapshot.rate(lambda sample: sample.events))
    rows = rate_text(snapshot.rate(lambda sample: sum(sample.rows.values())))
    backlog = ", ".join(f"{name} {count_text(count)}" for name, count in status.backlog.items()) or UNKNOWN
    last = short_span_text(status.recent_batches[-1].seconds) if status.recent_batches else UNKNOWN
    memory = UNKNOWN if status.memory_bytes is None else size_text(status.memory_bytes)
    limit = "" if status.memory_limit_bytes is None else f" of {size_text(status.memory_limit_bytes)}"
    cpu = UNKNOWN if status.cpu_percent is None else f"{status.cpu_percent:.0f} %"
    delay = short_span_text(status.watermark_delay_seconds)
    lines = [
        f"{status.job}  {status.state}  {since}",
        f"delay {delay}  events {events}  rows {rows}  batch {last} ({status.batches:,})  backlog {backlog}",
        f"memory {memory}{limit}  CPU {cpu}",
    ]
    at = status.catching_up
    if at is not None:
        left = f", about {short_span_text(at.seconds_left)} left" if at.seconds_left is not None else ""
        lines[2] = f"catching up from {at.began_from}: {at.share:.0%}{left}"
    else:
        charts = _charts(snapshot, width - len(lines[2]) - 4)
        lines[2] += f"  {charts}" if charts else ""
    return [line[:width] for line in lines]


def _charts(snapshot: JobSnapshot, width: int) -> str:
    """The delay and the rate of the last ten minutes as bars, if there is room for them."""
    delays = [each.delay_seconds for each in snapshot.history if each.delay_seconds is not None]
    rates = snapshot.rates(lambda sample: sample.events)
    each = (width - len("delay   events/s ")) // 2
    if each < 5 or not (delays and rates):
        return ""
    return f"delay {sparkline(delays, each)}  events/s {sparkline(rates, each)}"


def why_lines(snapshot: JobSnapshot) -> list[str]:
    """The first finding, or when the next row is due; without its evidence."""
    found = snapshot.diagnosis
    if found.findings:
        first, more = found.findings[0], len(found.findings) - 1
        return [f"{first.severity}: {first.text}" + (f"  (and {more} more, press w)" if more else "")]
    if found.next_rows:
        return [f"healthy; {found.next_rows[0].text}"]
    return ["healthy"]
