"""The in-process driver: the same scans and stages as on Spark, in one process, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from tideglass.connect.reference.references import NO_REFERENCES, References
from tideglass.core.events import Chunk
from tideglass.core.ipc import from_bytes
from tideglass.engine.exchange import Exchange, RowSink, Sink
from tideglass.engine.key_group import KeyGroupTask
from tideglass.engine.messages import Kind, Message, for_driver
from tideglass.engine.profiled import profiled
from tideglass.ingress.idle_periods import IdlePeriod
from tideglass.ingress.scan import IdleTime, Scan, ScanState
from tideglass.operators.state.store import MemoryState
from tideglass.plan.topology import Topology, check_partitions


@dataclass(frozen=True, slots=True)
class PartitionBatch:
    """The chunks of one input partition in a batch.

    input: the name of the input
    partition: the number of the partition
    chunks: its events
    idle_time: as in `Scan.run`
    idle_periods: as in `Scan.run`
    """

    input: str
    partition: int
    chunks: Sequence[Chunk] = ()
    idle_time: IdleTime | None = None
    idle_periods: Sequence[IdlePeriod] = ()


@dataclass(slots=True)
class LocalState:
    """All state of a local run, by owner. Plain values and MemoryStates, so it can be copied."""

    scans: dict[tuple[str, int], bytes] = field(default_factory=dict[tuple[str, int], bytes])
    stages: dict[tuple[int, int, int], MemoryState] = field(
        default_factory=dict[tuple[int, int, int], MemoryState]
    )


class LocalDriver:
    """Runs a topology in this process.

    `restart()` throws away everything a process holds in memory except its state, as a restart from a
    checkpoint does; it exists so that tests can show it changes nothing. profile: every scan and key
    group reports where its time went, as on Spark.
    """

    def __init__(
        self,
        topology: Topology,
        sink: Sink | None = None,
        references: References = NO_REFERENCES,
        *,
        profile: bool = False,
    ) -> None:
        self.topology = topology
        self.references = references
        self.profile = profile
        self.sink: Sink = sink or RowSink()
        self.state = LocalState()
        self.restart()

    def restart(self) -> None:
        self._scans: dict[str, Scan] = {}
        self._tasks = {
            level: KeyGroupTask(self.topology, level, self.sink, self.references)
            for level in range(1, self.topology.levels + 1)
        }

    def run(self, batch: Sequence[PartitionBatch], *, final: bool = False) -> list[Message]:
        """Run one batch, naming every partition of every input; answers with the messages for the driver."""
        messages: list[Message] = []
        for name in self.topology.fields:
            partitions = sum(share.input == name for share in batch)
            check_partitions(self.topology.readers, name, partitions)
        for share in batch:
            sender = f"{share.input}/{share.partition}"
            messages += self._with_profile(self._scan(share, sender, final), 0, sender)
        for level in self._tasks:
            received = messages
            messages = []
            for key_group in range(self.topology.key_groups):
                mine = [m for m in received if m.key_group == key_group]
                made = self._stage(level, key_group, mine)
                messages += self._with_profile(made, level, f"stage {level} key group {key_group}")
        return for_driver(messages)

    def _with_profile(self, messages: Iterator[Message], level: int, sender: str) -> Iterator[Message]:
        return profiled(messages, self.topology, level, sender) if self.profile else messages

    def _stage(self, level: int, key_group: int, received: Sequence[Message]) -> Iterator[Message]:
        def state_of(op: int) -> MemoryState:
            return self.state.stages.setdefault((level, key_group, op), MemoryState())

        yield from self._tasks[level].run(key_group, received, state_of)

    def _scan(self, share: PartitionBatch, sender: str, final: bool) -> Iterator[Message]:
        scan = self._scans.setdefault(share.input, Scan(self.topology, share.input, self.references))
        key = (share.input, share.partition)
        saved = self.state.scans.get(key)
        messages, after = scan.run(
            share.partition,
            str(share.partition),
            share.chunks,
            ScanState() if saved is None else ScanState.from_bytes(saved),
            Exchange(self.topology, 0, sender, self.sink),
            idle_time=share.idle_time,
            idle_periods=share.idle_periods,
            final=final,
            known=self.references.find(None),
        )
        self.state.scans[key] = after.to_bytes()
        yield from messages


def rows_by_output(topology: Topology, messages: Sequence[Message]) -> Mapping[str, list[pa.Table]]:
    """The result rows among the driver's messages, per output."""
    result: dict[str, list[pa.Table]] = {name: [] for name in topology.outputs}
    for message in messages:
        if message.kind is Kind.ROWS:
            result[topology.outputs[message.target]].append(from_bytes(message.body))
    return result


__all__ = ["LocalDriver", "LocalState", "PartitionBatch", "rows_by_output"]
