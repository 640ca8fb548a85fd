"""What the tables of `tideglass top` hold: their columns, and a row for each thing one can go into."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tideglass.core.time import AFTER_ALL_TICKS, TICKS_PER_SECOND
from tideglass.job.report.status import HolderStatus, StepStatus
from tideglass.terminal.figures import UNKNOWN, clock_text, count_text, short_span_text
from tideglass.terminal.job_snapshot import JobSnapshot


@dataclass(frozen=True, slots=True)
class ShownColumn:
    """A column of a table. width: in characters; right: figures."""

    title: str
    width: int
    right: bool = False


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row: key names the thing it shows, order its values to sort by, in the order of `Section.orders`."""

    key: str
    cells: tuple[str, ...]
    order: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """A table of one kind of thing.

    name: the title of its tab.
    columns: from left to right; all of them fit 78 characters.
    orders: names of what it can be sorted by, the largest first; without one it has the order of the job.
    rows: of a snapshot, in the order of the job.
    """

    name: str
    columns: tuple[ShownColumn, ...]
    orders: tuple[str, ...]
    rows: Callable[[JobSnapshot], list[TableRow]]


def sorted_rows(section: Section, rows: Sequence[TableRow], order: str | None) -> list[TableRow]:
    """The rows by one of the section's orders, the largest first; None: as they are."""
    if order is None:
        return list(rows)
    place = section.orders.index(order)
    return sorted(rows, key=lambda row: -row.order[place])


def _steps(snapshot: JobSnapshot) -> list[TableRow]:
    return [
        TableRow(
            str(each.operator),
            (
                str(each.operator),
                each.step,
                each.kind,
                clock_text(each.input_watermark_ticks),
                clock_text(each.output_watermark_ticks),
                short_span_text(each.data_watermark_lag_seconds),
                count_text(each.rows_in),
                count_text(each.rows_out),
                holder_text(each),
            ),
            (_or_least(each.data_watermark_lag_seconds), each.rows_in, each.rows_out),
        )
        for each in snapshot.status.steps
    ]


def holder_text(step: StepStatus) -> str:
    """What holds the output watermark of a step first, and where; "" where nothing is held."""
    if step.ranges_reported < step.ranges:
        return f"{step.ranges - step.ranges_reported} of {step.ranges} not reported"
    return _holder(step.holders[0]) if step.holders else ""


def _holder(holder: HolderStatus) -> str:
    return f"{holder.place}: {holder.kind}"


def _partitions(snapshot: JobSnapshot) -> list[TableRow]:
    return [
        TableRow(
            f"{each.input}/{each.partition}/{each.reader}",
            (
                f"{each.input}/{each.partition}" + (f"[{each.reader}]" if each.reader else ""),
                count_text(each.events),
                clock_text(each.watermark_ticks),
                short_span_text(each.delay_seconds),
                each.held_by or UNKNOWN,
                count_text(each.counters.get("LateInputEvents", 0)),
                count_text(each.counters.get("EarlyInputEvents", 0)),
                count_text(each.counters.get("DroppedOrAdjustedEvents", 0)),
                count_text(each.counters.get("DeserializationError", 0)),
                count_text(each.rows_held),
            ),
            (_or_least(each.delay_seconds), each.events, each.counters.get("LateInputEvents", 0)),
        )
        for each in snapshot.status.inputs
    ]


def _outputs(snapshot: JobSnapshot) -> list[TableRow]:
    return [
        TableRow(
            each.output,
            (
                each.output,
                each.connector,
                "not called" if each.alive is None else "alive" if each.alive else "FAILING",
                count_text(each.rows),
                (each.last_row or UNKNOWN)[11:19] or UNKNOWN,
                clock_text(each.last_row_ticks),
                count_text(each.calls),
                count_text(each.failed_calls),
                short_span_text(each.seconds / each.calls if each.calls else None),
            ),
            (each.rows, each.failed_calls),
        )
        for each in snapshot.status.outputs
    ]


