"""What a diagnosis says: findings, worst first, and when each output has its next row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """How bad a finding is, worst first."""

    PROBLEM = "problem"  # rows are missing, or will be, until somebody acts
    WARNING = "warning"  # it may be meant so; if it is not, rows are missing
    NOTE = "note"  # the query may well ask for it: other outputs have rows
    WAITING = "waiting"  # nothing is wrong: what is named will pass by itself


#: For sorting: the worst first.
ORDER = {severity: place for place, severity in enumerate(Severity)}


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause that holds for a job, in words.

    cause: its code in the table of causes (`diagnosis.causes`), the same for ever.
    output: the output it is about; None: all of them.
    severity: how bad it is.
    text: what happens and why, one sentence.
    evidence: figures and times that show it, one a line.
    remedy: what to do; "" where nothing is to be done.
    """

    cause: str
    output: str | None
    severity: Severity
    text: str
    evidence: tuple[str, ...] = ()
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class NextRow:
    """When an output is to have its next row.

    output: its name.
    due_ticks: the watermark that lets the row go; None: the next event that passes makes one.
    expected: when that is likely to be on the clock, ISO text; None where nobody can know.
    text: the same in words.
    """

    output: str
    due_ticks: int | None
    expected: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The answer to "why is there no output?".

    job: name of the project; "" where no job has run.
    state: of the job, as `tideglass status` shows it.
    at: the time the diagnosis is of, ISO text.
    findings: worst first.
    next_rows: per output of a job that runs, in the order of the query.
    """

    job: str
    state: str
    at: str
    findings: tuple[Finding, ...] = ()
    next_rows: tuple[NextRow, ...] = ()

    @property
    def healthy(self) -> bool:
        """Whether nothing was found that somebody should look at."""
        return not self.causes

    @property
    def causes(self) -> tuple[Finding, ...]:
        """The findings that somebody should look at."""
        return tuple(each for each in self.findings if each.severity in (Severity.PROBLEM, Severity.WARNING))

    def of(self, output: str) -> Diagnosis:
        """What concerns one output, whatever the case of its name; who asks for it expects rows of it."""
        name = output.casefold()
        found = (each for each in self.findings if each.output is None or each.output.casefold() == name)
        asked = (
            replace(each, severity=Severity.WARNING) if each.severity is Severity.NOTE else each
            for each in found
        )
        return Diagnosis(
            self.job,
            self.state,
            self.at,
            tuple(sorted(asked, key=lambda each: ORDER[each.severity])),
            tuple(each for each in self.next_rows if each.output.casefold() == name),
        )

    def plain(self) -> Mapping[str, Any]:
        """The diagnosis as values JSON can hold, with `healthy`."""
        return {"healthy": self.healthy, **asdict(self)}
