"""Plays a query on the in-process driver in any manner: batches, chunks, key groups, restarts.

A `Manner` says how the same events reach the engine. Whatever it says, the rows must be the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from tideglass.compile import Compiled
from tideglass.connect.reference.references import NO_REFERENCES, References, inline_rows
from tideglass.core.errors import EvaluationError, QueryError
from tideglass.core.ipc import from_bytes, to_bytes
from tideglass.core.time import parse_ticks
from tideglass.core.types import SUBSTREAM, SYSTEM_TIMESTAMP
from tideglass.engine.exchange import RowSink, Sink
from tideglass.engine.key_group import KeyGroupTask
from tideglass.engine.messages import WATERMARKS, Kind, Message
from tideglass.engine.output_filter import OutputFilter
from tideglass.ingress.idle_periods import IdlePeriod, first_reaching
from tideglass.ingress.reports import BatchReports, PartitionReport
from tideglass.ingress.scan import Chunk, IdleTime, ScanState
from tideglass.job.report.metrics import Metrics
from tideglass.local import LocalDriver, LocalState, PartitionBatch, rows_by_output
from tideglass.operators.progress import Progress
from tideglass.operators.state.store import MemoryState, State
from tideglass.operators.windows.hopping import TIME
from tideglass.plan.topology import Topology
from tideglass.project.settings import from_options
from tideglass.testing import (
    ARRIVAL_FIELD,
    PARTITION_FIELD,
    chunk_of_rows,
    compile_rows,
    input_infos,
    rows_in_order,
)

Row = Mapping[str, Any]
Inputs = Mapping[str, Sequence[Row]]
#: An input and one of its partitions.
Place = tuple[str, int]
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Manner:
    """How events reach the engine.

    takes: how many rows each partition gives in each batch, dealt out round and round.
    chunk_rows: a partition's rows of one batch come in chunks of so many.
    rotate, reverse: the order in which partitions are scanned.
    restarts: after how many batches everything but the checkpoint is thrown away; 0 for never.
    end_apart: the end of the inputs is a batch of its own.
    """

    takes: tuple[int, ...] = (1000,)
    chunk_rows: int = 1000
    key_groups: int = 3
    rotate: int = 0
    reverse: bool = False
    restarts: int = 0
    end_apart: bool = False


#: Everything at once, as the test kit does it.
AT_ONCE = Manner()


def manners() -> st.SearchStrategy[Manner]:
    return st.builds(
        Manner,
        takes=st.lists(st.integers(0, 5), min_size=1, max_size=5).filter(any).map(tuple),
        chunk_rows=st.sampled_from([1000, 1, 2, 3]),
        key_groups=st.sampled_from([3, 1, 2, 7]),
        rotate=st.integers(0, 3),
        reverse=st.booleans(),
        restarts=st.sampled_from([0, 1, 2, 3]),
        end_apart=st.booleans(),
    )


@dataclass
class Played:
    """What came of a run.

    tables: the rows as they came, per output. silences: the idle periods the scans told of.
    reports: those of each batch.
    """

    compiled: Compiled
    rows: dict[str, Rows]
    metrics: Metrics
    watched: Watched
    batches: int
    tables: Mapping[str, list[pa.Table]] = field(default_factory=dict[str, Any])
    idle_periods: dict[Place, list[IdlePeriod]] = field(default_factory=dict[Any, Any])
    stop: Stop | None = None
    reports: Sequence[BatchReports] = ()


@dataclass(frozen=True)
class Stop:
    """Where a run was stopped: events given and watermark of every partition."""

    given: Mapping[Place, int]
    watermark_ticks: Mapping[Place, int]


@dataclass(frozen=True)
class Begin:
    """How a run begins that is not the first.

    read_from_ticks: per input, arrival before which no event is read. from_ticks: of the rows given.
    idle_periods: of the first reading. raised_from_ticks: per input, see `ReadBack`.
    behind: give what comes after another run was stopped there; what comes up to it is thrown away.
    """

    read_from_ticks: Mapping[str, int | None] = field(default_factory=dict[str, Any])
    from_ticks: Mapping[str, int] = field(default_factory=dict[str, int])
    idle_periods: Mapping[Place, Sequence[IdlePeriod]] = field(default_factory=dict[Any, Any])
    raised_from_ticks: Mapping[str, int | None] = field(default_factory=dict[str, Any])
    behind: Stop | None = None

    def first(self, place: Place, rows: Sequence[Row]) -> int:
        """The first event of a partition that is read."""
        least_ticks = self.read_from_ticks.get(place[0])
        if least_ticks is None:
            return 0
        arrivals = [parse_ticks(row[ARRIVAL_FIELD]) or 0 for row in rows]
        found = next((n for n, ticks in enumerate(arrivals) if ticks >= least_ticks), len(rows))
        raised_ticks = self.raised_from_ticks.get(place[0])
        raised = (
            None if raised_ticks is None else first_reaching(self.idle_periods.get(place, ()), raised_ticks)
        )
        return found if raised is None else min(found, raised)


@dataclass
class Watched:
    """What the stages are told of event time, per level, key group and exchange.

    `breaches` are broken promises: a watermark that runs backwards where senders meet, a row behind
    the watermark its sender told before.
    """

    joint: dict[tuple[int, int, int], Progress] = field(default_factory=dict[Any, Progress])
    told: dict[tuple[int, int, int, str], Progress] = field(default_factory=dict[Any, Progress])
    seen: set[str] = field(default_factory=set[str])
    history: dict[tuple[int, int, int], list[int]] = field(default_factory=dict[Any, list[int]])
    breaches: list[str] = field(default_factory=list[str])

    def take(self, level: int, key_group: int, messages: Sequence[Message]) -> None:
        """The messages of one batch for one key group: rows first, against the marks of before."""
        here = [m for m in messages if m.level == level]
        for message in here:
            if message.kind is Kind.DATA:
                self._rows(level, key_group, message)
        ahead = {(m.target, m.sender): from_bytes(m.body) for m in here if m.kind is Kind.SUBSTREAMS}
        self.seen |= {key for table in ahead.values() for key in table["substream"].to_pylist()}
        marks: dict[int, list[Progress]] = {}
        for message in here:
            if message.kind is Kind.WATERMARK:
                for send, ticks in WATERMARKS.of_body(message.body).items():
                    came = Progress(ticks, ahead.get((send, message.sender)))
                    self.told[level, key_group, send, message.sender] = came
                    marks.setdefault(send, []).append(came)
        keys = pa.array(["", *sorted(self.seen)])
        for send, told in marks.items():
            place = (level, key_group, send)
            came = Progress.of_senders(told)
            before = self.joint.get(place, Progress())
            for key, now, was in zip(keys.to_pylist(), came.of(keys), before.of(keys), strict=True):
                if now < was:
                    self.breaches.append(f"{place}: watermark of {key!r} from {was} back to {now}")
            self.joint[place] = came
            self.history.setdefault(place, []).append(came.watermark_ticks)

    def _rows(self, level: int, key_group: int, message: Message) -> None:
        table = from_bytes(message.body)
        came = self.told.get((level, key_group, message.target, message.sender), Progress())
        limits = np.full(table.num_rows, came.watermark_ticks)
        if SUBSTREAM in table.column_names:
            limits = came.of(table[SUBSTREAM])
            self.seen |= set(table[SUBSTREAM].to_pylist())
        times = table[TIME if TIME in table.column_names else SYSTEM_TIMESTAMP].to_numpy()
        if (times < limits).any():
            self.breaches.append(f"{message.sender} to {key_group}: a row behind the watermark")


class WatchedTask:
    """A key group task that lets `watched` see what it is given."""

    def __init__(self, task: KeyGroupTask, watched: Watched) -> None:
        self.task, self.watched = task, watched

    def run(self, key_group: int, messages: Sequence[Message], state_of: Any) -> list[Message]:
        messages = list(messages)
        self.watched.take(self.task.level, key_group, messages)
        return self.task.run(key_group, messages, state_of)


def checkpoint(driver: LocalDriver) -> dict[str, Any]:
    """All state of a driver as bytes and plain values."""
    stages: dict[Any, Any] = {}
    for place, state in driver.state.stages.items():
        buckets = {bucket: [to_bytes(chunk) for chunk in state.read(bucket)] for bucket in state.buckets()}
        stages[place] = (buckets, dict(values_of(state)))
    return {"scans": dict(driver.state.scans), "stages": stages}


def restored(
    topology: Topology,
    saved: Mapping[str, Any],
    sink: Sink | None = None,
    references: References = NO_REFERENCES,
) -> LocalDriver:
    """A new driver that goes on from a checkpoint."""
    driver = LocalDriver(topology, sink, references)
    driver.state = LocalState(scans=dict(saved["scans"]))
    for place, (buckets, values) in saved["stages"].items():
        state = MemoryState()
        for bucket, chunks in buckets.items():
            for chunk in chunks:
                state.append(bucket, from_bytes(chunk))
        for name, value in values.items():
            state.put(name, value)
        driver.state.stages[place] = state
    return driver


def reopened(state: MemoryState) -> MemoryState:
    """The state as it is read from what was written of it."""
    again = MemoryState()
    for bucket in state.buckets():
        for chunk in state.read(bucket):
            again.append(bucket, from_bytes(to_bytes(chunk)))
    for name, value in values_of(state).items():
        again.put(name, value)
    return again


def values_of(state: State) -> Mapping[str, bytes]:
    """The named values of a MemoryState."""
    return state._values  # type: ignore[attr-defined]


def compiled_for(
    query: str,
    inputs: Inputs,
    settings: Mapping[str, Any] | None,
    key_groups: int = 3,
    reference: Mapping[str, Any] | None = None,
    functions: Mapping[str, str] | None = None,
) -> Compiled:
    known = input_infos(inputs, reference or {})
    return compile_rows(query, inputs, from_options(settings), functions, key_groups, known)


def play(
    query: str,
    inputs: Inputs,
    settings: Mapping[str, Any] | None = None,
    manner: Manner = AT_ONCE,
    idle_periods: Sequence[float] = (),
    partitions: int = 3,
    begin: Begin | None = None,
    stop_after: int | None = None,
    reference: Mapping[str, Any] | None = None,
    functions: Mapping[str, str] | None = None,
) -> Played:
    """Run a query on events that reach the engine in the given manner.

    idle_periods: shares of a partition's true wait for its next event that are known as silence at the end of
    a batch, dealt out round and round; with nothing left to come, a share of an hour. A share above 1 says
    that the next event came earlier than the clock made believe. stop_after: so many batches, and no end.
    """
    begin = begin or Begin()
    compiled = compiled_for(query, inputs, settings, manner.key_groups, reference, functions)
    topology = compiled.topology
    references = inline_rows(topology.references, reference or {})
    queues = queues_of(topology, inputs, partitions)
    given = {place: begin.first(place, rows) for place, rows in queues.items()}
    sink = OutputFilter(RowSink(), begin.from_ticks)
    driver = LocalDriver(topology, sink, references)
    for place, first in given.items():
        driver.state.scans[place] = ScanState(next_offset=first).to_bytes()
    metrics, watched = Metrics(), Watched()
    messages: list[Message] = []
    all_reports: list[BatchReports] = []
    told: dict[Place, list[IdlePeriod]] = {}
    batches = 0

    def run(shares: list[PartitionBatch], final: bool, keep: bool = True) -> None:
        nonlocal batches, driver
        watch(driver, watched)
        turn = manner.rotate % max(1, len(shares))
        shares = shares[turn:] + shares[:turn]
        came = driver.run(shares[::-1] if manner.reverse else shares, final=final)
        reports = BatchReports.of(came)
        metrics.take_batch(reports, {})
        all_reports.append(reports)
        for report in reports.partitions:
            take_idle_period(told, report)
        messages.extend(came if keep else ())
        batches += 1
        if manner.restarts and batches % manner.restarts == 0:
            driver = restored(topology, checkpoint(driver), sink, references)

    def batch(until: Mapping[Place, int]) -> list[PartitionBatch]:
        shares: list[PartitionBatch] = []
        for number, (place, rows) in enumerate(queues.items()):
            first = given[place]
            last = max(first, min(until[place], first + manner.takes[(batches + number) % len(manner.takes)]))
            given[place] = last
            idle_time = None
            if idle_periods:
                idle_time = idle_time_of(rows, last, idle_periods[(batches + number) % len(idle_periods)])
            chunks = chunks_of(topology, place[0], rows[first:last], first, manner.chunk_rows)
            shares.append(PartitionBatch(*place, chunks, idle_time, begin.idle_periods.get(place, ())))
        return shares

    if begin.behind is not None:  # up to there, and in a batch of its own, nothing is given
        run(batch(given), final=False, keep=False)
        while any(given[place] < begin.behind.given[place] for place in queues):
            run(batch(begin.behind.given), final=False, keep=False)
    while stop_after is None or batches < stop_after:
        shares = batch({place: len(rows) for place, rows in queues.items()})
        last_batch = stop_after is None and all(given[place] == len(rows) for place, rows in queues.items())
        run(shares, final=last_batch and not manner.end_apart)
        if last_batch:
            break
    if manner.end_apart and stop_after is None:
        run(
            [PartitionBatch(*place, idle_periods=begin.idle_periods.get(place, ())) for place in queues],
            final=True,
        )
    tables = rows_by_output(topology, messages)
    rows_out = {name: rows_in_order(parts) for name, parts in tables.items()}
    stop = None
    if stop_after is not None:
        scans = {place: ScanState.from_bytes(driver.state.scans[place]) for place in queues}
        stop = Stop(
            given,
            {place: min(i.watermark_ticks for i in scan.ingress.values()) for place, scan in scans.items()},
        )
    return Played(compiled, rows_out, metrics, watched, batches, tables, told, stop, all_reports)


def take_idle_period(told: dict[Place, list[IdlePeriod]], report: PartitionReport) -> None:
    """What a scan says of an idle period; one that proves to have changed nothing is forgotten."""
    known = told.setdefault((report.input, int(report.partition)), [])
    if report.idle_held:
        last = max((each.offset for each in known if each.offset < report.next_offset), default=None)
        known[:] = [each for each in known if each.offset != last]
    if report.quiet_until_ticks is not None:
        known.append(IdlePeriod(report.next_offset, report.quiet_until_ticks))


def watch(driver: LocalDriver, watched: Watched) -> None:
    """From now on every stage's messages pass before `watched`."""
    tasks: dict[int, Any] = driver._tasks  # type: ignore[assignment]
    for level, task in tasks.items():
        if not isinstance(task, WatchedTask):
            tasks[level] = WatchedTask(task, watched)


