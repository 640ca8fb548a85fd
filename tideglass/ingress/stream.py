"""The ingress of one input that Spark reads: chunks in, messages out.

Our own source scans where it reads (`spark.file_source`). Spark's sources spread the rows of a partition over
tasks, so the rows of each partition are brought together, put into order and scanned here, in one stateful
operator. The states of the scans are part of its state, so a batch that runs again starts from where the last
one ended.

A run that must build its state anew reads again what the run before had read. Spark decides where a batch of
such a source ends, so later events wait here until all inputs have read that much (`docs/decisions/0010`): no
batch mixes rows that were emitted with rows that were not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from tideglass.connect.dataframes.input import ALONE, FrameChunk, in_order
from tideglass.connect.reference.references import NO_REFERENCES, References
from tideglass.core.documents import Document
from tideglass.core.errors import StateError
from tideglass.core.events import Chunk, Known
from tideglass.core.partition_numbers import partition_numbers
from tideglass.core.time import BEFORE_ALL_TICKS, TICKS_PER_MILLISECOND
from tideglass.core.types import OFFSET
from tideglass.engine.exchange import Exchange, Sink
from tideglass.engine.messages import KNOWN_SNAPSHOTS, Kind, Message
from tideglass.ingress.idle_periods import IdlePeriod
from tideglass.ingress.late_partitions import PartitionShare, late_partition_states
from tideglass.ingress.partition_watermarks import Watermarks
from tideglass.ingress.read_from import ANEW, InputBegin
from tideglass.ingress.scan import IdleTime, Scan, ScanState
from tideglass.operators.state.store import State
from tideglass.plan.topology import Topology, check_partitions

_RECORD = "record"
_KEPT = "chunk"


@dataclass(frozen=True, slots=True)
class KnownPartition:
    """A partition of the input.

    number: of the partition in its input.
    since_ms: since when it has been idle, milliseconds of the epoch.
    next_offset: no event to come has a lesser offset.
    """

    number: int
    since_ms: int
    next_offset: int = 0


@dataclass(slots=True)
class IngressRecord:
    """What an ingress keeps besides the states of its scans.

    job: names what the state belongs to; None where whoever starts the run sees to that.
    partitions: by name.
    ended: the input has ended.
    known: how many snapshots of each reference input count, by the last message that said so.
    replaying: what the run before had read is being read again.
    kept: the partitions with later events that wait until then; the chunks of one are in the bucket of its
        place in this list.
    """

    job: str | None
    partitions: dict[str, KnownPartition] = field(default_factory=dict[str, KnownPartition])
    ended: bool = False
    known: dict[str, int] = field(default_factory=dict[str, int])
    replaying: bool = False
    kept: list[str] = field(default_factory=list[str])


_DOCUMENT = Document(IngressRecord)


@dataclass(slots=True)
class _Received:
    """The messages of a batch, by what they say."""

    chunks: dict[str, list[FrameChunk]] = field(default_factory=dict[str, list[FrameChunk]])
    known: dict[str, int] = field(default_factory=dict[str, int])
    final: bool = False
    replayed: bool = False

    @classmethod
    def of(cls, messages: Iterable[Message]) -> _Received:
        result = cls()
        for message in messages:
            match message.kind:
                case Kind.CHUNK:
                    chunk = FrameChunk.from_bytes(message.sender, message.body)
                    result.chunks.setdefault(message.sender, []).append(chunk)
                case Kind.KNOWN:
                    result.known |= KNOWN_SNAPSHOTS.of_body(message.body)
                case Kind.END:
                    result.final = True
                case Kind.REPLAYED:
                    result.replayed = True
                case _:  # a profile, which is for the driver
                    pass
        return result

    def in_order(
        self, partitions: Mapping[str, KnownPartition]
    ) -> tuple[dict[str, list[Chunk]], dict[str, int]]:
        """Per partition its chunks in order, and the offset after them."""
        chunks: dict[str, list[Chunk]] = {}
        next_offsets: dict[str, int] = {}
        for name in sorted(self.chunks):
            next_offset = partitions[name].next_offset if name in partitions else 0
            chunks[name], next_offsets[name] = in_order(self.chunks[name], next_offset)
        return chunks, next_offsets


@dataclass(frozen=True, slots=True)
class _Batch:
    """What an ingress scans in a batch.

    chunks: per partition with events.
    next_offsets: per partition with messages, the offset after them.
    final: the input ends with the batch.
    released: from this batch on, events are read that the run before had not.
    clock_ms: the time from which idle time is counted; None: no idle time is reported.
    """

    chunks: Mapping[str, list[Chunk]]
    next_offsets: Mapping[str, int]
    final: bool
    released: bool
    clock_ms: int | None

    def never_had_events(self, partition: str, state: ScanState) -> bool:
        """Whether a partition has no event yet."""
        return partition not in self.chunks and not state.has_events


class IngressTask:
    """Scans one input. Made once per worker; holds no rows between runs.

    job: names what the state belongs to, and the state of another job is refused; None: whoever starts the
        run sees to that.
    references: reference data.
    known: how many snapshots of each reference input count where no message says so.
    begin: where the state begins, if there is none yet.
    share: number of this ingress among those of the input, each of which scans the partitions whose numbers
        leave that remainder; 0 where it is the only one.
    """

    def __init__(
        self,
        topology: Topology,
        input_name: str,
        sink: Sink,
        job: str | None,
        references: References = NO_REFERENCES,
        known: Known | None = None,
        begin: InputBegin = ANEW,
        share: int = 0,
    ) -> None:
        self.topology = topology
        self.share = share
        self.input_name = input_name
        self.sink = sink
        self.job = job
        self.begin = begin
        self._known = known or {}
        self._scan = Scan(topology, input_name, references)

    @property
    def idles(self) -> bool:
        """Whether idle time moves a watermark of this input at all (A-04)."""
        return any(reader.policies.floor_lag_ticks is not None for reader in self._scan.readers)

    def run(
        self,
        messages: Iterable[Message],
        state: State,
        now_ms: int | None = None,
        elsewhere: Callable[[], Watermarks] | None = None,
    ) -> list[Message]:
        """Scan a batch of every known partition, also of those without events.

        messages: CHUNK, END, REPLAYED and KNOWN.
        now_ms: the time of the batch, the same when it runs again; None: idle time is not reported.
        elsewhere: gives the watermarks of all partitions of the input before the batch; None: all of them are
            scanned here.
        """
        record = self._load(state, now_ms)
        if record.ended:  # what comes after the end is no part of the run
            return []
        received = _Received.of(messages)
        record.known |= received.known
        released = record.replaying and received.replayed
        record.replaying = record.replaying and not released
        chunks, next_offsets = received.in_order(record.partitions)
        if record.replaying:
            chunks = self._read_again(chunks, record, state)
        elif released:
            chunks = _with_kept(chunks, record, state)
        # What is read again has its own idle periods.
        clock_ms = None if record.replaying else now_ms
        batch = _Batch(chunks, next_offsets, received.final, released, clock_ms)
        bodies = {name: state.get(_name(name)) for name in record.partitions}
        states = {
            name: self._first(name) if body is None else ScanState.from_bytes(body)
            for name, body in bodies.items()
        }
        states |= self._appeared(batch, record, states, elsewhere)
        sent, after = self._scan_all(batch, record, states)
        for name, each in after.items():
            body = each.to_bytes()
            if body != bodies.get(name):
                state.put(_name(name), body)
        record.ended = received.final
        self._save(state, record)
        return sent

    def _appeared(
        self,
        batch: _Batch,
        record: IngressRecord,
        states: Mapping[str, ScanState],
        elsewhere: Callable[[], Watermarks] | None,
    ) -> Mapping[str, ScanState]:
        """The states in which partitions start that appear in the batch; they are added to the record."""
        partitions = record.partitions
        fresh = sorted(batch.chunks.keys() - partitions.keys())
        others: Watermarks = {}
        if elsewhere is not None and (fresh or (batch.final and not partitions)):
            others = elsewhere()
        # Somebody must report the end to the stages.
        if batch.final and not (partitions or fresh or others or self.share):
            fresh = [ALONE]
        check_partitions(self.topology.readers, self.input_name, len({*partitions, *fresh, *others}))
        if not fresh:
            return {}
        # No ingress knows the events that others read in this batch. So that it does not matter which ingress
        # has a partition, the events that this one reads are not looked at either.
        earlier_partitions = [
            PartitionShare(
                each.number,
                batch.chunks.get(name, ()) if elsewhere is None else (),
                states[name],
                self._idle_periods(name),
            )
            for name, each in partitions.items()
        ]
        earlier_partitions += [
            PartitionShare(0, (), ScanState.above([watermarks]))
            for name, watermarks in others.items()
            if name not in partitions
        ]
        numbers = partition_numbers(fresh, [each.number for each in partitions.values()])
        for name, number in numbers.items():
            partitions[name] = KnownPartition(number, batch.clock_ms or 0)
        events = {name: (number, batch.chunks.get(name, ())) for name, number in numbers.items()}
        return late_partition_states(self._scan, earlier_partitions, events)

    def _scan_all(
        self, batch: _Batch, record: IngressRecord, states: Mapping[str, ScanState]
    ) -> tuple[list[Message], Mapping[str, ScanState]]:
        """Scan every partition: what is sent, and the states after it."""
        sent: list[Message] = []
        after: dict[str, ScanState] = {}
        newest_ticks = BEFORE_ALL_TICKS
        # Partitions that never had an event come last: their clock is that of the others.
        for name, each in sorted(
            record.partitions.items(),
            key=lambda known: (batch.never_had_events(known[0], states[known[0]]), known[1].number),
        ):
            own = batch.chunks.get(name, [])
            idle_time = None
            if not (own or batch.released or batch.clock_ms is None):
                has_events = states[name].has_events
                idle_time = (
                    _idle_time(each, batch.clock_ms) if has_events else _idle_like_others(newest_ticks)
                )
            messages, after[name] = self._scan.run(
                each.number,
                name,
                own,
                states[name],
                Exchange(self.topology, 0, f"{self.input_name}/{name}", self.sink),
                idle_time=idle_time,
                idle_periods=self._idle_periods(name),
                emits=not record.replaying,
                final=batch.final,
                known={**self._known, **record.known},
            )
            sent += messages
            if after[name].has_events:
                waited_ticks = 0 if idle_time is None else idle_time.elapsed_ticks
                newest_ticks = max(newest_ticks, after[name].last_arrival_ticks + waited_ticks)
            if own or batch.released:
                record.partitions[name] = replace(
                    each,
                    since_ms=each.since_ms if batch.clock_ms is None else batch.clock_ms,
                    next_offset=batch.next_offsets.get(name, each.next_offset),
                )
        return sent, after

    def _first(self, partition: str) -> ScanState:
        """The state of a partition before its first event."""
        began = self.begin.partitions.get(partition)
        return ScanState() if began is None else began.state

    def _idle_periods(self, partition: str) -> Sequence[IdlePeriod]:
        began = self.begin.partitions.get(partition)
        return () if began is None else began.idle_periods

    def _read_again(
        self, chunks: Mapping[str, Sequence[Chunk]], record: IngressRecord, state: State
    ) -> dict[str, list[Chunk]]:
        """Per partition the events that the run before had read; later ones are kept."""
        until = self.begin.until or {}
        result: dict[str, list[Chunk]] = {}
        for name, own in chunks.items():
            before, rest = cut(own, until[name]) if name in until else ([], list(own))
            if before:
                result[name] = before
            if rest:
                if name not in record.kept:
                    record.kept.append(name)
                bodies = [FrameChunk(name, (0, 0), each).to_bytes() for each in rest]
                state.append(record.kept.index(name), pa.table({_KEPT: pa.array(bodies, pa.binary())}))
        return result

    def _load(self, state: State, now_ms: int | None) -> IngressRecord:
        """The record in the state; in an empty state that of the beginning."""
        saved = state.get(_RECORD)
        if saved is None:
            partitions = {
                name: KnownPartition(each.number, now_ms or 0, each.next_offset)
                for name, each in self.begin.partitions.items()
            }
            return IngressRecord(self.job, partitions, replaying=self.begin.until is not None)
        record = _DOCUMENT.of_body(saved)
        if self.job is not None and record.job != self.job:
            raise StateError(
                "the checkpoint belongs to another job: the query, the settings, the columns of an input or "
                "the number of key groups differ\n"
                "  hint: undo the change, or start with a new checkpointLocation"
            )
        return replace(record, job=self.job)

    def _save(self, state: State, record: IngressRecord) -> None:
        body = _DOCUMENT.body(record)
        if body != state.get(_RECORD):
            state.put(_RECORD, body)


def cut(chunks: Sequence[Chunk], offset: int) -> tuple[list[Chunk], list[Chunk]]:
    """The chunks of a partition, in order, before an offset and from there on.

    Events that were refused in a chunk that is cut count with its first part.
    """
    before: list[Chunk] = []
    rest: list[Chunk] = []
    for chunk in chunks:
        offsets = chunk.table[OFFSET].to_numpy()
        place = int((offsets < offset).sum())
        if place == len(offsets) and (place or not rest):
            before.append(chunk)
        elif place == 0:
            rest.append(chunk)
        else:
            before.append(replace(chunk, table=chunk.table.slice(0, place)))
            rest.append(Chunk(chunk.table.slice(place)))
    return before, rest


def _with_kept(
    chunks: Mapping[str, list[Chunk]], record: IngressRecord, state: State
) -> dict[str, list[Chunk]]:
    """Per partition the events that were kept, and those of the batch."""
    result = dict(chunks)
    for place, name in enumerate(record.kept):
        bodies = [body for table in state.take(place) for body in table[_KEPT].to_pylist()]
        kept = [FrameChunk.from_bytes(name, body).chunk for body in bodies]
        result[name] = [*kept, *chunks.get(name, [])]
    record.kept = []
    return result


def _idle_time(each: KnownPartition, now_ms: int) -> IdleTime | None:
    idle_ms = now_ms - each.since_ms
    if idle_ms <= 0:
        return None
    return IdleTime(idle_ms * TICKS_PER_MILLISECOND, each.since_ms * TICKS_PER_MILLISECOND)


def _idle_like_others(newest_ticks: int) -> IdleTime | None:
    """The idle time of a partition that never had an event: its clock is that of the other partitions."""
    return None if newest_ticks == BEFORE_ALL_TICKS else IdleTime(0, newest_ticks)


def _name(partition: str) -> str:
    return f"partition {partition}"
