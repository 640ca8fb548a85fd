"""An attempt run by the engine in this process, event by event: decisions, watermarks, windows, rows.

Every event is a batch of its own, so that it shows which rows it lets out; of more than `_MOST_BATCHES` some
share one. The decisions are those of the same kernel (`simulate`), which also keeps the watermark before and
after each event.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from tideglass.bind.catalog import InputInfo
from tideglass.compile import Compiled, compile_query
from tideglass.connect.in_memory import chunk_of_rows, partition_of
from tideglass.connect.reference.references import InlineReferences, References
from tideglass.core.errors import Diagnostic, EvaluationError, QueryError, Source, TideglassError
from tideglass.core.events import Chunk
from tideglass.core.json_rows import rows_of
from tideglass.core.limits import Limits
from tideglass.core.time import BEFORE_ALL_TICKS, TICKS_PER_SECOND, parse_ticks
from tideglass.core.types import ARRIVAL, OFFSET, ORDER_COLUMNS, SYSTEM_TIMESTAMP
from tideglass.engine.messages import Message
from tideglass.ingress.decisions import Decision
from tideglass.ingress.reports import BatchReports
from tideglass.local import LocalDriver, PartitionBatch, rows_by_output
from tideglass.plan.topology import EmitOp, Topology, WindowOp
from tideglass.play.attempt import (
    MOST_EVENT_CHARACTERS,
    MOST_EVENTS,
    MOST_QUERY_CHARACTERS,
    MOST_ROWS,
    MOST_WINDOWS,
    Attempt,
    Outcome,
    PlayedEvent,
    PlayedRow,
    PlayedWatermark,
    Playground,
    Problem,
    Tolerances,
)
from tideglass.play.window_grid import windows_of
from tideglass.project.settings import JobSettings
from tideglass.simulate.events import timed_events
from tideglass.simulate.simulation import SimulatedRow, simulate

#: A call for one row; the whole attempt has a limit of its own, which ends its process.
_LIMITS = Limits(javascript_seconds=2, javascript_megabytes=128)
_ARRIVAL, _PARTITION, _INPUT = "_arrival", "_partition", "_input"
#: A batch takes some 20 ms, however few events it has.
_MOST_BATCHES = 60
#: Longer texts of errors are for logs.
_MOST_CHARACTERS = 2_000


class _Unusable(Exception):
    """The attempt cannot be run."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__()
        self.problems = problems


@dataclass(frozen=True, slots=True)
class _TypedEvent:
    """An event as it was typed.

    number: of its line, from 1.
    input: where it goes; None: to the one input.
    row: the object, with its arrival and partition.
    """

    number: int
    input: str | None
    row: Mapping[str, Any]


@dataclass(slots=True)
class _Sent:
    """The events of one partition of an input.

    rows: with their line numbers, in order.
    whole: all of them decoded.
    """

    rows: list[tuple[int, Mapping[str, Any]]]
    whole: Chunk


#: An input and the number of its partition.
_Place = tuple[str, int]


def play(playground: Playground, attempt: Attempt) -> Outcome:
    """Run an attempt; what is wrong with it is part of the outcome."""
    started = time.perf_counter()
    try:
        outcome = _played(playground, attempt)
    except _Unusable as unusable:
        outcome = Outcome(problems=unusable.problems)
    return replace(outcome, seconds=round(time.perf_counter() - started, 3))


def _played(playground: Playground, attempt: Attempt) -> Outcome:
    if len(attempt.query) > MOST_QUERY_CHARACTERS:
        raise _Unusable(Problem("TOO_LONG", f"the query has more than {MOST_QUERY_CHARACTERS:,} characters"))
    compiled = _compiled(playground, attempt)
    topology = compiled.topology
    source = compiled.source
    warnings = tuple(_problem(each, source) for each in compiled.warnings)
    placed = _placed(topology, _lines(attempt.events))
    sent = _sent(topology, placed)
    events = tuple(_events(topology, sent))
    rejected = tuple(_rejections(topology, sent))
    outcome = Outcome(
        inputs=tuple(topology.fields), outputs=topology.outputs, events=events, problems=warnings + rejected
    )
    if not placed:
        return outcome
    run = _Run(topology, InlineReferences(playground.snapshots))
    try:
        run.all(list(sent), placed)
    except EvaluationError as error:
        outcome = replace(outcome, problems=(*outcome.problems, _failed_row(error, source)))
    except TideglassError as error:
        raise _Unusable(*warnings, _of_text(str(error), "events")) from error
    windows, left_out = windows_of(topology, events, run.watermarks, [mark.line for mark in run.marks])
    return replace(
        outcome,
        watermarks=tuple(run.marks),
        windows=tuple(windows[:MOST_WINDOWS]),
        windows_left_out=left_out + max(0, len(windows) - MOST_WINDOWS),
        rows=tuple(run.rows[:MOST_ROWS]),
        rows_left_out=max(0, len(run.rows) - MOST_ROWS),
    )


