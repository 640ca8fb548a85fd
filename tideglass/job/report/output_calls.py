"""The calls a run makes to its outputs, and what became of them: in tasks, by Spark, and on the driver."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from tideglass.core.masking import masked
from tideglass.job.report.batch_times import utc_milliseconds_text
from tideglass.job.report.status import ErrorStatus, OutputStatus

#: How the service's names of the kinds begin (`asa.md` 6.6).
CONVERSION_ERROR = "OutputDataConversionError"
#: Of the JSON of a row.
_MOST_ROW_CHARACTERS = 500
#: Of an error, so that a status is never a page of a server's answer.
_MOST_CHARACTERS = 1000


@dataclass(frozen=True, slots=True)
class RefusedSample:
    """Rows of one kind that an output has refused: how many, why the first, and that row as JSON."""

    kind: str
    count: int
    reason: str
    row: str


@dataclass(slots=True)
class OutputCalls:
    """Counts the calls of a run, by output."""

    #: Rows refused, by output and kind: how many in this run, and the newest sample.
    refusals: dict[tuple[str, str], ErrorStatus] = field(default_factory=dict[tuple[str, str], ErrorStatus])
    _outputs: dict[str, OutputStatus] = field(default_factory=dict[str, OutputStatus])

    @staticmethod
    def of(connectors: Iterable[tuple[str, str]]) -> OutputCalls:
        """connectors: the outputs of the job in the order of the query, each with what kind it is."""
        return OutputCalls(_outputs={name: OutputStatus(name, kind) for name, kind in connectors})

    @contextmanager
    def calling(self, output: str) -> Generator[None]:
        """While this lasts, the output is called; an error counts as a failed call, and goes on."""
        began_seconds = time.monotonic()
        try:
            yield
        except Exception as error:
            self.failed(output, str(error), time.monotonic() - began_seconds)
            raise
        self._succeeded(output, time.monotonic() - began_seconds)

    @contextmanager
    def watching(self, output: str) -> Generator[None]:
        """As `calling`, for a call that most outputs have nothing to do in: it counts only where it fails."""
        began_seconds = time.monotonic()
        try:
            yield
        except Exception as error:
            self.failed(output, str(error), time.monotonic() - began_seconds)
            raise

    def waits(self, output: str, seconds: float) -> None:
        """The output is tried again after so many seconds."""
        known, now = self._of(output), time.time()
        self._outputs[output] = replace(
            known,
            dead_since=known.dead_since or utc_milliseconds_text(now),
            next_try=utc_milliseconds_text(now + seconds),
        )

    def refused(self, output: str, samples: Iterable[RefusedSample], *, dropped: bool) -> None:
        """The output has refused rows; dropped: they are left out."""
        at, verb = utc_milliseconds_text(time.time()), "dropped" if dropped else "tried again"
        for each in samples:
            kind = f"{CONVERSION_ERROR}.{each.kind}"
            before = self.refusals.pop((output, kind), None)
            self.refusals[output, kind] = ErrorStatus(
                output,
                "",
                kind,
                each.count + (before.count if before else 0),
                f"{each.reason} ({verb})",
                each.row[:_MOST_ROW_CHARACTERS],
                at,
            )
            known = self._of(output)
            self._outputs[output] = replace(known, conversion_errors=known.conversion_errors + each.count)

    def restored(self, conversion_errors: Mapping[str, int]) -> None:
        """Rows that earlier runs of the generation have dropped, by output."""
        for name, count in conversion_errors.items():
            if name not in self._outputs:
                continue  # the query no longer writes to it
            self._outputs[name] = replace(self._of(name), conversion_errors=count)

    @property
    def has_dead(self) -> bool:
        """Whether a call of some output is to be tried again."""
        return any(each.next_try is not None for each in self._outputs.values())

    def staged(self, output: str) -> None:
        """A task has called the output; how long that took is part of its batch and not known here."""
        self._succeeded(output, 0.0)

    def failed(self, output: str, error: str, seconds: float = 0.0) -> None:
        """A call has failed. error: in words."""
        known = self._of(output)
        self._outputs[output] = replace(
            known,
            alive=False,
            calls=known.calls + 1,
            failed_calls=known.failed_calls + 1,
            last_error=masked(error)[:_MOST_CHARACTERS],
            seconds=known.seconds + seconds,
        )

    def take_rows(self, rows: Mapping[str, int], newest_ticks: Mapping[str, int], at: str) -> None:
        """A batch is committed, with so many rows of each output.

        newest_ticks: the newest of their times, per output that got some. at: when, ISO text.
        """
        for name, count in rows.items():
            if count:
                known = self._of(name)
                ticks = [each for each in (known.last_row_ticks, newest_ticks.get(name)) if each is not None]
                self._outputs[name] = replace(
                    known, rows=known.rows + count, last_row=at, last_row_ticks=max(ticks, default=None)
                )

    def run_failed(self, error: str) -> None:
        """The run ends with an error. An output it names has failed to take rows in a task."""
        for name, known in self._outputs.items():
            if f"the output {name!r}" in error and known.alive is not False:
                self.failed(name, error)

    def status(self) -> tuple[OutputStatus, ...]:
        return tuple(self._outputs.values())

    def _succeeded(self, output: str, seconds: float) -> None:
        known = self._of(output)
        self._outputs[output] = replace(
            known,
            alive=True,
            calls=known.calls + 1,
            seconds=known.seconds + seconds,
            dead_since=None,
            next_try=None,
        )

    def _of(self, output: str) -> OutputStatus:
        return self._outputs.get(output) or OutputStatus(output, "")