def _substreams(snapshot: JobSnapshot) -> list[TableRow]:
    arrivals = {
        (each.input, each.partition, each.reader): each.last_arrival_ticks for each in snapshot.status.inputs
    }
    rows: list[TableRow] = []
    for each in sorted(snapshot.status.substreams, key=lambda found: found.watermark_ticks):
        newest = arrivals.get((each.input, each.partition, each.reader))
        known = newest is not None and each.watermark_ticks < AFTER_ALL_TICKS
        lag = max(0, newest - each.watermark_ticks) / TICKS_PER_SECOND if known and newest else None
        rows.append(
            TableRow(
                f"{each.input}/{each.partition}/{each.reader}/{each.name}",
                (
                    each.name,
                    f"{each.input}/{each.partition}",
                    clock_text(each.watermark_ticks),
                    clock_text(each.event_time_ticks),
                    short_span_text(lag),
                ),
                (_or_least(lag),),
            )
        )
    return rows


def _batches(snapshot: JobSnapshot) -> list[TableRow]:
    return [
        TableRow(
            str(each.batch),
            (
                str(each.batch),
                each.began[11:19],
                short_span_text(each.seconds),
                short_span_text(each.commit_seconds),
                count_text(each.events),
                count_text(each.rows),
                f"{count_text(each.events / each.seconds)}/s" if each.seconds else UNKNOWN,
            ),
            (each.seconds, each.events),
        )
        for each in reversed(snapshot.status.recent_batches)
    ]


def _errors(snapshot: JobSnapshot) -> list[TableRow]:
    return [
        TableRow(
            f"{each.input}/{each.partition}/{each.error_type}",
            (
                each.error_type.rpartition(".")[2],
                f"{each.input}/{each.partition}",
                count_text(each.count),
                each.last[11:19] or UNKNOWN,
                each.message,
            ),
            (each.count,),
        )
        for each in snapshot.status.errors
    ]


def _or_least(value: float | None) -> float:
    return -1.0 if value is None else value


#: The tabs, from left to right.
SECTIONS: tuple[Section, ...] = (
    Section(
        "Steps",
        (
            ShownColumn("#", 2, right=True),
            ShownColumn("step", 10),
            ShownColumn("operation", 15),
            ShownColumn("input", 8),
            ShownColumn("output", 8),
            ShownColumn("lag", 6, right=True),
            ShownColumn("rows in", 7, right=True),
            ShownColumn("out", 5, right=True),
            ShownColumn("held by", 60),
        ),
        ("lag", "rows in", "rows out"),
        _steps,
    ),
    Section(
        "Inputs",
        (
            ShownColumn("partition", 12),
            ShownColumn("events", 6, right=True),
            ShownColumn("watermark", 9),
            ShownColumn("delay", 6, right=True),
            ShownColumn("set by", 12),
            ShownColumn("late", 5, right=True),
            ShownColumn("early", 5, right=True),
            ShownColumn("ooo", 5, right=True),
            ShownColumn("bad", 5, right=True),
            ShownColumn("held", 5, right=True),
        ),
        ("delay", "events", "late"),
        _partitions,
    ),
    Section(
        "Outputs",
        (
            ShownColumn("output", 14),
            ShownColumn("kind", 9),
            ShownColumn("state", 10),
            ShownColumn("rows", 6, right=True),
            ShownColumn("last row", 8),
            ShownColumn("its time", 8),
            ShownColumn("calls", 5, right=True),
            ShownColumn("failed", 6, right=True),
            ShownColumn("a call", 6, right=True),
        ),
        ("rows", "failed"),
        _outputs,
    ),
    Section(
        "Substreams",
        (
            ShownColumn("substream", 26),
            ShownColumn("partition", 14),
            ShownColumn("watermark", 9),
            ShownColumn("newest", 8),
            ShownColumn("lag", 6, right=True),
        ),
        ("lag",),
        _substreams,
    ),
    Section(
        "Batches",
        (
            ShownColumn("batch", 7, right=True),
            ShownColumn("began", 8),
            ShownColumn("took", 7, right=True),
            ShownColumn("commit", 7, right=True),
            ShownColumn("events", 7, right=True),
            ShownColumn("rows", 7, right=True),
            ShownColumn("rate", 8, right=True),
        ),
        ("took", "events"),
        _batches,
    ),
    Section(
        "Errors",
        (
            ShownColumn("kind", 21),
            ShownColumn("partition", 12),
            ShownColumn("events", 6, right=True),
            ShownColumn("last", 8),
            ShownColumn("message", 24),
        ),
        ("events",),
        _errors,
    ),
)
