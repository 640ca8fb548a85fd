"""The query of a job for observers: its text, where its steps are, and the time settings it runs under.

A run writes it at its start, since the project may change or be gone while somebody looks at the job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tideglass.core.documents import Document
from tideglass.core.errors import Source, Span
from tideglass.core.time import ORIGIN_TICKS, TICKS_PER_SECOND
from tideglass.job.directory import JobDirectory
from tideglass.job.options import JobPlan
from tideglass.plan.output_timestamp import OutputTimestamp, PairTimestamp
from tideglass.plan.policy_settings import Policies
from tideglass.plan.topology import JoinOp, Reader, WindowOp
from tideglass.plan.windows import Hopping, Session, Sliding, Window


@dataclass(frozen=True, slots=True)
class StepPlace:
    """Where a step of the query is in its text.

    name: of the step of WITH, or of the output the statement writes to.
    kind: "step" or "output".
    start, end: offsets in characters; the end is not included.
    line, column, end_line, end_column: the same, from 1.
    """

    name: str
    kind: str
    start: int
    end: int
    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class ReaderOutline:
    """A reader and its time policies (`Policies`).

    reader: its number in the topology.
    input: the name of the input.
    application_time: it has TIMESTAMP BY; without it the tolerances do not apply.
    substreams: it has OVER.
    early_seconds, late_seconds: the tolerances; None: no limit.
    out_of_order_seconds: the tolerance.
    policy: "adjust" or "drop".
    source: what the settings say of the source (`SourceKind`); None: nothing.
    percentile: the watermark is at least at this percentage of the events in flight; None: it is not.
    """

    reader: int
    input: str
    application_time: bool
    substreams: bool
    early_seconds: float | None
    late_seconds: float | None
    out_of_order_seconds: float
    policy: str
    source: str | None = None
    percentile: int | None = None


@dataclass(frozen=True, slots=True)
class WindowOutline:
    """A window of an operator.

    operator: its number in the topology.
    text: the window in words.
    kind: "tumbling", "hopping", "sliding", "session" or "snapshot".
    size_seconds: its length, of a session the longest; 0 for a snapshot.
    hop_seconds: from one end to the next; None where rows decide the ends.
    aligned_at_ticks: a time at which a window ends; None where rows decide the ends.
    timeout_seconds: of a session; None for other kinds.
    """

    operator: int
    text: str
    kind: str
    size_seconds: float
    hop_seconds: float | None = None
    aligned_at_ticks: int | None = None
    timeout_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class QueryOutline:
    """What a page shows of a query.

    job: name of the project.
    file: name of the file of the query.
    text: the query.
    key_groups: number of key groups.
    steps: the steps of WITH, then the statements, each in the order of the text.
    readers: in the order of the topology.
    windows: in the order of their operators.
    stamped: by operator, the time its results have where the settings choose one (`OutputTimestamps`).
    """

    job: str
    file: str
    text: str
    key_groups: int
    steps: tuple[StepPlace, ...] = ()
    readers: tuple[ReaderOutline, ...] = ()
    windows: tuple[WindowOutline, ...] = ()
    stamped: Mapping[int, str] = field(default_factory=dict[int, str])


_DOCUMENT = Document(QueryOutline)


def outline_of(job: JobPlan) -> QueryOutline:
    """The outline of a job that is ready to run."""
    compiled, topology = job.compiled, job.compiled.topology
    source = compiled.source
    named = [(name, "step", span) for name, span in compiled.steps.items()]
    named += [(output.name, "output", output.span) for output in compiled.plan.outputs]
    return QueryOutline(
        job=job.name,
        file=Path(source.name).name,
        text=source.text,
        key_groups=topology.key_groups,
        steps=tuple(_place(source, name, kind, span) for name, kind, span in named),
        readers=tuple(map(_reader, topology.readers)),
        windows=tuple(
            _window(op.id, window)
            for op in topology.ops
            if isinstance(op, WindowOp)
            for window in op.spec.windows
        ),
        stamped={
            op.id: op.spec.output_timestamp.value
            for op in topology.ops
            if isinstance(op, WindowOp | JoinOp)
            and op.spec.output_timestamp not in (OutputTimestamp.END_OF_WINDOW, PairTimestamp.LATER)
        },
    )


def write_outline(directory: JobDirectory, outline: QueryOutline) -> None:
    """Replace the outline of the run before. No run depends on it, so nobody waits for the disk."""
    directory.query.write(f"{_DOCUMENT.text(outline, indent=1)}\n".encode(), synced=False)


def read_outline(directory: JobDirectory) -> QueryOutline | None:
    """The outline the last run has written; None for a job whose runs wrote none, or one that is damaged."""
    try:
        return _DOCUMENT.of_text(directory.query.read_bytes())
    except (OSError, ValueError):
        return None


def _place(source: Source, name: str, kind: str, span: Span) -> StepPlace:
    line, column = source.line_column(span.start)
    end_line, end_column = source.line_column(span.end)
    return StepPlace(name, kind, span.start, span.end, line, column, end_line, end_column)


def _reader(reader: Reader) -> ReaderOutline:
    policies: Policies = reader.policies
    return ReaderOutline(
        reader=reader.id,
        input=reader.input,
        application_time=policies.application_time,
        substreams=bool(reader.over),
        early_seconds=_seconds(policies.early_ticks),
        late_seconds=_seconds(policies.late_ticks),
        out_of_order_seconds=policies.out_of_order_ticks / TICKS_PER_SECOND,
        policy="drop" if policies.drop else "adjust",
        source=None if policies.source is None else policies.source.value,
        percentile=policies.percentile,
    )


def _window(operator: int, window: Window) -> WindowOutline:
    match window:
        case Hopping(size_ticks=size, hop_ticks=hop, offset_ticks=offset):
            return WindowOutline(
                operator,
                window.text,
                "tumbling" if hop == size else "hopping",
                size / TICKS_PER_SECOND,
                hop / TICKS_PER_SECOND,
                ORIGIN_TICKS + offset,
            )
        case Sliding(size_ticks=size):
            return WindowOutline(operator, window.text, "sliding", size / TICKS_PER_SECOND)
        case Session(timeout_ticks=timeout, max_duration_ticks=longest):
            return WindowOutline(
                operator,
                window.text,
                "session",
                longest / TICKS_PER_SECOND,
                timeout_seconds=timeout / TICKS_PER_SECOND,
            )
        case _:
            return WindowOutline(operator, window.text, "snapshot", 0.0)


def _seconds(ticks: int | None) -> float | None:
    return None if ticks is None else ticks / TICKS_PER_SECOND
