"""The ingress on Spark: one `transformWithState` over the inputs that are DataFrames, keyed by input."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from tideglass.plan.topology import Topology
from tideglass.runtime.exchange import Sink
from tideglass.runtime.ingress import IngressTask
from tideglass.runtime.message import Message
from tideglass.spark.processor import message_of, row_of
from tideglass.temporal.state import MemoryState


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

    input_of: the input of each number Spark hashes. idle_ms: how often silence is told to the stages;
    None: never.
    """

    def __init__(
        self,
        topology: Topology,
        sink: Sink,
        job: str,
        input_of: dict[int, str],
        key_of: tuple[int, ...],
        idle_ms: int | None,
    ) -> None:
        self._topology = topology
        self._sink = sink
        self._job = job
        self._input_of = input_of
        self._key_of = key_of
        self._idle_ms = idle_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._named = handle.getMapState("named", "name STRING", "body BINARY")
        self._tasks: dict[int, IngressTask] = {}

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        now_ms = None if self._idle_ms is None else timerValues.getCurrentProcessingTimeInMs()
        messages = [message_of(row, 0) for row in rows]
        yield from self._run(key[0], messages, now_ms)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        """Spark calls it by these names. Nothing came, or the timer would have been set anew."""
        yield from self._run(key[0], [], timerValues.getCurrentProcessingTimeInMs())

    def _run(self, number: int, messages: list[Message], now_ms: int | None) -> Iterator[Row]:
        task = self._tasks.get(number)
        if task is None:
            task = IngressTask(self._topology, self._input_of[number], self._sink, self._job)
            self._tasks[number] = task
        if now_ms is not None and self._idle_ms is not None and task.idles:
            for timer_ms in list(self._handle.listTimers()):
                self._handle.deleteTimer(timer_ms)
            self._handle.registerTimer(now_ms + self._idle_ms)
        for message in task.run(messages, _InputState(self._named), now_ms):
            yield row_of(message, self._key_of)

    def close(self) -> None:
        """Nothing is held open."""
