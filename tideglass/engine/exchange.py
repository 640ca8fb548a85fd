"""What a sender hands on at the end of a batch: chunks by key group, watermarks to every key group."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from tideglass.core import profile
from tideglass.core.columns import by_columns, unify
from tideglass.core.events import Known
from tideglass.core.ipc import to_bytes
from tideglass.engine.key_groups import key_groups_of, partition_groups_of, split
from tideglass.engine.messages import KNOWN_SNAPSHOTS, PERCENTILES, WATERMARKS, Kind, Message
from tideglass.operators.aggregates.grouping import stack
from tideglass.operators.progress import Progress
from tideglass.plan.topology import AlignedSendOp, EmitOp, PartialOp, SendOp, Topology

#: Bytes of rows that wait to be sent as one chunk. Encoded they take a small part of that; left until the end
#: of a large batch they would be most of what a scan holds.
CHUNK_BYTES = 1 << 25


class Sink(Protocol):
    """Where the rows of an output go from inside a task."""

    def put(self, output: str, table: pa.Table, sender: str) -> tuple[Kind, bytes] | None:
        """Take rows of an output. Returns kind and body of a message about them; None for none."""
        ...


class RowSink:
    """Passes the rows themselves on to the driver."""

    def put(self, output: str, table: pa.Table, sender: str) -> tuple[Kind, bytes]:
        return Kind.ROWS, to_bytes(table)


class Exchange:
    """Collects what one sender (a scan task or a key group of a stage) sends in one batch."""

    def __init__(self, topology: Topology, level: int, sender: str, sink: Sink) -> None:
        self._topology = topology
        self._level = level
        self._sender = sender
        self._sink = sink
        self._chunks: dict[int, list[pa.Table]] = {}
        self._sent: list[Message] = []
        self._rows: dict[str, list[pa.Table]] = {}
        self._marks: dict[int, Progress] = {}
        self._reports: list[bytes] = []
        self._forwarded: list[Message] = []

    def send(self, op: SendOp, table: pa.Table) -> None:
        waiting = self._chunks.setdefault(op.id, [])
        waiting.append(table)
        if sum(each.nbytes for each in waiting) >= CHUNK_BYTES:
            self._send_chunk(op, self._chunks.pop(op.id))

    def emit(self, op: EmitOp, table: pa.Table) -> None:
        self._rows.setdefault(op.output, []).append(table)

    def watermark(self, op_id: int, progress: Progress) -> None:
        """Set the progress of this sender at an operator; only that of exits is sent."""
        if isinstance(self._topology.op(op_id), SendOp):
            self._marks[op_id] = progress

    def known(self, known: Known) -> None:
        """Send to every stage that reads reference data how many snapshots count in this batch."""
        body = KNOWN_SNAPSHOTS.body(known)
        self._forwarded += [
            Message(key_group, level, Kind.KNOWN, 0, self._sender, body)
            for level in self._topology.lookup_levels
            for key_group in range(self._topology.key_groups)
        ]

    def withhold(self) -> None:
        """Send WITHHELD: the rows of the batch are not to be emitted."""
        self._forwarded.append(Message(0, self._topology.levels + 1, Kind.WITHHELD, 0, self._sender, b""))

    def report(self, body: bytes) -> None:
        """Send a report. body: of a REPORT."""
        self._reports.append(body)

    def forward(self, message: Message) -> None:
        """Pass on a message that is for a later level or for the driver."""
        self._forwarded.append(message)

    def messages(self) -> list[Message]:
        """Everything that is sent, as messages."""
        driver = self._topology.levels + 1
        for op_id, tables in self._chunks.items():
            self._send_chunk(self._send(op_id), tables)
        self._chunks = {}
        result = [*self._forwarded, *self._sent, *self._mark_messages()]
        for output, tables in self._rows.items():
            for number, alike in enumerate(by_columns(tables)):
                sender = f"{self._sender} columns {number + 1}" if number else self._sender
                with profile.part("writing outputs"):
                    written_body = self._sink.put(output, unify(alike), sender)
                if written_body is not None:
                    ordinal = self._topology.outputs.index(output)
                    result.append(Message(0, driver, written_body[0], ordinal, sender, written_body[1]))
        for body in self._reports:
            result.append(Message(0, driver, Kind.REPORT, self._level, self._sender, body))
        return result

    def _send_chunk(self, op: SendOp, tables: list[pa.Table]) -> None:
        """One message for every key group that has rows; the sender has a number after its first chunk."""
        with profile.part("combining before the exchange"):
            joined = self._joined(op, tables)
        sender = f"{self._sender} chunk {len(self._sent):06}" if self._sent else self._sender
        count = self._topology.key_groups
        if isinstance(op, AlignedSendOp):
            groups = partition_groups_of(joined, op.keys[0], count)
        else:
            groups = key_groups_of(joined, op.keys, count)
        for key_group, part in split(joined, groups, count):
            self._sent.append(Message(key_group, op.to_level, Kind.DATA, op.id, sender, to_bytes(part)))

    def _joined(self, op: SendOp, tables: list[pa.Table]) -> pa.Table:
        """The rows of all tables; the cells of partial aggregates have Arrow types of their own."""
        source = self._topology.op(op.source)
        if not isinstance(source, PartialOp):
            return unify(tables)
        return stack(tables, source.spec.all_keys)

    def _send(self, op_id: int) -> SendOp:
        op = self._topology.op(op_id)
        assert isinstance(op, SendOp)
        return op

    def _mark_messages(self) -> list[Message]:
        result: list[Message] = []
        by_level: dict[int, dict[int, int]] = {}
        for op_id, progress in self._marks.items():
            op = self._send(op_id)
            by_level.setdefault(op.to_level, {})[op_id] = progress.watermark_ticks
            if progress.early_ticks:
                body = PERCENTILES.body(progress.early_ticks)
                result += [
                    Message(key_group, op.to_level, Kind.PERCENTILES, op_id, self._sender, body)
                    for key_group in range(self._topology.key_groups)
                ]
            if progress.substreams is not None and progress.substreams.num_rows:
                body = to_bytes(progress.substreams)
                result += [
                    Message(key_group, op.to_level, Kind.SUBSTREAMS, op_id, self._sender, body)
                    for key_group in range(self._topology.key_groups)
                ]
        for level, marks in by_level.items():
            body = WATERMARKS.body(marks)
            result += [
                Message(key_group, level, Kind.WATERMARK, 0, self._sender, body)
                for key_group in range(self._topology.key_groups)
            ]
        return result
