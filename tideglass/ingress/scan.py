"""The scan of one input partition over one batch: decoded chunks in, messages for the stages out.

All readers of the input share the decoded events. For each of them: evaluate TIMESTAMP BY and OVER,
apply the policies, run the operators of level 0. What must outlive the batch (policies, the reorder buffer of
plain projections, counters) is a `ScanState`, a value. The caller keeps it by batch, so a batch that runs
again starts from the same one (`design.md` 4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa

from tideglass.connect.files.source_columns import with_source_columns
from tideglass.connect.reference.references import NO_REFERENCES, References
from tideglass.core import profile
from tideglass.core.arrays import Ints, pc
from tideglass.core.columns import canonical_text, unify
from tideglass.core.documents import Document
from tideglass.core.errors import REBUILD, EvaluationError, StateError, damaged
from tideglass.core.events import Chunk, Known, Rejected
from tideglass.core.failing_rows import Failed, added, kept_of
from tideglass.core.ipc import from_bytes, to_bytes
from tideglass.core.iso import flat
from tideglass.core.time import AFTER_ALL_TICKS, BEFORE_ALL_TICKS, format_ticks
from tideglass.core.types import (
    ARRIVAL,
    INPUT,
    OFFSET,
    PARTITION,
    SUBSTREAM,
    SYSTEM_TIMESTAMP,
    Type,
)
from tideglass.core.types import field as typed_field
from tideglass.engine.exchange import Exchange
from tideglass.engine.messages import Message
from tideglass.engine.snapshots import Snapshots
from tideglass.engine.stage import RowCounts, Stage
from tideglass.evaluate.failure import located
from tideglass.evaluate.program import Program
from tideglass.ingress.early_columns import with_early_columns, with_early_watermarks
from tideglass.ingress.error_samples import OffendingEvents
from tideglass.ingress.idle_periods import IdlePeriod, between_idle_periods
from tideglass.ingress.partition_time import Ingress, watermarks
from tideglass.ingress.policies import UnorderedLog, apply_policies, estimated_arrival_ticks, idle_until
from tideglass.ingress.reader_report import buffer_holds, reader_report
from tideglass.ingress.reports import PARTITION_REPORT, PartitionReport
from tideglass.operators.progress import Progress, partition_name
from tideglass.operators.state.reorder import released_up_to
from tideglass.operators.state.store import MemoryState
from tideglass.plan.expressions import Cast
from tideglass.plan.fingerprint import state_ids
from tideglass.plan.nodes import Named
from tideglass.plan.policy_settings import SourceKind
from tideglass.plan.topology import (
    ApplyOp,
    EmitOp,
    LookupOp,
    PartialOp,
    Reader,
    RowsOp,
    ScanOp,
    SendOp,
    Topology,
)

_EVENT_TIME = "$event_time"

#: Rows a scan gathers before it runs the operators of level 0 on them: enough for the
#: pre-aggregation to find equal keys, few enough to stay small in memory.
ROWS_PER_RUN = 1 << 18
#: Reasons for which events were refused that a report names.
MOST_ERRORS = 20


@dataclass(frozen=True, slots=True)
class Totals:
    """What a scan has read: events the deserializer refused, bytes, messages or files."""

    rejected: int = 0
    bytes: int = 0
    sources: int = 0

    def with_chunk(self, chunk: Chunk) -> Totals:
        return Totals(
            self.rejected + sum(r.count for r in chunk.rejected),
            self.bytes + chunk.bytes_read,
            self.sources + chunk.sources,
        )


@dataclass(frozen=True, slots=True)
class _ScanHeader:
    """The fields of a ScanState that are no tables, as they are written."""

    totals: Totals
    next_offset: int = 0
    failed: Mapping[int, Failed] = field(default_factory=dict[int, Failed])
    quiet_until_ticks: int = BEFORE_ALL_TICKS


_HEADER = b"scan"
_DOCUMENT = Document(_ScanHeader)


@dataclass(frozen=True, slots=True)
class ScanState:
    """What one input partition carries from batch to batch.

    ingress: per reader id.
    held: rows ahead of the watermark, by the number of their EmitOp's state.
    totals: what was read since the generation began.
    next_offset: no later event has a lesser one.
    failed: rows left out since the generation began, by the number of the operator's state.
    quiet_until_ticks: the arrival time estimated in the idle period since the last event; BEFORE_ALL_TICKS
        for none.
    """

    ingress: Mapping[int, Ingress] = field(default_factory=dict[int, Ingress])
    held: Mapping[int, pa.Table] = field(default_factory=dict[int, pa.Table])
    totals: Totals = Totals()
    next_offset: int = 0
    failed: Mapping[int, Failed] = field(default_factory=dict[int, Failed])
    quiet_until_ticks: int = BEFORE_ALL_TICKS

    @classmethod
    def above(cls, earlier_partitions: Sequence[Mapping[int, int]]) -> ScanState:
        """The state of a partition that starts at the least watermark of other partitions.

        earlier_partitions: watermarks in ticks by reader, of each of them.
        """
        readers = {id_ for earlier in earlier_partitions for id_ in earlier}
        return cls(
            {
                id_: Ingress().raised(min(earlier[id_] for earlier in earlier_partitions))
                for id_ in sorted(readers)
            }
        )

    def report(
        self, readers: Sequence[Reader], input_name: str, partition_name: str, *, final: bool
    ) -> PartitionReport:
        """What the scan has reported of the partition before; of the rows it keeps nothing is known."""
        return PartitionReport(
            input_name,
            partition_name,
            rejected=self.totals.rejected,
            bytes=self.totals.bytes,
            next_offset=self.next_offset,
            failed=self.failed,
            readers=tuple(
                reader_report(reader, self.ingress[reader.id], (), final=final)
                for reader in readers
                if reader.id in self.ingress
            ),
            sources=self.totals.sources,
        )

    @property
    def last_arrival_ticks(self) -> int:
        """When the newest event arrived; BEFORE_ALL_TICKS for none yet."""
        return max((each.last_arrival_ticks for each in self.ingress.values()), default=BEFORE_ALL_TICKS)

    @property
    def has_events(self) -> bool:
        """Whether any event has arrived."""
        return self.last_arrival_ticks != BEFORE_ALL_TICKS

    def to_bytes(self) -> bytes:
        parts = {f"ingress {id_}": ingress.to_bytes() for id_, ingress in self.ingress.items()}
        parts |= {f"held {id_}": to_bytes(table) for id_, table in self.held.items()}
        header = _ScanHeader(self.totals, self.next_offset, self.failed, self.quiet_until_ticks)
        metadata = {_HEADER: _DOCUMENT.body(header)}
        schema = pa.schema([("name", pa.string()), ("body", pa.binary())], metadata=metadata)
        table = pa.table({"name": list(parts), "body": list(parts.values())}, schema=schema)
        return to_bytes(table)

    @classmethod
    def from_bytes(cls, body: bytes) -> ScanState:
        """The state `to_bytes` wrote. Raises StateError for anything else."""
        try:
            table = from_bytes(body)
            header = _DOCUMENT.of_body((table.schema.metadata or {})[_HEADER])
        except (pa.ArrowException, OSError, KeyError, ValueError) as error:
            raise StateError(f"the state of an input partition cannot be read: {error}") from error
        ingress: dict[int, Ingress] = {}
        held: dict[int, pa.Table] = {}
        for name, part in zip(table["name"].to_pylist(), table["body"].to_pylist(), strict=True):
            kind, id_ = name.split()
            if kind == "ingress":
                ingress[int(id_)] = Ingress.from_bytes(part)
            else:
                held[int(id_)] = from_bytes(part)
        return cls(
            ingress,
            held,
            header.totals,
            header.next_offset,
            header.failed,
            header.quiet_until_ticks,
        )


def saved_state(snapshots: Snapshots, sender: str, batch: int) -> ScanState:
    """What a partition carried from `batch` on. Raises StateError where it is missing or damaged.

    sender: the input and the partition.
    """
    saved, path = snapshots.load(sender, batch), snapshots.path(sender, batch)
    if saved is None:  # without it rows would change
        raise damaged(path, "is missing", REBUILD)
    try:
        return ScanState.from_bytes(saved)
    except StateError as error:
        raise damaged(path, f"cannot be used ({error})", REBUILD) from error


@dataclass(frozen=True, slots=True)
class IdleTime:
    """How long a partition has been idle at the end of a batch; the caller journals it.

    elapsed_ticks: since its last event, or since `started_ticks`.
    started_ticks: since when a partition without any event is known; None: nothing is estimated for one.
    """

    elapsed_ticks: int = 0
    started_ticks: int | None = None


class Scan:
    """Scans partitions of one input. Made once per task."""

    def __init__(self, topology: Topology, input_name: str, references: References = NO_REFERENCES) -> None:
        self.topology = topology
        self.input_name = input_name
        self.readers = tuple(r for r in topology.readers if r.input == input_name)
        self.fields = topology.fields[input_name]
        self._stage = Stage(topology, 0, references)
        self._state_ids = state_ids(topology)
        self._reader_of_emit = self._readers_of_emits()
        self._scan_of = {op.reader: op.id for op in topology.at(0) if isinstance(op, ScanOp)}
        self._times = {
            r.id: Program(
                (
                    Named(_EVENT_TIME, Cast(r.timestamp, Type.DATETIME, lenient=True)),
                    *(Named(f"$over{n}", expr) for n, expr in enumerate(r.over)),
                ),
                level=topology.level,
            )
            for r in self.readers
            if r.timestamp is not None
        }

    def run(
        self,
        partition: int,
        partition_name: str,
        chunks: Iterable[Chunk],
        state: ScanState,
        exchange: Exchange,
        *,
        idle_time: IdleTime | None = None,
        idle_periods: Sequence[IdlePeriod] = (),
        emits: bool = True,
        final: bool = False,
        known: Known | None = None,
    ) -> tuple[list[Message], ScanState]:
        """Scan a batch of one partition.

        partition: number of the partition.
        partition_name: its name.
        chunks: its events, in order.
        state: that before the batch.
        exchange: takes what is sent.
        idle_time: how long the partition has been idle at the end of the batch; None if it was not.
        idle_periods: those of an earlier reading of the same events, ascending by offset.
        emits: the driver is to emit the rows of the batch: no earlier run has.
        final: the input has ended, so its watermark passes everything and all held rows are emitted.
        known: how many snapshots of each reference input count in the batch; None: of none.
        """
        known = known or {}
        ingress = {r.id: state.ingress.get(r.id, Ingress()) for r in self.readers}
        # Rows held for an output that the plan no longer has are dropped.
        kept = {self._state_ids[op.id] for op in self.topology.at(0) if isinstance(op, EmitOp)}
        held = {number: table for number, table in state.held.items() if number in kept}
        totals = state.totals
        errors: list[Rejected] = []
        offending = {r.id: OffendingEvents() for r in self.readers}
        failed = dict(state.failed)
        counts: dict[int, RowCounts] = {}
        gathered: dict[int, list[pa.Table]] = {r.id: [] for r in self.readers}
        count, events, next_offset = 0, 0, state.next_offset
        idle_held: bool | None = None
        for chunk in map(partial(self._identified, partition_name), chunks):
            totals = totals.with_chunk(chunk)
            errors += chunk.rejected
            for before, table in between_idle_periods(chunk.table, idle_periods):
                ingress = self._idle_until(ingress, before)
                for reader in self.readers:
                    rows, ingress[reader.id] = self._apply_policies(
                        reader, partition, table, ingress[reader.id], offending[reader.id]
                    )
                    gathered[reader.id].append(rows)
            if chunk.table.num_rows:
                was_quiet = state.quiet_until_ticks != BEFORE_ALL_TICKS
                if idle_held is None and was_quiet and not chunk.table[ARRIVAL].null_count:
                    idle_held = chunk.table[ARRIVAL][0].as_py() >= state.quiet_until_ticks
                next_offset = chunk.table[OFFSET][-1].as_py() + 1
            count += chunk.table.num_rows
            events += chunk.table.num_rows
            if count >= ROWS_PER_RUN:
                failed = added(failed, self._run(gathered, exchange, held, known, counts))
                gathered = {r.id: [] for r in self.readers}
                count = 0
        ingress = self._idle_until(ingress, [each for each in idle_periods if each.offset <= next_offset])
        quiet_until_ticks = None
        if idle_time is not None:
            quiet_until_ticks = estimated_arrival_ticks(
                ingress[self.readers[0].id], idle_time.elapsed_ticks, idle_time.started_ticks
            )
        quiet_ticks = state.quiet_until_ticks if next_offset == state.next_offset else BEFORE_ALL_TICKS
        if quiet_until_ticks is not None:
            quiet_ticks = max(quiet_ticks, quiet_until_ticks)
            ingress = self._idle_until(ingress, [IdlePeriod(next_offset, quiet_until_ticks)])
        failed = added(failed, self._run(gathered, exchange, held, known, counts))
        progress = {r.id: _progress(r, partition, ingress[r.id], final) for r in self.readers}
        released = self._release(held, progress, exchange)
        result = self._stage.run({}, self._entries(progress), _no_state, known)
        for op_id, op_progress in result.progress.items():
            exchange.watermark(op_id, op_progress)
        exchange.known(known)
        waiting = {number: table for number, table in held.items() if table.num_rows}
        after = ScanState(ingress, waiting, totals, next_offset, failed, quiet_ticks)
        result.rows = self._rows_of_batch(counts, events, released)
        report = replace(
            after.report((), self.input_name, partition_name, final=final),
            errors=tuple(errors[:MOST_ERRORS]),
            readers=tuple(
                reader_report(r, ingress[r.id], self._kept_of(r, waiting), final=final) for r in self.readers
            ),
            quiet_until_ticks=quiet_until_ticks,
            idle_held=idle_held,
            operators=self._stage.reports(result, _no_state, known, buffer_holds(self._kept_by_op(waiting))),
            offending=tuple(found for each in offending.values() for found in each.found.values()),
        )
        exchange.report(PARTITION_REPORT.body(report))
        if not emits:
            exchange.withhold()
        return exchange.messages(), after

    def state_after(
        self,
        partition: int,
        table: pa.Table,
        ingress: Mapping[int, Ingress],
        idle_periods: Sequence[IdlePeriod],
    ) -> dict[int, Ingress]:
        """Every reader's state after events of a partition; their rows are not made."""
        after = dict(ingress)
        for before, part in between_idle_periods(table, idle_periods):
            after = self._idle_until(after, before)
            after = {r.id: self._apply_policies(r, partition, part, after[r.id])[1] for r in self.readers}
        return after

    def _identified(self, partition_name: str, chunk: Chunk) -> Chunk:
        fields = self.topology.fields[self.input_name]
        return with_source_columns(self.input_name, partition_name, chunk, fields)

    def _idle_until(
        self, ingress: dict[int, Ingress], idle_periods: Sequence[IdlePeriod]
    ) -> dict[int, Ingress]:
        """Every reader's state after idle periods, in any order."""
        if not idle_periods:
            return ingress
        until_ticks = max(each.until_ticks for each in idle_periods)
        return {r.id: idle_until(r.policies, ingress[r.id], until_ticks) for r in self.readers}

    def _apply_policies(
        self,
        reader: Reader,
        partition: int,
        table: pa.Table,
        ingress: Ingress,
        offending: OffendingEvents | None = None,
    ) -> tuple[pa.Table, Ingress]:
        """Decoded events of one reader after its policies, with their system columns."""
        arrival_column = table[ARRIVAL]
        arrival = arrival_column.fill_null(0).to_numpy()
        event_time, valid, substreams, texts = None, None, None, None
        # What TIMESTAMP BY sees as $partition and $arrival are the event's own.
        table = with_system_columns(table, arrival, arrival, reader.id, partition)
        if reader.timestamp is not None:
            with profile.part("TIMESTAMP BY"):
                times = self._times_of(reader, table)
            column = times[_EVENT_TIME]
            if column.type == pa.null():
                column = pa.chunked_array([pa.nulls(table.num_rows, pa.int64())])
            valid = np.asarray(column.is_valid())
            event_time = column.fill_null(0).to_numpy()
            if arrival_column.null_count:
                arrival = np.where(np.asarray(arrival_column.is_valid()), arrival, event_time)
            if reader.over:
                texts = substream_texts(times, len(reader.over), partition)
                substreams = texts.dictionary_encode()
        with profile.part("time policies"):
            try:
                decided = apply_policies(
                    reader.policies, ingress, arrival, event_time, valid=valid, substreams=substreams
                )
            except UnorderedLog as error:
                raise self._unordered(error, partition, table) from None
        rows = with_system_columns(
            table, decided.system_timestamp_ticks, decided.arrival_time_ticks, reader.id, partition
        )
        rows = with_early_columns(rows, reader.policies.early_percents, decided.early_watermarks_ticks)
        if texts is not None:
            rows = rows.append_column(typed_field(SUBSTREAM, Type.NVARCHAR), texts)
        if offending is not None:
            offending.take(reader.policies, decided, table, event_time)
        if not decided.kept.all():
            rows = rows.filter(pa.array(decided.kept))
        return rows, decided.ingress

    def _unordered(self, error: UnorderedLog, partition: int, table: pa.Table) -> EvaluationError:
        """What stops a job whose logs are not in order after all."""
        offset = table[OFFSET][error.place].as_py()
        return EvaluationError(
            f"[UNORDERED_LOG] {self.input_name!r} is read as a {SourceKind.STATIC_LOGS}, but in partition "
            f"{partition} the event with offset {offset} has the time "
            f"{format_ticks(error.event_time_ticks)}, after an event of {format_ticks(error.newest_ticks)}\n"
            f"  hint: sort the log, or choose '{SourceKind.DYNAMIC_LOGS}', which has a policy for late events"
        )

    def _times_of(self, reader: Reader, table: pa.Table) -> pa.Table:
        """The values of TIMESTAMP BY and OVER.

        Raises EvaluationError for a row that makes one fail; if failing rows are left out, it has no time
        (`asa.md` 1.2), and so is counted where events without a timestamp are.
        """
        program = self._times[reader.id]
        try:
            return program.run(table)
        except EvaluationError as error:
            if not self.topology.drops_failing_rows:
                raise located(error, self.topology) from error
        kept = kept_of(table.num_rows, program.failing(table))
        places = np.cumsum(np.asarray(kept)) - 1
        return program.run(table.filter(kept)).take(pa.array(places, mask=~np.asarray(kept)))

    def _entries(self, by_reader: Mapping[int, Progress]) -> dict[int, Progress]:
        return {self._scan_of[id_]: progress for id_, progress in by_reader.items()}

    def _rows_of_batch(
        self, counts: Mapping[int, RowCounts], events: int, released: Mapping[int, int]
    ) -> dict[int, RowCounts]:
        """Rows by operator. events: also those the policies drop. released: rows handed over, by EmitOp."""
        found = dict(counts)
        for op in self._stage.ops:
            counted = found.get(op.id)
            if isinstance(op, ScanOp) and counted is not None:
                found[op.id] = counted._replace(rows_in=events)
            elif isinstance(op, EmitOp) and counted is not None:
                found[op.id] = counted._replace(rows_out=released.get(op.id, 0))
        return found

    def _kept_by_op(self, held: Mapping[int, pa.Table]) -> dict[int, pa.Table]:
        """The rows ahead of the watermark, by EmitOp."""
        numbers = {op.id: self._state_ids[op.id] for op in self._stage.ops if isinstance(op, EmitOp)}
        return {op_id: held[number] for op_id, number in numbers.items() if number in held}

    def _kept_of(self, reader: Reader, held: Mapping[int, pa.Table]) -> list[pa.Table]:
        """The rows of a reader that are ahead of its watermark, by output."""
        kept = self._kept_by_op(held)
        return [table for op_id, table in kept.items() if self._reader_of_emit[op_id] == reader.id]

    def _run(
        self,
        gathered: Mapping[int, list[pa.Table]],
        exchange: Exchange,
        held: dict[int, pa.Table],
        known: Known,
        counts: dict[int, RowCounts],
    ) -> Mapping[int, Failed]:
        """Run the operators of level 0 over the gathered rows; rows for outputs join the held ones.

        counts: of each operator; those of this run are added. Returns the rows that were left out.
        """
        entries = {self._scan_of[id_]: tables for id_, tables in gathered.items()}
        result = self._stage.run(entries, {id_: Progress() for id_ in entries}, _no_state, known)
        for op_id, each in result.rows.items():
            before = counts.get(op_id, RowCounts(0, 0))
            counts[op_id] = RowCounts(before.rows_in + each.rows_in, before.rows_out + each.rows_out)
        for send, table in result.sends:
            exchange.send(send, table)
        for emit, table in result.emits:
            number = self._state_ids[emit.id]
            before = held.get(number)
            held[number] = table if before is None else unify([before, table])
        return {self._state_ids[op_id]: each for op_id, each in result.failed.items()}

    def _release(
        self, held: dict[int, pa.Table], progress: Mapping[int, Progress], exchange: Exchange
    ) -> dict[int, int]:
        """Hand over held rows the watermark has reached, in order (`asa.md` 1.4: buffered and sorted).

        Returns how many, by EmitOp.
        """
        released: dict[int, int] = {}
        for op in self.topology.at(0):
            number = self._state_ids[op.id]
            if isinstance(op, EmitOp) and number in held:
                out, rest = released_up_to(held[number], progress[self._reader_of_emit[op.id]])
                if out.num_rows:
                    exchange.emit(op, out)
                    released[op.id] = out.num_rows
                if rest is None:
                    del held[number]
                else:
                    held[number] = rest
        return released

    def _readers_of_emits(self) -> dict[int, int]:
        result: dict[int, int] = {}
        reader_of: dict[int, int] = {}
        for op in self.topology.at(0):
            if isinstance(op, ScanOp):
                reader_of[op.id] = op.reader
            elif isinstance(op, RowsOp | PartialOp | ApplyOp | LookupOp | SendOp | EmitOp):
                reader_of[op.id] = reader_of[op.source]
                if isinstance(op, EmitOp):
                    result[op.id] = reader_of[op.id]
        return result


