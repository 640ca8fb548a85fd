"""Causes that lie in the query: rows that a condition or a join loses, and rows that are not due yet."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tideglass.job.diagnosis.expected import due_moment
from tideglass.job.diagnosis.facts import JobFacts
from tideglass.job.diagnosis.finding import Finding, Severity
from tideglass.job.diagnosis.step_graph import StepGraph, is_moment, known_ticks
from tideglass.job.diagnosis.words import count_text, list_text, moment_text, ticks_text
from tideglass.job.report.status import StepStatus

_GROUPS = ("window", "snapshot", "aggregation")


def lost_rows(facts: JobFacts) -> Iterator[Finding]:
    """A filter or a join that has got rows and handed on none, for an output that never had one."""
    graph = StepGraph.of(facts.status.steps)
    for output in facts.outputs:
        if facts.rows_of(output):
            continue
        for step in graph.losing(output):
            finding = _lost_in(facts, graph, output, step)
            if finding is not None:
                yield finding


def failing_rows(facts: JobFacts) -> Iterator[Finding]:
    """Rows that make the query fail and are left out, as the settings ask."""
    failed, events = facts.status.counters.get("Errors", 0), facts.status.counters.get("InputEvents", 0)
    if not failed:
        return
    rows = count_text(failed, "row")
    yield Finding(
        "ROWS_FAIL",
        None,
        Severity.WARNING if 2 * failed >= events else Severity.WAITING,
        f"{rows} made the query fail and {'was' if failed == 1 else 'were'} left out, since RowErrorPolicy "
        "is Drop",
        (f"{rows} failed; events read by all readers: {events:,}",),
        "convert with TRY_CAST, or filter before the conversion; without RowErrorPolicy the first such "
        "row stops the job and names its place",
    )


def _lost_in(facts: JobFacts, graph: StepGraph, output: str, step: StepStatus) -> Finding | None:
    rows = count_text(step.rows_in, "row")
    evidence = trail_lines(facts, graph, output)
    place = _place(facts, step)
    if step.kind == "reference join":
        references = facts.status.references
        if references and all(each.rows == 0 for each in references):
            return None  # `empty_reference` names them
        return Finding(
            "REFERENCE_MATCHES_NOTHING",
            output,
            Severity.WARNING,
            f"output {output} has had no row: all {rows} that reach the reference join{place} end there, "
            "since none meets a row of the reference data",
            (*evidence, *_reference_lines(facts)),
            "compare the types and spelling of the keys on "
            "both sides (a text equals no number: CAST in ON, or CREATE TABLE); LEFT JOIN keeps rows "
            "without a match",
        )
    if "join" in step.kind:
        return _lost_in_join(facts, graph, output, step, evidence)
    if step.kind == "filter":
        grouped = any(any(word in each.kind for word in _GROUPS) for each in _same_step(graph, step))
        clause = "HAVING" if grouped else "WHERE"
        return Finding(
            "HAVING_MATCHES_NOTHING" if grouped else "WHERE_MATCHES_NOTHING",
            output,
            Severity.NOTE if any(map(facts.rows_of, facts.outputs)) else Severity.WARNING,
            f"output {output} has had no row: none of the {rows} that reach {clause} of {step.step}"
            f"{_clause_place(facts, step, clause)} passes it",
            evidence,
            f"look at the condition of {clause}: a comparison with NULL or of a text with a number holds "
            "for no row; `tideglass test` tries it on rows of your own",
        )
    return None


def _lost_in_join(
    facts: JobFacts, graph: StepGraph, output: str, step: StepStatus, evidence: tuple[str, ...]
) -> Finding | None:
    sides = graph.sources(step)
    empty = [each for each in sides if not each.rows_out]
    over = facts.is_over or step.input_watermark_ticks is None or not is_moment(step.input_watermark_ticks)
    if not over and (step.kind != "join" or (_held(step) >= step.rows_in and not empty)):
        return None  # every row still waits for its match
    rows = count_text(step.rows_in, "row")
    if empty and len(empty) < len(sides):
        what = f"the side that reads {_origin(graph, empty[0])} has no rows at all"
    else:
        what = "no two rows of both sides fit each other"
    return Finding(
        "JOIN_MATCHES_NOTHING",
        output,
        Severity.WARNING,
        f"output {output} has had no row: {rows} reach the join of {step.step}{_place(facts, step)} and "
        f"none comes out, since {what}",
        evidence,
        "compare the keys of both sides (types, spelling) and the bounds of DATEDIFF: which side is "
        "earlier, and in which unit; LEFT JOIN shows left rows without a match",
    )


def _held(step: StepStatus) -> float:
    """How many rows both sides of a join hold, over all key groups; a status names the first few of them."""
    held = [each.rows or 0 for each in step.holders if each.component == "state"]
    return sum(held) * max(1.0, 2 * step.ranges / len(held)) if held else 0.0


def _origin(graph: StepGraph, step: StepStatus) -> str:
    """What a side of a join is fed by."""
    path = graph.slowest_path(step)
    return f"{step.step} (input {path[-1].step})" if path[-1].step != step.step else f"input {step.step}"


def _same_step(graph: StepGraph, step: StepStatus) -> Iterator[StepStatus]:
    """The operators upstream within the same step of the query."""
    waiting = list(graph.sources(step))
    while waiting:
        each = waiting.pop()
        if each.step == step.step:
            yield each
            waiting += graph.sources(each)


def trail_lines(facts: JobFacts, graph: StepGraph, output: str) -> tuple[str, ...]:
    """Where rows are lost: every operator on the path of the output with its counts, from the input on."""
    return tuple(
        f"{each.step}, {each.kind}{_place(facts, each)}: {each.rows_in:,} in, {each.rows_out:,} out"
        for each in graph.trail(output)
    )


def _place(facts: JobFacts, step: StepStatus) -> str:
    """Where the step is in the query, with its text if that is known."""
    if step.line is None:
        return ""
    lines = [] if facts.query is None else facts.query.splitlines()
    text = lines[step.line - 1].strip() if 0 < step.line <= len(lines) else ""
    return f" (line {step.line}" + (f": {text[:80]}" if text else "") + ")"


def _clause_place(facts: JobFacts, step: StepStatus, clause: str) -> str:
    """Where a clause of a step is; the step's own place where its text does not show it."""
    lines = [] if facts.query is None or step.line is None else facts.query.splitlines()
    for number, text in enumerate(lines[(step.line or 1) - 1 :], start=step.line or 1):
        found = re.search(rf"\b{clause}\b.*", text.partition("--")[0], re.IGNORECASE)
        if found:
            return f" (line {number}: {found[0].strip()[:80]})"
    return _place(facts, step)


