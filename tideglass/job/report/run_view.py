"""All a run knows of itself beside its metrics: steps, outputs, batches, errors, and what it takes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from tideglass.connect.output import OutputConnector
from tideglass.core.events import POLICY_ERRORS
from tideglass.core.time import BEFORE_ALL_TICKS
from tideglass.ingress.reports import BatchReports
from tideglass.job.options import JobPlan
from tideglass.job.report.batch_times import BatchTimes, Moment, utc_milliseconds_text
from tideglass.job.report.gauges import Gauges
from tideglass.job.report.memory_group import memory_limit_bytes
from tideglass.job.report.metrics import Metrics
from tideglass.job.report.output_calls import OutputCalls
from tideglass.job.report.status import ErrorStatus, Status, StepStatus
from tideglass.job.report.watermark_view import Lease, WatermarkView

#: Kinds of errors a status names; the longest not met is dropped for a new one, those of policies first.
MOST_ERRORS = 50
#: Of the text of an event.
_MOST_CHARACTERS = 500


@dataclass(slots=True)
class RunView:
    """What the status of a run shows of it.

    generation: of the state the run goes on with.
    watermarks: of all operators.
    outputs: the calls to them.
    batches: the last ones, and the one under way.
    gauges: what is looked at rarely.
    output_names: by ordinal.
    """

    generation: int
    watermarks: WatermarkView
    outputs: OutputCalls
    output_names: tuple[str, ...] = ()
    batches: BatchTimes = field(default_factory=BatchTimes)
    gauges: Gauges = field(default_factory=Gauges)
    _errors: dict[tuple[str, str, str], ErrorStatus] = field(
        default_factory=dict[tuple[str, str, str], ErrorStatus]
    )

    @staticmethod
    def of(job: JobPlan, generation: int) -> RunView:
        topology = job.compiled.topology
        kinds = [(name, connector_kind(job.outputs[name])) for name in topology.outputs]
        return RunView(generation, WatermarkView(topology), OutputCalls.of(kinds), topology.outputs)

    # ------------------------------------------------------------ while batches run

    def began(self, batch: int) -> None:
        """A batch is about to run."""
        self.batches.began(Moment.now())

    def calling(self, ordinal: int) -> AbstractContextManager[None]:
        """What Spark's write of a batch to the output of an ordinal is done in."""
        return self.outputs.calling(self.output_names[ordinal])

    # ------------------------------------------------------------ at their commit

    def restored(self, metrics: Metrics) -> None:
        """What is known before the first batch."""
        readers = [
            (facts.input, facts.partition, facts.report)
            for facts in metrics.partitions.values()
            if facts.report is not None
        ]
        self.watermarks.restored(readers, self.generation)
        self.outputs.restored(metrics.dropped_before)

    def take_batch(
        self,
        batch: int,
        reports: BatchReports,
        rows: Mapping[str, int],
        newest_ticks: Mapping[str, int],
        events: int,
        at: Moment,
    ) -> None:
        """A batch is committed.

        batch: Spark's number.
        rows, newest_ticks: how many rows each output got, and the newest of their times.
        events: read.
        at: the moment.
        """
        text = utc_milliseconds_text(at.wall_seconds)
        self.watermarks.take(reports, Lease(self.generation, batch))
        self.outputs.take_rows(rows, newest_ticks, text)
        self._take_errors(reports, text)
        self.batches.done(batch, events, sum(rows.values()), at)

    def _take_errors(self, reports: BatchReports, at: str) -> None:
        for report in reports.partitions:
            for error in (*report.errors, *report.offending):
                key = (report.input, report.partition, error.error_type)
                before = self._errors.pop(key, None)
                example = error.examples[0][:_MOST_CHARACTERS] if error.examples else None
                self._errors[key] = ErrorStatus(
                    *key, error.count + (before.count if before else 0), error.message, example, at
                )
        while len(self._errors) > MOST_ERRORS:
            settled = (key for key in self._errors if key[2] in POLICY_ERRORS)
            del self._errors[next(settled, next(iter(self._errors)))]

    # ------------------------------------------------------------ for the status

    def shown(self, status: Status, metrics: Metrics, at: Moment) -> Status:
        """The status with all of it, at that moment."""
        arrivals = [
            facts.last_arrival_ticks
            for facts in metrics.partitions.values()
            if facts.last_arrival_ticks != BEFORE_ALL_TICKS
        ]
        steps = self.watermarks.steps(max(arrivals) if arrivals else None)
        began = self.batches.batch_began
        return replace(
            status,
            steps=tuple(self._timed(step, at) for step in steps),
            ranges=self.watermarks.ranges(),
            substreams=self.watermarks.substreams(),
            step_substreams=self.watermarks.step_substreams(),
            outputs=self.outputs.status(),
            recent_batches=tuple(self.batches.recent),
            batch_began=None if began is None else utc_milliseconds_text(began.wall_seconds),
            errors=self.errors(),
            references=self.watermarks.counted(self.gauges.references),
            backlog={**self.gauges.backlog, **self.gauges.topics_backlog},
            memory_bytes=self.gauges.memory_bytes,
            memory_limit_bytes=memory_limit_bytes(),
            cpu_percent=self.gauges.cpu_percent,
        )

    def errors(self) -> tuple[ErrorStatus, ...]:
        """Refused events, the newest reason last; then the rows that outputs have refused."""
        return (*self._errors.values(), *self.outputs.refusals.values())

    def _timed(self, step: StepStatus, at: Moment) -> StepStatus:
        """A step with its processing-time watermark."""
        began = self.batches.oldest_began(outputs=step.output is not None)
        if began is None:
            return replace(step, system_watermark_lag_seconds=0.0)
        return replace(
            step,
            processing_watermark=utc_milliseconds_text(began.wall_seconds),
            system_watermark_lag_seconds=round(max(0.0, at.clock_seconds - began.clock_seconds), 3),
        )


def connector_kind(connector: OutputConnector) -> str:
    """What kind of output it is, in a word: the name of its class without `Output`.

    >>> from tideglass.connect.console import ConsoleOutput
    >>> connector_kind(ConsoleOutput("alerts"))
    'console'
    """
    return type(connector).__name__.removesuffix("Output").lower()
