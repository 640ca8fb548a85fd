"""Causes that lie in the input: nothing arrives, nothing can be read, or the time policies drop all of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tideglass.core.events import POLICY_ERRORS
from tideglass.job.diagnosis.facts import JobFacts, wall_ticks
from tideglass.job.diagnosis.finding import Finding, Severity
from tideglass.job.diagnosis.words import count_text, moment_text, share_text, span_text, ticks_text
from tideglass.job.report.status import InputStatus, JobState

#: An input that has sent nothing since the run began is asked about after so long.
NO_INPUT_SECONDS = 30.0
#: An input all of whose partitions are idle: after so long people should know of it.
IDLE_INPUT_SECONDS = 900.0
#: From this share of refused or dropped events on something is wrong with all of them.
LARGE_SHARE = 0.5


def no_input(facts: JobFacts) -> Iterator[Finding]:
    """An input has had no event at all."""
    status = facts.status
    running = not facts.is_over and status.state is not JobState.STARTING
    finished = facts.is_over and not (facts.last_run is None or facts.last_run.end is None)
    if not (running or finished) or (status.catching_up is not None and status.events):
        return
    for name in facts.streams:
        if any(each.events for each in facts.partitions(name)):
            continue
        waited = facts.run_seconds
        if running and waited < NO_INPUT_SECONDS and not status.backlog.get(name):
            severity = Severity.WAITING
        else:
            severity = Severity.PROBLEM if running else Severity.WARNING
        place = facts.sources.get(name, "")
        backlog = status.backlog.get(name)
        there = "" if backlog is None else f"there and not read: {backlog:,} (messages or bytes)"
        yield Finding(
            "NO_INPUT",
            None,
            severity,
            f"input {name} has sent no event"
            + (f" since the run began {span_text(waited)} ago" if running else " in all the job has read")
            + (", so what needs it waits" if any(status.rows.values()) else ", so nothing is written"),
            tuple(each for each in (f"it is read from {place}" if place else "", there) if each),
            "check that something is sent there, and that the project (or --input) names that place; a "
            "topic is read from its newest message on unless the start says otherwise",
        )


def idle_input(facts: JobFacts) -> Iterator[Finding]:
    """All partitions of an input have stopped sending."""
    if facts.is_over or facts.settings is None or facts.status.catching_up is not None:
        return
    late_ticks = facts.settings.late_ticks
    for name in facts.streams:
        partitions = [each for each in facts.partitions(name) if each.watermark != "end of input"]
        if not partitions or not all(each.events and each.last_event for each in partitions):
            continue
        idle_seconds = min(facts.idle_seconds(each) for each in partitions)
        held = late_ticks is None and all(each.held_by == "event time" for each in partitions)
        if idle_seconds < (IDLE_INPUT_SECONDS if not held else IDLE_INPUT_SECONDS / 3):
            continue
        newest_ticks = max(wall_ticks(each.last_event) or 0 for each in partitions)
        consequence = (
            "late arrival is unlimited, so its watermark stands and open windows wait for the next event"
            if held
            else "its watermark follows the clock, so windows close, but there is nothing in them"
        )
        yield Finding(
            "INPUT_STOPPED",
            None,
            Severity.PROBLEM if held else Severity.WARNING,
            f"input {name} has sent nothing since {moment_text(newest_ticks, facts.now_ticks)}, "
            f"{span_text(idle_seconds)} ago: {consequence}",
            (f"{count_text(sum(each.events for each in partitions), 'event')} before that",),
            "find out why nothing is sent"
            + ("; a late tolerance lets the last windows close" if held else ""),
        )


def has_time_policies(facts: JobFacts) -> bool:
    """Whether events are placed by TIMESTAMP BY under tolerances: local files without arrivals are not."""
    return facts.settings is not None and facts.settings.early_ticks is not None


def dropped(facts: JobFacts) -> Iterator[Finding]:
    """The time policies drop events: all of them, most, or all of one kind."""
    for name in facts.streams:
        for reader, partitions in _by_reader(facts.partitions(name)).items():
            decisions = total_decisions(partitions)
            rejected = _read_and_refused(partitions)[1]
            kept = sum(decisions.get(each, 0) for each in KEPT)
            percentile_only = decisions.get("beyond_percentile", 0)
            for decision, words, remedy in _DROPS:
                count = decisions.get(decision, 0)
                lost = sum(decisions.get(each[0], 0) for each in _DROPS)
                if decision == "dropped_late" and 2 * percentile_only > count:
                    words, remedy = _LATE_BY_PERCENTILE
                whole = kept + lost
                if not count or count < LARGE_SHARE * whole:
                    continue
                all_of = "all" if count == whole else share_text(count, whole)
                yield Finding(
                    CAUSE_OF[decision],
                    None,
                    Severity.PROBLEM if kept == 0 else Severity.WARNING,
                    f"{all_of} of the {count_text(whole, 'event')} of input {name} {_were(whole)} dropped, "
                    f"since {words}",
                    (
                        f"dropped so: {count:,}; kept: {kept:,}; refused by the deserializer: {rejected:,}"
                        + (f" (reader {reader})" if reader else ""),
                        *_times(partitions, facts),
                    ),
                    remedy,
                )


def total_decisions(partitions: tuple[InputStatus, ...]) -> Mapping[str, int]:
    """Events by decision of several partitions."""
    result: dict[str, int] = {}
    for each in partitions:
        for decision, count in each.decisions.items():
            result[decision] = result.get(decision, 0) + count
    return result


def refused(facts: JobFacts) -> Iterator[Finding]:
    """Events that the deserializer refuses."""
    for name in facts.streams:
        partitions = facts.partitions(name)
        read, count = _read_and_refused(partitions)
        if not count:
            continue
        found = [
            each
            for each in facts.status.errors
            if each.input == name and each.error_type not in POLICY_ERRORS
        ]
        newest = found[-1] if found else None
        recent = facts.status.state is JobState.DEGRADED
        large = count >= LARGE_SHARE * read
        severity = (
            Severity.PROBLEM if count >= read else Severity.WARNING if recent or large else Severity.WAITING
        )
        reason = newest.message if newest else (facts.status.error or "the reason is in the run's log")
        examples = () if newest is None or newest.example is None else (f"for example: {newest.example}",)
        last = () if newest is None or not newest.last else (f"the newest at {newest.last}",)
        which = "all" if count >= read else f"{count:,}"
        yield Finding(
            "DESERIALIZATION_ERRORS",
            None,
            severity,
            f"{which} of the {count_text(read, 'event')} of input {name} cannot be read: {reason}",
            (f"refused: {count:,} of {read:,} ({share_text(count, read)})", *last, *examples),
            "mend what the sender writes, or name the right format, delimiter or types of the input; what "
            "is refused is counted and left out",
        )


#: Why events that the late tolerance allows are dropped as late, and what helps.
_LATE_BY_PERCENTILE = (
    "they are earlier than the watermark, which the settings put at a percentile, and the policy is Drop",
    "raise the percentage in Watermarks of JobConfig.json, remove it there, or choose the policy Adjust",
)


def _by_reader(partitions: tuple[InputStatus, ...]) -> Mapping[int, tuple[InputStatus, ...]]:
    numbers = dict.fromkeys(each.reader for each in partitions)
    return {number: tuple(each for each in partitions if each.reader == number) for number in numbers}


def _read_and_refused(partitions: tuple[InputStatus, ...]) -> tuple[int, int]:
    """Events of the input, and those of them that no reader got; every reader of a partition counts both."""
    found: dict[str, tuple[int, int]] = {}
    for each in partitions:
        placed = sum(count for name, count in each.decisions.items() if name in KEPT or name in CAUSE_OF)
        found[each.partition] = (each.events, each.events - placed)
    return sum(read for read, _ in found.values()), sum(count for _, count in found.values())


def _times(partitions: tuple[InputStatus, ...], facts: JobFacts) -> Iterator[str]:
    arrivals = [each.last_arrival_ticks for each in partitions if each.last_arrival_ticks is not None]
    if arrivals:
        yield f"newest arrival: {moment_text(max(arrivals), facts.now_ticks)}"
    settings = facts.settings
    if settings is not None and settings.early_ticks is not None:
        late = "unlimited" if settings.late_ticks is None else ticks_text(settings.late_ticks)
        action = "dropped" if settings.drops else "adjusted"
        yield (
            f"early limit {ticks_text(settings.early_ticks)}, late tolerance {late}, out-of-order "
            f"tolerance {ticks_text(settings.out_of_order_ticks)}; an event beyond the first is dropped, "
            f"one beyond the others {action}"
        )


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


KEPT = ("accepted", "adjusted_late", "adjusted_out_of_order", "adjusted_both")
CAUSE_OF = {
    "dropped_early": "ALL_EARLY",
    "dropped_late": "ALL_LATE",
    "dropped_out_of_order": "ALL_OUT_OF_ORDER",
    "dropped_bad_timestamp": "NO_TIMESTAMP",
    "dropped_null_key": "NULL_KEY",
}
#: Decisions that drop an event (`ingress.decisions.Counters`), why, and what helps.
_DROPS = (
    (
        "dropped_early",
        "their time is further ahead of their arrival than the early limit",
        "correct the clocks of the senders, or the time zone or unit in TIMESTAMP BY (seconds taken for "
        "milliseconds?)",
    ),
    (
        "dropped_late",
        "they arrive later than the late tolerance and the policy is Drop",
        "raise the late tolerance (at most 20 d 23:59:59), or choose the policy Adjust; check the time "
        "zone of TIMESTAMP BY",
    ),
    (
        "dropped_out_of_order",
        "they are older than the watermark and the policy is Drop",
        "raise the out-of-order tolerance, choose the policy Adjust, or give senders with other clocks a "
        "substream (OVER)",
    ),
    (
        "dropped_bad_timestamp",
        "TIMESTAMP BY is NULL or no datetime for them",
        "check the field's name and form in TIMESTAMP BY; it must be a datetime or ISO 8601 text in every "
        "event",
    ),
    (
        "dropped_null_key",
        "a key of TIMESTAMP BY … OVER is NULL in them",
        "check the field's name in OVER; every event needs a value there",
    ),
)
