"""The way of every event through the time policies, as a table one can read (`asa.md` 1.9).

The kernel of the ingress makes the decisions and keeps a trace, so the table shows what a job does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from rich import box
from rich.markup import escape
from rich.table import Table

from tideglass.core.errors import EvaluationError, ProjectError
from tideglass.core.time import (
    BEFORE_ALL_TICKS,
    TICKS_PER_DAY,
    TICKS_PER_HOUR,
    TICKS_PER_MICROSECOND,
    TICKS_PER_MILLISECOND,
    TICKS_PER_MINUTE,
    TICKS_PER_SECOND,
    format_ticks,
    parse_ticks,
)
from tideglass.ingress.decisions import Counters, Decision
from tideglass.ingress.partition_time import Ingress
from tideglass.ingress.policies import Decided, Trace, UnorderedLog, apply_policies
from tideglass.plan.policy_settings import Policies

_STYLE = {decision: "red" for decision in Decision if not decision.kept} | {Decision.ACCEPTED: ""}


@dataclass(frozen=True, slots=True)
class SimulatedEvent:
    """An event of one partition.

    label: what it is called in the table
    event_time_ticks: what TIMESTAMP BY reads; None: no time
    arrival_time_ticks: when it arrived
    key: the substream; None: no key
    """

    label: str
    event_time_ticks: int | None
    arrival_time_ticks: int
    key: str | None = None


@dataclass(frozen=True, slots=True)
class SimulatedRow:
    """An event, what the policies decided, and the watermark before and after it (of its substream, if there
    are any).

    event: the event as it arrived
    decision: what became of it
    words: the decision in words
    system_timestamp_ticks: the time it has in the query; None: it was dropped
    watermark_before_ticks: the watermark in force before it; None: there was none yet
    watermark_after_ticks: the watermark in force after it; None: there is none yet
    event_watermark_before_ticks: the part of the watermark before it that events alone make, as if arrival
        moved nothing
    event_watermark_after_ticks: the same after it
    """

    event: SimulatedEvent
    decision: Decision
    words: str
    system_timestamp_ticks: int | None
    watermark_before_ticks: int | None
    watermark_after_ticks: int | None
    event_watermark_before_ticks: int | None
    event_watermark_after_ticks: int | None


@dataclass(frozen=True, eq=False)
class Simulation:
    """The events of one partition in the order of arrival, and what the policies decided.

    events: the events
    policies: the time policies
    substreams: the events have substreams
    placed: decisions and system timestamps of the events
    trace: the watermark before and after each event
    """

    events: Sequence[SimulatedEvent]
    policies: Policies
    substreams: bool
    placed: Decided
    trace: Trace

    @property
    def counters(self) -> Counters:
        return self.placed.counters

    @cached_property
    def rows(self) -> tuple[SimulatedRow, ...]:
        """One row an event."""
        return tuple(self._rows())

    def _rows(self) -> Iterator[SimulatedRow]:
        trace = self.trace
        columns = (
            self.placed.decision,
            self.placed.system_timestamp_ticks,
            self.placed.arrival_time_ticks,
            trace.watermark_before_ticks,
            trace.watermark_after_ticks,
            trace.event_watermark_before_ticks,
            trace.event_watermark_after_ticks,
        )
        for event, number, timestamp, arrival, before, *more in zip(
            self.events, *(column.tolist() for column in columns), strict=True
        ):
            decision = Decision(number)
            yield SimulatedRow(
                event,
                decision,
                _words(decision, event.event_time_ticks, timestamp, arrival, before, self.policies),
                *(None if ticks == BEFORE_ALL_TICKS else ticks for ticks in (timestamp, before, *more)),
            )


def simulate(events: Sequence[SimulatedEvent], policies: Policies, substreams: bool = False) -> Simulation:
    """Put events, in the order of arrival, through the policies of one input partition.

    substreams: keep a watermark for each key (OVER). Without it the keys are only shown.
    Raises ProjectError for a watermark policy of a source with substreams, EvaluationError for an event that
    is out of order in a static set of time-ordered logs.
    """
    if substreams and (policies.source is not None or policies.percentile is not None):
        raise ProjectError("a watermark policy of a source with substreams (OVER) is not yet supported")
    bad = np.array([event.event_time_ticks is None for event in events], dtype=np.bool_)
    keys: pa.DictionaryArray | None = None
    if substreams:
        keys = pa.array((event.key for event in events), type=pa.string()).dictionary_encode()
    try:
        placed = apply_policies(
            policies,
            Ingress(),
            np.array([event.arrival_time_ticks for event in events], dtype=np.int64),
            np.array([event.event_time_ticks or 0 for event in events], dtype=np.int64),
            valid=~bad,
            substreams=keys,
            trace=True,
        )
    except UnorderedLog as error:
        raise EvaluationError(
            f"[UNORDERED_LOG] in a {policies.source} the event {events[error.place].label} has the time "
            f"{format_ticks(error.event_time_ticks)}, after one of {format_ticks(error.newest_ticks)}"
        ) from None
    assert placed.trace is not None  # it was asked for
    return Simulation(events, policies, substreams, placed, placed.trace)


def duration(ticks: int) -> str:
    """A span of time in words, its two largest units.

    >>> duration(7 * TICKS_PER_MINUTE), duration(TICKS_PER_HOUR + 90 * TICKS_PER_SECOND)
    ('7 min', '1 h 1 min')
    >>> duration(25_000_000), duration(30_000), duration(3), duration(0)
    ('2.5 s', '3 ms', '300 ns', '0 s')
    """
    if ticks < TICKS_PER_SECOND:
        if ticks % TICKS_PER_MICROSECOND or not ticks:
            return f"{ticks * 100} ns" if ticks else "0 s"
        return f"{ticks / TICKS_PER_MILLISECOND:.7g} ms"
    parts: list[str] = []
    for name, size in (("d", TICKS_PER_DAY), ("h", TICKS_PER_HOUR), ("min", TICKS_PER_MINUTE)):
        whole, ticks = divmod(ticks, size)
        if whole:
            parts.append(f"{whole} {name}")
    if ticks:
        parts.append(f"{ticks / TICKS_PER_SECOND:.7f}".rstrip("0").rstrip(".") + " s")
    return " ".join(parts[:2])


def clock(ticks: int | None, like: Sequence[int]) -> str:
    """A time of day, as exact as the times it stands among need, under its day if they span several."""
    if ticks is None:
        return "–"
    text = format_ticks(ticks)
    if any(t % TICKS_PER_MILLISECOND for t in like):
        time = f"{text[11:19]}\n{text[19:27]}"
    elif any(t % TICKS_PER_SECOND for t in like):
        time = text[11:23]
    else:
        time = text[11:19] if any(t % TICKS_PER_MINUTE for t in like) else text[11:16]
    return time if len({t // TICKS_PER_DAY for t in like}) <= 1 else f"{text[:10]}\n{time}"


def table(simulation: Simulation) -> Table:
    """The rows as in `asa.md` 1.9; fits 100 columns.

    The table shows the watermark in force; the last column is what the events alone would have made
    of it, and is left out where the times need more than hours and minutes.
    """
    like = [
        ticks
        for event in simulation.events
        for ticks in (event.event_time_ticks, event.arrival_time_ticks)
        if ticks is not None
    ]
    keyed = any(event.key is not None for event in simulation.events)
    roomy = all(ticks % TICKS_PER_MINUTE == 0 for ticks in like)
    w = "W(key)" if simulation.substreams else "W"
    shown = Table(
        box=box.SIMPLE_HEAD,
        caption=_caption(simulation),
        caption_justify="left",
        collapse_padding=True,
        pad_edge=False,
    )
    for name in ("#", "event", "arrival", *(["key"] if keyed else [])):
        shown.add_column(name, overflow="fold")
    for name in (f"{w}\nbefore", "System.\nTimestamp", "decision", f"{w}\nafter"):
        shown.add_column(name, overflow="fold")
    if roomy:
        shown.add_column("by events\nalone", style="dim")
    for row in simulation.rows:
        event = row.event
        cells = [event.label, clock(event.event_time_ticks, like), clock(event.arrival_time_ticks, like)]
        if keyed:
            cells.append(event.key or "–")
        cells += [clock(row.watermark_before_ticks, like), clock(row.system_timestamp_ticks, like)]
        cells += [row.words, clock(row.watermark_after_ticks, like)]
        if roomy:
            cells.append(clock(row.event_watermark_after_ticks, like))
        shown.add_row(*map(escape, cells), style=_STYLE.get(row.decision, "yellow"))
    return shown


def in_words(policies: Policies) -> str:
    """The settings in one line.

    >>> in_words(Policies(late_ticks=5 * TICKS_PER_SECOND))
    'Early 5 min, late 5 s, out of order 0 s, adjust'
    """
    if not policies.application_time:
        return "By arrival time: the policies do not apply"
    early = "off" if policies.early_ticks is None else duration(policies.early_ticks)
    late = "unlimited" if policies.late_ticks is None else duration(policies.late_ticks)
    order = duration(policies.out_of_order_ticks)
    words = f"Early {early}, late {late}, out of order {order}, {'drop' if policies.drop else 'adjust'}"
    if policies.source is not None:
        words += f", {policies.source}"
    return words if policies.percentile is None else f"{words}, watermark at percentile {policies.percentile}"


def _words(
    decision: Decision, event: int | None, timestamp: int, arrival: int, before: int, policies: Policies
) -> str:
    match decision:
        case Decision.ACCEPTED:
            return "as is"
        case Decision.DROPPED_BAD_TIMESTAMP:
            return "dropped, no timestamp"
        case Decision.DROPPED_NULL_KEY:
            return "dropped, no key"
        case _:
            time = arrival if event is None or not policies.application_time else event
    moved = duration(timestamp - time)
    late = f"{duration(arrival - time)} late"
    if policies.late_ticks is None or arrival - time <= policies.late_ticks:
        late = f"late, {duration(before - time)} behind W at {policies.percentile} %"
    match decision:
        case Decision.DROPPED_EARLY:
            return f"dropped, {duration(time - arrival)} early"
        case Decision.DROPPED_LATE:
            return f"dropped, {late}"
        case Decision.DROPPED_OUT_OF_ORDER:
            return f"dropped, out of order, {duration(before - time)} behind W"
        case Decision.ADJUSTED_OUT_OF_ORDER:
            return f"out of order, raised {moved} to W"
        case Decision.ADJUSTED_LATE:
            return f"{late}, raised by {moved}"
        case _:
            return f"{late}, out of order, raised {moved} to W"


def _caption(simulation: Simulation) -> str:
    counters, policies = simulation.counters, simulation.policies
    counts = f"{counters.accepted} as is, {counters.adjusted} adjusted, {counters.dropped} dropped. "
    return f"{counts}{in_words(policies)}.\nW is the watermark."


def _example() -> tuple[SimulatedEvent, ...]:
    times = (
        "12:07 12:07 device1, 12:08 12:08 device2, 12:17 12:11 device1, 12:08 12:13 device3, "
        "12:19 12:16 device1, 12:12 12:17 device3, 12:17 12:18 device2, 12:20 12:19 device2, "
        "12:16 12:21 device3, 12:23 12:22 device2, 12:22 12:24 device2, 12:21 12:27 device3"
    )
    events: list[SimulatedEvent] = []
    for number, text in enumerate(times.split(", "), start=1):
        event, arrival, key = text.split()
        at = {name: parse_ticks(f"2026-01-01T{time}Z") or 0 for name, time in (("e", event), ("a", arrival))}
        events.append(SimulatedEvent(str(number), at["e"], at["a"], key))
    return tuple(events)


#: The twelve events of the worked example (`asa.md` 1.9); the article has no date.
EXAMPLE = _example()
#: Its policies: scenarios 1 and 3. Scenario 2 is the same with `early_ticks=None`.
EXAMPLE_POLICIES = Policies(
    early_ticks=5 * TICKS_PER_MINUTE, late_ticks=5 * TICKS_PER_MINUTE, out_of_order_ticks=2 * TICKS_PER_MINUTE
)
