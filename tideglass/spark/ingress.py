"""The ingress on Spark: one `transformWithState` over the inputs that are DataFrames.

It is keyed by input, and by share where several ingresses have the partitions of one between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.taskcontext import TaskContext

from tideglass.connect.reference.references import NO_REFERENCES, Known, References
from tideglass.core.errors import StateError
from tideglass.core.profile import awaited
from tideglass.plan.topology import Topology
from tideglass.runtime.exchange import Sink
from tideglass.runtime.ingress import IngressTask
from tideglass.runtime.message import Kind, Message
from tideglass.runtime.peers import Peers
from tideglass.runtime.profiled import profiled
from tideglass.spark.processor import message_of, row_of
from tideglass.temporal.state import MemoryState

_BATCH_ID = "streaming.sql.batchId"


class _InputState(MemoryState):
    """Named values of one input in Spark's state store; a scan keeps no chunks."""

    def __init__(self, named: Any) -> None:
        super().__init__()
        self._named = named

    def get(self, name: str) -> bytes | None:
        found = self._named.getValue((name,))
        return None if found is None else bytes(found[0])

    def put(self, name: str, value: bytes) -> None:
        self._named.updateValue((name,), (value,))


class IngressProcessor(StatefulProcessor):
    """Hosts an IngressTask per input in Spark. Pickled to the workers; everything else is made there.

    input_of: the input and the share of each number Spark hashes. idle_ms: how often silence is told to the
    stages; None: never. known: see IngressTask. profile: every ingress says where its time went. peers: tells
    of partitions that are scanned elsewhere; None: none is.
    """

    def __init__(
        self,
        topology: Topology,
        sink: Sink,
        job: str,
        input_of: dict[int, tuple[str, int]],
        key_of: tuple[int, ...],
        idle_ms: int | None,
        references: References = NO_REFERENCES,
        known: Known | None = None,
        *,
        profile: bool = False,
        peers: Peers | None = None,
    ) -> None:
        self._topology = topology
        self._sink = sink
        self._job = job
        self._input_of = input_of
        self._key_of = key_of
        self._idle_ms = idle_ms
        self._references = references
        self._known = known
        self._profile = profile
        self._peers = peers

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._named = handle.getMapState("named", "name STRING", "body BINARY")
        self._tasks: dict[int, IngressTask] = {}

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        now_ms = None if self._idle_ms is None else timerValues.getCurrentProcessingTimeInMs()
        messages = self._messages(key[0], (message_of(row, 0) for row in awaited(rows)), now_ms)
        if self._profile:
            name, share = self._input_of[key[0]]
            messages = profiled(messages, self._topology, 0, f"ingress {share} of {name}")
        for message in messages:
            yield row_of(message, self._key_of)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        """Spark calls it by these names. Nothing came, or the timer would have been set anew."""
        for message in self._messages(key[0], (), timerValues.getCurrentProcessingTimeInMs()):
            yield row_of(message, self._key_of)

    def _messages(self, number: int, given: Iterable[Message], now_ms: int | None) -> Iterator[Message]:
        messages = list(given)
        yield from (each for each in messages if each.kind is Kind.REPORT)  # of who has decoded the events
        name, share = self._input_of[number]
        task = self._tasks.get(number)
        if task is None:
            task = IngressTask(
                self._topology, name, self._sink, self._job, self._references, self._known, share
            )
            self._tasks[number] = task
        if now_ms is not None and self._idle_ms is not None and task.idles:
            for timer_ms in list(self._handle.listTimers()):
                self._handle.deleteTimer(timer_ms)
            self._handle.registerTimer(now_ms + self._idle_ms)
        peers = self._peers
        elsewhere = None if peers is None else lambda: peers.before(_batch(), name)
        yield from task.run(messages, _InputState(self._named), now_ms, elsewhere)

    def close(self) -> None:
        """Nothing is held open."""


def _batch() -> int:
    """The number of the batch the task is of, as Spark tells its tasks."""
    context = TaskContext.get()
    number = None if context is None else context.getLocalProperty(_BATCH_ID)
    if number is None:
        raise StateError("Spark does not say which batch a task belongs to")
    return int(number)
