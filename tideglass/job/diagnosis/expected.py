"""When the next row of each output is due: by what its operators hold, and how its watermark moves."""

from __future__ import annotations

from tideglass.core.time import TICKS_PER_DAY, TICKS_PER_SECOND, format_ticks
from tideglass.job.diagnosis.facts import JobFacts
from tideglass.job.diagnosis.finding import NextRow
from tideglass.job.diagnosis.step_graph import StepGraph, is_moment, known_ticks
from tideglass.job.diagnosis.words import moment_text
from tideglass.job.report.status import HolderStatus, StepStatus

#: Rows that are kept to be looked at, and make no row when their time is over.
_LOOKED_AT = ("look back", "right rows")

#: A partition that has sent nothing for so long is not counted on.
_IDLE_SECONDS = 30.0


def due_moment(
    facts: JobFacts, graph: StepGraph, output: str
) -> tuple[StepStatus, HolderStatus, str | None] | None:
    """What of an output is due first: the step, what it holds, and when on the clock, ISO text if known.

    The clock is known of a job that keeps up: its watermark then goes on as the clock does.
    """
    for step, holder in graph.waiting(output):
        makes_rows = not any(words in holder.kind for words in _LOOKED_AT)
        inner = holder.kind.startswith("left rows") and "left" not in step.kind
        watermark_ticks = step.input_watermark_ticks
        if not makes_rows or inner or (holder.due_ticks or 0) < known_ticks(watermark_ticks):
            continue
        expected = None
        keeps_up = is_moment(watermark_ticks) and _keeps_up(facts, known_ticks(watermark_ticks))
        if watermark_ticks is not None and keeps_up and not _stands(facts, watermark_ticks):
            wall_ticks = facts.now_ticks + (holder.due_ticks or 0) - watermark_ticks
            expected = format_ticks(wall_ticks + TICKS_PER_SECOND)[:19] + "Z"
        return step, holder, expected
    return None


def _keeps_up(facts: JobFacts, watermark_ticks: int) -> bool:
    """Whether the watermark goes on as the clock does: near to it, and not of a recording."""
    return -TICKS_PER_DAY < facts.now_ticks - watermark_ticks < TICKS_PER_DAY


def _stands(facts: JobFacts, watermark_ticks: int) -> bool:
    """Whether a partition that sends nothing holds the watermark, and no late tolerance moves it on."""
    limited = facts.settings is None or facts.settings.late_ticks is not None
    return not limited and any(
        each.watermark_ticks is not None
        and each.watermark_ticks <= watermark_ticks
        and facts.idle_seconds(each) >= _IDLE_SECONDS
        for each in facts.status.inputs
    )


def next_row(facts: JobFacts, graph: StepGraph, output: str) -> NextRow:
    """When an output is to have its next row, in words as well."""
    if facts.is_over:
        rows = facts.rows_of(output)
        return NextRow(
            output, None, None, f"output {output}: {rows:,} rows; nothing runs, so none will follow"
        )
    found = due_moment(facts, graph, output)
    if found is None:
        return NextRow(
            output, None, None, f"output {output}: its next row is made by the next event that passes"
        )
    step, holder, expected = found
    due_ticks = holder.due_ticks or 0
    text = f"output {output}: its next rows are due when the watermark of {step.step} passes "
    text += moment_text(due_ticks, facts.now_ticks)
    if expected is not None:
        text += f", likely at about {expected[11:19]}"
    return NextRow(output, due_ticks, expected, text)