def queues_of(topology: Topology, inputs: Inputs, partitions: int) -> dict[tuple[str, int], list[Row]]:
    """The rows of every partition of every input the topology reads."""
    queues: dict[tuple[str, int], list[Row]] = {}
    for name in topology.fields:
        for partition in range(partitions):
            queues[name, partition] = [
                row for row in inputs[name] if row.get(PARTITION_FIELD, 0) == partition
            ]
    return queues


def chunks_of(
    topology: Topology, name: str, rows: Sequence[Row], first_offset: int, chunk_rows: int
) -> list[Chunk]:
    numbered = [(first_offset + n, row) for n, row in enumerate(rows)]
    return [
        chunk_of_rows(topology, name, numbered[start : start + chunk_rows])
        for start in range(0, len(numbered), chunk_rows)
    ]


def idle_time_of(rows: Sequence[Row], given: int, share: float) -> IdleTime | None:
    """A share of the true wait between the last event given and the next one."""
    arrivals = [parse_ticks(row[ARRIVAL_FIELD]) or 0 for row in rows]
    started = min(arrivals, default=0)
    since = arrivals[given - 1] if given else started
    until = arrivals[given] if given < len(rows) else since + 36_000_000_000
    elapsed = int((until - since) * share)
    return IdleTime(elapsed) if given else IdleTime(elapsed, started)


def exact(rows: Mapping[str, Rows]) -> dict[str, list[str]]:
    """Rows as text in which every bit and every type shows, as multisets."""
    return {name: sorted(repr(sorted(row.items())) for row in of) for name, of in rows.items()}


def play_or_refusal(
    query: str, inputs: Inputs, settings: Mapping[str, Any] | None = None, manner: Manner = AT_ONCE
) -> dict[str, list[str]] | str:
    """The exact rows of a run, or that it stops or is not supported."""
    try:
        return exact(play(query, inputs, settings, manner).rows)
    except EvaluationError:
        return "stops"
    except QueryError as error:
        if any(d.code != "NOT_YET_SUPPORTED" for d in error.diagnostics):
            raise
        return "not yet supported"
