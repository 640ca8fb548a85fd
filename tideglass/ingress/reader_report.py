"""What the readers of a partition report of themselves, from their state after a batch; no row is looked at.

The rows the out-of-order policy keeps are the exception: the least of their times is one pass over a column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from tideglass.core.arrays import Ints, pc
from tideglass.core.time import BEFORE_ALL_TICKS, format_ticks
from tideglass.core.types import SYSTEM_TIMESTAMP
from tideglass.engine.substream_watermarks import MOST_FASTEST, MOST_SLOWEST, least_places
from tideglass.ingress.partition_time import Ingress
from tideglass.ingress.reports import HeldBy, ReaderReport, SubstreamReport
from tideglass.operators.holds import Component, Hold
from tideglass.plan.topology import Reader


def reader_report(reader: Reader, ingress: Ingress, kept: Sequence[pa.Table], *, final: bool) -> ReaderReport:
    """The report of a reader.

    kept: its rows ahead of the watermark, with `$ts`.
    final: the input has ended.
    """
    slowest, fastest = _substreams(reader, ingress)
    return ReaderReport(
        reader.id,
        ingress.counters,
        ingress.watermark_ticks,
        ingress.last_arrival_ticks,
        len(ingress.substreams),
        final,
        event_time_ticks=_event_time_ticks(reader, ingress),
        held_by=_held_by(reader, ingress, final),
        oldest_held_ticks=min((oldest_ticks(table) for table in kept), default=None),
        rows_held=sum(table.num_rows for table in kept),
        slowest=slowest,
        fastest=fastest,
        percentiles_ticks=ingress.in_flight.at_percents(),
    )


def oldest_ticks(rows: pa.Table) -> int:
    """The least time of rows."""
    return int(pc.min(rows[SYSTEM_TIMESTAMP]).as_py())


def buffer_holds(held: Mapping[int, pa.Table]) -> Mapping[int, tuple[Hold, ...]]:
    """By operator, the hold of rows that wait in the scan; they leave when the watermark reaches them."""
    return {
        op_id: (_buffer_hold(oldest_ticks(table), table.num_rows),)
        for op_id, table in held.items()
        if table.num_rows
    }


def _buffer_hold(least_ticks: int, rows: int) -> Hold:
    kind = "rows within the out-of-order tolerance"
    return Hold(Component.OUTPUT_BUFFER, kind, least_ticks, rows, least_ticks)


def _out_of_order_ticks(reader: Reader) -> int:
    return reader.policies.out_of_order_ticks if reader.policies.application_time else 0


def _event_time_ticks(reader: Reader, ingress: Ingress) -> int:
    """The newest time that counts; the watermark that events make is the out-of-order tolerance before it."""
    newest_ticks = ingress.event_watermark_ticks
    if len(ingress.substreams):
        newest_ticks = max(newest_ticks, int(ingress.substream_watermark_ticks.max()))
    if newest_ticks == BEFORE_ALL_TICKS:  # of a tracking subscription, whose events make no watermark alone
        return ingress.in_flight.at_percents([0]).get(0, BEFORE_ALL_TICKS)
    return newest_ticks + _out_of_order_ticks(reader)


def _held_by(reader: Reader, ingress: Ingress, final: bool) -> HeldBy | None:
    if final:
        return HeldBy.END_OF_INPUT
    if ingress.watermark_ticks == BEFORE_ALL_TICKS:
        return None
    at_ticks = ingress.percentile_watermark_ticks
    if at_ticks == ingress.watermark_ticks and at_ticks > ingress.event_watermark_ticks:
        return HeldBy.PERCENTILE
    by_events = ingress.event_watermark_ticks >= ingress.floor_ticks and reader.policies.application_time
    return HeldBy.EVENT_TIME if by_events else HeldBy.ARRIVAL_TIME


def _substreams(
    reader: Reader, ingress: Ingress
) -> tuple[tuple[SubstreamReport, ...], tuple[SubstreamReport, ...]]:
    """The slowest of the substreams ahead of the watermark, slowest first; the fastest, fastest first."""
    own_ticks = ingress.substream_watermark_ticks
    if len(own_ticks) == 0:
        return (), ()

    def reports(places: Ints) -> tuple[SubstreamReport, ...]:
        names = ingress.substreams.take(pa.array(places)).to_pylist()
        later_ticks = _out_of_order_ticks(reader)
        found = sorted(zip(own_ticks[places].tolist(), names, strict=True))
        return tuple(SubstreamReport(shown_name(name), ticks, ticks + later_ticks) for ticks, name in found)

    slowest = reports(least_places(own_ticks, MOST_SLOWEST))
    fastest = reports(least_places(-own_ticks, MOST_FASTEST))
    return slowest, fastest[::-1]


def shown_name(name: str) -> str:
    """The keys of a substream as people write them.

    name: of the partition, then the canonical text of each key (`core.columns.canonical_text`).

    >>> shown_name("0/i7,s5:toll 1n")
    '7, toll 1, NULL'
    """
    text = name.partition("/")[2]
    keys: list[str] = []
    while text:
        tag, text = text[0], text[1:]
        match tag:
            case "n":
                keys.append("NULL")
            case "b":
                keys.append("true" if text[0] == "1" else "false")
                text = text[1:]
            case "s" | "r" | "a":
                length, _, text = text.partition(":")
                keys.append(text[: int(length)])
                text = text[int(length) :]
            case "d":
                value, _, text = text.partition(",")
                keys.append(format_ticks(int(value)))
            case _:
                value, _, text = text.partition(",")
                keys.append(value)
    return ", ".join(keys)