# ---------------------------------------------------------------- the query


def _compiled(playground: Playground, attempt: Attempt) -> Compiled:
    source = Source(attempt.query)
    known = {name: InputInfo(name) for name in playground.inputs}
    known |= {name: InputInfo(name, "reference") for name in playground.references}
    try:
        compiled = compile_query(
            source,
            _settings(playground, attempt.tolerances),
            key_groups=1,
            inputs=known or None,
            functions=playground.functions,
        )
    except QueryError as error:
        found = (*error.diagnostics, *error.warnings)
        raise _Unusable(*(_problem(each, source) for each in found)) from error
    except TideglassError as error:
        raise _Unusable(_of_text(str(error), "query")) from error
    missing = [name for name in compiled.topology.references if name not in playground.snapshots]
    if missing:
        raise _Unusable(
            Problem(
                "NO_REFERENCE_HERE",
                f"of the reference data {', '.join(missing)} the playground has no local file",
                "leave the join out, name a file with --input NAME=PATH, or try it with `tideglass test`",
            )
        )
    return compiled


def _settings(playground: Playground, tolerances: Tolerances) -> JobSettings:
    seconds = {
        "late": tolerances.late_seconds,
        "early": tolerances.early_seconds,
        "out of order": tolerances.out_of_order_seconds,
    }
    for name, value in seconds.items():
        if value is not None and not 0 <= value <= 100 * 366 * 86_400:
            raise _Unusable(Problem("NO_TOLERANCE", f"{name} is {value} seconds", where="tolerances"))
    return replace(
        playground.settings,
        late_arrival_ticks=_ticks(tolerances.late_seconds),
        early_arrival_ticks=_ticks(tolerances.early_seconds),
        out_of_order_ticks=round(tolerances.out_of_order_seconds * TICKS_PER_SECOND),
        policy="drop" if tolerances.drop else "adjust",
        limits=_LIMITS,
    )


def _ticks(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * TICKS_PER_SECOND)


def _problem(found: Diagnostic, source: Source) -> Problem:
    line, column = source.line_column(found.span.start)
    end_line, end_column = source.line_column(max(found.span.end, found.span.start))
    return Problem(
        found.code,
        found.message,
        found.hint,
        found.severity,
        "query",
        line,
        column,
        end_line,
        end_column,
    )


def _of_text(text: str, where: str) -> Problem:
    """The problem of an error that is text: `[CODE] message`, and a hint on a line of its own."""
    message, _, hint = text[:_MOST_CHARACTERS].partition("\n  hint: ")
    code = "NOT_POSSIBLE"
    if message.startswith("[") and "] " in message:
        code, _, message = message[1:].partition("] ")
    return Problem(code, message, hint, where=where)


def _failed_row(error: EvaluationError, source: Source) -> Problem:
    span = error.span
    line, column = (None, None) if span is None else source.line_column(span.start)
    return replace(_of_text(str(error), "query"), code="ROW_FAILED", line=line, column=column)


# ---------------------------------------------------------------- the events


