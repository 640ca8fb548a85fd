"""Why a job has no output, from its directory alone.

job directory ──gather──▶ JobFacts ──LOOKS──▶ findings, worst first ──▶ Diagnosis

    >>> from pathlib import Path
    >>> diagnose_directory(JobDirectory(Path("nowhere"))).findings[0].cause
    'NEVER_RAN'
"""

from __future__ import annotations

import time

from tideglass.core.time import TICKS_PER_SECOND, format_ticks
from tideglass.job.diagnosis.causes import LOOKS
from tideglass.job.diagnosis.expected import next_row
from tideglass.job.diagnosis.facts import JobFacts, gather
from tideglass.job.diagnosis.finding import ORDER, Diagnosis, Finding, Severity
from tideglass.job.diagnosis.step_graph import StepGraph
from tideglass.job.directory import JobDirectory


def diagnose(facts: JobFacts) -> Diagnosis:
    """Everything that is found, worst first, and when each output has its next row. Reads nothing."""
    findings = sorted((each for look in LOOKS for each in look(facts)), key=lambda each: ORDER[each.severity])
    graph = StepGraph.of(facts.status.steps)
    return Diagnosis(
        facts.status.job,
        facts.status.state,
        format_ticks(facts.now_ticks)[:19] + "Z",
        tuple(findings),
        tuple(next_row(facts, graph, output) for output in facts.outputs),
    )


def diagnose_directory(
    directory: JobDirectory, *, now_seconds: float | None = None, query: str | None = None
) -> Diagnosis:
    """The diagnosis of a job directory, of a job that runs or is dead.

    now_seconds: the time, seconds of the epoch; None: the clock's.
    query: text of the project's query, to quote from; it is left out where another one ran.
    """
    facts = gather(directory, now_seconds=now_seconds, query=query)
    if facts is not None:
        return diagnose(facts)
    seconds = time.time() if now_seconds is None else now_seconds
    never = Finding(
        "NEVER_RAN",
        None,
        Severity.PROBLEM,
        f"no job has run in {directory.path}",
        (f"there is no status in {directory.status}",),
        "start it with `tideglass start` or `tideglass run`; a run with another --run-dir is found with "
        "that option",
    )
    return Diagnosis("", "", format_ticks(round(seconds * TICKS_PER_SECOND))[:19] + "Z", (never,))
