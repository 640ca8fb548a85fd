"""`tideglass status PROJECT`: what a job does now, or how its last run ended."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tideglass.cli.job import (
    ProjectArgument,
    RunDirOption,
    batches_text,
    catch_up_line,
    job_directory,
    layout_lines,
    print_lines,
    state_line,
)
from tideglass.core.time import span_text

if TYPE_CHECKING:
    from tideglass.job.report.status import HolderStatus, InputStatus, OutputStatus, Status, StepStatus

_START_WORDS = {
    "beginning": "at the beginning",
    "now": "at the time of its start",
    "time": "at an output time",
    "last-stopped": "where the run before had stopped",
}

JsonOption = Annotated[bool, typer.Option("--json", help="As one JSON value.")]


StepsOption = Annotated[
    bool, typer.Option("--steps", help="Show every operator of every step, with its rows and key groups.")
]
#: Operators a step is not known by.
_PLAIN_KINDS = ("projection", "partial aggregation", "send", "receive", "output", "input")


def status(
    project: ProjectArgument = Path("."),
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
    steps: StepsOption = False,
) -> None:
    """Show a job's state, watermarks of inputs and steps, counters, outputs, last error."""
    from tideglass.job.report.status import read_status

    directory = job_directory(project, run_dir)
    found = read_status(directory)
    if as_json:
        typer.echo(json.dumps(None if found is None else asdict(found), indent=1))
    elif found is None and directory.status.exists():
        typer.echo(f"{directory.status} cannot be read; the next run writes it anew")
    elif found is None:
        typer.echo(f"no job has run in {directory.path}")
    else:
        print_lines(status_lines(found, operators=steps))


def status_lines(found: Status, *, operators: bool = False) -> list[str]:
    """A status for people, a fact a line. operators: every operator has a line, not every step."""
    lines = [
        state_line(found),
        f"  {found.cause}",
        f"  state of generation {found.generation}, started {_START_WORDS[found.mode]}",
        *layout_lines(found.layout),
        f"  {batches_text(found.batches)}, {found.events:,} events in this run",
    ]
    if found.catching_up is not None:
        lines.append(f"  {catch_up_line(found.catching_up)}")
    lines += [f"  input {_input_line(each)}" for each in found.inputs]
    lines += (
        [f"  #{each.operator} {_operator_line(each)}{_substream_words(found, each)}" for each in found.steps]
        if operators
        else [f"  step {_step_line(each)}{_substream_words(found, each[-1])}" for each in _steps(found)]
    )
    if found.watermark_delay_seconds is not None:
        lines.append(f"  watermark delay {span_text(found.watermark_delay_seconds)}")
    shown = [f"{name} {value:,}" for name, value in found.counters.items() if value]
    if shown:
        lines.append(f"  since the state began: {', '.join(shown)}")
    in_all = {**found.rows, **found.rows_in_all}  # an earlier version knew the rows of its run only
    for name, rows in in_all.items():
        of_run = found.rows.get(name, 0)
        more = f", {rows:,} since the state began" if rows != of_run else ""
        called = "".join(f"; {_called(each)}" for each in found.outputs if each.output == name)
        lines.append(f"  output {name}: {of_run:,} rows in this run{more}{called}")
    if found.error:
        lines.append(f"  last error: {found.error}")
    return lines


def _input_line(each: InputStatus) -> str:
    delay = "" if each.delay_seconds is None else f", delay {span_text(each.delay_seconds)}"
    watermark = _to_the_second(each.watermark or "none yet")
    return f"{each.input}/{each.partition}: {each.events:,} events, watermark {watermark}{delay}"


def _steps(found: Status) -> list[tuple[StepStatus, ...]]:
    """The operators by the step they belong to, without the inputs, which have lines of their own."""
    by_step: dict[str, list[StepStatus]] = {}
    for each in found.steps:
        if each.kind != "input":
            by_step.setdefault(each.step, []).append(each)
    return [tuple(operators) for operators in by_step.values()]


def _step_line(operators: tuple[StepStatus, ...]) -> str:
    """A step by its last operator, whose watermark is that of its rows."""
    last = operators[-1]
    kinds = dict.fromkeys(each.kind for each in operators if each.kind not in _PLAIN_KINDS)
    words = f" ({', '.join(kinds)})" if kinds else ""
    return f"{last.step}{words}: {_watermark_words(last)}"


def _operator_line(each: StepStatus) -> str:
    place = f"stage {each.level}" if each.level else "scan"
    counted = f"{each.rows_in:,} rows in, {each.rows_out:,} out"
    reported = (
        ""
        if each.ranges == each.ranges_reported
        else f", {each.ranges_reported} of {each.ranges} ranges known"
    )
    return f"{each.step} {each.kind}, {place}: {counted}, {_watermark_words(each)}{reported}"


def _watermark_words(each: StepStatus) -> str:
    """The watermark of a step's rows, and what holds it."""
    from tideglass.core.time import AFTER_ALL_TICKS

    ticks = each.output_watermark_ticks
    if ticks == AFTER_ALL_TICKS:
        return "end of input"
    text = "watermark unknown" if ticks is None else f"watermark {_time(ticks)}"
    return text + (f", held by {_holder_words(each.holders[0])}" if each.holders else "")


def _substream_words(found: Status, step: StepStatus) -> str:
    """How far the substreams at a step are that are ahead of its watermark, if any."""
    listed = [each for each in found.step_substreams if each.operator == step.substreams_of]
    if not listed:
        return ""
    slowest = min(listed, key=lambda each: each.watermark_ticks)
    fastest = max(listed, key=lambda each: each.watermark_ticks)
    count = "1 substream is" if step.substreams == 1 else f"{step.substreams:,} substreams are"
    text = f"; {count} ahead: {slowest.name} at {_time(slowest.watermark_ticks)}"
    return text if slowest == fastest else f"{text} to {fastest.name} at {_time(fastest.watermark_ticks)}"


def _holder_words(holder: HolderStatus) -> str:
    due = "" if holder.due_ticks is None else f", due {_time(holder.due_ticks)}"
    return f"{holder.place}: {holder.kind}{due}"


def _time(ticks: int) -> str:
    """A time to the second; of one that no datetime can name, when it is."""
    from tideglass.core.time import LAST_TICKS, ORIGIN_TICKS, format_ticks

    if ORIGIN_TICKS <= ticks <= LAST_TICKS:
        return _to_the_second(format_ticks(ticks))
    return "before all" if ticks < 0 else "at the end of the input"


def _called(output: OutputStatus) -> str:
    """Whether an output is alive, and when its last row was written."""
    if output.alive is None:
        return "not called yet"
    last = "" if output.last_row is None else f", last row {_to_the_second(output.last_row)}"
    if output.conversion_errors:
        last += f", {output.conversion_errors:,} rows refused"
    if output.next_try is not None:
        last += f", a batch waits for it, next try {_to_the_second(output.next_try)}"
    if output.alive:
        return f"alive{last}"
    return f"dead, {output.failed_calls:,} of {output.calls:,} calls failed: {output.last_error}{last}"


def _to_the_second(time: str) -> str:
    """
    >>> _to_the_second("2026-01-01T00:02:25.0860000Z"), _to_the_second("end of input")
    ('2026-01-01T00:02:25Z', 'end of input')
    """
    seconds, point, _ = time.partition(".")
    return f"{seconds}Z" if point else time
