"""Situations of a job that are staged in this process, and what a diagnosis finds there."""

from __future__ import annotations

from typing import Any

from support.job_in_process import Clock, Folder, RunInProcess
from tideglass.job.diagnosis.diagnose import diagnose_directory
from tideglass.job.diagnosis.finding import Diagnosis, Finding

COUNTS = """
SELECT device, COUNT(*) AS n, System.Timestamp() AS at INTO counts
FROM events TIMESTAMP BY t GROUP BY device, TumblingWindow(second, 10)
"""


def event(clock: Clock, seconds: float, arrived: float | None = None, **fields: Any) -> dict[str, Any]:
    """An event of so many seconds from now, which arrives at its time unless another is named."""
    at = clock.iso(seconds)
    return {
        "device": "a",
        "v": 1,
        "t": at,
        "arrived": at if arrived is None else clock.iso(arrived),
        **fields,
    }


def minute(clock: Clock, **fields: Any) -> list[dict[str, Any]]:
    """An event a second over the last minute."""
    return [event(clock, -60 + second, **fields) for second in range(60)]


def causes(found: Diagnosis) -> list[str]:
    return [each.cause for each in found.findings]


def the(cause: str, found: Diagnosis) -> Finding:
    """The one finding of a cause."""
    (finding,) = [each for each in found.findings if each.cause == cause]
    return finding


def text_of(finding: Finding) -> str:
    return "\n".join([finding.text, *finding.evidence, finding.remedy])


JOIN = """
SELECT l.device, l.v, r.v AS other INTO pairs
FROM events l TIMESTAMP BY t JOIN events r TIMESTAMP BY t
ON l.device = r.other AND DATEDIFF(second, l, r) BETWEEN 0 AND 5
"""


def of_a_minute(project: Folder, clock: Clock, **fields: Any) -> Diagnosis:
    """The diagnosis of a run that has read a minute of events."""
    project.put(0, minute(clock, **fields))
    with RunInProcess(project.job()) as run:
        run.batches()
        run.report()
        return diagnose_directory(run.directory, query=project.query)
