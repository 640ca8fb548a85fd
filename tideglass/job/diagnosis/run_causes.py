"""Causes in the run itself: it never was, ended, hangs, starts, catches up, or emits from later on."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tideglass.core.time import TICKS_PER_SECOND
from tideglass.job.diagnosis.facts import JobFacts, wall_ticks
from tideglass.job.diagnosis.finding import Finding, Severity
from tideglass.job.diagnosis.step_graph import StepGraph, is_moment
from tideglass.job.diagnosis.words import count_text, moment_text, size_text, span_text
from tideglass.job.report.run_journal import Ended
from tideglass.job.report.status import JobState

#: A run writes its status every two seconds; so many without one are no delay any more.
QUIET_SECONDS = 60.0
#: From the start of a run to its first batch: Spark needs some ten seconds.
START_SECONDS = 120.0
#: A run whose memory was that full when it was killed has most likely been killed for it.
FULL_SHARE = 0.9

_OUTPUT = re.compile(r"the output '([^']+)'")
_CODE = re.compile(r"\[([A-Z][A-Z0-9_]+)\]")
_REFERENCE_CODES = ("NO_SNAPSHOT", "REFERENCE_NOT_FOUND")
_MEMORY_WORDS = re.compile(
    r"OutOfMemory|Java heap space|GC overhead|MemoryError|out of memory|exit code 137", re.I
)
_SINK_WORDS = re.compile(
    r"the output '|OutputError|cannot be written to|KAFKA_STORAGE|TopicAuthorization", re.I
)
MEMORY_REMEDY = (
    "give the run more memory (TIDEGLASS_DRIVER_MEMORY, TIDEGLASS_MEMORY), take smaller batches "
    "(--batch-mb), or keep less: shorter windows, a smaller late tolerance, fewer grouping keys"
)


def failed(facts: JobFacts) -> Iterator[Finding]:
    """The run ended by an error: what it says, by its kind where that names a cause of its own."""
    run, status = facts.last_run, facts.status
    if (
        status.state is not JobState.FAILED
        or run is None
        or run.end is None
        or run.end.how is not Ended.FAILED
    ):
        return
    error = run.end.error or status.error or "no error was written down"
    first = next((line.strip() for line in error.splitlines() if line.strip()), error)
    hint = next((line.strip() for line in error.splitlines() if line.strip().startswith("hint:")), "")
    code = _CODE.search(error)
    cause, remedy = (
        "RUN_FAILED",
        "mend what the error names, then `tideglass start` goes on from the last whole batch",
    )
    if code is not None and code[1] in _REFERENCE_CODES:
        cause, remedy = (
            "REFERENCE_MISSING",
            "provide a snapshot of the reference data that holds from the time of the oldest event on",
        )
    elif _MEMORY_WORDS.search(error):
        cause, remedy = "OUT_OF_MEMORY", MEMORY_REMEDY
    elif _SINK_WORDS.search(error):
        cause, remedy = (
            "SINK_FAILS",
            "make the output writable, then `tideglass start` goes on from the last whole batch",
        )
    yield Finding(
        cause,
        _named_output(error),
        Severity.PROBLEM,
        f"run {status.run} failed at {_wall(run.end.ended, facts)}, so nothing is written any more: {first}",
        (
            f"done before: {count_text(run.end.batches, 'batch').replace('batchs', 'batches')}, "
            f"{count_text(run.end.events, 'event')}, {count_text(sum(run.end.rows.values()), 'row')}",
            *([hint] if hint else []),
        ),
        remedy,
    )


def _named_output(error: str) -> str | None:
    """The output an error is about."""
    found = _OUTPUT.search(error)
    return None if found is None else found[1]


def killed(facts: JobFacts) -> Iterator[Finding]:
    """The process is gone and has written no end."""
    status, run = facts.status, facts.last_run
    without_end = run is None or run.end is None or run.end.how is Ended.KILLED
    if status.state is not JobState.FAILED or not without_end:
        return
    used, limit = status.memory_bytes, status.memory_limit_bytes
    evidence = [f"its last report is of {status.updated}, process {status.pid} on {status.host}"]
    full = used is not None and limit is not None and used >= FULL_SHARE * limit
    if used is not None:
        evidence.append(f"its memory then: {size_text(used)}" + (f" of {size_text(limit)}" if limit else ""))
    yield Finding(
        "OUT_OF_MEMORY" if full else "RUN_KILLED",
        None,
        Severity.PROBLEM,
        f"run {status.run} was killed: its process ended without a word after {_wall(status.updated, facts)}"
        + (", with its memory full" if full else ""),
        tuple(evidence),
        MEMORY_REMEDY
        if full
        else "`tideglass start` goes on from the last whole batch; the system's log may say who killed it",
    )


def stopped(facts: JobFacts) -> Iterator[Finding]:
    """The run ended because somebody asked for it."""
    status, run = facts.status, facts.last_run
    if status.state is not JobState.STOPPED or run is None or run.end is None:
        return
    how = run.end.how
    if how not in (Ended.STOPPED, Ended.BROKEN_OFF):
        return
    within = " within a batch" if how is Ended.BROKEN_OFF else " after a whole batch"
    yield Finding(
        "RUN_STOPPED",
        None,
        Severity.WARNING,
        f"run {status.run} was stopped at {_wall(run.end.ended, facts)},{within}, as asked: nothing runs now",
        (f"done: {count_text(run.end.events, 'event')}, {count_text(sum(run.end.rows.values()), 'row')}",),
        "`tideglass start` goes on where it stopped",
    )


def not_reporting(facts: JobFacts) -> Iterator[Finding]:
    """The process is there and writes no status: it hangs, or its machine does."""
    updated_ticks = wall_ticks(facts.status.updated)
    if facts.is_over or not facts.alive or updated_ticks is None:
        return
    seconds = (facts.now_ticks - updated_ticks) / TICKS_PER_SECOND
    if seconds >= QUIET_SECONDS:
        yield Finding(
            "RUN_HANGS",
            None,
            Severity.PROBLEM,
            f"the run holds its lock and has not reported for {span_text(seconds)}: it hangs, or its "
            "machine does",
            (f"process {facts.status.pid} on {facts.status.host}, last report {facts.status.updated}",),
            "look at spark.log in the job directory; `tideglass stop --now` ends the run, `tideglass "
            "start` goes on from the last whole batch",
        )


def starting(facts: JobFacts) -> Iterator[Finding]:
    """No batch is done yet."""
    if facts.status.state is not JobState.STARTING:
        return
    seconds = facts.run_seconds
    slow = seconds >= START_SECONDS
    yield Finding(
        "STARTING",
        None,
        Severity.WARNING if slow else Severity.WAITING,
        f"run {facts.status.run} has been starting for {span_text(seconds)}; no batch is done yet",
        (f"since {facts.status.since}",),
        "look at spark.log in the job directory: Spark, a broker or a large first batch takes the time"
        if slow
        else "",
    )


def catching_up(facts: JobFacts) -> Iterator[Finding]:
    """What the inputs held at the start is being read; of what is read again no row is emitted."""
    at = facts.status.catching_up
    if at is None or facts.is_over:
        return
    again = (
        "; rows an earlier run has emitted are not emitted again"
        if facts.status.mode == "last-stopped"
        else ""
    )
    left = "" if at.seconds_left is None else f", about {span_text(at.seconds_left)} left"
    read = count_text(at.events, "event")
    of = "" if at.events_expected is None else f" of about {at.events_expected:,}"
    rate = "" if at.events_per_second is None else f"{at.events_per_second:,.0f} events/s since the start"
    for output in [each for each in facts.outputs if not facts.status.rows.get(each)] or [None]:
        if output is None and at.seconds < START_SECONDS:
            return  # rows are there already, and it is young: nothing to ask about
        yield Finding(
            "CATCHING_UP",
            output,
            Severity.WAITING,
            ("the job" if output is None else f"output {output} waits: the job")
            + f" is catching up from {at.began_from}, {at.share:.0%} is read{left}{again}",
            tuple(each for each in (f"{read}{of} read in {span_text(at.seconds)}", rate) if each),
        )


def emits_later(facts: JobFacts) -> Iterator[Finding]:
    """The job was started for a time its watermark has not reached: rows before it are computed only."""
    if facts.is_over:
        return
    graph = StepGraph.of(facts.status.steps)
    for output, from_ticks in facts.emit_from_ticks.items():
        watermark_ticks = graph.watermark_ticks(output)
        if facts.status.rows.get(output) or (
            is_moment(watermark_ticks) and (watermark_ticks or 0) > from_ticks
        ):
            continue
        at = "none yet" if watermark_ticks is None else moment_text(watermark_ticks, facts.now_ticks)
        yield Finding(
            "OUTPUT_STARTS_LATER",
            output,
            Severity.WAITING,
            f"output {output} waits: it emits rows from {moment_text(from_ticks, facts.now_ticks)} on, as "
            "the start asked, and earlier ones are computed only",
            (f"its watermark: {at}", f"the start: {facts.status.cause}"),
        )


def _wall(text: str, facts: JobFacts) -> str:
    ticks = wall_ticks(text)
    return text if ticks is None else moment_text(ticks, facts.now_ticks)
