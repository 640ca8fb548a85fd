"""The ingress on Spark: one `transformWithState` over the inputs that are DataFrames.

Its key is the input, and the share of the input where several ingresses have its partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.taskcontext import TaskContext

from tideglass.connect.reference.references import NO_REFERENCES, References
from tideglass.core.errors import StateError
from tideglass.core.events import Known
from tideglass.core.ipc import from_bytes, to_bytes
from tideglass.core.profile import awaited
from tideglass.engine.exchange import Sink
from tideglass.engine.messages import Kind, Message
from tideglass.engine.profiled import profiled
from tideglass.ingress.partition_watermarks import PartitionWatermarks
from tideglass.ingress.read_from import ANEW, InputBegin
from tideglass.ingress.stream import IngressTask
from tideglass.operators.state.store import MemoryState
from tideglass.plan.topology import Topology
from tideglass.spark.errors import sentence_first
from tideglass.spark.processor import message_of, row_of

_BATCH_ID = "streaming.sql.batchId"


class _InputState(MemoryState):
    """The state of one input in Spark's state store. Chunks are few, so they are named values, too."""

    def __init__(self, named: Any) -> None:
        super().__init__()
        self._named = named

    def append(self, bucket: int, chunk: pa.Table) -> None:
        number = self._count(bucket)
        self.put(_chunk_name(bucket, number), to_bytes(chunk))
        self.put(_chunk_name(bucket), str(number + 1).encode())

    def read(self, bucket: int) -> list[pa.Table]:
        bodies = [self.get(_chunk_name(bucket, number)) for number in range(self._count(bucket))]
        return [from_bytes(body) for body in bodies if body is not None]

    def take(self, bucket: int) -> list[pa.Table]:
        found = self.read(bucket)
        for number in range(self._count(bucket)):
            self._named.removeKey((_chunk_name(bucket, number),))
        if found:
            self._named.removeKey((_chunk_name(bucket),))
        return found

    def _count(self, bucket: int) -> int:
        return int(self.get(_chunk_name(bucket)) or b"0")

    def get(self, name: str) -> bytes | None:
        found = self._named.getValue((name,))
        return None if found is None else bytes(found[0])

    def put(self, name: str, value: bytes) -> None:
        self._named.updateValue((name,), (value,))


def _chunk_name(bucket: int, number: int | None = None) -> str:
    return f"chunks of {bucket}" if number is None else f"chunk {number} of {bucket}"


class IngressProcessor(StatefulProcessor):
    """Hosts an IngressTask per input in Spark. Pickled to the workers; everything else is made there.

    topology: what is computed.
    sink: where rows of level 0 go.
    job, known: see IngressTask.
    input_of: input and share by the number that Spark hashes.
    key_of: per key group of the stages, the number that Spark hashes.
    idle_ms: how often idle time is reported to the stages; None: never.
    references: reference data.
    profile: every ingress reports where its time went.
    partition_watermarks: those of partitions that other ingresses scan; None: there are none.
    begins: by input, where its state begins.
    """

    def __init__(
        self,
        topology: Topology,
        sink: Sink,
        job: str | None,
        input_of: dict[int, tuple[str, int]],
        key_of: tuple[int, ...],
        idle_ms: int | None,
        references: References = NO_REFERENCES,
        known: Known | None = None,
        *,
        profile: bool = False,
        partition_watermarks: PartitionWatermarks | None = None,
        begins: Mapping[str, InputBegin] | None = None,
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
        self._partition_watermarks = partition_watermarks
        self._begins = begins or {}

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
        for message in sentence_first(messages):
            yield row_of(message, self._key_of)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        """Called when nothing has come since the timer was set.

        A run that does not report idle time ignores the timers of an earlier run that did.
        """
        if self._idle_ms is None:
            return
        messages = self._messages(key[0], (), timerValues.getCurrentProcessingTimeInMs())
        for message in sentence_first(messages):
            yield row_of(message, self._key_of)

    def _messages(self, number: int, arriving: Iterable[Message], now_ms: int | None) -> Iterator[Message]:
        messages = list(arriving)
        yield from (each for each in messages if each.kind is Kind.PROFILE)  # of decoding tasks
        name, share = self._input_of[number]
        task = self._tasks.get(number)
        if task is None:
            task = IngressTask(
                self._topology,
                name,
                self._sink,
                self._job,
                self._references,
                self._known,
                self._begins.get(name, ANEW),
                share,
            )
            self._tasks[number] = task
        if now_ms is not None and self._idle_ms is not None and task.idles:
            for timer_ms in list(self._handle.listTimers()):
                self._handle.deleteTimer(timer_ms)
            self._handle.registerTimer(now_ms + self._idle_ms)
        partition_watermarks = self._partition_watermarks
        elsewhere = (
            None if partition_watermarks is None else lambda: partition_watermarks.before(_batch(), name)
        )
        yield from task.run(messages, _InputState(self._named), now_ms, elsewhere)

    def close(self) -> None:
        """Nothing is held open."""


def _batch() -> int:
    """The number of the task's batch."""
    context = TaskContext.get()
    number = None if context is None else context.getLocalProperty(_BATCH_ID)
    if number is None:
        raise StateError("Spark does not say which batch a task belongs to")
    return int(number)