def _reference_lines(facts: JobFacts) -> Iterator[str]:
    for each in facts.status.references:
        rows = "" if each.rows is None else f", the newest of {count_text(each.rows, 'row')}"
        at_ticks = each.effective_ticks
        at = "" if at_ticks is None or not is_moment(at_ticks) else moment_text(at_ticks, facts.now_ticks)
        holds = f", which holds from {at} on" if at else ""
        yield f"reference data {each.input}: {count_text(each.snapshots, 'snapshot')}{rows}{holds}"


def missing_reference(facts: JobFacts) -> Iterator[Finding]:
    """Reference data of which nothing is loaded, or that holds only for later rows."""
    if facts.is_over:
        return
    for each in facts.status.references:
        place = facts.sources.get(each.input, "")
        if not each.snapshots:
            yield Finding(
                "REFERENCE_MISSING",
                None,
                Severity.PROBLEM,
                f"no snapshot of the reference data {each.input} is loaded: the first row that needs it "
                "stops the job",
                (f"it is read from {place}",) if place else (),
                "put a file there whose time is not after that of the oldest event, or name it with "
                f"--input {each.input}=PATH",
            )


def empty_reference(facts: JobFacts) -> Iterator[Finding]:
    """Reference data without a single row."""
    graph = StepGraph.of(facts.status.steps)
    for each in facts.status.references:
        if each.rows == 0:
            place = facts.sources.get(each.input, "")
            lost = [
                output
                for output in facts.outputs
                if not facts.rows_of(output)
                and any(step.kind == "reference join" for step in graph.losing(output))
            ]
            consequence = f"; {list_text(lost)} had no row" if lost else ""
            yield Finding(
                "REFERENCE_EMPTY",
                lost[0] if len(lost) == 1 else None,
                Severity.PROBLEM if lost else Severity.WARNING,
                f"the reference data {each.input} is empty: its newest snapshot has no row, so a join with "
                f"it finds none{consequence}",
                (*((f"it is read from {place}",) if place else ()), *_reference_lines(facts)),
                "write the rows to a new file whose path says from when they hold ({date}/{time}), or "
                "mend the file and start with --fresh; LEFT JOIN keeps rows without a match",
            )


def not_due(facts: JobFacts) -> Iterator[Finding]:
    """What an output is made of waits in a window, a LEFT JOIN or a function for its time."""
    if facts.is_over:
        return
    graph = StepGraph.of(facts.status.steps)
    for output in facts.outputs:
        if facts.status.rows.get(output):
            continue
        found = due_moment(facts, graph, output)
        if found is None:
            continue
        step, holder, expected = found
        due_ticks = holder.due_ticks or 0
        watermark_ticks = step.input_watermark_ticks
        if not is_moment(watermark_ticks):
            continue
        left_ticks = due_ticks - known_ticks(watermark_ticks)
        when = f", likely at about {expected[11:19]}" if expected else ""
        kept = "" if holder.rows is None else f", {count_text(holder.rows, 'row')}"
        yield Finding(
            "NOT_DUE",
            output,
            Severity.WAITING,
            f"output {output} waits for {holder.kind} of {step.step} ({step.kind}): the first is due when "
            f"the watermark passes {moment_text(due_ticks, facts.now_ticks)}, in "
            f"{ticks_text(max(left_ticks, 0))} of event time{when}",
            (
                f"watermark there: {moment_text(known_ticks(watermark_ticks), facts.now_ticks)}",
                f"held: {holder.kind} at {holder.place}{kept}",
                *trail_lines(facts, graph, output),
            ),
        )
