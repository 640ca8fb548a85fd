"""One key group of one stateful stage over one batch: messages in, messages out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa

from tideglass.connect.reference.references import NO_REFERENCES, References
from tideglass.core.documents import Plain
from tideglass.core.failing_rows import Failed, added
from tideglass.core.ipc import from_bytes
from tideglass.core.time import BEFORE_ALL_TICKS
from tideglass.engine.exchange import Exchange, Sink
from tideglass.engine.messages import KNOWN_SNAPSHOTS, PERCENTILES, WATERMARKS, Kind, Message
from tideglass.engine.reports import STAGE_REPORT, StageReport
from tideglass.engine.sender_watermarks import SenderWatermarks
from tideglass.engine.stage import Stage
from tideglass.operators.holds import Component, Hold
from tideglass.operators.progress import Progress
from tideglass.operators.state.store import CachedState, State
from tideglass.plan.fingerprint import state_ids
from tideglass.plan.topology import ReceiveOp, ScanOp, Topology, sources_of

#: The name under which the rows a stage left out are kept.
_FAILED = "failed"
_FAILED_ROWS: Plain[Mapping[int, Failed]] = Plain(Mapping[int, Failed])


class KeyGroupTask:
    """Runs a stage for key groups. Made once per worker; holds no rows between runs.

    topology, level: the stage.
    sink: where rows of outputs go.
    references: reference data.
    remembers: a sender that sends nothing in a batch has its last known watermark. Not needed where every
        sender sends something in every batch, as our own source does.
    """

    def __init__(
        self,
        topology: Topology,
        level: int,
        sink: Sink,
        references: References = NO_REFERENCES,
        *,
        remembers: bool = False,
    ) -> None:
        self.topology = topology
        self.level = level
        self.sink = sink
        self.remembers = remembers
        self._stage = Stage(topology, level, references)
        self._receives = [op for op in self._stage.ops if isinstance(op, ReceiveOp)]
        self._origins = {op.id: _origin(topology, op.send) for op in self._receives}
        self._state_ids = state_ids(topology)

    @property
    def state_ids(self) -> frozenset[int]:
        """The numbers the state of its operators is kept under; no other state is ever asked for."""
        return frozenset(self._state_ids[op.id] for op in self._stage.ops)

    def run(
        self, key_group: int, messages: Iterable[Message], state_of: Callable[[int], State]
    ) -> list[Message]:
        """Take a batch's messages, advance every operator, and return what is sent.

        Chunks are taken in the order of their senders, whatever order they arrive in.
        state_of: the state kept under a number of `state_ids`.
        """
        states: dict[int, State] = {}

        def state_of_op(op_id: int) -> State:
            number = self._state_ids[op_id]
            if number not in states:
                states[number] = CachedState(state_of(number))
            return states[number]

        exchange = Exchange(self.topology, self.level, f"stage {self.level} key group {key_group}", self.sink)
        chunks: dict[int, list[tuple[str, pa.Table]]] = {}
        watermarks: dict[tuple[int, str], Progress] = {}
        ahead: dict[tuple[int, str], pa.Table] = {}
        early: dict[tuple[int, str], tuple[tuple[int, int], ...]] = {}
        known: dict[str, int] = {}
        here: list[Message] = []
        for message in messages:
            if message.level != self.level:
                exchange.forward(message)
            else:
                here.append(message)
        here.sort(key=lambda m: (m.kind, m.target, m.sender))
        for message in here:  # substreams and percentiles sort before the watermark of their sender
            if message.kind is Kind.SUBSTREAMS:
                ahead[message.target, message.sender] = from_bytes(message.body)
            elif message.kind is Kind.PERCENTILES:
                early[message.target, message.sender] = PERCENTILES.of_body(message.body)
            elif message.kind is Kind.DATA:
                chunks.setdefault(message.target, []).append((message.sender, from_bytes(message.body)))
            elif message.kind is Kind.KNOWN:
                # Senders may have learnt of snapshots in different batches.
                for name, count in KNOWN_SNAPSHOTS.of_body(message.body).items():
                    known[name] = max(count, known.get(name, 0))
            else:
                for send, watermark_ticks in WATERMARKS.of_body(message.body).items():
                    sender = (send, message.sender)
                    watermarks[sender] = Progress(watermark_ticks, ahead.get(sender), early.get(sender, ()))
        if self.remembers and self._receives:
            sender_watermarks = SenderWatermarks.load(state_of_op(self._receives[0].id))
            sender_watermarks.take(watermarks)
            watermarks = sender_watermarks.watermarks
        by_send: dict[int, dict[str, Progress]] = {}
        for (send, sender), op_progress in watermarks.items():
            by_send.setdefault(send, {})[sender] = op_progress
        entries = {op.id: [table for _, table in chunks.get(op.send, ())] for op in self._receives}
        progress = {op.id: Progress.of_senders([*by_send.get(op.send, {}).values()]) for op in self._receives}
        result = self._stage.run(entries, progress, state_of_op, known)
        for send, table in result.sends:
            exchange.send(send, table)
        for emit, table in result.emits:
            exchange.emit(emit, table)
        for op_id, op_progress in result.progress.items():
            exchange.watermark(op_id, op_progress)
        watermark_ticks = min((each.watermark_ticks for each in progress.values()), default=BEFORE_ALL_TICKS)
        failed = self._failed(result.failed, state_of_op)
        awaited = {op.id: self._awaited(op, by_send.get(op.send, {})) for op in self._receives}
        operators = self._stage.reports(result, state_of_op, known, awaited)
        report = StageReport(self.level, key_group, failed, watermark_ticks, operators)
        exchange.report(STAGE_REPORT.body(report))
        return exchange.messages()

    def _awaited(self, op: ReceiveOp, senders: Mapping[str, Progress]) -> tuple[Hold, ...]:
        """The sender that holds the watermark of an exchange: one that has not reported, or the slowest."""
        if not senders:
            return (_waits_for(self._origins[op.id], BEFORE_ALL_TICKS),)
        name = min(senders, key=lambda sender: (senders[sender].watermark_ticks, sender))
        least_ticks = senders[name].watermark_ticks
        others_ahead = any(each.watermark_ticks > least_ticks for each in senders.values())
        return (_waits_for(name, least_ticks),) if others_ahead or least_ticks == BEFORE_ALL_TICKS else ()

    def _failed(self, later: Mapping[int, Failed], state_of: Callable[[int], State]) -> Mapping[int, Failed]:
        """The rows left out since the state began, kept with the state of the stage's first operator.

        state_of: the state of an operator, by its id.
        """
        if not self.topology.drops_failing_rows:
            return {}
        later = {self._state_ids[op_id]: each for op_id, each in later.items()}
        state = state_of(self._receives[0].id)
        before = state.get(_FAILED)
        totals = added({} if before is None else _FAILED_ROWS.of_body(before), later)
        if later:
            state.put(_FAILED, _FAILED_ROWS.body(totals))
        return totals


def _waits_for(sender: str, watermark_ticks: int) -> Hold:
    return Hold(Component.SOURCE, f"waits for {sender}", watermark_ticks, holds_watermark=True)


def _origin(topology: Topology, send: int) -> str:
    """Who sends at an exchange: an input, or a stage."""
    op = topology.op(send)
    while op.level == 0 and (sources := sources_of(op)):
        op = topology.op(sources[0])
    if isinstance(op, ScanOp):
        return f"input {topology.readers[op.reader].input}"
    return f"stage {op.level}"
