"""Causes that hold a watermark: from the output to the partition, the rule and the policy that hold it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tideglass.core.time import TICKS_PER_DAY, TICKS_PER_SECOND
from tideglass.job.diagnosis.facts import JobFacts, wall_ticks
from tideglass.job.diagnosis.finding import Finding, Severity
from tideglass.job.diagnosis.input_causes import has_time_policies, total_decisions
from tideglass.job.diagnosis.step_graph import StepGraph, is_moment, known_ticks
from tideglass.job.diagnosis.words import (
    count_text,
    list_text,
    moment_text,
    share_text,
    span_text,
    ticks_text,
)
from tideglass.job.report.status import InputStatus

#: A partition is idle once it has sent nothing for so long while others have, and is as far after them.
IDLE_SECONDS = 60.0
#: A delay that an idle partition causes under a late tolerance: beyond this people should know.
LONG_DELAY_SECONDS = 900.0
#: How far substreams lie apart before one of them counts as stopped.
SUBSTREAM_SECONDS = 300.0
#: A clock that is further ahead is wrong (`asa.md` 1.4: the service drops what is 5 min early).
FUTURE_SECONDS = 300.0


def idle_partitions(facts: JobFacts) -> Iterator[Finding]:
    """Partitions that send nothing while others do, and hold the outputs that need all of them."""
    if facts.is_over or facts.status.catching_up is not None:
        return
    graph = StepGraph.of(facts.status.steps)
    idle_seconds = {id(each): facts.idle_seconds(each) for each in facts.status.inputs}
    for output in facts.outputs:
        if graph.steps and not graph.is_held_by_partitions(output):
            continue
        partitions = _feeding(facts, graph, output)
        sent = [each for each in partitions if each.events and each.last_event]
        if not sent:
            continue
        least_seconds = min(idle_seconds[id(each)] for each in sent)
        within_seconds = max(IDLE_SECONDS, least_seconds)
        active = [each for each in sent if idle_seconds[id(each)] <= within_seconds]
        newest_ticks = max(known_ticks(each.watermark_ticks) for each in active)
        idle = [
            each
            for each in partitions
            if each.events
            and is_moment(each.watermark_ticks)
            and idle_seconds[id(each)] - least_seconds >= IDLE_SECONDS
            and newest_ticks - known_ticks(each.watermark_ticks) >= IDLE_SECONDS * TICKS_PER_SECOND
        ]
        never = [
            each
            for each in partitions
            if not each.events and each.watermark_ticks is None and facts.run_seconds >= IDLE_SECONDS / 2
        ]
        if idle:
            yield _idle(facts, graph, output, idle, newest_ticks)
        if never:
            yield _never(facts, graph, output, never)


def _last_sent_ticks(partition: InputStatus, now_ticks: int) -> int:
    """When a partition last sent something: its newest arrival; of a recording, when it was read."""
    arrival_ticks = partition.last_arrival_ticks
    if arrival_ticks is not None and 0 <= now_ticks - arrival_ticks < TICKS_PER_DAY:
        return arrival_ticks
    return wall_ticks(partition.last_event) or now_ticks


def _idle(
    facts: JobFacts, graph: StepGraph, output: str, idle: Sequence[InputStatus], newest_ticks: int
) -> Finding:
    slowest = min(idle, key=lambda each: known_ticks(each.watermark_ticks))
    watermark_ticks = known_ticks(slowest.watermark_ticks)
    now_ticks = facts.now_ticks
    since = moment_text(_last_sent_ticks(slowest, now_ticks), now_ticks)
    late_ticks = None if facts.settings is None else facts.settings.late_ticks
    unlimited = late_ticks is None
    held_seconds = (newest_ticks - watermark_ticks) / TICKS_PER_SECOND
    severity = (
        Severity.PROBLEM
        if unlimited
        else Severity.WARNING
        if (late_ticks or 0) / TICKS_PER_SECOND > LONG_DELAY_SECONDS
        else Severity.WAITING
    )
    policy = (
        "late arrival is unlimited"
        if unlimited
        else f"idle time counts only after the late tolerance of {ticks_text(late_ticks or 0)}"
    )
    remedy = (
        "set a late tolerance (EventsLateArrivalMaxDelayInSeconds): an idle partition then holds the job "
        f"no longer than that; or make {_names(idle)} send"
        if unlimited
        else "nothing, unless the delay is too long: then lower the late tolerance, which is how long an "
        "idle partition holds the job"
    )
    return Finding(
        "IDLE_PARTITION",
        output,
        severity,
        f"output {output} {_quiet(facts, output)}: its watermark stands at "
        f"{moment_text(watermark_ticks, now_ticks)} because {_names(idle)} of input {slowest.input} "
        f"{_has(idle)} sent nothing since {since} and {policy}",
        (
            *_chain(facts, graph, output, slowest),
            f"the furthest partition is at {moment_text(newest_ticks, now_ticks)}, "
            f"{span_text(held_seconds)} ahead",
        ),
        remedy,
    )


def _never(facts: JobFacts, graph: StepGraph, output: str, never: Sequence[InputStatus]) -> Finding:
    first = never[0]
    return Finding(
        "PARTITION_WITHOUT_EVENTS",
        output,
        Severity.PROBLEM,
        f"output {output} {_quiet(facts, output)}: it has no watermark, because {_names(never)} of input "
        f"{first.input} {_has(never)} never had an event",
        _chain(facts, graph, output, first),
        "have every partition send at least one event, or set a late tolerance, or make the input of "
        "fewer partitions",
    )


def _chain(facts: JobFacts, graph: StepGraph, output: str, partition: InputStatus) -> tuple[str, ...]:
    """Output, step that holds, partition, rule: a line each."""
    lines: list[str] = []
    for writer in graph.writers(output)[:1]:
        holding = [each for each in graph.slowest_path(writer) if each.kind not in _PLAIN]
        names = [f"{each.step} ({each.kind})" for each in holding]
        lines.append(" ← ".join([f"output {output}", *dict.fromkeys(names), f"input {partition.input}"]))
        lines += [
            f"{each.step} ({each.kind}) holds {holder.kind}, the oldest of "
            f"{moment_text(holder.oldest_ticks, facts.now_ticks)} ({holder.place})"
            for each in holding
            for holder in [own for own in each.holders if own.component == "state"][:1]
            if is_moment(holder.oldest_ticks)
        ]
    line = f"partition {partition.partition} of {partition.input}: {count_text(partition.events, 'event')}"
    if is_moment(partition.event_time_ticks):
        line += f", newest of {moment_text(partition.event_time_ticks or 0, facts.now_ticks)}"
    if is_moment(partition.last_arrival_ticks):
        line += f", arrived {moment_text(partition.last_arrival_ticks or 0, facts.now_ticks)}"
    if partition.held_by is not None:
        line += f"; its watermark is set by {RULES.get(partition.held_by, partition.held_by)}"
    return (*lines, line)


#: Operators that hold nothing: the chain is of the others.
_PLAIN = frozenset(
    {"input", "projection", "filter", "partial aggregation", "send", "receive", "apply", "output"}
)

#: By the rule that set a watermark (`ingress.reports.HeldBy`, which loads Arrow): what it is in words.
RULES = {
    "event time": "the newest event less the out-of-order tolerance",
    "arrival time": "arrival time less the late tolerance",
    "percentile": "the percentile of the events in flight",
    "end of input": "the end of the input",
}


def _feeding(facts: JobFacts, graph: StepGraph, output: str) -> tuple[InputStatus, ...]:
    """The partitions whose watermarks the output waits for, without those that have ended."""
    inputs = graph.inputs(output)
    named = {each.casefold() for each in inputs} & {each.input.casefold() for each in facts.status.inputs}
    return tuple(
        each
        for each in facts.status.inputs
        if each.watermark != "end of input" and (not named or each.input.casefold() in named)
    )


def _names(partitions: Sequence[InputStatus]) -> str:
    names = list(dict.fromkeys(each.partition for each in partitions))
    return f"partition{'' if len(names) == 1 else 's'} {list_text(names)}"


def _has(partitions: Sequence[InputStatus]) -> str:
    return "has" if len({each.partition for each in partitions}) == 1 else "have"


def _quiet(facts: JobFacts, output: str) -> str:
    """How long the output has had no row, as a predicate."""
    last = next((wall_ticks(each.last_row) for each in facts.status.outputs if each.output == output), None)
    if last is not None:
        return f"has been silent for {span_text((facts.now_ticks - last) / TICKS_PER_SECOND)}"
    if facts.rows_of(output):
        return f"has been silent since the run began {span_text(facts.run_seconds)} ago"
    return "has had no row yet"


def stopped_substreams(facts: JobFacts) -> Iterator[Finding]:
    """A substream far before the others: only what has its key waits for it."""
    if facts.is_over or not facts.status.substreams:
        return
    by_reader: dict[tuple[str, int], list[int]] = {}
    substreams = [each for each in facts.status.substreams if is_moment(each.watermark_ticks)]
    for each in substreams:
        by_reader.setdefault((each.input, each.reader), []).append(each.watermark_ticks)
    late_ticks = None if facts.settings is None else facts.settings.late_ticks
    for (name, reader), watermarks in by_reader.items():
        newest_ticks = max(watermarks)
        slow = [
            each
            for each in substreams
            if (each.input, each.reader) == (name, reader)
            and newest_ticks - each.watermark_ticks >= SUBSTREAM_SECONDS * TICKS_PER_SECOND
        ]
        if not slow:
            continue
        slow.sort(key=lambda each: each.watermark_ticks)
        first, now_ticks = slow[0], facts.now_ticks
        names = list(dict.fromkeys(each.name for each in slow))
        which = f"substream{'' if len(names) == 1 else 's'} {list_text(names)}"
        until = (
            "late arrival is unlimited, so they stay open until it sends again"
            if late_ticks is None
            else f"they close once the arrivals of the partition are {ticks_text(late_ticks)} (the late "
            "tolerance) past them"
        )
        yield Finding(
            "SUBSTREAM_STOPPED",
            None,
            Severity.WARNING if late_ticks is None else Severity.WAITING,
            f"{which} of input {name} {'has' if len(names) == 1 else 'have'} sent nothing after "
            f"{moment_text(first.event_time_ticks, now_ticks)}: only the rows of "
            f"{'its' if len(names) == 1 else 'their'} own windows wait, and {until}",
            (
                f"{first.name} (partition {first.partition}): watermark "
                f"{moment_text(first.watermark_ticks, now_ticks)}, the furthest substream "
                f"{moment_text(newest_ticks, now_ticks)}, "
                f"{ticks_text(newest_ticks - first.watermark_ticks)} ahead",
                *([f"{len(names)} or more are as far back"] if len(names) >= 20 else []),
            ),
            "if the sender is gone for good, set a late tolerance as large as substreams may lie apart"
            if late_ticks is None
            else "",
        )


def no_arrival_times(facts: JobFacts) -> Iterator[Finding]:
    """Local files without times of arrival: no tolerance holds for them; only their end moves a watermark."""
    waits = not facts.is_over and facts.settings is not None and not has_time_policies(facts)
    if not waits or not any(each.events and each.watermark_ticks is None for each in facts.status.inputs):
        return
    for output in [each for each in facts.outputs if not facts.status.rows.get(each)]:
        names = [name for name in facts.streams if any(each.events for each in facts.partitions(name))]
        yield Finding(
            "NO_ARRIVAL_TIMES",
            output,
            Severity.PROBLEM,
            f"output {output} has had no row yet: {list_text(names)} {'is' if len(names) == 1 else 'are'} "
            "read from local files without times of arrival, to which no tolerance applies, so the "
            "watermark moves only when the input ends",
            tuple(
                f"partition {each.partition} of {each.input}: {count_text(each.events, 'event')}, "
                "no watermark"
                for each in facts.status.inputs[:3]
            ),
            "run with --once, so that the input ends; or name the field with the times of arrival: "
            f"--input {names[0]}=PATH,arrival=FIELD, or ArrivalTimeField in the project",
        )


def future_events(facts: JobFacts) -> Iterator[Finding]:
    """An event or an arrival far in the future has moved the watermark past those to come."""
    if not has_time_policies(facts):
        return
    limit_ticks = round(FUTURE_SECONDS * TICKS_PER_SECOND)
    settings = facts.settings
    for each in facts.status.inputs:
        if not is_moment(each.watermark_ticks) and not is_moment(each.last_arrival_ticks):
            continue
        decisions = total_decisions((each,))
        raised, now_ticks = decisions.get("arrivals_raised", 0), facts.now_ticks
        arrival_ticks, event_ticks = known_ticks(each.last_arrival_ticks), known_ticks(each.event_time_ticks)
        ahead_ticks = arrival_ticks - now_ticks
        adjusted = sum(decisions.get(name, 0) for name in _MOVED)
        if ahead_ticks > limit_ticks or (raised and raised >= 0.5 * max(1, each.events - 1)):
            clock = f", {ticks_text(ahead_ticks)} ahead of the clock" if ahead_ticks > limit_ticks else ""
            yield Finding(
                "FUTURE_EVENT",
                None,
                Severity.PROBLEM,
                f"partition {each.partition} of input {each.input} has an event that arrived at "
                f"{moment_text(arrival_ticks, now_ticks)}{clock}: its watermark has gone on to "
                f"{_watermark_words(each, now_ticks)}, and every later event counts as late",
                (
                    f"newest event time {moment_text(event_ticks, now_ticks)}",
                    f"{raised:,} of {count_text(each.events, 'event')} arrived before it and have its "
                    f"arrival time; {adjusted:,} were moved in time or dropped",
                ),
                "correct the clock that stamps arrivals (a topic's CreateTime is the sender's: use "
                "LogAppendTime), then start anew at a time with --start TIME: a watermark never goes back",
            )
        elif (
            settings is not None
            and event_ticks - arrival_ticks > min(limit_ticks, settings.early_ticks or limit_ticks) // 5
            and decisions.get("adjusted_out_of_order", 0) + decisions.get("dropped_out_of_order", 0)
            >= 0.5 * max(1, each.events)
        ):
            moved = decisions.get("adjusted_out_of_order", 0) + decisions.get("dropped_out_of_order", 0)
            yield Finding(
                "CLOCK_AHEAD",
                None,
                Severity.WARNING,
                f"an event of partition {each.partition} of input {each.input} is "
                f"{ticks_text(event_ticks - arrival_ticks)} ahead of its arrival and moves the watermark "
                f"there, so {share_text(moved, each.events)} of the events are out of order",
                (
                    f"newest event time {moment_text(event_ticks, now_ticks)}, newest arrival "
                    f"{moment_text(arrival_ticks, now_ticks)}",
                    f"out of order: {moved:,} of {count_text(each.events, 'event')}",
                ),
                "correct that sender's clock, raise the out-of-order tolerance, or give every sender its "
                "own substream (TIMESTAMP BY … OVER)",
            )


def _watermark_words(partition: InputStatus, now_ticks: int) -> str:
    watermark_ticks = partition.watermark_ticks
    return (
        moment_text(watermark_ticks, now_ticks)
        if watermark_ticks is not None and is_moment(watermark_ticks)
        else "none"
    )


_MOVED = ("adjusted_late", "adjusted_out_of_order", "adjusted_both", "dropped_late", "dropped_out_of_order")
