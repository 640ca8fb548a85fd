"""The causes a diagnosis knows, in the order in which they are looked for (`docs/why.md` describes each)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from tideglass.job.diagnosis import input_causes, row_causes, run_causes, watermark_causes, work_causes
from tideglass.job.diagnosis.facts import JobFacts
from tideglass.job.diagnosis.finding import Finding

#: Looks for one family of causes in what is known of a job.
Look: TypeAlias = Callable[[JobFacts], Iterable[Finding]]

#: Of findings that are equally bad, those of an earlier line come first.
LOOKS: tuple[Look, ...] = (
    run_causes.failed,
    run_causes.killed,
    run_causes.not_reporting,
    work_causes.failing_sinks,
    row_causes.missing_reference,
    row_causes.empty_reference,
    input_causes.no_input,
    input_causes.refused,
    input_causes.dropped,
    watermark_causes.future_events,
    watermark_causes.no_arrival_times,
    watermark_causes.idle_partitions,
    work_causes.memory,
    work_causes.growing_backlog,
    work_causes.stuck_batch,
    row_causes.failing_rows,
    row_causes.lost_rows,
    watermark_causes.stopped_substreams,
    input_causes.idle_input,
    work_causes.skewed_key_groups,
    run_causes.stopped,
    run_causes.starting,
    run_causes.catching_up,
    run_causes.emits_later,
    row_causes.not_due,
)
