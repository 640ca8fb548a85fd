"""The streaming source of a job: all its inputs, scanned, after their policies.

An offset (`spark.source_offset`) holds how far every partition is read and since when it has been idle. Spark
logs it before the batch runs, so a batch that runs again reads the same events and sees the same idle time
(`asa.md` 1.5: idle watermarks must be journaled). The policies run inside the scan task; their state is kept
beside Spark's checkpoint under the number of the batch, so they need no stateful stage.
"""

from __future__ import annotations

import base64
import pickle
import time
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tideglass.connect.reference.references import NO_REFERENCES, References
from tideglass.connect.source import StreamInput
from tideglass.core.errors import EvaluationError
from tideglass.core.events import Chunk, Known
from tideglass.core.partition_numbers import partition_numbers
from tideglass.core.positions import Position, Positions, size_of
from tideglass.core.time import TICKS_PER_MILLISECOND
from tideglass.engine.exchange import Exchange, Sink
from tideglass.engine.messages import Message, failure
from tideglass.engine.profiled import profiled
from tideglass.engine.snapshots import Snapshots
from tideglass.ingress.idle_periods import IdlePeriod
from tideglass.ingress.late_partitions import PartitionShare, late_partition_states
from tideglass.ingress.read_from import PartitionBegin
from tideglass.ingress.scan import IdleTime, Scan, ScanState, saved_state
from tideglass.plan.topology import Topology, check_partitions
from tideglass.spark.processor import MESSAGE_SCHEMA
from tideglass.spark.source_offset import SOURCE_OFFSET, PartitionOffset, SourceOffset
from tideglass.spark.wire import record_batches
from tideglass.storage import storage_path

#: The one partition of a finished input that has none.
_ALONE: Positions = {"0": ()}


@dataclass(frozen=True, slots=True)
class SourceJob:
    """Everything the source needs; travels to Spark's processes as one pickled option.

    topology: what is computed.
    inputs: in the order of their names in an offset.
    snapshots: where the states of the scans are kept, by batch.
    sink: where rows of level 0 go.
    key_numbers: per key group, the number Spark hashes.
    finished: the run reads what is there and ends.
    batch_bytes: how much of the inputs a batch may take.
    idle_seconds: how often idle time is reported to the stages when nothing arrives.
    tasks: scan tasks a batch is split into at most.
    stop_file: while it exists, no new batch is planned.
    begins: per input and partition, where a run that is not the first begins to read.
    emits_replayed: rows of batches that read only what an earlier run has read are emitted, too.
    replayed_file: nothing new is read before this file exists, since other inputs are read again, too; None:
        no other is.
    references: reference data, whose known snapshots are in the offset.
    profile: every task reports where its time went.
    """

    topology: Topology
    inputs: tuple[StreamInput, ...]
    snapshots: Snapshots
    sink: Sink
    key_numbers: tuple[int, ...]
    finished: bool
    batch_bytes: int
    idle_seconds: float
    tasks: int
    stop_file: str
    begins: Mapping[str, Mapping[str, PartitionBegin]] = field(
        default_factory=dict[str, Mapping[str, PartitionBegin]]
    )
    emits_replayed: bool = True
    replayed_file: str | None = None
    references: References = NO_REFERENCES
    profile: bool = False

    def option(self) -> str:
        return base64.b64encode(pickle.dumps(self)).decode()

    @staticmethod
    def of_option(text: str) -> SourceJob:
        job = pickle.loads(base64.b64decode(text))
        assert isinstance(job, SourceJob)
        return job


@dataclass(frozen=True, slots=True)
class EarlierPartition:
    """A partition that was there before another appeared, and its share of the same batch.

    start, end: what the batch reads of it. idle_periods: as an earlier run saw them.
    """

    partition: str
    number: int
    start: Position
    end: Position
    idle_periods: tuple[IdlePeriod, ...]