def _lines(text: str) -> list[_TypedEvent]:
    """The events that were typed; empty lines and comments (`#`) are none."""
    if len(text) > MOST_EVENT_CHARACTERS:
        words = f"the events have more than {MOST_EVENT_CHARACTERS:,} characters"
        raise _Unusable(Problem("TOO_LONG", words, where="events"))
    found: list[_TypedEvent] = []
    problems: list[Problem] = []
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        try:
            value: object = json.loads(stripped, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            column = error.colno if isinstance(error, json.JSONDecodeError) else 1
            words = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            problems.append(
                Problem(
                    "NOT_JSON",
                    f"line {number} is no JSON: {words}",
                    where="events",
                    line=number,
                    column=column,
                )
            )
            continue
        if not isinstance(value, dict):
            words = f"line {number} is no JSON object"
            problems.append(Problem("NOT_AN_OBJECT", words, where="events", line=number, column=1))
            continue
        row = dict(cast("Mapping[str, Any]", value))
        input_ = row.pop(_INPUT, None)
        problem = _problem_of_place(number, row, input_)
        if problem is not None:
            problems.append(problem)
            continue
        found.append(_TypedEvent(number, input_, row))
    if len(found) > MOST_EVENTS:
        words = f"there are {len(found):,} events; the playground takes {MOST_EVENTS}"
        problems.append(Problem("TOO_MANY_EVENTS", words, where="events"))
    if problems:
        raise _Unusable(*problems)
    return found


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no value of JSON")


def _problem_of_place(number: int, row: Mapping[str, Any], input_: object) -> Problem | None:
    """What is wrong with the fields that say when and where an event arrives."""
    arrival, partition = row.get(_ARRIVAL), row.get(_PARTITION, 0)
    if arrival is not None and (not isinstance(arrival, str) or parse_ticks(arrival) is None):
        words, hint = f"{_ARRIVAL} is {arrival!r}", "write an ISO time such as 2026-01-01T00:00:05Z"
    elif isinstance(partition, bool) or not isinstance(partition, int) or not 0 <= partition < 32:
        words, hint = f"{_PARTITION} is {partition!r}", "write a number from 0 to 31"
    elif input_ is not None and not isinstance(input_, str):
        words, hint = f"{_INPUT} is {input_!r}", "write the name of an input"
    else:
        return None
    return Problem("NO_PLACE", f"line {number}: {words[:200]}", hint, where="events", line=number, column=1)


def _placed(topology: Topology, lines: Sequence[_TypedEvent]) -> list[tuple[_TypedEvent, _Place]]:
    """Every line with the partition it goes to."""
    names = {name.lower(): name for name in topology.fields}
    found: list[tuple[_TypedEvent, _Place]] = []
    problems: list[Problem] = []
    for line in lines:
        name = line.input or (next(iter(topology.fields)) if len(topology.fields) == 1 else None)
        known = None if name is None else names.get(name.lower())
        if known is None:
            words = "an event has to name its input" if name is None else f"the query reads no input {name!r}"
            hint = f'add "{_INPUT}": one of {", ".join(topology.fields)}'
            problems.append(Problem("NO_INPUT", words, hint, where="events", line=line.number, column=1))
        else:
            found.append((line, (known, partition_of(known, line.row))))
    if problems:
        raise _Unusable(*problems[:20])
    return found


def _sent(topology: Topology, placed: Sequence[tuple[_TypedEvent, _Place]]) -> dict[_Place, _Sent]:
    """The events by partition. A partition between others is one without events."""
    rows: dict[_Place, list[tuple[int, Mapping[str, Any]]]] = {}
    for name in topology.fields:
        last = max((place[1] for _, place in placed if place[0] == name), default=0)
        rows |= {(name, partition): [] for partition in range(last + 1)}
    for line, place in placed:
        rows[place].append((line.number, line.row))
    return {place: _Sent(each, _chunk(topology, place[0], each)) for place, each in rows.items()}


def _chunk(topology: Topology, input_: str, rows: Sequence[tuple[int, Mapping[str, Any]]]) -> Chunk:
    return chunk_of_rows(input_, rows, topology.fields[input_], topology.level)


def _rejections(topology: Topology, sent: Mapping[_Place, _Sent]) -> Iterator[Problem]:
    """The events that the deserializer refuses, each with its reason."""
    for (name, _), here in sent.items():
        decoded = set(here.whole.table[OFFSET].to_pylist())
        for line, row in here.rows:
            if line not in decoded:
                (rejected, *_) = _chunk(topology, name, [(line, row)]).rejected
                words = f"line {line} is refused: {rejected.message}"
                yield Problem("REFUSED", words, "", "warning", "events", line, 1)


def _events(topology: Topology, sent: Mapping[_Place, _Sent]) -> Iterator[PlayedEvent]:
    """Every event under every reader of its input, with what the policies decide."""
    found: list[PlayedEvent] = []
    for reader in topology.readers:
        for (name, partition), here in sent.items():
            if name != reader.input or not here.rows:
                continue
            table = here.whole.table
            lines: list[int] = table[OFFSET].to_pylist()
            arrives: list[bool] = table[ARRIVAL].is_valid().to_pylist()
            events = [
                # Without an arrival time an event arrives at its event time, as the scan has it.
                event
                if known or event.event_time_ticks is None
                else replace(event, arrival_time_ticks=event.event_time_ticks)
                for event, known in zip(
                    timed_events(table, reader, topology.level, partition), arrives, strict=True
                )
            ]
            simulation = simulate(events, reader.policies, bool(reader.over))
            found += [
                _event(line, name, partition, reader.id, row)
                for line, row in zip(lines, simulation.rows, strict=True)
            ]
    yield from sorted(found, key=lambda each: (each.reader, each.line))


def _event(line: int, input_: str, partition: int, reader: int, row: SimulatedRow) -> PlayedEvent:
    decision = row.decision
    outcome = "accepted" if decision is Decision.ACCEPTED else "adjusted" if decision.kept else "dropped"
    return PlayedEvent(
        line=line,
        input=input_,
        partition=partition,
        reader=reader,
        key=row.event.key,
        event_time_ticks=row.event.event_time_ticks,
        arrival_time_ticks=row.event.arrival_time_ticks,
        decision=decision.name.lower(),
        outcome=outcome,
        words=row.words,
        system_timestamp_ticks=row.system_timestamp_ticks if decision.kept else None,
        watermark_before_ticks=row.watermark_before_ticks,
        watermark_after_ticks=row.watermark_after_ticks,
    )


# ---------------------------------------------------------------- the run


@dataclass(slots=True)
class _Run:
    """The engine under the events, one a batch.

    watermarks: behind every event, the input watermark of every window operator by its number.
    """

    topology: Topology
    references: References
    rows: list[PlayedRow] = field(default_factory=list[PlayedRow])
    marks: list[PlayedWatermark] = field(default_factory=list[PlayedWatermark])
    watermarks: list[Mapping[int, int]] = field(default_factory=list[Mapping[int, int]])

    def all(self, places: Sequence[_Place], placed: Sequence[tuple[_TypedEvent, _Place]]) -> None:
        """Run all events, and then end the input."""
        driver = LocalDriver(self.topology, references=self.references)
        share = -(-len(placed) // _MOST_BATCHES)
        for first in range(0, len(placed), share):
            batch = placed[first : first + share]
            driven = [
                PartitionBatch(*place, [_chunk(self.topology, place[0], rows)] if rows else [])
                for place in places
                for rows in [[(line.number, line.row) for line, at in batch if at == place]]
            ]
            self._take(driver.run(driven), batch[-1][0].number)
        self._take(driver.run([PartitionBatch(*place) for place in places], final=True), None)

    def _take(self, messages: list[Message], line: int | None) -> None:
        for output, tables in rows_by_output(self.topology, messages).items():
            placed = [
                (place, row)
                for table in tables
                for place, row in zip(
                    zip(
                        *(table[name].to_pylist() for name in ORDER_COLUMNS if name in table.column_names),
                        strict=True,
                    ),
                    rows_of(table),
                    strict=True,
                )
            ]
            at = ORDER_COLUMNS.index(SYSTEM_TIMESTAMP)
            self.rows += [
                PlayedRow(output, place[at], _texts(row), line)
                for place, row in sorted(placed, key=lambda each: each[0])
            ]
        if line is None:
            return
        reports = BatchReports.of(messages)
        operators = [each for task in (*reports.partitions, *reports.stages) for each in task.operators]
        inputs = [each.watermark_ticks for each in reports.partitions]
        emitting = {op.id for op in self.topology.ops if isinstance(op, EmitOp)}
        outputs = [each.output_watermark_ticks for each in operators if each.operator in emitting]
        self.marks.append(PlayedWatermark(line, _least(inputs), _least(outputs)))
        windows = {op.id for op in self.topology.ops if isinstance(op, WindowOp)}
        self.watermarks.append(
            {each.operator: each.input_watermark_ticks for each in operators if each.operator in windows}
        )


def _texts(row: Mapping[str, Any]) -> tuple[tuple[str, str | None], ...]:
    """The values of a row as people read them.

    >>> _texts({"n": 2**60, "name": "a", "none": None, "is": True})
    (('n', '1152921504606846976'), ('name', 'a'), ('none', None), ('is', 'true'))
    """
    return tuple(
        (name, value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for name, value in row.items()
    )


def _least(watermarks_ticks: Sequence[int]) -> int | None:
    """The least watermark; None where some, or all, are unknown."""
    least = min(watermarks_ticks, default=BEFORE_ALL_TICKS)
    return None if least == BEFORE_ALL_TICKS else least