def with_system_columns(
    table: pa.Table,
    system_timestamp_ticks: Ints,
    arrival_time_ticks: Ints,
    input_: int,
    partition: int,
) -> pa.Table:
    """The rows with their place in the total order."""
    rows = table.num_rows
    offset = table[OFFSET]
    names = (SYSTEM_TIMESTAMP, ARRIVAL, INPUT, PARTITION, OFFSET)
    values = (
        pa.array(system_timestamp_ticks, type=pa.int64()),
        pa.array(arrival_time_ticks, type=pa.int64()),
        pa.array(np.full(rows, input_, dtype=np.int64)),
        pa.array(np.full(rows, partition, dtype=np.int64)),
        offset,
    )
    types = (Type.DATETIME, Type.DATETIME, Type.BIGINT, Type.BIGINT, Type.BIGINT)
    plain = table.drop_columns([name for name in names if name in table.column_names])
    for name, value, type_ in zip(names, values, types, strict=True):
        plain = plain.append_column(typed_field(name, type_), value)
    return plain


def substream_texts(times: pa.Table, keys: int, partition: int) -> pa.Array:
    """The name of each event's substream; NULL where a part of its key is NULL (`asa.md` 1.2)."""
    names = [f"$over{n}" for n in range(keys)]
    texts = canonical_text(times, names)
    missing = None
    for name in names:
        is_null = pc.is_null(times[name])
        missing = is_null if missing is None else pc.or_(missing, is_null)
    named = pc.binary_join_element_wise(partition_name(partition), texts, "")
    return flat(pc.if_else(missing, pa.scalar(None, pa.string()), named))


def _progress(reader: Reader, partition: int, ingress: Ingress, final: bool) -> Progress:
    """The progress of a reader in a partition; with OVER, its substreams have names of their own."""
    progress = Progress(AFTER_ALL_TICKS) if final else ingress.progress
    if not reader.over:
        return with_early_watermarks(progress, reader.policies.early_percents, ingress)
    everyone = watermarks(
        pa.array([partition_name(partition)]), np.array([progress.watermark_ticks], np.int64)
    )
    ahead = everyone if progress.substreams is None else pa.concat_tables([everyone, progress.substreams])
    return Progress(progress.watermark_ticks, ahead)


def _no_state(_: int) -> MemoryState:
    raise StateError("an operator of level 0 asked for state")
