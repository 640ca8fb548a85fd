"""Causes in the work: a sink, too little speed, skew between key groups, memory, a batch that is stuck."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tideglass.core.time import TICKS_PER_MILLISECOND, TICKS_PER_SECOND
from tideglass.job.diagnosis.facts import JobFacts, wall_ticks
from tideglass.job.diagnosis.finding import Finding, Severity
from tideglass.job.diagnosis.run_causes import MEMORY_REMEDY
from tideglass.job.diagnosis.words import count_text, share_text, size_text, span_text
from tideglass.job.report.history import HistorySample
from tideglass.job.report.status import BatchStatus, OutputStatus, RangeStatus

#: From this share of a batch on the commit, which writes the outputs, is what takes the time.
SINK_SHARE = 0.5
#: Batches faster than this are no trouble, whatever takes their time.
SLOW_BATCH_SECONDS = 2.0
#: The least span from which a rate is taken, and the least lag that counts.
RATE_SECONDS = 20.0
LAG_SECONDS = 20.0
#: A job that works for so much of the time is busy; one that gets that much further in its input keeps up.
BUSY_SHARE, KEEPS_UP_SHARE = 0.8, 0.95
_MS = TICKS_PER_MILLISECOND
#: A key group with so many times the mean of its stage is skewed, if it has so many rows.
SKEW = 4.0
SKEW_ROWS = 10_000
MEMORY_SHARE, FULL_SHARE = 0.8, 0.95
#: A batch that lasts so many times the longest of the last ones, and at least so long, is stuck.
STUCK_TIMES = 10.0
STUCK_SECONDS = 120.0


def failing_sinks(facts: JobFacts) -> Iterator[Finding]:
    """An output whose last call failed, or whose calls take most of the time."""
    for each in facts.status.outputs:
        if each.alive is False and not facts.is_over:
            yield Finding(
                "SINK_FAILS",
                each.output,
                Severity.PROBLEM,
                f"output {each.output} ({each.connector}) cannot be written: "
                f"{each.last_error or 'its last call failed'}",
                tuple(_evidence(each)),
                "make the output writable; the batch is written again, and no row is lost",
            )
    batches = _last(facts.status.recent_batches)
    seconds, of_commits = sum(b.seconds for b in batches), sum(b.commit_seconds for b in batches)
    if facts.is_over or not batches or seconds / len(batches) < SLOW_BATCH_SECONDS:
        return
    if of_commits >= SINK_SHARE * seconds:
        slowest = max(facts.status.outputs, key=lambda each: each.seconds, default=None)
        yield Finding(
            "SINK_SLOW",
            None if slowest is None else slowest.output,
            Severity.WARNING,
            ("writing" if slowest is None else f"writing output {slowest.output} ({slowest.connector})")
            + f" takes {share_text(of_commits, seconds)} of a batch of "
            f"{span_text(seconds / len(batches))}: the sink is slow",
            tuple(
                f"{each.output}: {count_text(each.calls, 'call')}, {span_text(each.seconds)} in all"
                for each in facts.status.outputs
            ),
            "look at the sink and the way to it (disk, network, broker); fewer and larger batches "
            "(--batch-mb) make fewer calls",
        )


def _evidence(output: OutputStatus) -> Iterator[str]:
    yield f"{count_text(output.failed_calls, 'call')} of {output.calls:,} failed"
    if output.next_try is not None:
        yield f"a batch waits for it since {output.dead_since}; it is tried next at {output.next_try}"
    if output.conversion_errors:
        yield f"{count_text(output.conversion_errors, 'row')} refused"


def _last(batches: Sequence[BatchStatus], most: int = 10) -> Sequence[BatchStatus]:
    """The newest batches without the first of the run, in which everything starts."""
    return batches[1:][-most:]


def growing_backlog(facts: JobFacts) -> Iterator[Finding]:
    """Events arrive faster than the job reads them: it is busy, and what it reads is older and older."""
    if facts.is_over or facts.status.catching_up is not None:
        return
    samples = [each for each in facts.history if each.run == facts.status.run]
    batches = _last(facts.status.recent_batches, len(facts.status.recent_batches))
    for name in facts.streams:
        points = [
            (sample, max(arrivals))
            for sample in samples
            if (arrivals := [each.last_arrival_ticks or 0 for each in sample.inputs if each.input == name])
        ]
        points = [(sample, ticks) for sample, ticks in points if ticks]
        if len(points) < 3 or not batches:
            continue
        (first, first_ticks), (last, last_ticks) = points[0], points[-1]
        seconds = (last.at_ms - first.at_ms) / 1000
        in_span = [each for each in batches if _overlap_seconds(each, first, last) > 0]
        busy_seconds = sum(_overlap_seconds(each, first, last) for each in in_span)
        if seconds < RATE_SECONDS or busy_seconds < BUSY_SHARE * seconds:
            continue
        reached = (last_ticks - first_ticks) / TICKS_PER_SECOND / seconds
        lag_seconds = (last.at_ms * _MS - last_ticks) / TICKS_PER_SECOND
        if reached >= KEEPS_UP_SHARE or lag_seconds < LAG_SECONDS:
            continue
        yield _falling_back(name, reached, lag_seconds, in_span, _backlog_line(name, samples))


def _overlap_seconds(batch: BatchStatus, first: HistorySample, last: HistorySample) -> float:
    """How much of a batch lies between two samples."""
    began_seconds = (wall_ticks(batch.began) or 0) / TICKS_PER_SECOND
    until_seconds = min(began_seconds + batch.seconds, last.at_ms / 1000)
    return max(0.0, until_seconds - max(began_seconds, first.at_ms / 1000))


def _falling_back(
    name: str, reached: float, lag_seconds: float, batches: Sequence[BatchStatus], backlog: str
) -> Finding:
    """reached: how much of a second of arrivals the job reads in a second. batches: those of the span."""
    busy_seconds, events = sum(each.seconds for each in batches), sum(each.events for each in batches)
    forecast = span_text(lag_seconds + 3600 * (1 - reached))
    return Finding(
        "FALLING_BACK",
        None,
        Severity.PROBLEM,
        f"the job reads input {name} more slowly than it arrives: it is {span_text(lag_seconds)} late and "
        f"loses {span_text(60 * (1 - reached))} a minute, so in an hour it will be {forecast} late",
        (
            f"it reads {events / busy_seconds:,.0f} events/s, {max(0.0, reached):.0%} of what arrives",
            f"batches take {span_text(busy_seconds / len(batches))} and have "
            f"{count_text(events // len(batches), 'event')}",
            *([backlog] if backlog else []),
        ),
        "give the run more cores (--cores), or the input more partitions; `tideglass run --profile` shows "
        "where the time of a batch goes",
    )


def _backlog_line(name: str, samples: Sequence[HistorySample]) -> str:
    known = [(each.at_ms, each.backlog[name]) for each in samples if name in each.backlog]
    if len(known) < 2:
        return ""
    (first_ms, before), (last_ms, now) = known[0], known[-1]
    span = span_text((last_ms - first_ms) / 1000)
    return f"there and not read (messages or bytes): {before:,} → {now:,} in {span}"


def skewed_key_groups(facts: JobFacts) -> Iterator[Finding]:
    """One key group has most of the rows of its stage, so one core does the work of all."""
    levels: dict[int, list[RangeStatus]] = {}
    for each in facts.status.ranges:
        levels.setdefault(each.level, []).append(each)
    batches = _last(facts.status.recent_batches)
    slow = bool(batches) and sum(b.seconds for b in batches) / len(batches) >= SLOW_BATCH_SECONDS
    for level, ranges in levels.items():
        whole = sum(each.rows_in for each in ranges)
        largest = max(ranges, key=lambda each: each.rows_in)
        active = sum(1 for each in ranges if each.rows_in)
        mean = whole / len(ranges)
        if len(ranges) < 2 or active < 2 or largest.rows_in < SKEW_ROWS:
            continue
        if largest.rows_in < min(SKEW, 0.9 * len(ranges)) * mean:
            continue
        yield Finding(
            "KEY_GROUP_SKEWED",
            None,
            Severity.WARNING if slow and not facts.is_over else Severity.WAITING,
            f"key group {largest.key_group} of stage {level} has {share_text(largest.rows_in, whole)} of "
            "the rows: one key is far more frequent than the others, and one core works on it",
            (
                f"{largest.rows_in:,} of {whole:,} rows; the mean of {len(ranges)} key groups is {mean:,.0f}",
                *(
                    [f"batches of {span_text(sum(b.seconds for b in batches) / len(batches))}"]
                    if batches
                    else []
                ),
            ),
            "group by one more column and add up in a second step, or filter the frequent key (often NULL "
            "or a default) before the GROUP BY"
            if slow
            else "nothing while batches are fast",
        )


def memory(facts: JobFacts) -> Iterator[Finding]:
    """The processes of the run take most of what they may."""
    used, limit = facts.status.memory_bytes, facts.status.memory_limit_bytes
    if facts.is_over or used is None or not limit or used < MEMORY_SHARE * limit:
        return
    held = sorted(
        ((holder.rows or 0, step, holder) for step in facts.status.steps for holder in step.holders),
        key=lambda each: -each[0],
    )
    yield Finding(
        "MEMORY_FULL",
        None,
        Severity.PROBLEM if used >= FULL_SHARE * limit else Severity.WARNING,
        f"the run takes {size_text(used)} of memory, {share_text(used, limit)} of the {size_text(limit)} "
        "it may have",
        tuple(
            f"{step.step} ({step.kind}) holds {count_text(rows, 'row')}: {holder.kind}"
            for rows, step, holder in held[:3]
            if rows
        ),
        MEMORY_REMEDY,
    )


def stuck_batch(facts: JobFacts) -> Iterator[Finding]:
    """The batch under way lasts far longer than any before: an operation hangs or is repeated."""
    began_ticks = wall_ticks(facts.status.batch_began)
    if facts.is_over or began_ticks is None:
        return
    if any(each.next_try is not None for each in facts.status.outputs):
        return  # it waits for an output, which `failing_sinks` says
    seconds = (facts.now_ticks - began_ticks) / TICKS_PER_SECOND
    longest = max((each.seconds for each in facts.status.recent_batches), default=0.0)
    if seconds >= STUCK_SECONDS and seconds >= STUCK_TIMES * longest:
        yield Finding(
            "BATCH_STUCK",
            None,
            Severity.WARNING,
            f"a batch has been under way for {span_text(seconds)}; the longest before took "
            f"{span_text(longest)}",
            (f"it began at {facts.status.batch_began}",),
            "look at spark.log in the job directory: a network, a broker or a disk that does not answer, "
            "or a batch far larger than the others (--batch-mb)",
        )