@dataclass(frozen=True, slots=True)
class Unit:
    """One input partition's share of a batch.

    input, partition, number: whose.
    start, end: what the batch reads of it.
    idle_time: None if it was not idle.
    ended: it has no events after this batch.
    size: of what is read, in the input's unit.
    is_new: it was not there before.
    earlier_partitions: of a new one, those that were there, which decide where it starts
        (`ingress.late_partitions`); else ().
    idle_periods: as an earlier run saw them.
    emits: its rows are emitted, for no earlier run has emitted them.
    """

    input: str
    partition: str
    number: int
    start: Position
    end: Position
    idle_time: IdleTime | None
    ended: bool
    size: int
    is_new: bool
    earlier_partitions: tuple[EarlierPartition, ...]
    idle_periods: tuple[IdlePeriod, ...]
    emits: bool


class ScanPartition(InputPartition):
    """The units one task scans, one after the other."""

    def __init__(self, units: tuple[Unit, ...], from_batch: int, to_batch: int, known: Known) -> None:
        super().__init__(units)
        self.units = units
        self.from_batch = from_batch
        self.to_batch = to_batch
        self.known = known


class JobSource(DataSource):
    """The data source `tideglass`; its one option `job` is a SourceJob."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self.options = options

    @classmethod
    def name(cls) -> str:
        return "tideglass"

    def schema(self) -> StructType:
        return MESSAGE_SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return JobReader(SourceJob.of_option(self.options["job"]))


class JobReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches in the planner process and scans them in the tasks."""

    def __init__(self, job: SourceJob) -> None:
        self.job = job

    def initialOffset(self) -> dict[str, Any]:
        inputs = {
            name: {
                partition: PartitionOffset(begin.number, tuple(begin.position), since_ms=0, ended=False)
                for partition, begin in partitions.items()
            }
            for name, partitions in self.job.begins.items()
        }
        return SOURCE_OFFSET.plain(SourceOffset(0, False, inputs, at_ms=0))

    def prepareForTriggerAvailableNow(self) -> None:
        """Nothing to record: a finished input is read to the end of what is there."""

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The next batch: more input if there is any, else idle time to report, else `start` itself."""
        latest = self._latest(SOURCE_OFFSET.of_plain(start))
        return start if latest is None else SOURCE_OFFSET.plain(latest)

    def _latest(self, start: SourceOffset) -> SourceOffset | None:
        """The end of the next batch; None where there is none to run."""
        if start.final or storage_path(self.job.stop_file).exists():
            return None
        now_ms = time.time_ns() // 1_000_000
        share = self.job.batch_bytes // len(self.job.inputs)
        inputs: dict[str, Mapping[str, PartitionOffset]] = {}
        # Nothing new is read before all inputs are read as far as an earlier run had read them.
        replaying = not all(source.is_replayed(start.positions_of(source.name)) for source in self.job.inputs)
        file = self.job.replayed_file
        if not replaying and file is not None and not storage_path(file).exists():
            if start.batch:
                return None
            replaying = True  # once, so that every partition reports to the stages
        for source in self.job.inputs:
            before, at = start.of(source.name), start.positions_of(source.name)
            if replaying and source.is_replayed(at):
                inputs[source.name] = {name: replace(each, since_ms=now_ms) for name, each in before.items()}
                continue
            latest, ended = source.latest(at, share), frozenset[str]()
            if not replaying:  # held rows come out at the end, so the end comes in a batch that emits rows
                if not latest and self.job.finished:
                    latest, ended = _ALONE, frozenset(_ALONE)  # else nobody would report it to the stages
                else:
                    ended = source.ended(latest) if self.job.finished else ended
            # A new partition is there from its first event on.
            latest = {name: own for name, own in latest.items() if own or name in before or not before}
            check_partitions(self.job.topology.readers, source.name, len(latest))
            # Events read again have no part in the idle time since then.
            not_idle = replaying or not start.batch or bool(start.replaying)
            inputs[source.name] = _partition_offsets(before, latest, ended, now_ms, not_idle=not_idle)
        partitions = [each for of_input in inputs.values() for each in of_input.values()]
        moved = any(each.since_ms == now_ms for each in partitions)
        final = self.job.finished and not replaying and all(each.ended for each in partitions)
        if not (moved or final or self._is_due(start, now_ms)):
            return None
        known = self.job.references.find(None if self.job.finished else now_ms * TICKS_PER_MILLISECOND)
        return SourceOffset(start.batch + 1, final, inputs, now_ms, replaying, dict(known))

    def _is_due(self, start: SourceOffset, now_ms: int) -> bool:
        """Whether it is time to report idle time to the stages; never for finished input."""
        if self.job.finished or not start.inputs:
            return False
        return now_ms - start.at_ms >= self.job.idle_seconds * 1000

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[ScanPartition]:
        """The batch's units, spread over at most `tasks` tasks by size, largest first.

        New partitions of an input stay in one task: each decides where the next one starts. There are no
        units when the offset has not changed: Spark starts its first batch even if a stop was requested.
        """
        return self._partitions(SOURCE_OFFSET.of_plain(start), SOURCE_OFFSET.of_plain(end))

    def _partitions(self, start: SourceOffset, end: SourceOffset) -> list[ScanPartition]:
        if end.batch == start.batch:
            return []
        groups: list[list[Unit]] = []
        for source in self.job.inputs:
            name = source.name
            before = start.of(name)
            units = [
                self._unit(name, partition, before, offset, end)
                for partition, offset in end.inputs[name].items()
            ]
            groups += [[unit] for unit in units if not unit.earlier_partitions]
            groups += [appeared] if (appeared := [unit for unit in units if unit.earlier_partitions]) else []
        shares: list[list[Unit]] = [[] for _ in range(max(1, min(self.job.tasks, len(groups))))]
        for group in sorted(groups, key=lambda group: -sum(unit.size for unit in group)):
            min(shares, key=lambda share: sum(u.size + 1 for u in share)).extend(group)
        return [ScanPartition(tuple(share), start.batch, end.batch, end.known) for share in shares if share]

    def _unit(
        self,
        name: str,
        partition: str,
        before: Mapping[str, PartitionOffset],
        offset: PartitionOffset,
        end: SourceOffset,
    ) -> Unit:
        """What a batch has to do for one partition.

        A finished input is a recording: how long it takes to be read is no idle time.
        """
        is_new = partition not in before
        start = () if is_new else before[partition].position
        idle_ms = 0 if self.job.finished else end.at_ms - offset.since_ms
        begin = self.job.begins.get(name, {}).get(partition)
        idle_time = IdleTime(idle_ms * TICKS_PER_MILLISECOND, offset.since_ms * TICKS_PER_MILLISECOND)
        return Unit(
            input=name,
            partition=partition,
            number=offset.number,
            start=start,
            end=offset.position,
            idle_time=idle_time if idle_ms else None,
            ended=offset.ended,
            size=size_of(offset.position) - size_of(start),
            is_new=is_new,
            earlier_partitions=self._earlier_partitions(name, before, end) if is_new else (),
            idle_periods=() if begin is None else begin.idle_periods,
            emits=self.job.emits_replayed or not end.replaying,
        )

    def _earlier_partitions(
        self, name: str, before: Mapping[str, PartitionOffset], end: SourceOffset
    ) -> tuple[EarlierPartition, ...]:
        begins = self.job.begins.get(name, {})
        return tuple(
            EarlierPartition(
                earlier,
                each.number,
                each.position,
                end.inputs[name][earlier].position,
                begins[earlier].idle_periods if earlier in begins else (),
            )
            for earlier, each in before.items()
            if not each.ended
        )

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        chosen = cast("ScanPartition", partition)  # what `partitions` gave
        messages = self._messages(chosen)
        if self.job.profile:
            sender = ", ".join(f"{unit.input}/{unit.partition}" for unit in chosen.units)
            messages = profiled(messages, self.job.topology, 0, sender)
        yield from record_batches(messages, self.job.key_numbers)

    def _messages(self, chosen: ScanPartition) -> Iterator[Message]:
        scans: dict[str, Scan] = {}
        inputs = {source.name: source for source in self.job.inputs}
        appeared: dict[str, dict[str, ScanState]] = {}
        for unit in chosen.units:
            scan = scans.setdefault(unit.input, Scan(self.job.topology, unit.input, self.job.references))
            source = inputs[unit.input]
            try:
                if unit.earlier_partitions and unit.input not in appeared:
                    appeared[unit.input] = self._appeared(scan, source, unit, chosen)
                state = self._state(unit, appeared.get(unit.input, {}), chosen.from_batch)
                yield from self._scan(scan, source, unit, state, chosen)
            except EvaluationError as error:
                # The driver stops the job: Spark would run a task that fails again and again.
                yield failure(self.job.topology, f"{unit.input}/{unit.partition}", error)

    def _scan(
        self, scan: Scan, source: StreamInput, unit: Unit, state: ScanState, partition: ScanPartition
    ) -> list[Message]:
        sender = f"{unit.input}/{unit.partition}"
        exchange = Exchange(self.job.topology, 0, sender, self.job.sink)
        messages, after = scan.run(
            unit.number,
            unit.partition,
            self._read(scan, source, unit),
            state,
            exchange,
            idle_time=unit.idle_time,
            idle_periods=unit.idle_periods,
            emits=unit.emits,
            final=unit.ended,
            known=partition.known,
        )
        # The driver syncs those of all tasks together, before the batch counts as done.
        self.job.snapshots.save(sender, partition.to_batch, after.to_bytes(), synced=False)
        return messages

    def _read(self, scan: Scan, source: StreamInput, of: Unit | EarlierPartition) -> Iterator[Chunk]:
        return source.read(of.partition, of.start, of.end, scan.fields, self.job.topology.level)

    def _appeared(
        self, scan: Scan, source: StreamInput, unit: Unit, chosen: ScanPartition
    ) -> dict[str, ScanState]:
        """The states of all partitions that appear in the batch beside `unit`, and its own.

        The events of earlier partitions are read here once more, in such a batch only.
        """
        earlier_partitions = [
            PartitionShare(
                each.number,
                list(self._read(scan, source, each)),
                self._saved(unit.input, each.partition, chosen.from_batch),
                each.idle_periods,
            )
            for each in unit.earlier_partitions
        ]
        fresh = {
            each.partition: (each.number, list(self._read(scan, source, each)))
            for each in chosen.units
            if each.input == unit.input and each.earlier_partitions
        }
        return late_partition_states(scan, earlier_partitions, fresh)

    def _state(self, unit: Unit, appeared: Mapping[str, ScanState], batch: int) -> ScanState:
        """The partition's state at the start of the batch.

        Raises StateError when it is lost: starting without it would change rows.
        """
        if unit.is_new:
            return appeared.get(unit.partition, ScanState())
        return self._saved(unit.input, unit.partition, batch)

    def _saved(self, input_name: str, partition: str, batch: int) -> ScanState:
        if batch == 0:
            return self.job.begins[input_name][partition].state
        sender = f"{input_name}/{partition}"
        return saved_state(self.job.snapshots, sender, batch)

    def commit(self, end: dict[str, Any]) -> None:
        self.job.snapshots.forget_before(SOURCE_OFFSET.of_plain(end).batch)


def _partition_offsets(
    before: Mapping[str, PartitionOffset],
    latest: Positions,
    ended: frozenset[str],
    now_ms: int,
    *,
    not_idle: bool,
) -> Mapping[str, PartitionOffset]:
    """Every partition of an input at the end of a batch.

    A partition that has ended stays as it is, since its end is reported to the stages; so does an input.
    latest: how far each is read then. not_idle: a partition without events is not idle for that yet.
    """
    if before and all(each.ended for each in before.values()):
        return before
    numbers = {name: each.number for name, each in before.items()}
    numbers |= partition_numbers((name for name in latest if name not in before), numbers.values())
    result: dict[str, PartitionOffset] = {}
    for name, number in numbers.items():
        known = before.get(name)
        if known is not None and known.ended:
            result[name] = known
            continue
        position = tuple(latest[name])
        is_idle = known is not None and known.position == position and not not_idle
        since_ms = known.since_ms if known is not None and is_idle else now_ms
        result[name] = PartitionOffset(number, position, since_ms, name in ended)
    return result
